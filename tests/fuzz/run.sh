#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# run.sh FUZZER: runs one fuzzer for BRAID_FUZZ_SECONDS (default 10), from the seeds in tests/fuzz/corpus/NAME if
# there are any. New inputs go to a scratch folder; a crashing one is left in the current directory by libFuzzer.
set -euo pipefail
fuzzer=$1
name=$(basename "$fuzzer")
seeds=$(dirname "$0")/corpus/${name#fuzz_}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
corpora=("$scratch")
[[ -d $seeds ]] && corpora+=("$seeds")
"$fuzzer" -max_total_time="${BRAID_FUZZ_SECONDS:-10}" -rss_limit_mb=2048 -timeout=60 "${corpora[@]}"
