/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUDirect: which NICs reach the memory of which GPUs, and what goes that way. Each device is
 * tried when a GPU is opened, and never given memory of a GPU that it could not move. The notes
 * that are named here and in the .c file are those of doc/design/gpu_collectives.md, "GPUDirect".
 */
#ifndef BR_COLLECTIVES_GPU_GPUDIRECT_H
#define BR_COLLECTIVES_GPU_GPUDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct br_cuda_scratch;
struct br_context;
struct br_operation;
struct br_gpudirect;
struct br_region;

/* context->reach; NULL stays where no device takes GPUs' memory, there is no driver, or
 * BRAID_GPU_DIRECT=off. -ENOMEM with a message. */
int br_gpudirect_create(struct br_context *context);
void br_gpudirect_destroy(struct br_context *context);

/* Note 1, of a GPU that the copier has opened. How many devices reach it. Blocks; not under the
 * lock. */
int br_gpudirect_open(struct br_context *context, int gpu);

/* Under the lock. A region of memory on that GPU by which all of the operation's frames can go, but
 * of a collective (note 5), and a reference to it; NULL: it is staged. arrives: the NIC is to write
 * there. */
struct br_region *br_gpudirect_get_region(struct br_context *context, const struct br_operation *op,
                                          const void *memory, size_t bytes, int gpu, bool arrives);
/* The same for a peer's put, of bytes that go by themselves, or get. */
struct br_region *br_gpudirect_get_peer_region(struct br_context *context, int peer,
                                               const void *memory, size_t bytes, int gpu,
                                               bool arrives);
void br_gpudirect_put_region(struct br_context *context, struct br_region *region);

/* For br_worker_config, whose context is the context. Under the lock. */
int br_gpudirect_copy(void *opaque, bool to_gpu, void *to, const void *from, uint32_t bytes);

/* Under the lock. Memory that peers may be served from is made known to the NICs now, if it can be:
 * not at their first request. */
void br_gpudirect_register(struct br_context *context, const void *memory, size_t bytes, int gpu);

/* Of note 5, for the engine. */
struct br_cuda_scratch br_gpudirect_scratch(struct br_context *context);

#endif
