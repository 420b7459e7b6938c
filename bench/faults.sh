#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# All-reduce on an emulated BCube while a NIC or a switch is down, against what the links that are left allow; bench/README.md says
# how to read it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
braid=$build/braid
shape=3,2 rate=100 bytes=$((8 << 20)) iterations=6 algorithms="auto bml"

usage() {
    cat << END
Usage: bench/faults.sh [options]
  --shape N,K            of the BCube (default $shape)
  --rate N               of each NIC, Mbit/s (default $rate)
  --bytes N              of an all-reduce (default $bytes)
  --iterations N         that are timed (default $iterations)
  --algorithms "A ..."   (default $algorithms)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "shape rate bytes iterations algorithms" "$@"
n=${shape%,*} k=${shape#*,}
bed=faults$$
work=$(mktemp -d)
trap '"$braid" bcube down $bed > /dev/null 2>&1; rm -rf "$work"' EXIT

"$braid" bcube emulate "$n" "$k" --name $bed --rate "${rate}mbit" > "$work/out" || exit 1

# Rows of three sizes that hardly differ: before the fault, while it is noticed, and with it.
rows() {
    grep -cE '^ +[0-9]+ ' "$work/out"
}

run() { # ALGORITHM [FAULT...]; prints microseconds of the last row
    local algorithm=$1 job
    shift
    "$braid" bcube run --name $bed --no-prefix --timeout 240 -- "$braid" allreduce --algorithm "$algorithm" \
        -b "$bytes" -e $((bytes + 8192)) -i 4096 -n "$iterations" -w 1 -c 0 -a 3 > "$work/out" 2> "$work/err" &
    job=$!
    if [[ $# -gt 0 ]]; then
        while kill -0 $job 2> /dev/null && [[ $(rows) -lt 1 ]]; do sleep 0.1; done
        "$braid" bcube fault --name $bed "$@" down || return
    fi
    wait $job || {
        echo "the job ended badly: $(grep -v warn "$work/err" | tail -1)" >&2
        return 1
    }
    "$braid" bcube fault --name $bed clear > /dev/null
    grep -E '^ +[0-9]+ ' "$work/out" | tail -1 | awk '{ print $6 }'
}

# A link carries 1448 of the 1514 bytes of each packet.
printf 'BCube(%d,%d), links of %d Mbit/s, all-reduce of %d bytes; times in T_F, the time of the buffer over one link\n' \
    "$n" "$k" "$rate" "$bytes"
printf '%-8s %-16s %9s %9s %7s %9s %7s\n' algorithm down measured messages of any of
for algorithm in $algorithms; do
    for fault in "" "nic 4 0" "switch 1 0"; do
        # shellcheck disable=SC2086 # words
        us=$(run "$algorithm" $fault) || continue
        # shellcheck disable=SC2086
        bounds=$("$build/bench/faults" "$n,$k" "$algorithm" $fault) || exit 1
        awk -v us="$us" -v bytes="$bytes" -v rate="$rate" -v bounds="$bounds" -v a="$algorithm" -v f="${fault:-nothing}" 'BEGIN {
            split(bounds, b, " ")
            t = us / (bytes * 8 / (rate * 1448 / 1514))
            printf "%-8s %-16s %9.3f %9.3f %6.0f%% %9.3f %6.0f%%\n", a, f, t, b[1], 100 * b[1] / t, b[2], 100 * b[2] / t
        }'
    done
done
