#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the timeline costs: all-reduces of two ranks with and without BRAID_TRACE, by turns; medians of the times, in microseconds.
# ROUNDS (9), BACKENDS (uring shm), SIZES (64K 1M 16M).
set -euo pipefail
braid=${BRAID_BUILD:-build/release}/braid
# shellcheck source=bench/turns.sh
. "$(dirname "$0")/turns.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

printf '%-8s %-6s %12s %12s %8s %12s\n' backend size without with cost 'file bytes'
for backend in ${BACKENDS:-uring shm}; do
    for size in ${SIZES:-64K 1M 16M}; do
        rm -f "$work"/*
        for ((round = 0; round < ${ROUNDS:-9}; round++)); do
            once "$backend" "$size" >> "$work/without"
            BRAID_TRACE=$work/job.json once "$backend" "$size" >> "$work/with"
        done
        printf '%-8s %-6s %12s %12s %7s%% %12s\n' "$backend" "$size" "$(median "$work/without")" "$(median "$work/with")" \
            "$(more "$work/with" "$work/without")" "$(stat -c %s "$work/job.0.json")"
    done
done
