/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives, and small puts, without an operation. Where ranks of a host exchange many small
 * messages, most come within microseconds after their receive, and an operation costs ten times
 * what such a message does. Puts that share a request (protocol/put_batch.c) cost as little.
 *
 * 1. A posted receive takes the number of its message and a handle of handles.c, note 3, and stands
 *    in the peer's list of awaited messages. The message goes from the inbox to its place, and the
 *    handle shows that it has ended. So does that of a put when its answer has come.
 * 2. Whatever takes time is left to operations. One goes on with the number and the handle as soon
 *    as one has waited for POSTED_FOR, the worker fails, a thread falls asleep, or somebody
 *    needs to see all that is under way: who frees memory, ends a communicator or gives the handle
 *    up. So here are no deadlines, no words of errors, no references to regions, and nothing is
 *    asked of the sender.
 * 3. That always works, as a record has its operation from its first use on. A program that posts
 *    no receives and makes no small puts has none of these.
 * 4. What has come with another length is kept by the worker for the operation, which says so. So
 *    is the answer of a target that refuses a put.
 */
#include "collectives/comm/posted.h"

#include <errno.h>
#include <stdlib.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"

/* ns since the first pass that has found it. */
#define POSTED_FOR BR_MS

/* After so many that were posted a pass takes in what has come meanwhile, before its sender lacks
 * credits. */
#define POSTED_PASS 16u

struct br_posted {
    struct br_list node; /* in `waiting` */
    struct braid_comm *comm;
    struct br_handle_place *place;
    struct br_operation *op; /* as which it goes on; NULL: none is reserved yet */
    uint64_t since;          /* ns: when a pass first found it as the oldest; 0: none has */
    struct br_posted *next;  /* of those that are unused */
    bool is_put;             /* else it is a receive */
    /* receive */
    struct br_awaited awaited;
    uint64_t number; /* of the message, in its peer and tag */
    int peer;        /* rank of the group */
    uint32_t tag;
    int32_t priority;
    /* put */
    struct br_small_put put;
    const void *memory; /* the program's, which the operation says that it uses */
    struct braid_key key;
};

static void posted_put(struct br_posted_receives *receives, struct br_posted *posted)
{
    posted->next = receives->unused;
    receives->unused = posted;
}

int br_posted_create(struct br_context *context)
{
    struct br_posted_receives *receives = &context->posted;

    receives->records = calloc(BR_POSTED, sizeof *receives->records);
    if (!receives->records)
        return br_error(ENOMEM, "no memory for posted receives and puts");
    for (uint32_t i = 0; i < BR_POSTED; i++) {
        receives->records[i].awaited.ended = &receives->came;
        posted_put(receives, &receives->records[i]);
    }
    br_list_init(&receives->waiting);
    br_list_init(&receives->came);
    return 0;
}

void br_posted_destroy(struct br_context *context)
{
    free(context->posted.records);
    context->posted.records = NULL;
}

/* The next record, with an operation and a place for its handle; NULL: there is none. */
static struct br_posted *posted_next(struct br_context *context)
{
    struct br_posted *posted = context->posted.unused;

    if (!posted)
        return NULL;
    if (!posted->op)
        posted->op = br_comm_reserve_operation(context);
    posted->place = br_handle_next_place(context);
    return posted->op && posted->place ? posted : NULL;
}

/* It waits from here on. Returns its handle. */
static struct braid_op *posted_begin(struct braid_comm *comm, struct br_posted *posted)
{
    struct br_posted_receives *receives = &comm->context->posted;

    receives->unused = posted->next;
    posted->comm = comm;
    posted->since = 0;
    br_list_push_back(&receives->waiting, &posted->node);
    return br_handle_of_posted(comm, posted->place);
}

enum br_message_left br_posted_receive(struct braid_comm *comm, void *memory, size_t bytes,
                                       int peer, const struct braid_options *options,
                                       struct braid_op **handle)
{
    struct br_context *context = comm->context;
    struct br_posted *posted = options && options->timeout_ms ? NULL : posted_next(context);
    uint32_t tag = options ? options->tag : 0;
    struct br_awaited here;
    enum br_received received;
    uint64_t number;

    received = br_engine_receive(context->engine, comm->group, peer, tag, memory, bytes, posted,
                                 posted ? &posted->awaited : &here, &number);
    if (received != BR_RECEIVED_LATER)
        return received == BR_RECEIVED ? BR_MESSAGE_ENDED : BR_MESSAGE_ALL;
    context->posted.calls++;
    posted->is_put = false;
    posted->number = number;
    posted->peer = peer;
    posted->tag = tag;
    posted->priority = options ? options->priority : 0;
    *handle = posted_begin(comm, posted);
    return BR_MESSAGE_POSTED;
}

