/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on streams of the program's GPUs (gpu.h). What stands in the stream: gpu/passage.h.
 *
 * 1. Here such an operation is one on host memory like any other, in place of the GPU's that which the stream copies there and
 *    back. It differs by its beginning and its end: it begins when its passage has arrived, and its end releases the passage
 *    instead of telling a caller.
 * 2. Collectives of a communicator begin in the order of their submission. While one waits for its stream, those behind it wait with it: in
 *    `held`. Rejected: to let them overtake. Then ranks begin them in different orders, as their GPUs come, and each rank's runs, or its
 *    turn at the board, are with operations that wait for one of another rank that waits for a stream behind one of those. NCCL
 *    has the same rule. Streams that shall not wait for each other get a communicator each.
 * 3. Its place in the order, sequence number and deadline, an operation gets before it is held.
 * 4. Nobody tells the worker that a passage has arrived: it looks, more seldom the longer it waits, so that a stream that computes for a
 *    long time costs little, and the look comes late by at most a 16th of what was waited for.
 */
#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "gpu/passage.h"
#include "gpu/pointer.h"

#define LEAST_LOOK BR_STAGE_LOOK
#define MOST_LOOK  (50 * BR_STAGE_LOOK)

/* ---- host memory ----------------------------------------------------------------------------- */

static void *take(void *family, size_t bytes)
{
    return braid_alloc(((struct br_family *)family)->first, bytes);
}

static void give_back(void *family, void *memory)
{
    braid_free(((struct br_family *)family)->first, memory);
}

int br_streams_create(struct br_family *family)
{
    pthread_mutex_init(&family->passage_lock, NULL);
    br_list_init(&family->holding);
    return br_passages_create(&(struct br_passage_memory){take, give_back, family}, &family->passages);
}

bool br_streams_bar(struct br_family *family)
{
    if (pthread_mutex_trylock(&family->passage_lock))
        return false;
    if (br_passages_idle(family->passages))
        return true;
    pthread_mutex_unlock(&family->passage_lock);
    return false;
}

void br_streams_admit(struct br_family *family)
{
    pthread_mutex_unlock(&family->passage_lock);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void use_host_memory(struct br_operation *op)
{
    struct br_copier *copier = op->comm->family->copier;
    void *memory = br_passage_memory(op->passage);

    if (op->send_gpu) {
        br_copier_count(copier, BR_COPY_TO_HOST, op->send_bytes);
        op->send = memory;
    }
    if (op->recv_gpu) {
        br_copier_count(copier, BR_COPY_TO_GPU, op->recv_bytes);
        op->recv = memory;
    }
    op->send_gpu = op->recv_gpu = 0;
}

static int begin_and_submit(struct br_operation *op, void *stream)
{
    const struct br_passage_plan plan = {.stream = stream,
                                         .send = op->send_gpu ? op->send : NULL,
                                         .recv = op->recv_gpu ? op->recv : NULL,
                                         .bytes = op->recv_bytes};
    int rc = br_passage_begin(op->comm->family->passages, &plan, &op->passage);

    if (rc)
        return rc;
    use_host_memory(op);
    rc = br_progress_submit(op);
    if (rc)
        br_passage_release(op->passage);
    return rc;
}

int br_stream_submit(struct br_operation *op, void *stream)
{
    struct br_family *family = op->comm->family;
    int rc = braid_comm_error(op->comm);

    rc = rc ? br_error_prefix(-ECANCELED, "the communicator has failed before: ") : br_gpu_check();
    pthread_mutex_lock(
        &family->passage_lock); /* operations are submitted in the order in which they are in the stream */
    if (!rc)
        rc = begin_and_submit(op, stream);
    pthread_mutex_unlock(&family->passage_lock);
    if (rc)
        br_comm_put_operation(op);
    return rc;
}

/* ---- those that wait ------------------------------------------------------------------------- */

static bool has_arrived(const struct br_operation *op)
{
    return !op->passage || br_passage_arrived(op->passage);
}

static struct br_operation *first(const struct br_list *held)
{
    return br_container_of(held->next, struct br_operation, node);
}

bool br_stream_holds(struct br_operation *op)
{
    struct braid_comm *comm = op->comm;

    if (op->kind != BR_OPERATION_COLLECTIVE || (br_list_empty(&comm->held) && has_arrived(op)))
        return false;
    if (br_list_empty(&comm->held))
        br_list_push_back(&comm->family->holding, &comm->holding);
    br_list_init(&op->node);
    br_list_push_back(&comm->held, &op->node);
    return true;
}

static void check_deadlines(struct braid_comm *comm, uint64_t now)
{
    struct br_worker *w = comm->family->worker;
    char words[sizeof w->words];
    size_t used;

    br_list_for_each (node, &comm->held) {
        const struct br_operation *op = br_container_of(node, struct br_operation, node);

        if (op->deadline > now)
            continue;
        used = br_operation_describe(op, words, sizeof words);
        snprintf(words + used, sizeof words - used,
                 " missed its deadline of %llu ms: waits for work before %s in a stream of a GPU",
                 (unsigned long long)(op->timeout / 1000000), op == first(&comm->held) ? "it" : "another");
        br_worker_fail(w, ETIMEDOUT, words);
        return;
    }
}

static int step(struct braid_comm *comm, uint64_t now)
{
    struct br_worker *w = comm->family->worker;
    int n = 0;

    for (; !br_list_empty(&comm->held); n++) {
        struct br_operation *op = first(&comm->held);

        if (!w->failed && !has_arrived(op))
            break;
        br_list_remove(&op->node);
        if (br_list_empty(&comm->held))
            br_list_remove(&comm->holding);
        if (w->failed)
            br_progress_fail(op);
        else
            br_comm_begin_operation(op, now);
    }
    check_deadlines(comm, now);
    return n;
}

int br_stream_step(struct br_family *family, uint64_t now)
{
    int n = 0;

    br_list_for_each_safe (node, &family->holding)
        n += step(br_container_of(node, struct braid_comm, holding), now);
    return n;
}

uint64_t br_stream_oldest(const struct br_family *family)
{
    uint64_t oldest = UINT64_MAX;

    br_list_for_each (node, &family->holding) {
        uint64_t order = first(&br_container_of(node, struct braid_comm, holding)->held)->order;

        if (order < oldest)
            oldest = order;
    }
    return oldest;
}

uint64_t br_stream_next_look(const struct br_family *family, uint64_t now)
{
    uint64_t least = UINT64_MAX;

    br_list_for_each (node, &family->holding) {
        const struct br_operation *op = first(&br_container_of(node, struct braid_comm, holding)->held);
        uint64_t look = (now - (op->deadline - op->timeout)) / 16; /* note 4 */

        look = look < LEAST_LOOK ? LEAST_LOOK : look > MOST_LOOK ? MOST_LOOK : look;
        if (look < least)
            least = look;
    }
    return least == UINT64_MAX ? UINT64_MAX : now + least;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Nobody asks for its result, so an error of it alone (an algorithm that does not exist) is the communicator's, too. */
void br_stream_end(struct br_operation *op)
{
    struct br_worker *w = op->comm->family->worker;

    if (op->status && !w->failed)
        br_worker_fail(w, -op->status, op->words);
    br_passage_release(op->passage);
    br_comm_put_operation(op);
}
