/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided accesses within the call. Where the region of a peer of this host is mapped here
 * (br_worker_shared()), a put or a get is a copy by the calling thread, and an atomic an
 * instruction of its CPU. So they have ended, and stand at the target, when the call returns;
 * nothing travels, and the target's worker knows nothing of it.
 *
 * A small put with a handle that is not carried out so is posted, and leaves together with others
 * that follow it (posted.c).
 *
 * 1. What does not qualify goes to the engine as ever (point.c): an error is the target's to tell.
 *    So does whatever comes while another thread has the lock, and that one serves all.
 * 2. A large access is copied in turns of the lock, and each looks anew whether the region is still
 *    there. If it is not, the engine does all of it once more and says why it cannot.
 * 3. A program may do nothing but access, or look at a number in a loop until another rank changes
 *    it. So an access makes a pass now and then, and leaves the core to others where ranks share
 *    cores (br_progress_leave()).
 * 4. Order: puts, gets and atomics have none among each other, so it does no harm that these
 *    overtake what the engine has under way. Of a put that notifies or signals the bytes stand
 *    before the value leaves, or the number changes.
 */
#include "collectives/comm/access.h"

#include <string.h>

#include "base/process.h"
#include "base/ring.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "protocol/worker.h"

/* All bytes of a put (from) or a get (into). ends: the access has ended then. */
static bool access_copy(struct braid_comm *comm, const struct braid_key *key, uint64_t offset,
                        const void *from, void *into, size_t bytes, bool ends,
                        struct braid_op **handle)
{
    struct br_context *context = comm->context;
    size_t n;

    for (size_t done = 0; done < bytes; done += n) {
        n = bytes - done < BR_ACCESS_TURN ? bytes - done : BR_ACCESS_TURN;
        if (!br_progress_trylock_armed(context)) {
            if (!done)
                return false;
            br_progress_lock(context);
        }
        if (!br_access_turn(comm, key, offset + done, from ? (const uint8_t *)from + done : NULL,
                            into ? (uint8_t *)into + done : NULL, n, ends && done + n == bytes,
                            handle))
            return false;
    }
    return true;
}

/* A number of 64 bits changes, which is the end of the access. */
static bool access_change(struct braid_comm *comm, const struct braid_key *key, uint32_t region,
                          uint64_t offset, enum br_atomic operation,
                          const struct br_operands *operands, uint64_t *before,
                          struct braid_op **handle)
{
    struct br_context *context = comm->context;
    void *there;
    bool ended;

    if (!br_progress_trylock_armed(context))
        return false;
    there = br_worker_shared(context->worker, (int)key->rank, region, offset, sizeof *before);
    ended = there && !br_onesided_change(there, operation, operands, before);
    if (ended) {
        context->worker->counters.mapped_bytes += sizeof *before;
        br_access_ended(comm, handle);
    }
    br_progress_leave(context, sizeof *before, false);
    return ended;
}

static bool access_signal(struct braid_comm *comm, const struct braid_key *key,
                          const struct br_notify *notify, struct braid_op **handle)
{
    const struct br_operands operands = {.value = notify->value};
    uint64_t before;

    return access_change(comm, key, notify->region, notify->offset,
                         (enum br_atomic)notify->operation, &operands, &before, handle);
}

enum br_access_left br_access_parts(struct braid_comm *comm, const struct braid_key *key,
                                    uint64_t offset, const void *from, void *into, size_t bytes,
                                    const struct br_notify *notify, struct braid_op **handle)
{
    if (!(bytes || notify) || !br_access_knows(comm, key) ||
        !access_copy(comm, key, offset, from, into, bytes, !notify, handle))
        return BR_ACCESS_ALL;
    if (notify && (!notify->region || !access_signal(comm, key, notify, handle)))
        return BR_ACCESS_VALUE;
    return BR_ACCESS_ENDED;
}

bool br_access_post(struct braid_comm *comm, const struct braid_key *key, uint64_t offset,
                    const void *from, size_t bytes, const struct braid_options *options,
                    struct braid_op **handle)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context = comm->context;
    uint64_t now;
    bool rests;

    if ((options && options->timeout_ms) || (int)key->rank == context->rank ||
        !br_progress_trylock_armed(context))
        return false;
    now = br_comm_now(comm);
    rests = br_progress_may_rest(context, now);
    if (context->worker->failed || !br_ring_idle(&context->submissions) ||
        !br_backlog_is_empty(&context->accesses) ||
        !br_posted_put(comm, from, bytes, key, offset, options ? options->priority : 0, now,
                       handle)) {
        br_progress_leave_now(context);
        return false;
    }
    br_progress_leave_resting(context, rests, now);
    return true;
}

enum br_access_left br_access_atomic(struct braid_comm *comm, const struct braid_key *key,
                                     uint64_t offset, enum br_atomic operation,
                                     struct br_operands operands, void *before,
                                     struct braid_op **handle)
{
    uint64_t number;

    if (!br_access_knows(comm, key) ||
        !access_change(comm, key, key->id, offset, operation, &operands, &number, handle))
        return BR_ACCESS_ALL;
    memcpy(before, &number, sizeof number);
    return BR_ACCESS_ENDED;
}