bool br_posted_put(struct braid_comm *comm, const void *memory, size_t bytes,
                   const struct braid_key *key, uint64_t offset, int32_t priority, uint64_t now,
                   struct braid_op **handle)
{
    struct br_context *context = comm->context;
    struct br_posted *posted = posted_next(context);
    struct br_small_put *put;

    if (!posted)
        return false;
    put = &posted->put;
    put->rank = (int)key->rank;
    put->priority = priority;
    put->entry =
        (struct br_put_entry){.offset = offset, .region = key->id, .bytes = (uint32_t)bytes};
    put->check = key->check;
    if (!br_engine_put(context->engine, put, memory, context->next_order, now))
        return false;
    context->next_order += 2; /* as in br_comm_give_order() */
    posted->is_put = true;
    posted->memory = memory;
    posted->key = *key;
    *handle = posted_begin(comm, posted);
    return true;
}

bool br_posted_is_due(const struct br_context *context)
{
    return context->posted.calls % POSTED_PASS == 0;
}

static void posted_end(struct br_posted_receives *receives, struct br_posted *posted)
{
    posted->comm->operations++;
    br_list_remove(&posted->node);
    br_handle_ended(posted->place, posted->comm);
    posted_put(receives, posted);
}

bool br_posted_end(struct br_context *context)
{
    struct br_posted_receives *receives = &context->posted;
    struct br_list *puts = &context->worker->puts.ended, *node;
    bool any = !br_list_empty(&receives->came) || !br_list_empty(puts);

    while ((node = br_list_pop_front(&receives->came))) {
        struct br_posted *posted = br_container_of(node, struct br_posted, awaited.node);

        br_engine_awaited(posted->comm->group, &posted->awaited);
        posted_end(receives, posted);
    }
    while ((node = br_list_pop_front(puts)))
        posted_end(receives, br_container_of(node, struct br_posted, put.node));
    return any;
}

static void fill_receive(struct br_posted *posted, struct br_operation *op)
{
    const struct br_api_point message = {.kind = BR_OPERATION_RECV,
                                         .recv = posted->awaited.memory,
                                         .bytes = posted->awaited.length,
                                         .peer = posted->peer};
    const struct braid_options options = {.tag = posted->tag, .priority = posted->priority};

    br_engine_awaited(posted->comm->group, &posted->awaited);
    br_api_fill_point(posted->comm, &message, &options, op);
    op->claimed = true;
    op->claim = posted->number;
}

static void fill_put(struct br_posted *posted, struct br_operation *op)
{
    const struct br_small_put *put = &posted->put;
    const struct br_api_point access = {.kind = BR_OPERATION_PUT,
                                        .send = posted->memory,
                                        .bytes = put->entry.bytes,
                                        .key = &posted->key,
                                        .offset = put->entry.offset};
    const struct braid_options options = {.priority = put->priority};

    br_worker_put_forget(posted->comm->context->worker, &posted->put);
    br_api_fill_point(posted->comm, &access, &options, op);
    op->claim = put->tag;
}

static void posted_go_on(struct br_context *context, struct br_posted *posted,
                         struct br_operation *op, uint64_t now)
{
    br_comm_use_reserved(op, posted->comm);
    if (posted->is_put)
        fill_put(posted, op);
    else
        fill_receive(posted, op);
    op->awaited = true;
    atomic_store_explicit(&op->state, BR_OPERATION_SUBMITTED, memory_order_relaxed);
    atomic_fetch_add(&posted->comm->outstanding, 1);
    br_comm_start_operation(op, now);
    br_handle_goes_on(posted->place, op);
    posted_put(&context->posted, posted);
}

void br_posted_go_on(struct br_context *context, uint64_t now)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&context->posted.waiting))) {
        struct br_posted *posted = br_container_of(node, struct br_posted, node);
        struct br_operation *op = posted->op;

        posted->op = NULL;
        posted_go_on(context, posted, op, now);
    }
}

void br_posted_pass(struct br_context *context, uint64_t now)
{
    struct br_posted *first = br_container_of(context->posted.waiting.next, struct br_posted, node);

    if (context->worker->failed || (first->since && now - first->since >= POSTED_FOR))
        br_posted_go_on(context, now);
    else if (!first->since)
        first->since = now;
}

bool br_posted_settle(struct br_context *context, const struct braid_comm *comm)
{
    bool any = false;

    br_progress_lock(context);
    br_list_for_each (node, &context->posted.waiting)
        any = any || !comm || br_container_of(node, struct br_posted, node)->comm == comm;
    if (any)
        br_posted_go_on(context, br_comm_now(context->world));
    br_progress_unlock(context);
    return any;
}
