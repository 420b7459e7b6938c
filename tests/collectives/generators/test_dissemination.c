/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

static void br_generate_dissemination__takes_lg_n_rounds(void **state)
{
    static const uint32_t rounds[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
    struct br_schedule_request request = {.collective = BR_BARRIER, .algorithm = BR_DISSEMINATION};

    (void)state;
    for (request.n = 1; request.n <= 9; request.n++) {
        struct br_schedule *schedule;

        assert_int_equal(br_algorithm_build(&request, &schedule), 0);
        assert_int_equal(schedule->n_sends, rounds[request.n]);
        assert_int_equal(schedule->n_recvs, rounds[request.n]);
        br_schedule_free(schedule);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_dissemination__takes_lg_n_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
