#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Does `braid calibrate` find the latency and rate that are injected in the links of emulated hosts, and do MG-WFBP's a and b of a ring
# follow from them? bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
hosts="2 4 8" rate=50 delay=5000 rounds=1 keep=

usage() {
    cat << END
Usage: bench/injected_links.sh [options]
  --hosts "2 4 8"  hosts on one switch, a rank each. With more than 4 single links are not measured: those of the row before count
  --rate N         of each host's link, Mbit/s (default $rate)
  --delay N        us from host to host (default $delay)
  --rounds N       of \`braid calibrate\`; medians count (default $rounds)
  --keep DIR       the calibrations stay there
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "hosts rate delay rounds keep" "$@"
hosts_list=$hosts
[[ -x $build/bench/link_delay ]] || { echo "$build/bench/link_delay is not built" >&2; exit 2; }
[[ $(id -u) == 0 ]] || { echo "needs root for network namespaces: run it with sudo" >&2; exit 2; }

work=$(mktemp -d) name=brp$$ wires=() made=()

down() {
    local space pids
    ((${#wires[@]} == 0)) || { kill "${wires[@]}"; wait "${wires[@]}"; } 2> /dev/null
    for space in "${made[@]}"; do
        pids=$(ip netns pids "$space" 2> /dev/null)
        # shellcheck disable=SC2086 # a list
        [[ -z $pids ]] || kill -9 $pids 2> /dev/null
        ip netns del "$space" 2> /dev/null
    done
    wires=() made=()
}
trap 'down; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

add_space() {
    ip netns add "$1" || exit 1
    made+=("$1")
}

# host's veth0 -- wire -- port of a bridge. Half of the delay on each of the two wires of a path.
up() { # HOSTS
    local i host ends=() middle=${name}m
    add_space "$middle"
    ip -n "$middle" link add switch type bridge
    ip -n "$middle" link set switch up
    for ((i = 0; i < $1; i++)); do
        host=$name-$i
        add_space "$host"
        ip link add veth0 netns "$host" type veth peer name a$i netns "$middle"
        ip -n "$middle" link add b$i type veth peer name p$i
        ip -n "$middle" link set p$i master switch
        for end in a$i b$i p$i; do ip -n "$middle" link set "$end" up; done
        ip -n "$host" addr add 10.77.0.$((i + 1))/24 dev veth0
        ip -n "$host" link set veth0 up
        ip -n "$host" link set lo up
        ip netns exec "$host" ethtool -K veth0 tx off tso off gso off > /dev/null || exit 1
        ip netns exec "$host" tc qdisc add dev veth0 root tbf rate "${rate}mbit" burst 6kb latency 100ms || exit 1
        ends+=("a$i" "b$i")
    done
    ip netns exec "$middle" "$build/bench/link_delay" --delay $((delay / 2)) "${ends[@]}" &
    wires=($!)
    sleep 0.5 # until the wires' sockets are open
}

# No rank spins: it would take a core from the wires, which stand for what has processors of its own.
calibrate() { # HOSTS
    local i pids=() options=() secret failed=0
    (($1 <= 4)) || options=(--no-links) # 56 links of the same kind
    secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    for ((i = 0; i < $1; i++)); do
        ip netns exec "$name-$i" env RANK=$i WORLD_SIZE="$1" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 BRAID_SECRET="$secret" \
            BRAID_DEVICES=veth0 BRAID_BACKEND=tcp BRAID_EAGER_BYTES=16K BRAID_TCP_CONGESTION=cubic BRAID_MACHINE_RANKS="$1" BRAID_SPIN_US=0 \
            timeout 180 "$build/braid" calibrate -o "$work/calibration.json" --rounds "$rounds" --collectives allreduce -e 1M \
            "${options[@]}" > "$work/out$i" 2>&1 &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || failed=1; done
    ((failed == 0)) || { cat "$work"/out* >&2; exit 1; }
}

report() { # HOSTS
    (($1 > 4)) || cp "$work/calibration.json" "$work/links.json"
    [[ -z $keep ]] || cp "$work/calibration.json" "$keep/hosts-$1.json" || exit 1
    python3 - "$work/calibration.json" "$work/links.json" "$1" "$rate" "$delay" << 'END'
import json, statistics, sys
c, links = (json.load(open(name)) for name in sys.argv[1:3])
n, (rate, delay) = int(sys.argv[3]), map(float, sys.argv[4:])
links = links.get("links", [])
if not links:
    sys.exit("more than 4 hosts: their links are not measured; measure 2 or 4 hosts before")
alphas = [l["latency"]["alpha"] * 1e6 for l in links]
betas = [l["bandwidth"]["beta"] * 1e9 for l in links]
injected = 8e3 / rate * 1514 / 1448  # of a packet 1448 bytes are payload
off = lambda got, want: "%+.2f %%" % (100 * (got / want - 1))
def row(what, got, want):
    print("| %d | %s | %.4g | %.4g | %s |" % (n, what, want, got, off(got, want)))
if n <= 4:
    row("alpha, us, median of %d links" % len(alphas), statistics.median(alphas), delay)
    row("alpha, the worst link", max(alphas, key=lambda a: abs(a - delay)), delay)
    row("beta, ns/byte, median", statistics.median(betas), injected)
    row("beta, the worst link", max(betas, key=lambda b: abs(b - injected)), injected)
alpha, beta = statistics.median(alphas), statistics.median(betas)
# a: the smallest size. b: between the two largest, whose messages are larger than the token bucket (but of 8 hosts), which lets small ones through for nothing.
for way in c["algorithms"]:
    if way["algorithm"].split("(")[0] == "ring":
        (_, a), (m1, t1), (m2, t2) = way["points"][0], *way["points"][-2:]
        row("a of %s by 2(N-1) alpha, us" % way["algorithm"], a * 1e6, 2 * (n - 1) * alpha)
        row("b by 2(N-1)/N beta, ns/byte", (t2 - t1) / (m2 - m1) * 1e9, 2 * (n - 1) / n * beta)
END
}

echo '{}' > "$work/links.json"
echo "| hosts | figure | injected, or by alpha and beta | measured | off by |"
echo "|---|---|---|---|---|"
for hosts in $hosts_list; do
    up "$hosts"
    calibrate "$hosts"
    report "$hosts"
    down
done
