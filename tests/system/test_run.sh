#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# braid run: environment, output, failures, signals, and that nothing outlives it.
# shellcheck disable=SC2016,SC2317 # what stands in single quotes is for the shell of the ranks; within() calls functions
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mark=7654.$$ # seconds that nobody else sleeps
failures=0

fail() {
    echo "FAILED: $*" >&2
    sed 's/^/    /' "$work/out" "$work/err" >&2
    failures=$((failures + 1))
}

# run CODE [option...] -- COMMAND...: the launcher must return CODE within a minute.
run() {
    local code=$1 rc=0
    shift
    timeout -s KILL 60 "$braid" run "$@" > "$work/out" 2> "$work/err" < /dev/null || rc=$?
    [[ $rc -eq $code ]] || fail "braid run $*: code $rc, expected $code"
}

has() { # FILE PATTERN
    grep -qE -- "$2" "$work/$1" || fail "$1 does not say \"$2\""
}

nobody() {
    ! pgrep -f "sleep $mark" > /dev/null
}

nobody_left() {
    within 30 nobody && return
    fail "$1: processes are left"
    pgrep -f "sleep $mark" | xargs -r kill -KILL
}

sleepers() { # COUNT
    [[ $(pgrep -fc "^sleep $mark") -eq $1 ]]
}

wait_for() { # COUNT: until so many sleepers are there
    within 60 sleepers "$1" || fail "only $(pgrep -fc "^sleep $mark") of $1 sleepers came"
}

rank_ended() { # RANK, which has left its number in $work/pid.RANK
    [[ -s $work/pid.$1 ]] && has_ended "$(< "$work/pid.$1")"
}

all_started() {
    [[ -s $work/pid.0 && -s $work/pid.1 && -s $work/pid.2 ]]
}

# -- environment
RANK=9 BRAID_RANK=9 BRAID_PORT=1 TORCHELASTIC_RUN_ID=x BRAID_SECRET=of-an-outer-job BRAID_INSECURE=1 \
    run 0 -n 3 --rails 2 --backend shm -- sh -c \
    'echo "$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $BRAID_RAILS $BRAID_BACKEND ${#BRAID_SECRET}" \
          "${BRAID_RANK-none} ${BRAID_PORT-none} ${TORCHELASTIC_RUN_ID-none} ${BRAID_INSECURE-none} $((MASTER_PORT > 0))"'
for rank in 0 1 2; do
    has out "^\[$rank\] $rank/3 $rank/3 127\.0\.0\.1 2 shm 64 none none none none 1$"
done
[[ $(wc -l < "$work/out") -eq 3 ]] || fail "more than one line a rank"
run 0 -n 2 -- sh -c 'echo "$BRAID_SECRET $MASTER_PORT"'
[[ $(cut -d' ' -f2- "$work/out" | sort -u | wc -l) -eq 1 ]] || fail "the ranks differ in secret or port"
(umask 077 && echo 0123456789abcdef > "$work/secret")
run 0 -n 2 --secret-file "$work/secret" -- sh -c 'echo "${BRAID_SECRET-none} $BRAID_SECRET_FILE"'
has out "^\[1\] none $work/secret$"
chmod 644 "$work/secret"
run 1 -n 2 --secret-file "$work/secret" -- true
has err 'chmod 600'

# -- output
run 0 -n 12 -- sh -c 'echo out; echo err >&2'
has out '^\[ 3\] out$'
has err '^\[11\] err$'
run 0 -n 1 -- sh -c 'printf "no end"; head -c 40000 /dev/zero | tr "\0" x; echo; printf "last"'
has out '^\[0\] last$'
[[ $(tr -cd x < "$work/out" | wc -c) -eq 40000 ]] || fail "a long line lost bytes"
run 0 -n 4 -- sh -c 'i=0; while [ $i -lt 2000 ]; do echo "$RANK line $i ."; i=$((i + 1)); done'
[[ $(grep -cE '^\[([0-3])\] \1 line [0-9]+ \.$' "$work/out") -eq 8000 ]] || fail "lines are lost or mixed"
run 0 -n 2 --no-prefix -- echo plain
[[ $(grep -c '^plain$' "$work/out") -eq 2 ]] || fail "--no-prefix"
rc=0
timeout -s KILL 60 "$braid" run -n 2 -- yes 2> "$work/err" | head -n 1 > "$work/out" || rc=$?
[[ $rc -eq 141 ]] || fail "a reader that leaves: code $rc, expected 141"
run 0 -n 2 -- sh -c 'cat; echo done'
echo input | timeout 60 "$braid" run -n 2 -- sh -c 'cat' > "$work/out" 2> "$work/err"
[[ $(cat "$work/out") = '[0] input' ]] || fail "rank 0 and nobody else reads our input"

