/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided accesses that the calling thread carries out by itself (access.c). */
#ifndef BR_COLLECTIVES_COMM_ACCESS_H
#define BR_COLLECTIVES_COMM_ACCESS_H

#include <stddef.h>
#include <stdint.h>

#include "protocol/message.h"

struct braid_comm;
struct braid_op;
struct braid_key;
struct br_notify;

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
enum br_access_left br_access_move(struct braid_comm *comm, const struct braid_key *key,
                                   uint64_t offset, const void *from, void *into, size_t bytes,
                                   const struct br_notify *notify, struct braid_op **handle);
/* before: room for the 8 bytes that the number was. */
enum br_access_left br_access_atomic(struct braid_comm *comm, const struct braid_key *key,
                                     uint64_t offset, enum br_atomic operation,
                                     struct br_operands operands, void *before,
                                     struct braid_op **handle);

#endif
