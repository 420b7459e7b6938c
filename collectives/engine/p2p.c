/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between two ranks. One larger than BR_MAX_TRANSFER goes in parts, each with the next
 * number of its (peer, tag), a few at a time. A message of a rank to itself is copied when both its
 * ends are there.
 */
#include "collectives/engine/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

#define AT_ONCE 2u /* parts of one message */

void br_p2p_failed(struct br_engine *engine, int rc, const char *what, int peer)
{
    char text[sizeof engine->worker->message];

    snprintf(text, sizeof text, "%s with rank %d: %s", what, peer, br_error_message());
    br_worker_fail(engine->worker, -rc, text);
}

static bool is_send(const struct br_operation *op)
{
    return op->kind == BR_OPERATION_SEND;
}

/* ---- to oneself ------------------------------------------------------------------------------ */

static void p2p_matched_self(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *send = br_container_of(batch, struct br_operation, parts.staging[0].batch);
    struct br_operation *recv = send->parts.staging[0].owner;

    br_operation_end(engine, send, 0);
    br_operation_end(engine, recv, 0);
}

/* From GPU to GPU, or to or from the host. Until it is through nobody else meets them. */
static void copy_staged(struct br_engine *engine, struct br_operation *send,
                        struct br_operation *recv)
{
    int gpu = recv->recv_gpu ? recv->recv_gpu : send->send_gpu;
    enum br_copy_direction direction = recv->recv_gpu ? BR_COPY_TO_GPU : BR_COPY_TO_HOST;

    br_list_remove(&send->node);
    br_list_remove(&recv->node);
    br_list_push_back(&engine->messages, &send->node);
    br_list_push_back(&engine->messages, &recv->node);
    send->parts.staging[0].owner = recv;
    br_staging_copy(engine, gpu, direction, recv->recv, send->send, send->count);
    br_staging_submit(engine, &send->parts.staging[0].batch, gpu, direction, p2p_matched_self,
                      NULL);
}

void br_p2p_match_self(struct br_engine *engine, struct br_operation *send,
                       struct br_operation *recv)
{
    if (send->count == recv->count && send->count && (send->send_gpu || recv->recv_gpu)) {
        copy_staged(engine, send, recv);
        return;
    }
    if (send->count == recv->count) {
        if (send->count)
            memmove(recv->recv, send->send, send->count);
        br_operation_end(engine, send, 0);
        br_operation_end(engine, recv, 0);
        return;
    }
    br_error(EPROTO, "rank %d sends itself %zu bytes and receives %zu (tag %u)",
             engine->config.rank, send->count, recv->count, send->tag);
    br_worker_fail(engine->worker, EPROTO, br_error_message());
}

static void submit_to_self(struct br_engine *engine, struct br_operation *op)
{
    struct br_list *mine = is_send(op) ? &engine->to_self : &engine->from_self,
                   *others = is_send(op) ? &engine->from_self : &engine->to_self;
    struct br_operation *other = NULL;

    br_list_for_each (node, others) {
        struct br_operation *waits = br_container_of(node, struct br_operation, node);

        if (waits->group == op->group && waits->tag == op->tag && waits->claimed == op->claimed &&
            (!op->claimed || waits->claim == op->claim)) {
            other = waits;
            break;
        }
    }
    br_list_push_back(mine, &op->node);
    if (other) {
        br_p2p_match_self(engine, is_send(op) ? op : other, is_send(op) ? other : op);
    } else if (is_send(op)) {
        op->claim = engine->worker->next_arrival++;
        br_receives_match(engine);
    }
}

/* ---- to others ------------------------------------------------------------------------------- */

static void p2p_check(struct br_engine *engine, const struct br_operation *op,
                      const struct br_transfer *t, int rc)
{
    if (rc)
        br_p2p_failed(engine, rc, is_send(op) ? "send" : "receive", t->peer);
}

static void p2p_loaded(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_staging *staged = br_container_of(batch, struct br_staging, batch);
    struct br_operation *op = staged->owner;
    struct br_transfer *t = &op->parts.transfers[staged - op->parts.staging];

    p2p_check(engine, op, t, br_transfer_send(engine->worker, t));
}

