#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduce of braid against OpenMPI, MPICH and Gloo on this machine; bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 ms=200 json=allreduce_peers.json busy=
ranks="2 4" transports="shm loopback veth" congestion="cubic system" rate=
peers="openmpi mpich gloo braid braid_alloc"
sizes="8 64 512 4096 32768 65536 262144 1048576 2097152 4194304 16777216 67108864 268435456"

usage() {
    cat <<END
Usage: bench/allreduce_peers.sh [options]
  --rounds N           rounds over all peers, the median counts (default $rounds)
  --ms N               time budget of one size in one round (default $ms)
  --ranks "2 4"        numbers of ranks
  --transports "shm loopback veth"
  --congestion "cubic system"   of TCP
  --peers "$peers"
                       also braid_ring, braid_blueconnect, ...: braid with that algorithm
  --rate RATE          of the veth, as tc writes it: 1gbit (default: as fast as the machine)
  --sizes "8 64 ..."   in bytes, multiples of 4, ascending
  --quick              one round, 50 ms, 2 ranks, sizes up to 16 MiB, cubic only
  --json FILE          default $json
  --busy               also says how long all cores work for one call
BRAID_BUILD names the build directory (default build/release). TCP needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
if [[ " $* " == *" --quick "* ]]; then
    rounds=1 ms=50 ranks=2 congestion=cubic
    sizes="8 512 32768 65536 262144 2097152 16777216"
fi
take_options "rounds ms ranks transports congestion peers sizes json rate quick! busy!" "$@"
milliseconds=$ms ranks_list=$ranks congestions=$congestion

# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/drivers.sh"
results=$work/results

# One peer once over all sizes; appends "transport congestion ranks bytes peer us memcpy_us busy_us" lines to $results.
measure() {
    local transport=$1 n=$2 peer=$3 options=()
    [[ $peer != braid_alloc ]] || options=(--limit)
    # shellcheck disable=SC2086 # the sizes are a list
    launch_driver 600 "$peer" "$transport" "$n" "${options[@]}" "$milliseconds" $sizes
    awk -v t="$transport" -v c="$congestion" -v n="$n" -v p="$peer" \
        'NF == 6 && $3 ~ /^[0-9]+$/ {print t, c, n, $3, p, $4, $5, $6}' "$work/out" >>"$results"
}

survey() { # TRANSPORT RANKS
    local transport=$1 n=$2 round peer
    for ((round = 1; round <= rounds; round++)); do
        for peer in $present; do
            [[ $peer == braid_alloc && $transport != shm ]] && continue
            echo "  $transport $congestion, $n ranks, round $round of $rounds: $peer" >&2
            measure "$transport" "$n" "$peer"
        done
    done
}

present=
for peer in $peers; do build_driver "$peer" && present+=" $peer"; done
[[ -n $present ]] || { echo "nothing to measure" >&2; exit 1; }
[[ $transports == shm ]] || namespaces_up
[[ -z $rate ]] || namespaces_shape "$rate"
export congestion=none
: >"$results"
for transport in $transports; do
    for n in $ranks_list; do
        if [[ $transport == shm ]]; then
            congestion=none
            survey shm "$n"
            continue
        fi
        for congestion in $congestions; do
            namespaces_congestion "$congestion"
            survey "$transport" "$n"
        done
    done
done
[[ -s $results ]] || { echo "no peer delivered a result" >&2; exit 1; }
awk -v peers="$present" -v busy="$busy" -v json="$json" -v cpus="$cpus" -v rounds="$rounds" -v cpu="$(uname -m), $(uname -r)" \
    -v tcp="$(sysctl -n net.ipv4.tcp_congestion_control)" -f "$here/peers/median.awk" -f "$here/peers/report.awk" "$results"
echo "written to $json"
