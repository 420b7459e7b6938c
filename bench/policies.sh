#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Policies of gradient sessions over real sockets: emulated hosts on one switch, computation replayed as sleeps (replay.c).
# bench/README.md says how to read the result.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BRAID_BUILD:-$here/../build/release}
hosts=8 nic=100 kilobytes=1500 iterations=6 rounds=1
models="resnet50 googlenet vgg19" ratios="0.5 1.5" policies="layerwise single bucket mgwfbp p3 auto"

usage() {
    cat << END
Usage: bench/policies.sh [options]
  --models "..."    of data/models (default $models)
  --policies "..."  (default $policies)
  --ratios "..."    computation of an iteration over the time that its gradients take (default $ratios)
  --hosts N         a rank each (default $hosts)
  --nic N           Mbit/s of each (default $nic)
  --kilobytes N     of gradients, to which a network is scaled (default $kilobytes)
  --iterations N    that are timed (default $iterations)
  --rounds N        medians count (default $rounds)
BRAID_BUILD names the build directory (default build/release). Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
take_options "models policies ratios hosts nic kilobytes iterations rounds" "$@"
# shellcheck source=bench/lib/iterations.sh
. "$here/lib/iterations.sh"
run_iterations "policies$$" "$policies" "$build/bench/replay"
python3 - "$rows" "$policies" << 'END'
import statistics, sys
got, policies = {}, sys.argv[2].split()
for line in open(sys.argv[1]):
    model, ratio, policy, compute, ms = line.strip().split(";")
    got.setdefault((model, ratio, float(compute)), {}).setdefault(policy, []).append(float(ms))
print("| network | computation, ms |", " | ".join(policies), "| auto against the best other |")
print("|" + "---|" * (len(policies) + 3))
for (model, ratio, compute), row in got.items():
    ms = {policy: statistics.median(v) for policy, v in row.items()}
    others = [v for policy, v in ms.items() if policy != "auto"]
    off = "%+.1f %%" % (100 * (ms["auto"] / min(others) - 1)) if others and "auto" in ms else ""
    print("| %s | %.0f |" % (model, compute), " | ".join("%.0f" % ms[p] for p in policies), "| %s |" % off)
END
