/* SPDX-License-Identifier: BSD-3-Clause */
/* Training in virtual time: the time line's predictions hold for the engine and the protocol as
 * they are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/plan/simulate.h"

#define LAYERS 12
#define VGG    19

static struct br_topology topology;
static struct br_cost_model model;

static struct br_plan_simulation network(const char *text, const char *gbit, const char *latency)
{
    struct br_plan_settings set = {.simulate = true, .gbit = gbit, .latency = latency};
    struct br_plan_simulation simulation;

    assert_int_equal(br_topology_parse(&topology, text), 0);
    br_cost_model_on(&model, &topology, BR_COST_NETWORK, 1);
    model.chunk_bytes = 512 << 10;
    assert_int_equal(br_plan_simulation_open(&simulation, &set, &model), 0);
    return simulation;
}

static void simulate(const struct br_plan_simulation *simulation, const struct br_workload *work,
                     uint8_t *joins, bool urgent, struct br_timeline *line)
{
    struct br_policy_plan plan = {.joins = joins, .urgent = urgent};

    assert_int_equal(br_timeline_open(line, work->n), 0);
    assert_int_equal(br_plan_simulation_run(simulation, work, &plan, false, line), 0);
}

static void assert_near(double is, double should, double share)
{
    if (fabs(is - should) > share * should)
        fail_msg("%g, not %g", is, should);
}

/* It has the link until layer 2 is there, which layer 1 overtakes in turn, and again when both are
 * through. */
static void assert_layer_3_is_overtaken(const struct br_timeline *line)
{
    const struct br_timeline_span *first = NULL, *last = NULL;

    for (uint32_t i = 0; i < line->n_spans; i++) {
        const struct br_timeline_span *span = &line->spans[i];

        assert_true(span->end > span->start);
        if (span->group != line->layers[2].group)
            continue;
        first = first ? first : span;
        last = span;
        if (span->start < .115 && span->end > .045)
            fail_msg("layer 3 has the link from %g to %g s, which is the others'", span->start,
                     span->end);
    }
    assert_non_null(first);
    assert_true(last > first);
    assert_near(first->start, .02, .02);
    assert_near(first->end, .04, .05);
    assert_near(last->end, .14, .05);
    assert_near(line->groups[line->layers[2].group].start, .02, .02);
}

/*
 * P3's figure: three layers, forward and backward 1 unit each, synchronisation 2. The delay between
 * the passes is 4 units in order, 2 by priority. A unit is 20 ms, in which two ranks all-reduce 2.5
 * MB at 1 Gb/s. Headers and what is already on its way when something more urgent comes take the
 * rest.
 */
static void training__p3s_three_layers(void **state)
{
    static const struct br_layer layers[3] = {{5e6, .02, .02}, {5e6, .02, .02}, {5e6, .02, .02}};
    const struct br_workload work = {.layers = layers, .n = 3};
    struct br_plan_simulation simulation = network("flat:2", "1", "1");
    uint8_t joins[3] = {0};
    struct br_timeline line;

    (void)state;
    simulate(&simulation, &work, joins, false, &line);
    assert_near(line.delay, .08, .01);
    assert_near(line.iteration, .2, .01);
    assert_near(line.exposed, .08, .01);
    br_timeline_close(&line);
    simulate(&simulation, &work, joins, true, &line);
    assert_near(line.delay, .04, .04);
    assert_near(line.iteration, .16, .02);
    assert_layer_3_is_overtaken(&line);
    br_timeline_close(&line);
}

/* Layers as of a convolutional network: small first, large last, computation about as long as
 * communication. */
static struct br_workload drawn(struct br_layer layers[LAYERS], double scale)
{
    for (int l = 0; l < LAYERS; l++)
        layers[l] = (struct br_layer){4 * floor(20000 * pow(1.5, l)), scale * (12 - l),
                                      2 * scale * (12 - l)};
    return (struct br_workload){.layers = layers,
                                .n = LAYERS,
                                .slice_bytes = BR_TRAINING_SLICE_BYTES,
                                .bucket_bytes = 1 << 20};
}

/* What every policy is predicted to take, with a and b of the same network, is what it takes. */
static void training__predictions_hold(void **state)
{
    static const struct {
        const char *topology, *gbit;
        double scale;
    } cases[] = {{"flat:4", "1", 2e-4}, {"bcube:3,2", "1", 1e-4}, {"flat:5", "0.2", 1e-3}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_plan_simulation simulation = network(cases[i].topology, cases[i].gbit, "20");
        struct br_layer layers[LAYERS];
        struct br_workload work = drawn(layers, cases[i].scale);

        assert_int_equal(br_plan_simulation_cost(&simulation, &work, &work.cost), 0);
        for (int p = 0; p < BR_POLICIES; p++) {
            uint8_t joins[LAYERS];
            struct br_policy_plan plan = {.joins = joins};
            struct br_timeline line;

            assert_int_equal(br_policy_make((enum br_policy)p, &work, &plan), 0);
            simulate(&simulation, &work, joins, plan.urgent, &line);
            print_message("%s %s: %.3f ms, predicted %.3f\n", cases[i].topology,
                          br_policy_name((enum br_policy)p), line.iteration * 1e3,
                          plan.iteration * 1e3);
            assert_near(line.iteration, plan.iteration, .06);
            br_timeline_close(&line);
        }
    }
}

