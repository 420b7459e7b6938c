#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# What `./dev test --gpu` runs next to an RDMA NIC, on soft-RoCE and the fake driver: two ranks on one device, as there.
set -euo pipefail
if [[ ! -s $BRAID_BUILD/gpu/reduce.fatbin ]]; then
    echo "this build has no kernels for GPUs"
    exit 77
fi
export BRAID_CUDA_LIBRARY=$BRAID_FAKE_CUDA FAKE_CUDA=peer_memory BRAID_BACKEND=verbs BRAID_DEVICES=h0r0 BRAID_GPU_REDUCE=gpu
said=$(timeout 200 "$BRAID_BUILD/braid" run -n 2 --no-prefix -- "$BRAID_BUILD/bench/gpu_allreduce" direct)
echo "$said"
grep -q 'all-reduces of 12 types by 2 ranks are right, and NICs moved every byte' <<< "$said"
