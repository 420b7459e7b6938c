#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What `braid perf` prints: columns, one figure, all results, JSON by its schema, a line while it runs; what cannot be written and bad values are
# refused with words; copies of a GPU's memory.
# shellcheck disable=SC2317 # called by within()
set -uo pipefail
# shellcheck source=tests/system/perf.sh
. "$BRAID_SOURCE/tests/system/perf.sh"

refused() {
    local pattern=$1 code=0
    shift
    timeout 60 "$braid" perf "$@" > "$work/out" 2> "$work/err" || code=$?
    [[ $code -eq 2 ]] || fail "exit code $code instead of 2: $*"
    grep -q -- "$pattern" "$work/err" || fail "no '$pattern' from: $*"
}

# Busy cores; the bytes that arrived.
both send_bw -D 1 --cpu_util
grep -q 'CPU_Util\[%\]$' "$work/out" || fail "--cpu_util without its column"
row 6 | awk '$1 >= 0 && $1 <= 100 { ok = 1 } END { exit !ok }' || fail "--cpu_util: $(row 6)"
both write_bw -n 200 -s 100000 --backend udp --packet_cost
grep -qE '^ # [0-9]+ packets here, each [0-9]+ ns of CPU time(, [0-9]+ cycles, [0-9]+ instructions|; no hardware counters for)' "$work/out" ||
    fail "--packet_cost"
[[ $(grep -oE '^ # [0-9]+' "$work/out" | cut -c4-) -gt 200 ]] || fail "--packet_cost counts the packets"
grep -q 'packets here' "$work/server" || fail "--packet_cost at the server"
for test in write_bw read_bw send_bw; do
    both "$test" --data_validation -n 20 -s 100000 --backend tcp
done
both send_bw --data_validation -b -n 20

# One figure; limits; all results; cycles.
both send_bw -n 20 --output=bandwidth
[[ $(cat "$work/out") =~ ^[0-9]+\.[0-9]{6}$ ]] || fail "--output"
serve write_bw -n 20
timeout 120 "$braid" perf write_bw -n 20 -w 1e9 -p "$port" localhost > "$work/out" 2> "$work/err"
[[ $? -eq 1 ]] || fail "-w"
grep -q 'below bw limit' "$work/err" || fail "-w without words"
ended 0
both send_lat -n 20 -H
[[ $(grep -cE '^[0-9]+, [0-9]' "$work/out") == 20 ]] || fail "-H drops results"
grep -E '^[0-9]+, ' "$work/out" | cut -d' ' -f2 | sort -g -C || fail "-H is not sorted"
both read_lat -n 20 -U --hdr "$work/hdr"
[[ $(grep -cE '^[0-9]+, ' "$work/out") == 20 ]] || fail "-U drops results"
grep -q 'Total count    = *20\]' "$work/hdr" || fail "--hdr"
if [[ $(uname -m) == x86_64 ]]; then
    both read_lat -n 20 -C
    grep -q 't_min\[cycles\]' "$work/out" || fail "-C"
fi

# Flags in one word, as people type them.
both send_bw -bNF -n 20
grep -q 'Bidirectional' "$work/out" || fail "-bNF"
[[ $(row 3) == 0.00 ]] || fail "-bNF: no peak"

# JSON with all sizes, by the schema's rules.
serve write_bw -a -n 5
timeout 120 "$braid" perf write_bw -a -n 5 --out_json --out_json_file="$work/json" -p "$port" localhost > "$work/out" 2> "$work/err" ||
    fail "--out_json"
ended 0
[[ $(grep -cE '^ [0-9]+ ' "$work/out") == 23 ]] || fail "-a has 23 sizes"
if command -v jq > /dev/null; then
    jq -e '.complete and (.results | length == 23) and .results[22].MsgSize == 8388608 and .test_info.unit == "MiB/sec" and
        ([.results[] | .BW_average > 0 and .n_iterations == 5] | all) and (.rails | length > 0)' "$work/json" > "$work/verdict" ||
        fail "JSON: $(cat "$work/json")"
fi

# valid FILE: by the schema.
valid() {
    python3 -c 'import jsonschema' 2> /dev/null || return 0 # python3-jsonschema is not there
    python3 -c 'import json, sys, jsonschema
schema, report = (json.load(open(name)) for name in sys.argv[1:])
jsonschema.Draft202012Validator.check_schema(schema)
jsonschema.Draft202012Validator(schema).validate(report)' "$BRAID_SOURCE/doc/perf.schema.json" "$1" 2> "$work/err" || fail "$1 is not by the schema"
}
valid "$work/json"
if python3 -c 'import jsonschema' 2> /dev/null; then
    sed 's/"complete":[^,]*true/"complete": "yes"/' "$work/json" > "$work/wrong"
    (valid "$work/wrong") 2> /dev/null && fail "the validator takes anything"
fi
for options in "write_lat -n 5" "read_lat -D 1 -C --cpu_util" "send_bw -D 1 -b --report_gbits" "send_bw -n 5 -q 2 -r 1"; do
    # shellcheck disable=SC2086 # options are words
    serve $options
    # shellcheck disable=SC2086
    timeout -k 1 120 "$braid" perf $options --out_json_file="$work/json" -p "$port" localhost > "$work/out" 2> "$work/err" ||
        fail "$options --out_json_file"
    ended 0
    valid "$work/json"
done

