/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/tuning/tuning.h"
#include "tools/plan/timing.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

static const struct br_cost_model model = {
    .n_levels = 1,
    .levels = {{.alpha = 20e-6, .overhead = 1e-6, .beta = 0.8e-9}},
    .gamma = 0.2e-9,
    .copy = 0.1e-9};

/* The same, where a processor moves the bytes of both directions. */
static const struct br_cost_model both_ways = {
    .n_levels = 1,
    .levels = {{.alpha = 20e-6, .overhead = 1e-6, .beta = 0.8e-9, .one_way = 0.56e-9}},
    .gamma = 0.2e-9,
    .copy = 0.1e-9};

/* The ratio of the simulated time to the estimated one. */
static double ratio(const struct br_cost_model *with, const struct br_schedule_request *request,
                    double bytes, double estimate)
{
    struct schedules schedules;
    double seconds = 0;

    schedules_build(&schedules, *request, IN_PLACE_ALL);
    if (br_timing_run(with, (const struct br_schedule *const *)schedules.of, bytes, 1, &seconds) !=
        0)
        fail_msg("%s", br_error_message());
    schedules_free(&schedules);
    return seconds / estimate;
}

/* Ring and direct keep all ports busy alike, so their formulas are exact; trees and scatters are
 * not. */
static void check(const struct br_schedule_request *request, double bytes, double estimate)
{
    bool rooted = request->collective == BR_BROADCAST || request->collective == BR_REDUCE;
    bool exact = !rooted && (request->algorithm == BR_RING || request->algorithm == BR_FLAT ||
                             request->algorithm == BR_DISSEMINATION);
    double got = ratio(&model, request, bytes, estimate);

    exact |= request->algorithm == BR_DIRECT && request->collective == BR_ALLREDUCE;
    exact |= request->algorithm == BR_HALVING &&
             (request->collective == BR_ALLREDUCE || request->packed) &&
             (request->n & (request->n - 1)) == 0;
    if (exact ? fabs(got - 1) > 0.01 : got < 0.3 || got > 1.7)
        fail_msg("%s of %s, %u ranks, %g bytes: %g times the estimate",
                 br_algorithm_name(request->algorithm), br_collective_name(request->collective),
                 request->n, bytes, got);
}

static void br_cost_estimate__agrees_with_the_simulation(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 17; n++) {
        for (int i = 0; i < BR_COLLECTIVES * BR_DIMENSIONAL; i++) {
            struct br_schedule_request request = {.n = n};
            double estimate;

            request.collective = (enum br_collective)(i % BR_COLLECTIVES);
            request.algorithm = (enum br_algorithm)(i / BR_COLLECTIVES);
            for (double bytes = 1e3; bytes <= 1e7; bytes *= 1e4) {
                request.packed = false;
                if (br_cost_estimate(&model, &request, bytes, 1, &estimate) != 0)
                    continue;
                check(&request, bytes, estimate);
                request.packed = br_algorithm_can_pack(&request);
                if (request.packed && br_cost_estimate(&model, &request, bytes, 1, &estimate) == 0)
                    check(&request, bytes, estimate);
            }
        }
    }
}

/* As closely where the directions of a port share a processor, as where each has its own. */
static void br_cost_estimate__agrees_where_directions_share(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 8; n++)
        for (int i = 0; i < BR_COLLECTIVES * BR_DIMENSIONAL; i++) {
            struct br_schedule_request request = {
                .collective = (enum br_collective)(i % BR_COLLECTIVES),
                .algorithm = (enum br_algorithm)(i / BR_COLLECTIVES),
                .n = n};
            /* coarse with few ranks, as with separate directions */
            bool coarse = request.algorithm == BR_BRUCK || request.algorithm == BR_TREE ||
                          request.algorithm == BR_BINARY_TREE ||
                          request.algorithm == BR_DOUBLE_TREE || request.collective == BR_SCAN ||
                          request.collective == BR_EXSCAN;
            double estimate, got;

            if (br_cost_estimate(&both_ways, &request, 1e7, 1, &estimate) != 0)
                continue;
            got = ratio(&both_ways, &request, 1e7, estimate);
            if (coarse ? got < 0.5 || got > 1.35 : fabs(got - 1) > 0.2)
                fail_msg("%s of %s, %u ranks: %g times the estimate",
                         br_algorithm_name(request.algorithm),
                         br_collective_name(request.collective), n, got);
        }
}

