#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All collectives of braid against OpenMPI, MPICH and Intel MPI on this machine, or against another build of braid; bench/README.md says how to
# read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 ms=40 json=collectives_peers.json svg='' before=''
ranks="2 4 8" transports="shm loopback" congestion=cubic
peers="openmpi openmpi5 mpich mpich5 impi braid"
collectives="broadcast reduce allreduce allgather reduce_scatter alltoall scatter gather barrier"
paces="barrier stream"
sizes="8 64 512 4096 32768 262144 2097152 16777216 67108864"

usage() {
    cat << END
Usage: bench/collectives_peers.sh [options]
  --rounds N           rounds over all peers, the median of each phase counts (default $rounds)
  --ms N               time budget of one size in one round (default $ms)
  --ranks "2 4"        numbers of ranks (default "$ranks")
  --transports "shm loopback veth"   (default "$transports")
  --congestion cubic   of TCP; system: what the machine has
  --peers "$peers"
                       openmpi and mpich are Debian's, openmpi5, mpich5 and impi those that bench/peers/install.sh has installed; also
                       braid_alloc, braid_ring, ..., and tcp: send() and recv() on one bare socket. MPICH is left out with more ranks than cores,
                       where it spins
  --before BUILD       only braid, beside this other build of it: what has become slower?
  --collectives "$collectives"
  --paces "$paces"   a barrier before each call, or one call behind the other
  --sizes "8 64 ..."   of a block, in bytes, multiples of 4, ascending
  --quick              2 short rounds, four sizes, 2 and 4 ranks
  --json FILE          default $json
  --svg FILE           a heat map of fastest / braid
BRAID_BUILD names the build directory (default build/release), BRAID_PEERS that of install.sh's libraries (default build/peers). TCP needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
if [[ " $* " == *" --quick "* ]]; then
    rounds=2 ms=10 ranks="2 4" sizes="8 4096 32768 262144"
fi
take_options "rounds ms ranks transports congestion peers before collectives paces sizes json svg quick!" "$@"
if [[ -n $before ]]; then
    [[ -x $before/braid ]] || { echo "$before is no build of braid" >&2; exit 2; }
    before=$(realpath "$before")
    peers="braid_before braid"
fi

# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/drivers.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/turns.sh"
export congestion before

# One collective of one peer once: "transport ranks collective pace bytes peer us busy_us" lines.
measure() {
    local transport=$1 n=$2 collective=$3 peer=$4
    # shellcheck disable=SC2086 # the sizes are a list
    launch_driver 3600 "$peer" "$transport" "$n" --collectives "$collective" --paces "${paces// /,}" --full-speed "$full_speed" "$ms" $sizes
    awk -v t="$transport" -v n="$n" -v p="$peer" \
        'NF == 6 && $3 ~ /^[0-9]+$/ { print t, n, $1, $2, $3, p, $4, $6 }' "$work/out"
}

present=
for peer in $peers; do build_driver "$peer" && present+=" $peer"; done
[[ -n $present ]] || { echo "nothing to measure" >&2; exit 1; }
[[ $transports == shm ]] || { namespaces_up && namespaces_congestion "$congestion"; }
for transport in $transports; do
    for n in $ranks; do
        # shellcheck disable=SC2086 # a list
        take_turns "$transport" "$n" $collectives
    done
done
[[ -s $results ]] || { echo "no peer delivered a result" >&2; exit 1; }
awk -v peers="$present" -v json="$json" -v svg="$svg" -v cpus="$cpus" -v machine="$(uname -m), $(uname -r)" \
    -f "$here/peers/median.awk" -f "$here/peers/phases.awk" -f "$here/peers/collectives.awk" "$turns" "$results"
echo "written to $json${svg:+ and $svg}"
