#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid perf`: two processes, every test over shared memory and TCP, in both directions, by number and by time; Ctrl-C on either side, sides that
# differ, several clients and unauthenticated peers. What it prints is in test_perf_report.sh.
# shellcheck disable=SC2317 # called by within()
set -uo pipefail
# shellcheck source=tests/system/perf.sh
. "$BRAID_SOURCE/tests/system/perf.sh"

above() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a > b) }' || fail "$1 is not above $2: $3"
}

# Every test on both back ends; the server prints the client's line.
for backend in shm tcp; do
    for test in write read send; do
        both "${test}_bw" --backend "$backend" -n 50 -s 4096
        [[ $(row 1) == 4096 && $(row 2) == 50 ]] || fail "columns of ${test}_bw"
        above "$(row 4)" 0 "column 4 is the average"
        above "$(row 3)" 0 "column 3 is the peak"
        grep -q '^ #bytes     #iterations    BW peak\[MB/sec\]    BW average\[MB/sec\]   MsgRate\[Mpps\]$' "$work/out" ||
            fail "header of ${test}_bw"
        grep -qxF "$(grep '^ 4096' "$work/out")" "$work/server" || fail "the server's line differs"
        both "${test}_lat" --backend "$backend" -n 50
        [[ $(row 1) == 2 && $(row 2) == 50 ]] || fail "columns of ${test}_lat"
        awk '$1 == 2 && NF == 9 { if ($3 > 0 && $3 <= $5 && $5 <= $4 && $3 <= $6 && $6 <= $4 && $8 <= $9) ok = 1 } END { exit !ok }' \
            "$work/out" || fail "times of ${test}_lat"
    done
done

# Both directions, few receives, several rails, posting and taking in lots, by time, warm-up, sleeping.
both send_bw -b -r 1 -n 40 --backend tcp
both write_bw -b --report-both -n 40
[[ $(grep -c '^ # 65536' "$work/out") == 2 ]] || fail "--report-both"
both write_bw -n 40 -q 3 --backend tcp -l 4 -Q 2 -t 8 --perform_warm_up
[[ $(row 2) == 120 ]] || fail "-n counts for each rail"
grep -q 'Number of qps   : 3' "$work/out" || fail "-q 3"
both send_bw -D 1 -f 0 --report_gbits -s 64K
grep -q 'BW average\[Gb/sec\]' "$work/out" || fail "--report_gbits"
[[ $(row 3) == 0.00 ]] || fail "no peak with -D"
both read_bw -D 1 -b --backend tcp
both send_bw -D 1 -b
by_time() { # nothing, if a side stood still for this second
    both write_lat -D 1 -s 200K
    [[ $(row 2) -gt 0 ]]
}
within 30 by_time || fail "-D of a latency test"
both send_lat -D 1 -e --backend tcp
both write_lat -n 20 -s 300K -q 2 --backend tcp

# More than some messages, as `braid top` sees it; the client is rank 1.
has_sent() {
    grep -qE '^braid_rail_tx_bytes_total\{.*rank="1".* [0-9]{7,}$' <<< "$("$braid" top --prometheus 2> /dev/null)"
}

has_rows() {
    [[ -n $(row 1) ]]
}

# Shared memory has one rail, whatever is asked for.
serve write_bw -n 20 -q 3 --backend shm
timeout 60 "$braid" perf write_bw -n 20 -q 3 --backend shm -p "$port" localhost > "$work/out" 2> "$work/err" || fail "-q over shm"
grep -q '1 rail.* 3 .*-q' "$work/err" || fail "no words about rails that are not there"
ended 0

# What keeps a side from joining is said before the other one waits for it, and ends the other one; so does a signal.
code=0
BRAID_SPIN_US=x timeout 60 "$braid" perf write_bw -p "$port" > "$work/out" 2> "$work/err" || code=$?
[[ $code -eq 2 ]] || fail "exit code $code of a server that cannot join"
grep -q BRAID_SPIN_US "$work/err" || fail "no words of a server that cannot join"
serve write_bw -d nosuch
"$braid" perf write_bw -p "$port" localhost > "$work/out" 2> "$work/err" &
client=$!
within 60 has_ended "$server" || fail "a server without its device goes on"
within 2 has_ended "$client" || kill -TERM "$client" # on a machine that stood still: nobody has told it
code=0
wait "$client" || code=$?
if [[ $code -eq 1 ]]; then
    grep -qE 'rank 0 .*has left|refused' "$work/err" || fail "the client does not say that the server is gone"
