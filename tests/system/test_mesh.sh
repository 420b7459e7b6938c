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
    timeout 200 "$braid" run -n "$n" --backend tcp --no-prefix -- "$braid" perf mesh "$@" 2>&1
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
out=$(mesh 2 --svg - -s 1K) || fail "a drawing to standard output: $out"
[ "${out:0:4}" = "<svg" ] || fail "text beside the drawing: $out"
out=$(mesh 2 --json - --svg -)
[ $? -eq 2 ] || fail "the exit code of two files in one: $out"
grep -q -- '--json and --svg are both to -' <<<"$out" || fail "words for two files in one: $out"

# What cannot be written is not measured; what fails behind that does not take the other file along.
for option in json svg; do
    out=$(mesh 2 -s 1K --$option "$dir/nowhere/file") && fail "a file in a directory that is not there"
    grep -q -- "--$option: cannot write $dir/nowhere/file: No such file" <<<"$out" || fail "it is not said before measuring: $out"
    grep -q 'all pairs at once' <<<"$out" && fail "it is measured first: $out"
done
out=$(mesh 2 -s 1K --json /dev/full --svg "$dir/other.svg") && fail "a full disk"
grep -q 'cannot write /dev/full: No space' <<<"$out" || fail "words for a full disk: $out"
grep -q '</svg>' "$dir/other.svg" || fail "the drawing is lost with the JSON: $out"

# Ranks with different numbers of rails use the smaller one and say so, once.
# shellcheck disable=SC2016 # the ranks' shells expand it
out=$(timeout 100 "$braid" run -n 3 --backend tcp --no-prefix -- bash -c 'BRAID_RAILS=$((RANK + 1)) exec "$0" perf mesh -s 1K' "$braid" 2>&1) ||
    fail "ranks with different numbers of rails: $out"
[ "$(grep -c 'rank 0: rank 1 has 2 rails .* 1,' <<<"$out")" = 1 ] || fail "rank 0 does not name rank 1: $out"
[ "$(grep -c 'rank 1: rank 0 has 1 rails .* 2,' <<<"$out")" = 1 ] || fail "rank 1 does not name rank 0: $out"
[ "$(grep -c 'rank [0-2]: rank [0-2] has [1-3] rails' <<<"$out")" = 3 ] || fail "each rank says it once: $out"

# Ranks that measure different things would wait for each other.
# shellcheck disable=SC2016 # the ranks' shells expand it
out=$(timeout 100 "$braid" run -n 2 --backend tcp --no-prefix -- bash -c 'exec "$0" perf mesh -s $((RANK + 1))K' "$braid" 2>&1)
[ $? -eq 2 ] || fail "the exit code of ranks with different options: $out"
grep -q 'ranks.*--size' <<<"$out" || fail "words for different options: $out"

out=$(mesh 2 --level 0) && fail "a level without a BCube"
grep -q 'BCube' <<<"$out" || fail "words for it: $out"
out=$("$braid" perf mesh 2>&1)
[ $? -eq 2 ] || fail "the exit code without a job: $out"
grep -q 'it measures a job' <<<"$out" || fail "without a job: $out"
out=$(mesh 1)
[ $? -eq 2 ] || fail "the exit code of one rank: $out"
grep -q 'one rank' <<<"$out" || fail "words for one rank: $out"
echo "braid perf mesh is fine"
