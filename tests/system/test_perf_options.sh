#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Every option of `braid perf`: a table of good ones, which run between two processes, and one of bad ones, which are refused with
# words before anything happens. Every option that the installed perftest knows is either served or refused with a reason.
# shellcheck disable=SC2317 # called by within()
set -uo pipefail
# shellcheck source=tests/within.sh
. "$BRAID_SOURCE/tests/within.sh"
# shellcheck source=tests/system/port.sh
. "$BRAID_SOURCE/tests/system/port.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
cd "$work" || exit 1
port=$(free_port $((10000 + $$ % 9000)))
server=
trap '[[ -z $server ]] || kill -9 "$server" 2> /dev/null; rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    tail -n 20 "$work"/*.out "$work"/*.err >&2
    exit 1
}

# runs WORD... : server and client; the client's output in client.out
runs() {
    "$braid" perf "$@" -p "$port" > server.out 2> server.err &
    server=$!
    within 60 listens "$port" || fail "no server: $*"
    timeout -k 1 120 "$braid" perf "$@" -p "$port" localhost > client.out 2> client.err || fail "client: $*"
    wait "$server" || fail "server: $*"
    server=
    port=$((port + 1))
}

# ---- good: TEST and options | what the client then says (a pattern of lines) --------------------------------------------

while IFS='|' read -r words pattern; do
    # shellcheck disable=SC2086 # words
    runs $words
    grep -qE -- "$pattern" client.out || fail "no '$pattern' from: $words"
done << 'END'
write_bw -n 5|^ 65536 +5 +[0-9.]+ +[0-9.]+
read_bw --iters=7 --size=4K|^ 4096 +7 
send_bw -n 20 -s 1|^ 1 +20 
write_lat -n 5 -s 4194304|^ 4194304 5 
read_lat --all -n 5|^ 8388608 5 
send_lat -n 9 -e|^ 2 +9 
write_bw -n 20 -b|Bidirectional
write_bw -n 20 --bidirectional --report-both|^ # 65536
write_bw -n 20 -c RC --connection=RC|Connection type : RC
read_lat -n 5 -C|t_min.cycles.
write_bw -n 20 -d lo|Device +: lo
send_bw -D 1|^ 65536 +[0-9]+ +0.00 
send_bw --duration=1 --margin=0|^ 65536 
send_bw -D 1 --cpu_util|CPU_Util
write_lat -D 1|tps average
write_bw -n 20 -F --CPU-freq|^ 65536
read_lat -n 5 -H|^5, 
read_lat -n 5 -U|^5, 
atomic_lat -n 5|^ 8 +5 
atomic_lat -n 5 -A CMP_AND_SWAP|^ 8 +5 
atomic_lat -n 5 -C|Atomic Latency Test
write_bw -n 20 -l 4|^ 65536
write_bw -n 20 -t 8 -l 8|TX depth +: 8
write_bw -n 20 --noPeak|^ 65536 +20 +0.00
write_bw -n 20 -q 3|^ 65536 +60 
write_bw -n 20 --backend tcp --rails 2 --report-per-port|^ #rail 1 tcp:lo: [0-9.]+ MB/sec$
write_bw -n 20 -Q 1 --cq-mod=2|CQ Moderation +: 2
send_bw -n 600 -r 512|RX depth +: 500
send_bw -n 20 -r 1|RX depth +: 1
write_bw -n 20 -w 0.001 -y 0.0000001|^ 65536
write_bw -n 20 --perform_warm_up|^ 65536
write_bw -n 20 --output=message_rate|^[0-9]+\.[0-9]{6}$
send_lat -n 20 --output latency|^[0-9]+\.[0-9]{6}$
write_bw -n 20 --out_json|^ 65536
write_bw -n 20 --out_json_file=-|"BW_average"
write_bw -n 20 --report_gbits|BW average.Gb/sec
send_bw -n 20 --data_validation|^ 65536
write_bw -n 20 --backend shm --priority -3|Transport type : shm
send_lat -n 20 --hdr=hdr.txt|^ 2 +20 
END
[[ -s perftest_out.json && -s hdr.txt ]] || fail "--out_json and --hdr write files"

# ---- bad: TEST and options | the words -----------------------------------------------------------------------------------

while IFS='|' read -r words pattern; do
    code=0
    # shellcheck disable=SC2086 # words
    timeout 60 "$braid" perf $words > client.out 2> client.err || code=$?
    [[ $code -eq 2 ]] || fail "exit code $code instead of 2: $words"
    grep -qE -- "$pattern" client.err || fail "no '$pattern' from: $words"
    [[ $(wc -l < client.err) -eq 1 ]] || fail "not one line: $words"
