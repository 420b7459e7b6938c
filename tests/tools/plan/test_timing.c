/* SPDX-License-Identifier: BSD-3-Clause */
/* The closed formulas of the papers are the oracles. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/error.h"
#include "tools/plan/timing.h"
#include "protocol/message.h"
#include "tests/collectives/schedules.h"

#define ALPHA 20e-6
#define BETA  0.8e-9
#define GAMMA 0.2e-9
#define BYTES 8e6

static const struct br_cost_model model = {
    .n_levels = 1, .levels = {{.alpha = ALPHA, .beta = BETA}}, .gamma = GAMMA, .copy = GAMMA};

static double simulated(const struct br_cost_model *with, struct br_schedule_request request,
                        double bytes, uint32_t fragments)
{
    struct schedules schedules;
    double seconds = 0;

    schedules_build(&schedules, request, IN_PLACE_ALL);
    if (br_timing_run(with, (const struct br_schedule *const *)schedules.of, bytes, fragments,
                      &seconds) != 0)
        fail_msg("%s", br_error_message());
    schedules_free(&schedules);
    return seconds;
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * want))
        fail_msg("%.9g is not within %g of %.9g", got, tolerance, want);
}

static void br_timing_run__ring_is_mg_wfbp_formula(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 33; n++) {
        double a = 2 * (n - 1) * ALPHA, b = (2 * (n - 1) * BETA + (n - 1) * GAMMA) / n;

        assert_near(
            simulated(&model, (struct br_schedule_request){.algorithm = BR_RING, .n = n}, BYTES, 1),
            a + b * BYTES, 0.01);
    }
}

static void br_timing_run__halving_is_mg_wfbp_formula(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 64; n *= 2) {
        double a = 2 * log2(n) * ALPHA, b = 2 * BETA - (2 * BETA + GAMMA) / n + GAMMA;

        assert_near(simulated(&model, (struct br_schedule_request){.algorithm = BR_HALVING, .n = n},
                              BYTES, 1),
                    a + b * BYTES, 0.01);
    }
}

/* T = 2 sum_i T_rc(p_i, N / prod_{j<i} p_j, alpha, w_i), each dimension on a level of its own. */
static void br_timing_run__product_is_blueconnect_formula(void **state)
{
    const struct br_cost_model two = {
        .n_levels = 2,
        .levels = {{.alpha = ALPHA / 4, .beta = BETA / 8}, {.alpha = ALPHA, .beta = BETA}},
        .gamma = 0};
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 24};
    double first, second;

    (void)state;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 1,
                          .dimensions = {{8, BR_METHOD_HALVING, 0}, {3, BR_METHOD_RING, 1}}};
    first = 3 * ALPHA / 4 + 7.0 / 8 * BYTES * BETA / 8;
    second = 2 * ALPHA + 2.0 / 3 * BYTES / 8 * BETA;
    assert_near(simulated(&two, request, BYTES, 1), 2 * (first + second), 0.01);
}

/* BML on BCube(3,2): 16/18 of the time to send the gradients once over one link, as in the
 * paper. */
static void br_timing_run__bml_is_the_papers_time(void **state)
{
    const struct br_cost_model two = {.n_levels = 2, .levels = {{.beta = BETA}, {.beta = BETA}}};
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 9};

    (void)state;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 2,
                          .dimensions = {{3, BR_METHOD_DIRECT, 0}, {3, BR_METHOD_DIRECT, 1}}};
    assert_near(simulated(&two, request, BYTES, 1), 16.0 / 18 * BYTES * BETA, 0.001);
}

/* One message goes at the rate of one way, two that cross each other at that of both ways. */
static void br_timing_run__directions_share_a_processor(void **state)
{
    const struct br_cost_model both = {.n_levels = 1,
                                       .levels = {{.beta = BETA, .one_way = 0.6 * BETA}}};
    struct br_schedule_request broadcast = {
        .collective = BR_BROADCAST, .algorithm = BR_FLAT, .n = 2};
    struct br_schedule_request all = {.collective = BR_ALLTOALL, .algorithm = BR_DIRECT, .n = 2};

    (void)state;
    assert_near(simulated(&both, broadcast, BYTES, 1), 0.6 * BYTES * BETA, 0.001);
    assert_near(simulated(&both, all, BYTES, 1), BYTES * BETA, 0.001);
}