# -- a rank fails: it is named, the others end, its code is ours
run 7 -n 4 -- sh -c "if [ \$RANK = 2 ]; then echo bad; exit 7; fi; exec sleep $mark"
has err '^braid run: rank 2 \(process [0-9]+\) .*exit code 7'
has out '^\[2\] bad$'
nobody_left "a failure"
run 139 -n 3 -- sh -c "if [ \$RANK = 1 ]; then ulimit -c 0; kill -SEGV \$\$; fi; exec sleep $mark"
has err 'rank 1 \(process [0-9]+\) .*signal 11'
[[ $(grep -c '^braid run:' "$work/err") -eq 1 ]] || fail "consequences are reported as failures"
nobody_left "a crash"
# Rank 0 gave up because rank 2 had died, and the launcher, busy elsewhere, sees both ends at once.
rc=0
"$braid" run -n 3 -- sh -c "wait_for() { until [ -e $work/end.\$RANK ]; do sleep 0.05; done; }; echo \$\$ > $work/pid.\$RANK
    case \$RANK in 0) wait_for; exit 9 ;; 2) wait_for; kill -KILL \$\$ ;; esac; exec sleep $mark" > "$work/out" 2> "$work/err" &
launcher=$!
within 60 all_started || fail "not all ranks have started"
kill -STOP "$launcher"
for rank in 2 0; do
    : > "$work/end.$rank"
    within 60 rank_ended $rank || fail "rank $rank does not end"
done
kill -CONT "$launcher"
wait "$launcher" || rc=$?
[[ $rc -eq 137 ]] || fail "two ends at once: code $rc, expected 137"
has err 'rank 2 \(process [0-9]+\) .*signal 9'
nobody_left "two ends at once"
begin=$SECONDS
run 3 -n 2 -- bash -c "if [ \$RANK = 1 ]; then until [ -e $work/deaf ]; do sleep 0.05; done; exit 3; fi
    trap '' TERM; : > $work/deaf; while :; do sleep 0.1; done"
has err '1 rank did not end in time, killing'
[[ $((SECONDS - begin)) -ge 4 && $((SECONDS - begin)) -le 30 ]] || fail "the grace took $((SECONDS - begin)) s"

# -- nothing outlives it: children of ranks, those who left their group, a rank's rest after a good end
run 5 -n 2 -- sh -c "sleep $mark & setsid sleep $mark & if [ \$RANK = 1 ]; then sleep 0.5; exit 5; fi; wait"
nobody_left "children of ranks"
run 0 -n 2 -- sh -c "sleep $mark & setsid sleep $mark & exit 0"
nobody_left "a good end"
"$braid" run -n 3 -- sh -c "sleep $mark & exec sleep $mark" > "$work/out" 2> "$work/err" &
launcher=$!
wait_for 6
kill -KILL "$launcher"
{ wait "$launcher"; } 2> /dev/null
nobody_left "a launcher that was killed"

# -- signals are passed on
for signal in INT TERM HUP; do
    # A background process of a script ignores SIGINT, unless it is told not to.
    env --default-signal=INT "$braid" run -n 2 -- bash -c \
        "trap 'echo got $signal; exit 0' $signal; sleep $mark & wait" > "$work/out" 2> "$work/err" &
    launcher=$!
    wait_for 2
    kill -"$signal" "$launcher"
    rc=0
    wait "$launcher" || rc=$?
    [[ $rc -eq $((128 + $(kill -l "$signal"))) ]] || fail "$signal: code $rc"
    has out "^\[1\] got $signal$"
    has err 'ending the job'
    nobody_left "$signal"
done

# -- time
run 124 -n 2 --timeout 1 -- sleep "$mark"
has err ' 1 s.* all ranks'
nobody_left "--timeout"

# -- cores: with one for each rank nobody shares, unless it is not wanted
if [[ $(nproc) -ge 2 ]]; then
    run 0 -n 2 --no-prefix -- sh -c 'taskset -cp $$'
    [[ $(sed 's/.*: //' "$work/out" | sort -u | wc -l) -eq 2 ]] || fail "two ranks share their cores"
    run 0 -n 2 --bind none --no-prefix -- sh -c 'taskset -cp $$'
    [[ $(sed 's/.*: //' "$work/out" | sort -u | wc -l) -eq 1 ]] || fail "--bind none: the ranks are bound"
fi
run 2 -n 1 --bind here -- true
has err "share or none"

# -- wrong usage
run 2 -n 2
has err "no command|'--'"
run 2 -n 2 --
run 2 -n 0 -- true
run 2 --no-such-option -- true
run 2 -n 2 true
has err "does '--' miss"
run 127 -n 3 -- /no/such/program
[[ $(grep -c 'cannot run' "$work/err") -eq 1 ]] || fail "a missing program is reported more than once"
run 126 -n 1 -- /etc
run 0 --help
has out 'Usage: braid run'

[[ $failures -eq 0 ]] && echo "braid run: all fine"
exit $((failures > 0))