/* The NIC reads or writes the GPU's memory (remote.h); what goes in one message the CPU copies. */
static bool p2p_is_gpudirect(const struct br_engine *engine, const struct br_transfer *t)
{
    return t->region && t->region->gpu &&
           !br_transfer_is_eager(engine->worker, t->peer, BR_TAG_P2P, t->length);
}

/* A filled-in transfer begins. */
static void p2p_start(struct br_engine *engine, struct br_operation *op, struct br_transfer *t)
{
    int i = (int)(t - op->parts.transfers);

    bool staged = (op->send_gpu || op->recv_gpu) && t->length && !p2p_is_gpudirect(engine, t);

    if (is_send(op) && staged)
        br_staging_part_load(engine, op, i, op->send_gpu, p2p_loaded);
    else if (is_send(op))
        p2p_check(engine, op, t, br_transfer_send(engine->worker, t));
    else if (!staged || br_staging_part_get(engine, op, i, op->recv_gpu))
        p2p_check(engine, op, t, br_transfer_receive(engine->worker, t));
}

/* The next part, in a transfer that is free. */
static void p2p_post(struct br_engine *engine, struct br_operation *op, struct br_transfer *t)
{
    uint32_t part = op->parts.next++;
    size_t offset = (size_t)part * BR_MAX_TRANSFER, left = op->count - offset;
    uint8_t *base = is_send(op) ? (uint8_t *)(uintptr_t)op->send : op->recv;

    *t = (struct br_transfer){
        .tag = br_tag_p2p(op->group->number, op->parts.number + part, op->tag),
        .peer = br_group_in_job(op->group, op->peer),
        .length = left < BR_MAX_TRANSFER ? (uint32_t)left : BR_MAX_TRANSFER,
        .memory = offset ? base + offset : base,
        .region = is_send(op) ? op->send_region : op->recv_region,
        .priority = op->priority,
        .traced = op->traced,
        .order = op->order,
        .check = op->check,
        .total = op->count,
        .announces = is_send(op) && !part,
        .alone = true,
        .owner = op,
    };
    p2p_start(engine, op, t);
}

uint32_t br_p2p_parts(size_t bytes)
{
    size_t count = bytes / BR_MAX_TRANSFER + (bytes % BR_MAX_TRANSFER != 0);

    return count ? (uint32_t)count : 1;
}

/* Most messages are as long as the one before. */
static inline uint16_t p2p_digest(struct br_engine *engine, size_t bytes)
{
    uint64_t word = bytes;

    if (bytes != engine->digested) {
        engine->digested = bytes;
        engine->digest = br_digest_short(&word, 1);
    }
    return engine->digest;
}

static inline int p2p_begin(struct br_engine *engine, struct br_operation *op)
{
    int rc = 0;

    op->parts.count = br_p2p_parts(op->count);
    if (op->claimed)
        op->parts.number = op->claim;
    else
        rc = br_tag_sequences_take(&op->group->tag_sequences, op->peer, is_send(op), op->tag,
                                   op->parts.count, &op->parts.number);
    if (rc)
        return rc;
    op->check = p2p_digest(engine, op->count);
    br_list_push_back(&engine->messages, &op->node);
    for (uint32_t i = 0; i < AT_ONCE && op->parts.next < op->parts.count; i++)
        p2p_post(engine, op, &op->parts.transfers[i]);
    return 0;
}

int br_p2p_begin(struct br_engine *engine, struct br_operation *op)
{
    return p2p_begin(engine, op);
}

int br_p2p_submit(struct br_engine *engine, struct br_operation *op)
{
    int least = op->learns ? BRAID_ANY_SOURCE : 0;

    if (op->peer < least || op->peer >= op->group->size)
        return br_error(EINVAL, "there is no rank %d among %d", op->peer, op->group->size);
    if (op->count / BR_MAX_TRANSFER >= UINT32_MAX)
        return br_error(E2BIG, "a message of %zu bytes is too long", op->count);
    engine->groups[op->group->number] = op->group;
    op->group->unreceived += is_send(op) ? 1 : -1;
    memset(&op->parts, 0, offsetof(struct br_operation_parts, transfers));
    for (int i = 0; i < BR_OPERATION_TRANSFERS; i++)
        op->parts.transfers[i].state = BR_TRANSFER_IDLE; /* else p2p_post() fills it in */
    op->parts.count = 1;
    if (op->learns || (!br_list_empty(&engine->receives) && br_receives_before(engine, op))) {
        br_receives_submit(engine, op);
        return 0;
    }
    if (op->peer == op->group->rank) {
        submit_to_self(engine, op);
        return 0;
    }
    return p2p_begin(engine, op);
}

