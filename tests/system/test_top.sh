#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid top` beside running jobs: table, JSON, Prometheus; bytes add up; a rank that is killed, sockets that are left over, others' requests.
# shellcheck disable=SC2317 # called by within()
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
braid=$BRAID_BUILD/braid
dir=$(mktemp -d)
export BRAID_STATS=$dir/stats
job=

# End the job that was begun here, and wait for it.
stop() {
    [ -z "$job" ] || kill "$job" 2>/dev/null
    [ -z "$job" ] || wait "$job" 2>/dev/null
    job=
}
live='' single=''
# shellcheck disable=SC2086 # none, or one each
trap 'stop; kill $live $single 2>/dev/null; rm -rf "$dir"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

# start RANKS RAILS BACKEND: a job that works until it is stopped, seen when all of its ranks are.
start() {
    "$braid" run -n "$1" --rails "$2" --backend "$3" -- "$braid" allreduce -b 8M -e 8M -n 1000000 -w 0 -c 0 >"$dir/out" 2>&1 &
    job=$!
    within 60 sockets "$1" || fail "the ranks make no sockets: $(ls "$BRAID_STATS")"
}

sockets() {
    [ "$(find "$BRAID_STATS" -name '*.sock' 2>/dev/null | wc -l)" = "$1" ] && return
    ! has_ended "$job" || fail "the job has ended: $(cat "$dir/out")"
    return 1
}

top() {
    timeout 60 "$braid" top "$@" 2>"$dir/err"
}

out=$(top) && fail "no job, and it is fine"
grep -q 'no job' "$dir/err" || fail "words without a job: $(cat "$dir/err")"
top --wrong && fail "an option that is none"
[ $? -le 2 ] || fail "its exit code"
top --json --prometheus && fail "two formats at once"
grep -q 'two formats' "$dir/err" || fail "words for two formats: $(cat "$dir/err")"

# It makes nothing, and a folder that is asked for must be there.
[ ! -e "$BRAID_STATS" ] || fail "braid top makes its folder"
[ "$(top --json)" = "[]" ] || fail "no job yet is no error for JSON: $(cat "$dir/err")"
top --folder "$dir/nowhere" --json && fail "a folder that is not there"
grep -q "$dir/nowhere: No such file" "$dir/err" || fail "words for it: $(cat "$dir/err")"
[ ! -e "$dir/nowhere" ] || fail "braid top makes the folder that it is given"

# On a terminal: words and the exit code as elsewhere.
if command -v script >/dev/null; then
    out=$(timeout 60 script -qec "$braid top" /dev/null) && fail "no job, on a terminal, and it is fine: $out"
    grep -q 'no job' <<<"$out" || fail "words without a job on a terminal: $out"
fi

# The rails come after the sockets; if the ranks stand still for as long as top looks, there are no rates; and who does not answer within a
# second is left out. So top may be asked again.
table() {
    out=$(top --interval 500) && [ "$(grep -cE '^ +[012] +[012] +[01] tcp:lo +up +[0-9]' <<<"$out")" = 12 ] &&
        grep -qE '^ +0 +[12] +[01] tcp:lo +up +[1-9][0-9.]* +[1-9]' <<<"$out"
}
start 3 2 tcp
within 60 table || fail "a row for each of 12 rails, with rates: $out $(cat "$dir/err")"
grep -qE '^job [0-9a-f]{8}: 3 of 3 ranks on this host$' <<<"$out" || fail "the heading: $out"
[ "$(grep -cE '^rank [012] \(process [0-9]+\): ' <<<"$out")" = 3 ] || fail "a line a rank: $out"
name=$(sed -n 's/^job \([0-9a-f]*\):.*/\1/p' <<<"$out")
within 30 top "${name:0:4}" --once --interval 50 >/dev/null || fail "by the begin of its name: $(cat "$dir/err")"
top 0123456789 --once && fail "a job that is not there"
grep -q 'job 0123456789' "$dir/err" || fail "words for it: $(cat "$dir/err")"

prometheus() {
    local line="^braid_rail_tx_bytes_total\{job=\"$name\",rank=\"[012]\",peer=\"[012]\",rail=\"[01]\",level=\"[01]\",device=\"tcp:lo\"\} [0-9]+$"
    out=$(top --prometheus) && [ "$(grep -cE "$line" <<<"$out")" = 12 ]
}
within 30 prometheus || fail "Prometheus, bytes of 12 rails: $out $(cat "$dir/err")"
if command -v promtool >/dev/null; then
    promtool check metrics <<<"$out" || fail "promtool"
fi
if command -v curl >/dev/null; then
    sock=$(find "$BRAID_STATS" -name "$name.0.*.sock")
    metrics() {
        grep -q '^braid_operations_total{' <<<"$(curl -sf --unix-socket "$sock" http://braid/metrics)"
    }
    within 30 metrics || fail "curl of /metrics"
    curl -sf --unix-socket "$sock" http://braid/nothing && fail "a page that is not there"
