/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/error.h"
#include "bcube/address.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

static uint32_t sends(enum br_algorithm algorithm, enum br_collective collective, uint32_t n,
                      uint32_t root, uint32_t rank)
{
    struct br_schedule_request request = {
        .collective = collective, .algorithm = algorithm, .n = n, .rank = rank, .root = root};
    struct br_schedule *schedule;
    uint32_t count;

    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    count = schedule->n_sends;
    br_schedule_free(schedule);
    return count;
}

static void br_generate_tree__spreads_the_sends(void **state)
{
    (void)state;
    assert_int_equal(sends(BR_TREE, BR_BROADCAST, 16, 2, 2), 4);
    assert_int_equal(sends(BR_FLAT, BR_BROADCAST, 16, 2, 2), 15);
    assert_int_equal(sends(BR_CHAIN, BR_BROADCAST, 16, 2, 2), 1);
    assert_int_equal(sends(BR_CHAIN, BR_BROADCAST, 16, 2, 1), 0); /* the last after the root */
    for (uint32_t rank = 0; rank < 16; rank++)
        assert_int_equal(sends(BR_TREE, BR_REDUCE, 16, 2, rank), rank != 2);
}

/* Twice as many messages as there are other ranks, up and down. */
static void br_generate_tree__passes_a_barrier_up_and_down(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 18; n++) {
        uint32_t flat = 0, tree = 0;

        for (uint32_t rank = 0; rank < n; rank++) {
            flat += sends(BR_FLAT, BR_BARRIER, n, 0, rank);
            tree += sends(BR_TREE, BR_BARRIER, n, 0, rank);
        }
        assert_int_equal(flat, 2 * (n - 1));
        assert_int_equal(tree, 2 * (n - 1));
    }
    assert_int_equal(sends(BR_FLAT, BR_BARRIER, 16, 0, 0), 15);
    assert_int_equal(sends(BR_TREE, BR_BARRIER, 16, 0, 0), 4);
}

/* The same of all blocks, though each rank has one of its own; where they are not packed a message
 * each. */
static void br_generate_tree__passes_all_blocks_up_and_down(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLGATHER, BR_REDUCE_SCATTER};

    (void)state;
    for (uint32_t n = 2; n < 18; n++)
        for (int c = 0; c < 4; c++) {
            struct br_schedule_request request = {
                .collective = collectives[c % 2], .algorithm = BR_TREE, .n = n, .packed = c < 2};
            uint32_t messages = 0, blocks = 0;

            for (request.rank = 0; request.rank < n; request.rank++) {
                struct br_schedule *schedule;

                assert_int_equal(br_algorithm_build(&request, &schedule), 0);
                messages += schedule->n_sends;
                for (uint32_t i = 0; i < schedule->n_steps; i++)
                    if (schedule->steps[i].kind == BR_STEP_SEND)
                        blocks += schedule->steps[i].span.count;
                assert_int_equal(schedule->packed, request.packed ? n : 1);
                assert_int_equal(schedule->by_block, !request.packed);
                br_schedule_free(schedule);
            }
            assert_int_equal(messages, request.packed ? 2 * (n - 1) : blocks);
            assert_true(blocks >= (n - 1) * n);
        }
}

/* What the ranks of a subtree give to all goes up as one message, and what all give to them comes
 * down as one. */
static void br_generate_tree__passes_an_alltoall_up_and_down(void **state)
{
    struct br_schedule_request request = {.collective = BR_ALLTOALL, .algorithm = BR_TREE};

    (void)state;
    for (request.n = 2; request.n < 18; request.n++) {
        uint32_t messages = 0, longest = 0;

        for (request.rank = 0; request.rank < request.n; request.rank++) {
            struct br_schedule *schedule;

            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            messages += schedule->n_sends;
            assert_int_equal(schedule->packed, br_algorithm_packed(&request));
            for (uint32_t i = 0; i < schedule->n_steps; i++) {
                const struct br_step *step = &schedule->steps[i];

                if (step->kind == BR_STEP_SEND && step->span.count > longest)
                    longest = step->span.count;
            }
            br_schedule_free(schedule);
        }
        assert_int_equal(messages, 2 * (request.n - 1));
        assert_int_equal(longest, br_algorithm_packed(&request));
    }
    request.n = 512; /* half of the ranks give 512 blocks each */
    assert_int_equal(br_algorithm_check(&request), -EINVAL);
    assert_says(br_error_message(), "alltoall|512 ranks");
}

