/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "bcube/address.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

static struct br_schedule *build(enum br_algorithm algorithm, uint32_t n, uint32_t rank,
                                 bool in_place)
{
    struct br_schedule_request request = {.collective = BR_ALLTOALL,
                                          .algorithm = algorithm,
                                          .n = n,
                                          .rank = rank,
                                          .in_place = in_place};
    struct br_schedule *schedule;

    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    return schedule;
}

/* Apart nothing waits for anything and nothing is copied but the own block; in place blocks wait
 * aside. */
static void br_generate_exchange__sends_all_at_once(void **state)
{
    (void)state;
    for (uint32_t rank = 0; rank < 7; rank++) {
        struct br_schedule *apart = build(BR_DIRECT, 7, rank, false),
                           *in_place = build(BR_DIRECT, 7, rank, true);

        assert_int_equal(apart->n_sends, 6);
        assert_int_equal(apart->n_ready, apart->n_steps);
        assert_int_equal(apart->n_scratch, 0);
        assert_int_equal(apart->steps[0].peer, (rank + 1) % 7);
        assert_int_equal(in_place->n_scratch, 6);
        for (uint32_t i = 0; i < in_place->n_steps; i++)
            assert_true(in_place->steps[i].kind != BR_STEP_RECV ||
                        in_place->steps[i].n_dependencies == 0);
        br_schedule_free(apart);
        br_schedule_free(in_place);
    }
}

static void br_generate_bruck__packs_lg_n_messages(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 40; n++) {
        struct br_schedule *schedule = build(BR_BRUCK, n, n / 2, n % 2);
        uint32_t rounds = 0, blocks = 0, expected = 0;

        for (uint32_t bit = 1; bit < n; bit *= 2)
            rounds++;
        for (uint32_t i = 0; i < n; i++)
            expected += (uint32_t)__builtin_popcount(i);
        for (uint32_t i = 0; i < schedule->n_steps; i++)
            blocks += schedule->steps[i].kind == BR_STEP_SEND ? schedule->steps[i].span.count : 0;
        assert_int_equal(schedule->n_sends, rounds);
        assert_int_equal(schedule->n_recvs, rounds);
        assert_int_equal(blocks, expected);
        br_schedule_free(schedule);
    }
}

/* In a BCube: a message to each level neighbour, N/n blocks each, and to nobody else. */
static void br_generate_bruck__goes_digit_by_digit(void **state)
{
    static const char *const cubes[] = {"3,2", "2,3", "4,2", "5,1", "3,3", "2,5"};

    (void)state;
    for (size_t c = 0; c < sizeof cubes / sizeof *cubes; c++) {
        struct br_schedule_request request = {.collective = BR_ALLTOALL, .algorithm = BR_BRUCK};
        struct br_schedule *schedule;
        struct br_bcube cube;

        assert_int_equal(br_bcube_parse(&cube, cubes[c]), 0);
        request.n = cube.hosts;
        request.shape = (struct br_shape){.n_dimensions = cube.k, .threads = 1};
        for (uint32_t i = 0; i < cube.k; i++)
            request.shape.dimensions[i] =
                (struct br_dimension){cube.n, BR_METHOD_DIRECT, (uint8_t)i};
        assert_int_equal(schedules_prove(BR_BRUCK, &request.shape, cube.hosts), 3);
        for (request.rank = 0; request.rank < cube.hosts; request.rank++) {
            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(schedule->n_sends, cube.k * (cube.n - 1));
            for (uint32_t i = 0; i < schedule->n_steps; i++) {
                const struct br_step *step = &schedule->steps[i];

                if (step->kind != BR_STEP_SEND)
                    continue;
                assert_int_equal(step->level, br_bcube_level(&cube, request.rank, step->peer));
                assert_int_equal(step->span.count, cube.hosts / cube.n);
            }
            assert_int_equal(schedule->packed, br_algorithm_packed(&request));
            br_schedule_free(schedule);
        }
    }
}

static void br_generate_bruck__is_proved_for_mixed_digits(void **state)
{
    const struct br_shape shape = {.n_dimensions = 3,
                                   .threads = 1,
                                   .dimensions = {{4, BR_METHOD_DIRECT, 0},
                                                  {1, BR_METHOD_DIRECT, 1},
                                                  {3, BR_METHOD_DIRECT, 2}}};
    struct br_schedule_request request = {
        .collective = BR_ALLTOALL, .algorithm = BR_BRUCK, .n = 12, .shape = shape};

    (void)state;
    assert_int_equal(schedules_prove(BR_BRUCK, &shape, 12), 3);
    request.n = 13;
    assert_int_equal(br_algorithm_check(&request), -EINVAL);
    assert_says(br_error_message(), "bruck|13 ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_exchange__sends_all_at_once),
        cmocka_unit_test(br_generate_bruck__packs_lg_n_messages),
        cmocka_unit_test(br_generate_bruck__goes_digit_by_digit),
        cmocka_unit_test(br_generate_bruck__is_proved_for_mixed_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
