#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How long the start of a job takes under each launcher.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${BRAID_BUILD:-$here/../build/release}")
rounds=5 ranks="4 64" launchers="run openmpi mpich none pmi2 pmix torchrun"

usage() {
    cat <<END
Usage: bench/launch.sh [options]
  --launchers "L ..."  run: braid run; openmpi: mpirun.openmpi; mpich: mpiexec.mpich; none, pmi2, pmix: srun --mpi=...;
                       torchrun (default $launchers)
  --ranks "N ..."      (default $ranks)
  --rounds N           alternating (default $rounds); the median is shown
Shown are seconds from the launcher's start to its end, with examples/hello.c, which starts braid, adds up one number and ends; and how
much later that was than under the first launcher.
BRAID_BUILD names the build directory (default build/release). Slurm needs root, for the cluster of tests/launchers/cluster.sh.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
arguments=("$@")
take_options "launchers ranks rounds" "$@"
export BRAID_SOURCE=${here%/bench} BRAID_BUILD=$build
if [[ " $launchers " =~ \ (none|pmi2|pmix)\  && -z ${CLUSTER:-} ]]; then
    exec bash "$BRAID_SOURCE/tests/isolated.sh" bash "$BRAID_SOURCE/tests/launchers/cluster.sh" bash "$here/launch.sh" "${arguments[@]}"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -I "$BRAID_SOURCE/include" "$BRAID_SOURCE/examples/hello.c" -o "$work/hello" -L "$build" -lbraid "-Wl,-rpath,$build" || exit 1
chmod 755 "$work"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

declare -A commands=(
    [run]="$build/braid run -n {} --"
    [openmpi]="mpirun.openmpi --oversubscribe -n {}"
    [mpich]="mpiexec.mpich -n {}"
    [none]="srun -Q -N 1 -n {} --mpi=none"
    [pmi2]="srun -Q -N 1 -n {} --mpi=pmi2"
    [pmix]="srun -Q -N 1 -n {} --mpi=pmix"
    [torchrun]="torchrun -r 9:1 -t 9:1 --monitor_interval 0.1 --nproc_per_node {} --no_python"
)

# microseconds NAME RANKS: of one run, or "-" if it failed.
microseconds() {
    local begin=$EPOCHREALTIME end
    # shellcheck disable=SC2086 # the command is words
    if timeout 120 ${commands[$1]//\{\}/$2} "$work/hello" > "$work/out" 2>&1 < /dev/null; then
        end=$EPOCHREALTIME
        echo $((${end/./} - ${begin/./}))
    else
        tail -n 3 "$work/out" >&2
        echo -
    fi
}

median() {
    sort -n "$1" | awk '/-/ { bad = 1 } { v[NR] = $1 } END { if (bad || !NR) print "-"; else printf "%.3f\n", v[int((NR + 1) / 2)] / 1e6 }'
}

printf '%-10s %5s %10s %10s\n' launcher ranks seconds later
for n in $ranks; do
    for ((round = 0; round < rounds; round++)); do
        for name in $launchers; do
            microseconds "$name" "$n" >> "$work/$name.$n"
        done
    done
    first=
    for name in $launchers; do
        hello=$(median "$work/$name.$n")
        first=${first:-$hello}
        printf '%-10s %5d %10s %10s\n' "$name" "$n" "$hello" \
            "$(awk -v a="$hello" -v b="$first" 'BEGIN { if (a == "-" || b == "-") print "-"; else printf "%.3f", a - b }')"
    done
done
