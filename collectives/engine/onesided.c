/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided access, the requester's side; the target's is protocol/onesided.c. Each part has up to
 * three transfers: the request, the data, and the answer, by which the target says that the bytes
 * are where they should be, or why not. A get that succeeds has no answer but its data. What will
 * be received is posted before the request leaves, so that the target never waits. Parts follow one
 * after the other.
 *
 * Small data of a put and the operands of an atomic are the payload of the request: one round trip,
 * where a large put takes two (request and READY, data and answer). The data of a get have a READY
 * of their own, which leaves with the request: one round trip as well.
 *
 * Memory of a GPU that NICs do not reach is staged (staging.h): what a put sends is copied before
 * anything of the part is posted.
 */
#include "collectives/engine/internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clear.h"
#include "base/error.h"

enum { REQUEST = BR_PART_REQUEST, DATA = BR_PART_DATA, STATUS = BR_PART_STATUS, TRANSFERS };

static const struct {
    const char *name;
    enum br_message_type type;
    enum br_atomic operation;
    bool atomic;
} kinds[] = {
    [BR_OPERATION_PUT] = {.name = "put", .type = BR_MESSAGE_PUT},
    [BR_OPERATION_GET] = {.name = "get", .type = BR_MESSAGE_GET},
    [BR_OPERATION_ADD] = {"fetch-and-add", BR_MESSAGE_ATOMIC, BR_ATOMIC_ADD, true},
    [BR_OPERATION_SWAP] = {"compare-and-swap", BR_MESSAGE_ATOMIC, BR_ATOMIC_SWAP, true},
    [BR_OPERATION_FLUSH] = {.name = "flush"},
};

const char *br_onesided_name(const struct br_operation *op)
{
    return kinds[op->kind].name;
}

static uint8_t *onesided_own_region(const struct br_operation *op, size_t offset)
{
    uint8_t *base = op->kind == BR_OPERATION_PUT ? (uint8_t *)(uintptr_t)op->send : op->recv;

    return base + offset;
}

/* The put notifies with its last part. */
static bool part_notifies(const struct br_operation *op)
{
    return op->notifies && op->parts.next >= op->parts.count;
}

/* What the request carries, and how much: NULL, 0: nothing, the data go by themselves. */
static void *onesided_is_inline(struct br_engine *engine, struct br_operation *op, size_t offset,
                                uint32_t *length)
{
    if (kinds[op->kind].atomic) {
        *length = sizeof op->operands;
        return &op->operands;
    }
    if (op->kind == BR_OPERATION_PUT &&
        br_transfer_is_eager(engine->worker, (int)op->key.rank, BR_TAG_ONESIDED,
                             *length + (part_notifies(op) ? (uint32_t)sizeof op->notify : 0)))
        return onesided_own_region(op, offset);
    *length = 0;
    return NULL;
}

/* Only for those that travel: it is 300 bytes. */
static void onesided_fill_transfer(struct br_operation *op, enum br_onesided_part part,
                                   uint64_t counter)
{
    struct br_transfer *t = &op->parts.transfers[part];

    br_transfer_clear(t);
    t->tag = br_tag_onesided(counter, part);
    t->peer = (int)op->key.rank;
    t->priority = op->priority;
    t->order = op->order;
    t->owner = op;
    t->traced = op->traced;
}

static void engine_onesided_fill(struct br_engine *engine, struct br_operation *op, size_t offset,
                                 uint32_t length)
{
    bool larger =
        /* two ranks may reach for each other at once */
        (uint32_t)engine->config.rank > op->key.rank;
    uint64_t counter = engine->onesided++ << 1 | larger;
    struct br_transfer *t = op->parts.transfers;

    onesided_fill_transfer(op, BR_PART_REQUEST, counter);
    onesided_fill_transfer(op, BR_PART_STATUS, counter);
    op->parts.request = (struct br_message){
        .type = (uint8_t)kinds[op->kind].type,
        .bytes = length,
        .onesided = {.offset = op->offset + offset,
                     .check = op->key.check,
                     .region = op->key.id,
                     .operation = kinds[op->kind].operation},
    };
    if (part_notifies(op)) {
        op->parts.request.flags = BR_PUT_NOTIFIES;
        t[REQUEST].notify = &op->notify;
    }
    t[REQUEST].request = &op->parts.request;
    t[REQUEST].length = length;
    t[REQUEST].memory = onesided_is_inline(engine, op, offset, &t[REQUEST].length);
    op->parts.released = t[REQUEST].memory || !length ? 1u << DATA : 0;
    if (op->parts.released)
        t[DATA].state = BR_TRANSFER_IDLE; /* it does not travel, but may be staged */
    else
        onesided_fill_transfer(op, BR_PART_DATA, counter);
    t[DATA].memory = onesided_own_region(op, offset);
    t[DATA].length = length;
    t[DATA].region = op->kind == BR_OPERATION_PUT ? op->send_region : op->recv_region;
    t[DATA].rendezvous = true;
    t[STATUS].memory = &op->parts.answer;
    t[STATUS].length = kinds[op->kind].atomic ? sizeof op->parts.answer : BR_ANSWER_BYTES;
}