/* Messages of as many bytes as leave without READY are not taken for one of all their bytes, and
 * one byte more waits for it. */
static void br_cost_estimate__waits_where_a_message_does(void **state)
{
    enum { EAGER = 8192 };
    struct br_cost_model without = model, with = model;

    (void)state;
    without.eager_bytes = 0;
    with.eager_bytes = EAGER;
    for (uint32_t n = 2; n <= 9; n++) {
        struct br_schedule_request request = {
            .collective = BR_BROADCAST, .algorithm = BR_TREE, .n = n};
        double free_of_it, estimate;

        assert_int_equal(br_cost_estimate(&without, &request, EAGER, 1, &free_of_it), 0);
        assert_int_equal(br_cost_estimate(&with, &request, EAGER, 1, &estimate), 0);
        assert_true(estimate == free_of_it);
        assert_int_equal(br_cost_estimate(&without, &request, EAGER + 1, 1, &free_of_it), 0);
        assert_int_equal(br_cost_estimate(&with, &request, EAGER + 1, 1, &estimate), 0);
        assert_true(estimate > free_of_it);
    }
}

/* Ranks that send nothing in a round of a tree do not keep the cores busy that all share. */
static void br_cost_estimate__asks_the_machine_for_real_messages_only(void **state)
{
    static const struct {
        enum br_collective collective;
        enum br_algorithm algorithm;
    } trees[] = {{BR_BROADCAST, BR_TREE},        {BR_REDUCE, BR_TREE},
                 {BR_BROADCAST, BR_CHAIN},       {BR_REDUCE, BR_CHAIN},
                 {BR_GATHER, BR_TREE},           {BR_SCATTER, BR_TREE},
                 {BR_BROADCAST, BR_FLAT},        {BR_ALLREDUCE, BR_BINARY_TREE},
                 {BR_BROADCAST, BR_BINARY_TREE}, {BR_ALLREDUCE, BR_DOUBLE_TREE}};
    struct br_cost_model crowd = {
        .n_levels = 1, .levels = {{.beta = 1e-9}}, .machine = {.beta = 1e-9}};

    (void)state;
    for (uint32_t n = 4; n <= 16; n *= 2)
        for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
            struct br_schedule_request request = {
                .collective = trees[i].collective, .algorithm = trees[i].algorithm, .n = n};
            double estimate, got;

            assert_int_equal(br_cost_estimate(&crowd, &request, 1e6, 1, &estimate), 0);
            got = ratio(&crowd, &request, 1e6, estimate);
            if (fabs(got - 1) > 0.3)
                fail_msg("%s of %s, %u ranks: %g times the estimate",
                         br_algorithm_name(request.algorithm),
                         br_collective_name(request.collective), n, got);
        }
}

static void br_cost_estimate__counts_levels_of_bml(void **state)
{
    const struct br_cost_model two = {.n_levels = 2, .levels = {{.beta = 1e-9}, {.beta = 1e-9}}};
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 9};
    double seconds;

    (void)state;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 2,
                          .dimensions = {{3, BR_METHOD_DIRECT, 0}, {3, BR_METHOD_DIRECT, 1}}};
    assert_int_equal(br_cost_estimate(&two, &request, 18e6, 1, &seconds), 0);
    assert_true(fabs(seconds / 16e-3 - 1) < 1e-9);
}

