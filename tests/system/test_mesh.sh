#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid perf mesh`: all pairs of a job and of a level of a BCube, as text, JSON and drawing; words for what it cannot.
braid=$BRAID_BUILD/braid
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

mesh() {
    local n=$1
    shift
    timeout 200 "$braid" run -n "$n" --backend uring --no-prefix -- "$braid" perf mesh "$@" 2>&1
}

out=$(mesh 3 --json "$dir/mesh.json" --svg "$dir/mesh.svg") || fail "three ranks: $out"
[ "$(grep -cE '^ +[012]( +([0-9.e+]+|-)){3}$' <<<"$out")" = 9 ] || fail "three rows of three matrices: $out"
[ "$(grep -cE '^ +0 +- +[0-9.e+]+ +[0-9.e+]+$' <<<"$out")" = 3 ] || fail "no rank sends to itself: $out"
if command -v jq >/dev/null; then
    jq -e '.ranks == 3 and .bytes == 262144 and ([.alone_gbit, .at_once_gbit, .latency_us] | map(flatten | length == 9 and
        (map(select(. != null and . > 0)) | length == 6)) | all)' "$dir/mesh.json" >/dev/null || fail "JSON: $(cat "$dir/mesh.json")"
fi
[ "$(grep -c 'fill="rgb(255,' "$dir/mesh.svg")" = 18 ] || fail "the drawing has 6 coloured cells in each of 3 maps"
if command -v xmllint >/dev/null; then
    xmllint --noout "$dir/mesh.svg" || fail "the drawing is no XML"
fi

out=$(mesh 2 --json - -s 1K) || fail "JSON to standard output: $out"
[ "${out:0:1}" = "{" ] || fail "text beside the JSON: $out"
out=$(mesh 2 --level 0) && fail "a level without a BCube"
grep -q 'the job is no BCube' <<<"$out" || fail "words for it: $out"
out=$("$braid" perf mesh 2>&1)
[ $? -eq 2 ] || fail "the exit code without a job: $out"
grep -q 'it measures a job' <<<"$out" || fail "without a job: $out"
out=$(mesh 1) && fail "one rank"
grep -q 'one rank has no pairs' <<<"$out" || fail "words for one rank: $out"
echo "braid perf mesh is fine"
