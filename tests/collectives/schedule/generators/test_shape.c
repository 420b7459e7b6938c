/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/generators/shape.h"
#include "tests/says.h"

static void refused(struct br_shape shape, enum br_collective collective, uint32_t n,
                    const char *text)
{
    assert_int_equal(br_shape_check(&shape, collective, n), -EINVAL);
    if (!says_all(br_error_message(), text))
        fail_msg("\"%s\" instead of \"%s\"", br_error_message(), text);
}

static void br_shape_check__says_why_not(void **state)
{
    const struct br_shape six = {.n_dimensions = 2,
                                 .threads = 1,
                                 .dimensions = {{3, BR_METHOD_RING, 0}, {2, BR_METHOD_HALVING, 1}}};

    (void)state;
    assert_int_equal(br_shape_check(&six, BR_ALLREDUCE, 6), 0);
    assert_int_equal(br_shape_check(&six, BR_ALLREDUCE, 12), 0);
    refused(six, BR_ALLREDUCE, 5, "5 ranks");
    refused(six, BR_ALLREDUCE, 13, "half of them");
    refused(six, BR_BARRIER, 6, "barrier");
    refused(six, BR_REDUCE, 6, "one dimension");
    refused((struct br_shape){.n_dimensions = 1,
                              .threads = 1,
                              .dimensions = {{6, BR_METHOD_HALVING, 0}}},
            BR_ALLREDUCE, 6, "6");
    refused(
        (struct br_shape){.n_dimensions = 1, .threads = 1, .dimensions = {{0, BR_METHOD_RING, 0}}},
        BR_ALLREDUCE, 6, "size 0");
    refused(
        (struct br_shape){.n_dimensions = 1, .threads = 0, .dimensions = {{6, BR_METHOD_RING, 0}}},
        BR_ALLREDUCE, 6, "1 to 32");
    refused(
        (struct br_shape){.n_dimensions = 33, .threads = 1, .dimensions = {{6, BR_METHOD_RING, 0}}},
        BR_ALLREDUCE, 6, "1 to 32");
    refused((struct br_shape){.n_dimensions = 2,
                              .threads = 1,
                              .dimensions = {{UINT32_MAX, BR_METHOD_RING, 0},
                                             {UINT32_MAX, BR_METHOD_RING, 0}}},
            BR_ALLREDUCE, 6, "more than");
}

static void br_shape_stages__rotates_and_resolves_halving(void **state)
{
    const struct br_shape shape = {
        .n_dimensions = 2,
        .threads = 2,
        .dimensions = {{4, BR_METHOD_HALVING, 5}, {3, BR_METHOD_RING, 7}}};
    struct br_stages stages;

    (void)state;
    br_shape_stages(&shape, 0, &stages);
    assert_int_equal(stages.n_stages, 3);
    assert_int_equal(stages.core, 12);
    assert_int_equal(stages.stages[0].stride, 1);
    assert_int_equal(stages.stages[0].weight, 6);
    assert_int_equal(stages.stages[1].stride, 2);
    assert_int_equal(stages.stages[2].size, 3);
    assert_true(stages.stages[2].ring);
    assert_int_equal(stages.stages[2].weight, 1);
    br_shape_stages(&shape, 1, &stages);
    assert_int_equal(stages.stages[0].stride, 4);
    assert_int_equal(stages.stages[0].level, 7);
    assert_int_equal(stages.stages[2].level, 5);
}

/* What stands together in the user's buffer when the pairs that are far apart come first. */
static void br_shape_packed__counts_the_blocks_of_the_longest_run(void **state)
{
    struct br_shape shape = {.n_dimensions = 2,
                             .threads = 1,
                             .dimensions = {{4, BR_METHOD_HALVING, 0}, {3, BR_METHOD_RING, 1}}};
    struct br_stages stages;

    (void)state;
    assert_int_equal(br_shape_packed(&shape, 12), 6);
    assert_int_equal(br_shape_packed(&shape, 13), 13); /* the folded one sends all */
    shape.dimensions[0].method = BR_METHOD_FAR_HALVING;
    assert_int_equal(br_shape_check(&shape, BR_ALLGATHER, 12), 0);
    br_shape_stages(&shape, 0, &stages);
    assert_int_equal(stages.stages[0].stride, 2);
    assert_int_equal(stages.stages[1].stride, 1);
    assert_false(br_stages_in_order(&stages));
    shape.first = 1;
    br_shape_stages(&shape, 0, &stages);
    assert_true(br_stages_in_order(&stages));
    for (uint32_t rank = 0; rank < 12; rank++)
        assert_int_equal(br_stages_home(&stages, rank), rank);
    shape.threads = 2;
    assert_int_equal(br_shape_packed(&shape, 12), 6);
    assert_int_equal(br_shape_packed(&shape, 13), 1); /* nobody packs and folds with threads */
    shape = (struct br_shape){
        .n_dimensions = 1, .threads = 1, .dimensions = {{6, BR_METHOD_DIRECT, 0}}};
    assert_int_equal(br_shape_packed(&shape, 6), 1); /* each message is one block anyway */
    shape.dimensions[0] = (struct br_dimension){6, BR_METHOD_FAR_HALVING, 0};
    refused(shape, BR_ALLGATHER, 6, "power of two");
}

