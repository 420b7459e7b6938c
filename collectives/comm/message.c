/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages within the call. A small message to a rank of this host is written into its inbox, and
 * one that is here is copied out, by the calling thread. There is no operation, no transfer and no
 * pass of the progress loop. A receive whose message is not here is posted without an operation
 * (posted.c); one that blocks looks for it for a while (br_progress_await()): where two ranks talk
 * to each other it comes soon. It goes from the inbox to its place. A small message over a network
 * that one rail leads to is handed to its device in the call as well; there, no receive is
 * shortened.
 *
 * 1. Nothing is overtaken. One that is sent takes the next number of its tag, as any other does,
 *    and leaves only if nothing else waits to leave to that rank: then it would be the next one.
 *    One that is received has the number that this receive takes, and no receive waits that does
 *    not know its message yet. The calls of a thread that are in the submission ring go first.
 * 2. What does not qualify goes to the engine as ever: also the first message of a tag, whose
 *    counter may have to be allocated, and whatever comes while another thread has the lock.
 * 3. A program may do nothing but send: a look at the clock every few messages, and a pass when
 *    the last one was long ago (br_progress_leave()). If a buffer that is given back makes an ACK
 *    due, the pass is made at once: the sender may wait for its credits.
 * 4. Deadlines, priorities and the timeline are for what takes time. With a timeline messages go to
 *    the engine; a priority orders what waits, but the rails of a network are shared where messages
 *    of several priorities leave, also these (doc/design/rails.md, section 7).
 * 5. A receive that waits takes its number first, so that no other thread's receive, which a pass
 *    may begin meanwhile, gets its message. It keeps the lock, so its place is not needed after the
 *    call, whatever comes. If the message has not come, an operation goes on with that number: that
 *    one has a deadline, may sleep, leaves the lock to others, and fails with the worker. So where
 *    ranks share cores there is no waiting here, nor while a thread probes, which a pass tells of
 *    what has come.
 */
#include "collectives/comm/message.h"

#include <errno.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/process.h"
#include "base/ring.h"
#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"

/* A message is counted as an access of so many bytes: the clock is looked at every 16 of them, but
 * with each one over a network, which takes long. */
#define MESSAGE_WEIGHT (12u << 10)
#define NETWORK_WEIGHT (256u << 10)
/* For so long a receive that blocks waits without an operation, unless it is to spin for less. */
#define MESSAGE_AWAIT (50 * BR_US)

/* Under the lock. */
static void message_ended(struct braid_comm *comm, struct braid_op **handle)
{
    struct br_context *context = comm->context;

    comm->operations++;
    if (handle)
        *handle = br_handle_of_ended(comm);
    else /* the progress thread sees that somebody drives; under the lock nobody else writes it */
        atomic_store_explicit(&context->caller_waits,
                              atomic_load_explicit(&context->caller_waits, memory_order_relaxed) +
                                  1,
                              memory_order_relaxed);
}

static inline bool message_is_near(const struct braid_comm *comm, int peer)
{
    return br_comm_maps(comm->context, br_group_in_job(comm->group, peer));
}

/* Under the lock: a pass may find that a credit has come. Apart, as it may be cancelled. */
__attribute__((noinline)) static bool message_has_credit(struct braid_comm *comm, int peer)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context = comm->context;

    if (!br_engine_lacks_credit(context->engine, comm->group, peer))
        return false;
    br_progress_disarm(context);
    br_progress_once(context, br_comm_now(comm));
    return br_ring_idle(&context->submissions);
}

/* Under the lock, over a network. Apart, as a device may send by a system call. */
__attribute__((noinline)) static bool message_send_far(struct braid_comm *comm, const void *memory,
                                                       size_t bytes, int peer, uint32_t tag,
                                                       int32_t priority)
{
    BR_DISABLE_CANCELLATION;

    return br_engine_send_at_once(comm->context->engine, comm->group, peer, tag, memory, bytes,
                                  priority);
}

/* Under the lock. Apart, as it may be cancelled. */
__attribute__((noinline)) static enum br_message_left
message_await(struct braid_comm *comm, struct br_awaited *awaited, uint64_t most)
{
    BR_DISABLE_CANCELLATION;

    br_progress_await(comm->context, awaited, most);
    return br_engine_awaited(comm->group, awaited) ? BR_MESSAGE_ENDED : BR_MESSAGE_AWAITED;
}