/* As many hosts as nobody has: only the links that halving and doubling takes are made, and what no
 * transfer needs takes no memory. */
static void training__a_thousand_hosts(void **state)
{
    static const struct br_layer layers[2] = {{65536, 1e-4, 2e-4}, {65536, 1e-4, 2e-4}};
    const struct br_workload work = {.layers = layers, .n = 2};
    struct br_plan_simulation simulation = network("flat:1024", "10", "5");
    uint8_t joins[2] = {0, 1};
    double alone;
    struct br_sim_job job;
    struct br_timeline line;

    (void)state;
    simulation.algorithm = "halving";
    simulation.iterations = 2;
    assert_int_equal(br_sim_job_open(&job, &simulation.config), 0);
    assert_int_equal(br_sim_training_time(&job, "halving", 131072, 1, &alone), 0);
    br_sim_job_close(&job);
    simulate(&simulation, &work, joins, false, &line);
    assert_near(line.iteration, 6e-4 + alone, .02);
    br_timeline_close(&line);
}

/*
 * VGG-19 (0.26 % of each gradient, 110 ms of computation) on 8 hosts at 100 Mb/s: nearly all bytes
 * are ready first, and what the forward pass begins with overtakes them step by step, each behind
 * frames that are on the links already. `auto` counts with that: without, it planned one late
 * urgent group, which took 15 % longer than predicted.
 */
static void training__auto_counts_what_overtaking_costs(void **state)
{
    static const uint32_t counts[VGG] = {5,    97,   193,    386,   771,  1541, 1541,
                                         1541, 3081, 6160,   6160,  6160, 6160, 6160,
                                         6160, 6160, 268236, 43803, 10694};
    static const uint32_t forward_us[VGG] = {162,  3455, 1727, 3455, 1727, 3455, 3455,
                                             3455, 1727, 3455, 3455, 3455, 864,  864,
                                             864,  864,  192,  31,   8};
    struct br_plan_simulation simulation = network("flat:8", "0.0955", "100");
    struct br_layer layers[VGG];
    struct br_workload work = {
        .layers = layers, .n = VGG, .slice_bytes = BR_TRAINING_SLICE_BYTES, .bucket_bytes = 65536};
    double taken[BR_POLICIES];

    (void)state;
    for (int l = 0; l < VGG; l++)
        layers[l] = (struct br_layer){4. * counts[l], 1e-6 * forward_us[l], 2e-6 * forward_us[l]};
    simulation.config.chunk_bytes = 0;
    assert_int_equal(br_plan_simulation_cost(&simulation, &work, &work.cost), 0);
    assert_int_equal(br_plan_simulation_overtake(&simulation, &work, &work.overtake), 0);
    for (int p = 0; p < BR_POLICIES; p++) {
        uint8_t joins[VGG];
        struct br_policy_plan plan = {.joins = joins};
        struct br_timeline line;

        assert_int_equal(br_policy_make((enum br_policy)p, &work, &plan), 0);
        simulate(&simulation, &work, joins, plan.urgent, &line);
        print_message("%s: %.3f ms, predicted %.3f\n", br_policy_name((enum br_policy)p),
                      line.iteration * 1e3, plan.iteration * 1e3);
        taken[p] = line.iteration;
        br_timeline_close(&line);
    }
    for (int p = 0; p < BR_POLICIES; p++)
        assert_true(taken[BR_POLICY_AUTO] < taken[p] * 1.03);
}

/* Bytes that are not carried change no time, and the same seed gives the same times. */
static void training__hollow_frames_take_as_long(void **state)
{
    struct br_plan_simulation simulation = network("bcube:2,2", "1", "20");
    struct br_layer layers[LAYERS];
    const struct br_workload work = drawn(layers, 1e-4);
    uint8_t joins[LAYERS] = {0};
    struct br_timeline lines[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        simulation.config.network.hollow = i != 1;
        simulate(&simulation, &work, joins, true, &lines[i]);
        assert_memory_equal(lines[i].groups, lines[0].groups,
                            lines[0].n_groups * sizeof *lines[0].groups);
        assert_true(lines[i].iteration <= lines[0].iteration &&
                    lines[i].iteration >= lines[0].iteration);
    }
    for (int i = 0; i < 3; i++)
        br_timeline_close(&lines[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training__p3s_three_layers),
        cmocka_unit_test(training__predictions_hold),
        cmocka_unit_test(training__a_thousand_hosts),
        cmocka_unit_test(training__auto_counts_what_overtaking_costs),
        cmocka_unit_test(training__hollow_frames_take_as_long),
    };

    return cmocka_run_group_tests_name("sim/training", tests, NULL, NULL);
}
