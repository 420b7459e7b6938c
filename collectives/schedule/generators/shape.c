/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/shape.h"

#include <errno.h>

#include "base/error.h"

static bool power_of_two(uint32_t x)
{
    return (x & (x - 1)) == 0;
}

static bool is_halving(enum br_method method)
{
    return method == BR_METHOD_HALVING || method == BR_METHOD_FAR_HALVING;
}

static int check_cycle(const struct br_shape *shape, uint32_t n)
{
    uint32_t size = shape->dimensions[0].size, cycles = 0, core = 1;
    bool apart = false;

    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        const struct br_dimension *dimension = &shape->dimensions[i];
        uint8_t first = shape->dimensions[0].level;

        cycles += dimension->method == BR_METHOD_CYCLE;
        apart |= dimension->size != size ||
                 dimension->level != (first == BR_LEVEL_ANY ? first : first + i);
        core *= dimension->size;
    }
    if (cycles > 0 && (cycles < shape->n_dimensions || apart || size < 2 || core != n))
        return br_error(
            EINVAL, "a cycle has all ranks in dimensions of one size, on levels that follow each "
                    "other");
    return 0;
}

int br_shape_check(const struct br_shape *shape, enum br_collective collective, uint32_t n)
{
    uint64_t core = 1, stages = 0;

    if (collective == BR_BARRIER)
        return br_error(EINVAL, "a barrier has no shape; use dissemination, flat or tree");
    if (shape->n_dimensions < 1 || shape->n_dimensions > BR_DIMENSIONS_MAX || shape->threads < 1 ||
        shape->threads > BR_DIMENSIONS_MAX)
        return br_error(EINVAL, "a shape has 1 to %d dimensions and threads, not %u and %u",
                        BR_DIMENSIONS_MAX, shape->n_dimensions, shape->threads);
    if (shape->first >= shape->n_dimensions ||
        (shape->first && shape->dimensions[0].method == BR_METHOD_CYCLE))
        return br_error(EINVAL, "a shape of %u dimensions cannot begin with dimension %u",
                        shape->n_dimensions, shape->first);
    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        const struct br_dimension *dimension = &shape->dimensions[i];

        if (dimension->size == 0)
            return br_error(EINVAL, "dimension %u has size 0", i);
        if (is_halving(dimension->method) && !power_of_two(dimension->size))
            return br_error(EINVAL, "dimension %u: halving needs a power of two, not %u", i,
                            dimension->size);
        core *= dimension->size;
        stages += is_halving(dimension->method) ? dimension->size / 2 : dimension->size > 1;
        if (core > n)
            return br_error(EINVAL, "the shape has more than the %u ranks there are", n);
    }
    if (n > 2 * core)
        return br_error(EINVAL, "the shape has %u of %u ranks; it must have half of them at least",
                        (uint32_t)core, n);
    if (shape->dimensions[0].method == BR_METHOD_CYCLE)
        stages = 1;
    if (collective == BR_REDUCE && (stages > 1 || core != n))
        return br_error(EINVAL,
                        "reduce needs a shape of one dimension, direct or ring, with all ranks");
    return check_cycle(shape, n);
}

