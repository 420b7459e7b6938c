#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Collectives over the dpdk back end: ranks are processes with ports of DPDK on veth interfaces, in a network namespace of this test.
# Also a port that is missing, and one that another rank has.
set -uo pipefail
braid=$BRAID_BUILD/braid
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
# shellcheck source=tests/says.sh
. "$BRAID_SOURCE/tests/says.sh"

if [[ ${1:-} != inside ]]; then
    [[ -e $BRAID_BUILD/braid_dpdk.so ]] || { echo "skipped: built without libdpdk-dev" >&2; exit 77; }
    [[ $(id -u) -eq 0 ]] || { echo "skipped: making network interfaces needs root" >&2; exit 77; }
    unshare -n true 2> /dev/null || { echo "skipped: no network namespaces here" >&2; exit 77; }
    exec unshare -n bash "$0" inside
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    tail -n 40 "$work/out" "$work/err" >&2
    exit 1
}

# ranks N COMMAND...: on the ports of BRAID_DPDK_PORTS.
ranks() {
    local n=$1
    shift
    timeout -k 1 200 "$braid" run -n "$n" --backend dpdk -- "$braid" "$@" > "$work/out" 2> "$work/err"
}

# says NOUNS WHAT: a line of either output has all the nouns, which | separates.
says() {
    says_all "$work/out" "$1" || says_all "$work/err" "$1" || fail "$2: no line with $1"
}

# is_right WHAT: the columns and the summary of the table say so.
is_right() {
    grep -q 'Out of bounds values : 0 OK' "$work/out" || fail "wrong values $1"
}

sent() {
    awk -v name="$1:" '$1 == name { print $11 }' /proc/net/dev
}

# Indexes that are far apart: net_af_packet numbers its groups of sockets by process ^ index, and two ranks in one namespace must differ.
{ ip link set lo up && ip link add port0 index 4096 type veth peer name port1 index 45056 && ip link set port0 up &&
    ip link set port1 up; } || { echo "skipped: no veth interfaces here" >&2; exit 77; }
export BRAID_DPDK_PORTS="net_af_packet0,iface=port0,address=10.99.0.1/24; net_af_packet1,iface=port1,address=10.99.0.2/24"

ranks 2 allreduce -b 8 -e 32768 -f 64 -n 3 -w 1 || fail "allreduce ended with $?"
is_right "on veth"
grep -q 'back end dpdk' "$work/out" || fail "another back end"
[[ $(sent port0) -gt 40 && $(sent port1) -gt 40 ]] || fail "the ports have sent $(sent port0) and $(sent port1) packets"

own="net_af_packet0,iface=port0,address=10.99.0.1/24,mac=02:00:00:00:01:01; net_af_packet1,iface=port1,address=10.99.0.2/24,mac=02:00:00:00:01:02"
BRAID_DPDK_PORTS=$own ranks 2 allreduce -b 32768 -e 32768 -n 3 -w 1 || fail "allreduce with MAC addresses of our own ended with $?"
is_right "with MAC addresses of our own"
grep -q EAL "$work/out" "$work/err" && fail "DPDK logs"

