/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives with a handle whose small message has not come yet, of ranks of this host, and small
 * puts with a handle that wait for their answer, without an operation (posted.c). All functions but
 * br_posted_settle() are called under the context's lock.
 */
#ifndef BR_COLLECTIVES_COMM_POSTED_H
#define BR_COLLECTIVES_COMM_POSTED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "collectives/comm/message.h"
#include "collectives/engine/engine.h"

#define BR_POSTED 256u /* at a time; further ones are operations */

struct braid_comm;
struct braid_op;
struct braid_options;
struct br_context;
struct br_posted;

/* Of a context. */
struct br_posted_receives {
    struct br_list waiting; /* struct br_posted, in the order of the calls */
    struct br_list came;    /* their br_awaited: messages that have come since the last look */
    struct br_posted *records, *unused; /* records: [BR_POSTED] */
    uint32_t calls;                     /* that have posted one */
};

/* 0, or -ENOMEM with a message. */
int br_posted_create(struct br_context *context);
void br_posted_destroy(struct br_context *context); /* also of a context without it */

/* Receives a small message of host memory that is here, or posts its receive and sets the handle.
 * Its arguments and options have been checked. */
enum br_message_left br_posted_receive(struct braid_comm *comm, void *memory, size_t bytes,
                                       int peer, const struct braid_options *options,
                                       struct braid_op **handle);
/* Posts a small put of host memory to another rank, which leaves with the next pump, and sets the
 * handle. Its arguments have been checked. now: the time, ns. false: it has to be an operation. */
bool br_posted_put(struct braid_comm *comm, const void *memory, size_t bytes,
                   const struct braid_key *key, uint64_t offset, int32_t priority, uint64_t now,
                   struct braid_op **handle);
/* After a receive that was posted: should a pass follow? */
bool br_posted_is_due(const struct br_context *context);

/* Ends those whose message or answer has come, before the lock is given up. Returns whether there
 * are any. */
bool br_posted_end(struct br_context *context);

/* In each pass with any that wait, before the engine's step: if the first one has waited for long,
 * or the worker has failed, all become operations. now: the time, ns. */
void br_posted_pass(struct br_context *context, uint64_t now);

/* All that wait become operations, with the deadlines and handles of these. */
void br_posted_go_on(struct br_context *context, uint64_t now);
/* The same for those who need to see all that is under way in `comm` (NULL: in all). Returns
 * whether any of its receives waited. Takes the lock. */
bool br_posted_settle(struct br_context *context, const struct braid_comm *comm);

#endif
