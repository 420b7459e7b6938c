#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The dpdk back end beside a bare loop of bursts on the same virtual device: net_af_packet over a pair of veths, and net_memif.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 seconds=2 devices="af_packet memif" mtus="1500 9000" parts="goodput latency" trips=50000

usage() {
    cat <<END
Usage: bench/dpdk.sh [options]
  --parts "P ..."    goodput: frames of 64 KiB against a bare sender; latency: 32 bytes there and back, and messages a second
  --devices "D ..."  af_packet, memif (default both; latency is of memif)
  --mtus "M ..."     default $mtus
  --rounds N         alternating (default $rounds); the median is shown
  --seconds S        of each bare run; ours send as much as they did (default $seconds)
BRAID_BUILD names the build directory (default build/release). Needs root, for a network namespace.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "parts devices mtus rounds seconds" "$@"
for tool in braid_dpdk.so bench/dpdk_bare bench/transport_pingpong; do
    [[ -x $build/$tool ]] || { echo "$build/$tool is not built (it needs libdpdk-dev)" >&2; exit 2; }
done
if [[ -z ${BRAID_BENCH_INSIDE:-} ]]; then
    [[ $(id -u) == 0 ]] || { echo "needs root for a network namespace: run it with sudo" >&2; exit 2; }
    BRAID_BENCH_INSIDE=1 exec unshare -n bash "$0" "$@"
fi

work=$(mktemp -d)
trap 'jobs -p | xargs -r kill 2> /dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# net_af_packet numbers its groups of sockets by process ^ index of the interface: indexes far apart keep two processes apart.
ip link set lo up && ip link add port0 index 4096 type veth peer name port1 index 45056 &&
    ip link set port0 up && ip link set port1 up || exit 1

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'
}
ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else print "-" }'
}

# device KIND SIDE MTU: as DPDK names it. Side 0 is the server of memif.
device() {
    local frame=2048 count=2048 role=server buffer=2048
    (($3 > 1900)) && frame=12288 count=1024 buffer=9216
    (($2)) && role=client
    if [[ $1 == af_packet ]]; then
        echo "net_af_packet$2,iface=port$2,blocksz=$((frame > 4096 ? frame : 4096)),framesz=$frame,framecnt=$count"
    else
        echo "net_memif$2,role=$role,id=0,socket=$work/memif.sock,rsize=10,bsize=$buffer,mac=02:00:00:00:00:0$(($2 + 1))"
    fi
}

# bare KIND MTU BYTES [OPTION]: Gbit/s and packets a second.
bare() {
    local kind=$1 mtu=$2 bytes=$3
    shift 3
    timeout 60 "$build/bench/dpdk_bare" "$@" -c 1 -m "$mtu" receive "$(device "$kind" 0 "$mtu")" > "$work/bare" 2> "$work/error" &
    local reader=$!
    timeout 60 "$build/bench/dpdk_bare" "$@" -c 0 -m "$mtu" -s "$bytes" -D "$seconds" send "$(device "$kind" 1 "$mtu")" 2>> "$work/error" ||
        cat "$work/error" >&2
    wait "$reader"
    cat "$work/bare"
}
bare_trips() { # MTU: us, of 32 bytes behind Ethernet, IPv4 and UDP
    timeout 60 "$build/bench/dpdk_bare" -c 1 -m "$1" pong "$(device memif 0 "$1")" > "$work/error" 2>&1 &
    timeout 60 "$build/bench/dpdk_bare" -c 0 -m "$1" -s 32 -n "$trips" ping "$(device memif 1 "$1")"
    wait
}

# ours KIND MTU OPTION...: what transport_pingpong prints.
ours() {
    local kind=$1 mtu=$2 own0 own1
    shift 2
    # A MAC address of its own where the driver has the interface's: the bare loop's packets (EtherType 88b5) the kernel drops at once, too.
    [[ $kind == af_packet ]] && own0=,mac=02:00:00:00:00:01 own1=,mac=02:00:00:00:00:02
    BRAID_DPDK_PORTS="$(device "$kind" 0 "$mtu"),address=10.99.0.1/24,mtu=$mtu${own0-}; $(device "$kind" 1 "$mtu"),address=10.99.0.2/24,mtu=$mtu${own1-}" \
        timeout 60 "$build/bench/transport_pingpong" -b dpdk -d "net_${kind}0" -p "net_${kind}1" "$@" 2> "$work/error" || cat "$work/error" >&2
}

part_goodput() {
    local kind mtu a z b count
    echo "Gbit/s of payload, median of $rounds rounds; raw: neither end touches the payload"
    printf '%10s %6s %8s %8s %8s %8s %8s\n' device mtu raw bare braid braid/bare braid/raw
    for kind in $devices; do
        for mtu in $mtus; do
            ip link set port0 mtu "$mtu" && ip link set port1 mtu "$mtu"
            : > "$work/a"; : > "$work/b"; : > "$work/z"
            for _ in $(seq "$rounds"); do
                bare "$kind" "$mtu" $((mtu - 28)) -z >> "$work/z"
                bare "$kind" "$mtu" $((mtu - 28)) >> "$work/a"
                count=$(awk -v s="$seconds" 'END { n = int($1 * s * 1e9 / 8 / 65536); print (n > 1e6 ? 1000000 : n < 100 ? 100 : n) }' "$work/a")
                ours "$kind" "$mtu" -s 65536 -w 32 -n "$count" stream | sed -n 's/.* \([0-9.]*\) Gb.*/\1/p' >> "$work/b"
            done
            a=$(median < "$work/a") b=$(median < "$work/b") z=$(median < "$work/z")
            printf '%10s %6s %8s %8s %8s %8s %8s\n' "$kind" "$mtu" "$z" "$a" "$b" "$(ratio "$b" "$a")" "$(ratio "$b" "$z")"
        done
    done
}

part_latency() {
    local a b
    : > "$work/a"; : > "$work/b"; : > "$work/c"; : > "$work/d"
    for _ in $(seq "$rounds"); do
        bare_trips 1500 >> "$work/a"
        ours memif 1500 -s 32 -n "$trips" writes | sed -n 's/.* p50 \([0-9.]*\) us.*/\1/p' | awk '{ print 2 * $1 }' >> "$work/b"
        bare memif 1500 32 | awk '{ print $2 / 1e6 }' >> "$work/c"
        ours memif 1500 -s 32 -w 64 -n 1000000 stream | sed -n 's/.* \([0-9.]*\) MB.*/\1/p' | awk '{ print $1 / 32 }' >> "$work/d"
    done
    a=$(median < "$work/a") b=$(median < "$work/b")
    echo "net_memif, 32 bytes, median of $rounds rounds: round trip us, million messages a second of one core each way"
    printf '%12s %8s %8s %8s\n' "" bare braid ratio
    printf '%12s %8s %8s %8s\n' "round trip" "$a" "$b" "$(ratio "$b" "$a")"
    a=$(median < "$work/c") b=$(median < "$work/d")
    printf '%12s %8s %8s %8s\n' "messages" "$a" "$b" "$(ratio "$b" "$a")"
}

for part in $parts; do "part_$part"; done
