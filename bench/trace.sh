#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What the timeline costs: all-reduces of two ranks with and without BRAID_TRACE, by turns; medians of the times, in microseconds.
# ROUNDS (9), SECONDS_EACH (30, a row), BACKENDS (tcp shm), SIZES (64K 1M 2M 16M).
set -euo pipefail
braid=${BRAID_BUILD:-build/release}/braid
# shellcheck source=bench/lib/alternate.sh
. "$(dirname "$0")/lib/alternate.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# both BACKEND SIZE: without, with; the order turns.
turn=0
both() {
    ((turn++ % 2)) || once "$1" "$2" >> "$work/without"
    BRAID_TRACE=$work/job.json once "$1" "$2" >> "$work/with"
    ((turn % 2)) || once "$1" "$2" >> "$work/without"
}

printf '%-8s %-6s %6s %12s %7s %12s %7s %8s %12s\n' backend size rounds without +- with +- cost 'file bytes'
for backend in ${BACKENDS:-tcp shm}; do
    for size in ${SIZES:-64K 1M 2M 16M}; do
        rm -f "$work"/*
        rounds both "$backend" "$size"
        printf '%-8s %-6s %6s %12s %6s%% %12s %6s%% %7s%% %12s\n' "$backend" "$size" "$(wc -l < "$work/with")" \
            "$(median "$work/without")" "$(spread "$work/without")" "$(median "$work/with")" "$(spread "$work/with")" \
            "$(more "$work/with" "$work/without")" "$(stat -c %s "$work/job.0.json")"
    done
done