# A rank that knows the other's MAC address from the start sends no ARP request.
tcpdump -i port0 -w /dev/null arp 2> "$work/tcpdump" &
listener=$!
within 30 grep -q 'listening on' "$work/tcpdump"
BRAID_DPDK_PORTS=${own//;/,neighbour=10.99.0.2@02:00:00:00:01:02;},neighbour=10.99.0.1@02:00:00:00:01:01 \
    ranks 2 allreduce -b 8 -e 8 -n 3 -w 1 || fail "allreduce with static neighbours ended with $?"
kill $listener && wait $listener
grep -q '^0 packets received by filter' "$work/tcpdump" || fail "static neighbours are asked for by ARP"

for collective in broadcast reduce reduce_scatter allgather alltoall; do
    ranks 2 $collective -b 65536 -e 65536 -n 3 -w 1 || fail "$collective ended with $?"
    is_right "of $collective"
done

# A port that is not connected to the other rank's.
ip link add lone0 type veth peer name lone1 && ip link set lone0 up && ip link set lone1 up
BRAID_INIT_TIMEOUT=4 BRAID_DPDK_PORTS="net_af_packet0,iface=port0,address=10.99.0.1/24; net_af_packet1,iface=lone0,address=10.99.0.2/24" \
    ranks 2 allreduce -b 8 -e 8 && fail "ports that are not connected"
says 'level 0|device net_af_packet' "ports that are not connected"

# Where the driver is installed, and the kernel supports it.
BRAID_DPDK_PORTS="net_af_xdp0,iface=port0,address=10.99.0.1/24; net_af_xdp1,iface=port1,address=10.99.0.2/24" "$braid" info > "$work/out" 2> "$work/err"
if [[ $(grep -A1 'dpdk *net_af_xdp' "$work/out") != *'not usable'* ]]; then
    # A library behind that driver leaks 80 bytes a process.
    ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
        BRAID_DPDK_PORTS="net_af_xdp0,iface=port0,address=10.99.0.1/24; net_af_xdp1,iface=port1,address=10.99.0.2/24" \
        ranks 2 allreduce -b 8 -e 32768 -f 64 -n 3 -w 1 || fail "allreduce over net_af_xdp ended with $?"
    is_right "over net_af_xdp"
fi

ip link set port0 mtu 9000 && ip link set port1 mtu 9000
ranks 2 allreduce -b 32768 -e 32768 -n 3 -w 1 || fail "allreduce with an MTU of 9000 ended with $?"
is_right "with an MTU of 9000"

# Taps, which are put on a bridge as soon as they appear.
if [[ -c /dev/net/tun ]] && ip link add bridge0 type bridge && ip link set bridge0 up; then
    export BRAID_DPDK_PORTS="net_tap0,iface=tap0,address=10.99.0.1/24; net_tap1,iface=tap1,address=10.99.0.2/24"
    ranks 2 allreduce -b 8 -e 32768 -f 64 -n 3 -w 1 &
    job=$!
    for tap in tap0 tap1; do
        until ip link set $tap master bridge0 up 2> "$work/tap"; do
            kill -0 $job 2> /dev/null || fail "no $tap: $(cat "$work/tap")"
        done
    done
    wait $job || fail "allreduce over net_tap ended with $?"
    is_right "over net_tap"
fi

# Shared memory of two processes; Client and server start at the same time, in either order.
export BRAID_DPDK_PORTS="net_memif0,role=server,socket=$work/memif,mac=02:00:00:00:00:01,address=10.99.0.1/24; \
net_memif1,role=client,socket=$work/memif,mac=02:00:00:00:00:02,address=10.99.0.2/24"
ranks 2 allreduce -b 8 -e 32768 -f 64 -n 3 -w 1 || fail "allreduce over net_memif ended with $?"
is_right "over net_memif"
export BRAID_DPDK_PORTS="net_af_packet0,iface=port0,address=10.99.0.1/24; net_af_packet1,iface=port1,address=10.99.0.2/24"

ranks 3 allreduce -b 8 -e 8 && fail "three ranks on two ports"
says '2 ports|DPDK' "too few ports"

BRAID_DPDK_PORTS="net_af_packet0,iface=nowhere,address=10.99.0.1/24" ranks 2 allreduce -b 8 -e 8 &&
    fail "a port on an interface that is not there"
says '0 ports|DPDK' "a missing interface"
BRAID_DPDK_PORTS="net_af_packet0,iface=nowhere,address=10.99.0.1/24" "$braid" info > "$work/out" 2> "$work/err"
says 'not usable|interface nowhere' "braid info, a missing interface"

BRAID_DPDK_PORTS="net_ring0,address=10.99.0.1/24" "$braid" info > "$work/out" 2> "$work/err"
says 'not usable|net_ring|net_memif' "braid info, a port that receives only what it has sent itself"

export BRAID_DPDK_PORTS="ffff:1f:1f.7,address=10.99.0.1/24"
ranks 2 allreduce -b 8 -e 8 && fail "a PCI device that is not there"
"$braid" info > "$work/out" 2> "$work/err"
says 'not usable|no PCI device' "braid info, a missing PCI device"
