#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid bcube check` on an emulated BCube(3,2): nothing is found on a healthy one, each injected fault is found by its code and
# with the name of the NIC, cable or switch, and nothing else is; after the remedy it is healthy again. Root only.
set -euo pipefail
# shellcheck source=tests/system/testbed.sh
. "$BRAID_SOURCE/tests/system/testbed.sh"
braid=$BRAID_BUILD/braid
name=chk$$
if [[ $(id -u) -ne 0 ]]; then
    echo "skipped: needs root for network namespaces"
    exit 77
fi
scratch=$(mktemp -d)
cleanup() {
    for testbed in "$name" "${name}b"; do
        "$braid" bcube down "$testbed" > "$scratch/down" 2>&1 || true
    done
    rm -rf "$scratch"
}
trap cleanup EXIT
ulimit -l unlimited 2> /dev/null || true # a limit below 8 MiB is a finding, and it would be right
if ! "$braid" bcube emulate 3 2 --rate 60mbit --name "$name" > "$scratch/out" 2>&1; then
    cat "$scratch/out"
    can_emulate && exit 1
    echo "skipped: this machine emulates no testbed"
    exit 77
fi
injected=0

fail() {
    echo "FAILED: $*"
    cat "$scratch/out" "$scratch/err" 2> /dev/null || true
    exit 1
}

check() {
    local rc=0
    timeout 120 "$braid" bcube check --name "$name" "$@" > "$scratch/out" 2> "$scratch/err" || rc=$?
    return $rc
}

# The findings of one check.
findings() {
    grep -E '^(error|warning) ' "$scratch/out" || true
}

# Rates, losses and latencies are measured, and all hosts share this machine: while one stands still, its links look bad. What is injected
# stays, so such a finding is asked for again; the tenth answer counts.
# in_the_end WHAT COMMAND...: the command says whether this is what should have been found.
in_the_end() {
    local try what=$1
    shift
    for try in {1..10}; do
        "$@" && return
        printf '%s, check %d of 10: %s\n' "$what" "$try" "$(findings)"
    done
    return 1
}

only() { # CODE PATTERN [OPTION...]
    local rc=0 code=$1 pattern=$2
    shift 2
    check "$@" || rc=$?
    [[ $rc -eq 1 && $(findings | wc -l) -eq 1 ]] && findings | grep -qE "^[a-z]+ +$code " && findings | grep -qE -- "$pattern"
}

# found CODE PATTERN [OPTION...]: exit code 1, exactly one finding, of this code, whose title names what PATTERN does.
found() {
    local code=$1 pattern=$2
    in_the_end "$code injected" only "$@" || fail "not exactly one finding, $code that says '$pattern'"
    grep -q '^        remedy: .' "$scratch/out" || fail "$code without a remedy"
    injected=$((injected + 1))
}

fault() {
    "$braid" bcube fault --name "$name" "$@" > "$scratch/fault" 2>&1 || fail "fault $*: $(cat "$scratch/fault")"
}

