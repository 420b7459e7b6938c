#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# `braid info` says the same as text and as JSON, and what it calls usable is there.
set -euo pipefail
braid=$BRAID_BUILD/braid
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() {
    echo "FAILED: $*"
    cat "$scratch/text" "$scratch/json" 2> /dev/null || true
    exit 1
}

"$braid" info > "$scratch/text" || fail "exit code $?"
"$braid" info --json > "$scratch/json" || fail "exit code $?"
for word in 'Back ends' '  shm ' '  tcp    lo ' Algorithms '  ring ' 'locked memory' RDMA dpdk GPUs Bindings python torch; do
    grep -q -- "$word" "$scratch/text" || fail "no '$word' in the text"
done
BRAID_PMIX_MODULE=/nonexistent "$braid" info > "$scratch/text" || fail "exit code $?"
for word in '  pmix ' libpmix2; do
    grep -q -- "$word" "$scratch/text" || fail "no '$word' in the text"
done
if "$braid" info --nonsense > "$scratch/out" 2>&1; then
    fail "an unknown option was accepted"
fi
if command -v jq > /dev/null; then
    jq -e '.backends[] | select(.name == "tcp") | .devices[] | select(.name == "lo") | .usable' "$scratch/json" \
        > "$scratch/out" || fail "JSON: tcp over lo"
    jq -e '(.algorithms | map(select(.name == "ring")) | .[0].collectives | index("allreduce")) != null' "$scratch/json" \
        > "$scratch/out" || fail "JSON: ring serves allreduce"
    jq -e '.machine.cores >= 1 and .machine.numa_nodes >= 1 and .machine.reduction_kernels != "" and
        (.machine.gpu_reduction_kernels | test("PTX|nvcc"))' "$scratch/json" \
        > "$scratch/out" || fail "JSON: machine"
    # An interface that is down is named with the command that remedies it.
    jq -e '[.backends[].devices[] | select(.usable | not) | .why_not != ""] | all' "$scratch/json" > "$scratch/out" ||
        fail "JSON: why not"
    # RDMA: what is not usable says why; a host without any says so and what would give it some.
    jq -e '[.rdma.ports[] | select(.usable | not) | .what != ""] | all' "$scratch/json" > "$scratch/out" || fail "JSON: RDMA port"
    jq -e '(.rdma.ports | length) > 0 or (.rdma.diagnoses | length) > 0' "$scratch/json" > "$scratch/out" || fail "JSON: no RDMA"
fi
# The place of a rank in a BCube.
RANK=4 WORLD_SIZE=9 MASTER_ADDR=127.0.0.1 MASTER_PORT=7777 BRAID_SECRET=0123456789abcdef BRAID_TOPOLOGY=bcube:3,2 BRAID_DEVICES=lo,lo \
    "$braid" info > "$scratch/text" || fail "exit code $?"
grep -qF 'BCube(3,2), 9 ranks; rank 4 is host [1,1]' "$scratch/text" || fail "no place in the cube"
grep -qE 'level 1 +lo .*port 1 of switch <1,1>; neighbours: 1, 7$' "$scratch/text" || fail "no level 1"
BRAID_TOPOLOGY=ring "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'BRAID_TOPOLOGY.*"ring"' "$scratch/text" || fail "a wrong BRAID_TOPOLOGY is not shown"
BRAID_GID_INDEX=nonsense "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'BRAID_GID_INDEX.*nonsense' "$scratch/text" || fail "a wrong BRAID_GID_INDEX is not shown"
# Who has started it.
"$braid" info > "$scratch/text" || fail "exit code $?"
grep -q "^  none: rank 0 of 1" "$scratch/text" || fail "a launcher where there is none"
BRAID_WORKERS=2 BRAID_DEVICES=lo,lo,lo "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q "^  threads  *2 of 3 devices" "$scratch/text" || fail "no word of the threads of devices"
launcher() { # WORDS VARIABLE=VALUE...
    env "${@:2}" "$braid" info > "$scratch/text" || fail "exit code $?"
    sed -n '/^Launcher$/,/^$/p' "$scratch/text" | grep -q -- "$1" || fail "not shown with ${*:2}: $1"
}
job=(RANK=1 WORLD_SIZE=3 MASTER_ADDR=10.0.0.1 MASTER_PORT=7777)
launcher 'env, by WORLD_SIZE: rank 1 of 3' "${job[@]}"
launcher 'rank 0 is at 10.0.0.1 port 7777' "${job[@]}"
step=(SLURM_STEP_ID=0 SLURM_JOB_ID=5 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_NODEID=1
    'SLURM_STEP_TASKS_PER_NODE=2(x2)' 'SLURM_STEP_NODELIST=node[1-2]')
