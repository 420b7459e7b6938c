/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pipeline on the GPU: fragments of collectives that never leave it. NICs read and write its
 * memory, its copy engines do the COPY steps, its kernels the REDUCE steps. Each rank decides for
 * each fragment, when it begins, whether it goes this way or is staged (staging.h). The notes that
 * are named here and in the .c file are those of doc/design/gpu_collectives.md, "The pipeline on
 * the GPU".
 *
 * All functions belong to the engine and follow its rules (engine.h).
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
