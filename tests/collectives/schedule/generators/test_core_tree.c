/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/core_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

static struct br_schedule_request request_of(uint32_t cores, uint32_t per_core)
{
    return (struct br_schedule_request){
        .algorithm = BR_CORE_TREE,
        .n = cores * per_core,
        .shape = {
            .threads = 1, .n_dimensions = 2, .dimensions = {{.size = per_core}, {.size = cores}}}};
}

static void br_generate_core_tree__is_proved(void **state)
{
    uint32_t most = schedules_most_ranks() / 2, count = 0;

    (void)state;
    for (uint32_t cores = 1; cores <= most / 2; cores++)
        for (uint32_t per_core = 1; per_core * cores <= most; per_core++) {
            struct br_schedule_request request = request_of(cores, per_core);
            uint32_t proved = schedules_prove(BR_CORE_TREE, &request.shape, request.n);

            /* four collectives in three ways; two of them packed, too, in one way each */
            assert_int_equal(proved, cores > 1 && per_core > 1 ? 4 * 3 + 2 : 0);
            count += proved;
        }
    assert_true(count > 2 * most);
}

/* Each rank but the leaders has one message to its leader and one from it; leaders alone speak to
 * other cores. */
static void br_generate_core_tree__crosses_between_leaders(void **state)
{
    static const enum br_collective collectives[] = {BR_ALLREDUCE, BR_BARRIER, BR_ALLGATHER,
                                                     BR_REDUCE_SCATTER};

    (void)state;
    for (int i = 0; i < 4 * 4; i++) {
        uint32_t per_core = 2 + (uint32_t)i / 4;
        struct br_schedule_request request = request_of(2, per_core);
        uint32_t messages = 0;

        request.collective = collectives[i % 4];
        request.packed = br_algorithm_can_pack(&request);
        for (request.rank = 0; request.rank < request.n; request.rank++) {
            bool leads = request.rank % per_core == 0;
            struct br_schedule *schedule;

            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(schedule->n_sends, leads ? per_core : 1);
            for (uint32_t s = 0; s < schedule->n_steps; s++) {
                const struct br_step *step = &schedule->steps[s];

                if (step->kind <= BR_STEP_RECV && step->peer / per_core != request.rank / per_core)
                    assert_true(leads && step->peer % per_core == 0);
            }
            messages += schedule->n_sends;
            br_schedule_free(schedule);
        }
        assert_int_equal(messages, 2 * (request.n - 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_core_tree__is_proved),
        cmocka_unit_test(br_generate_core_tree__crosses_between_leaders),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
