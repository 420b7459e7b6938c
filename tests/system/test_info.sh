#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid info` says the same as text and as JSON, and what it calls usable is there.
set -euo pipefail
braid=$BRAID_BUILD/braid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    cat "$scratch/text" "$scratch/json" 2> /dev/null || true
    exit 1
}

"$braid" info > "$scratch/text" || fail "exit code $?"
"$braid" info --json > "$scratch/json" || fail "exit code $?"
for word in 'Back ends' '  shm ' '  uring  lo ' Algorithms '  ring ' 'locked memory' 'Not in this build' verbs dpdk cuda pmix; do
    grep -q -- "$word" "$scratch/text" || fail "no '$word' in the text"
done
if "$braid" info --nonsense > "$scratch/out" 2>&1; then
    fail "an unknown option was accepted"
fi
if command -v jq > /dev/null; then
    jq -e '.backends[] | select(.name == "uring") | .devices[] | select(.name == "lo") | .usable' "$scratch/json" \
        > "$scratch/out" || fail "JSON: uring over lo"
    jq -e '(.algorithms | map(select(.name == "ring")) | .[0].collectives | index("allreduce")) != null' "$scratch/json" \
        > "$scratch/out" || fail "JSON: ring serves allreduce"
    jq -e '.machine.cores >= 1 and .machine.numa_nodes >= 1 and .machine.reduction_kernels != ""' "$scratch/json" \
        > "$scratch/out" || fail "JSON: machine"
    # An interface that is down is named with the command that mends it.
    jq -e '[.backends[].devices[] | select(.usable | not) | .why_not != ""] | all' "$scratch/json" > "$scratch/out" ||
        fail "JSON: why not"
fi
BRAID_SIMD=nonsense "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'reductions .*nonsense' "$scratch/text" || fail "a wrong BRAID_SIMD is not shown"
