#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What BRAID_ORDER=ranks costs: all-reduces in the order of the ranks beside those in any order, alternating; doc/collectives.md has a result.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
rounds=5 iters=20 ranks="2 4" backends="shm tcp"
sizes="8 1024 16384 262144 4194304 16777216"

usage() {
    cat <<END
Usage: bench/order.sh [options]
  --rounds N           rounds, each of both orders; the least time counts (default $rounds)
  --iters N            calls that are timed in a round (default $iters; 50 times as many up to 16 KiB)
  --ranks "2 4"        numbers of ranks
  --backends "shm tcp" tcp is over loopback
  --sizes "8 1024 ..." in bytes
BRAID_BUILD names the build directory (default build/release).
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "rounds iters ranks backends sizes" "$@"

# once ORDER BACKEND RANKS SIZE: microseconds of an all-reduce in place
once() {
    local n=$iters
    (($4 > 16384)) || n=$((iters * 50))
    BRAID_ORDER=$1 BRAID_DEVICES=127.0.0.1 "$build/braid" run -n "$3" -- \
        "$build/braid" allreduce --backend "$2" -b "$4" -e "$4" -n "$n" -w "$n" -c 0 |
        awk '$2 ~ /^[0-9]+$/ { print $(NF - 3); exit }' # "[0] bytes count ..."
}

printf '%-8s %5s %9s %12s %12s %7s\n' backend ranks bytes "any (us)" "ranks (us)" ratio
for backend in $backends; do
    for n in $ranks; do
        for size in $sizes; do
            any=() by_rank=()
            for ((i = 0; i < rounds; i++)); do
                any+=("$(once any "$backend" "$n" "$size")")
                by_rank+=("$(once ranks "$backend" "$n" "$size")")
            done
            a=$(printf '%s\n' "${any[@]}" | sort -g | head -n 1)
            b=$(printf '%s\n' "${by_rank[@]}" | sort -g | head -n 1)
            printf '%-8s %5d %9d %12s %12s %7.2f\n' "$backend" "$n" "$size" "$a" "$b" \
                "$(awk -v a="$a" -v b="$b" 'BEGIN { print b / a }')"
        done
    done
done
