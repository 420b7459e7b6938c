/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided accesses that the calling thread carries out by itself (access.c). */
#ifndef BR_COLLECTIVES_COMM_ACCESS_H
#define BR_COLLECTIVES_COMM_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/copy.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "protocol/message.h"
#include "protocol/worker.h"

struct braid_op;
struct braid_key;
struct braid_options;
struct br_notify;

/* Bytes that are copied in one turn of the lock: 10 to 50 us. */
#define BR_ACCESS_TURN (256u << 10)

/* What of an access the engine still has to do. */
enum br_access_left {
    BR_ACCESS_ALL,   /* nothing was done, or what was done does no harm when it is done again */
    BR_ACCESS_VALUE, /* the bytes of a put stand; what it notifies or signals is still to be done */
    BR_ACCESS_ENDED, /* nothing: it counts as an operation that has ended */
};

/* Carry a one-sided access of host memory out now if this process maps the region. Arguments have
 * been checked. handle: NULL, or where a handle of it is stored when it has ended, or NULL if there
 * is no place for one (br_handle_in_pool()). Any thread; wait for nothing but the lock between the
 * parts of a large one, and have no cancellation point (base/process.h, note 5). */

/* A put, where `from` is not NULL, or a get. notify: of a put, or NULL. */
enum br_access_left br_access_parts(struct braid_comm *comm, const struct braid_key *key,
                                    uint64_t offset, const void *from, void *into, size_t bytes,
                                    const struct br_notify *notify, struct braid_op **handle);

/* Is the key one of this job? If not, its target says so. */
static inline bool br_access_knows(const struct braid_comm *comm, const struct braid_key *key)
{
    return key->check == comm->context->worker->config.check;
}

/* Under the lock: the access counts as an operation from here on. */
static inline void br_access_ended(struct braid_comm *comm, struct braid_op **handle)
{
    comm->operations++;
    if (handle)
        *handle = br_handle_of_ended(comm);
}

/* Up to so many bytes an access is copied by vectors, 0.75 to 1 times as long as `rep movsb` takes:
 * source and target fit into a first-level cache of 32 KiB. br_copy() has a lower limit for what is
 * passed on to another core piece by piece. */
#define BR_ACCESS_VECTORS (16u << 10)

static inline void br_access_copy(void *to, const void *from, size_t n)
{
    if (n > BR_COPY_VECTORS && n <= BR_ACCESS_VECTORS)
        br_copy_by_vectors(to, from, n);
    else
        br_copy(to, from, n);
}

/* Under the lock, which this releases: copies n bytes. ends: the access has ended then. Returns
 * false: the region cannot be reached. */
static inline bool br_access_turn(struct braid_comm *comm, const struct braid_key *key,
                                  uint64_t offset, const void *from, void *into, size_t n,
                                  bool ends, struct braid_op **handle)
{
    struct br_context *context = comm->context;
    void *there = br_worker_shared(context->worker, (int)key->rank, key->id, offset, n);

    if (there) {
        if (from)
            br_access_copy(there, from, n);
        else
            br_access_copy(into, there, n);
        context->worker->counters.mapped_bytes += n;
        if (ends)
            br_access_ended(comm, handle);
    }
    br_progress_leave(context, n, false);
    return there;
}

/* The same as br_access_parts(). Here, as most accesses take one turn, and of a small one the calls
 * on its way would be half the time. */
static inline __attribute__((always_inline)) enum br_access_left
br_access_move(struct braid_comm *comm, const struct braid_key *key, uint64_t offset,
               const void *from, void *into, size_t bytes, const struct br_notify *notify,
               struct braid_op **handle)
{
    if (notify || !bytes || bytes > BR_ACCESS_TURN)
        return br_access_parts(comm, key, offset, from, into, bytes, notify, handle);
    return br_access_knows(comm, key) && br_progress_trylock_armed(comm->context) &&
                   br_access_turn(comm, key, offset, from, into, bytes, true, handle)
               ? BR_ACCESS_ENDED
               : BR_ACCESS_ALL;
}

/* A put of at most BR_SMALL_PUT bytes, with a handle, becomes no operation until it takes long.
 * false: nothing has happened. May be cancelled, unlike the others. */
bool br_access_post(struct braid_comm *comm, const struct braid_key *key, uint64_t offset,
                    const void *from, size_t bytes, const struct braid_options *options,
                    struct braid_op **handle);

/* before: room for the 8 bytes that the number was. */
enum br_access_left br_access_atomic(struct braid_comm *comm, const struct braid_key *key,
                                     uint64_t offset, enum br_atomic operation,
                                     struct br_operands operands, void *before,
                                     struct braid_op **handle);

#endif
