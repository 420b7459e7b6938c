#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Messages and one-sided accesses of braid against OpenMPI, MPICH and Intel MPI on this machine; bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=3 ms=100 json=p2p_peers.json
transports="shm loopback" congestion=cubic
peers="openmpi openmpi5 mpich mpich5 impi braid" before=
sizes="8 64 512 4096 32768 262144 2097152"

usage() {
    cat <<END
Usage: bench/p2p_peers.sh [options]
  --rounds N           rounds over all peers, the median of each phase counts (default $rounds)
  --ms N               time budget of one figure in one round (default $ms)
  --transports "shm loopback veth"   default "$transports"
  --congestion NAME    of TCP (default $congestion)
  --peers "$peers"
                       openmpi5, mpich5 and impi are those that bench/peers/install.sh has installed; also braid_alloc: messages in memory
                       from braid_alloc()
  --before DIR         another build of braid, as peer braid_before
  --sizes "8 64 ..."   in bytes, ascending
  --quick              one round, 20 ms, 4 sizes
  --json FILE          default $json
BRAID_BUILD names the build directory (default build/release), BRAID_PEERS that of install.sh's libraries (default build/peers). TCP needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
[[ " $* " != *" --quick "* ]] || { rounds=1 ms=20 sizes="8 512 32768 2097152"; }
take_options "rounds ms transports congestion peers sizes json before quick!" "$@"
[[ -z $before ]] || peers+=" braid_before"
export congestion before

# shellcheck source-path=SCRIPTDIR
. "$here/peers/namespaces.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/drivers.sh"
# shellcheck source-path=SCRIPTDIR
. "$here/peers/turns.sh"
mpi_sources=(p2p_mpi.c p2p.c) braid_sources=(p2p_braid.c p2p.c)

# One size of one peer once: "transport kind bytes peer us rate" lines.
measure() {
    local transport=$1 size=$3 peer=$4 kinds='message|put|get'
    # Accesses of Open MPI 5 within a host are in shared memory whatever it is told.
    [[ $peer$transport != openmpi5loopback ]] || kinds=message
    launch_driver 600 "$peer" "$transport" 2 "$ms" "$size"
    awk -v t="$transport" -v p="$peer" -v kinds="^($kinds)\$" '$1 ~ kinds && /^[a-z]* [0-9]/ {print t, $1, $2, p, $3, $4}' "$work/out"
}

present=
for peer in $peers; do build_driver "$peer" && present+=" $peer"; done
[[ -n $present ]] || { echo "nothing to measure" >&2; exit 1; }
[[ $transports == shm ]] || { namespaces_up; namespaces_congestion "$congestion"; }
for transport in $transports; do
    # shellcheck disable=SC2086 # a list
    take_turns "$transport" 2 $sizes
done
[[ -s $results ]] || { echo "no peer delivered a result" >&2; exit 1; }
awk -v peers="$present" -v json="$json" -v cpus="$cpus" -v tcp="$congestion" -v cpu="$(uname -m), $(uname -r)" \
    -f "$here/peers/median.awk" -f "$here/peers/phases.awk" -f "$here/peers/p2p_report.awk" "$turns" "$results"
echo "written to $json"
