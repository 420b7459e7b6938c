/* SPDX-License-Identifier: BSD-3-Clause */
/* Fragments of collectives: [scratch | copy of the input | copy of the output], in the run's host
 * memory. A copy holds the fragment's range of each block, one behind the other. */
#include "collectives/engine/blocks.h"
#include "collectives/engine/internal.h"
#include "collectives/engine/staging.h"
#include "collectives/schedule/type.h"

static uint32_t staging_fragment_blocks(const struct br_operation *op, enum br_buffer buffer)
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
    size_t bytes = is_staged(op, buffer)
                       ? staging_fragment_blocks(op, buffer) * elements * br_type_size(op->type)
                       : 0;

    return (bytes + BR_STAGING_ALIGNMENT - 1) / BR_STAGING_ALIGNMENT * BR_STAGING_ALIGNMENT;
}

size_t br_staging_fragment_bytes(const struct br_operation *op, size_t elements)
{
    size_t bytes = copy_bytes(op, BR_INPUT, elements) + copy_bytes(op, BR_OUTPUT, elements);

    return bytes ? bytes + BR_STAGING_ALIGNMENT : 0;
}

static bool fragment_is_staged(const struct br_fragment *fragment, enum br_buffer buffer)
{
    return !fragment->pipeline.gpu && is_staged(fragment->op, buffer);
}

int br_staging_fragment_gpu(const struct br_fragment *fragment, uint32_t buffer)
{
    if (buffer == BR_SCRATCH || !fragment_is_staged(fragment, buffer))
        return 0;
    return buffer == BR_INPUT ? fragment->op->send_gpu : fragment->op->recv_gpu;
}

uint8_t *br_staging_fragment_block(const struct br_fragment *fragment, uint32_t buffer,
                                   size_t block)
{
    const struct br_operation *op = fragment->op;
    size_t at = (fragment->scratch_used + BR_STAGING_ALIGNMENT - 1) / BR_STAGING_ALIGNMENT *
                BR_STAGING_ALIGNMENT;

    if (!fragment_is_staged(fragment, buffer))
        return NULL;
    if (buffer == BR_OUTPUT)
        at += copy_bytes(op, BR_INPUT, fragment->elements);
    return fragment->scratch + at + block * fragment->elements * br_type_size(op->type);
}

/* Blocks [first, last) of one buffer, there or back. */
static bool staging_fragment_copy(struct br_engine *engine, struct br_fragment *fragment,
                                  enum br_buffer buffer, enum br_copy_direction direction,
                                  size_t first, size_t last)
{
    const struct br_operation *op = fragment->op;
    int gpu = buffer == BR_INPUT ? op->send_gpu : op->recv_gpu;
    uint8_t *base = buffer == BR_INPUT ? (uint8_t *)(uintptr_t)op->send : op->recv;
    size_t size = br_type_size(op->type);
    bool ok = true;

    for (size_t b = first; b < last && ok; b++) {
        struct br_block_range range = br_block_range(op, buffer, b, fragment->index);
        uint8_t *host = br_staging_fragment_block(fragment, buffer, b),
                *user = base + (br_block_offset(op, buffer, b) + range.first) * size;

        if (range.elements)
            ok = br_staging_copy(engine, gpu, direction, direction == BR_COPY_TO_HOST ? host : user,
                                 direction == BR_COPY_TO_HOST ? user : host, range.elements * size);
    }
    return ok;
}

/* In place: of the output, the blocks that are input (doc/design/schedule.md, 3). */
static void input_in_output(const struct br_operation *op, size_t *first, size_t *last)
{
    bool own = op->collective == BR_ALLGATHER || op->collective == BR_GATHER;

    *first = own ? (size_t)op->group->rank : 0;
    *last = own ? *first + 1 : staging_fragment_blocks(op, BR_OUTPUT);
}

bool br_staging_fragment_load(struct br_engine *engine, struct br_fragment *fragment,
                              void (*then)(struct br_engine *, struct br_copy_batch *))
{
    const struct br_operation *op = fragment->op;
    bool input = fragment_is_staged(fragment, BR_INPUT),
         output = fragment->schedule->in_place && fragment_is_staged(fragment, BR_OUTPUT);
    size_t first, last;

    if (!fragment->elements || (!input && !output))
        return false;
    /* In place nothing but reduce-scatter and scatter read the input as such. */
    if (input &&
        (!output || staging_fragment_blocks(op, BR_INPUT) > staging_fragment_blocks(op, BR_OUTPUT)))
        staging_fragment_copy(engine, fragment, BR_INPUT, BR_COPY_TO_HOST, 0,
                              staging_fragment_blocks(op, BR_INPUT));
    if (output) {
        input_in_output(op, &first, &last);
        staging_fragment_copy(engine, fragment, BR_OUTPUT, BR_COPY_TO_HOST, first, last);
    }
    br_staging_submit(engine, &fragment->batch, input ? op->send_gpu : op->recv_gpu,
                      BR_COPY_TO_HOST, then, NULL);
    return true;
}

bool br_staging_fragment_store(struct br_engine *engine, struct br_fragment *fragment,
                               void (*then)(struct br_engine *, struct br_copy_batch *))
{
    if (!fragment->elements || !fragment_is_staged(fragment, BR_OUTPUT))
        return false;
    staging_fragment_copy(engine, fragment, BR_OUTPUT, BR_COPY_TO_GPU, 0,
                          staging_fragment_blocks(fragment->op, BR_OUTPUT));
    br_staging_submit(engine, &fragment->batch, fragment->op->recv_gpu, BR_COPY_TO_GPU, then, NULL);
    return true;
}
