/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts that follow each other share a request (PUTS), which is a transfer as any other:
 * rails, priorities, credits and links that are lost are no matter of this file.
 *
 * 1. A put is appended to the last request as long as that is queued and the last in its queue, so
 *    that it overtakes nothing. Its bytes are copied, so nothing refers to the caller's memory.
 * 2. The puts of a request have consecutive numbers, so that the number of an answer says which put
 *    it is for, and a PUT_DONE has room for many of them. Another access ends the request.
 * 3. PUT_DONE ends puts here. A put that is refused has an answer of its own, which waits as an
 *    unexpected message until its caller makes an operation of it (collectives/comm/posted.c), as
 *    it does with all that take long.
 */
#include "protocol/put_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "protocol/internal.h"

#define BATCHES     16u         /* under way at a time */
#define BATCH_BYTES (16u << 10) /* of a request, at most */

struct br_put_batch {
    struct br_list node; /* in `under_way` or `unused` */
    struct br_transfer request;
    struct br_message message;
    uint64_t number, first; /* of the first of them; tag of the answer to it */
    /* those that wait for their answer; NULL: they do not any more */
    struct br_small_put *puts[BR_PUTS_OF_REQUEST];
    uint32_t waiting;
    bool left;       /* br_worker_done() has given the request back */
    uint8_t *memory; /* BATCH_BYTES */
};

int br_put_batches_create(struct br_worker *w)
{
    struct br_put_batches *all = &w->puts;

    br_list_init(&all->under_way);
    br_list_init(&all->unused);
    br_list_init(&all->ended);
    all->batches = calloc(BATCHES, sizeof *all->batches);
    all->memory = malloc((size_t)BATCHES * BATCH_BYTES);
    if (!all->batches || !all->memory)
        return br_error(ENOMEM, "rank %d: no memory for small puts", w->config.rank);
    for (uint32_t i = 0; i < BATCHES; i++) {
        all->batches[i].memory = all->memory + (size_t)i * BATCH_BYTES;
        br_list_push_back(&all->unused, &all->batches[i].node);
    }
    return 0;
}

void br_put_batches_destroy(struct br_worker *w)
{
    free(w->puts.batches);
    free(w->puts.memory);
}

/* ---- requests -------------------------------------------------------------------------------- */

static uint32_t length_with(const struct br_put_batch *batch, const struct br_small_put *put)
{
    return batch->request.length + (uint32_t)sizeof put->entry + put->entry.bytes;
}

/* Has the request not left, and is there room in it? */
static bool batch_takes(const struct br_worker *w, const struct br_put_batch *batch,
                        const struct br_small_put *put)
{
    const struct br_transfer *t = &batch->request;
    uint32_t length = length_with(batch, put);

    return t->state == BR_TRANSFER_QUEUED && t->peer == put->rank && t->priority == put->priority &&
           batch->message.puts.check == put->check &&
           batch->message.puts.count < BR_PUTS_OF_REQUEST && length <= BATCH_BYTES &&
           br_peer_takes_eagerly(w, put->rank, BR_TAG_ONESIDED, length) &&
           t->queued.queue->entries.prev == &t->queued.node;
}

static void batch_add(struct br_put_batch *batch, struct br_small_put *put, const void *memory)
{
    uint8_t *end = batch->memory + batch->request.length;

    memcpy(end, &put->entry, sizeof put->entry);
    memcpy(end + sizeof put->entry, memory, put->entry.bytes);
    batch->request.length = batch->message.bytes = length_with(batch, put);
    put->batch = batch;
    put->place = batch->message.puts.count++;
    put->tag = br_tag_of_later(batch->first, put->place);
    batch->puts[put->place] = put;
    batch->waiting++;
}

/* A new request, with nothing in it. */
static void batch_begin(struct br_worker *w, struct br_put_batch *batch,
                        const struct br_small_put *put, uint64_t order, uint64_t number)
{
    uint64_t counter = number << 1 | (w->config.rank > put->rank);
    struct br_transfer *t = &batch->request;

    br_transfer_clear(t);
    t->tag = br_tag_onesided(counter, BR_PART_REQUEST);
    t->peer = put->rank;
    t->memory = batch->memory;
    t->priority = put->priority;
    t->order = order;
    t->request = &batch->message;
    t->owner = &w->puts;
    batch->message = (struct br_message){.type = BR_MESSAGE_PUTS, .puts.check = put->check};
    batch->first = br_tag_with_part(t->tag, BR_PART_STATUS);
    batch->number = number;
    batch->waiting = 0;
    batch->left = false;
}

bool br_worker_put(struct br_worker *w, struct br_small_put *put, const void *memory,
                   uint64_t order, uint64_t *numbers)
{
    struct br_put_batches *all = &w->puts;
    struct br_put_batch *batch;

    if (w->failed)
        return false;
    if (!br_list_empty(&all->under_way)) {
        batch = br_container_of(all->under_way.prev, struct br_put_batch, node);
        if (batch->number + batch->message.puts.count == *numbers && batch_takes(w, batch, put)) {
            batch_add(batch, put, memory);
            ++*numbers;
            return true;
        }
    }
    if (br_list_empty(&all->unused) ||
        !br_peer_takes_eagerly(w, put->rank, BR_TAG_ONESIDED,
                               (uint32_t)sizeof put->entry + put->entry.bytes))
        return false;
    batch = br_container_of(all->unused.next, struct br_put_batch, node);
    batch_begin(w, batch, put, order, *numbers);
    batch_add(batch, put, memory);
    if (br_transfer_send(w, &batch->request))
        return false;
    ++*numbers;
    br_list_remove(&batch->node);
    br_list_push_back(&all->under_way, &batch->node);
    return true;
}

/* It has left, and nobody waits for an answer to it. */
static void batch_check_end(struct br_put_batches *all, struct br_put_batch *batch)
{
    if (batch->waiting || !batch->left)
        return;
    br_list_remove(&batch->node);
    br_list_push_front(&all->unused, &batch->node);
}

void br_put_batch_left(struct br_worker *w, struct br_transfer *request)
{
    struct br_put_batch *batch = br_container_of(request, struct br_put_batch, request);

    batch->left = true;
    batch_check_end(&w->puts, batch);
}

/* ---- answers --------------------------------------------------------------------------------- */

void br_worker_put_forget(struct br_worker *w, struct br_small_put *put)
{
    struct br_put_batch *batch = put->batch;

    batch->puts[put->place] = NULL;
    batch->waiting--;
    batch_check_end(&w->puts, batch);
}

bool br_put_batch_done(struct br_worker *w, int rank, uint64_t tag)
{
    br_list_for_each (node, &w->puts.under_way) {
        struct br_put_batch *batch = br_container_of(node, struct br_put_batch, node);
        uint64_t behind = tag - batch->first;
        struct br_small_put *put;

        if (batch->request.peer != rank || behind % 8 || behind / 8 >= batch->message.puts.count ||
            !(put = batch->puts[behind / 8]))
            continue;
        br_worker_put_forget(w, put);
        br_list_push_back(&w->puts.ended, &put->node);
        return true;
    }
    return false;
}
