#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# SSD-SGD against SSGD: what delayed pulls do to accuracy, and to the time of an iteration where communication dominates.
# bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
parts="accuracy speed" seeds="1 2 3 4 5" ranks=4 iterations=8000 rate=0.01 batch=32 samples=8000 test=8000
methods="ssgd,ssd -k 1,ssd -k 2,ssd -k 3,ssd -k 4,ssd -k 2 --local sgd,ssd -k 4 --local sgd" log=''
hosts=4 nic=100mbit devices="50 100 200" width=2048 slice=50000 rounds=3 timed=120

usage() {
    cat << END
Usage: bench/ssd.sh [options]
  --parts "..."     of: $parts
  --methods "..."   with commas (default $methods; of these \`speed\` takes those without --local)
 accuracy, in one process that does the work of all workers:
  --seeds "..."     of samples and first weights (default $seeds)
  --ranks N         workers (default $ranks)
  --iterations N    (default $iterations)
  --batch N         of a worker (default $batch)
  --samples N       to learn from (default $samples)
  --test N          that accuracy is taken on (default $test)
  --rate R          learning rate (default $rate)
  --log FILE        a line for each training, kept; a method with a seed that is in it already is not trained again
 speed, on emulated hosts on one switch:
  --hosts N         a rank each (default $hosts)
  --nic RATE        of each (default $nic)
  --devices "..."   ms that a device takes for an iteration (default $devices)
  --width N         of the network's dense layer: 145 weights each (default $width)
  --slice BYTES     of a push or pull (default $slice)
  --timed N         iterations, of which the second half counts (default $timed)
  --rounds N        medians count (default $rounds)
BRAID_BUILD names the build directory (default build/release). \`speed\` needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "parts methods log seeds ranks iterations batch samples test rate hosts nic devices width slice timed rounds" "$@"
[[ -x $build/braid ]] || { echo "$build/braid is not built" >&2; exit 2; }
work=$(mktemp -d) bed=ssd$$
trap 'rm -rf "$work"; [[ ! -e $work.up ]] || { rm "$work.up"; "$build/braid" bcube down "$bed"; } > /dev/null' EXIT
trap 'exit 130' INT TERM

IFS=, read -ra every <<< "$methods"
: "${log:=$work/accuracy}"

# Mean and deviation, over the seeds, of the accuracy, and of its distance to that of ssgd with the same seed, with the interval that holds
# the mean of all seeds with 95 % (Student's t).
accuracy() {
    local seed method
    touch "$log" || exit 1
    for seed in $seeds; do
        for method in "${every[@]}"; do
            ! grep -q "^$seed;$method;" "$log" || continue
            # shellcheck disable=SC2086 # options
            "$build/braid" train --single "$ranks" --servers $method --warmup 500 -n "$iterations" -b "$batch" \
                --samples "$samples" --test "$test" -r "$rate" --seed "$seed" > "$work/out" || exit 1
            echo "$seed;$method;$(sed -n 's/.*accuracy \([0-9.]*\) %.*/\1/p' "$work/out")" | tee -a "$log" >&2
        done
    done
    echo "| method | seeds | accuracy | deviation | against ssgd | deviation | 95 % |"
    echo "|---|---|---|---|---|---|---|"
    python3 - "$log" << 'END'
import math, statistics, sys
rows = [line.strip().split(";") for line in open(sys.argv[1])]
got = {(method, seed): float(accuracy) for seed, method, accuracy in rows}
spread = lambda v: statistics.stdev(v) if len(v) > 1 else 0
def student(v, z=1.959964):  # the 97.5 % quantile, expanded in 1 / degrees of freedom
    return (z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3))
for method in dict.fromkeys(method for _, method, _ in rows):
    v = [a for (m, _), a in got.items() if m == method]
    d = [a - got["ssgd", seed] for (m, seed), a in got.items() if m == method and ("ssgd", seed) in got]
    if not d:
        continue
    mean = statistics.mean(d)
    half = student(len(d) - 1) * spread(d) / math.sqrt(len(d)) if len(d) > 1 else math.inf
    print("| %s | %d | %.2f | %.2f | %+.2f | %.2f | %+.2f to %+.2f |" %
          (method, len(d), statistics.mean(v), spread(v), mean, spread(d), mean - half, mean + half))
END
}

# Medians, over rounds in which the methods take turns, of the ms of an iteration; beside them what the formula makes of the times of the
# warm-up of the last round.
speed() {
    local round device method
    : > "$work.up"
    "$build/braid" bcube emulate "$hosts" 1 --rate "$nic" --name "$bed" > /dev/null || exit 1
    for ((round = 0; round < rounds; round++)); do
        for device in $devices; do
            for method in "${every[@]}"; do
                [[ $method != *--local* ]] || continue
                # shellcheck disable=SC2086
                "$build/braid" bcube run --name "$bed" --no-prefix -- "$build/braid" train --servers $method --warmup 6 -n "$timed" -b 4 \
                    --samples 100 --test 64 --width "$width" --device-ms "$device" --slice "$slice" > "$work/out" 2>&1 ||
                    { cat "$work/out" >&2; exit 1; }
                echo "$device;$method;$(sed -n 's/.*, \([0-9.]*\) of the second half.*/\1/p' "$work/out");$(sed -n \
                    's/^ms by.* ssgd \([0-9.]*\), k = 1 to 5 /\1 /p' "$work/out")" | tee -a "$work/speed" >&2
            done
        done
    done
    echo "| device, ms | method | ms an iteration | predicted | against ssgd |"
    echo "|---|---|---|---|---|"
    python3 - "$work/speed" << 'END'
import statistics, sys
got, predicted = {}, {}
for line in open(sys.argv[1]):
    device, method, ms, formula = line.strip().split(";")
    got.setdefault((device, method), []).append(float(ms))
    if formula:
        predicted[device] = [float(x) for x in formula.split()]
for (device, method), ms in got.items():
    middle, k = statistics.median(ms), 0 if method == "ssgd" else int(method.split()[-1])
    formula = "%.1f" % predicted[device][k] if device in predicted else ""
    print("| %s | %s | %.1f | %s | %+.0f %% |" % (device, method, middle, formula, 100 * (statistics.median(got[device, "ssgd"]) / middle - 1)))
END
}

for part in $parts; do
    case $part in
    accuracy | speed) "$part" ;;
    *) usage >&2; exit 2 ;;
    esac
done
