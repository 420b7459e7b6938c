/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: runs operations. It turns a collective into a schedule, the schedule into fragments,
 * and these into transfers of the worker and local work; messages and one-sided accesses it turns
 * into transfers.
 *
 * Like the worker it reads no clock, takes no lock and knows no thread. All functions are called
 * under the lock of the worker, and none blocks. Memory is allocated only when an operation is
 * larger than all before it (br_engine_late_allocations()).
 */
#ifndef BR_COLLECTIVES_ENGINE_ENGINE_H
#define BR_COLLECTIVES_ENGINE_ENGINE_H

#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "protocol/worker.h"

/* 0 stands for the default in brackets. Fields marked * must be the same on all ranks. */
struct br_engine_config {
    int rank, size; /* of the job */
    /* fragments that run at once, over all operations [64]; at least 2 */
    uint32_t max_fragments;
    /* how many of these may be large and at least as urgent as the next to start, unless paths are
     * long (admission.c, note 1) [3; 9 where a peer
     * has several rails; else 4 for an all-reduce of BR_CUBE_FRAGMENTS fragments in a BCube] */
    uint32_t window;
    /* * a large buffer is cut into chunks of about this size [512 KiB] */
    uint32_t chunk_bytes;
    uint32_t quantum_bytes; /* local work until more urgent work is looked for [256 KiB] */
    /* what ranks copy into larger buffers goes past the caches (br_copy_uncached()) [SIZE_MAX] */
    size_t cache_share;
    /* * of the group of all ranks; n_levels 0: the defaults for one host */
    struct br_cost_model model;
    /* allocates scratch that back ends have registered: 0, or -ENOMEM with a message. NULL: plain
     * memory */
    int (*scratch_alloc)(void *context, size_t bytes, void **memory, struct br_region **region);
    void (*scratch_free)(void *context, void *memory, struct br_region *region);
    void *scratch_context;
    /* for operations on memory of GPUs; NULL: there are none. Borrowed */
    struct br_gpu_memory *gpu_memory;
    /* reductions and copies are left out: the bytes have no meaning, only the times have
     * (br_sim_config.hollow) */
    bool hollow;
    /* where operations are put that have ended, which are their owner's again. Borrowed */
    struct br_list *ended;
};

struct br_gpu_memory;
struct br_engine;

/* Creates an engine on a worker, which is borrowed. Returns 0, or -ENOMEM or -EINVAL with a
 * message.
 */
int br_engine_create(struct br_worker *worker, const struct br_engine_config *config,
                     struct br_engine **engine);

/* Destroys it. Operations that have not been taken back are forgotten, so the worker must have
 * failed or be gone. NULL is allowed. */
void br_engine_destroy(struct br_engine *engine);

/* The group of all ranks, which belongs to the engine. Other groups belong to those who created
 * them; no operation may be under way when one is destroyed. */
struct br_group *br_engine_all(struct br_engine *engine);

/*
 * Submits an operation whose first block is filled in, with arguments that have been checked
 * (comm/api.c). Nothing has been sent when it returns 0.
 * Otherwise the operation stays the caller's, and the result is a negative errno with a message:
 * -EINVAL and -E2BIG are errors of the arguments, which all ranks find alike, and the communicator
 * goes on; -ENOMEM fails the worker, since the other ranks count on this one; a worker that has
 * failed refuses with -ECANCELED.
 */
int br_engine_submit(struct br_engine *engine, struct br_operation *operation, uint64_t now);

/*
 * A small message to another rank of a group that maps memory of ours, or to which one rail of a
 * network leads, leaves at once: there is no operation. memory: of the host. Returns false when
 * that is not possible now, and nothing has happened. The first message of a peer, tag and
 * direction never goes so, nor one while something else waits that it must not overtake
 * (doc/design/receives.md). Over a network this may be a cancellation point.
 */
bool br_engine_send_at_once(struct br_engine *engine, struct br_group *group, int peer,
                            uint32_t tag, const void *memory, size_t bytes, int32_t priority);

/* A small put that needs no operation, as br_worker_put(). If it is not in the worker's
 * `puts.ended` when its caller takes it back (br_worker_put_forget()), it goes on as an operation
 * that is `awaited`, with `claim` its tag. */
bool br_engine_put(struct br_engine *engine, struct br_small_put *put, const void *memory,
                   uint64_t order, uint64_t now);

/* Does nothing wait to leave to such a rank, but credits for the next message? */
bool br_engine_lacks_credit(const struct br_engine *engine, const struct br_group *group, int peer);

/* The same for a receive. If its message is not here and it `waits`, it takes the number, and the
 * worker puts the message in its place when it comes: BR_RECEIVED_LATER. awaited: the caller's, who
 * has set `ended`, until it calls br_engine_awaited(), which returns whether the message has come.
 * If not, *number is what a receive of it goes on with (br_operation.awaited). */
