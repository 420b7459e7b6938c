/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BML on simulated BCubes against the paper's 2(N-1)/(kN) T_F. BRAID_BML=N,K runs that cube alone
 * and prints its figures (bench/bml_scale.sh).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "bml.h"
#include "collectives/tuning/algorithm_config.h"
#include "bcube/disjoint_trees.h"

static void run(const struct bml_plan *plan, struct bml_result *result)
{
    bml_run(plan, result);
    if (result->wrong[0])
        fail_msg("BCube(%u,%u): %s", plan->n, plan->k, result->wrong);
}

static void bml__takes_the_papers_time(void **state)
{
    static const struct bml_plan plans[] = {
        {2, 2, 1000000000, 1, {1 << 20}, "bml", 512 << 10, 1024, NULL},
        {3, 2, 1000000000, 1, {1 << 20}, "bml", 512 << 10, 1024, NULL},
        {2, 3, 1000000000, 1, {1 << 20}, "bml", 512 << 10, 1024, NULL},
        {4, 2, 1000000000, 1, {1 << 20}, "auto", 512 << 10, 1024, NULL},
        {4, 3, 1000000000, 1, {1 << 19}, "bml", 512 << 10, 256, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        struct bml_result result;

        run(&plans[i], &result);
        printf("BCube(%u,%u): %.4f of the paper's time\n", plans[i].n, plans[i].k,
               result.seconds / result.theory);
        if (result.seconds < result.theory || result.seconds > 1.02 * result.theory)
            fail_msg("BCube(%u,%u): %g ms, by theory %g", plans[i].n, plans[i].k,
                     result.seconds * 1e3, result.theory * 1e3);
    }
}

/* Layer by layer: what is left at the end is little, and its steps wait for each other. */
static void bml__of_vgg19_layer_by_layer(void **state)
{
    static const uint32_t cubes[][2] = {{2, 2}, {3, 2}, {2, 3}, {4, 2}};
    static const uint32_t layers[] = {
        1792,    36928,   73856,   147584,  295168,  590080,  590080,    590080,   1180160, 2359808,
        2359808, 2359808, 2359808, 2359808, 2359808, 2359808, 102764544, 16781312, 4097000};
    struct bml_plan plan = {.bits_per_second = 100000000,
                            .n_layers = sizeof layers / sizeof *layers,
                            .algorithm = "bml",
                            .chunk_bytes = 512 << 10,
                            .eager_bytes = 16 << 10};

    (void)state;
    for (uint32_t i = 0; i < plan.n_layers; i++)
        plan.layers[i] = layers[i] / 25;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct bml_result result;

        plan.n = cubes[i][0];
        plan.k = cubes[i][1];
        run(&plan, &result);
        printf("BCube(%u,%u), 4 %% of VGG-19: %.4f of the paper's time\n", plan.n, plan.k,
               result.seconds / result.theory);
        if (result.seconds < result.theory || result.seconds > 1.045 * result.theory)
            fail_msg("BCube(%u,%u): %g ms, by theory %g", plan.n, plan.k, result.seconds * 1e3,
                     result.theory * 1e3);
    }
}

/* With a NIC, or a switch, out: 5/6 of the speed that the links that are left allow. */
static void disjoint_trees__takes_what_the_links_allow(void **state)
{
    static const struct {
        uint32_t n, k;
        enum br_failure kind;
        uint32_t number;
        double least; /* T_F: max(2(N-1) / NICs, 1 / NICs of a host) */
    } cases[] = {
        {3, 2, BR_FAILURE_NIC, 4, 1.0},          {3, 2, BR_FAILURE_SWITCH, 1, 16.0 / 15},
        {2, 2, BR_FAILURE_NIC, 0, 1.0},          {2, 3, BR_FAILURE_NIC, 3, 14.0 / 22},
        {4, 2, BR_FAILURE_SWITCH, 2, 30.0 / 28},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bml_plan plan = {cases[i].n,       cases[i].k, 100000000, 1,   {1 << 21},
                                "disjoint_trees", 512 << 10,  16 << 10,  NULL};
        struct br_failures failures = {0};
        struct bml_result result;
        struct br_disjoint_trees *trees;
        struct br_bcube cube;

        assert_int_equal(br_bcube_init(&cube, cases[i].n, cases[i].k), 0);
        assert_int_equal(br_failures_add(&failures, cases[i].kind, cases[i].number, 0), 0);
        assert_int_equal(br_disjoint_trees_new(&cube, &failures, &trees), 0);
        plan.trees = trees;
        run(&plan, &result);
        printf("BCube(%u,%u), a %s of level 0 is out: %.4f of what the others allow, %u of %u "
               "edges at a "
               "NIC, depth %u\n",
               plan.n, plan.k, cases[i].kind == BR_FAILURE_NIC ? "NIC" : "switch",
               result.seconds / result.one_link / cases[i].least, trees->busiest, trees->trees,
               trees->depth);
        assert_true(result.seconds < 1.2 * cases[i].least * result.one_link);
        br_disjoint_trees_free(trees);
        br_failures_destroy(&failures);
    }
}

