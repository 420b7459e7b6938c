/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get, the requester's side; the target's is protocol/onesided.c. Three transfers for each part:
 * the request, the data, and the status by which the target says that the bytes stand where they should,
 * or why not. Data and status are posted before the request leaves, so that the target never waits for us.
 * One part after the other.
 */
#include "collectives/engine_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { REQUEST = BR_PART_REQUEST, DATA = BR_PART_DATA, STATUS = BR_PART_STATUS, TRANSFERS };

static bool is_put(const struct br_operation *op)
{
    return op->kind == BR_OPERATION_PUT;
}

static uint8_t *own_memory(const struct br_operation *op, size_t offset)
{
    uint8_t *base = is_put(op) ? (uint8_t *)(uintptr_t)op->send : op->recv;

    return base + offset;
}

static void fill(struct br_engine *engine, struct br_operation *op, size_t offset, uint32_t length)
{
    bool larger =
        (uint32_t)engine->config.rank > op->key.rank; /* two ranks may reach for each other at once */
    uint64_t counter = engine->onesided++ << 1 | larger;

    op->parts.given_back = 0;
    for (int i = 0; i < TRANSFERS; i++)
        op->parts.transfers[i] = (struct br_transfer){
            .tag = br_tag_onesided(counter, (enum br_onesided_part)i),
            .peer = (int)op->key.rank,
            .priority = op->priority,
            .order = op->order,
            .owner = op,
            .traced = op->traced,
        };
    op->parts.request = (struct br_message){
        .type = is_put(op) ? BR_MESSAGE_PUT : BR_MESSAGE_GET,
        .bytes = length,
        .onesided = {.offset = op->offset + offset, .check = op->key.check, .region = op->key.id},
    };
    op->parts.transfers[REQUEST].request = &op->parts.request;
    op->parts.transfers[DATA].memory = own_memory(op, offset);
    op->parts.transfers[DATA].length = length;
    op->parts.transfers[DATA].region = is_put(op) ? op->send_region : op->recv_region;
    op->parts.transfers[DATA].rendezvous = true;
    op->parts.transfers[STATUS].memory = &op->parts.answer;
    op->parts.transfers[STATUS].length = sizeof op->parts.answer;
}

static void post(struct br_engine *engine, struct br_operation *op)
{
    size_t offset = (size_t)op->parts.next++ * BR_MAX_TRANSFER, left = op->count - offset;
    struct br_transfer *t = op->parts.transfers;
    int rc;

    fill(engine, op, offset, left < BR_MAX_TRANSFER ? (uint32_t)left : BR_MAX_TRANSFER);
    rc = br_transfer_receive(engine->worker, &t[STATUS]);
    if (!rc) /* before a get's READY, so that no READY waits at the target for a request that has no credit */
        rc = br_transfer_send(engine->worker, &t[REQUEST]);
    if (!rc)
        rc = is_put(op) ? br_transfer_send(engine->worker, &t[DATA])
                        : br_transfer_receive(engine->worker, &t[DATA]);
    if (rc)
        br_p2p_failed(engine, rc, is_put(op) ? "put" : "get", (int)op->key.rank);
}

/* Memory of our own: no wire. */
static int access_self(struct br_engine *engine, struct br_operation *op)
{
    const struct br_worker_config *w = &engine->worker->config;
    struct br_region *region = NULL;
    void *memory = NULL;
    int rc = -EACCES;

    if (op->key.check == w->check && w->region_find)
        rc = w->region_find(w->region_context, op->key.id, op->offset, op->count, &memory, &region);
    if (rc)
        return br_error(EACCES, "rank %d has no region %u that holds %zu bytes at offset %llu",
                        engine->config.rank, op->key.id, op->count, (unsigned long long)op->offset);
    memmove(is_put(op) ? memory : op->recv, is_put(op) ? op->send : memory, op->count);
    w->region_done(w->region_context, region);
    br_operation_end(engine, op, 0);
    return 0;
}

int br_access_submit(struct br_engine *engine, struct br_operation *op)
{
    size_t count = op->count / BR_MAX_TRANSFER + (op->count % BR_MAX_TRANSFER != 0);

    if (op->key.rank >= (uint32_t)engine->config.size)
        return br_error(EINVAL, "the key is of rank %u, there are %d", op->key.rank, engine->config.size);
    if (count > UINT32_MAX)
        return br_error(E2BIG, "an access of %zu bytes is too long", op->count);
    op->parts = (struct br_operation_parts){.count = (uint32_t)count};
    if (!op->count) {
        br_operation_end(engine, op, 0);
        return 0;
    }
    if (op->key.rank == (uint32_t)engine->config.rank)
        return access_self(engine, op);
    br_list_push_back(&engine->messages, &op->node);
    post(engine, op);
    return 0;
}

/* The target has refused the part under way, so its data does not move. */
static void refused(struct br_engine *engine, struct br_operation *op)
{
    snprintf(op->words, sizeof op->words,
             "rank %u has no region %u that holds %zu bytes at offset %llu: the key is stale, of another job "
             "or too short",
             op->key.rank, op->key.id, op->count, (unsigned long long)op->offset);
    br_operation_end(engine, op, op->parts.answer < 0 ? op->parts.answer : -EPROTO);
}

void br_access_transfer_ended(struct br_engine *engine, struct br_operation *op, struct br_transfer *t)
{
    struct br_transfer *data = &op->parts.transfers[DATA];
    uint32_t others = 1u << REQUEST | 1u << STATUS;

    op->parts.given_back |= 1u << (t - op->parts.transfers);
    if ((op->parts.given_back & others) != others)
        return;
    if (!(op->parts.given_back & 1u << DATA)) {
        if (!op->parts.answer || data->state == BR_TRANSFER_ENDED)
            return; /* it will come */
        br_transfer_withdraw(engine->worker, data);
    }
    if (op->parts.answer)
        refused(engine, op);
    else if (++op->parts.ended == op->parts.count)
        br_operation_end(engine, op, 0);
    else
        post(engine, op);
}
