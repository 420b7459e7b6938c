#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid calibrate`: measures a small job, what it saves is used by jobs and plans, and noticed when it is stale.
# shellcheck disable=SC2016 # the ranks' shells expand what is in single quotes
braid=$BRAID_BUILD/braid
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

job() {
    local n=$1
    shift
    timeout 200 "$braid" run -n "$n" --backend tcp --no-prefix -- "$braid" "$@"
}

out=$(job 2 calibrate -o "$dir/cal.json" --rounds 1 --collectives allreduce --maxbytes 64K 2>&1) || fail "calibrate: $out"
grep -q '^# braid calibrate: flat:2 over tcp:' <<<"$out" || fail "no title: $out"
[ "$(grep -cE '^ +[01] +[01] +0 +[0-9.]+ +[0-9.]+ +[0-9.]+ ' <<<"$out")" = 2 ] || fail "both directions of the link: $out"
grep -q '^  allreduce  *ring ' <<<"$out" || fail "the ring: $out"
grep -q 'gamma, ns/B: float32 [0-9.e-]*, float64 .* uint64 ' <<<"$out" || fail "gamma of all types: $out"
for key in links latency bandwidth alpha_interval beta_interval r2 outliers points algorithms congestion types system devices; do
    grep -q "\"$key\"" "$dir/cal.json" || fail "no $key in the file"
done

# What cannot be saved is not measured first, and a file that may not be replaced is not touched.
out=$(job 2 calibrate -o "$dir/nowhere/cal.json" 2>&1) && fail "a file in a directory that is not there"
grep -q -- "--output: cannot write $dir/nowhere/cal.json: No such file" <<<"$out" || fail "why it cannot be saved: $out"
out=$(job 2 calibrate -o "$dir" 2>&1) && fail "a directory as file"
grep -q -- "--output: cannot write $dir: Is a directory" <<<"$out" || fail "a directory: $out"
out=$(cd "$dir" && job 2 calibrate -o - 2>&1)
[ $? -eq 2 ] || fail "the exit code of a table and a file in one: $out"
grep -q 'standard output.*file' <<<"$out" || fail "words for it: $out"
[ ! -e "$dir/-" ] || fail "a file named -"

# Two sizes: a line without an interval.
out=$(job 2 calibrate -o "$dir/two.json" --no-links --rounds 1 --collectives allreduce -e 256 2>&1) || fail "two sizes: $out"
grep -qE '^  allreduce +ring +[0-9.]+ +- +[0-9.]+ +- ' <<<"$out" || fail "an interval of two points: $out"
grep -q '_interval' "$dir/two.json" && fail "an interval of two points in the file"
"$braid" plan -n 2 --calibration "$dir/two.json" -b 256 -e 256 >/dev/null || fail "a file without intervals is refused"

# Ranks that are asked for different things would wait for each other.
for different in '--rounds 2' '--no-links' '--collectives allreduce' '-e 8K'; do
    out=$(timeout 100 "$braid" run -n 2 --backend tcp --no-prefix -- bash -c \
        '[ "$RANK" = 0 ] || set -- $1; [ "$RANK" != 0 ] || set --; exec "$0" calibrate --rounds 1 -o /dev/null "$@"' "$braid" "$different" 2>&1)
    [ $? -eq 2 ] || fail "the exit code of ranks with different options, $different: $out"
    grep -q 'ranks.*--' <<<"$out" || fail "words for $different: $out"
done

# It is used, and fits this job.
export BRAID_CALIBRATION=$dir/cal.json
out=$(job 2 plan -b 16K -e 16K 2>&1) || fail "a plan in a job: $out"
grep -q 'calibration of the job' <<<"$out" || fail "it is not used: $out"
grep -q '^\* .*as measured' <<<"$out" || fail "the choice does not believe it: $out"
grep -q stale <<<"$out" && fail "it is stale at once: $out"

# Another network.
out=$(job 3 plan -b 16K -e 16K 2>&1) || fail "3 ranks: $out"
grep -q 'stale.*flat:2.*flat:3' <<<"$out" || fail "nobody sees that the network is another: $out"
out=$("$braid" plan -n 3 --calibration "$dir/cal.json" -b 1K -e 1K 2>&1) || fail "a plan without a job: $out"
grep -q 'stale.*flat:3' <<<"$out" || fail "the plan does not see that the network is another: $out"

