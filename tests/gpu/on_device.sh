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

sanitized() {
    local tool
    tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    if [[ ! -x $tool ]]; then
        echo "compute-sanitizer is not installed (apt-get install cuda-sanitizer-13-0)"
        return 77
    fi
    "$bench" --check > /dev/null 2>&1 || { "$bench" --check; return $?; }
    "$tool" --error-exitcode 1 "$bench" --check
}

# ranks N MODE [MIB]: as many processes, on one GPU unless there are more. What falls short of the goal (3) has failed, too.
ranks() {
    local n=$1
    shift
    timeout 300 "$BRAID_BUILD/braid" run -n "$n" --no-prefix -- "$BRAID_BUILD/bench/gpu_allreduce" "$@"
}

part "kernels give the CPU's results" "$bench" --check
part "kernels under compute-sanitizer" sanitized
part "kernels at 85 % of the copy bandwidth" "$bench"
for n in 2 4; do
    part "$n processes all-reduce memory of GPUs" ranks "$n" check
    BRAID_GPU_REDUCE=gpu part "$n processes, values combined by the kernels" ranks "$n" check
done
for backend in shm uring; do
    BRAID_BACKEND=$backend part "order in a stream, over $backend" ranks 2 stream
done
BRAID_BACKEND=uring part "staging at 90 % of its slower part, over uring" ranks 2 rate
echo "$passed passed, $failed failed"
if [[ $failed -gt 0 ]]; then
    exit 1
fi
[[ $passed -gt 0 ]] || exit 77
