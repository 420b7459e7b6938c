#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two hosts with two NICs each: a NIC whose link comes up after the start is waited for; one that stays down ends both ranks, with its name and
# long before the time to start is over. Needs root and network namespaces.
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
hosts=("nic$$a" "nic$$b")
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    for host in "${hosts[@]}"; do ip netns del "$host" 2>/dev/null; done
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*"
    tail -n 5 "$work"/out.*
    exit 1
}

if ((EUID)) || ! ip netns add "${hosts[0]}" 2>/dev/null; then
    echo "skipped: namespaces need root"
    exit 77
fi
ip netns add "${hosts[1]}" || fail "a second namespace"
for nic in mgmt data; do
    [[ $nic == mgmt ]] && net=10.99.1 || net=10.99.2
    ip -n "${hosts[0]}" link add $nic type veth peer name $nic netns "${hosts[1]}" || fail "a veth"
    for r in 0 1; do
        ip -n "${hosts[r]}" addr add "$net.$((r + 1))/24" dev $nic
    done
done
for r in 0 1; do ip -n "${hosts[r]}" link set lo up && ip -n "${hosts[r]}" link set mgmt up; done
ip -n "${hosts[0]}" link set data up # without a carrier: its other end is down

# start TIMEOUT DEVICES0 DEVICES1: a rank on each host; out.R has its output
start() {
    local devices=("$2" "$3") port=$((20000 + RANDOM % 9000))
    ranks=()
    for r in 0 1; do
        ip netns exec "${hosts[r]}" env RANK=$r WORLD_SIZE=2 MASTER_ADDR=10.99.1.1 MASTER_PORT=$port BRAID_SECRET=a-secret-of-the-tests \
            BRAID_LOG=info BRAID_INIT_TIMEOUT="$1" ${devices[r]:+BRAID_DEVICES=${devices[r]}} "$braid" barrier -n 1 -w 0 >"$work/out.$r" 2>&1 &
        ranks+=($!)
    done
}

waits() { grep -q 'data is down.*waiting' "$work/out.$1"; }

late() { # false: this machine stood still for longer than the ranks wait, or they do not wait
    ip -n "${hosts[1]}" link set data down
    start 120 data data
    within 25 waits 0 && within 25 waits 1
    ip -n "${hosts[1]}" link set data up
    local failed=0
    for r in 0 1; do wait "${ranks[r]}" || failed=1; done
    return $failed
}
late || late || late || fail "NICs that come up after the start are not waited for"

ip -n "${hosts[1]}" link set data down
begin=$SECONDS
start 120 mgmt no-such-nic
for r in 0 1; do wait "${ranks[r]}" && fail "rank $r starts without a NIC of rank 1"; done
grep -q 'no network interface no-such-nic' "$work/out.1" || fail "rank 1 does not name what is not there"
grep -q 'rank 1' "$work/out.0" || fail "rank 0 does not name rank 1"
((SECONDS - begin < 60)) || fail "$((SECONDS - begin)) s until rank 0 knew"

start 8 mgmt data
for r in 0 1; do wait "${ranks[r]}" && fail "rank $r starts with a NIC that is down"; done
grep -q '^braid barrier.*data is down' "$work/out.1" || fail "rank 1 does not name the NIC"
grep -q 'rank 1' "$work/out.0" || fail "rank 0 does not name rank 1"
echo "NICs are waited for"
