/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/disjoint_trees.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/collectives/schedules.h"

static void prove(const struct br_disjoint_trees *trees)
{
    for (enum in_place in_place = IN_PLACE_NOBODY; in_place <= IN_PLACE_SOME; in_place++) {
        struct schedules schedules;

        schedules_build(&schedules,
                        (struct br_schedule_request){.algorithm = BR_DISJOINT_TREES,
                                                     .n = trees->hosts,
                                                     .disjoint_trees = trees},
                        in_place);
        if (schedules_verify(&schedules, 3))
            fail_msg("BCube(%u,%u): %s", trees->cube.n, trees->cube.k, br_error_message());
        schedules_free(&schedules);
    }
}

static void br_generate_disjoint_trees__with_and_without_failures(void **state)
{
    static const uint32_t shapes[][2] = {{2, 1}, {2, 2}, {3, 2}, {2, 3}, {4, 2}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int fault = 0; fault < 3; fault++) {
            struct br_failures failures = {0};
            struct br_disjoint_trees *trees;
            struct br_bcube cube;

            assert_int_equal(br_bcube_init(&cube, shapes[i][0], shapes[i][1]), 0);
            if (fault && cube.k > 1)
                assert_int_equal(br_failures_add(&failures,
                                                 fault == 1 ? BR_FAILURE_NIC : BR_FAILURE_SWITCH, 1,
                                                 0),
                                 0);
            assert_int_equal(br_disjoint_trees_new(&cube, &failures, &trees), 0);
            prove(trees);
            br_disjoint_trees_free(trees);
            br_failures_destroy(&failures);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_disjoint_trees__with_and_without_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
