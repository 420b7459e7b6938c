#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The udp back end beside a bare UDP sender, beside TCP on a path that loses packets, and two flows on one path.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 seconds=2 rate=500mbit parts="bare loss flows"

usage() {
    cat <<END
usage: bench/udp.sh [options]
  --parts "P ..."  bare: against a bare sender, 1500 and 9000 bytes; loss: beside TCP at 0, 0.1, 1 and 5 percent; flows: two flows share
  --rounds N       alternating (default $rounds); the median is shown
  --seconds S      of each (default $seconds)
  --rate RATE      of the link in \`loss\` and \`flows\` (default $rate)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
while (($#)); do
    case $1 in
    --parts) parts=$2 ;; --rounds) rounds=$2 ;; --seconds) seconds=$2 ;; --rate) rate=$2 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift 2 || { usage >&2; exit 2; }
done
for tool in braid bench/udp_bare bench/lossy_wire; do
    [[ -x $build/$tool ]] || { echo "$build/$tool is not built: ninja -C $build" >&2; exit 2; }
done

# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
namespaces_up
BRAID_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export BRAID_SECRET

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "-" }'
}

# perf BACKEND PORT SECONDS: Gbit/s of payload from a to b.
perf() {
    local options=(perf write_bw --backend "$1" -d veth0 -s 1048576 -p "$2" -D "$3" --report_gbits) server
    ip netns exec "$net_b" timeout 60 "$build/braid" "${options[@]}" > /dev/null 2>&1 &
    server=$!
    for _ in $(seq 100); do
        [[ -n $(ip netns exec "$net_b" ss -Hltn "sport = :$2") ]] && break
        sleep 0.05
    done
    ip netns exec "$net_a" timeout 60 "$build/braid" "${options[@]}" 10.77.0.2 2> "$work/error" |
        awk '$1 == 1048576 { print $4 }'
    wait "$server"
}

bare() { # PACKET_BYTES
    ip netns exec "$net_b" timeout 60 "$build/bench/udp_bare" receive 10.77.0.2 9999 > "$work/bare" &
    local reader=$!
    sleep 0.2
    ip netns exec "$net_a" "$build/bench/udp_bare" send 10.77.0.2 9999 "$1" "$seconds"
    wait "$reader"
    cat "$work/bare"
}

mtu() { # BYTES
    ip -n "$net_a" link set veth0 mtu "$1"
    ip -n "$net_b" link set veth0 mtu "$1"
}

part_bare() {
    local bytes a b
    echo "Gbit/s over veth, median of $rounds rounds"
    printf '%6s %8s %8s %8s %8s\n' mtu bare udp ratio uring
    for bytes in 1500 9000; do
        mtu $bytes
        : > "$work/a"; : > "$work/b"; : > "$work/c"
        for _ in $(seq "$rounds"); do
            bare $((bytes - 28)) >> "$work/a"
            perf udp 7001 "$seconds" >> "$work/b"
            perf uring 7001 "$seconds" >> "$work/c"
        done
        a=$(median < "$work/a") b=$(median < "$work/b")
        printf '%6s %8s %8s %8s %8s\n' $bytes "$a" "$b" "$(awk "BEGIN { print $b / $a }")" "$(median < "$work/c")"
    done
    mtu 1500
}

# The pair of veths becomes two pairs with a lossy wire between them.
wire=
lossy() { # PERCENT
    local middle=${net_a}m side
    if [[ -z $wire ]]; then
        ip netns add "$middle"
        ip -n "$net_a" link del veth0
        for side in "$net_a 10.77.0.1 wire_a" "$net_b 10.77.0.2 wire_b"; do
            ip link add veth0 netns "${side%% *}" type veth peer name "${side##* }" netns "$middle"
            ip -n "${side%% *}" addr add "$(cut -d' ' -f2 <<< "$side")/24" dev veth0
            ip -n "${side%% *}" link set veth0 up
            ip -n "$middle" link set "${side##* }" up
            ip netns exec "${side%% *}" ethtool -K veth0 tx off tso off gso off tx-udp-segmentation off > /dev/null 2>&1
        done
        namespaces_shape "$rate"
    else
        kill "$wire"
        wait "$wire" 2> /dev/null
    fi
    ip netns exec "$middle" "$build/bench/lossy_wire" wire_a wire_b "$1" &
    wire=$!
    sleep 0.3
}
end_wire() {
    [[ -z $wire ]] || { kill "$wire"; ip netns del "${net_a}m"; } 2> /dev/null
    namespaces_down
}
trap end_wire EXIT

part_loss() {
    local percent backend
    echo "Gbit/s over a link of $rate that loses packets, both ways, median of $rounds rounds"
    printf '%8s %8s %8s\n' loss% uring udp
    for percent in 0 0.1 1 5; do
        lossy "$percent"
        : > "$work/uring"; : > "$work/udp"
        for _ in $(seq "$rounds"); do
            for backend in uring udp; do perf "$backend" 7001 "$seconds" >> "$work/$backend"; done
        done
        printf '%8s %8s %8s\n' "$percent" "$(median < "$work/uring")" "$(median < "$work/udp")"
    done
}

part_flows() {
    echo "two flows over a link of $rate, Gbit/s, the second as long as the first"
    lossy 0
    for _ in $(seq "$rounds"); do
        perf udp 7001 "$((2 * seconds))" > "$work/a" &
        local first=$!
        perf udp 7002 "$((2 * seconds))" > "$work/b"
        wait "$first"
        echo "$(cat "$work/a") $(cat "$work/b")"
    done
}

for part in $parts; do "part_$part"; done
