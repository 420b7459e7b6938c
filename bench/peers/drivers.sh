# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced behind namespaces.sh by benchmarks that drive several libraries by one loop (loop.h): builds the drivers and launches ranks of
# them. $build is the build of braid, $here the folder of benchmarks, $congestion TCP's for braid. The drivers are made of the files in
# this folder that mpi_sources and braid_sources name.
mpi_sources=(mpi.c loop.c) braid_sources=(braid.c loop.c)
cpus=$(nproc)
pypi=${BRAID_PEERS:-$here/../build/peers} # the libraries that peers/install.sh installs
export net_a net_b work here build cpus pypi

build_braid() { # NAME BUILD
    cc -O2 -I "$here/../include" -o "$work/$1" "${braid_sources[@]/#/$here/peers/}" -L "$2" -lbraid -Wl,-rpath,"$(realpath "$2")"
}

# Builds the driver of peer $1; fails with words where the peer is not there.
build_driver() {
    local source=$here/peers
    case $1 in
    openmpi) mpicc.openmpi -O2 -o "$work/openmpi" "${mpi_sources[@]/#/$source/}" ;;
    mpich) mpicc.mpich -O2 -o "$work/mpich" "${mpi_sources[@]/#/$source/}" ;;
    openmpi5 | mpich5) "$pypi/$1/bin/mpicc" -O2 -o "$work/$1" "${mpi_sources[@]/#/$source/}" ;;
    impi) I_MPI_ROOT=$pypi/impi "$pypi/impi/bin/mpicc" -O2 -o "$work/impi" "${mpi_sources[@]/#/$source/}" ;;
    gloo) cc -O2 -c -o "$work/loop.o" "$source/loop.c" &&
        c++ -O2 -std=c++17 -I "$source" -o "$work/gloo" "$source/gloo.cc" "$work/loop.o" -lgloo -lpthread ;;
    tcp) cc -O2 -o "$work/tcp" "$source/tcp.c" "$source/loop.c" ;;
    braid_before) build_braid before "$before" ;;
    braid*) build_braid braid "$build" ;;
    *) echo "no such peer" >&2; false ;;
    esac 2>"$work/words" || {
        echo "$1 is left out: $(head -n 1 "$work/words")" >&2
        return 1
    }
}

# can_run PEER RANKS TRANSPORT: MPICH spins, whatever it is told, and with more ranks than cores a call takes time slices of the scheduler. The bare sockets are two.
can_run() {
    case $1 in
    mpich*) (($2 <= cpus)) ;;
    tcp) [[ $2 == 2 && $3 != shm ]] ;;
    esac
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
    loopback) ip netns exec "$net_a" mpirun.openmpi "${options[@]}" --mca btl self,tcp --mca osc pt2pt --mca btl_tcp_if_include lo \
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

launch_openmpi5() {
    local transport=$1 n=$2
    shift 2
    local options=(--allow-run-as-root -np "$n" --mca pml ob1)
    ((n <= cpus)) && options+=(--bind-to core) || options+=(--oversubscribe --mca mpi_yield_when_idle 1)
    case $transport in
    shm) "$pypi/openmpi5/bin/mpirun" "${options[@]}" --mca btl self,sm "$work/openmpi5" "$@" ;;
    loopback) ip netns exec "$net_a" "$pypi/openmpi5/bin/mpirun" "${options[@]}" --mca btl self,tcp --mca btl_tcp_if_include lo \
        "$work/openmpi5" "$@" ;;
    *) echo "has no $transport here" >&2; false ;;
    esac
}

# UCX of this one finds no way to 127.0.0.1: messages to the own address of a veth go through lo as well.
launch_mpich5() {
    local transport=$1 n=$2
    shift 2
    case $transport in
    shm) "$pypi/mpich5/bin/mpiexec" -bind-to core -np "$n" "$work/mpich5" "$@" ;;
    loopback) ip netns exec "$net_a" env UCX_TLS=tcp,self UCX_NET_DEVICES=veth0 MPIR_CVAR_CH4_NETMOD=ucx MPIR_CVAR_NOLOCAL=1 \
        "$pypi/mpich5/bin/mpiexec" -bind-to core -iface lo -np "$n" "$work/mpich5" "$@" ;;
    *) echo "has no $transport here" >&2; false ;;
    esac
}

