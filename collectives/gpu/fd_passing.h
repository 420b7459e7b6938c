/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of GPUs' memory (gpu/extent.h), handed to the other ranks of a shared segment before
 * these map it (gpu_local.h, note 17).
 *
 * 1. They go over the links between the ranks, AF_UNIX sockets that pass descriptors
 *    (transport/shm/shm.h): no other socket is needed, no permission but that of one user, and
 *    namespaces of processes make no difference. Rejected: pidfd_getfd(), which needs the right to
 *    trace the other process: Yama (ptrace_scope) forbids it between siblings, and Docker's default
 *    seccomp profile did for years. Rejected: /proc/PID/fd, which needs one namespace of processes,
 *    and does not open what is no file.
 * 2. An end of a link holds BR_SHM_FDS that nobody has taken, and one more would fail it. So a rank
 *    sends at most BR_FD_PASSING_AT_ONCE to each other rank before a round of the shared segment,
 *    and who has seen all publish that round takes them. Two rounds of these may be on the way at a
 *    time, and only one communicator of a process hands over at a time (br_gpu_local).
 */
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