/* Packed messages save overheads, and where ranks are folded they cost a copy of all blocks. */
static void br_cost_estimate__counts_packed_messages_and_copies(void **state)
{
    const struct br_cost_model overheads = {.n_levels = 1,
                                            .levels = {{.overhead = 1e-6, .beta = 1e-30}}},
                               copies = {.n_levels = 1, .levels = {{.beta = 1e-30}}, .copy = 1e-9};
    struct br_schedule_request request = {
        .collective = BR_REDUCE_SCATTER, .algorithm = BR_HALVING, .n = 16, .packed = true};
    double seconds;

    (void)state;
    assert_int_equal(br_cost_estimate(&overheads, &request, 1e3, 1, &seconds), 0);
    assert_true(fabs(seconds / 4e-6 - 1) < 1e-9);
    assert_int_equal(br_cost_estimate(&copies, &request, 1e3, 1, &seconds), 0);
    assert_true(seconds < 1e-9);
    request.packed = false;
    assert_int_equal(br_cost_estimate(&overheads, &request, 1e3, 1, &seconds), 0);
    assert_true(fabs(seconds / 15e-6 - 1) < 1e-9);
    request.n = 10;
    request.packed = true;
    assert_int_equal(br_cost_estimate(&overheads, &request, 1e3, 1, &seconds), 0);
    assert_true(fabs(seconds / 5e-6 - 1) < 1e-9);
    assert_int_equal(br_cost_estimate(&copies, &request, 1e3, 1, &seconds), 0);
    assert_true(fabs(seconds / 10e-6 - 1) < 1e-9);
}

/* In a crowd a rank wakes up once for messages that come together, ranks copy in turn, and
 * everybody waits for those who fold; in memory what is passed on has been written. */
static void br_cost_estimate__knows_what_packing_costs_a_crowd(void **state)
{
    struct br_schedule_request request = {
        .collective = BR_ALLGATHER, .algorithm = BR_HALVING, .n = 16, .packed = true};
    struct br_cost_model crowd;
    struct br_topology topology;
    double seconds, without;

    (void)state;
    br_topology_flat(&topology, 16);
    topology.cores = 2;
    crowd = (struct br_cost_model){
        .topology = &topology, .n_levels = 1, .levels = {{.overhead = 1e-6, .beta = 1e-30}}};
    assert_int_equal(br_cost_estimate(&crowd, &request, 1, 1, &seconds), 0);
    assert_true(fabs(seconds / (16 * 4 * 1e-6) - 1) < 1e-9);
    request.algorithm = BR_DIRECT;
    request.packed = false;
    assert_int_equal(br_cost_estimate(&crowd, &request, 1, 1, &seconds), 0);
    assert_true(fabs(seconds / (16 * (1 + 14 * 2.0 / 3) * 1e-6) - 1) < 1e-9);
    request.algorithm = BR_HALVING;
    request.packed = true;
    crowd.copy = 1e-9;
    crowd.in_memory = true;
    assert_int_equal(br_cost_estimate(&crowd, &request, 1e6, 1, &seconds), 0);
    assert_true(fabs((seconds - 64e-6) / ((8 + 4 + 2) * 8 * 1e-3) - 1) < 1e-6);
    crowd.in_memory = false;
    request.n = topology.n = 6;
    assert_int_equal(br_cost_estimate(&crowd, &request, 1e6, 1, &seconds), 0);
    crowd.copy = 0;
    assert_int_equal(br_cost_estimate(&crowd, &request, 1e6, 1, &without), 0);
    assert_true(fabs((seconds - without) / (6 * 3 * 1e-3) - 1) < 1e-6);
    assert_true(fabs(without / ((6 + 4 + 4 + 6) * 1e-6) - 1) < 1e-6);
    br_topology_destroy(&topology);
}

/* Each rank has one core at a time: a rank that sends to all others, or receives from all of them,
 * keeps the other cores waiting, and a tree does not. Sending takes two thirds of a message. */
