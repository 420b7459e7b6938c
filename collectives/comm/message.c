/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages within the call. A small message to a rank of this host is written into its inbox, and
 * one that is here is copied out, by the calling thread. There is no operation, no transfer and no
 * pass of the progress loop. A receive whose message is not here looks for it, and one that blocks
 * does so for a while (br_progress_await()): where two ranks talk to each other it comes soon. It
 * goes from the inbox to its place. A small message over a network that one rail leads to is handed
 * to its device in the call as well; there, no receive is shortened.
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
 *    the engine; a priority orders what waits, and where memory is mapped nothing shares a rail
 *    with it (doc/design/rails.md, section 7).
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
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"

/* A message is counted as an access of so many bytes: the clock is looked at every 16 of them, but
 * with each one over a network, which takes long. */
#define MESSAGE_WEIGHT (12u << 10)
#define NETWORK_WEIGHT (256u << 10)
/* For so long a receive waits without an operation, unless it is to spin for less. */
#define MESSAGE_AWAIT (50 * BR_US)

/* Sends and receives that know all of their message. */
static bool message_is_plain(const struct br_api_point *message)
{
    return (message->kind == BR_OPERATION_SEND || message->kind == BR_OPERATION_RECV) &&
           !message->learns && !message->claimed;
}

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

static size_t message_weight(const struct braid_comm *comm, const struct br_api_point *message)
{
    return br_worker_is_near(comm->context->worker, br_group_in_job(comm->group, message->peer))
               ? MESSAGE_WEIGHT
               : NETWORK_WEIGHT;
}

/* Under the lock: looks for the message of a receive, and waits for it if the call blocks. */
static enum br_message_left message_await(struct braid_comm *comm,
                                          const struct br_api_point *message, uint32_t tag,
                                          bool blocks, uint64_t *number)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context = comm->context;
    struct br_awaited awaited;
    uint64_t most = blocks ? MESSAGE_AWAIT : 0;

    if (most > context->settings.spin)
        most = context->settings.spin;
    if (context->settings.oversubscribed || atomic_load(&context->probes) ||
        !br_engine_await(context->engine, comm->group, message->peer, tag, message->recv,
                         message->bytes, &awaited, number))
        return BR_MESSAGE_ALL;
    if (!br_progress_await(context, awaited.rank, most, &awaited.came) && !most) {
        br_engine_unawait(context->engine, comm->group, message->peer, tag);
        return BR_MESSAGE_ALL;
    }
    return br_engine_awaited(context->engine, comm->group, &awaited) ? BR_MESSAGE_ENDED
                                                                     : BR_MESSAGE_AWAITED;
}

enum br_message_left br_message_carry_out(struct braid_comm *comm,
                                          const struct br_api_point *message,
                                          const struct braid_options *options,
                                          struct braid_op **handle, uint64_t *number)
{
    struct br_context *context = comm->context;
    bool send = message->kind == BR_OPERATION_SEND;
    void *memory = send ? (void *)(uintptr_t)message->send : message->recv;
    uint32_t tag = options ? options->tag : 0;
    enum br_message_left left = BR_MESSAGE_ALL;
    bool ended, due;

    if (!message_is_plain(message) || !br_progress_trylock_armed(context))
        return BR_MESSAGE_ALL;
    if (br_ring_idle(&context->submissions)) {
        if (br_engine_message_at_once(context->engine, comm->group, send, message->peer, tag,
                                      memory, message->bytes))
            left = BR_MESSAGE_ENDED;
        else if (!send)
            left = message_await(comm, message, tag, !handle, number);
    }
    ended = left == BR_MESSAGE_ENDED;
    if (ended)
        message_ended(comm, handle);
    /* also for what a pass has ended, or another thread has submitted, while this one waited */
    due = br_engine_is_due(context->engine) || !br_list_empty(&context->untold) ||
          !br_ring_idle(&context->submissions);
    br_progress_leave(context, ended ? message_weight(comm, message) : 0, ended && due);
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