/* A rank can receive before its partner sends all but the first message, so only that one waits. */
static void br_timing_run__the_first_long_message_waits_for_ready(void **state)
{
    static const enum br_algorithm algorithms[] = {BR_RING, BR_HALVING, BR_DOUBLING, BR_DIRECT};
    struct br_cost_model waits = model;

    (void)state;
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++)
        for (double bytes = 64; bytes <= BYTES; bytes *= BYTES / 64) {
            struct br_schedule_request request = {.algorithm = algorithms[i], .n = 8};
            double before, estimate_before, estimate, extra = bytes > 64 ? ALPHA : 0;

            waits.eager_bytes = 0;
            before = simulated(&waits, request, bytes, 1);
            assert_int_equal(br_cost_estimate(&waits, &request, bytes, 1, &estimate_before), 0);
            waits.eager_bytes = 32 << 10;
            assert_near(simulated(&waits, request, bytes, 1), before + extra, 1e-9);
            assert_int_equal(br_cost_estimate(&waits, &request, bytes, 1, &estimate), 0);
            assert_near(estimate, estimate_before + extra, 1e-9);
        }
}

static void br_timing_run__fragments_overlap_reduction_with_messages(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_RING, .n = 4};
    struct br_cost_model slow = model;

    (void)state;
    slow.levels[0].alpha = 0;
    slow.gamma = BETA;
    assert_near(simulated(&slow, request, BYTES, 1), (6 * BETA + 3 * BETA) * BYTES / 4, 0.01);
    assert_near(simulated(&slow, request, BYTES, 32), 6 * BETA * BYTES / 4, 0.15);
}

static void br_timing_run__messages_on_any_level_use_all_rails(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_RING, .n = 4};
    struct br_cost_model rails = model;

    (void)state;
    rails.n_levels = 2;
    rails.levels[1] = rails.levels[0];
    rails.gamma = 0;
    assert_near(simulated(&rails, request, BYTES, 1), 6 * (ALPHA + BYTES / 4 * BETA / 2), 0.001);
}

static void br_timing_run__messages_share_a_port(void **state)
{
    struct br_schedule_request request = {.collective = BR_REDUCE, .algorithm = BR_FLAT, .n = 8};
    struct br_cost_model port = model;

    (void)state;
    port.gamma = 0;
    assert_near(simulated(&port, request, BYTES, 1), ALPHA + 7 * BYTES * BETA, 0.001);
}

/* In BCube(2,2) the root's two links carry a message to a neighbour each, and half of that to the
 * far rank. */
static void br_timing_run__relayed_messages_take_all_routes(void **state)
{
    struct br_schedule_request request = {.collective = BR_BROADCAST, .algorithm = BR_FLAT, .n = 4};
    struct br_cost_model two = {
        .n_levels = 2, .levels = {{.beta = BETA}, {.beta = BETA}}, .relay = ALPHA};
    struct br_topology cube;

    (void)state;
    assert_int_equal(br_topology_parse(&cube, "bcube:2,2"), 0);
    two.topology = &cube;
    assert_near(simulated(&two, request, BYTES, 1), 1.5 * BYTES * BETA, 0.001);
    assert_near(simulated(&two, request, 0, 1), ALPHA, 0.001);
}

/* One goes one way, beside a message to a neighbour, and the host in between passes it on when it
 * has all of it. */
