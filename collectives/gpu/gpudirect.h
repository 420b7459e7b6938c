/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUDirect: which NICs reach the memory of which GPUs, and what goes that way. Each device is
 * checked when a GPU is opened, and is not given memory of a GPU that it cannot read and write. The
 * notes that are named here and in the .c file are those of doc/design/gpu_collectives.md,
 * "GPUDirect". A GPU is numbered as br_gpu_of() does.
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

/* Makes context->gpudirect. It stays NULL where no device takes memory of GPUs, there is no driver,
 * or BRAID_GPU_DIRECT=off. Returns 0, or -ENOMEM with a message. */
int br_gpudirect_create(struct br_context *context);
/* Frees context->gpudirect. */
void br_gpudirect_destroy(struct br_context *context);

/* Checks which devices reach a GPU that the copier has opened (note 1). Returns how many. Blocks;
 * not called under the context's lock. */
int br_gpudirect_open(struct br_context *context, int gpu);

/* Returns a region with memory[0..bytes) on that GPU, by which the frames of the operation can be
 * sent or received, and takes a reference to it; or NULL when the memory has to be staged. For
 * collectives see note 5. arrives: the NIC writes to the memory. Called under the context's lock.
 */
struct br_region *br_gpudirect_get_region(struct br_context *context, const struct br_operation *op,
                                          const void *memory, size_t bytes, int gpu, bool arrives);
/* The same for a get of a peer, or for a put whose bytes do not come with the request. peer: its
 * rank in the job. */
struct br_region *br_gpudirect_get_peer_region(struct br_context *context, int peer,
                                               const void *memory, size_t bytes, int gpu,
                                               bool arrives);
/* Gives the reference to a region back. Called under the context's lock. */
void br_gpudirect_put_region(struct br_context *context, struct br_region *region);

/* A function for br_worker_config: copies `bytes` between memory of a GPU and host memory, and
 * waits for that. opaque: the context. to_gpu: `to` is on the GPU; else `from` is. Returns 0, or a
 * negative errno with a message. Called under the context's lock. */
int br_gpudirect_copy(void *opaque, bool to_gpu, void *to, const void *from, uint32_t bytes);

/* Registers memory that peers may put to and get from with the NICs now, if that is possible, and
 * not at the first request. Called under the context's lock. */
void br_gpudirect_register(struct br_context *context, const void *memory, size_t bytes, int gpu);

/* Returns the scratch memory of note 5, for the engine. */
struct br_cuda_scratch br_gpudirect_scratch(struct br_context *context);

#endif
