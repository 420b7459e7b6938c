/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments of collectives: [scratch | copy of the input | copy of the output], in the run's host memory. A copy holds the fragment's range
 * of each block, one behind the other. */
#include "collectives/engine_internal.h"
#include "collectives/stage.h"
#include "collectives/type.h"

#define ALIGNMENT 256u

static uint32_t blocks(const struct br_operation *op, enum br_buffer buffer)
{
    return br_collective_blocks(op->collective, (uint32_t)op->group->size, buffer);
}

static bool is_staged(const struct br_operation *op, enum br_buffer buffer)
{
    return op->kind == BR_OPERATION_COLLECTIVE &&
           (buffer == BR_INPUT ? op->send_gpu && op->send_bytes : op->recv_gpu && op->recv_bytes);
}

static size_t copy_bytes(const struct br_operation *op, enum br_buffer buffer, size_t elements)
{
    size_t bytes = is_staged(op, buffer) ? blocks(op, buffer) * elements * br_type_size(op->type) : 0;

    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t br_stage_run_bytes(const struct br_operation *op, size_t elements)
{
    size_t bytes = copy_bytes(op, BR_INPUT, elements) + copy_bytes(op, BR_OUTPUT, elements);

    return bytes ? bytes + ALIGNMENT : 0;
}

static bool run_stages(const struct br_run *run, enum br_buffer buffer)
{
    return !run->direct.gpu && is_staged(run->op, buffer);
}

int br_stage_run_gpu(const struct br_run *run, uint32_t buffer)
{
    if (buffer == BR_SCRATCH || !run_stages(run, buffer))
        return 0;
    return buffer == BR_INPUT ? run->op->send_gpu : run->op->recv_gpu;
}

uint8_t *br_stage_run_block(const struct br_run *run, uint32_t buffer, size_t block)
{
    const struct br_operation *op = run->op;
    size_t at = (run->scratch_used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    if (!run_stages(run, buffer))
        return NULL;
    if (buffer == BR_OUTPUT)
        at += copy_bytes(op, BR_INPUT, run->elements);
    return run->scratch + at + block * run->elements * br_type_size(op->type);
}

static uint8_t *user_block(const struct br_run *run, enum br_buffer buffer, size_t block)
{
    const struct br_operation *op = run->op;
    uint8_t *base = buffer == BR_INPUT ? (uint8_t *)(uintptr_t)op->send : op->recv;

    return base + (block * op->count + run->first) * br_type_size(op->type);
}

/* Blocks [first, last) of one buffer, there or back. */
static bool copy(struct br_engine *engine, struct br_run *run, enum br_buffer buffer,
                 enum br_copy_direction direction, size_t first, size_t last)
{
    int gpu = buffer == BR_INPUT ? run->op->send_gpu : run->op->recv_gpu;
    size_t bytes = run->elements * br_type_size(run->op->type);
    bool ok = true;

    for (size_t b = first; b < last && ok; b++) {
        uint8_t *host = br_stage_run_block(run, buffer, b), *user = user_block(run, buffer, b);

        ok = br_stage_copy(engine, gpu, direction, direction == BR_COPY_TO_HOST ? host : user,
                           direction == BR_COPY_TO_HOST ? user : host, bytes);
    }
    return ok;
}

/* In place: of the output, the blocks that are input (schedule.h, note 3). */
static void input_in_output(const struct br_operation *op, size_t *first, size_t *last)
{
    bool own = op->collective == BR_ALLGATHER || op->collective == BR_GATHER;

    *first = own ? (size_t)op->group->rank : 0;
    *last = own ? *first + 1 : blocks(op, BR_OUTPUT);
}

bool br_stage_run_load(struct br_engine *engine, struct br_run *run,
                       void (*then)(struct br_engine *, struct br_batch *))
{
    const struct br_operation *op = run->op;
    bool input = run_stages(run, BR_INPUT), output = run->schedule->in_place && run_stages(run, BR_OUTPUT);
    size_t first, last;

    if (!run->elements || (!input && !output))
        return false;
    /* In place nothing but reduce-scatter and scatter read the input as such. */
    if (input && (!output || blocks(op, BR_INPUT) > blocks(op, BR_OUTPUT)))
        copy(engine, run, BR_INPUT, BR_COPY_TO_HOST, 0, blocks(op, BR_INPUT));
    if (output) {
        input_in_output(op, &first, &last);
        copy(engine, run, BR_OUTPUT, BR_COPY_TO_HOST, first, last);
    }
    br_stage_go(engine, &run->batch, input ? op->send_gpu : op->recv_gpu, BR_COPY_TO_HOST, then);
    return true;
}

bool br_stage_run_store(struct br_engine *engine, struct br_run *run,
                        void (*then)(struct br_engine *, struct br_batch *))
{
    if (!run->elements || !run_stages(run, BR_OUTPUT))
        return false;
    copy(engine, run, BR_OUTPUT, BR_COPY_TO_GPU, 0, blocks(run->op, BR_OUTPUT));
    br_stage_go(engine, &run->batch, run->op->recv_gpu, BR_COPY_TO_GPU, then);
    return true;
}
