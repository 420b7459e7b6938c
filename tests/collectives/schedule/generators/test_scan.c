/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

/* Both kinds, in place and not, on each number of ranks: every value, in the order of the ranks. */
static void proves(enum br_algorithm algorithm)
{
    uint32_t most = schedules_most_ranks();

    for (uint32_t n = 1; n <= most; n += n < 9 ? 1 : 11) {
        struct br_schedule_request scan = {.collective = BR_SCAN, .algorithm = algorithm, .n = n};
        struct br_schedule_request exscan = scan;

        exscan.collective = BR_EXSCAN;
        for (int i = 0; i < 6; i++) {
            struct schedules schedules;

            schedules_build(&schedules, i < 3 ? scan : exscan, (enum in_place)(i % 3));
            assert_int_equal(schedules_verify(&schedules, 3), 0);
            schedules_free(&schedules);
        }
    }
}

static void br_generate_scan_chain__is_proved(void **state)
{
    (void)state;
    proves(BR_CHAIN);
}

static void br_generate_scan_doubling__is_proved(void **state)
{
    (void)state;
    proves(BR_DOUBLING);
}

/* A rank sends once in a chain; by doubling, to each rank at a distance of a power of two. */
static void br_generate_scan__messages(void **state)
{
    (void)state;
    for (int c = BR_SCAN; c <= BR_EXSCAN; c++) {
        struct br_schedule_request request = {
            .collective = (enum br_collective)c, .algorithm = BR_CHAIN, .n = 8};
        struct schedules schedules;

        schedules_build(&schedules, request, IN_PLACE_NOBODY);
        for (uint32_t r = 0; r < 8; r++) {
            assert_int_equal(schedules.of[r]->n_sends, r < 7);
            assert_int_equal(schedules.of[r]->n_recvs, r > 0);
        }
        schedules_free(&schedules);
        request.algorithm = BR_DOUBLING;
        schedules_build(&schedules, request, IN_PLACE_NOBODY);
        for (uint32_t r = 0; r < 8; r++) {
            assert_int_equal(schedules.of[r]->n_sends, (r < 7) + (r < 6) + (r < 4));
            assert_int_equal(schedules.of[r]->n_recvs, (r > 0) + (r > 1) + (r > 3));
        }
        schedules_free(&schedules);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_scan_chain__is_proved),
        cmocka_unit_test(br_generate_scan_doubling__is_proved),
        cmocka_unit_test(br_generate_scan__messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