/* The generator's cost grows with what one rank does, and stays small where nobody could simulate
 * all. */
static void br_algorithm_build__bml_of_65536_hosts(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_BML, .rank = 12345};
    struct br_schedule *schedule;
    struct br_topology topology;
    struct rusage before, after;
    struct br_algorithm_config config;
    uint64_t start;
    double ms, mib;

    (void)state;
    assert_int_equal(br_topology_parse(&topology, "bcube:16,4"), 0);
    assert_int_equal(br_algorithm_config_parse(&topology, "bml", &config), 0);
    request.n = topology.n;
    request.shape = config.shape;
    getrusage(RUSAGE_SELF, &before);
    start = br_clock_now();
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    ms = (double)(br_clock_now() - start) / 1e6;
    getrusage(RUSAGE_SELF, &after);
    mib = (double)(after.ru_maxrss - before.ru_maxrss) / 1024;
    printf("BCube(16,4), rank 12345: %u steps in %.1f ms, %.1f MiB\n", schedule->n_steps, ms, mib);
    assert_int_equal(schedule->n_sends, 4 * 2 * 4 * 15);
    assert_true(mib < 64);
    br_schedule_free(schedule);
}

/* One cube, as large as there is memory for. */
static int run_alone(const char *cube)
{
    struct bml_plan plan = {.bits_per_second = 100000000,
                            .n_layers = 1,
                            .layers = {1 << 18},
                            .algorithm = "bml",
                            .chunk_bytes = 512 << 10,
                            .eager_bytes = 256};
    const char *count = getenv("BRAID_BML_COUNT"), *rate = getenv("BRAID_BML_RATE");
    struct bml_result result;
    struct rusage usage;
    uint64_t start = br_clock_now();

    if (sscanf(cube, "%u,%u", &plan.n, &plan.k) != 2) {
        fprintf(stderr, "BRAID_BML is %s; write N,K\n", cube);
        return 2;
    }
    if (count)
        plan.layers[0] = (uint32_t)atoi(count);
    if (rate)
        plan.bits_per_second = strtoull(rate, NULL, 10);
    bml_run(&plan, &result);
    if (result.wrong[0]) {
        fprintf(stderr, "BCube(%u,%u): %s\n", plan.n, plan.k, result.wrong);
        return 1;
    }
    getrusage(RUSAGE_SELF, &usage);
    printf("BCube(%u,%u), %u float32 a host at %llu Mb/s: %.4f s, by theory %.4f s: %.4f times; "
           "%llu frames, "
           "%.1f s of "
           "CPU, %ld MiB\n",
           plan.n, plan.k, plan.layers[0], (unsigned long long)plan.bits_per_second / 1000000,
           result.seconds, result.theory, result.seconds / result.theory,
           (unsigned long long)result.frames, (double)(br_clock_now() - start) / 1e9,
           usage.ru_maxrss / 1024);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_algorithm_build__bml_of_65536_hosts),
        cmocka_unit_test(disjoint_trees__takes_what_the_links_allow),
        cmocka_unit_test(bml__takes_the_papers_time),
        cmocka_unit_test(bml__of_vgg19_layer_by_layer),
    };

    if (getenv("BRAID_BML"))
        return run_alone(getenv("BRAID_BML"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
