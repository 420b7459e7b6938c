/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/host_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/collectives/schedules.h"

static struct br_schedule_request request_of(uint32_t hosts, uint32_t per_host)
{
    return (struct br_schedule_request){
        .algorithm = BR_HOST_TREE,
        .n = hosts * per_host,
        .shape = {
            .threads = 1, .n_dimensions = 2, .dimensions = {{.size = per_host}, {.size = hosts}}}};
}

static void br_generate_host_tree__is_proved(void **state)
{
    uint32_t most = schedules_most_ranks(), count = 0;

    (void)state;
    for (uint32_t hosts = 1; hosts <= most / 2; hosts++)
        for (uint32_t per_host = 1; per_host * hosts <= most; per_host++) {
            struct br_schedule_request request = request_of(hosts, per_host);
            uint32_t proved = schedules_prove(BR_HOST_TREE, &request.shape, request.n);

            assert_int_equal(proved, hosts > 1 && per_host > 1 ? 3 : 0);
            count += proved;
        }
    assert_true(count > 2 * most);
}

/* Messages of one rank of each host to other hosts, one in each round; the others speak to their
 * own host alone. */
static void br_generate_host_tree__crosses_once_a_round(void **state)
{
    (void)state;
    for (uint32_t hosts = 2; hosts <= 9; hosts++)
        for (uint32_t per_host = 2; per_host <= 5; per_host++) {
            struct br_schedule_request request = request_of(hosts, per_host);
            uint32_t rounds = 0, core = 1, crossing = 0;

            for (; core * 2 <= hosts; core *= 2)
                rounds++;
            for (request.rank = 0; request.rank < request.n; request.rank++) {
                struct br_schedule *schedule;
                uint32_t sent = 0;

                assert_int_equal(br_algorithm_build(&request, &schedule), 0);
                for (uint32_t i = 0; i < schedule->n_steps; i++)
                    sent += schedule->steps[i].kind == BR_STEP_SEND &&
                            schedule->steps[i].peer / per_host != request.rank / per_host;
                if (!br_host_tree_node(request.rank, per_host).is_root)
                    assert_int_equal(sent, 0);
                crossing += sent;
                br_schedule_free(schedule);
            }
            assert_int_equal(crossing, core * rounds + 2 * (hosts - core));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_host_tree__is_proved),
        cmocka_unit_test(br_generate_host_tree__crosses_once_a_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