# A line while it runs, with the rate of each rail, on a terminal; none in a pipe.
both send_bw -D 2 -q 2 --backend tcp
grep -q $'\r' "$work/out" && fail "a live line in a pipe"
if command -v script > /dev/null; then
    on_terminal() { # no line, if the client stood still for these two seconds
        serve send_bw -D 2 -q 2 --backend tcp
        timeout -k 1 120 script -qec "$braid perf send_bw -D 2 -q 2 --backend tcp -p $port localhost" /dev/null > "$work/out" < /dev/null ||
            fail "on a terminal"
        ended 0
        grep -qE $'\r\033\\[K 65536 bytes: [0-9.]+ MiB/s; rails [0-9.]+, [0-9.]+' "$work/out"
    }
    within 30 on_terminal || fail "no live line: $(cat -v "$work/out")"
fi

# What cannot be written is said before anybody waits or measures; a full disk behind it, to the one side that has it.
for option in --out_json_file --hdr; do
    timeout 60 "$braid" perf write_lat -n 20 $option /nowhere/file > "$work/out" 2> "$work/err" && fail "$option is not written"
    grep -q '/nowhere/file.*No such file' "$work/err" || fail "no words about $option"
done
serve write_lat -n 20
timeout 60 "$braid" perf write_lat -n 20 -p "$port" localhost > /dev/full 2> "$work/err" && fail "a table is not written, and the exit code is 0"
grep -q 'standard output' "$work/err" || fail "no words about a table that is not written"
ended 0

# Memory of a GPU: the fake driver's, which faults when the CPU touches it. What was copied says which way the bytes went: 40 messages, out of
# the GPU of who sends, into that of who receives.
copied() { # FILE TO_HOST TO_GPU
    jq -e ".gpu.device == 1 and .gpu.gpu_to_host_bytes == $2 and .gpu.host_to_gpu_bytes == $3" "$work/$1" > /dev/null ||
        fail "copies of $1: $(jq -c .gpu "$work/$1"), not $2 and $3"
}
on_gpu() { # TEST OPTION...: the client's buffers are a GPU's; its report in client.json
    BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=devices=2,late=1 timeout -k 1 120 \
        "$braid" perf "$@" --use_cuda 1 --out_json_file "$work/client.json" -p "$port" localhost > "$work/out" 2> "$work/err" ||
        fail "client: $*"
}
if command -v jq > /dev/null; then
    for backend in shm tcp; do
        common=(--backend "$backend" -n 40 -s 100000)
        serve write_bw "${common[@]}" --data_validation
        on_gpu write_bw "${common[@]}" --data_validation
        ended 0
        grep -q 'CUDA device     : 1, staged' "$work/out" || fail "the GPU is not named"
        copied client.json 4000000 0
        serve read_bw "${common[@]}" --data_validation
        on_gpu read_bw "${common[@]}" --data_validation
        ended 0
        copied client.json 0 4000000
        for test in send_bw write_bw read_bw; do
            BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=devices=2,late=1 serve "$test" "${common[@]}" --data_validation \
                --use_cuda 1 --out_json_file "$work/server.json"
            on_gpu "$test" "${common[@]}" --data_validation
            ended 0
            from=client to=server
            [[ $test != read_bw ]] || from=server to=client
            copied $from.json 4000000 0
            copied $to.json 0 4000000
        done
        serve send_lat "${common[@]}"
        on_gpu send_lat "${common[@]}"
        ended 0
        copied client.json 4000000 4000000
        valid "$work/client.json"
    done
fi
BRAID_CUDA_LIBRARY=/nowhere.so timeout 60 "$braid" perf send_bw --use_cuda 0 > "$work/out" 2> "$work/err"
[[ $? -eq 1 ]] || fail "no driver"
grep -q -- '--use_cuda 0: the CUDA driver cannot be loaded .*apt-get install' "$work/err" || fail "no driver, without words"
BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA timeout 60 "$braid" perf send_bw --use_cuda 7 > "$work/out" 2> "$work/err"
[[ $? -eq 1 ]] || fail "no such GPU"
grep -q -- '--use_cuda 7: there is no such GPU' "$work/err" || fail "no such GPU, without words"

# Words.
timeout 60 "$braid" perf send_lat -p "$port" localhost > "$work/out" 2> "$work/err"
[[ $? -eq 1 ]] || fail "no server"
grep -q 'perf send_lat' "$work/err" || fail "no server, without words"
refused 'there is no test' write
refused 'for write_bw, read_bw and send_bw only' send_lat -b
refused 'for write_lat, read_lat, send_lat and atomic_lat only' send_bw -H
refused 'read, send and atomic tests only' write_bw -e
refused 'at least\|from 5 to' write_bw -n 4
refused 'from 1 to' write_bw -s 0
refused 'give one of them' write_bw -a -s 4
refused 'give one of them' write_bw -n 5 -D 5
refused 'cannot be combined with -D' write_bw -a -D 5
refused 'nothing of -D' write_bw -D 4 -f 2
refused 'the messages under way\|messages under way' write_bw -t 4 -l 8
refused 'both say how many rails' write_bw -q 2 --rails 3
refused '--backend verbs only' write_bw -x 1
refused 'runs with -D only' send_bw --cpu_util
refused 'udp or dpdk only' send_bw --packet_cost --backend tcp
refused 'write_bw, read_bw and send_bw only' send_lat --data_validation
refused 'only RC' write_bw -c UD
refused 'MTU of the path' write_bw -m 1024
refused '--backend verbs only' write_bw -R
refused 'must be a number above 0' write_bw -w x
refused 'must be bandwidth or message_rate' write_bw --output latency
refused 'one word too many' write_bw one two
refused 'the server' write_bw --clients 2 host
refused 'there is no option' write_bw --nonsense
help=$("$braid" perf send_lat --help)
[[ $help == *iters* ]] || fail "--help"
[[ $help != *bidirectional* ]] || fail "--help of send_lat has -b"
grep -q '^Version: ' <<< "$("$braid" perf send_lat -V)" || fail "-V"
echo "all of braid perf"
