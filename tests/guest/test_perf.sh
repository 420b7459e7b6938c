#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid perf` over RDMA devices: every test, the letters that only verbs has, several rails; what it says it moved left through the NIC.
# shellcheck source=tests/guest/rdma.sh
. "$(dirname "$0")/rdma.sh"
braid=$BRAID_BUILD/braid
work=$(mktemp -d)
port=18600

# both SERVER_DEVICES CLIENT_DEVICES TEST OPTION...: the client's output in $work/out
both() {
    local there=$1 here=$2 server
    shift 2
    port=$((port + 1))
    timeout 60 "$braid" perf "$@" --backend verbs -d "$there" -p $port > "$work/server" 2>&1 &
    server=$!
    wait_listen $port
    timeout 60 "$braid" perf "$@" --backend verbs -d "$here" -p $port "$(address h1r0)" > "$work/out" 2> "$work/err" ||
        fail "$*: $(cat "$work/out" "$work/err" "$work/server")"
    wait $server || fail "the server of $*: $(< "$work/server")"
    grep -q 'Transport type : verbs' "$work/out" || fail "not over verbs: $(< "$work/out")"
}

# row FIELD: of the line of data
row() {
    awk -v n="$1" '$1 ~ /^[0-9]+$/ && NF > 3 { print $n }' "$work/out"
}

for test in write read send; do
    before=$(sent_bytes h0r0) there=$(sent_bytes h1r0)
    both h1r0 h0r0 ${test}_bw -n 50 -s 65536
    [[ $(row 1) == 65536 && $(row 2) == 50 ]] || fail "${test}_bw: $(< "$work/out")"
    before=$(($(sent_bytes h0r0) - before)) there=$(($(sent_bytes h1r0) - there))
    [[ $test == read ]] && before=$there
    [[ $before -ge $((50 * 65536)) ]] || fail "${test}_bw: $before bytes left through the NIC"
    echo "${test}_bw: $(row 4) MiB/s"
    both h1r0 h0r0 ${test}_lat -n 50 -s 8
    [[ $(row 1) == 8 && $(row 2) == 50 ]] || fail "${test}_lat: $(< "$work/out")"
    echo "${test}_lat: $(row 5) us"
done
both h1r0 h0r0 write_bw -n 20 -i 1
grep -q 'Device *: h0r0' "$work/out" || fail "-i: $(< "$work/out")"
both h1r0 h0r0 send_bw -n 20 -x "$(gid_index h0r0)" -S 3 -T 32
both h1r0 h0r0 send_lat -n 20 -R
both h1r0,h1r1 h0r0,h0r1 write_bw -n 40 --report-per-port --data_validation
[[ $(grep -c '^ #rail [01] verbs:h0r[01]: [0-9.]* MB/sec$' "$work/out") == 2 ]] || fail "two rails: $(< "$work/out")"

# Memory of a fake GPU that soft-RoCE knows: the NICs read and write it, nothing is staged.
export BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=peer_memory
said() { # FILE FIELD VALUE: of the report's part on the GPU
    grep -q "\"$2\":[[:space:]]*$3\b" "$work/$1" || fail "$2 is not $3: $(< "$work/$1")"
}
for test in send_bw write_bw; do
    gpu=(perf "$test" -n 20 -s 100000 --data_validation --use_cuda 0 --backend verbs -p $((port + 1)))
    timeout 60 "$braid" "${gpu[@]}" -d h1r0 --out_json_file "$work/to.json" > "$work/server" 2>&1 &
    server=$!
    wait_listen $((port + 1))
    timeout 60 "$braid" "${gpu[@]}" -d h0r0 --out_json_file "$work/from.json" "$(address h1r0)" > "$work/out" 2> "$work/err" ||
        fail "$test on a GPU: $(cat "$work/out" "$work/err" "$work/server")"
    wait $server || fail "the server of $test with a GPU: $(< "$work/server")"
    grep -q 'CUDA device     : 0, by the NIC' "$work/out" || fail "the GPU's way: $(< "$work/out")"
    said from.json nic_from_gpu_bytes 2000000
    said from.json gpu_to_host_bytes 0
    said to.json nic_to_gpu_bytes 2000000
    said to.json host_to_gpu_bytes 0
done