enum br_received br_engine_receive(struct br_engine *engine, struct br_group *group, int peer,
                                   uint32_t tag, void *memory, size_t bytes, bool waits,
                                   struct br_awaited *awaited, uint64_t *number);
bool br_engine_awaited(struct br_group *group, struct br_awaited *awaited);

/*
 * The message that a receive of these, behind all that wait, would get now, in a group (NULL: all
 * ranks): peer, a rank of it or BRAID_ANY_SOURCE; tag, of which the bits in `ignore` may be any.
 * claim: no other receive gets it from now on, and received->message is its number for
 * br_operation.claim. Returns 1, and *received says what it is; 0: none is here, and room is made
 * for it as for a receive that waits; or a negative errno with a message.
 */
int br_engine_probe(struct br_engine *engine, struct br_group *group, int peer, uint32_t tag,
                    uint32_t ignore, bool claim, struct braid_received *received);
/* The oldest notification of a group (NULL: all ranks) that its program has not taken is taken out:
 * true, and *notification has its value and the rank of the group that sent it. */
bool br_engine_notified(struct br_engine *engine, struct br_group *group,
                        struct braid_notification *notification);
/* How many have come so far, of all groups. */
uint64_t br_engine_notifications(const struct br_engine *engine);
/* A group is about to be destroyed: forgets what is known of its messages. */
void br_engine_forget_group(struct br_engine *engine, const struct br_group *group);

/* Plans a persistent operation whose first block is filled in, and reserves memory for the
 * fragments of it that run at once, in addition to all other reservations. Returns 0, or a negative
 * errno with a message: -EINVAL, -E2BIG (arguments, alike on all ranks), -ENOMEM. */
int br_engine_reserve(struct br_engine *engine, struct br_operation *operation);
/* Gives up the reservation; nothing without one. */
void br_engine_unreserve(struct br_engine *engine, const struct br_operation *operation);

/*
 * One pass: posts what is ready to be sent, takes what has arrived, starts steps whose dependencies
 * have ended, reduces and copies at most a quantum, and fails the worker when a deadline has
 * passed. Returns how much was done; 0: nothing. When the worker has failed, all operations end,
 * but only after every link is closed.
 *
 * Sends are posted before the devices are polled, because polling in vain takes as long as a small
 * send and the other end waits. A back end may send at its next poll, so a poll follows whenever
 * something was posted. Deadlines are checked last: a rank that was not scheduled for a while first
 * finds what has arrived meanwhile.
 */
int br_engine_progress(struct br_engine *engine, uint64_t now);

/* The part of a pass that needs no device: starts what may start, for which small messages may
 * leave and messages that are here may end, and does at most a quantum of local work. Returns as
 * br_engine_progress(). */
int br_engine_start(struct br_engine *engine, uint64_t now);

/* Is there anything to do that waits neither for an event of a device nor for a time? */
bool br_engine_is_due(const struct br_engine *engine);

/* Of the messages and accesses to other ranks that are under way: was a put, get or atomic the last
 * one to be submitted? */
bool br_engine_follows_access(const struct br_engine *engine);

/* The next topology epoch of a group, group->epoch + 1, is known: the same on all its ranks, though
 * not at the same time. Operations that have waited for it begin. trees: borrowed until the group
 * is destroyed. */
void br_engine_set_epoch(struct br_engine *engine, struct br_group *group,
                         const struct br_disjoint_trees *trees);

/* Tells the engine the order of the oldest operation that is submitted but still with an executor
 * before the engine (UINT64_MAX: there is none). The fragment that is kept for the oldest operation
 * is then kept for that one (doc/design/engine.md). */
void br_engine_set_oldest(struct br_engine *engine, uint64_t order);

/* Writes the failure of the worker into an operation that ends with it: status and message. */
void br_operation_fail(const struct br_engine *engine, struct br_operation *op);

/* Writes what the operation is, "all-reduce of 16 int32 (operation 3)", and returns the length. */
size_t br_operation_describe(const struct br_operation *op, char *text, size_t bytes);

/* A time before which no deadline passes, ns; UINT64_MAX: there is no deadline. */
uint64_t br_engine_next_deadline(const struct br_engine *engine);

/* How many allocations were made because an operation was larger than all before it: by the engine,
 * and for one group. */
uint64_t br_engine_late_allocations(const struct br_engine *engine, const struct br_group *group);

/* The name of the algorithm that this collective would be run with; NULL with a message: there is
 * none. */
const char *br_engine_algorithm(struct br_engine *engine, const struct br_operation *operation);

#endif
