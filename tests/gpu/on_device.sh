#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What can be shown on a real GPU only: `./dev test --gpu` runs it. One line for each part: passed, failed, or could not run and why.
# Exit 1 when a part failed; 77 when none could run.
set -uo pipefail
bench=$BRAID_BUILD/bench/gpu_reduce
passed=0
failed=0

# part NAME COMMAND...: exit status 77 means that it could not run, for the reason that it printed last.
part() {
    local name=$1 output rc
    shift
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

part "kernels give the CPU's results" "$bench" --check
part "kernels under compute-sanitizer" sanitized @ "$bench" --check
part "all-reduce by 2 processes under compute-sanitizer" sanitized_ranks
part "kernels at 85 % of the copy bandwidth" "$bench"
for n in 2 4; do
    part "$n processes all-reduce memory of GPUs" ranks "$n" check
    BRAID_GPU_REDUCE=gpu part "$n processes, values combined by the kernels" ranks "$n" check
done
part "4 processes of two hosts all-reduce memory of GPUs" two_hosts
for backend in shm uring; do
    BRAID_BACKEND=$backend part "order in a stream, over $backend" ranks 2 stream
done
BRAID_BACKEND=uring part "staging at 90 % of its slower part, over uring" ranks 2 rate
echo "$passed passed, $failed failed"
if [[ $failed -gt 0 ]]; then
    exit 1
fi
[[ $passed -gt 0 ]] || exit 77
