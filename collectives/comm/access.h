/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided accesses that the calling thread carries out by itself (access.c). */
#ifndef BR_COLLECTIVES_COMM_ACCESS_H
#define BR_COLLECTIVES_COMM_ACCESS_H

struct braid_comm;
struct braid_op;
struct br_api_point;

/* What of an access the engine still has to do. */
enum br_access_left {
    BR_ACCESS_ALL,   /* nothing was done, or what was done does no harm when it is done again */
    BR_ACCESS_VALUE, /* the bytes of a put stand; what it notifies or signals is still to be done */
    BR_ACCESS_ENDED, /* nothing: it counts as an operation that has ended */
};

/* Carries a one-sided access of host memory out now if this process maps the region. Its arguments
 * have been checked. handle: NULL, or where a handle of it is
 * stored when it has ended, or NULL if there is no place for one (br_handle_in_pool()). Any thread;
 * waits for nothing but the lock between the parts of a large one, and has no cancellation point
 * (base/process.h, note 5). */
enum br_access_left br_access_carry_out(struct braid_comm *comm, const struct br_api_point *access,
                                        struct braid_op **handle);

#endif
