#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What can be shown on a real GPU only: `./dev test --gpu [-R REGEX]` runs it. One line for each part: passed, failed, or could not run and why.
# BRAID_GPU_PARTS: a regular expression; parts without it in their names are left out. Exit 1 when a part failed; 77 when none could run.
set -uo pipefail
bench=$BRAID_BUILD/bench/gpu_reduce
parts=0
passed=0
failed=0

# part NAME COMMAND...: exit status 77 means that it could not run, for the reason that it printed last.
part() {
    local name=$1 output rc
    shift
    [[ $name =~ ${BRAID_GPU_PARTS:-} ]] || return 0
    parts=$((parts + 1))
    output=$("$@" 2>&1)
    rc=$?
    if [[ $rc -eq 77 ]]; then
        printf 'could not run  %s: %s\n' "$name" "$(tail -n 1 <<< "$output")"
        return
    fi
    printf '%s\n' "$output"
    if [[ $rc -eq 0 ]]; then
        passed=$((passed + 1))
        printf 'passed         %s\n' "$name"
    else
        failed=$((failed + 1))
        printf 'failed         %s\n' "$name"
    fi
}

tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)

# sanitized [LAUNCHER...] @ PROGRAM [ARGUMENT...]: the program as it is, which may be unable to run, and then under the sanitizer.
sanitized() {
    local before=() rc=0
    if [[ ! -x $tool ]]; then
        echo "compute-sanitizer is not installed (apt-get install cuda-sanitizer-13-0)"
        return 77
    fi
    while [[ $1 != @ ]]; do
        before+=("$1")
        shift
    done
    shift
    "${before[@]}" "$@" > /dev/null 2>&1 || rc=$?
    if [[ $rc -ne 0 ]]; then
        "${before[@]}" "$@"
        return $?
    fi
    "${before[@]}" "$tool" --error-exitcode 1 "$@"
}

# What the sanitizer looks at takes its time.
sanitized_ranks() {
    BRAID_TIMEOUT=900 sanitized timeout 900 "$BRAID_BUILD/braid" run -n 2 --no-prefix -- @ "$BRAID_BUILD/bench/gpu_allreduce" check
}

# ranks N MODE [MIB]: as many processes, on one GPU unless there are more. What falls short of the goal (3) has failed, too.
ranks() {
    local n=$1
    shift
    timeout 300 "$BRAID_BUILD/braid" run -n "$n" --no-prefix -- "$BRAID_BUILD/bench/gpu_allreduce" "$@"
}

# matrix ROW: each collective, type, reduction, way to call, memory of GPUs and of hosts mixed, by jobs of the row's sizes.
matrix() {
    BRAID_CUDA_LIBRARY=libcuda.so.1 timeout 300 "$BRAID_BUILD/tests/test_system_matrix" "$1"
}

# Four processes that believe to be on two hosts: the GPUs of each first, then TCP.
two_hosts() {
    if [[ $(id -u) -ne 0 ]]; then
        echo "needs root, for boot IDs that differ (bench/two_hosts.sh)"
        return 77
    fi
    local said rc=0
    said=$(BRAID_LOG=info BRAID_DEVICES=127.0.0.1 timeout 300 "$BRAID_BUILD/braid" run -n 4 --no-prefix -- \
        "$BRAID_SOURCE/bench/two_hosts.sh" "$BRAID_BUILD/bench/gpu_allreduce" check 2>&1) || rc=$?
    echo "$said"
    if [[ $rc -eq 0 ]] && ! grep -q 'combined within each of 2 hosts first' <<< "$said"; then
        echo "the hosts' GPUs were not combined first"
        return 1
    fi
    return "$rc"
}

# The first RDMA device that can be used and reaches GPU 0, as `braid info` finds out by a write and a read-back.
near_nic() {
    "$BRAID_BUILD/braid" info 2> /dev/null | sed -n 's/^ *\([^ ]*\) reaches it by .*/\1/p' | head -n 1
}

# Each NIC that can be used must reach each GPU; said of those that do not, with the reason.
nics_reach() {
    local all
    all=$("$BRAID_BUILD/braid" info 2> /dev/null | grep -E ' reaches it by | does not reach it: ')
    if [[ -z $all ]]; then
        echo "no RDMA device can be used here (braid info)"
        return 77
    fi
    echo "$all"
    ! grep -q ' does not reach it: ' <<< "$all"
}

