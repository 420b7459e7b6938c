/* SPDX-License-Identifier: BSD-3-Clause */
/* File descriptors of GPU memory (gpu/extent.h), passed to the other ranks of a shared segment over
 * the links between them before those ranks map the memory. Notes and rejected designs:
 * doc/design/gpu_collectives.md, "Passing descriptors". */
#ifndef BR_COLLECTIVES_GPU_FD_PASSING_H
#define BR_COLLECTIVES_GPU_FD_PASSING_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ipc.h"

#define BR_FD_PASSING_AT_ONCE 8u

struct br_context;
struct br_shm_executor;

/* Does another rank of the shared segment lack the descriptor of one of these extents, which are
 * ours? */
bool br_fd_passing_needed(const struct br_context *context, const struct br_shm_executor *shm,
                          const struct br_extent *extents, uint32_t n);

/* Sends what they lack, some of it. gpu: where it lies. Negative errno with a message. Never
 * blocks. */
int br_fd_passing_send(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                       const struct br_extent *extents, uint32_t n);

/* Takes what rank r of the shared segment has sent of these extents, which are its own, for this
 * GPU. Negative errno with a message; all is taken in any case. */
int br_fd_passing_receive(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                          uint32_t r, const struct br_extent *extents, uint32_t n);

#endif
