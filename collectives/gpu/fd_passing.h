/* SPDX-License-Identifier: BSD-3-Clause */
/* File descriptors of GPU memory (gpu/extent.h), passed to the other ranks of a shared segment over
 * the links between them before those ranks map the memory. All functions are called under the
 * context's lock and do not block. Notes and rejected designs: doc/design/gpu_collectives.md,
 * "Passing descriptors". */
#ifndef BR_COLLECTIVES_GPU_FD_PASSING_H
#define BR_COLLECTIVES_GPU_FD_PASSING_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/ipc.h"

#define BR_FD_PASSING_AT_ONCE 8u

struct br_context;
struct br_shm_executor;

/* Returns whether the descriptor of one of extents[0..n), which belong to this rank, still has to
 * be sent to another rank of the shared segment. */
bool br_fd_passing_needed(const struct br_context *context, const struct br_shm_executor *shm,
                          const struct br_extent *extents, uint32_t n);

/* Sends descriptors of extents[0..n), which are on that GPU, to the ranks that do not have them, as
 * many as can be sent now. Returns 0, or a negative errno with a message. */
int br_fd_passing_send(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                       const struct br_extent *extents, uint32_t n);

/* Takes the descriptors of extents[0..n) that rank r of the shared segment, to which they belong,
 * has sent, for use by that GPU. All that have arrived are taken, also after an error. Returns 0,
 * or the first error, a negative errno with a message. */
int br_fd_passing_receive(struct br_context *context, const struct br_shm_executor *shm, int gpu,
                          uint32_t r, const struct br_extent *extents, uint32_t n);

#endif
