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
results=$work/results
cpus=$(nproc)

# Builds the driver of peer $1; fails with words where the peer is not there.
build_driver() {
    local source=$here/peers
    case $1 in
    openmpi) mpicc.openmpi -O2 -o "$work/openmpi" "$source/mpi.c" "$source/loop.c" ;;
    mpich) mpicc.mpich -O2 -o "$work/mpich" "$source/mpi.c" "$source/loop.c" ;;
    gloo) cc -O2 -c -o "$work/loop.o" "$source/loop.c" &&
        c++ -O2 -std=c++17 -I "$source" -o "$work/gloo" "$source/gloo.cc" "$work/loop.o" -lgloo -lpthread ;;
    braid*) cc -O2 -I "$here/../include" -o "$work/braid" "$source/braid.c" "$source/loop.c" -L "$build" -lbraid \
        -Wl,-rpath,"$(realpath "$build")" ;;
    *) echo "no such peer" >&2; false ;;
    esac 2>"$work/words" || {
        echo "$1 is left out: $(head -n 1 "$work/words")" >&2
        return 1
    }
}

# The namespace of rank $1 of $2.
side_of() { (($1 * 2 < $2)) && echo "$net_a" || echo "$net_b"; }

# launch_PEER TRANSPORT RANKS ARGUMENTS...
launch_openmpi() {
    local transport=$1 n=$2
    shift 2
    local options=(--allow-run-as-root --oversubscribe -np "$n" --mca pml ob1)
    ((n <= cpus)) || options+=(--mca mpi_yield_when_idle 1)
    case $transport in
    shm) mpirun.openmpi "${options[@]}" --mca btl self,vader "$work/openmpi" "$@" ;;
    loopback) ip netns exec "$net_a" mpirun.openmpi "${options[@]}" --mca btl self,tcp --mca btl_tcp_if_include lo \
        --mca oob_tcp_if_include lo "$work/openmpi" "$@" ;;
    veth) "$here/peers/agent.sh" "$net_a" mpirun.openmpi "${options[@]}" --map-by slot --bind-to none \
        --host "$net_a:$((n / 2)),$net_b:$((n / 2))" --mca plm_rsh_agent "$here/peers/agent.sh" \
        --mca plm_rsh_no_tree_spawn 1 --mca btl self,vader,tcp --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca oob_tcp_if_include 10.77.0.0/24 "$work/openmpi" "$@" ;;
    esac
}

launch_mpich() {
    local transport=$1 n=$2
    shift 2
    case $transport in
    shm) mpiexec.mpich -np "$n" "$work/mpich" "$@" ;;
    loopback) ip netns exec "$net_a" env UCX_TLS=tcp,self UCX_NET_DEVICES=lo MPIR_CVAR_NOLOCAL=1 \
        mpiexec.mpich -iface lo -np "$n" "$work/mpich" "$@" ;;
    veth) "$here/peers/agent.sh" "$net_a" env UCX_TLS=tcp,self UCX_NET_DEVICES=veth0 mpiexec.mpich -launcher rsh \
        -launcher-exec "$here/peers/agent.sh" -hosts "$net_a:$((n / 2)),$net_b:$((n / 2))" -localhost 10.77.0.1 \
        -iface veth0 -np "$n" "$work/mpich" "$@" ;;
    esac
}

# each_rank N ENVIRONMENT... -- COMMAND...: one process a rank, half of them in each namespace.
each_rank() {
    local n=$1 r failed=0 pids=() environment=()
    shift
    while [[ $1 != -- ]]; do environment+=("$1"); shift; done
    shift
    for ((r = 0; r < n; r++)); do
        # MPI's launchers bind ranks to cores; so do we where there is one for each
        ((n <= cpus)) && bind=(taskset -c "$r") || bind=()
        "${bind[@]}" ip netns exec "$(side_of $r "$n")" env RANK=$r WORLD_SIZE="$n" LOCAL_RANK=$((r % (n / 2))) \
            LOCAL_WORLD_SIZE=$((n / 2)) BRAID_MACHINE_RANKS="$n" "${environment[@]}" "$@" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || failed=1; done
    return $failed
}

# Gloo has TCP only: over loopback where the others use shared memory.
launch_gloo() {
    local transport=$1 n=$2 r failed=0 pids=() store prefix=()
    shift 2
    store=$(mktemp -d -p "$work")
    if [[ $transport == veth ]]; then
        each_rank "$n" GLOO_STORE="$store" GLOO_INTERFACE=veth0 -- "$work/gloo" "$@"
        return
    fi
    [[ $transport == shm ]] || prefix=(ip netns exec "$net_a")
    for ((r = 0; r < n; r++)); do
        "${prefix[@]}" env RANK=$r WORLD_SIZE="$n" GLOO_STORE="$store" GLOO_INTERFACE=lo "$work/gloo" "$@" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || failed=1; done
    return $failed
}

launch_braid() {
    local transport=$1 n=$2
    shift 2
    case $transport in
    shm) "$build/braid" run -n "$n" --no-prefix --backend shm -- "$work/braid" "$@" ;;
    loopback) ip netns exec "$net_a" env BRAID_TCP_CONGESTION="$congestion" "$build/braid" run -n "$n" --no-prefix \
        --backend tcp -- "$work/braid" "$@" ;;
    veth) each_rank "$n" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 BRAID_SECRET="$(mktemp -u XXXXXXXXXXXXXXXXXXXXXXXX)" \
        BRAID_DEVICES=veth0 BRAID_TCP_CONGESTION="$congestion" -- "$work/braid" "$@" ;;
    esac
}

# launch_braid_alloc, launch_braid_ALGORITHM
launch_braid_other() {
    local variant=$1 transport=$2 n=$3
    shift 3
    if [[ $variant == alloc ]]; then
        BENCH_MEMORY=alloc launch_braid "$transport" "$n" --limit "$@"
    else
        BENCH_ALGORITHM=$variant launch_braid "$transport" "$n" "$@"
    fi
}

# One peer once over all sizes; appends "transport congestion ranks bytes peer us memcpy_us busy_us" lines to $results.
measure() {
    local transport=$1 n=$2 peer=$3 launch=launch_$3
    [[ $peer != braid_* ]] || launch="launch_braid_other ${peer#braid_}"
    # shellcheck disable=SC2086 # the sizes are a list
    timeout 600 bash -c "$(declare -f side_of each_rank "${launch%% *}" launch_braid); $launch \"\$@\"" \
        measure "$transport" "$n" "$milliseconds" $sizes >"$work/out" 2>"$work/words" </dev/null &
    group=$!
    if ! wait $group; then
        echo "  $peer failed: $(grep -v '^$' "$work/words" | tail -n 1)" >&2
    fi
    awk -v t="$transport" -v c="$congestion" -v n="$n" -v p="$peer" \
        'NF == 4 && $1 ~ /^[0-9]+$/ {print t, c, n, $1, p, $2, $3, $4}' "$work/out" >>"$results"
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
export net_a net_b work here build cpus congestion=none
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
    -v tcp="$(sysctl -n net.ipv4.tcp_congestion_control)" -f "$here/peers/report.awk" "$results"
echo "written to $json"