# Intel MPI. Its TCP is libfabric's: that of MPICH's wheel, or Debian's. Without pt2pt its collectives use shared memory with any fabric.
launch_impi() {
    local transport=$1 n=$2 fabric
    shift 2
    case $transport in
    shm) fabric=(env I_MPI_FABRICS=shm) ;;
    loopback) fabric=(ip netns exec "$net_a" env I_MPI_FABRICS=ofi FI_PROVIDER=tcp FI_TCP_IFACE=lo I_MPI_COLL_INTRANODE=pt2pt) ;;
    *) echo "has no $transport here" >&2; return 1 ;;
    esac
    ((n <= cpus)) || fabric+=(I_MPI_THREAD_YIELD=2)
    "${fabric[@]}" I_MPI_ROOT="$pypi/impi" PATH="$pypi/impi/bin:$PATH" LD_LIBRARY_PATH="$pypi/impi/lib:$pypi/mpich5/lib/mpich" \
        mpirun -iface lo -n "$n" "$work/impi" "$@"
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

# The bare sockets. They have TCP and two ranks only.
launch_tcp() {
    local transport=$1 address=127.0.0.1 r side=$net_a failed=0 pids=()
    shift 2
    [[ $transport == loopback ]] || address=10.77.0.1
    for r in 0 1; do
        [[ $transport == loopback ]] || side=$(side_of $r 2)
        taskset -c $r ip netns exec "$side" env RANK=$r WORLD_SIZE=2 MASTER_ADDR=$address MASTER_PORT=29501 "$work/tcp" "$@" &
        pids+=($!)
    done
    for r in "${pids[@]}"; do wait "$r" || failed=1; done
    return $failed
}

launch_braid() {
    local transport=$1 n=$2
    shift 2
    case $transport in
    shm) "$build/braid" run -n "$n" --no-prefix --backend shm -- "$work/${program:-braid}" "$@" ;;
    loopback) ip netns exec "$net_a" env BRAID_TCP_CONGESTION="$congestion" "$build/braid" run -n "$n" --no-prefix \
        --backend tcp -- "$work/${program:-braid}" "$@" ;;
    veth) each_rank "$n" MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 BRAID_SECRET="$(mktemp -u XXXXXXXXXXXXXXXXXXXXXXXX)" \
        BRAID_DEVICES=veth0 BRAID_TCP_CONGESTION="$congestion" -- "$work/${program:-braid}" "$@" ;;
    esac
}

# launch_braid_before: the other build in $before; launch_braid_alloc, launch_braid_ALGORITHM
launch_braid_other() {
    local variant=$1 transport=$2 n=$3
    shift 3
    if [[ $variant == before ]]; then
        build=$before program=before launch_braid "$transport" "$n" "$@"
    elif [[ $variant == alloc ]]; then
        BENCH_MEMORY=alloc launch_braid "$transport" "$n" "$@"
    else
        BENCH_ALGORITHM=$variant launch_braid "$transport" "$n" "$@"
    fi
}

# launch_driver SECONDS PEER TRANSPORT RANKS ARGUMENTS...: the process group is $group until it has ended; stdout is $work/out.
launch_driver() {
    local most=$1 peer=$2 launch=launch_$2
    shift 2
    [[ $peer != braid_* ]] || launch="launch_braid_other ${peer#braid_}"
    timeout "$most" bash -c "$(declare -f side_of each_rank "${launch%% *}" launch_braid); $launch \"\$@\"" driver "$@" \
        >"$work/out" 2>"$work/words" </dev/null &
    group=$!
    wait $group || echo "  $peer failed: $(grep -v '^$' "$work/words" | tail -n 1)" >&2
}
