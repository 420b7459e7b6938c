#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Jobs on an emulated BCube: they join and carry when it is wired as planned; else every rank ends in the same words, which name
# the cable. Needs root and network namespaces.
set -euo pipefail
# shellcheck source=tests/system/testbed.sh
. "$BRAID_SOURCE/tests/system/testbed.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
bed=join$$
trap '"$braid" bcube down "$bed" >"$work/down" 2>&1 || true; rm -rf "$work"' EXIT

if ((EUID)); then
    echo "skipped: emulated hosts need root"
    exit 77
fi

build() { # N K HOSTS
    n=$1 k=$2 hosts=$3
    if ! "$braid" bcube emulate "$n" "$k" --hosts "$hosts" --rate none --name "$bed" >"$work/emulate" 2>&1; then
        echo "skipped: no emulated BCube here: $(tail -1 "$work/emulate")"
        can_emulate && exit 1
        exit 77
    fi
}

# Every rank runs the command; out.R is what it says, and codes has the exit codes.
job() { # DEVICES
    local devices=$1 port=$((20000 + RANDOM % 9000)) pids=()
    for ((r = 0; r < hosts; r++)); do
        "$braid" bcube exec --name "$bed" "$r" -- env RANK=$r WORLD_SIZE="$hosts" MASTER_ADDR=10.255.0.1 \
            MASTER_PORT=$port BRAID_SECRET=a-secret-of-the-tests ${inventory:+BRAID_INVENTORY=$inventory} BRAID_TOPOLOGY="bcube:$n,$k" BRAID_MACHINE_RANKS="$hosts" \
            BRAID_INIT_TIMEOUT=120 ${devices:+BRAID_DEVICES=$devices} "$BRAID_BUILD/tests/test_system_bcube" rank >"$work/out.$r" 2>&1 &
        pids+=($!)
    done
    codes=
    for pid in "${pids[@]}"; do
        local code=0
        wait "$pid" || code=$?
        codes+=" $code"
    done
}

fail() {
    echo "FAILED: $1"
    tail -n 5 "$work"/out.*
    exit 1
}

joins() { # DEVICES
    job "$1"
    [[ $codes != *[1-9]* ]] || fail "BCube($n,$k) of $hosts hosts, devices ${1:-not said}: exit codes$codes"
}

refused() { # DEVICES NOUN|NOUN...
    local said noun nouns
    job "$1"
    IFS='|' read -ra nouns <<<"$2"
    for ((r = 0; r < hosts; r++)); do
        said=$(grep "^error: .*BCube($n,$k)" "$work/out.$r") || fail "rank $r is not refused"
        for noun in "${nouns[@]}"; do
            [[ $said == *"$noun"* ]] || fail "rank $r does not name '$noun': $said"
        done
    done
}

fault() {
    "$braid" bcube fault --name "$bed" "$@" || fail "fault $*"
}

inventory=
build 2 2 4
joins eth0,eth1
joins "" # mgmt0 is there too, and the levels are heard
refused eth1,eth0 "rank 0 (host h00)|cables of eth1 (level 0)|eth0 (level 1)"
fault swap 3 0 1
refused eth0,eth1 "rank 3 (host h11)|cables of eth0 (level 0)|eth1 (level 1)"
"$braid" bcube down "$bed" >"$work/down"

build 3 2 7 # without the last two
joins eth0,eth1
joins ""
"$braid" bcube run --name "$bed" -- "$braid" calibrate -o "$work/cal.json" >"$work/out.0" 2>&1 && fail "levels without all hosts are measured"
grep -q 'hosts of BCube(3,2)' "$work/out.0" || fail "calibrate does not say what is missing"
"$braid" bcube down "$bed" >"$work/down"

build 3 2 9
joins eth0,eth1
fault swap h11 0 1
refused eth0,eth1 "rank 4 (host h11)|cables of eth0 (level 0)|eth1 (level 1)"
fault clear
fault move h11 1 0
refused eth0,eth1 "rank 4 (host h11)|eth1 (level 1)|into switch <1,0>|into <1,1>"
refused "" "rank 4 (host h11)|eth1|into switch <1,0>|into <1,1>"
inventory=/run/braid/$bed/inventory.yaml
refused "" "rank 4 (host h11)|eth1 (level 1)|into switch <1,0>|into <1,1>"
fault clear
fault nic h11 0 down
refused eth0,eth1 "rank 4 (host h11)|eth0 (level 0)|carrier|ip link set eth0 up"
fault clear
fault switch 0 1 down
refused eth0,eth1 "switch <0,1>|carrier|eth0 of rank 3|eth0 of rank 4|eth0 of rank 5"
fault clear
joins "" # the inventory says which NIC is which level
inventory=
fault address h11 1 10.99.0.1/24
job eth0,eth1
for ((r = 0; r < hosts; r++)); do
    grep -qE "^error: .*switch <1,1> of level 1.*rank 1: eth1 has [0-9./]+ .*rank 4: eth1 has 10.99.0.1/24" \
        "$work/out.$r" || fail "rank $r does not say which addresses are wrong"
done
fault clear
if command -v ip >/dev/null; then # what no fault of the emulation does
    switches() { ip -n "$bed-switches" link "$@" || fail "ip link $*"; }
    switches set l1s1p1 master l0s1
    refused eth0,eth1 "rank 4 (host h11)|eth0 (level 0)|eth1 (level 1)|on switch <0,1>|into <1,1>"
    switches set l1s1p1 master l1s1
    joins eth0,eth1
    switches add one type veth peer name other
    switches set one master l0s0 up
    switches set other master l1s0 up
    refused eth0,eth1 "levels 0 and 1|<0,0>|<1,0>"
fi
"$braid" bcube down "$bed" >"$work/down"
echo ok