# by_fault CODE PATTERN FAULT...: with a fault of `braid bcube fault`, which is cleared afterwards.
by_fault() {
    local code=$1 pattern=$2 cleared=clear
    shift 2
    if [[ ${!#} == down ]]; then
        cleared=up
    fi
    fault "$@"
    found "$code" "$pattern"
    local words=("$@")
    case $1 in
        nic | switch | host | level) unset 'words[-1]' ;;
        move | mtu | switch-mtu | rate | address | loss) unset 'words[-1]' ;;
    esac
    fault "${words[@]}" "$cleared"
}

# by_remedy CODE PATTERN FAULT...: the command behind "remedy:" repairs it.
by_remedy() {
    local code=$1 pattern=$2 command
    shift 2
    fault "$@"
    found "$code" "$pattern"
    command=$(sed -n 's/^        remedy: //p' "$scratch/out")
    PATH=$BRAID_BUILD:$PATH bash -c "$command" > "$scratch/fault" 2>&1 || fail "'$command' fails: $(cat "$scratch/fault")"
    healthy
    fault clear
}

# at HOST COMMAND...: on a host; on all switches' namespace with `switches`.
at() {
    local place=$1
    shift
    ip netns exec "$name-$place" "$@"
}

# address HOST NIC: "10.0.0.1/24"
address() {
    at "$1" ip -4 -o addr show dev "$2" | awk '{ print $4; exit }'
}

healthy() {
    in_the_end healthy check "$@" || fail "$(date +%T) a healthy testbed has findings"
    grep -q '^healthy' "$scratch/out" || fail "no word of health"
}

healthy --json "$scratch/json" --html "$scratch/page.html"
grep -q '"healthy":.*true' "$scratch/json" || fail "the JSON does not say healthy"
grep -q '<svg' "$scratch/page.html" || fail "the page has no drawing"
if grep -qE 'https?://[^w]' "$scratch/page.html" && grep -qE '(src|href)=' "$scratch/page.html"; then
    fail "the page needs something outside it"
fi

# Cables.
by_fault BC020 'eth0 and eth1 of host h11' swap h11 0 1
by_fault BC022 'eth0 of h12 .*s0-2 .*s0-1' move h12 0 2
by_fault BC016 'carrier .*eth1 of h02 .*port 0 of switch s1-2' nic h02 1 down
by_fault BC016 'carrier .*host h20' host h20 down
by_fault BC028 'switch s1-0' switch 1 0 down

at switches ip link set l0s1p2 nomaster
at switches ip link set l0s2p0 nomaster
at switches ip link set l0s1p2 master l0s2
at switches ip link set l0s2p0 master l0s1
found BC021 'eth0 of h12 .*eth0 of h20|eth0 of h20 .*eth0 of h12'
at switches ip link set l0s1p2 master l0s1
at switches ip link set l0s2p0 master l0s2

by_fault BC024 's0-0 and s0-1' join s0-0 s0-1
by_fault BC025 's0-0 and s1-2 .*levels' join s0-0 s1-2
by_fault BC028 'switch s1-1' mute 1 1
by_fault BC027 'eth0 of h12 .*port 2 of switch s0-1' deaf h12 0
at switches ip link set l1s1p0 nomaster
found BC026 'eth1 of h01 .*port 0 of switch s1-1'
at switches ip link set l1s1p0 master l1s1

# NICs.
by_remedy BC015 'eth1 of h21' off h21 1
by_remedy BC011 'eth1 of h10 .*enp7s0' name h10 1 enp7s0
by_remedy BC018 'eth0 of h22 and eth1 of h20|eth1 of h20 and eth0 of h22' mac h20 1 "$(at h22 ip -br link show eth0 | awk '{ print $3 }')"

one=$(address h10 eth1)
at h10 ip link set eth1 netns "$name-switches"
found BC010 'h10 .*eth1'
at switches ip link set eth1 netns "$name-h10"
at h10 ip addr add "$one" dev eth1
at h10 ip link set eth1 up
at h10 sysctl -qw net.ipv4.conf.eth1.arp_ignore=1 net.ipv4.conf.eth1.arp_announce=2 net.ipv4.conf.eth1.rp_filter=2

inventory=/run/braid/$name/inventory.yaml
mac=$(at h22 ip -br link show eth0 | awk '{ print $3 }')
one=$(address h11 eth1)
sed "s/$mac/02:00:5e:00:00:01/" "$inventory" > "$scratch/mac.yaml"
found BC012 'eth0 of h22 .*MAC' --inventory "$scratch/mac.yaml"
sed "s#address: $one#address: $one, pci: \"0000:3b:00.0\"#" "$inventory" > "$scratch/pci.yaml"
found BC013 'eth1 of h11 .*PCI' --inventory "$scratch/pci.yaml"
sed "s#address: $one#address: $one, rate: 25gbit#" "$inventory" > "$scratch/rate.yaml"
found BC017 'eth1 of h11 .*10 Gb/s .*25' --inventory "$scratch/rate.yaml"
sed "0,/reach: $name-h02/s//reach: $name-nowhere/" "$inventory" > "$scratch/host.yaml"
found BC001 'host h02' --inventory "$scratch/host.yaml"

# MTU.
by_remedy BC050 'eth1 of h20 .*MTU of 1400 .*1500' mtu h20 1 1400
by_fault BC051 'switch port of eth0 of h11' switch-mtu h11 0 1400

# Addresses.
by_remedy BC041 'eth0 of h10 .*10.77.0.1/24 .*10.0.1.1/24.*subnet' address h10 0 10.77.0.1/24
by_remedy BC042 'eth0 of h10 .*10.0.0.1.*eth0 of h00' address h10 0 10.0.0.1/24
one=$(address h02 eth1)
at h02 ip addr del "$one" dev eth1
found BC040 'eth1 of h02 .*address'
at h02 ip addr add "${one%/*}/25" dev eth1
found BC044 'eth1 of h02 .*/25 .*/24'
at h02 ip addr del "${one%/*}/25" dev eth1
at h02 ip addr add "$one" dev eth1
one=$(address h21 eth0) two=$(address h21 eth1)
at h21 ip addr flush dev eth0
at h21 ip addr flush dev eth1
at h21 ip addr add "$two" dev eth0
at h21 ip addr add "$one" dev eth1
found BC043 'eth0 and eth1 of host h21'
at h21 ip addr flush dev eth0
at h21 ip addr flush dev eth1
at h21 ip addr add "$one" dev eth0
at h21 ip addr add "$two" dev eth1

# Settings.
by_remedy BC061 'ARP .*h12' arp h12
by_remedy BC060 'rp_filter .*eth0 of h22, eth1 of h22$' rp_filter h22
# Root, whom the limit does not bind, can do without the right to pass it by.
printf '#!/bin/sh\nulimit -l 64\nexec setpriv --bounding-set -ipc_lock %s "$@"\n' "$braid" > "$scratch/limited"
chmod +x "$scratch/limited"
unlimited=$braid
braid=$scratch/limited
found BC062 'locked memory .*h00'
braid=$unlimited

# Rates and losses.
by_fault BC082 'link of eth0 of h02' rate h02 0 15mbit
by_fault BC081 'eth1 of h21' loss h21 1 8
at h01 tc qdisc replace dev eth1 root tbf rate 12mbit burst 128kb limit 512kb
found BC082 'eth1 of h01 sends'
at h01 tc qdisc replace dev eth1 root tbf rate 60mbit burst 128kb limit 512kb

healthy

# What cannot be checked is neither healthy nor full of findings.
refused() {
    local rc=0 pattern=$1
    shift
    timeout 120 "$braid" bcube check "$@" > "$scratch/out" 2> "$scratch/err" || rc=$?
    [[ $rc -eq 2 ]] || fail "exit code $rc instead of 2: $*"
    grep -q -- "$pattern" "$scratch/err" "$scratch/out" || fail "no '$pattern': $*"
}
refused 'no testbed' --name nowhere
refused "$scratch/none.yaml" --inventory "$scratch/none.yaml"
refused 'no option' --nonsense
sed "s/reach: $name-/reach: nowhere-/" "$inventory" > "$scratch/all.yaml"
refused 'BC001' --inventory "$scratch/all.yaml"

# Two ports a switch; a partial cube; alpha and beta.
"$braid" bcube down "$name" > "$scratch/down" 2>&1
name=${name}b
"$braid" bcube emulate 2 2 --hosts 3 --rate 100mbit --name "$name" > "$scratch/out" 2>&1 || fail "emulate 2 2"
healthy
by_fault BC020 'eth0 and eth1 of host h00' swap h00 0 1
by_fault BC086 'level 1 .*0.0[23].* of 0.1 Gb/s' rate h10 1 30mbit
healthy
matrix() {
    timeout 120 "$braid" bcube matrix --name "$name" --json "$scratch/matrix.json" --svg "$scratch/matrix.svg" > "$scratch/out" || fail "matrix"
    grep -q '^1/beta, Gb/s: median 0.0[89]' "$scratch/out"
}
in_the_end matrix matrix || fail "beta is not that of 100 Mb/s"
[[ $(grep -c beta_s_per_byte "$scratch/matrix.json") -eq 4 ]] || fail "3 hosts of BCube(2,2) have 4 directions of links"
grep -q '</svg>' "$scratch/matrix.svg" || fail "no drawing"
echo "$injected injected faults found, each as the one finding"
[[ $injected -ge 20 ]] || fail "only $injected faults were injected"