static void br_stages_home__is_the_inverse_of_br_stages_base(void **state)
{
    const struct br_shape shape = {.n_dimensions = 3,
                                   .threads = 3,
                                   .dimensions = {{4, BR_METHOD_HALVING, 0},
                                                  {3, BR_METHOD_RING, 1},
                                                  {5, BR_METHOD_DIRECT, 2}}};

    (void)state;
    for (uint32_t t = 0; t < 3; t++) {
        struct br_stages stages;

        br_shape_stages(&shape, t, &stages);
        for (uint32_t rank = 0; rank < 60; rank++)
            assert_int_equal(
                br_stages_home(&stages, br_stages_base(&stages, rank, stages.n_stages)), rank);
    }
}

static void br_stage_member__changes_one_digit(void **state)
{
    const struct br_stage stage = {.size = 3, .stride = 4};

    (void)state;
    assert_int_equal(br_stage_digit(&stage, 23), 2);
    assert_int_equal(br_stage_member(&stage, 23, 0), 15);
    assert_int_equal(br_stage_member(&stage, 23, 2), 23);
}

static void br_shape_check__knows_a_cycle(void **state)
{
    struct br_shape cycle = {.n_dimensions = 2,
                             .threads = 2,
                             .dimensions = {{3, BR_METHOD_CYCLE, 4}, {3, BR_METHOD_CYCLE, 5}}};

    (void)state;
    assert_int_equal(br_shape_check(&cycle, BR_ALLREDUCE, 9), 0);
    assert_int_equal(br_shape_check(&cycle, BR_REDUCE, 9), 0);
    refused(cycle, BR_ALLREDUCE, 10, "cycle");
    cycle.dimensions[1].level = 4;
    refused(cycle, BR_ALLREDUCE, 9, "levels");
    cycle.dimensions[1] = (struct br_dimension){3, BR_METHOD_RING, 5};
    refused(cycle, BR_ALLREDUCE, 9, "cycle");
    cycle.dimensions[1] = (struct br_dimension){2, BR_METHOD_CYCLE, 5};
    refused(cycle, BR_ALLREDUCE, 6, "one size");
}

/* Every place once, and back; each next rank differs in one digit, by one. */
static void br_stage_member__goes_round_a_cycle(void **state)
{
    struct br_shape cycle = {.n_dimensions = 3, .threads = 3};
    bool seen[64] = {false};

    (void)state;
    for (uint8_t i = 0; i < 3; i++)
        cycle.dimensions[i] = (struct br_dimension){4, BR_METHOD_CYCLE, i};
    for (uint32_t t = 0; t < 3; t++) {
        struct br_stages stages;
        const struct br_stage *stage = &stages.stages[0];

        br_shape_stages(&cycle, t, &stages);
        assert_int_equal(stages.n_stages, 1);
        for (uint32_t place = 0; place < 64; place++) {
            uint32_t rank = br_stage_member(stage, 0, place);
            uint32_t next = br_stage_member(stage, 0, (place + 1) % 64);
            uint32_t level = br_stage_level(stage, rank, next), stride = 1u << 2 * level;

            assert_int_equal(br_stage_digit(stage, rank), place);
            assert_true(rank < 64 && seen[rank] == (t % 2 == 1));
            seen[rank] = !seen[rank];
            if (place % 4 != 3)
                assert_int_equal(level, t);
            assert_int_equal(next,
                             rank - rank / stride % 4 * stride + (rank / stride + 1) % 4 * stride);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_shape_check__says_why_not),
        cmocka_unit_test(br_shape_check__knows_a_cycle),
        cmocka_unit_test(br_stage_member__goes_round_a_cycle),
        cmocka_unit_test(br_shape_stages__rotates_and_resolves_halving),
        cmocka_unit_test(br_shape_packed__counts_the_blocks_of_the_longest_run),
        cmocka_unit_test(br_stages_home__is_the_inverse_of_br_stages_base),
        cmocka_unit_test(br_stage_member__changes_one_digit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
