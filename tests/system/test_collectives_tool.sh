#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid allreduce` and its sisters: every collective, type and reduction is right; output, JSON and exit codes are as
# documented; bad arguments are refused with words.
set -euo pipefail
braid=$BRAID_BUILD/braid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export BRAID_INIT_TIMEOUT=120

fail() {
    echo "FAILED: $*"
    cat "$scratch/out" "$scratch/err" 2> /dev/null || true
    exit 1
}

# run N COLLECTIVE [options]: N ranks; leaves the output in $scratch.
run() {
    local ranks=$1
    shift
    timeout 120 "$braid" run -n "$ranks" --no-prefix -- "$braid" "$@" > "$scratch/out" 2> "$scratch/err" ||
        fail "exit code $? of: $ranks ranks, $*"
}

rows() {
    grep -cvE '^#|^$' "$scratch/out" || true
}

# All #wrong columns (9 and 13 of a row) are 0 or N/A.
all_right() {
    awk '!/^#/ && NF { if (NF != 13 || ($9 != "0") || ($13 != "0" && $13 != "N/A")) bad = 1; n++ } END { exit bad || !n }' \
        "$scratch/out" || fail "wrong results or columns: $*"
}

# refused CODE PATTERN ARGUMENTS...: the words match and the exit code is right.
refused() {
    local code=$1 pattern=$2 got=0
    shift 2
    timeout 120 "$braid" "$@" > "$scratch/out" 2> "$scratch/err" || got=$?
    [[ $got -eq $code ]] || fail "exit code $got instead of $code: braid $*"
    grep -q -- "$pattern" "$scratch/err" || fail "no '$pattern' from: braid $*"
}

# nccl-tests' header, columns and footer; the JSON says the same.
run 4 allreduce -b 8 -e 64K -f 16 -n 3 -w 1 --json "$scratch/json"
all_right allreduce
[[ $(rows) -eq 4 ]] || fail "8, 128, 2048, 32768 bytes are 4 rows"
grep -q '^# *size *count *type *redop *root *time *algbw *busbw *#wrong *time' "$scratch/out" || fail "header"
grep -qx '# Out of bounds values : 0 OK' "$scratch/out" || fail "footer"
grep -q '^# Avg bus bandwidth    : [0-9]' "$scratch/out" || fail "footer"
if command -v jq > /dev/null; then
    [[ $(jq '[.results[] | .out_of_place.wrong + .in_place.wrong] | add' "$scratch/json") == 0 ]] || fail "JSON: wrong"
    [[ $(jq '.results | length' "$scratch/json") == 4 && $(jq .ranks "$scratch/json") == 4 ]] || fail "JSON: rows"
    jq -e '.avg_busbw > 0 and (.rails | type) == "array"' "$scratch/json" > "$scratch/verdict" || fail "JSON: fields"
fi

# Every collective with every type and reduction, on both back ends, with 3 ranks: no size divides evenly.
for backend in shm tcp; do
    for collective in allreduce reduce_scatter reduce; do
        run 3 "$collective" -b 1020 -e 1020 -n 1 -w 0 -d all -o all --backend "$backend"
        all_right "$collective $backend"
        [[ $(rows) -eq 134 ]] || fail "8 types with 11 reductions, 6 with 5, 1 with 10, 2 with 3: 134 rows"
    done
    for collective in scan exscan; do
        run 3 "$collective" -b 1020 -e 1020 -n 1 -w 0 -d all -o all --backend "$backend"
        all_right "$collective $backend"
        [[ $(rows) -eq 118 ]] || fail "all but the averages of 16 types: 118 rows, not $(rows)"
    done
    for collective in allgather broadcast alltoall gather scatter; do
        run 3 "$collective" -b 1020 -e 1020 -n 1 -w 0 -d all --backend "$backend"
        all_right "$collective $backend"
    done
    for collective in barrier sendrecv; do
        run 3 "$collective" -b 1020 -e 1020 -n 2 -w 1 --backend "$backend"
        all_right "$collective $backend"
    done
done
run 3 broadcast -r all -b 4K -e 4K -n 1
all_right "every root"
[[ $(rows) -eq 3 ]] || fail "3 roots: 3 rows"

# braid's own options.
run 2 allreduce -b 1M -e 1M -n 8 --async 4 --priority 3 --slice-bytes 64K --rails 2 --backend tcp --seed 9
all_right "options"
run 2 allreduce -b 256K -e 256K -n 2 --memory malloc -z 1 -a 3
all_right "malloc"
run 4 allreduce -b 64K -e 64K -n 2 --algorithm ring
all_right "ring"

# A single rank needs no launcher.
timeout 120 "$braid" allreduce -b 1K -e 1K -n 1 > "$scratch/out" 2> "$scratch/err" || fail "single rank"
all_right "single rank"

refused 2 'minbytes' allreduce -b 8Q
refused 2 'minbytes' allreduce -b 4K -e 1K
refused 2 'stepbytes' allreduce -b 0 -e 8 -f 2
refused 2 'datatype' allreduce -d float13
refused 2 '--op' allreduce -o xor
refused 1 'band.*float32' allreduce -o band -b 8 -e 8
refused 2 'root' broadcast -r -1
refused 2 'no option' allreduce --frobnicate
refused 2 'needs a value' allreduce -b
refused 2 'not an option' allreduce 64M
refused 2 'braid run' allreduce -g 2
refused 1 'ranks are 0 to 0' broadcast -r 1 -b 8 -e 8
refused 1 '2 ranks' sendrecv -b 8 -e 8
refused 1 'cannot write' allreduce -b 8 -e 8 --json "$scratch/no/such/folder"
refused 1 'auto, tcp, udp, dpdk, verbs or shm' allreduce -b 8 -e 8 --backend carrier-pigeon
refused 1 'MiB are free' allreduce -b 8000G -e 8000G

# One rank's error ends the job with that rank's words.
if timeout 120 "$braid" run -n 2 -- "$braid" allreduce -b 8 -e 8 --algorithm nonsense > "$scratch/out" 2>&1; then
    fail "an unknown algorithm was accepted"
fi
grep -q nonsense "$scratch/out" || fail "the words do not name the algorithm"
