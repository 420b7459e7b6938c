#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What counters cost: all-reduces of two ranks, by turns with nobody looking, with `braid top` looking ten times a second, and with another build
# (BEFORE=DIR, say one of an earlier commit); medians of the times, in microseconds. ROUNDS (9), BACKENDS (uring shm), SIZES (8 64K 1M 16M).
set -euo pipefail
braid=${BRAID_BUILD:-build/release}/braid
# shellcheck source=bench/turns.sh
. "$(dirname "$0")/turns.sh"
work=$(mktemp -d)
export BRAID_STATS=$work/stats
looking=
trap '[[ -z $looking ]] || kill "$looking"; rm -rf "$work"' EXIT

# watched BACKEND SIZE: once, while somebody looks; each look is two of `braid top`, 100 ms apart, and a pause.
watched() {
    while :; do
        "$braid" top --once --interval 100 > /dev/null 2>&1 || sleep 0.02
    done &
    looking=$!
    once "$1" "$2"
    kill "$looking"
    wait "$looking" 2> /dev/null || true
    looking=
}

printf '%-8s %-6s %12s %12s %8s %12s %8s\n' backend size counted watched cost before cost
for backend in ${BACKENDS:-uring shm}; do
    for size in ${SIZES:-8 64K 1M 16M}; do
        rm -f "$work"/[a-z]*.us
        for ((round = 0; round < ${ROUNDS:-9}; round++)); do
            once "$backend" "$size" >> "$work/counted.us"
            watched "$backend" "$size" >> "$work/watched.us"
            if [[ -n ${BEFORE:-} ]]; then
                once "$backend" "$size" "$BEFORE/braid" >> "$work/before.us"
            fi
        done
        printf '%-8s %-6s %12s %12s %7s%%' "$backend" "$size" "$(median "$work/counted.us")" "$(median "$work/watched.us")" \
            "$(more "$work/watched.us" "$work/counted.us")"
        [[ -z ${BEFORE:-} ]] || printf ' %12s %7s%%' "$(median "$work/before.us")" "$(more "$work/counted.us" "$work/before.us")"
        echo
    done
done