/* Under the lock: of a call that blocks. */
static enum br_message_left message_receive(struct braid_comm *comm, void *memory, size_t bytes,
                                            int peer, uint32_t tag, uint64_t *number)
{
    const struct br_context *context = comm->context;
    struct br_awaited awaited = {.ended = NULL};
    uint64_t most = context->settings.spin < MESSAGE_AWAIT ? context->settings.spin : MESSAGE_AWAIT;
    bool waits = most && !context->settings.oversubscribed && !atomic_load(&context->probes);

    switch (br_engine_receive(context->engine, comm->group, peer, tag, memory, bytes, waits,
                              &awaited, number)) {
    case BR_RECEIVED:
        return BR_MESSAGE_ENDED;
    case BR_RECEIVED_LATER:
        return message_await(comm, &awaited, most);
    default:
        return BR_MESSAGE_ALL;
    }
}

/* The progress thread serves posted receives while the program computes. Apart, as it may be
 * cancelled. */
__attribute__((noinline)) static void message_wake(struct br_context *context)
{
    BR_DISABLE_CANCELLATION;

    br_progress_wake(context);
}

/* Should a pass follow one that has ended? Also for what a pass has ended, or another thread has
 * submitted, while this one waited. */
static bool message_makes_due(const struct br_context *context)
{
    return br_engine_is_due(context->engine) || !br_list_empty(&context->untold) ||
           !br_ring_idle(&context->submissions);
}

enum br_message_left br_message_send(struct braid_comm *comm, const void *memory, size_t bytes,
                                     int peer, const struct braid_options *options,
                                     struct braid_op **handle)
{
    struct br_context *context = comm->context;
    uint32_t tag = options ? options->tag : 0;
    int32_t priority = options ? options->priority : 0;
    bool near, ended = false, passed = false;

    if (!br_progress_trylock_armed(context))
        return BR_MESSAGE_ALL;
    near = message_is_near(comm, peer);
    if (br_ring_idle(&context->submissions)) {
        ended = near ? br_engine_send_at_once(context->engine, comm->group, peer, tag, memory,
                                              bytes, priority)
                     : message_send_far(comm, memory, bytes, peer, tag, priority);
        if (!ended && near && message_has_credit(comm, peer)) {
            passed = true;
            ended = br_engine_send_at_once(context->engine, comm->group, peer, tag, memory, bytes,
                                           priority);
        }
    }
    if (!ended) {
        br_progress_leave(context, 0, false);
        return BR_MESSAGE_ALL;
    }
    message_ended(comm, handle);
    if (near && !passed) /* it is in the inbox: nothing is due but what rested before */
        br_progress_leave(context, MESSAGE_WEIGHT,
                          context->accesses_rest || !br_ring_idle(&context->submissions));
    else
        br_progress_leave(context, near ? MESSAGE_WEIGHT : NETWORK_WEIGHT,
                          message_makes_due(context));
    return BR_MESSAGE_ENDED;
}

enum br_message_left br_message_receive(struct braid_comm *comm, void *memory, size_t bytes,
                                        int peer, const struct braid_options *options,
                                        struct braid_op **handle, uint64_t *number)
{
    struct br_context *context = comm->context;
    enum br_message_left left = BR_MESSAGE_ALL;
    bool ended, due;

    if (!br_progress_trylock_armed(context))
        return BR_MESSAGE_ALL;
    if (br_ring_idle(&context->submissions))
        left = handle
                   ? br_posted_receive(comm, memory, bytes, peer, options, handle)
                   : message_receive(comm, memory, bytes, peer, options ? options->tag : 0, number);
    ended = left == BR_MESSAGE_ENDED;
    if (ended)
        message_ended(comm, handle);
    due = ended
              ? message_makes_due(context)
              : left == BR_MESSAGE_POSTED && (context->accesses_rest || br_posted_is_due(context));
    br_progress_leave(context,
                      !ended                        ? 0
                      : message_is_near(comm, peer) ? MESSAGE_WEIGHT
                                                    : NETWORK_WEIGHT,
                      due);
    if (left == BR_MESSAGE_POSTED && atomic_load_explicit(&context->may_wake, memory_order_relaxed))
        message_wake(context);
    return left;
}

void br_message_lost(struct braid_comm *comm)
{
    struct br_context *context = comm->context;

    br_progress_lock(context);
    br_worker_fail(context->worker, ENOMEM,
                   "no memory for the operation of a message that has begun");
    br_progress_unlock(context);
}
