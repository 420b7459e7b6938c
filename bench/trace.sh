#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the timeline costs: all-reduces of two ranks with and without BRAID_TRACE, by turns; medians of the times, in microseconds.
# ROUNDS (9), BACKENDS (uring shm), SIZES (64K 1M 16M).
set -euo pipefail
braid=${BRAID_BUILD:-build/release}/braid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# once BACKEND SIZE: microseconds of an operation out of place
once() {
    timeout 60 "$braid" run -n 2 --backend "$1" -- "$braid" allreduce -b "$2" -e "$2" -n "$3" -w 5 -c 0 |
        awk '{ sub(/^\[[0-9]+\] /, "") } $1 ~ /^[0-9]+$/ { print $6; exit }'
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

printf '%-8s %-6s %12s %12s %8s %12s\n' backend size without with cost 'file bytes'
for backend in ${BACKENDS:-uring shm}; do
    for size in ${SIZES:-64K 1M 16M}; do
        case $size in 64K) n=2000 ;; 1M) n=300 ;; *) n=25 ;; esac
        rm -f "$work"/*
        for ((round = 0; round < ${ROUNDS:-9}; round++)); do
            once "$backend" "$size" "$n" >> "$work/without"
            BRAID_TRACE=$work/job.json once "$backend" "$size" "$n" >> "$work/with"
        done
        without=$(median "$work/without")
        with=$(median "$work/with")
        printf '%-8s %-6s %12s %12s %7s%% %12s\n' "$backend" "$size" "$without" "$with" \
            "$(awk -v a="$with" -v b="$without" 'BEGIN { printf "%.1f", 100 * (a / b - 1) }')" "$(stat -c %s "$work/job.0.json")"
    done
done