static void br_cost_estimate__gives_each_rank_of_a_crowd_one_core(void **state)
{
    static const struct {
        enum br_collective collective;
        enum br_algorithm algorithm;
        uint32_t cores;
        double messages; /* that all cores together carry in the meantime */
    } cases[] = {{BR_BROADCAST, BR_FLAT, 2, 7 * 4.0 / 3},
                 {BR_BROADCAST, BR_FLAT, 1, 7},
                 {BR_BROADCAST, BR_TREE, 2, 4.0 / 3 + 2 + 4},
                 {BR_BROADCAST, BR_TREE, 1, 7},
                 {BR_REDUCE, BR_FLAT, 2, 7},
                 {BR_REDUCE, BR_FLAT, 6, 7 * 2},
                 {BR_SCATTER, BR_FLAT, 2, 7 * 4.0 / 3},
                 {BR_SCATTER, BR_TREE, 2, 4.0 / 3 + 2 + 4 + 2 * 2 * 0.2}, /* turns on a core */
                 {BR_GATHER, BR_FLAT, 2, 7},
                 {BR_BARRIER, BR_FLAT, 2, 7 + 7 * 4.0 / 3},
                 {BR_BARRIER, BR_TREE, 2, 2 * (4.0 / 3 + 2 + 4)},
                 {BR_BARRIER, BR_DISSEMINATION, 2, 3 * 8}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_schedule_request request = {
            .collective = cases[i].collective, .algorithm = cases[i].algorithm, .n = 8};
        struct br_topology topology;
        struct br_cost_model crowd = {
            .topology = &topology, .n_levels = 1, .levels = {{.overhead = 1e-6, .beta = 1e-30}}};
        double seconds;

        br_topology_flat(&topology, 8);
        topology.cores = cases[i].cores;
        assert_int_equal(br_cost_estimate(&crowd, &request, 1, 1, &seconds), 0);
        if (fabs(seconds / (cases[i].messages * 1e-6) - 1) > 1e-9)
            fail_msg("%s of %s, %u cores: %g", br_algorithm_name(request.algorithm),
                     br_collective_name(request.collective), topology.cores, seconds * 1e6);
        br_topology_destroy(&topology);
    }
}

static double estimate_of(const struct br_cost_model *with, enum br_collective collective,
                          enum br_algorithm algorithm, double bytes)
{
    struct br_schedule_request request = {
        .collective = collective, .algorithm = algorithm, .n = with->topology->n};
    double seconds = 0;

    assert_int_equal(br_cost_estimate(with, &request, bytes, 1, &seconds), 0);
    return seconds;
}

/* Emulated hosts that share two cores: small calls take what they do without links, large ones what
 * the links take, whatever the cores do meanwhile. */
static void br_cost_estimate__is_bounded_by_measured_links(void **state)
{
    struct br_cost_model crowd, linked, links;
    struct br_topology hosts, apart;

    (void)state;
    br_topology_flat(&hosts, 8);
    apart = hosts;
    hosts.cores = 2;
    hosts.emulated = true;
    br_cost_model_on(&crowd, &hosts, BR_COST_MACHINE, 1);
    linked = links = crowd;
    linked.link = (struct br_cost_level){.alpha = 1e-6, .beta = 80e-9};
    links.topology = &apart;
    links.levels[0] = linked.link;
    assert_true(estimate_of(&linked, BR_ALLREDUCE, BR_DOUBLING, 8) ==
                estimate_of(&crowd, BR_ALLREDUCE, BR_DOUBLING, 8));
    assert_true(estimate_of(&linked, BR_ALLREDUCE, BR_HALVING, 1e6) ==
                estimate_of(&links, BR_ALLREDUCE, BR_HALVING, 1e6));
    assert_true(estimate_of(&linked, BR_ALLREDUCE, BR_HALVING, 1e6) >
                10 * estimate_of(&crowd, BR_ALLREDUCE, BR_HALVING, 1e6));
    assert_true(estimate_of(&linked, BR_BROADCAST, BR_TREE, 1e6) ==
                estimate_of(&crowd, BR_BROADCAST, BR_TREE, 1e6));
    linked.link.alpha = 1e-3;
    assert_true(estimate_of(&linked, BR_BARRIER, BR_FLAT, 0) > 1.9e-3);
}

