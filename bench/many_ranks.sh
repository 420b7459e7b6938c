#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Many ranks on this machine over TCP: how long a job of one all-reduce takes, start and end included, and how many ends of links it makes.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
ranks="32 64 128 256" links="start demand"

usage() {
    cat <<END
Usage: bench/many_ranks.sh [options]
  --ranks NUMBERS    (default "$ranks")
  --links WORDS      values of BRAID_LINKS (default "$links")
BRAID_BUILD names the build directory (default build/release).
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "ranks links" "$@"

out=$(mktemp)
trap 'rm -f "$out"' EXIT
printf '%6s %8s %8s %8s\n' ranks links seconds ends
for n in $ranks; do
    for when in $links; do
        begun=${EPOCHREALTIME/./}
        BRAID_LINKS=$when BRAID_LOG=debug timeout 300 "$build/braid" run -n "$n" --backend tcp -- "$build/braid" allreduce -b 8 -e 8 -n 1 -w 0 > "$out" 2>&1 ||
            { tail -n 5 "$out"; exit 1; }
        ended=${EPOCHREALTIME/./}
        printf '%6d %8s %8s %8d\n' "$n" "$when" "$(awk "BEGIN {printf \"%.1f\", ($ended - $begun) / 1e6}")" "$(grep -c 'rail to rank .* is up' "$out")"
    done
done