static void post_filled(struct br_engine *engine, struct br_operation *op)
{
    struct br_transfer *t = op->parts.transfers;
    int rc;

    rc = br_transfer_receive(engine->worker, &t[STATUS]);
    /* before a get's READY, so that no READY waits at the target for a request that has no
     * credit */
    if (!rc)
        rc = br_transfer_send(engine->worker, &t[REQUEST]);
    if (!rc && !op->parts.released)
        rc = op->kind == BR_OPERATION_PUT ? br_transfer_send(engine->worker, &t[DATA])
                                          : br_transfer_receive(engine->worker, &t[DATA]);
    if (rc)
        br_p2p_failed(engine, rc, br_onesided_name(op), (int)op->key.rank);
}

static int engine_onesided_misaligned(const struct br_operation *op)
{
    return br_error(EINVAL, "offset %llu of region %u of rank %u is not on a multiple of 8 bytes",
                    (unsigned long long)op->offset, op->key.id, op->key.rank);
}

static int no_atomics(const struct br_operation *op)
{
    return br_error(
        EOPNOTSUPP,
        "region %u of rank %u is memory of a GPU, where there is no %s: the number must stand in "
        "host memory",
        op->key.id, op->key.rank, br_onesided_name(op));
}

static void engine_onesided_loaded(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_staging, batch)->owner;
    struct br_transfer *t = op->parts.transfers;

    if (t[REQUEST].memory) /* it carries the data */
        t[REQUEST].memory = t[DATA].memory;
    post_filled(engine, op);
}

static void engine_onesided_post(struct br_engine *engine, struct br_operation *op)
{
    size_t offset = (size_t)op->parts.next++ * BR_MAX_TRANSFER, left = op->count - offset;
    bool direct;

    engine_onesided_fill(engine, op, offset,
                         left < BR_MAX_TRANSFER ? (uint32_t)left : BR_MAX_TRANSFER);
    direct = op->parts.transfers[DATA].region && op->parts.transfers[DATA].region->gpu &&
             !op->parts.transfers[REQUEST].memory; /* which the CPU copies */
    if (op->send_gpu && !direct)
        br_staging_part_load(engine, op, DATA, op->send_gpu, engine_onesided_loaded);
    else if (!op->recv_gpu || direct || br_staging_part_get(engine, op, DATA, op->recv_gpu))
        post_filled(engine, op);
}

/* The target has no such region: of the bytes, if there are any, or of the number. */
static void onesided_stale_words(struct br_operation *op)
{
    bool signals = op->notifies && op->notify.region, bytes = op->count || !signals;
    char of_bytes[80] = "", of_number[80] = "";

    if (bytes)
        snprintf(of_bytes, sizeof of_bytes, "region %u that holds %zu bytes at offset %llu",
                 op->key.id, op->count, (unsigned long long)op->offset);
    if (signals)
        snprintf(of_number, sizeof of_number, "region %u that holds 8 bytes at offset %llu",
                 op->notify.region, (unsigned long long)op->notify.offset);
    snprintf(op->message, sizeof op->message,
             "rank %u has no %s%s%s: the key is stale, of another job or too short", op->key.rank,
             of_bytes, bytes && signals ? ", or no " : "", of_number);
}

/* The words of a target that has refused. Returns the status of the operation. */
static int onesided_refused_words(struct br_operation *op, int rc)
{
    if (rc == -EOPNOTSUPP) {
        snprintf(op->message, sizeof op->message,
                 "rank %u does not know this operation: is it of the same version?", op->key.rank);
    } else if ((rc == -EINVAL || rc == -EFAULT) && op->notifies) {
        rc = rc == -EINVAL ? rc : -EOPNOTSUPP;
        snprintf(op->message, sizeof op->message,
                 "offset %llu of region %u of rank %u is %s: no put can add to a number there",
                 (unsigned long long)op->notify.offset, op->notify.region, op->key.rank,
                 rc == -EINVAL ? "not on a multiple of 8 bytes" : "memory of a GPU");
    } else if ((rc == -EINVAL || rc == -EFAULT) && kinds[op->kind].atomic) {
        rc = rc == -EINVAL ? engine_onesided_misaligned(op) : no_atomics(op);
        snprintf(op->message, sizeof op->message, "%s", br_error_message());
    } else {
        onesided_stale_words(op);
    }
    return rc < 0 ? rc : -EPROTO;
}

