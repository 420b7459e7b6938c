/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided accesses within the call. Where the region of a peer of this host is mapped here
 * (br_worker_shared()), a put or a get is a copy by the calling thread, and an atomic an
 * instruction of its CPU. So they have ended, and stand at the target, when the call returns;
 * nothing travels, and the target's worker knows nothing of it.
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

#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "protocol/worker.h"

/* Bytes that are copied in one turn of the lock: 10 to 50 us. */
#define ACCESS_TURN (256u << 10)

/* Under the lock. */
static void *access_reach(const struct br_context *context, const struct braid_key *key,
                          uint32_t region, uint64_t offset, uint64_t bytes)
{
    return br_worker_shared(context->worker, (int)key->rank, region, offset, bytes);
}

/* Under the lock: it counts as an operation from here on. */
static void access_ended(struct braid_comm *comm, struct braid_op **handle)
{
    comm->operations++;
    if (handle)
        *handle = br_handle_of_ended(comm);
}

/* All bytes of a put (from) or a get (into). ends: the access has ended then. */
static bool access_copy(struct braid_comm *comm, const struct braid_key *key, uint64_t offset,
                        const void *from, void *into, size_t bytes, bool ends,
                        struct braid_op **handle)
{
    struct br_context *context = comm->context;
    size_t n;

    for (size_t done = 0; done < bytes; done += n) {
        void *there;

        n = bytes - done < ACCESS_TURN ? bytes - done : ACCESS_TURN;
        if (!br_progress_trylock_armed(context)) {
            if (!done)
                return false;
            br_progress_lock(context);
        }
        there = access_reach(context, key, key->id, offset + done, n);
        if (there && from)
            memcpy(there, (const uint8_t *)from + done, n);
        else if (there)
            memcpy((uint8_t *)into + done, there, n);
        if (there)
            context->worker->counters.mapped_bytes += n;
        if (there && ends && done + n == bytes)
            access_ended(comm, handle);
        br_progress_leave(context, n, false);
        if (!there)
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
    there = access_reach(context, key, region, offset, sizeof *before);
    ended = there && !br_onesided_change(there, operation, operands, before);
    if (ended) {
        context->worker->counters.mapped_bytes += sizeof *before;
        access_ended(comm, handle);
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

/* Is the key one of this job? If not, its target says so. */
static bool access_knows(const struct braid_comm *comm, const struct braid_key *key)
{
    return key->check == comm->context->worker->config.check;
}

enum br_access_left br_access_move(struct braid_comm *comm, const struct braid_key *key,
                                   uint64_t offset, const void *from, void *into, size_t bytes,
                                   const struct br_notify *notify, struct braid_op **handle)
{
    if (!(bytes || notify) || !access_knows(comm, key) ||
        !access_copy(comm, key, offset, from, into, bytes, !notify, handle))
        return BR_ACCESS_ALL;
    if (notify && (!notify->region || !access_signal(comm, key, notify, handle)))
        return BR_ACCESS_VALUE;
    return BR_ACCESS_ENDED;
}

enum br_access_left br_access_atomic(struct braid_comm *comm, const struct braid_key *key,
                                     uint64_t offset, enum br_atomic operation,
                                     struct br_operands operands, void *before,
                                     struct braid_op **handle)
{
    uint64_t number;

    if (!access_knows(comm, key) ||
        !access_change(comm, key, key->id, offset, operation, &operands, &number, handle))
        return BR_ACCESS_ALL;
    memcpy(before, &number, sizeof number);
    return BR_ACCESS_ENDED;
}
