/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that wait, in the order of their submission, because as many as may are under way
 * already. So a program may have any number of them outstanding, while what those under way need
 * stays bounded.
 *
 * Collectives have a backlog for each communicator: of those on it the oldest is always under way,
 * so the oldest of all is as well, and ranks cannot wait for each other for ever. One-sided
 * accesses have one for all: they end without the other rank's program. Sends and receives wait in
 * none: they end in any order, and the one that the program waits for may be the last.
 *
 * All functions are called under the context's lock, and none of them blocks or allocates.
 */
#ifndef BR_COLLECTIVES_ENGINE_BACKLOG_H
#define BR_COLLECTIVES_ENGINE_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Operations under way, of one backlog. Many more than run at once (engine.h, max_fragments), so
 * that the most urgent of them can overtake the others. */
#define BR_BACKLOG_AT_ONCE 1024u

struct br_operation;

struct br_backlog {
    struct br_list waiting; /* struct br_operation */
    struct br_list node;    /* in its owner's list of those in which operations wait */
    uint32_t under_way;
    uint64_t next_deadline; /* no later than that of any that waits */
};

void br_backlog_init(struct br_backlog *backlog);

static inline bool br_backlog_is_empty(const struct br_backlog *backlog)
{
    return br_list_empty(&backlog->waiting);
}

/* The operation, which is in no list, waits behind the others. Its deadline counts already. */
void br_backlog_wait(struct br_backlog *backlog, struct br_operation *op);

/* The operation, which is in no list, has been submitted. true: it begins; false: it waits. */
static inline bool br_backlog_enter(struct br_backlog *backlog, struct br_operation *op)
{
    if (backlog->under_way == BR_BACKLOG_AT_ONCE || !br_backlog_is_empty(backlog)) {
        br_backlog_wait(backlog, op);
        return false;
    }
    backlog->under_way++;
    return true;
}

/* The next that begins, of those that wait; NULL: none may. */
struct br_operation *br_backlog_next(struct br_backlog *backlog);

/* One that began has ended. */
static inline void br_backlog_left(struct br_backlog *backlog)
{
    backlog->under_way--;
}

/* One that waits and whose deadline has passed; NULL: there is none. */
struct br_operation *br_backlog_overdue(struct br_backlog *backlog, uint64_t now);

#endif
