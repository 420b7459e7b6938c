/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which NICs reach which GPUs' memory, and what goes that way: messages, puts, gets and collectives
 * whose memory on this rank lies on a GPU, be it the one that asks or the one that is asked.
 *
 * 1. Tried, not believed: when a GPU is opened, each device whose back end takes GPUs' memory moves
 *    a pattern there and back (gpu_trial.h). One that cannot is named in the log with the reason,
 *    counted (downgrade_gpu_direct), and never given that GPU's memory.
 * 2. A transfer's frames leave and arrive over any rail of its peer, so it goes this way where all
 *    of them lie on devices that reach the GPU. In a BCube a rail may be lost then, and what is
 *    left goes by other hosts: at both ends of the route copies of the GPU's stand in for the NIC
 *    (br_gpudirect_copy). What begins without a direct rail is staged.
 * 3. Each rank decides for itself: slots are all that the other one sees.
 * 4. What goes in one message (BRAID_EAGER_BYTES) is staged: the CPU copies it. What a get brings
 *    never does (onesided.c).
 * 5. A collective has regions of its memory where any rank goes this way: which ones are its peers
 *    its schedule says, later. Each fragment then is direct or staged (gpu_pipeline.h). Their
 *    scratch lies in a workspace that NICs are told of when the GPU is opened.
 * 6. What a NIC has written is flushed, where the GPU needs it, before the operation ends, and
 *    before the GPU reads it (gpu/direct.h, note 3). A GPU that can neither promise order nor flush
 *    is only read.
 * 7. Nothing is registered while an operation of this process stands in a stream: setting
 *    CU_POINTER_ATTRIBUTE_SYNC_MEMOPS may wait for work that waits for it (gpu/stream_op.h, note
 *    7). That use is staged.
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
