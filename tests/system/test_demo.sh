#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid demo` on small networks: every algorithm in the table, every value right, with formulas where links have a rate; nothing is
# left behind, also after a signal; bad arguments are refused.
# shellcheck disable=SC2317 # called by within()
set -euo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
braid=$BRAID_BUILD/braid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    cat "$scratch/out" "$scratch/err" 2> /dev/null || true
    exit 1
}

# What was there before is not ours: another demo may run, or have been killed, on this machine.
demo_traces() {
    find /tmp -maxdepth 1 -name 'braid-demo-*'
    "$braid" bcube list | grep -o '^demo[0-9]*' || true
}

left_behind() {
    demo_traces | sort | comm -13 "$scratch/before" -
}
demo_traces | sort > "$scratch/before"

cat > "$scratch/small.csv" << 'MODEL'
# Small, 3 layers
layer,name,kind,parameters,forward_multiply_adds
1,first,Linear,1,1
2,second,Linear,100001,1
3,third,Linear,300000,1
MODEL
options=(--shape "2,2" --models "$scratch/small.csv" --percent 100 --rounds 2)

timeout 200 "$braid" demo "${options[@]}" --loopback > "$scratch/out" 2> "$scratch/err" || fail "loopback: exit code $?"
for row in "BML " "ring " "parameter server "; do
    [[ $(grep -c "^  $row" "$scratch/out") -eq 1 ]] || fail "$row is not in the table once"
done
# 400,002 values on 4 hosts, 2 rounds of 3 algorithms.
grep -q 'All 9600048 values on all hosts are right' "$scratch/out" || fail "number of values"
! grep -q 'formula' "$scratch/out" || fail "a formula without a rate"
# Without a terminal a line says what has begun, and the time when it has ended.
cat > "$scratch/wanted" << 'LINES'
  BCube(2,2), 2 NICs: setting up 4 hosts
  BCube(2,2), 2 NICs small BML begins
  BCube(2,2), 2 NICs small BML TIME
  BCube(2,2), 2 NICs small ring begins
  BCube(2,2), 2 NICs small ring TIME
  one switch, 1 NIC: setting up 4 hosts
  one switch, 1 NIC small parameter server begins
  one switch, 1 NIC small parameter server TIME
LINES
sed -E 's/([^ ]) +/\1 /g; s/[0-9.]+ (us|ms|s)$/TIME/' "$scratch/out" | grep -E '^  (BCube|one switch).* (begins|TIME|hosts)$' | diff - "$scratch/wanted" ||
    fail "lines of progress"
[[ ! -s $scratch/err ]] || fail "words on stderr"
[[ -z $(left_behind) ]] || fail "left behind: $(left_behind)"

if [[ $(id -u) -eq 0 ]]; then
    listed() { # PATTERN
        grep -q "$1" <<< "$("$braid" bcube list)"
    }

    # The goodput of a link is measured: less, if this machine stood still for a moment. Then once more. A sanitizer may be slower than the link.
    shaped() {
        timeout 200 "$braid" demo "${options[@]}" --rate 50mbit > "$scratch/out" 2> "$scratch/err" || fail "shaped: exit code $?"
        grep -q 'All 9600048 values on all hosts are right' "$scratch/out" || fail "number of values"
        grep -q 'BCube(2,2), 2 NICs' "$scratch/out" || fail "network"
        grep -Eq '^  algorithm .* formula  ratio' "$scratch/out" || fail "formulas"
        [[ -z $(left_behind) ]] || fail "left behind: $(left_behind)"
        [[ -n ${BRAID_SANITIZE:-} ]] || grep -q 'one link carries [56]\.[0-9]* MB/s' "$scratch/out"
    }
    within 60 shaped || fail "goodput of a link of 50 Mbit/s"

    "$braid" demo "${options[@]}" --rate 1mbit > "$scratch/out" 2> "$scratch/err" &
    pid=$!
    within 60 listed "^demo$pid " || fail "no testbed"
    sleep 0.5 # so that it comes in the midst of something
    kill -TERM "$pid"
    pkill -TERM -P "$pid" || true
    if wait "$pid"; then fail "succeeded although it was ended"; fi
    [[ -z $(left_behind) ]] || fail "left behind after SIGTERM: $(left_behind)"

    # The next demo removes the testbed of one that was killed.
    "$braid" demo "${options[@]}" --rate 1mbit > "$scratch/out" 2> "$scratch/err" &
    pid=$!
    within 60 listed "^demo$pid .*hosts" || fail "no testbed"
    kill -KILL "$pid"
    { wait "$pid" || true; } 2> /dev/null
    listed "^demo$pid " || fail "nothing was left to sweep"
    timeout 200 "$braid" demo "${options[@]}" --rate 200mbit > "$scratch/out" 2> "$scratch/err" || fail "after a killed one"
    [[ -z $(left_behind) ]] || fail "not swept: $(left_behind)"
fi

echo 'nonsense' > "$scratch/bad.csv"
for bad in "--models $scratch/bad.csv" "--models /no/such/file" "--models nonsense" "--shape 1,2" "--shape 99,2" "--rate fast"; do
    # shellcheck disable=SC2086 # words
    if timeout 60 "$braid" demo $bad > "$scratch/out" 2> "$scratch/err"; then
        fail "accepted: $bad"
    fi
    [[ -s $scratch/err ]] || fail "no words for: $bad"
done