static void br_cost_estimate__refuses_what_does_not_apply(void **state)
{
    struct br_schedule_request request = {.collective = BR_BARRIER, .algorithm = BR_RING, .n = 4};
    double seconds;

    (void)state;
    assert_int_equal(br_cost_estimate(&model, &request, 1, 1, &seconds), -EINVAL);
    assert_says(br_error_message(), "ring|barrier");
}

static void br_tuning_choose__is_never_beaten_by_another_estimate(void **state)
{
    (void)state;
    for (int i = 0; i < BR_COLLECTIVES * BR_DIMENSIONAL; i++) {
        struct br_schedule_request request = {.n = 12};

        request.collective = (enum br_collective)(i % BR_COLLECTIVES);
        request.algorithm = (enum br_algorithm)(i / BR_COLLECTIVES);
        for (double bytes = 1; bytes <= 1e9; bytes *= 10) {
            struct br_tuning tuning;
            double seconds = INFINITY;

            assert_int_equal(
                br_tuning_choose(&model, request.collective, request.n, bytes, &tuning), 0);
            if (br_cost_estimate(&model, &request, bytes, 4, &seconds) == 0)
                assert_true(tuning.seconds <= seconds);
        }
    }
}

static void br_tuning_choose__takes_latency_for_small_and_bandwidth_for_large(void **state)
{
    struct br_tuning small, large;

    (void)state;
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, 8, &small), 0);
    assert_int_equal(small.config.algorithm, BR_FLAT);
    assert_int_equal(small.fragments, 1);
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, 1e8, &large), 0);
    assert_int_not_equal(large.config.algorithm, BR_FLAT);
    assert_true(large.fragments > 1);
    assert_int_equal(br_tuning_choose(&model, BR_BARRIER, 4, 0, &small), 0);
    assert_int_equal(small.config.algorithm, BR_DISSEMINATION);
}

static void br_tuning_choose__refuses_nonsense(void **state)
{
    struct br_cost_model none = {.n_levels = 0};
    struct br_tuning tuning = {.fragments = 77};

    (void)state;
    assert_int_equal(br_tuning_choose(&none, BR_ALLREDUCE, 4, 8, &tuning), -EINVAL);
    assert_says(br_error_message(), "cost model");
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 0, 8, &tuning), -EINVAL);
    assert_int_equal(tuning.fragments, 77);
}

static void br_cost_message__adds_up_the_rates_of_all_levels(void **state)
{
    struct br_cost_model rails;

    (void)state;
    br_cost_model_default(&rails, BR_COST_NETWORK, 4);
    assert_int_equal(br_cost_model_check(&rails), 0);
    assert_true(fabs(br_cost_message(&rails, BR_LEVEL_ANY).beta * 4 / rails.levels[0].beta - 1) <
                1e-9);
    assert_true(br_cost_message(&rails, 3).beta == rails.levels[3].beta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_cost_estimate__agrees_with_the_simulation),
        cmocka_unit_test(br_cost_estimate__agrees_where_directions_share),
        cmocka_unit_test(br_cost_estimate__waits_where_a_message_does),
        cmocka_unit_test(br_cost_estimate__asks_the_machine_for_real_messages_only),
        cmocka_unit_test(br_cost_estimate__counts_levels_of_bml),
        cmocka_unit_test(br_cost_estimate__counts_packed_messages_and_copies),
        cmocka_unit_test(br_cost_estimate__knows_what_packing_costs_a_crowd),
        cmocka_unit_test(br_cost_estimate__gives_each_rank_of_a_crowd_one_core),
        cmocka_unit_test(br_cost_estimate__is_bounded_by_measured_links),
        cmocka_unit_test(br_cost_estimate__refuses_what_does_not_apply),
        cmocka_unit_test(br_tuning_choose__is_never_beaten_by_another_estimate),
        cmocka_unit_test(br_tuning_choose__takes_latency_for_small_and_bandwidth_for_large),
        cmocka_unit_test(br_tuning_choose__refuses_nonsense),
        cmocka_unit_test(br_cost_message__adds_up_the_rates_of_all_levels),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
