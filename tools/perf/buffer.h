/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A buffer of a test: braid_alloc()'s, or with --use_cuda memory of a GPU with a copy of it in host
 * memory, which this side fills and looks at.
 */
#ifndef BR_TOOLS_PERF_BUFFER_H
#define BR_TOOLS_PERF_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <braid/braid.h>

struct br_buffer {
    uint8_t *memory; /* what operations are given */
    uint8_t *host;   /* what this side writes and reads; the same, but for a GPU's */
    int gpu;         /* its ordinal; -1: host memory */
};

/* Whether there is such a GPU, with a message of --use_cuda: -ENOENT, -ENOSYS, -EIO: no driver or
 * none that works; -ENODEV. Blocks: its context is made. */
int br_buffer_check_gpu(int gpu);

/* gpu -1: host memory, which the communicator frees. -ENOMEM and the driver's errors, with a
 * message. Zeroed on failure. */
int br_buffer_get(struct br_buffer *buffer, struct braid_comm *comm, size_t bytes, int gpu);
/* When the communicator is gone: nothing copies any more. */
void br_buffer_put(struct br_buffer *buffer);

/* Between `host` and `memory`; nothing where they are one. Wait. The driver's errors, with a
 * message. */
int br_buffer_to_gpu(const struct br_buffer *buffer, size_t bytes);
int br_buffer_from_gpu(const struct br_buffer *buffer, size_t bytes);

#endif
