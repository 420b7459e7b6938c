#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What `./dev test --gpu` runs with several processes on a real GPU, on the fake driver, which says nothing about rates.
set -euo pipefail
if [[ -n ${BRAID_SANITIZE:-} ]]; then
    echo "the programs of bench/ are run in the release build: system/gpu and system/stream do the same under sanitizers"
    exit 77
fi
export BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

wrapper=()
# runs RANKS EXPECTED MODE...
runs() {
    local n=$1 expected=$2 said
    shift 2
    said=$(timeout 120 "$BRAID_BUILD/braid" run -n "$n" --no-prefix -- "${wrapper[@]}" "$BRAID_BUILD/bench/gpu_allreduce" "$@" 2> "$errors") || true
    if ! grep -qE "$expected" <<< "$said"; then
        echo "$n ranks, $*: $said"
        cat "$errors"
        exit 1
    fi
}

runs 2 'all-reduce of 10 types by 2 ranks is right' check
if [[ $(id -u) -eq 0 ]]; then
    wrapper=("$BRAID_SOURCE/bench/two_hosts.sh")
    BRAID_LOG=info BRAID_GPU_REDUCE=auto BRAID_DEVICES=127.0.0.1 runs 4 'all-reduce of 10 types by 4 ranks is right' check
    wrapper=()
    if [[ -s $BRAID_BUILD/gpu/reduce.fatbin ]] && ! grep -q 'combined within each of 2 hosts first' "$errors"; then
        echo "4 ranks of two hosts: the hosts were not combined first"
        exit 1
    fi
fi
runs 2 '^ +2 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+' rate --mib 1
if [[ ! -s $BRAID_BUILD/gpu/reduce.fatbin ]]; then
    echo "order in a stream: the program's kernels are those of the image, and this build has none"
    exit 0
fi
# The fake GPU works by itself, as a real one does.
FAKE_CUDA=thread BRAID_BACKEND=tcp runs 2 'order: 6 all-reduces of 2 ranks' stream
