#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid demo` on a small network: every layer in the table, every value right, the rails' shares; bad models are refused.
set -euo pipefail
braid=$BRAID_BUILD/braid
model=$BRAID_SOURCE/data/models/alexnet.csv
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    cat "$scratch/out" "$scratch/err" 2> /dev/null || true
    exit 1
}

cat > "$scratch/small.csv" << 'MODEL'
# Small, 3 layers
layer,name,kind,parameters,forward_multiply_adds
1,first,Linear,1,1
2,second,Linear,100001,1
3,third,Linear,3000000,1
MODEL
timeout 200 "$braid" demo -i 2 --model "$scratch/small.csv" > "$scratch/out" 2> "$scratch/err" || fail "exit code $?"
for layer in first second third all; do
    [[ $(grep -c "^  $layer " "$scratch/out") -eq 1 ]] || fail "layer $layer is not in the table once"
done
[[ $(grep -c 'every value right' "$scratch/out") -eq 6 ]] || fail "2 rounds of 3 phases"
# 3,100,002 values on 4 ranks, 6 times.
grep -q 'All 74400048 values that the 4 ranks received are right' "$scratch/out" || fail "number of values"
grep -q 'rails of rank 0' "$scratch/out" || fail "rails"
grep -q 'Priorities (P3) make it' "$scratch/out" || fail "first layer"
[[ ! -s $scratch/err ]] || fail "words on stderr"

# The models that come along are found, wherever the command is started.
(cd / && timeout 200 "$braid" demo -i 1 -n 2 --rails 1 --backend shm --model "$model") > "$scratch/out" 2> "$scratch/err" ||
    fail "alexnet"
grep -q 'values that the 2 ranks received are right' "$scratch/out" || fail "alexnet"

echo 'nonsense' > "$scratch/bad.csv"
for bad in "--model $scratch/bad.csv" "--model /no/such/file" "--ranks 1000" "--backend nonsense"; do
    # shellcheck disable=SC2086 # words
    if timeout 60 "$braid" demo -i 1 $bad > "$scratch/out" 2> "$scratch/err"; then
        fail "accepted: $bad"
    fi
    [[ -s $scratch/err ]] || fail "no words for: $bad"
done