launcher 'slurm, by SLURM_STEP_ID: rank 2 of 4; of this host 0 of 2' "${step[@]}"
launcher 'rank 0 is at node1 port' "${step[@]}"
launcher 'also there: slurm' "${step[@]}" "${job[@]}"
launcher 'SLURM_PROCID=4' "${step[@]}" SLURM_PROCID=4
launcher 'pmi1, by PMI_FD: rank 0 of 2' PMI_FD=9 PMI_RANK=0 PMI_SIZE=2
launcher 'the launcher carries' PMI_FD=9 PMI_RANK=0 PMI_SIZE=2
launcher 'BRAID_LAUNCHER=mpirun' BRAID_LAUNCHER=mpirun
# Other variables that a job would refuse.
shown() { # WORDS VARIABLE=VALUE...
    env "${@:2}" "$braid" info > "$scratch/text" || fail "exit code $?"
    grep -q -- "$1" "$scratch/text" || fail "not shown with ${*:2}: $1"
}
shown 'BRAID_SPIN_US=soon is not' BRAID_SPIN_US=soon
shown 'BRAID_BACKEND is "ib"; it must be' BRAID_BACKEND=ib
shown 'BRAID_DEVICES: no network interface nowhere9' BRAID_DEVICES=lo,nowhere9
shown 'BRAID_DEVICES: no network interface nowhere9' BRAID_DEVICES=nowhere9 BRAID_BACKEND=udp
shown 'BRAID_DEVICES: 192.0.2.77 is no address of this host' BRAID_DEVICES=192.0.2.77
shown 'BRAID_CALIBRATION: calibration /no/file: No such file' BRAID_CALIBRATION=/no/file
shown 'BRAID_TRACE=/tmp is a folder; name a file in it' BRAID_TRACE=/tmp
shown 'BRAID_TRACE: cannot write /no/folder/a.json: No such file' BRAID_TRACE=/no/folder/a.json
shown '^Algorithms$' BRAID_DEVICES=lo BRAID_BACKEND=tcp "BRAID_TRACE=$scratch/trace.json"
grep -q '^Settings$' "$scratch/text" && fail "faults of settings that are right"
[[ ! -e $scratch/trace.json ]] || fail "braid info leaves a file behind"
[[ $("$braid" --version) == "$("$braid" version)" ]] || fail "--version"

# A host without the libraries learns how to get them.
library=$(ldconfig -p 2> /dev/null | sed -n 's/.*libibverbs\.so\.1 .*=> //p' | head -n 1)
if [[ -n $library ]] && unshare -m true 2> /dev/null; then
    # shellcheck disable=SC2016 # for the inner shell
    unshare -m sh -c 'mount --bind /dev/null "$1" && exec "$2" info' sh "$(readlink -f "$library")" "$braid" > "$scratch/text" ||
        fail "exit code $? without libibverbs"
    grep -q 'libibverbs.*loaded' "$scratch/text" || fail "a lacking libibverbs is not shown"
    grep -q 'apt-get install rdma-core' "$scratch/text" || fail "how to get libibverbs is not shown"
fi
# GPUs: why there are none; and what a driver says.
BRAID_CUDA_LIBRARY=/nowhere.so "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'CUDA driver.*apt-get install' "$scratch/text" || fail "a lacking CUDA driver is not shown"
BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=devices=2 "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q '  1   fake GPU 1, .*sm_90' "$scratch/text" || fail "a GPU is not shown"
grep -q 'staged.*dma-buf: yes' "$scratch/text" || fail "the path of a GPU's memory is not shown"
grep -q 'shared.*processes.*: yes' "$scratch/text" || fail "it is not said that a GPU's memory is shared"
FAKE_CUDA=no_ipc BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA "$BRAID_BUILD/braid" info 2> /dev/null |
    grep -q 'IPC.*CUDA_ERROR_NOT_SUPPORTED' || fail "it is not said why a GPU's memory is not shared"
grep -q ' NICs: hwloc sees no PCI device fa0e:01:00.0\| NICs: this build has no hwloc: apt-get install' "$scratch/text" ||
    fail "why no distance is known is not shown"
if ! grep -q 'no hwloc' "$scratch/text"; then
    HWLOC_XMLFILE=$BRAID_SOURCE/tests/tools/info/two_sockets.xml BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=devices=2 \
        "$braid" info > "$scratch/text" || fail "exit code $?"
    grep -q ' NICs: ib0 mlx5_0 (same PCIe switch), eth0 (same host bridge),' "$scratch/text" ||
        fail "the distances of the NICs are not shown"
fi
BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=no_dmabuf,fail=cuStreamSynchronize:719 "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'dma-buf: .*none' "$scratch/text" || fail "a lacking dma-buf is not shown"
grep -q 'not usable.*GPU 0.*CUDA_ERROR_LAUNCH_FAILED' "$scratch/text" || fail "a failing trial is not shown"
BRAID_SIMD=nonsense "$braid" info > "$scratch/text" || fail "exit code $?"
grep -q 'reductions .*nonsense' "$scratch/text" || fail "a wrong BRAID_SIMD is not shown"