static void br_timing_run__relayed_frames_are_passed_on_whole(void **state)
{
    struct br_schedule_request request = {.collective = BR_BROADCAST, .algorithm = BR_FLAT, .n = 4};
    struct br_cost_model two = {.n_levels = 2, .levels = {{.beta = BETA}, {.beta = BETA}}};
    struct br_topology cube;

    (void)state;
    assert_int_equal(br_topology_parse(&cube, "bcube:2,2"), 0);
    two.topology = &cube;
    assert_near(simulated(&two, request, BR_RELAY_PAYLOAD, 1), 3 * BR_RELAY_PAYLOAD * BETA, 1e-6);
    assert_near(simulated(&two, request, 1000, 1), 3 * 1000 * BETA, 1e-6);
}

/* Four at once want twice what the cores can carry; one message alone is not slowed down. */
static void br_timing_run__ranks_of_one_machine_share_its_cores(void **state)
{
    struct br_schedule_request ring = {.algorithm = BR_RING, .n = 4},
                               chain = {.collective = BR_BROADCAST, .algorithm = BR_CHAIN, .n = 4};
    struct br_cost_model crowd = model;

    (void)state;
    crowd.gamma = 0;
    crowd.machine = (struct br_cost_machine){.beta = BETA / 2};
    assert_near(simulated(&crowd, ring, BYTES, 1), 6 * (ALPHA + BYTES / 4 * BETA * 2), 0.001);
    assert_near(simulated(&crowd, chain, BYTES, 1), 3 * (ALPHA + BYTES * BETA), 0.001);
}

/* READY of a long block is one more message for the cores; the root of a gather does not count it,
 * as in the formulas. */
static void br_timing_run__ready_takes_the_cores(void **state)
{
    struct br_schedule_request all = {.collective = BR_ALLGATHER, .algorithm = BR_DIRECT, .n = 4},
                               root = {.collective = BR_GATHER, .algorithm = BR_FLAT, .n = 4};
    struct br_cost_model crowd = model;
    struct br_topology flat;
    double without;

    (void)state;
    br_topology_flat(&flat, 4);
    flat.cores = 2;
    crowd.topology = &flat;
    crowd.levels[0].overhead = ALPHA;
    without = simulated(&crowd, all, BYTES, 1);
    crowd.eager_bytes = 32 << 10;
    assert_near(simulated(&crowd, all, BYTES, 1), without + 12 * ALPHA, 1e-6);
    without = simulated(&crowd, root, BYTES, 1);
    crowd.eager_bytes = 0;
    assert_near(simulated(&crowd, root, BYTES, 1), without, 1e-9);
}

static void br_timing_run__refuses_a_model_that_is_none(void **state)
{
    struct br_cost_model none = model;
    const struct br_schedule *schedules[1] = {NULL};
    double seconds;

    (void)state;
    none.levels[0].beta = NAN;
    assert_int_equal(br_timing_run(&none, schedules, BYTES, 1, &seconds), -EINVAL);
    none = model;
    none.machine.relayed_beta = -1;
    assert_int_equal(br_timing_run(&none, schedules, BYTES, 1, &seconds), -EINVAL);
    none.n_levels = 0;
    assert_int_equal(br_timing_run(&none, schedules, BYTES, 1, &seconds), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_timing_run__ring_is_mg_wfbp_formula),
        cmocka_unit_test(br_timing_run__halving_is_mg_wfbp_formula),
        cmocka_unit_test(br_timing_run__product_is_blueconnect_formula),
        cmocka_unit_test(br_timing_run__bml_is_the_papers_time),
        cmocka_unit_test(br_timing_run__directions_share_a_processor),
        cmocka_unit_test(br_timing_run__the_first_long_message_waits_for_ready),
        cmocka_unit_test(br_timing_run__fragments_overlap_reduction_with_messages),
        cmocka_unit_test(br_timing_run__messages_on_any_level_use_all_rails),
        cmocka_unit_test(br_timing_run__messages_share_a_port),
        cmocka_unit_test(br_timing_run__relayed_messages_take_all_routes),
        cmocka_unit_test(br_timing_run__relayed_frames_are_passed_on_whole),
        cmocka_unit_test(br_timing_run__ranks_of_one_machine_share_its_cores),
        cmocka_unit_test(br_timing_run__ready_takes_the_cores),
        cmocka_unit_test(br_timing_run__refuses_a_model_that_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