done << 'END'
nothing|there is no test
write_bw -a=|--all|there is no option|takes no value
write_bw -a -s 4|give one of them
write_lat -b|write_bw, read_bw and send_bw only
write_bw -c UC|only RC
write_bw -c|needs a value
send_bw -C|write_lat, read_lat, send_lat and atomic_lat only
write_bw -d|needs a value
write_bw -D 0|from 1 to 86400
write_bw -D -1|from 1 to 86400
write_bw -D 1.5|whole number
write_bw -D 86401|from 1 to 86400
write_bw -D 5 -n 5|give one of them
write_bw -e|read, send and atomic tests only
write_bw -A FETCH_AND_ADD|atomic_lat only
atomic_lat -A ADD|CMP_AND_SWAP or FETCH_AND_ADD
atomic_lat -s 16|leave out -s
atomic_lat -a|leave out -a
write_bw -f 1|runs with -D only
write_bw -D 4 -f 2|leaves nothing
write_bw -D 4 -f x|from 0 to
send_bw -H|write_lat, read_lat, send_lat and atomic_lat only
send_lat -D 1 -H|use --hdr
send_lat -D 1 -U|use --hdr
write_bw -i 1|--backend verbs only
write_bw --backend verbs -i 1|of -d; name them
write_bw --backend verbs -d mlx5_0:1 -i 1|both say which port
write_bw --backend verbs -d mlx5_0 -i 0|from 1 to 255
write_bw -I 64|perftest's and not here
write_bw -l 0|from 1 to
send_lat -l 2|write_bw, read_bw and send_bw only
write_bw -t 4 -l 8|messages under way
write_bw -m 4096|MTU of the path
write_bw -n 4|from 5 to
write_bw -n five|whole number
write_bw -n 99999999999999999999|whole number
write_bw -n|needs a value
send_lat -N|write_bw, read_bw and send_bw only
write_bw -p 0|from 1 to 65535
write_bw -p 65536|from 1 to 65535
write_bw -q 0|from 1 to 8
write_bw -q 9|from 1 to 8
write_bw -q 2 --rails 3|both say how many rails
write_bw -Q 0|from 1 to
write_bw -Q 500 -t 4|messages under way
send_lat -Q 1|write_bw, read_bw and send_bw only
write_bw -r 16|send_bw and send_lat only
send_bw -r 0|from 1 to
write_bw -R|--backend verbs only
write_bw -s 0|from 1 to
write_bw -s -1|from 1 to
write_bw -s 2G|from 1 to
write_bw -s 1X|number of bytes
write_bw -S 1|--backend verbs only
write_bw --backend verbs -S 16|from 0 to 15
write_bw -t 0|from 1 to
write_bw -t 501|from 1 to 500
write_bw -t 251 -q 2|at most 250
send_lat -t 2|write_bw, read_bw and send_bw only
write_bw -T 1|--backend verbs only
write_bw --tclass=256 --backend verbs|from 0 to 255
write_bw -u 14|BRAID_PEER_TIMEOUT
write_bw -w 0|above 0
write_bw -w nan|above 0
write_bw -y -1|above 0
send_lat -w 1|write_bw, read_bw and send_bw only
write_bw -x 1|--backend verbs only
write_bw --backend verbs -x 256|from 0 to 255
write_bw --output latency|must be bandwidth or message_rate
send_lat --output bandwidth|must be latency
write_bw --output bandwidth --report-per-port|leave one out
write_bw -b --output bandwidth --report-both|leave one out
write_bw --report-both|for -b only
send_lat --report-per-port|write_bw, read_bw and send_bw only
write_bw --run_infinitely --report-per-port|runs that end only
write_bw --out_json=x|takes no value
write_bw --out_json_file|needs a value
send_lat --report_gbits|write_bw, read_bw and send_bw only
send_lat --run_infinitely|write_bw, read_bw and send_bw only
write_bw --run_infinitely -n 5|leave one out
write_bw --run_infinitely -a|--run_infinitely
send_bw --cpu_util|runs with -D only
write_bw --packet_cost|--backend udp or dpdk only
write_bw --backend udp --run_infinitely --packet_cost|runs that end only
write_bw --use_cuda 64|from 0 to 63
read_lat --use_cuda=64|from 0 to 63
write_lat --use_cuda 0 host|send_bw, read_lat and send_lat only
atomic_lat --use_cuda 0|send_bw, read_lat and send_lat only
send_bw --use_cuda 0 --use_cuda_dmabuf|--use_cuda N
send_bw --use_cuda_bus_id 1|which GPU
send_bw --use_rocm 0|NVIDIA's GPUs only
send_lat --data_validation|write_bw, read_bw and send_bw only
write_lat --hdr same --out_json_file same|both write same
write_bw --backend nosuch|it must be auto, tcp
write_bw --output bandwidth --out_json_file -|both write standard output
write_bw --hdr file|write_lat, read_lat, send_lat and atomic_lat only
write_bw --priority 9999999999|from -2147483648
write_bw --clients -1|from 0 to
write_bw --clients 2 host|--clients
write_bw one two|one word too many
write_bw -- host|followed by nothing
write_bw --nonsense|there is no option
write_bw -bz|perftest's and not here
write_bw -bé|there is no option
END

# Bad only where the network is looked at.
runs_not() { # PATTERN WORD...
    local pattern=$1 code=0
    shift
    timeout 60 "$braid" perf "$@" > client.out 2> client.err || code=$?
    [[ $code -eq 1 ]] || fail "exit code $code instead of 1: $*"
    grep -qE -- "$pattern" client.err || fail "no '$pattern' from: $*"
}
export RES_OPTIONS="timeout:2 attempts:1" # where names are asked for and nobody answers
runs_not "there is no host" write_bw no-such-host.invalid
runs_not "write_bw. there first" write_bw -p 1 127.0.0.1

# ---- the whole of perftest -----------------------------------------------------------------------------------------------

# A line "-x" or "--name" for each option of a perftest program's help.
options_of() {
    "$1" --help 2>&1 | sed -nE 's/^[[:space:]]*(-[a-zA-Z]), *(--[a-zA-Z0-9_-]+).*/\1\n\2/p; s/^[[:space:]]*(--[a-zA-Z0-9_-]+).*/\1/p'
}
known=0
for test in write_bw read_bw send_bw write_lat read_lat send_lat atomic_lat; do
    command -v "ib_$test" > /dev/null || continue
    while read -r option; do
        timeout 60 "$braid" perf "$test" "$option" 1 2 3 > client.out 2> client.err
        grep -q "there is no option" client.err && fail "$test does not know perftest's $option"
        known=$((known + 1))
    done < <(options_of "ib_$test")
    [[ $known -gt 30 ]] || fail "only $known options read from ib_$test --help"
done
echo "every option of braid perf; $known of perftest's"
