#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What Python costs: all-reduces in place of two ranks in shared memory, by braid from C, by braid from Python, and by mpi4py on Open MPI, by turns; medians over
# the rounds, in microseconds. ROUNDS (9), SECONDS_EACH (60), SIZES (8 4096 65536 1048576 16777216), PYTHON (/usr/bin/python3).
set -euo pipefail
build=$(realpath "${BRAID_BUILD:-build/release}")
here=$(dirname "$(realpath "$0")")
python=${PYTHON:-/usr/bin/python3}
# shellcheck source=bench/lib/alternate.sh
. "$here/lib/alternate.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sizes=${SIZES:-8 4096 65536 1048576 16777216}
export PYTHONPATH=$build/python OMP_NUM_THREADS=1

# keep NAME: each line "SIZE TIME" of the standard input, by size.
keep() {
    sed -E 's/^\[[0-9]+\] //' | while read -r size time; do echo "$time" >> "$work/$1.$size"; done
}

# shellcheck disable=SC2086 # the sizes are words
once_each() {
    timeout 120 "$build/braid" run -n 2 -- "$build/bench/python_floor" $sizes | keep c
    timeout 120 "$build/braid" run -n 2 -- "$python" "$here/python.py" braid $sizes | keep python
    timeout 120 mpirun --allow-run-as-root --oversubscribe -n 2 "$python" "$here/python.py" mpi4py $sizes | keep mpi4py
}
SECONDS_EACH=${SECONDS_EACH:-60} rounds once_each
printf '%10s %10s %7s %10s %7s %10s %7s %12s\n' bytes C +- Python +- mpi4py +- 'Python - C'
for size in $sizes; do
    printf '%10s' "$size"
    for name in c python mpi4py; do
        printf ' %10s %6s%%' "$(median "$work/$name.$size")" "$(spread "$work/$name.$size")"
    done
    awk -v a="$(median "$work/python.$size")" -v b="$(median "$work/c.$size")" 'BEGIN { printf " %12.2f\n", a - b }'
done
