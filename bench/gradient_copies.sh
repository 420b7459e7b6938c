#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Merged gradients that lie side by side, which travel from where they are, against such that lie apart and are copied into a buffer and back:
# a gradient session in shared memory, and over real sockets between emulated hosts (replay.c). bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
ranks=4 nic=1gbit model=googlenet percent=100 policies="single bucket" places="shm links" iterations=6 rounds=3 compute=100

usage() {
    cat << END
Usage: bench/gradient_copies.sh [options]
  --places "..."    of: $places
  --policies "..."  (default $policies)
  --model NAME      of data/models (default $model)
  --percent N       of each layer's gradient (default $percent)
  --compute N       ms of computation in an iteration, as sleeps (default $compute)
  --ranks N         (default $ranks)
  --nic RATE        of each host (default $nic)
  --iterations N    that are timed (default $iterations)
  --rounds N        medians count (default $rounds)
BRAID_BUILD names the build directory (default build/release). \`links\` needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "places policies model percent compute ranks nic iterations rounds" "$@"
[[ -x $build/bench/replay ]] || { echo "$build/bench/replay is not built" >&2; exit 2; }
work=$(mktemp -d) bed=copying$$
trap 'rm -rf "$work"; [[ ! -e $work.up ]] || { rm "$work.up"; "$build/braid" bcube down "$bed"; } > /dev/null' EXIT
trap 'exit 130' INT TERM
if [[ $places == *links* ]]; then
    : > "$work.up"
    "$build/braid" bcube emulate "$ranks" 1 --rate "$nic" --name "$bed" > /dev/null || exit 1
fi

job() { # PLACE COMMAND...: one job of all ranks
    local place=$1
    shift
    case $place in
    shm) timeout 100 "$build/braid" run -n "$ranks" --no-prefix --backend shm -- "$@" ;;
    links) "$build/braid" bcube run --name "$bed" --no-prefix --timeout 100 -- "$@" ;;
    *) usage; return 2 ;;
    esac
}

for ((round = 0; round < rounds; round++)); do
    for place in $places; do
        for policy in $policies; do
            for memory in together apart; do
                [[ $memory == apart ]] && apart=(--apart) || apart=()
                job "$place" "$build/bench/replay" --percent "$percent" --compute "$compute" --iterations "$iterations" "${apart[@]}" \
                    "$here/../data/models/$model.csv" "$policy" > "$work/out" 2>&1 || { cat "$work/out" >&2; exit 1; }
                echo "$place;$policy;$memory;$(sed -n 's/.* \([0-9.]*\) ms, [0-9]* all-reduces.* busy \([0-9.]*\) ms, copied \([0-9.]*\) MB/\1;\2;\3/p' "$work/out")" |
                    tee -a "$work/rows" >&2
            done
        done
    done
done
python3 - "$work/rows" << 'END'
import statistics, sys
got = {}
for line in open(sys.argv[1]):
    place, policy, memory, *figures = line.strip().split(";")
    got.setdefault((place, policy), {}).setdefault(memory, []).append([float(x) for x in figures])
print("| place | policy | copied, MB an iteration | ms an iteration | copied | more | processor, ms an iteration | copied | more |")
print("|" + "---|" * 9)
for (place, policy), row in got.items():
    (ms, busy, _), (ms2, busy2, copied) = ([statistics.median(v) for v in zip(*row[m])] for m in ("together", "apart"))
    print("| %s | %s | %.1f | %.1f | %.1f | %+.1f %% | %.1f | %.1f | %+.1f %% |" %
          (place, policy, copied, ms, ms2, 100 * (ms2 / ms - 1), busy, busy2, 100 * (busy2 / busy - 1)))
END
