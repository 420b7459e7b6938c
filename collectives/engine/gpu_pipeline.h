/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline on the GPU: fragments of collectives that never leave it. NICs read and write its
 * memory, its copy engines do the COPY steps, its kernels the REDUCE steps. Each rank decides for
 * each fragment, when it begins, whether it goes this way or is staged (staging.h). The notes that
 * are named here and in the .c file are those of doc/design/gpu_collectives.md, "The pipeline on
 * the GPU".
 *
 * All functions belong to the engine and follow its rules (engine.h): they are called under the
 * worker's lock and do not block.
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

/* What a fragment has of the pipeline. */
struct br_gpu_pipeline {
    int gpu;                  /* As br_gpu_of() numbers it; 0 when the fragment is staged. */
    uint8_t *memory;          /* Scratch memory on the GPU; NULL when the schedule needs none. */
    size_t bytes;             /* Bytes of scratch memory that the fragment needs. */
    struct br_region *region; /* The region that `memory` lies in. */
};

/* Decides whether op's next fragment, which needs `scratch` bytes of scratch memory, stays on the
 * GPU (note 2). If so, direct->gpu is set and *direct has the memory until br_gpu_pipeline_end();
 * else direct->gpu is 0. */
void br_gpu_pipeline_begin(struct br_engine *engine, const struct br_operation *op, size_t scratch,
                           struct br_gpu_pipeline *direct);
/* Gives the scratch memory back; *direct is all zero afterwards. */
void br_gpu_pipeline_end(struct br_engine *engine, struct br_gpu_pipeline *direct);

/* Starts a REDUCE or COPY step whose sources are there; br_fragment_step_reduced() is called when
 * it is done. When it cannot be started, the worker fails. */
void br_gpu_pipeline_step(struct br_engine *engine, struct br_fragment_step *rs);
/* Called when a receive has ended: makes the GPU read what the NIC has written (note 4). Returns
 * false when the worker has failed. */
bool br_gpu_pipeline_arrived(struct br_engine *engine, const struct br_fragment *fragment);

#endif
