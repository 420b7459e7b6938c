#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The dpdk back end over an emulated BCube(2,2): an all-to-all, of which the pairs that share no switch are relayed by others, and
# all-reduces during which a NIC breaks and comes back.
set -uo pipefail
# shellcheck source=tests/system/rows.sh
. "$BRAID_SOURCE/tests/system/rows.sh"
# shellcheck source=tests/system/testbed.sh
. "$BRAID_SOURCE/tests/system/testbed.sh"
braid=$BRAID_BUILD/braid
bed=d$$ # nobody else's
work=$(mktemp -d)
export BRAID_PEER_TIMEOUT=10 BRAID_BACKEND=dpdk # four processes that poll, on two cores or fewer
export BRAID_DPDK_PORTS="net_af_packet0,iface=eth0; net_af_packet1,iface=eth1"

[[ -e $BRAID_BUILD/braid_dpdk.so ]] || { echo "skipped: built without libdpdk-dev" >&2; exit 77; }
[[ $EUID -eq 0 ]] || { echo "skipped: a network namespace a host needs root" >&2; exit 77; }

# shellcheck disable=SC2317 # called by the trap
cleanup() {
    [[ -e /run/braid/$bed ]] && "$braid" bcube down "$bed" > /dev/null
    rm -rf "$work"
}
trap cleanup EXIT

fail() {
    echo "FAILED: $*" >&2
    cut -c1-220 "$work/out" | tail -40 >&2
    exit 1
}

# Host h00's frames on a level so far.
sent() { # LEVEL
    "$braid" bcube exec --name "$bed" h00 -- cat "/sys/class/net/eth$1/statistics/tx_packets"
}

"$braid" bcube emulate 2 2 --name "$bed" --rate 100mbit > "$work/out" 2>&1 || {
    echo "skipped: no testbed can be emulated here: $(head -1 "$work/out")" >&2
    can_emulate && exit 1
    exit 77
}

timeout -k 1 200 "$braid" bcube run --name "$bed" -- "$braid" alltoall -b 64K -e 64K -n 2 -w 1 > "$work/out" 2>&1 ||
    fail "alltoall ended with $?"
grep -q 'Out of bounds values : 0 OK' "$work/out" || fail "wrong values"
grep -q 'back end dpdk' "$work/out" || fail "another back end"
[[ $(sent 0) -gt 40 && $(sent 1) -gt 40 ]] || fail "h00 has sent $(sent 0) and $(sent 1) packets on its levels"

timeout -s KILL 300 "$braid" bcube run --name "$bed" --timeout 290 -- \
    "$braid" allreduce -b 64K -e 5M -i 256 -n 2 -w 0 -c 1 --algorithm direct > "$work/out" 2>&1 &
job=$!
more_rows 2 || fail "the all-reduces do not begin"
"$braid" bcube fault --name "$bed" nic h01 0 down || fail "no fault"
more_rows 3 || fail "the all-reduces do not go on without a NIC"
"$braid" bcube fault --name "$bed" nic h01 0 up || fail "no end of the fault"
more_rows 3 || fail "the all-reduces do not go on with the NIC again"
kill "$job" && wait "$job"
grep -E '^\[h00\] +[0-9]+ +[0-9]+ ' "$work/out" | awk '$10 + $14 > 0 { exit 1 }' || fail "a result was wrong"
exit 0
