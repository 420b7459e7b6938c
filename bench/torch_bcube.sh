#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# PyTorch in an emulated BCube: braid with its two NICs a host, and gloo on one NIC of the same rate on one switch, by turns in the same jobs. bench/README.md says
# how to read the result.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${BRAID_BUILD:-$here/../build/release}")
shape=3,2 rate=100mbit sizes="8 65536 1048576 4194304 16777216" rounds=3 ms=300 models="vgg" json=''

usage() {
    cat << END
Usage: bench/torch_bcube.sh [options]
  --shape N,K        BCube of N-port switches with K levels, a rank a host (default $shape)
  --rate RATE        of each NIC (default $rate)
  --sizes "8 ..."    of dist.all_reduce, bytes, multiples of 4 (default $sizes)
  --ms N             that the calls of a size take in a round, at least one call (default $ms)
  --rounds N         of both back ends by turns; medians count (default $rounds)
  --models "..."     of torch_models.py that DistributedDataParallel trains, small batches (default $models); "": none
  --quick            fewer sizes and rounds: a minute
  --json FILE        all figures
PYTHON names a Python with torch (default build/torch/bin/python), BRAID_BUILD the build directory (default build/release) with braid.torch in it. Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
[[ " $* " != *" --quick "* ]] || { sizes="65536 4194304" rounds=1 models=''; }
take_options "shape rate sizes ms rounds models json quick!" "$@"
# shellcheck source=bench/lib/torch.sh
. "$here/lib/torch.sh"
# shellcheck source=bench/lib/shape.sh
. "$here/lib/shape.sh"
[[ $(id -u) == 0 ]] || { echo "needs root for network namespaces: run it with sudo" >&2; exit 2; }
name=tbc$$ work=$(mktemp -d) begin=$SECONDS
trap '"$build/braid" bcube down --name "$name" > /dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Gloo needs a network in which every host reaches every other by one NIC: the testbed's management network, all hosts on one switch, gets the rate of the cube's
# links, and connections over it cubic, as braid's have.
"$build/braid" bcube emulate "${shape%,*}" "${shape#*,}" --rate "$rate" --name "$name" > /dev/null
hosts=$((${shape%,*} ** ${shape#*,}))
for ((host = 0; host < hosts; host++)); do shape_link "$name-switches" "mgmt-$host" "$rate"; done
for space in $(ip netns list | awk -v name="$name-h" 'index($1, name) == 1 {print $1}'); do
    shape_link "$space" mgmt0 "$rate"
    route=$(ip -n "$space" route show dev mgmt0)
    # shellcheck disable=SC2086 # the route's words
    ip -n "$space" route replace $route dev mgmt0 congctl cubic
done
export GLOO_SOCKET_IFNAME=mgmt0 BRAID_TCP_CONGESTION=cubic

# in_cube COMMAND...: a rank on each host.
in_cube() {
    "$build/braid" bcube run --name "$name" --no-prefix --timeout 300 -- "$@" 2> "$work/words" || { cat "$work/words" >&2; exit 1; }
}

# shellcheck disable=SC2086 # the sizes are words
in_cube "$python" "$here/torch_allreduce.py" "$ms" "$rounds" gloo,braid $sizes > "$work/rows"
[[ -z $models ]] ||
    in_cube "$python" "$here/torch_training.py" "$work" --models "$models" --ratios 0.1 --ways "gloo ddp" --rounds "$rounds" --iterations 3
"$python" - "$work" "$shape" "$rate" "$json" << 'END'
import json, os, statistics, sys

work, shape, rate, out = sys.argv[1:]
n, k = (int(word) for word in shape.split(","))
ranks, got = n**k, {}
for line in open(f"{work}/rows"):
    size, name, us = line.split()
    got.setdefault(int(size), {}).setdefault(name, []).append(float(us))
print(f"BCube({shape}), {ranks} ranks, {rate} a NIC; gloo has one NIC, braid {k}\n\n| | gloo, ms | braid, ms | gloo / braid |\n|---|---|---|---|")
figures = []
def row(what, gloo, braid):
    print(f"| {what} | {gloo:,.2f} | {braid:,.2f} | {gloo / braid:.2f} |")
    figures.append({"what": what, "gloo_ms": gloo, "braid_ms": braid})
for size, by_name in got.items():
    row(f"all_reduce, {size:,} bytes", *(statistics.median(by_name[name]) / 1e3 for name in ("gloo", "braid")))
if os.path.exists(f"{work}/results.json"):
    for model in json.load(open(f"{work}/results.json"))["rows"]:
        row(f"an iteration of {model['model']}, batch {model['batch']}, {model['bytes']:,} bytes of gradients",
            *(statistics.median(model["iterations_s"][way]) * 1e3 for way in ("gloo", "ddp")))
if out:
    json.dump(figures, open(out, "w"), indent=1)
END
echo "took $((SECONDS - begin)) s"
