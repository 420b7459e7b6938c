#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What sharing memory of GPUs costs all-reduces of host memory, which have to ask first whether all ranks have theirs on a GPU (collectives/gpu/gpu_local.h): with
# it and without (BRAID_GPU_REDUCE=cpu), by turns; medians of the times, in microseconds. Two ranks of one host over shm, and two each on two hosts
# over loopback (needs root). ROUNDS (9), ONE (8K 64K 1M), TWO (256K 1M 16M). No GPU is needed: the fake driver of the tests will do.
set -euo pipefail
build=${BRAID_BUILD:-build/release}
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=bench/lib/alternate.sh
. "$here/lib/alternate.sh"
export BRAID_CUDA_LIBRARY=${BRAID_CUDA_LIBRARY:-$build/tests/libbraid_fake_cuda.so}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# timed RANKS SIZE WRAPPER...: microseconds of an all-reduce.
timed() {
    local ranks=$1 size=$2 n=200
    shift 2
    case $size in *K) n=2000 ;; ??M) n=20 ;; esac
    timeout 60 "$build/braid" run -n "$ranks" -- "$@" "$build/braid" allreduce -b "$size" -e "$size" -n "$n" -w 20 -c 0 |
        awk '{ sub(/^\[[0-9]+\] /, "") } $1 ~ /^[0-9]+$/ { print $6; exit }'
}

# compare WORDS RANKS SIZES WRAPPER...
compare() {
    local words=$1 ranks=$2 sizes=$3 size round
    shift 3
    for size in $sizes; do
        rm -f "$work"/*.us
        for ((round = 0; round < ${ROUNDS:-9}; round++)); do
            BRAID_GPU_REDUCE=auto timed "$ranks" "$size" "$@" >> "$work/asks.us"
            BRAID_GPU_REDUCE=cpu timed "$ranks" "$size" "$@" >> "$work/plain.us"
        done
        printf '%-20s %-6s %10s %10s %7s%%\n' "$words" "$size" "$(median "$work/plain.us")" "$(median "$work/asks.us")" \
            "$(more "$work/asks.us" "$work/plain.us")"
    done
}

printf '%-20s %-6s %10s %10s %8s\n' ranks size plain asks cost
BRAID_BACKEND=shm compare "2 of one host" 2 "${ONE:-8K 64K 1M}"
if [[ $(id -u) -eq 0 ]]; then
    BRAID_DEVICES=127.0.0.1 compare "2 on each of 2 hosts" 4 "${TWO:-256K 1M 16M}" "$here/two_hosts.sh"
else
    echo "two hosts: not run, needs root"
fi