static void shape_add_stage(struct br_stages *stages, struct br_stage stage)
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
    if (shape->n_dimensions && shape->dimensions[0].method == BR_METHOD_CYCLE) {
        const struct br_dimension *fastest = &shape->dimensions[thread % shape->n_dimensions];

        shape_add_stage(stages, (struct br_stage){.size = stages->core,
                                                  .stride = 1,
                                                  .weight = 1,
                                                  .level = fastest->level,
                                                  .ring = true,
                                                  .lowest = shape->dimensions[0].level,
                                                  .radix = fastest->size,
                                                  .fastest = thread % shape->n_dimensions});
        return;
    }
    for (uint32_t w = 0; w < shape->n_dimensions; w++) {
        uint32_t at = (w + thread + shape->first) % shape->n_dimensions;
        const struct br_dimension *dimension = &shape->dimensions[at];
        struct br_stage stage = {
            .size = dimension->size, .stride = stride[at], .level = dimension->level};

        stage.ring = dimension->method == BR_METHOD_RING;
        if (!is_halving(dimension->method))
            shape_add_stage(stages, stage);
        for (uint32_t d = 1; is_halving(dimension->method) && d < dimension->size; d *= 2) {
            uint32_t apart = dimension->method == BR_METHOD_HALVING ? d : dimension->size / 2 / d;

            shape_add_stage(stages, (struct br_stage){.size = 2,
                                                      .stride = stride[at] * apart,
                                                      .level = dimension->level});
        }
    }
    weight = stages->core;
    for (uint32_t w = 0; w < stages->n_stages; w++) {
        weight /= stages->stages[w].size;
        stages->stages[w].weight = weight;
    }
}

uint32_t br_shape_packed(const struct br_shape *shape, uint32_t n)
{
    uint32_t most = 1;

    for (uint32_t t = 0; t < shape->threads; t++) {
        struct br_stages stages;

        br_shape_stages(shape, t, &stages);
        if (stages.core == 1 || (stages.core < n && shape->threads > 1))
            return 1;
        if (stages.core < n)
            return n;
        most = stages.stages[0].weight > most ? stages.stages[0].weight : most;
    }
    return most;
}

bool br_stages_in_order(const struct br_stages *stages)
{
    for (uint32_t w = 0; w < stages->n_stages; w++)
        if (stages->stages[w].stride != stages->stages[w].weight || stages->stages[w].radix)
            return false;
    return true;
}

/* Digits of a cycle, and radix ^ i. */
static uint32_t count_digits(const struct br_stage *stage)
{
    uint32_t digits = 0;

    for (uint32_t left = stage->size; left > 1; left /= stage->radix)
        digits++;
    return digits;
}

static uint32_t shape_power(uint32_t radix, uint32_t i)
{
    return i == 0 ? 1 : radix * shape_power(radix, i - 1);
}

/* Digit i of the code is digit i of the place less digit i + 1. It is digit (i + fastest) of the
 * rank. */
static uint32_t cycle_rank(const struct br_stage *stage, uint32_t place)
{
    uint32_t n = stage->radix, digits = count_digits(stage), rank = 0;

    for (uint32_t i = 0; i < digits; i++, place /= n)
        rank += (place % n + n - place / n % n) % n * shape_power(n, (i + stage->fastest) % digits);
    return rank;
}

static uint32_t cycle_place(const struct br_stage *stage, uint32_t rank)
{
    uint32_t n = stage->radix, digits = count_digits(stage), place = 0;

    for (uint32_t i = digits; i-- > 0;)
        place =
            place * n + (rank / shape_power(n, (i + stage->fastest) % digits) % n + place % n) % n;
    return place;
}

uint32_t br_stage_digit(const struct br_stage *stage, uint32_t rank)
{
    return stage->radix ? cycle_place(stage, rank) : rank / stage->stride % stage->size;
}

uint8_t br_stage_level(const struct br_stage *stage, uint32_t a, uint32_t b)
{
    uint8_t level = stage->lowest;

    if (stage->radix == 0 || level == BR_LEVEL_ANY)
        return stage->level;
    for (; a % stage->radix == b % stage->radix && a != b; level++) {
        a /= stage->radix;
        b /= stage->radix;
    }
    return level;
}

uint32_t br_stages_home(const struct br_stages *stages, uint32_t number)
{
    uint32_t rank = 0;

    for (uint32_t w = 0; w < stages->n_stages; w++) {
        const struct br_stage *stage = &stages->stages[w];

        rank += br_stage_member(stage, 0, number / stage->weight % stage->size);
    }
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
    if (stage->radix)
        return cycle_rank(stage, d);
    return rank - br_stage_digit(stage, rank) * stage->stride + d * stage->stride;
}
