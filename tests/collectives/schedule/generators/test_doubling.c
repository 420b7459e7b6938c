/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

static void br_generate_doubling__takes_lg_n_rounds_and_two_for_the_rest(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DOUBLING, .in_place = true};

    (void)state;
    for (request.n = 1; request.n <= 40; request.n++) {
        uint32_t core = 1, rounds = 0;

        for (; core * 2 <= request.n; core *= 2)
            rounds++;
        for (request.rank = 0; request.rank < request.n; request.rank++) {
            bool folded = request.rank >= core, serves = request.rank + core < request.n;
            struct br_schedule *schedule;

            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(schedule->n_sends, folded ? 1 : rounds + serves);
            assert_int_equal(schedule->n_recvs, folded ? 1 : rounds + serves);
            assert_int_equal(schedule->pieces, 1);
            br_schedule_free(schedule);
        }
    }
}

/* What is lower comes first in every sum, on both sides: the same bits on all ranks. */
static void br_generate_doubling__adds_in_the_order_of_the_ranks(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DOUBLING, .n = 8};

    (void)state;
    for (request.rank = 0; request.rank < 8; request.rank++) {
        struct br_schedule *schedule;

        assert_int_equal(br_algorithm_build(&request, &schedule), 0);
        for (uint32_t i = 0; i < schedule->n_steps; i++) {
            const struct br_step *step = &schedule->steps[i];
            const struct br_source *sources = &schedule->sources[step->first_source];
            uint32_t received;

            if (step->kind != BR_STEP_REDUCE)
                continue;
            assert_int_equal(step->n_sources, 2);
            received = sources[0].recv < 0;
            assert_true(sources[received].recv >= 0);
            assert_int_equal(received == 0,
                             schedule->steps[sources[received].recv].peer < request.rank);
        }
        br_schedule_free(schedule);
    }
}

/* Every rank adds up in the order of the ranks, so that all get the same bits. */
static void br_generate_flat__adds_in_the_order_of_the_ranks(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_FLAT, .n = 5};

    (void)state;
    for (request.rank = 0; request.rank < 5; request.rank++) {
        struct br_schedule *schedule;
        const struct br_step *reduce;

        assert_int_equal(br_algorithm_build(&request, &schedule), 0);
        reduce = &schedule->steps[schedule->n_steps - 1];
        assert_int_equal(reduce->kind, BR_STEP_REDUCE);
        assert_int_equal(reduce->n_sources, 5);
        for (uint32_t r = 0; r < 5; r++) {
            const struct br_source *source = &schedule->sources[reduce->first_source + r];

            if (r == request.rank)
                assert_int_equal(source->span.buffer, BR_INPUT);
            else
                assert_int_equal(schedule->steps[source->recv].peer, r);
        }
        br_schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_doubling__takes_lg_n_rounds_and_two_for_the_rest),
        cmocka_unit_test(br_generate_doubling__adds_in_the_order_of_the_ranks),
        cmocka_unit_test(br_generate_flat__adds_in_the_order_of_the_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
