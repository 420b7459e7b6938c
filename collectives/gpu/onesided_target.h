/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of GPUs that other ranks put to and get from: where their bytes go
 * (protocol/target.h).
 *
 * 1. Where all NICs that lead to the peer reach the GPU (gpudirect.h), they read and write its
 *    memory. What they have written is flushed before this rank's worker answers the put, which it
 *    does in any case: so no peer has to know where the memory lies, and none can report bytes to
 *    the target's program that the GPU would not read. Elsewhere the bytes are staged
 *    (staging_target.c).
 * 2. That is decided for each request. Bytes that come with a request are copied by the CPU, so
 * they are staged.
 * 3. It is the same for peers of the same host: they are given no address of the memory, and do not
 *    read and write registered memory themselves.
 * 4. The program's own operations find such memory by its address (gpu/pointer.h), registered or
 *    not.
 *
 * Others promise less. UCX puts to memory of GPUs where the NIC reaches it; what its worker has to
 * write there it copies by the CPU, which faults (1.15; github.com/openucx/ucx, issue 9533).
 * libfabric leaves it to each provider (FI_HMEM).
 */
#ifndef BR_COLLECTIVES_GPU_ONESIDED_TARGET_H
#define BR_COLLECTIVES_GPU_ONESIDED_TARGET_H

#include "protocol/target.h"

struct br_context;

/* The hooks for br_worker_config; the context they get is a struct br_context. They are called
 * under the context's lock. */
extern const struct br_target_hooks br_target_hooks;

#endif
