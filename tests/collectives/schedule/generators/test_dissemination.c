/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
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

/* In a BCube every message goes to a level neighbour. */
static void br_generate_dissemination__goes_digit_by_digit_in_a_shape(void **state)
{
    struct br_schedule_request request = {
        .collective = BR_BARRIER, .algorithm = BR_DISSEMINATION, .n = 27};
    struct schedules schedules;

    (void)state;
    request.shape = (struct br_shape){
        .n_dimensions = 3, .threads = 1, .dimensions = {{3, 0, 0}, {3, 0, 1}, {3, 0, 2}}};
    schedules_build(&schedules, request, IN_PLACE_SOME);
    assert_int_equal(schedules_verify(&schedules, 3), 0);
    for (uint32_t r = 0; r < 27; r++) {
        const struct br_schedule *s = schedules.of[r];

        assert_int_equal(s->n_sends, 6);
        for (uint32_t i = 0; i < s->n_steps; i++) {
            uint32_t stride = s->steps[i].level == 0 ? 1 : s->steps[i].level == 1 ? 3 : 9;
            uint32_t peer = s->steps[i].peer;

            if (s->steps[i].kind <= BR_STEP_RECV)
                assert_true(peer / (stride * 3) == r / (stride * 3) &&
                            peer % stride == r % stride && peer != r);
        }
    }
    schedules_free(&schedules);
    request.shape.dimensions[2].size = 2;
    assert_int_equal(br_algorithm_check(&request), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_dissemination__takes_lg_n_rounds),
        cmocka_unit_test(br_generate_dissemination__goes_digit_by_digit_in_a_shape),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