# Figures that promise a thousandth of the time: operations show it, once.
sed -E 's/("(alpha|overhead|beta|one_way|a|b|copy|[1248] bytes?)":[[:space:]]*)([0-9.e+-]+)/\11e-15/; /"algorithms":/,$d' "$dir/cal.json" >"$dir/half"
sed -E '$ s/,[[:space:]]*$//' "$dir/half" >"$dir/fast.json"
echo '}' >>"$dir/fast.json"
BRAID_CALIBRATION=$dir/fast.json
out=$(BRAID_SHM_COLLECTIVE_BYTES=0 job 2 allreduce -b 256K -e 256K -n 80 2>&1) || fail "with fast figures: $out"
[ "$(grep -c 'stale.*32 collectives' <<<"$out")" = 1 ] || fail "nobody sees that they are wrong: $out"
out=$(BRAID_CALIBRATION_BOUND=0 job 2 allreduce -b 256K -e 256K -n 80 2>&1) || fail "without a bound: $out"
grep -q 'collectives took' <<<"$out" && fail "a bound of 0 watches: $out"
unset BRAID_CALIBRATION

# The first figure of a name in the file, and what holds of some.
figure() {
    sed -nE "s/.*\"$1\":[[:space:]]*([0-9.e+-]+).*/\1/p" "$dir/job.json" | head -n 1
}
holds() {
    awk "BEGIN { exit !($1) }" || fail "it does not hold that $1"
}
# Ranks that do something first, then run a sub-command.
prepared() { # RANKS COMMAND ARGUMENTS...
    local n=$1 first=$2
    shift 2
    out=$(timeout 200 "$braid" run -n "$n" --no-prefix -- bash -c "$first"'; exec "$0" "$@"' "$braid" "$@" 2>&1) ||
        fail "braid $* of $n ranks that do $first: $out"
}
# The levels alone.
levels() { # RANKS COMMAND
    rm -f "$dir/job.json"
    prepared "$1" "$2" calibrate -o "$dir/job.json" --no-links --collectives none
}

# Hosts of 1, 1, 1 and 2 ranks: most have nobody on level 0. Where cores are few one pair is measured, elsewhere all ranks are.
uneven='[ "$RANK" -gt 2 ] || export BRAID_BACKEND=tcp'
# An algorithm that was not measured may look faster than those that were measured while a rank stood still: then all is measured again.
for _ in 1 2 3 4 5; do
    prepared 5 "$uneven" calibrate -o "$dir/job.json" --no-links --rounds 1 --collectives allreduce --maxbytes 16K
    grep -q 'hosts:4 uneven' "$dir/job.json" || fail "the hosts are not uneven: $out"
    holds "$(figure beta) > 1e-12" # a memory of less than 1 TB/s
    BRAID_CALIBRATION=$dir/job.json prepared 5 "$uneven" plan -b 16K -e 16K
    grep -q '^\* .*as measured' <<<"$out" && break
done
grep -q '^\* .*as measured' <<<"$out" || fail "the algorithms of uneven hosts do not count: $out"

cores=$(getconf _NPROCESSORS_ONLN) # those that braid counts; nproc leaves out some that this process may not use
if [ "$cores" -le 4 ]; then # one rank thinks that it has a core of its own
    levels $((cores + 1)) '[ "$RANK" != 0 ] || export BRAID_MACHINE_RANKS=1'
    grep -q '"machine"' "$dir/job.json" && fail "ranks that do not agree have measured a crowd: $out"
    # What is said of one link alone is not what is said of all.
    # Both are times, and other tests run beside this one: one of five calibrations has to show it.
    for _ in 1 2 3 4 5; do
        levels $((4 * cores)) 'export BRAID_BACKEND=tcp'
        grep -q '"machine"' "$dir/job.json" || fail "a crowd is none: $out"
        slower="$(figure level) > 1.2 * $(figure beta)"
        awk "BEGIN { exit !($slower) }" && break
    done
    holds "$slower"
fi

# Words.
out=$("$braid" calibrate 2>&1)
[ $? -eq 2 ] || fail "the exit code without a job: $out"
grep -q 'braid run -n 4' <<<"$out" || fail "without a job: $out"
out=$(job 1 calibrate -o "$dir/one.json" 2>&1)
[ $? -eq 2 ] || fail "the exit code of one rank: $out"
grep -q 'no network' <<<"$out" || fail "words for one rank: $out"
out=$(job 2 calibrate --collectives nothing 2>&1) && fail "a collective that is none"
grep -q '"nothing".*allreduce, .*broadcast.*none$' <<<"$out" || fail "words for it: $out"
echo "braid calibrate is fine"
