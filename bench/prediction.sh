#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How far the cost model is from the truth on emulated networks: measures the figures, then every algorithm and size.
# bench/README.md says how to read the result. The last line is the median error of all. Needs root.
set -u
build=${BRAID_BUILD:-$(dirname "$0")/../build/release}
braid=$(realpath "$build/braid")
shapes="3,2 2,2 2,3 4,2 2x4" rate=50mbit min=64K max=1M factor=4 limit=3 burst=6kb gso=4500 keep=

usage() {
    cat << END
Usage: bench/prediction.sh [options]
  --shapes "S ..."  of BCubes, or NxR: N hosts of R ranks on one switch (default $shapes)
  --rate RATE       of each NIC (default $rate)
  --min SIZE        smallest size (default $min)
  --max SIZE        largest size (default $max)
  --factor N        from one size to the next (default $factor)
  --limit SECONDS   leaves out what should take longer (default $limit)
  --burst SIZE      of a link's token bucket (default $burst). A bucket that holds a good part of what a link carries lets it through at once,
                    so small sizes need a small one, which costs processor time a packet
  --gso BYTES       of a packet before segmentation; less than the burst (default $gso)
  --keep DIR        the plans stay there, and the summary is of all that are there, so that several calls can measure what one rate
                    does not suit
Large sizes: --rate 500mbit --burst 128kb --gso 65536 --min 16M --max 64M.
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$(dirname "$0")/lib/options.sh"
take_options "shapes rate min max factor limit burst gso keep" "$@"
[ "$(id -u)" = 0 ] || { echo "prediction.sh: the emulation needs root"; exit 77; }
name=prediction$$
dir=$(mktemp -d)
plans=$(realpath -m "${keep:-$dir/plans}")
mkdir -p "$plans" || exit 1
trap '"$braid" bcube down "$name" >/dev/null 2>&1; rm -rf "$dir"' EXIT
failed=0

# A link must not be faster than its rate for the first 128 KB after a pause, as the testbed's buckets let it.
small_buckets() {
    local space link
    for space in $(ip netns list | awk -v name="$name-" 'index($1, name) == 1 {print $1}'); do
        for link in $(ip -n "$space" -o link show | awk -F'[ :@]+' '$2 ~ /^(eth[0-9]+|l[0-9]+s[0-9]+p[0-9]+)$/ {print $2}'); do
            ip -n "$space" link set dev "$link" gso_max_size "$gso" || return 1
            ip netns exec "$space" tc qdisc replace dev "$link" root tbf rate "$rate" burst "$burst" latency 50ms || return 1
        done
    done
}

for shape in $shapes; do
    case $shape in
    *x*) cube="${shape%x*} 1" per_host=${shape#*x} ;;
    *) cube=${shape/,/ } per_host=1 ;;
    esac
    # shellcheck disable=SC2086
    "$braid" bcube emulate $cube --rate "$rate" --name "$name" >/dev/null || exit 1
    small_buckets || exit 1
    "$braid" bcube run --name "$name" --ranks-per-host "$per_host" --no-prefix -- "$braid" plan --measure "$dir/cal.json" --run \
        -b "$min" -e "$max" -f "$factor" --limit "$limit" --exact --json "$plans/$shape-$rate-$min-$max.json" || failed=1
    "$braid" bcube down "$name" >/dev/null
done
python3 - "$plans" <<'PYTHON' || failed=1
import glob, json, statistics, sys

def error(row):
    return 100 * abs(row.get("exact_us", row["predicted_us"]) / row["measured_us"] - 1)

def medians(rows, of):
    return ", ".join(f"{name} {statistics.median(error(r) for r in rows if of(r) == name):.1f}"
                     for name in sorted({of(r) for r in rows}))

def size(row):
    return row["bytes"] >> 10

def family(row):
    return row["algorithm"].split(":")[0]

shapes = {}
for path in sorted(glob.glob(sys.argv[1] + "/*.json")):
    plan = json.load(open(path))
    shapes.setdefault(plan["topology"], []).extend(r for r in plan["rows"] if "measured_us" in r)
rows = sum(shapes.values(), [])
for topology, measured in shapes.items():
    if not measured:
        continue
    by_size = {b: [r for r in measured if r["bytes"] == b] for b in {r["bytes"] for r in measured}}
    best = sum(1 for group in by_size.values()
               if any(r["chosen"] and r["measured_us"] <= 1.1 * min(g["measured_us"] for g in group) for r in group))
    print(f"# {topology}: median error {statistics.median(map(error, measured)):.1f} % of {len(measured)}, by KiB: "
          f"{medians(measured, size)}; the chosen one within 10 % of the fastest for {best} of {len(by_size)} sizes")
if not rows:
    sys.exit("prediction.sh: nothing was measured")
print(f"# by KiB: {medians(rows, size)}")
print(f"# by algorithm: {medians(rows, family)}")
print(f"# median error of all {len(rows)}: {statistics.median(map(error, rows)):.1f} %")
PYTHON
exit $failed
