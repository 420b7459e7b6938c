/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Direct runs: fragments of collectives that never leave the GPU. NICs read what the sends say and
 * write what the receives say in its memory, its copy engines do the COPY steps and its kernels the
 * REDUCE steps.
 *
 * 1. A run is direct or staged (staging.h) as a whole, which is found out when it begins and stays
 *    so. Only where its bytes lie differs, so what is on the wire is the same, in the same order:
 *    each rank decides for itself, run by run.
 * 2. A run may be direct if
 *    - all buffers that the call has on this rank lie on one GPU, in regions of NICs (remote.h);
 *    - each message is with a peer all of whose rails lie on devices of that region (in a BCube the
 *      level link, while it is up), and is large enough to have a READY: what goes in one message
 *      the CPU copies. A piece that is empty is such a message;
 *    - there is room in the GPU's workspace (gpu/workspace.h) for the scratch, if the schedule has
 *      any;
 *    - kernels are open, if it has REDUCE steps: not so with BRAID_GPU_REDUCE=cpu.
 *    Else it is staged, without a word: that is what happens to small collectives, to peers of this
 * host, and to those in a BCube that only other hosts lead to. What a NIC or the driver refuses has
 * been said and counted when the GPU was opened or its memory registered.
 * 3. No choice by cost: staging crosses PCIe once up and once down, whatever combines, and a kernel
 *    reads what has come at the speed of the GPU's own memory.
 * 4. A RECV that has ended is flushed at once (gpu/direct.h, note 3): kernels, copies and other
 *    NICs read it next, and the program in the end. Rejected: one flush for all that a step reads,
 *    when it starts. It needs a list of what has not been flushed, to save microseconds a message,
 *    of messages that take tens of them.
 * 5. Steps are put into streams when all that they wait for has ended, as events tell (staging.h,
 *    note 4), so no stream waits for a NIC, and a GPU that hangs is found by the deadline.
 *    Rejected: kernels that wait in the stream for what a NIC writes (cuStreamWaitValue). It saves
 *    the time between an arrival and a launch, and a rank that dies would leave streams that
 *    nothing can end.
 * 6. A launch or a copy that is refused fails the worker, with the driver's message. Rejected: to
 *    go on with that step on the CPU, as staged ones do. It needs host memory for all sources, on
 *    the data path, for an error that mostly is the context's: none of the copies would go, either.
 * 7. When the worker has failed, its operations end after their links are closed, so no NIC writes
 *    any more, and after what is under way on the GPU (staging.h, note 6). Room in the workspace is
 *    given back only then.
 *
 * Everything here is the engine's, under its rules (engine.h).
 */
#ifndef BR_COLLECTIVES_ENGINE_GPU_PIPELINE_H
#define BR_COLLECTIVES_ENGINE_GPU_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct br_engine;
struct br_operation;
struct br_region;
struct br_fragment;
struct br_fragment_step;

/* Of a run. gpu 0: it is not direct. */
struct br_gpu_pipeline {
    int gpu;         /* as br_gpu_of() names it */
    uint8_t *memory; /* its scratch; NULL: the schedule has none */
    size_t bytes;
    struct br_region *region; /* that it lies in */
};

/* Note 2: may op's next fragment, with so many bytes of scratch, be direct? Then *direct has its
 * room, until br_gpu_pipeline_end(); else it is zeroed. */
void br_gpu_pipeline_begin(struct br_engine *engine, const struct br_operation *op, size_t scratch,
                           struct br_gpu_pipeline *direct);
void br_gpu_pipeline_end(struct br_engine *engine,
                         struct br_gpu_pipeline *direct); /* nothing, if it is not direct */

/* A REDUCE or COPY that may start: it is under way, and br_fragment_step_reduced() comes; or the
 * worker has failed. */
void br_gpu_pipeline_step(struct br_engine *engine, struct br_fragment_step *rs);
/* Note 4, of a receive that has ended. false: the worker has failed. */
bool br_gpu_pipeline_arrived(struct br_engine *engine, const struct br_fragment *fragment);

#endif
