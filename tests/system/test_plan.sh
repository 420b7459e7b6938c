#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid plan`: without a job, measuring in one, with files, and what it says to nonsense.
braid=$BRAID_BUILD/braid
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=tests/system/plan.sh
. "$BRAID_SOURCE/tests/system/plan.sh"

out=$("$braid" plan --topology bcube:3,2 -b 32M -e 32M --exact --json "$dir/plan.json" --dot "$dir/plan.dot") || fail "bcube"
grep -q '^\* *33554432  bml:3,2 .*bandwidth bound on level' <<<"$out" || fail "BML is not chosen: $out"
grep -q '"algorithm":.*"bml:3,2"' "$dir/plan.json" || fail "no JSON"
grep -q '^digraph' "$dir/plan.dot" || fail "no drawing"
out=$("$braid" plan --hosts 3x4 -b 64M -e 64M) || fail "hosts"
grep -q '^\* *67108864  blueconnect:4' <<<"$out" || fail "BlueConnect is not chosen: $out"
for collective in reduce_scatter allgather broadcast reduce alltoall gather scatter barrier; do
    "$braid" plan -n 6 --collective $collective -b 1M -e 1M | grep -q '^\*' || fail "$collective"
done

out=$("$braid" run -n 3 --backend tcp --no-prefix -- "$braid" plan --measure "$dir/cal.json" --run -b 1K -e 64K -f 64 --algorithm ring) ||
    fail "measuring: $out"
grep -q '2 predictions' <<<"$out" || fail "no error line: $out"
out=$(BRAID_CALIBRATION=$dir/cal.json "$braid" run -n 3 --backend tcp --no-prefix -- "$braid" plan -b 1K -e 1K)
grep -q 'calibration of the job' <<<"$out" || fail "the calibration is not used: $out"
"$braid" plan -n 5 --calibration "$dir/cal.json" | grep -q 'calibration .*cal.json' || fail "the calibration is not read"

# Ranks of one host that share its cores have a core_tree, and those of emulated hosts do not.
ranks=$((2 * $(getconf _NPROCESSORS_ONLN)))
if ((ranks >= 4 && ranks <= 16)); then
    out=$("$braid" run -n $ranks --backend tcp --no-prefix -- "$braid" plan -b 1M -e 1M) || fail "shared cores: $out"
    grep -q core_tree <<<"$out" || fail "no core_tree: $out"
    grep -q 'a link' <<<"$out" && fail "a link of one host: $out"
    out=$("$braid" run -n $ranks --backend tcp --no-prefix -- env BRAID_LOCAL_RANK=0 BRAID_LOCAL_WORLD_SIZE=1 BRAID_MACHINE_RANKS=$ranks \
        BRAID_DEVICES=lo "$braid" plan -b 1M -e 1M) || fail "emulated hosts: $out"
    grep -q halving <<<"$out" || fail "no halving: $out"
    grep -q '^# a link, measured at the start: alpha [0-9.e+-]* us, beta [0-9.e+-]* ns/B$' <<<"$out" || fail "no link was tried: $out"
    grep -q core_tree <<<"$out" && fail "a core_tree of emulated hosts: $out"
    # Rank 0 alone on its host and the others together: all take what rank 0 knows.
    export MOST=$((ranks - 1))
    "$braid" run -n $ranks --backend tcp --no-prefix -- env BRAID_MACHINE_RANKS=$ranks BRAID_DEVICES=lo bash -c '
        BRAID_LOCAL_WORLD_SIZE=$((RANK ? MOST : 1)) BRAID_LOCAL_RANK=$((RANK ? RANK - 1 : 0)) exec "$0" allreduce -b 64K -e 64K' "$braid" >"$dir/uneven" 2>&1 ||
        fail "hosts of 1 and $MOST ranks: $(cat "$dir/uneven")"
fi

echo '{"format": 1}' >"$dir/bad.json"
out=$(BRAID_CALIBRATION=$dir/bad.json "$braid" run -n 2 -- "$braid" plan 2>&1) && fail "a bad calibration is taken"
[ "$(grep -c 'BRAID_CALIBRATION: calibration .*"topology" is missing' <<<"$out")" -ge 1 ] || fail "words: $out"
says 'bad.json|"topology"' -n 4 --calibration "$dir/bad.json"
says 'flat:3|hosts:2x4' --hosts 2x4 --calibration "$dir/cal.json"
says "'ring:3'|topology" --topology ring:3
says '--collective|nothing' --collective nothing
says '--run|braid run' --run
says '--ranks|--topology|--hosts' -n 4 --hosts 2x2
says "'nothing'|flat, tree" -n 4 --algorithm nothing
says '64 ranks' --topology bcube:3,4 -b 1M -e 1M --dot "$dir/x.dot"
says 'No such file' -n 4 --json "$dir/no/where.json"
# The report after a run.
run=("$braid" run -n 2 --backend tcp --no-prefix -- "$braid" allreduce -b 64K -e 64K -n 4)
out=$(BRAID_REPORT=1 "${run[@]}" 2>&1) || fail "a run with a report: $out"
grep -q '^  allreduce  *65536  *2  [a-z]*  *[0-9]*  *[0-9.]*  *[0-9.]*  cheapest; ' <<<"$out" || fail "no report: $out"
BRAID_REPORT=$dir/report "${run[@]}" >/dev/null || fail "a report into a file"
grep -q '^# braid report of rank 0' "$dir/report" || fail "no report in the file"
out=$(BRAID_REPORT=/dev/full "${run[@]}" 2>&1) || fail "a job fails because its report cannot be written: $out"
grep -q 'BRAID_REPORT.*/dev/full.*No space' <<<"$out" || fail "a report that is lost without a word: $out"
grep -q '^# braid report' <<<"$("${run[@]}" 2>&1)" && fail "a report that nobody wanted"
echo "braid plan is fine"