/* ---- without an operation -------------------------------------------------------------------- */

/* The counter of such a message; NULL: it must be an operation. */
static inline struct br_tag_sequence *counter_at_once(const struct br_engine *engine,
                                                      const struct br_group *group, bool send,
                                                      int peer, uint32_t tag, size_t bytes)
{
    if (peer == group->rank || bytes > BR_MAX_TRANSFER ||
        (!send && !br_list_empty(&engine->receives)))
        return NULL;
    return br_tag_sequences_find(&group->tag_sequences, peer, send, tag);
}

bool br_engine_send_at_once(struct br_engine *engine, struct br_group *group, int peer,
                            uint32_t tag, const void *memory, size_t bytes, int32_t priority)
{
    struct br_tag_sequence *counter = counter_at_once(engine, group, true, peer, tag, bytes);

    if (!counter ||
        !br_worker_send_at_once(engine->worker, br_group_in_job(group, peer),
                                br_tag_p2p(group->number, counter->next, tag),
                                p2p_digest(engine, bytes), memory, (uint32_t)bytes, priority))
        return false;
    engine->groups[group->number] = group;
    group->unreceived++;
    counter->next++;
    return true;
}

bool br_engine_lacks_credit(const struct br_engine *engine, const struct br_group *group, int peer)
{
    return br_worker_lacks_credit(engine->worker, br_group_in_job(group, peer));
}

enum br_received br_engine_receive(struct br_engine *engine, struct br_group *group, int peer,
                                   uint32_t tag, void *memory, size_t bytes, bool waits,
                                   struct br_awaited *awaited, uint64_t *number)
{
    struct br_tag_sequence *counter = counter_at_once(engine, group, false, peer, tag, bytes);
    enum br_received received;

    if (!counter)
        return BR_RECEIVED_NOT;
    awaited->tag = br_tag_p2p(group->number, counter->next, tag);
    awaited->rank = br_group_in_job(group, peer);
    awaited->length = (uint32_t)bytes;
    awaited->check = p2p_digest(engine, bytes);
    awaited->memory = memory;
    received = br_worker_receive(engine->worker, awaited, waits);
    if (received == BR_RECEIVED_NOT)
        return BR_RECEIVED_NOT;
    *number = counter->next++;
    engine->groups[group->number] = group;
    if (received == BR_RECEIVED)
        group->unreceived--;
    return received;
}

bool br_engine_awaited(struct br_group *group, struct br_awaited *awaited)
{
    br_list_remove(&awaited->node);
    if (awaited->came)
        group->unreceived--;
    return awaited->came;
}

/* ---- what the worker has finished ------------------------------------------------------------ */

static void p2p_part_ended(struct br_engine *engine, struct br_operation *op, struct br_transfer *t)
{
    br_staging_put(engine, &op->parts.staging[t - op->parts.transfers]);
    if (++op->parts.ended == op->parts.count)
        br_operation_end(engine, op, 0);
    else if (op->parts.next < op->parts.count)
        p2p_post(engine, op, t);
}

static void p2p_stored(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_staging *staged = br_container_of(batch, struct br_staging, batch);
    struct br_operation *op = staged->owner;

    p2p_part_ended(engine, op, &op->parts.transfers[staged - op->parts.staging]);
}

void br_p2p_transfer_ended(struct br_engine *engine, struct br_operation *op, struct br_transfer *t)
{
    if (!is_send(op) &&
        br_staging_part_store(engine, op, (int)(t - op->parts.transfers), p2p_stored))
        return;
    if (is_send(op) || br_staging_part_flush(engine, op, t))
        p2p_part_ended(engine, op, t);
}