else
    [[ $code -eq 143 ]] || fail "exit code $code of a client whose server has no device"
fi
ended 1

# interrupted CONDITION TEST OPTION...: Ctrl-C at the client when the condition is there. What was measured so far is printed, both sides end.
interrupted() {
    local condition=$1 code=0
    shift
    serve "$@"
    : > "$work/out"
    "$braid" perf "$@" -p "$port" localhost > "$work/out" 2> "$work/err" &
    client=$!
    within 60 "$condition" || fail "nothing comes of: $*"
    kill -INT "$client"
    wait "$client" || code=$?
    [[ $code -eq 130 ]] || fail "exit code $code after Ctrl-C: $*"
    [[ $(row 2 | tail -n 1) -gt 0 ]] || fail "Ctrl-C prints what was measured: $*"
    ended 130
}
interrupted has_sent send_bw -n 100000000
interrupted has_sent write_bw -b -n 100000000 # the other direction ends, too
for _ in 1 2 3 4 5; do                        # between two sizes, too: both sides know whether there is another
    interrupted has_rows write_bw -a -n 10000
done

# Ctrl-C at the server: the client says so, and prints what it has.
serve write_bw --run_infinitely -D 1
: > "$work/out" # the child may do so after has_rows has seen the rows of before
"$braid" perf write_bw --run_infinitely -D 1 -p "$port" localhost > "$work/out" 2> "$work/err" &
client=$!
within 60 has_rows || fail "--run_infinitely prints nothing"
pkill -INT -P "$server"
code=0
wait "$client" || code=$?
[[ $code -eq 1 ]] || fail "the server's Ctrl-C: exit code $code"
grep -q interrupted "$work/err" || fail "the server's Ctrl-C without words"
[[ $(row 1 | head -n 1) == 65536 ]] || fail "--run_infinitely prints each period"
ended 130

# A server without options takes the client's: README's own example, sizes and directions, a back end.
serve write_bw
(cd "$work" && timeout -k 1 120 "$braid" perf write_bw -a -n 20 --report_gbits -p "$port" localhost --out_json > out 2> err) || fail "-a at the client alone"
ended 0
[[ $(row 1 | tail -n 1) == 8388608 && -s $work/perftest_out.json ]] || fail "-a at the client alone ends early"
[[ $(awk '$1 ~ /^[0-9]+$/ && NF > 3' "$work/server" | wc -l) -eq 23 ]] || fail "the server of -a prints other sizes"
serve send_bw --clients 2
for backend in tcp shm; do
    timeout -k 1 120 "$braid" perf send_bw -b -n 20 -s 4K -t 4 --backend $backend --data_validation -p "$port" localhost \
        > "$work/out" 2> "$work/err" || fail "options at the client alone, $backend"
    grep -q "Transport type : $backend" "$work/out" || fail "not over $backend"
done
ended 0

# One server, three clients: an unauthenticated peer does not count, the second differs.
serve send_lat -n 10 -s 2 --clients 3
echo hello > "/dev/tcp/127.0.0.1/$port" || fail "unauthenticated peer"
for size in 2 8 2; do
    code=0
    timeout 120 "$braid" perf send_lat -n 10 -s "$size" -p "$port" 127.0.0.1 > "$work/out" 2> "$work/err" || code=$?
    [[ $code -eq $((size == 8)) ]] || fail "client with -s $size: $code"
    [[ $size -eq 2 ]] || grep -q -- '-s: 2 at the server, 8 at the client' "$work/err" || fail "the client does not say what differs"
done
ended 0
grep -q -- '-s: 2 at the server, 8 at the client' "$work/server.err" || fail "the server does not say what differs"
