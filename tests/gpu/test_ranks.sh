#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What `./dev test --gpu` runs with several processes on a real GPU, on the fake driver, whose rates mean nothing.
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

runs 2 '^results: .* 12 types .* 2 ranks' check
if [[ $(id -u) -eq 0 ]]; then
    wrapper=("$BRAID_SOURCE/bench/two_hosts.sh")
    BRAID_LOG=info BRAID_GPU_REDUCE=auto BRAID_DEVICES=127.0.0.1 runs 4 '^results: .* 12 types .* 4 ranks' check
    wrapper=()
    if [[ -s $BRAID_BUILD/gpu/reduce.fatbin ]] && ! grep -qE 'rank [0-9]: .* 2 hosts' "$errors"; then
        echo "4 ranks of two hosts: the hosts were not reduced first"
        exit 1
    fi
fi
runs 2 '^ +2 +1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+' rate --mib 1
if [[ ! -s $BRAID_BUILD/gpu/reduce.fatbin ]]; then
    echo "order in a stream: the test needs the kernels of gpu/reduce.fatbin, and this build has none"
    exit 0
fi
# The fake GPU runs its streams in a thread of its own, as a real one does asynchronously.
export FAKE_CUDA=thread
BRAID_BACKEND=tcp runs 2 '^order: 14 .* 2 ranks.* 0\.0 MB' stream
BRAID_BACKEND=shm BRAID_GPU_REDUCE=auto runs 2 '^order: 14 .* 2 ranks.* [1-9][0-9.]* MB' stream
BRAID_BACKEND=shm BRAID_GPU_REDUCE=auto runs 2 '^ +1024( +[0-9]+){4} +[1-9]' streams --mib 1