static void br_generate_tree__serves_the_largest_subtree_first(void **state)
{
    struct br_schedule_request request = {
        .collective = BR_BROADCAST, .algorithm = BR_TREE, .n = 9, .in_place = true};
    struct br_schedule *schedule;

    (void)state;
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    assert_int_equal(schedule->n_steps, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(schedule->steps[i].peer, 8 >> i);
    br_schedule_free(schedule);
}

/* Each rank but the root has one message with all blocks of its subtree. */
static void br_generate_tree__packs_subtrees(void **state)
{
    static const enum br_collective collectives[] = {BR_GATHER, BR_SCATTER};
    static const uint32_t subtrees[] = {11, 1, 2, 1, 4, 1,
                                        2,  1, 3, 1, 1}; /* of the rank so far after the root */

    (void)state;
    for (int c = 0; c < 2; c++) {
        for (uint32_t v = 0; v < 11; v++) {
            struct br_schedule_request request = {.collective = collectives[c],
                                                  .algorithm = BR_TREE,
                                                  .n = 11,
                                                  .rank = (v + 2) % 11,
                                                  .root = 2};
            struct br_schedule *schedule;
            uint32_t up = 0;

            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(schedule->packed, 4);
            for (uint32_t i = 0; i < schedule->n_steps; i++) {
                if (schedule->steps[i].kind == (c == 0 ? BR_STEP_SEND : BR_STEP_RECV))
                    up += schedule->steps[i].span.count;
            }
            assert_int_equal(c == 0 ? schedule->n_sends : schedule->n_recvs, v != 0);
            assert_int_equal(up, v == 0 ? 0 : subtrees[v]);
            br_schedule_free(schedule);
        }
    }
}

/* A flat gather copies nothing but the root's own block. */
static void br_generate_tree__flat_gathers_in_place(void **state)
{
    struct br_schedule_request request = {.collective = BR_GATHER, .algorithm = BR_FLAT, .n = 9};
    struct br_schedule *schedule;

    (void)state;
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    assert_int_equal(schedule->n_recvs, 8);
    assert_int_equal(schedule->n_steps, 9);
    assert_int_equal(schedule->n_ready, 9);
    assert_int_equal(schedule->n_scratch, 0);
    br_schedule_free(schedule);
}

/* In a BCube, whoever is the root: a rank and its parent differ in one digit, and nobody has more
 * than k(n-1) children. */
static void br_generate_tree__goes_digit_by_digit(void **state)
{
    static const char *const cubes[] = {"3,2", "2,3", "4,2", "5,1", "3,3", "2,5"};

    (void)state;
    for (size_t c = 0; c < sizeof cubes / sizeof *cubes; c++) {
        struct br_schedule_request request = {.algorithm = BR_TREE};
        struct br_schedule *schedule;
        struct br_bcube cube;

        assert_int_equal(br_bcube_parse(&cube, cubes[c]), 0);
        request.n = cube.hosts;
        request.root = cube.hosts / 2;
        request.shape = (struct br_shape){.n_dimensions = cube.k, .threads = 1};
        for (uint32_t i = 0; i < cube.k; i++)
            request.shape.dimensions[i] =
                (struct br_dimension){cube.n, BR_METHOD_DIRECT, (uint8_t)i};
        assert_true(schedules_prove(BR_TREE, &request.shape, cube.hosts) >= 4 * 3);
        for (uint32_t i = 0; i < 2 * cube.hosts; i++) {
            request.collective = i % 2 ? BR_GATHER : BR_BROADCAST;
            request.rank = i / 2;
            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_true(schedule->n_sends <= cube.k * (cube.n - 1));
            assert_int_equal(schedule->packed, i % 2 ? br_algorithm_packed(&request) : 1);
            for (uint32_t j = 0; j < schedule->n_steps; j++) {
                const struct br_step *step = &schedule->steps[j];

                if (step->kind <= BR_STEP_RECV)
                    assert_int_equal(step->level, br_bcube_level(&cube, request.rank, step->peer));
            }
            br_schedule_free(schedule);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_tree__packs_subtrees),
        cmocka_unit_test(br_generate_tree__goes_digit_by_digit),
        cmocka_unit_test(br_generate_tree__flat_gathers_in_place),
        cmocka_unit_test(br_generate_tree__spreads_the_sends),
        cmocka_unit_test(br_generate_tree__passes_a_barrier_up_and_down),
        cmocka_unit_test(br_generate_tree__passes_all_blocks_up_and_down),
        cmocka_unit_test(br_generate_tree__passes_an_alltoall_up_and_down),
        cmocka_unit_test(br_generate_tree__serves_the_largest_subtree_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
