#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# P3 over parameter servers, the setting of its paper: emulated hosts on one switch, computation replayed as sleeps (servers.c).
# bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
hosts=4 nic=100 kilobytes=3000 iterations=8 rounds=1 slice=12000
models="vgg19" ratios="0.5 1 1.5" ways="layers split slices p3"

usage() {
    cat << END
Usage: bench/servers.sh [options]
  --models "..."    of data/models (default $models)
  --ways "..."      (default $ways)
  --ratios "..."    computation of an iteration over the time that its pushes and pulls take (default $ratios)
  --hosts N         a worker and a server each (default $hosts)
  --nic N           Mbit/s of each (default $nic)
  --kilobytes N     of weights, to which a network is scaled (default $kilobytes)
  --slice BYTES     of a push or pull, at most; larger where there would be more than 28 a server (default $slice)
  --iterations N    that are timed (default $iterations)
  --rounds N        medians count (default $rounds)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "models ways ratios hosts nic kilobytes slice iterations rounds" "$@"
# shellcheck source=bench/lib/iterations.sh
. "$here/lib/iterations.sh"
run_iterations "servers$$" "$ways" "$build/bench/servers" --slice "$slice"
python3 - "$rows" "$ways" << 'END'
import statistics, sys
got, ways = {}, sys.argv[2].split()
for line in open(sys.argv[1]):
    model, ratio, way, compute, ms = line.strip().split(";")
    got.setdefault((model, ratio, float(compute)), {}).setdefault(way, []).append(float(ms))
print("| network | ratio | computation, ms |", " | ".join(ways), "|", " | ".join("p3 against " + w for w in ways if w != "p3"), "|")
print("|" + "---|" * (2 + 2 * len(ways)))
for (model, ratio, compute), row in got.items():
    ms = {way: statistics.median(v) for way, v in row.items()}
    more = ["%+.0f %%" % (100 * (ms[w] / ms["p3"] - 1)) if "p3" in ms else "" for w in ways if w != "p3"]
    print("| %s | %s | %.0f |" % (model, ratio, compute), " | ".join("%.0f" % ms[w] for w in ways), "|", " | ".join(more), "|")
END