/* What a put to ourselves notifies of. */
static void end_self(struct br_engine *engine, struct br_operation *op)
{
    const struct br_worker_config *w = &engine->worker->config;
    const struct br_operands operands = {.value = op->notify.value};
    struct br_region *region;
    uint64_t before;
    void *memory;
    int rc = 0, gpu;

    if (op->notifies && op->notify.region) {
        gpu = w->region_find(w->region_context, op->notify.region, op->notify.offset, sizeof before,
                             &memory, &region);
        rc = gpu < 0 ? gpu
             : gpu   ? -EFAULT
                     : br_onesided_change(memory, (enum br_atomic)op->notify.operation, &operands,
                                          &before);
        if (gpu >= 0)
            w->region_done(w->region_context, region);
    } else if (op->notifies) {
        rc = br_notifications_add(&engine->notifications, op->notify.group, engine->config.rank,
                                  op->notify.value);
        if (rc)
            br_worker_fail(engine->worker, ENOMEM, br_error_message());
    }
    if (rc)
        rc = onesided_refused_words(op, rc);
    br_operation_end(engine, op, rc);
}

static void onesided_copied_self(struct br_engine *engine, struct br_copy_batch *batch)
{
    struct br_operation *op =
        br_container_of(batch, struct br_operation, parts.staging[DATA].batch);
    const struct br_worker_config *w = &engine->worker->config;

    w->region_done(w->region_context, op->parts.staging[DATA].user);
    end_self(engine, op);
}

static void copy_self_failed(struct br_engine *engine, struct br_copy_batch *batch)
{
    const struct br_worker_config *w = &engine->worker->config;

    w->region_done(w->region_context, br_container_of(batch, struct br_staging, batch)->user);
}

/* target_gpu: that the region lies on; 0: it is host memory. */
static void copy_staged_self(struct br_engine *engine, struct br_operation *op, void *memory,
                             struct br_region *region, int target_gpu)
{
    bool put = op->kind == BR_OPERATION_PUT;
    int from = put ? op->send_gpu : target_gpu, to = put ? target_gpu : op->recv_gpu;
    enum br_copy_direction direction = to ? BR_COPY_TO_GPU : BR_COPY_TO_HOST;
    struct br_staging *s = &op->parts.staging[DATA];

    s->user = region;
    br_list_push_back(&engine->messages, &op->node);
    br_staging_copy(engine, to ? to : from, direction, put ? memory : op->recv,
                    put ? op->send : memory, op->count);
    br_staging_submit(engine, &s->batch, to ? to : from, direction, onesided_copied_self,
                      copy_self_failed);
}

/* Host memory of our own, in the region, and the caller's. */
static int onesided_self_host(struct br_engine *engine, struct br_operation *op, void *memory,
                              struct br_region *region)
{
    const struct br_worker_config *w = &engine->worker->config;
    uint64_t before;
    int rc = 0;

    if (kinds[op->kind].atomic)
        rc = br_onesided_change(memory, kinds[op->kind].operation, &op->operands, &before);
    else if (op->kind == BR_OPERATION_PUT)
        memmove(memory, op->send, op->count);
    else
        memmove(op->recv, memory, op->count);
    w->region_done(w->region_context, region);
    if (rc)
        return engine_onesided_misaligned(op);
    if (kinds[op->kind].atomic)
        memcpy(op->recv, &before, sizeof before);
    end_self(engine, op);
    return 0;
}

/* Memory of our own: no wire. */
static int onesided_self(struct br_engine *engine, struct br_operation *op)
{
    const struct br_worker_config *w = &engine->worker->config;
    struct br_region *region = NULL;
    void *memory = NULL;
    int gpu = -EACCES;

    if (op->key.check == w->check && w->region_find)
        gpu =
            w->region_find(w->region_context, op->key.id, op->offset, op->count, &memory, &region);
    if (gpu < 0)
        return br_error(EACCES, "rank %d has no region %u that holds %zu bytes at offset %llu",
                        engine->config.rank, op->key.id, op->count, (unsigned long long)op->offset);
    if (gpu && kinds[op->kind].atomic) {
        w->region_done(w->region_context, region);
        return no_atomics(op);
    }
    if (!gpu && !op->send_gpu && !op->recv_gpu)
        return onesided_self_host(engine, op, memory, region);
    copy_staged_self(engine, op, memory, region, gpu);
    return 0;
}

