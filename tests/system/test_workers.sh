#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# BRAID_WORKERS: as many devices as it says have a thread, over tcp and udp, and what ranks compute is right.
set -euo pipefail
braid=$BRAID_BUILD/braid
export BRAID_DEVICES=127.0.0.1,127.0.0.2,127.0.0.3,127.0.0.4

fail() {
    echo "FAILED: $*"
    exit 1
}

# job BACKEND WORKERS THREADS: of two ranks
job() {
    local out threads
    out=$(BRAID_LOG=debug BRAID_WORKERS=$2 timeout 200 "$braid" run -n 2 -- "$braid" allreduce --backend "$1" -b 8 -e 1M -f 16 -n 3 -w 1 2>&1) ||
        fail "$1 with $2 workers: $(tail -n 20 <<< "$out")"
    grep -q 'Out of bounds values : 0 OK' <<< "$out" || fail "$1 with $2 workers has no result: $out"
    threads=$(grep -c 'has a thread of its own' <<< "$out") || true # grep fails where there is none
    [[ $threads == "$3" ]] || fail "$1 with $2 workers: $threads threads, not $3"
}

job tcp 1 0
job tcp 4 8
job udp 3 6
