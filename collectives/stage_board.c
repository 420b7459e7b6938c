/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on the board: the whole of the user's memory, a few KiB, in one buffer: [what is read | what is written]. */
#include "collectives/engine_internal.h"
#include "collectives/stage.h"

#define ALIGNMENT 256u

static void loaded(struct br_engine *engine, struct br_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, board.batch);

    op->board.lost = engine->worker->failed != 0;
    if (op->board.ends) /* the worker failed before */
        br_list_push_back(&engine->ended, &op->node);
}

static bool copies(const struct br_operation *op)
{
    return !br_list_empty(&op->board.batch.node);
}

bool br_stage_board_begin(struct br_engine *engine, struct br_operation *op)
{
    struct br_staged *s = &op->board;
    size_t behind = (op->send_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    s->send = op->send;
    s->recv = op->recv;
    s->ends = s->lost = false;
    br_list_init(&s->batch.node);
    s->buffer = br_stage_get(engine, op->send_gpu ? op->send_gpu : op->recv_gpu, behind + op->recv_bytes);
    if (!s->buffer)
        return false;
    if (op->recv_gpu && op->recv_bytes)
        op->recv = s->buffer->memory + behind;
    if (!op->send_gpu || !op->send_bytes)
        return true;
    op->send = s->buffer->memory;
    br_stage_copy(engine, op->send_gpu, BR_COPY_TO_HOST, s->buffer->memory, s->send, op->send_bytes);
    br_stage_go(engine, &s->batch, op->send_gpu, BR_COPY_TO_HOST, loaded);
    return true;
}

bool br_stage_board_ready(const struct br_operation *op)
{
    return !op->board.buffer || (!copies(op) && !op->board.lost);
}

int br_stage_board_gpu(const struct br_operation *op)
{
    bool has_one = op->board.buffer || op->local_way == BR_LOCAL_SHARES;

    return has_one && op->board.batch.copy.event ? op->board.batch.copy.gpu : 0;
}

static void give_back(struct br_engine *engine, struct br_operation *op)
{
    op->send = op->board.send;
    op->recv = op->board.recv;
    br_stage_put(engine, &op->board);
}

static void stored(struct br_engine *engine, struct br_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, board.batch);

    if (engine->worker->failed && !op->status)
        br_operation_fail(engine, op);
    br_list_remove(&op->node);
    br_list_push_back(&engine->ended, &op->node);
}

static void store(struct br_engine *engine, struct br_operation *op)
{
    struct br_staged *s = &op->board;

    br_list_push_back(&engine->storing, &op->node);
    br_overdue_expect(engine, op);
    br_stage_copy(engine, op->recv_gpu, BR_COPY_TO_GPU, s->recv, op->recv, op->recv_bytes);
    br_stage_go(engine, &s->batch, op->recv_gpu, BR_COPY_TO_GPU, stored);
}

bool br_stage_board_end(struct br_engine *engine, struct br_operation *op)
{
    struct br_staged *s = &op->board;

    if (!s->buffer)
        return false;
    if (s->ends || (!copies(op) && (op->status || !op->recv_gpu || !op->recv_bytes))) {
        give_back(engine, op);
        return false;
    }
    s->ends = true;
    br_list_init(&op->node);
    if (!copies(op))
        store(engine, op);
    return true;
}
