# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced by benchmarks that replay iterations of training on emulated hosts, one switch, computation as sleeps: `models` (of data/models), scaled to
# `kilobytes`, on `hosts` with a NIC of `nic` Mbit/s each, `ratios` of computation over the time that gradients take, `iterations`, `rounds`.

# run_iterations BED WAYS PROGRAM [ARGUMENT...]: the program gets --percent of each layer, --compute in ms, --iterations, what is given here, the
# layer table, and one of the ways. Each run is a line of $rows: model;ratio;way;ms of computation;ms of an iteration.
run_iterations() {
    local bed=$1 ways=$2 round model ratio way table percent ms
    shift 2
    [[ -x $1 ]] || { echo "$1 is not built" >&2; exit 2; }
    work=$(mktemp -d) rows=$work/rows
    # shellcheck disable=SC2064 # the bed of now
    trap "'$build/braid' bcube down $bed > /dev/null; rm -rf '$work'" EXIT
    trap 'exit 130' INT TERM
    "$build/braid" bcube emulate "$hosts" 1 --rate "${nic}mbit" --name "$bed" > /dev/null || exit 1
    for ((round = 0; round < rounds; round++)); do
        for model in $models; do
            table=$here/../data/models/$model.csv
            percent=$(awk -F, -v kb="$kilobytes" '/^[0-9]/ {n += $4} END {print kb * 1000 / (n * 4) * 100}' "$table")
            for ratio in $ratios; do
                # A TCP connection has 95.5 % of the rate; 2(N-1)/N of the gradients cross each link, each way.
                ms=$(awk -v n="$hosts" -v kb="$kilobytes" -v nic="$nic" -v ratio="$ratio" \
                    'BEGIN {print ratio * 2 * (n - 1) / n * kb * 8 / (nic * 0.955)}')
                for way in $ways; do
                    "$build/braid" bcube run --name "$bed" --no-prefix --timeout 100 -- "$1" --percent "$percent" --compute "$ms" \
                        --iterations "$iterations" "${@:2}" "$table" "$way" > "$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
                    echo "$model;$ratio;$way;$ms;$(sed -nE 's/.* ([0-9.]*) ms, [0-9]* (all-reduces|messages).*/\1/p' "$work/out")" |
                        tee -a "$rows" >&2
                done
            done
        done
    done
}
