#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The udp back end beside a bare UDP sender, beside TCP on a path that loses packets; two flows on one link; eight senders to one port.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 seconds=4 rate=200mbit parts="bare loss flows incast" losses="0 0.1 1 5"

usage() {
    cat <<END
Usage: bench/udp.sh [options]
  --parts "P ..."  bare: against a bare sender, 1500 and 9000 bytes; loss: beside TCP on a link that loses packets;
                   flows: two flows share a link; incast: eight senders to one port
  --losses "L ..." per cent of the packets, both ways (default $losses)
  --rounds N       alternating (default $rounds); the median is shown
  --seconds S      of each (default $seconds)
  --rate RATE      of the link in all parts but \`bare\` (default $rate)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "parts losses rounds seconds rate" "$@"
for tool in braid bench/udp_bare; do
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

ratio() {
    awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else print "-" }'
}

# flow NAMESPACE BACKEND PORT SECONDS: Gbit/s of payload from there to b.
flow() {
    local options=(perf write_bw --backend "$2" -d veth0 -s 262144 -t 16 -Q 1 -p "$3" -D "$4" --report_gbits --output bandwidth) server
    ip netns exec "$net_b" timeout 60 "$build/braid" "${options[@]}" > /dev/null 2>&1 &
    server=$!
    for _ in $(seq 100); do
        [[ -n $(ip netns exec "$net_b" ss -Hltn "sport = :$3") ]] && break
        sleep 0.05
    done
    ip netns exec "$1" timeout 60 "$build/braid" "${options[@]}" 10.77.0.2 2> "$work/error.$3"
    wait "$server"
}

bare() { # PACKET_BYTES [HEAD_BYTES]
    ip netns exec "$net_b" timeout 60 "$build/bench/udp_bare" receive 10.77.0.2 > "$work/bare" &
    local reader=$!
    sleep 0.2
    ip netns exec "$net_a" "$build/bench/udp_bare" -s "$1" -D "$seconds" ${2:+--head "$2"} send 10.77.0.2
    wait "$reader"
    cat "$work/bare"
}

mtu() { # BYTES
    ip -n "$net_a" link set veth0 mtu "$1"
    ip -n "$net_b" link set veth0 mtu "$1"
}

part_bare() {
    local bytes a b h
    echo "Gbit/s over veth, median of $rounds rounds; pieces: bare, each packet a header and a piece of 4 MiB of memory"
    printf '%6s %8s %8s %8s %10s %10s %8s\n' mtu bare pieces udp udp/bare udp/pieces tcp
    for bytes in 1500 9000; do
        mtu $bytes
        : > "$work/a"; : > "$work/b"; : > "$work/c"; : > "$work/h"
        for _ in $(seq "$rounds"); do
            bare $((bytes - 28)) >> "$work/a"
            bare $((bytes - 28)) 48 >> "$work/h"
            flow "$net_a" udp 7001 "$seconds" >> "$work/b"
            flow "$net_a" tcp 7001 "$seconds" >> "$work/c"
        done
        a=$(median < "$work/a") b=$(median < "$work/b") h=$(median < "$work/h")
        printf '%6s %8s %8s %8s %10s %10s %8s\n' $bytes "$a" "$h" "$b" "$(ratio "$b" "$a")" "$(ratio "$b" "$h")" "$(median < "$work/c")"
    done
    mtu 1500
}

# The link gets a rate, and packets on it are those of the wire.
shaped=
shape() {
    [[ -z $shaped ]] || return 0
    shaped=1
    local side
    for side in "$net_a" "$net_b"; do
        ip netns exec "$side" ethtool -K veth0 tso off gso off tx-udp-segmentation off > /dev/null 2>&1
        tc -n "$side" qdisc add dev veth0 ingress
    done
    namespaces_shape "$rate"
}

# Whoever receives drops a share of what comes, by chance: a filter in classic BPF, as not every kernel has netem. It returns 2 (drop)
# when a random word is at most $most, else 0 (pass).
lose() { # PERCENT
    local side most
    most=$(awk "BEGIN { printf \"%d\", $1 / 100 * 4294967295 }")
    for side in "$net_a" "$net_b"; do
        tc -n "$side" filter del dev veth0 ingress 2> /dev/null
        [[ $1 == 0 ]] || tc -n "$side" filter add dev veth0 ingress protocol all pref 1 bpf direct-action \
            bytecode "4,32 0 0 4294963256,37 1 0 $most,6 0 0 2,6 0 0 0" || exit 1
    done
}

part_loss() {
    local percent backend
    shape
    echo "Gbit/s over a link of $rate that loses packets, both ways, median of $rounds rounds"
    printf '%8s %8s %8s\n' loss% tcp udp
    for percent in $losses; do
        lose "$percent"
        : > "$work/tcp"; : > "$work/udp"
        for _ in $(seq "$rounds"); do
            for backend in tcp udp; do flow "$net_a" "$backend" 7001 "$seconds" >> "$work/$backend"; done
        done
        printf '%8s %8s %8s\n' "$percent" "$(median < "$work/tcp")" "$(median < "$work/udp")"
    done
    lose 0
}

part_flows() {
    local first
    shape
    echo "two flows over a link of $rate, Gbit/s, and the smaller over the larger"
    for _ in $(seq "$rounds"); do
        flow "$net_a" udp 7001 "$seconds" > "$work/a" &
        first=$!
        flow "$net_a" udp 7002 "$seconds" > "$work/b"
        wait "$first"
        awk '{ v[NR] = $1 } END { print v[1], v[2], v[1] < v[2] ? v[1] / v[2] : v[2] / v[1] }' "$work/a" "$work/b"
    done
}

# A switch with eight hosts more, and room for 256 KiB in the port to b.
senders=()
crowd() {
    local i name
    net_c=${net_a}c
    ip netns add "$net_c"
    ip -n "$net_c" link add switch type bridge
    ip -n "$net_c" link set switch up
    ip -n "$net_b" link del veth0
    for i in b 1 2 3 4 5 6 7 8; do
        name=$net_b
        [[ $i == b ]] || { name=$net_a$i; ip netns add "$name"; senders+=("$name"); }
        ip link add veth0 netns "$name" type veth peer name "port_$i" netns "$net_c"
        ip -n "$name" addr add "10.77.0.$([[ $i == b ]] && echo 2 || echo $((10 + i)))/24" dev veth0
        ip netns exec "$name" ethtool -K veth0 tso off gso off tx-udp-segmentation off > /dev/null 2>&1
        ip -n "$name" link set veth0 up
        ip -n "$name" link set lo up
        ip -n "$net_c" link set "port_$i" master switch up
    done
    tc -n "$net_c" qdisc add dev port_b root tbf rate "$rate" burst 32kb limit 256kb
    for name in "$net_b" "${senders[@]}"; do
        while [[ $(ip -n "$name" -o link show veth0) != *"state UP"* ]]; do sleep 0.05; done
    done
}

end_crowd() {
    local name
    jobs -p | xargs -r kill 2> /dev/null
    for name in "${senders[@]}" ${net_c:+"$net_c"}; do ip netns del "$name"; done 2> /dev/null
    namespaces_down
}
trap end_crowd EXIT

part_incast() {
    local i round pids
    crowd
    export BRAID_SPIN_US=20 # 16 processes
    echo "senders to one port of $rate with room for 256 KiB: Gbit/s in all, least and most, packets the port dropped of those it carried"
    for round in $(seq "$rounds"); do
        printf 'round %d\n1: %s\n' "$round" "$(flow "${senders[0]}" udp 7001 "$((2 * seconds))")"
        : > "$work/all"
        pids=()
        tc -n "$net_c" -s qdisc show dev port_b > "$work/before"
        for i in {1..8}; do
            flow "${senders[i - 1]}" udp $((7000 + i)) "$((2 * seconds))" >> "$work/all" &
            pids+=($!)
        done
        wait "${pids[@]}"
        tc -n "$net_c" -s qdisc show dev port_b > "$work/after"
        sort -g "$work/all" | awk '{ v[NR] = $1; sum += $1 } END { printf "%d: %.4f %s %s  ", NR, sum, v[1], v[NR] }'
        awk '/Sent/ { sub(",", "", $7); sent[FILENAME] = $4; lost[FILENAME] = $7 }
            END { b = ARGV[1]; a = ARGV[2]; print lost[a] - lost[b] " of " sent[a] - sent[b] }' "$work/before" "$work/after"
    done
}

for part in $parts; do "part_$part"; done