# nic_moves TEST: two processes of this host, linked through the NIC, with buffers on GPU 0: every byte is right, none was staged, and those that
# the NIC read, or wrote, are all.
nic_moves() {
    local nic folder rc=0
    nic=$(near_nic)
    if [[ -z $nic ]]; then
        echo "no RDMA device reaches GPU 0 (braid info)"
        return 77
    fi
    if ! command -v jq > /dev/null; then
        echo "jq is not installed (apt-get install jq)"
        return 77
    fi
    folder=$(mktemp -d)
    local common=("$1" --backend verbs -d "$nic" -s 1048576 -n 200 -p 18599 --data_validation --use_cuda 0)
    timeout 120 "$BRAID_BUILD/braid" perf "${common[@]}" --out_json_file "$folder/server.json" > /dev/null &
    local server=$!
    sleep 1
    timeout 120 "$BRAID_BUILD/braid" perf "${common[@]}" --out_json_file "$folder/client.json" localhost || rc=1
    wait "$server" || rc=1
    jq -c .gpu "$folder"/*.json
    jq -e '.gpu.gpu_to_host_bytes == 0 and .gpu.nic_from_gpu_bytes > 0' "$folder/client.json" > /dev/null || rc=1
    jq -e '.gpu.host_to_gpu_bytes == 0 and .gpu.nic_to_gpu_bytes > 0' "$folder/server.json" > /dev/null || rc=1
    rm -rf "$folder"
    return "$rc"
}

# Two processes of this host on GPU 0, linked through the NIC: all-reduces are right, and no byte of them leaves the GPU but by the NIC.
nic_reduces() {
    local nic
    nic=$(near_nic)
    if [[ -z $nic ]]; then
        echo "no RDMA device reaches GPU 0 (braid info)"
        return 77
    fi
    BRAID_BACKEND=verbs BRAID_DEVICES=$nic BRAID_GPU_REDUCE=gpu ranks 2 direct
}

# CUDA tensors in PyTorch: tests/torch/test_cuda.py as ctest runs it, with an allocator of torch's.
torch_cuda() {
    local said rc=0
    said=$(PYTORCH_CUDA_ALLOC_CONF=$1 timeout 300 ctest --test-dir "$BRAID_BUILD" -R '^torch/cuda$' -V 2>&1) || rc=$?
    if grep -q 'No tests were found' <<< "$said"; then
        echo "there is no test torch/cuda in $BRAID_BUILD"
        return 77
    fi
    sed -n 's/^[0-9]*: //p' <<< "$said"
    if grep -q 'Skipped' <<< "$said"; then
        sed -n 's/^[0-9]*: //p' <<< "$said" | tail -n 1
        return 77
    fi
    if [[ $rc -eq 0 ]] && ! grep -qE '[0-9] passed' <<< "$said"; then
        echo "torch sees no GPU"
        return 77
    fi
    return "$rc"
}

part "kernels give the CPU's results" "$bench" --check
part "kernels under compute-sanitizer" sanitized @ "$bench" --check
part "all-reduce by 2 processes under compute-sanitizer" sanitized_ranks
part "kernels at 85 % of the copy bandwidth" "$bench"
for n in 2 4; do
    part "$n processes all-reduce memory of GPUs" ranks "$n" check
    BRAID_GPU_REDUCE=gpu part "$n processes, values combined by the kernels" ranks "$n" check
done
part "4 processes of two hosts all-reduce memory of GPUs" two_hosts
for reduce in cpu gpu; do
    for backend in shm tcp auto udp; do
        BRAID_GPU_REDUCE=$reduce part "every collective, over $backend, values combined by: $reduce" matrix "gpu-$backend"
    done
done
part "no call that braid makes beside operations in streams waits for them" "$BRAID_BUILD/bench/gpu_blocking"
part "nor for those in the default stream" "$BRAID_BUILD/bench/gpu_blocking" --default-stream
for backend in shm tcp; do
    BRAID_BACKEND=$backend part "order in a stream, over $backend" ranks 2 stream
done
part "each NIC reaches each GPU" nics_reach
part "a NIC sends and receives memory of a GPU" nic_moves send_bw
part "a NIC puts to memory of a GPU" nic_moves write_bw
part "a NIC carries all-reduces of memory of a GPU" nic_reduces
part "CUDA tensors in PyTorch" torch_cuda ''
part "CUDA tensors in expandable segments" torch_cuda expandable_segments:True
part "CUDA tensors of cudaMallocAsync()" torch_cuda backend:cudaMallocAsync
BRAID_BACKEND=tcp part "staging at 90 % of its slower part, over tcp" ranks 2 rate
if [[ $parts -eq 0 ]]; then
    echo "no part has '$BRAID_GPU_PARTS' in its name" >&2
    exit 2
fi
echo "$passed passed, $failed failed"
if [[ $failed -gt 0 ]]; then
    exit 1
fi
[[ $passed -gt 0 ]] || exit 77
