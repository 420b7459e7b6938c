#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# dist.all_reduce of PyTorch by braid and by gloo, by turns; and what the way through PyTorch costs over C. bench/README.md says how to read the result.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
build=$(realpath "${BRAID_BUILD:-$here/../build/release}")
rounds=7 ms=60 ranks="2 4" transports="shm veth" backends="gloo braid" json='' overheads=5
sizes="8 64 512 4096 32768 65536 262144 1048576 4194304 16777216 67108864 268435456"

usage() {
    cat << END
Usage: bench/torch_allreduce.sh [options]
  --rounds N                 of both back ends by turns; medians count (default $rounds)
  --ms N                     that the calls of a size take in a round (default $ms)
  --ranks "2 4"
  --transports "shm veth"    shm: one host, where gloo takes loopback; veth: TCP between two namespaces, half of the ranks in each
  --backends "gloo braid"    names of PyTorch's; mpi where torch has it
  --sizes "8 64 ..."         in bytes, multiples of 4
  --overheads N              rounds of 8 bytes in C and in PyTorch by turns (default $overheads)
  --quick                    fewer rounds and sizes: a minute
  --json FILE                all figures
PYTHON names a Python with torch (default build/torch/bin/python), BRAID_BUILD the build directory (default build/release) with braid.torch in it. TCP needs root, for network namespaces.
END
}
# shellcheck source=bench/lib/options.sh
. "$here/lib/options.sh"
[[ " $* " != *" --quick "* ]] || { rounds=3 ms=20 overheads=2 sizes="8 4096 65536 1048576 16777216"; }
take_options "rounds ms ranks transports backends sizes overheads json quick!" "$@"
# shellcheck source=bench/lib/torch.sh
. "$here/lib/torch.sh"
# shellcheck source=bench/lib/hosts.sh
. "$here/lib/hosts.sh"

# on TRANSPORT RANKS COMMAND...: the ranks of a job; what they say in errors is shown if one fails.
on() {
    local transport=$1 n=$2 how=()
    shift 2
    if [[ $transport == shm ]]; then
        how=(env GLOO_SOCKET_IFNAME=lo "$build/braid" run -n "$n" --no-prefix --)
    else
        how=(hosts_run "$n" $((n / 2)) 1)
    fi
    "${how[@]}" timeout 300 "$@" 2> "$work/words" || { cat "$work/words" >&2; exit 1; }
}

# Blocking all-reduces of 8 bytes, the C program and PyTorch in jobs by turns; PyTorch's own back end that does nothing; and without its flight recorder.
overhead() { # TRANSPORT RANKS
    local round
    for ((round = 0; round < overheads; round++)); do
        on "$1" "$2" "$build/bench/python_floor" 8 | sed "s/^8 /$1 $2 8 C /"
        on "$1" "$2" "$python" "$here/torch_allreduce.py" "$ms" 3 braid,fake 8 | sed "s/^8 braid/$1 $2 8 torch/; s/^8 fake/$1 $2 8 nothing/"
        TORCH_FR_BUFFER_SIZE=0 on "$1" "$2" "$python" "$here/torch_allreduce.py" "$ms" 3 braid 8 | sed "s/^8 braid/$1 $2 8 unrecorded/"
    done
}

begin=$SECONDS
[[ $transports != *veth* ]] || hosts_up 2 1
for transport in $transports; do
    for n in $ranks; do
        echo "  $transport, $n ranks" >&2
        # shellcheck disable=SC2086 # the sizes are words
        on "$transport" "$n" "$python" "$here/torch_allreduce.py" "$ms" "$rounds" "${backends// /,}" $sizes | sed "s/^/$transport $n /" >> "$work/rows"
        [[ $backends != *braid* ]] || overhead "$transport" "$n" >> "$work/rows"
    done
done
"$python" - "$work/rows" "$backends" "$json" << 'END'
import json, statistics, sys

def human(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB" if size >= 1024 else f"{size} B"

def short(us):
    return f"{us:,.0f}" if us >= 1000 else f"{us:.0f}" if us >= 100 else f"{us:.1f}"

got = {}
for line in open(sys.argv[1]):
    transport, ranks, size, name, us = line.split()
    got.setdefault((transport, int(ranks)), {}).setdefault(int(size), {}).setdefault(name, []).append(float(us))
backends, figures = sys.argv[2].split(), []
for (transport, ranks), sizes in got.items():
    print(f"\n{transport}, {ranks} ranks, us\n\n| bytes | {' | '.join(backends)} | gloo / braid |\n|" + "---|" * (len(backends) + 2))
    for size, by_name in sizes.items():
        median = {name: statistics.median(v) for name, v in by_name.items()}
        figures.append({"transport": transport, "ranks": ranks, "bytes": size, "us": median})
        if not set(backends) <= set(median):
            continue  # 8 bytes that were only measured beside C
        ratio = f"{median['gloo'] / median['braid']:.2f}" if {"gloo", "braid"} <= set(median) else ""
        print(f"| {human(size)} | {' | '.join(short(median[name]) for name in backends)} | {ratio} |")
    if "C" in sizes.get(8, {}):
        c, torch, unrecorded, nothing = (statistics.median(sizes[8][name]) for name in ("C", "torch", "unrecorded", "nothing"))
        print(f"\n8 bytes, {transport}, {ranks} ranks: {c:.2f} us in C, {torch:.2f} us in PyTorch, {torch - c:.2f} us more; without PyTorch's flight recorder "
              f"(TORCH_FR_BUFFER_SIZE=0) {unrecorded:.2f} us, {unrecorded - c:.2f} us more. PyTorch's back end that does nothing takes {nothing:.2f} us.")
if sys.argv[3]:
    json.dump(figures, open(sys.argv[3], "w"), indent=1)
END
echo "took $((SECONDS - begin)) s"
