/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a GPU that NICs can be told of beforehand: what collectives that stay on the GPU use as
 * scratch (collectives/engine/gpu_pipeline.h).
 *
 * 1. One allocation a GPU, made when it is opened: cuMemAlloc() may wait for all that the GPU does,
 *    and registering takes milliseconds.
 * 2. Room is taken in whole granules, the first that are free in a row, and given back in any
 *    order. Where there is none the caller goes another way. Rejected: room of each run's own, that
 *    grows as scratch in host memory does: it would be allocated and registered on the data path.
 *
 * take and put under the worker's lock; neither blocks nor allocates.
 */
#ifndef BR_GPU_WORKSPACE_H
#define BR_GPU_WORKSPACE_H

#include <stddef.h>

#define BR_WORKSPACE_BYTES   (64u << 20)
#define BR_WORKSPACE_GRANULE (256u << 10)

struct br_copier;
struct br_workspace;

/* Allocates the workspace of a GPU that the copier has open; the copier is borrowed until destroy.
 * Returns 0, or a negative errno with a message. */
int br_workspace_create(struct br_copier *copier, int gpu, struct br_workspace **out);
/* Frees a workspace of which nothing is taken and which no NIC knows. NULL allowed. */
void br_workspace_destroy(struct br_workspace *workspace);

/* Returns the whole memory: BR_WORKSPACE_BYTES. */
void *br_workspace_memory(const struct br_workspace *workspace);

/* Takes `bytes` >= 1 bytes; br_workspace_put() gives them back with the same number. NULL: there is
 * no room now. */
void *br_workspace_take(struct br_workspace *workspace, size_t bytes);
void br_workspace_put(struct br_workspace *workspace, void *memory, size_t bytes);

#endif
