#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What counters cost: all-reduces of two ranks, by turns with nobody looking, with `braid top` looking ten times a second, and with another build
# (BEFORE=DIR, say one of an earlier commit); medians of the times, in microseconds. ROUNDS (9), SECONDS_EACH (30, a row), INTERVAL (100 ms),
# BACKENDS (tcp shm), SIZES (8 64K 1M 16M).
set -euo pipefail
braid=${BRAID_BUILD:-build/release}/braid
# shellcheck source=bench/lib/alternate.sh
. "$(dirname "$0")/lib/alternate.sh"
work=$(mktemp -d)
export BRAID_STATS=$work/stats
looking=
trap '[[ -z $looking ]] || kill "$looking"; rm -rf "$work"' EXIT

# watched BACKEND SIZE: once, while somebody looks: a live table on a terminal of its own, which ends with the job.
watched() {
    rm -f "$work/over"
    until script -qec "$braid top --interval ${INTERVAL:-100}" /dev/null > /dev/null 2>&1 || [[ -e $work/over ]]; do sleep 0.02; done &
    looking=$!
    once "$1" "$2"
    touch "$work/over"
    wait "$looking" 2> /dev/null || true
    looking=
}

# all BACKEND SIZE: each way once.
all() {
    once "$1" "$2" >> "$work/counted.us"
    watched "$1" "$2" >> "$work/watched.us"
    [[ -z ${BEFORE:-} ]] || once "$1" "$2" "$BEFORE/braid" >> "$work/before.us"
}

command -v script > /dev/null || { echo "stats.sh: needs script (bsdutils), the terminal of braid top" >&2; exit 2; }
printf '%-8s %-6s %6s %12s %7s %12s %7s %8s %12s %8s\n' backend size rounds counted +- watched +- cost before cost
for backend in ${BACKENDS:-tcp shm}; do
    for size in ${SIZES:-8 64K 1M 16M}; do
        rm -f "$work"/[a-z]*.us
        rounds all "$backend" "$size"
        printf '%-8s %-6s %6s %12s %6s%% %12s %6s%% %7s%%' "$backend" "$size" "$(wc -l < "$work/counted.us")" \
            "$(median "$work/counted.us")" "$(spread "$work/counted.us")" \
            "$(median "$work/watched.us")" "$(spread "$work/watched.us")" "$(more "$work/watched.us" "$work/counted.us")"
        [[ -z ${BEFORE:-} ]] || printf ' %12s %7s%%' "$(median "$work/before.us")" "$(more "$work/counted.us" "$work/before.us")"
        echo
    done
done