fi

# Between two looks at ranks that are at work, each rank's numbers only grow.
if command -v jq >/dev/null; then
    twice() {
        top --json >"$dir/a.json" && top "$name" --json >"$dir/b.json" && jq -se 'map(map(.rank)) == [[0,1,2],[0,1,2]]' "$dir/a.json" "$dir/b.json"
    }
    within 30 twice >/dev/null || fail "JSON, ranks in order: $(cat "$dir/err")"
    jq -se 'all(range(3) as $r | .[1][$r].stats.tx_bytes >= .[0][$r].stats.tx_bytes; .)' "$dir/a.json" "$dir/b.json" >/dev/null ||
        fail "numbers that shrink"
fi

# What cannot be written is an error.
for format in --json --prometheus --once; do
    full() {
        top "$format" >/dev/full
        [ $? = 1 ] && grep -q 'standard output' "$dir/err"
    }
    within 30 full || fail "$format to a full disk: $(cat "$dir/err")"
done

# A live one stays with its job when another one begins, and says when it has ended.
if command -v script >/dev/null; then
    start_live() {
        rm -f "$dir/live"
        script -qefc "$braid top --interval 100" "$dir/live" >/dev/null 2>&1 </dev/null &
        live=$!
        within 60 tables 1
    }
    tables() { # of our job, at least so many
        [ -e "$dir/live" ] && [ "$(grep -c "job $name: " "$dir/live")" -ge "$1" ]
    }
    start_live || start_live || fail "no live table: $(cat "$dir/live")"
    "$braid" allreduce -b 8M -e 8M -n 1000000 -w 0 -c 0 >/dev/null 2>&1 &
    single=$!
    within 60 sockets 4 || fail "not 4 sockets: $(ls "$BRAID_STATS")"
    within 60 tables $(($(grep -c "job $name: " "$dir/live") + 2)) || fail "a second job ends a live table: $(cat "$dir/live")"
    kill "$job"
    wait "$job" 2>/dev/null
    within 60 has_ended "$live" || fail "a live table outlives its job: $(cat "$dir/live")"
    wait "$live" || fail "the exit code of a live table: $(cat "$dir/live")"
    live=
    grep -q 'has ended' "$dir/live" || fail "the end of the job is not said: $(cat "$dir/live")"
    kill "$single"
    wait "$single" 2>/dev/null
    single=
    start 3 2 tcp
fi

# Nobody else: the folder keeps them out, and the process would not answer.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$dir"
    BRAID_STATS=$dir/stats setpriv --reuid 65534 --clear-groups "$braid" top --once 2>"$dir/err" && fail "another user sees the job"
    grep -q "folder.*user" "$dir/err" || fail "words for another user: $(cat "$dir/err")"
fi

# A killed job leaves its names; who looks next removes them.
kill -9 "$(find "$BRAID_STATS" -name '*.1.*.sock' | sed 's/.*\.\([0-9]*\)\.sock/\1/')"
wait "$job"
job=
left=$(find "$BRAID_STATS" -name '*.sock' | wc -l)
[ "$left" -ge 1 ] || fail "a killed rank cannot have removed its name"
out=$(top --once) && fail "a job that is gone: $out"
grep -q "sockets of $left process" "$dir/err" || fail "words for stale sockets: $(cat "$dir/err")"
[ -z "$(ls "$BRAID_STATS")" ] || fail "names are left: $(ls "$BRAID_STATS")"

# Two jobs at once are listed; one in shared memory has rails without budget.
start 2 1 shm
first=$job
"$braid" allreduce -b 8M -e 8M -n 1000000 -w 0 -c 0 >/dev/null 2>&1 &
single=$!
within 60 sockets 3 || fail "not 3 sockets: $(ls "$BRAID_STATS")"
list() {
    out=$(top --once) && [ "$(grep -cE '^[0-9a-f]{8} +[12] +[0-9]+$' <<<"$out")" = 2 ]
}
within 30 list || fail "a list of two jobs: $out $(cat "$dir/err")"
kill "$single"
wait "$single"
job=$first
stop

# Switched off.
BRAID_STATS=off "$braid" run -n 2 --backend shm -- "$braid" barrier -n 10 >/dev/null || fail "without counters"
"$braid" run -n 2 --backend shm -- "$braid" barrier -n 10 >/dev/null || fail "a job that ends by itself"
find "$BRAID_STATS" -name '*.sock' | grep -v "\.$single\." | grep . && fail "a job that has ended leaves names"
BRAID_STATS=/proc/none "$braid" run -n 2 --backend shm -- "$braid" barrier -n 10 >/dev/null 2>&1 || fail "no folder, no job"
echo "braid top is fine"
