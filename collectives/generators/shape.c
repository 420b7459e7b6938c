/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/generators/shape.h"

#include <errno.h>

#include "base/error.h"

static bool power_of_two(uint32_t x)
{
    return (x & (x - 1)) == 0;
}

int br_shape_check(const struct br_shape *shape, enum br_collective collective, uint32_t n)
{
    uint64_t core = 1, stages = 0;

    if (collective == BR_BARRIER)
        return br_error(EINVAL, "a barrier has no shape; use dissemination");
    if (shape->n_dimensions < 1 || shape->n_dimensions > BR_DIMENSIONS_MAX || shape->threads < 1 ||
        shape->threads > BR_DIMENSIONS_MAX)
        return br_error(EINVAL, "a shape has 1 to %d dimensions and threads, not %u and %u",
                        BR_DIMENSIONS_MAX, shape->n_dimensions, shape->threads);
    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        const struct br_dimension *dimension = &shape->dimensions[i];

        if (dimension->size == 0)
            return br_error(EINVAL, "dimension %u has size 0", i);
        if (dimension->method == BR_METHOD_HALVING && !power_of_two(dimension->size))
            return br_error(EINVAL, "dimension %u: halving needs a power of two, not %u", i, dimension->size);
        core *= dimension->size;
        stages += dimension->method == BR_METHOD_HALVING ? dimension->size / 2 : dimension->size > 1;
        if (core > n)
            return br_error(EINVAL, "the shape has more than the %u ranks there are", n);
    }
    if (n > 2 * core)
        return br_error(EINVAL, "the shape has %u of %u ranks; it must have half of them at least",
                        (uint32_t)core, n);
    if (collective == BR_REDUCE && (stages > 1 || core != n))
        return br_error(EINVAL, "reduce needs a shape of one dimension, direct or ring, with all ranks");
    return 0;
}

static void add_stage(struct br_stages *stages, struct br_stage stage)
{
    if (stage.size > 1)
        stages->stages[stages->n_stages++] = stage;
}

void br_shape_stages(const struct br_shape *shape, uint32_t thread, struct br_stages *stages)
{
    uint32_t stride[BR_DIMENSIONS_MAX], weight;

    *stages = (struct br_stages){.core = 1};
    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        stride[i] = stages->core;
        stages->core *= shape->dimensions[i].size;
    }
    for (uint32_t w = 0; w < shape->n_dimensions; w++) {
        uint32_t at = (w + thread) % shape->n_dimensions;
        const struct br_dimension *dimension = &shape->dimensions[at];
        struct br_stage stage = {.size = dimension->size, .stride = stride[at], .level = dimension->level};

        stage.ring = dimension->method == BR_METHOD_RING;
        if (dimension->method != BR_METHOD_HALVING)
            add_stage(stages, stage);
        for (uint32_t d = 1; dimension->method == BR_METHOD_HALVING && d < dimension->size; d *= 2)
            add_stage(stages,
                      (struct br_stage){.size = 2, .stride = stride[at] * d, .level = dimension->level});
    }
    weight = stages->core;
    for (uint32_t w = 0; w < stages->n_stages; w++) {
        weight /= stages->stages[w].size;
        stages->stages[w].weight = weight;
    }
}

uint32_t br_stage_digit(const struct br_stage *stage, uint32_t rank)
{
    return rank / stage->stride % stage->size;
}

uint32_t br_stages_home(const struct br_stages *stages, uint32_t number)
{
    uint32_t rank = 0;

    for (uint32_t w = 0; w < stages->n_stages; w++)
        rank += number / stages->stages[w].weight % stages->stages[w].size * stages->stages[w].stride;
    return rank;
}

uint32_t br_stages_base(const struct br_stages *stages, uint32_t rank, uint32_t end)
{
    uint32_t number = 0;

    for (uint32_t w = 0; w < end; w++)
        number += br_stage_digit(&stages->stages[w], rank) * stages->stages[w].weight;
    return number;
}

uint32_t br_stage_member(const struct br_stage *stage, uint32_t rank, uint32_t d)
{
    return rank - br_stage_digit(stage, rank) * stage->stride + d * stage->stride;
}
