/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of GPUs that other ranks put to and get from: where their bytes go
 * (protocol/target.h).
 *
 * 1. All NICs that lead to the peer reach the GPU (remote.h): from there and to there. What they
 *    have written is flushed before the put is answered, by this rank's worker, which sends that
 *    answer in any case: so no peer has to know where the memory lies, and none can tell the
 *    target's program of bytes that the GPU would not read. Else it is staged (staging_target.c).
 * 2. Each request finds that for itself. What travels with a request the CPU copies: it is staged.
 * 3. Peers of the same host get at it so, too: they are given none of its addresses, and read and
 *    write no registered memory themselves.
 * 4. The program's own operations find such memory by its address (gpu/pointer.h), registered or
 *    not.
 *
 * Others promise less. UCX puts to memory of GPUs where the NIC reaches it; what its worker has to
 * place there it copies by the CPU, which faults (1.15; github.com/openucx/ucx, issue 9533).
 * libfabric leaves it to each provider (FI_HMEM).
 */
#ifndef BR_COLLECTIVES_GPU_ONESIDED_TARGET_H
#define BR_COLLECTIVES_GPU_ONESIDED_TARGET_H

#include "protocol/target.h"

struct br_context;

/* For br_worker_config, whose context is the context. Under the lock. */
extern const struct br_target_hooks br_target_hooks;

#endif
