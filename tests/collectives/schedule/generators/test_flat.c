/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

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
        cmocka_unit_test(br_generate_flat__adds_in_the_order_of_the_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
