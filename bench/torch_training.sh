#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Training of PyTorch networks on emulated hosts with several NICs: DistributedDataParallel over gloo, over braid, with braid's hook, and braid.torch.Session, by
# turns; beside each what `braid plan --model` predicts from the layers' times. bench/README.md says how to read the result.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${BRAID_BUILD:-$here/../build/release}")
ranks="2 4" rates="100mbit 1gbit" nics=2 models="resnet vgg gpt lstm" ratios="0.1 1" ways="gloo ddp hook bf16 session" rounds=3 iterations=4 bucket=500000 json=''

usage() {
    cat << END
Usage: bench/torch_training.sh [options]
  --ranks "2 4"        a host each
  --rates "..."        of a NIC, as tc writes it (default $rates)
  --nics N             of a host; gloo uses one (default $nics)
  --models "..."       of torch_models.py (default $models)
  --ratios "0.1 1"     of computation over the time that the gradients take over all NICs; the batch is chosen so. 0.1: the network dominates
  --ways "..."         gloo, ddp: DistributedDataParallel over gloo and braid; hook, bf16: braid with its communication hook; session;
                       fsdp-gloo, fsdp, fsdp-hook: FSDP2 over gloo, over braid, with braid's hook, nothing of which is predicted (default $ways)
  --rounds N           of all ways by turns (default $rounds)
  --iterations N       of a way in a round that count; the median of all counts (default $iterations)
  --bucket BYTES       of DistributedDataParallel's buckets: 25 MiB, scaled as the networks are (default $bucket)
  --quick              two networks, 2 ranks, one round: a minute
  --json FILE          all figures
PYTHON names a Python with torch (default build/torch/bin/python), BRAID_BUILD the build directory (default build/release) with braid.torch in it. Needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
[[ " $* " != *" --quick "* ]] || { ranks=2 models="vgg gpt" rounds=1; }
take_options "ranks rates nics models ratios ways rounds iterations bucket json quick!" "$@"
# shellcheck source=bench/lib/torch.sh
. "$here/lib/torch.sh"
# shellcheck source=bench/lib/hosts.sh
. "$here/lib/hosts.sh"

# What `braid plan` says of each network with the measured a and b of each back end: FOLDER/MODEL-RATIO.BACKEND.json.
predict() { # FOLDER RANKS
    local table backend a b
    "$python" -c 'import json, sys
for name, (a, b) in json.load(open(sys.argv[1]))["lines"].items():
    print(name, a * 1e6, b * 1e9)
    if name == "braid":
        print("half", a * 1e6, b * 1e9 / 2)' "$1/results.json" > "$1/lines"
    for table in "$1"/*.times.csv; do
        table=${table%.times.csv}
        while read -r backend a b; do
            "$build/braid" plan --model "$table.csv" --times "$table.times.csv" -n "$2" --rails 2 --cost "$a,$b" --bucket "$bucket" --json "$table.$backend.json" > /dev/null
        done < "$1/lines"
    done
}

begin=$SECONDS
for rate in $rates; do
    for n in $ranks; do
        folder=$work/$rate-$n
        mkdir "$folder"
        hosts_up "$n" "$nics" "$rate"
        echo "  $rate, $n ranks" >&2
        hosts_run "$n" 1 "$nics" timeout 580 "$python" "$here/torch_training.py" "$folder" --models "$models" --ratios "$ratios" --ways "$ways" --rounds "$rounds" \
            --iterations "$iterations" --bucket "$bucket" 2> "$work/words" || { cat "$work/words" >&2; exit 1; }
        hosts_down
        predict "$folder" "$n"
    done
done
"$python" - "$work" "$rates" "$ranks" "$ways" "$json" << 'END'
import json, statistics, sys

work, rates, ranks, ways, out = sys.argv[1], sys.argv[2].split(), sys.argv[3].split(), sys.argv[4].split(), sys.argv[5]
TITLES = {"gloo": "gloo", "ddp": "braid", "hook": "braid, hook", "bf16": "hook, bf16", "session": "Session",
          "fsdp-gloo": "FSDP2, gloo", "fsdp": "FSDP2, braid", "fsdp-hook": "FSDP2, hook"}
PLANS = {"gloo": ("gloo", "bucket"), "ddp": ("braid", "bucket"), "hook": ("braid", "bucket"), "bf16": ("half", "bucket"), "session": ("braid", "auto")}
figures = []
for rate in rates:
    for n in ranks:
        folder = f"{work}/{rate}-{n}"
        results = json.load(open(f"{folder}/results.json"))
        lines = "; ".join(f"{name} {a * 1e3:.2f} ms + {b * 1e9:.1f} ns/B" for name, (a, b) in results["lines"].items())
        print(f"\n{n} ranks, {rate} a NIC; an all-reduce: {lines}. ms an iteration, and what was predicted:\n")
        print("| network | batch | computation |", " | ".join(TITLES[way] for way in ways), "| gloo / braid | braid / Session | predicted |")
        print("|" + "---|" * (len(ways) + 6))
        for row in results["rows"]:
            def predicted(way):
                backend, policy = PLANS[way]
                plan = json.load(open(f"{folder}/{row['model']}-{row['ratio']}.{backend}.json"))
                return next(p["iteration_s"] for p in plan["policies"] if p["policy"] == policy)
            measured = {way: statistics.median(row["iterations_s"][way]) for way in ways}
            plans = {way: predicted(way) for way in ways if way in PLANS}
            def over(values, a, b):
                return f"{values[a] / values[b]:.2f}" if a in values and b in values else ""
            print(f"| {row['model']} | {row['batch']} | {row['compute_s'] * 1e3:.0f} |",
                  " | ".join(f"{measured[way] * 1e3:.0f}" + (f" ({plans[way] * 1e3:.0f})" if way in plans else "") for way in ways),
                  f"| {over(measured, 'gloo', 'ddp')} ({over(plans, 'gloo', 'ddp')}) | {over(measured, 'ddp', 'session')} | {over(plans, 'ddp', 'session')} |")
            figures.append({"rate": rate, "ranks": int(n), "lines": results["lines"], "measured_s": measured, "predicted_s": plans, **row})
if out:
    json.dump(figures, open(out, "w"), indent=1)
END
echo "took $((SECONDS - begin)) s"