/* Its request has left, or will, without an operation: what is left is the answer. */
static void engine_onesided_go_on(struct br_engine *engine, struct br_operation *op)
{
    struct br_transfer *status = &op->parts.transfers[STATUS];
    int rc;

    op->parts.next = 1;
    op->parts.released = 1u << REQUEST | 1u << DATA;
    onesided_fill_transfer(op, BR_PART_STATUS, 0);
    status->tag = op->claim;
    status->memory = &op->parts.answer;
    status->length = BR_ANSWER_BYTES;
    br_list_push_back(&engine->messages, &op->node);
    rc = br_transfer_receive(engine->worker, status);
    if (rc)
        br_p2p_failed(engine, rc, br_onesided_name(op), (int)op->key.rank);
}

bool br_engine_put(struct br_engine *engine, struct br_small_put *put, const void *memory,
                   uint64_t order, uint64_t now)
{
    engine->worker->now = now;
    return br_worker_put(engine->worker, put, memory, order, &engine->onesided);
}

int br_onesided_submit(struct br_engine *engine, struct br_operation *op)
{
    size_t count = op->count / BR_MAX_TRANSFER + (op->count % BR_MAX_TRANSFER != 0);

    if (op->key.rank >= (uint32_t)engine->config.size)
        return br_error(EINVAL, "the key is of rank %u, there are %d", op->key.rank,
                        engine->config.size);
    if (count > UINT32_MAX)
        return br_error(E2BIG, "an access of %zu bytes is too long", op->count);
    br_clear(&op->parts, offsetof(struct br_operation_parts, transfers));
    for (int i = 0; i < TRANSFERS; i++)
        op->parts.transfers[i].state = BR_TRANSFER_IDLE; /* else they are filled in */
    op->parts.answer = (struct br_answer){0};
    op->parts.count = count ? (uint32_t)count : 1;
    if (op->awaited) {
        engine_onesided_go_on(engine, op);
        return 0;
    }
    if (!op->count && !op->notifies) {
        br_operation_end(engine, op, 0);
        return 0;
    }
    if (op->key.rank == (uint32_t)engine->config.rank && !op->count) {
        end_self(engine, op);
        return 0;
    }
    if (op->key.rank == (uint32_t)engine->config.rank)
        return onesided_self(engine, op);
    br_list_push_back(&engine->messages, &op->node);
    engine_onesided_post(engine, op);
    return 0;
}

/* The target has refused the part under way: its data does not move, or has ended. */
static void engine_onesided_refused(struct br_engine *engine, struct br_operation *op)
{
    br_staging_parts_put(engine, op);
    br_operation_end(engine, op, onesided_refused_words(op, op->parts.answer.status));
}

/* The last part is there. */
static void engine_onesided_finish(struct br_engine *engine, struct br_operation *op)
{
    if (kinds[op->kind].atomic)
        memcpy(op->recv, &op->parts.answer.before, sizeof op->parts.answer.before);
    br_operation_end(engine, op, 0);
}

/* The part has arrived, and stands in the user's memory. */
static void engine_onesided_part_ended(struct br_engine *engine, struct br_operation *op)
{
    br_staging_parts_put(engine, op);
    if (++op->parts.ended == op->parts.count)
        engine_onesided_finish(engine, op);
    else
        engine_onesided_post(engine, op);
}

static void engine_onesided_stored(struct br_engine *engine, struct br_copy_batch *batch)
{
    engine_onesided_part_ended(engine, br_container_of(batch, struct br_staging, batch)->owner);
}

void br_onesided_transfer_ended(struct br_engine *engine, struct br_operation *op,
                                struct br_transfer *t)
{
    struct br_transfer *data = &op->parts.transfers[DATA], *status = &op->parts.transfers[STATUS];
    uint32_t *back = &op->parts.released;

    *back |= 1u << (t - op->parts.transfers);
    if (!(*back & 1u << REQUEST))
        return;
    if (!(*back & 1u << STATUS)) {
        if (op->kind != BR_OPERATION_GET || !(*back & 1u << DATA) ||
            status->state == BR_TRANSFER_ENDED)
            return; /* it will come */
        br_transfer_withdraw(engine->worker, status);
    } else if (!(*back & 1u << DATA)) {
        /* Where only the notification was refused the data has left, and ends by itself. */
        if (!op->parts.answer.status ||
            (data->state != BR_TRANSFER_QUEUED && data->state != BR_TRANSFER_MATCHING))
            return; /* it will come */
        br_transfer_withdraw(engine->worker, data);
    }
    if (*back & 1u << STATUS && op->parts.answer.status)
        engine_onesided_refused(engine, op);
    else if (op->kind == BR_OPERATION_PUT ||
             (!br_staging_part_store(engine, op, DATA, engine_onesided_stored) &&
              br_staging_part_flush(engine, op, data)))
        engine_onesided_part_ended(engine, op);
}
