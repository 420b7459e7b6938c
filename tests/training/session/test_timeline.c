/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/training/session/workloads.h"
#include "training/session/merge.h"
#include "training/session/timeline.h"

#include <math.h>
#include <string.h>

#define NEAR(a, b) assert_true(fabs((double)(a) - (double)(b)) <= 1e-9 * fabs((double)(b)) + 1e-12)

/* P3's figure: three layers, forward and backward 1 unit each, synchronisation 2. */
static const struct br_layer three[3] = {{2, 1, 1}, {2, 1, 1}, {2, 1, 1}};
static const struct br_workload p3 = {.layers = three, .n = 3, .cost = {0, 1}, .slice_bytes = 1};

static void timeline_run__three_layers_in_order(void **state)
{
    struct br_timeline line;

    (void)state;
    assert_int_equal(br_timeline_open(&line, 3), 0);
    br_timeline_run(&line, &p3, (uint8_t[]){0, 0, 0}, false);
    NEAR(line.delay, 4);
    NEAR(line.iteration, 10);
    NEAR(line.exposed, 4);
    NEAR(line.reduced, 7);
    NEAR(line.layers[2].backward, 0);
    NEAR(line.layers[0].backward_end, 3);
    NEAR(line.groups[0].start, 1);
    NEAR(line.groups[2].end, 7);
    assert_int_equal(line.layers[0].group, 2);
    br_timeline_close(&line);
}

static void timeline_run__three_layers_urgent(void **state)
{
    static const double spans[][3] = {{0, 1, 2}, {1, 2, 3}, {2, 3, 5}, {1, 5, 6}, {0, 6, 7}};
    struct br_timeline line;

    (void)state;
    assert_int_equal(br_timeline_open(&line, 3), 0);
    br_timeline_run(&line, &p3, (uint8_t[]){0, 0, 0}, true);
    NEAR(line.delay, 2);
    NEAR(line.iteration, 8);
    NEAR(line.exposed, 2);
    assert_int_equal(line.n_spans, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(line.spans[i].group, (uint32_t)spans[i][0]);
        NEAR(line.spans[i].start, spans[i][1]);
        NEAR(line.spans[i].end, spans[i][2]);
    }
    br_timeline_close(&line);
}

/* Layer 2 goes on top of layer 3 only when that is through, layer 1 on top of layer 2 a unit after
 * it was ready. */
static void timeline_run__overtaking_takes_its_time(void **state)
{
    struct br_workload slow = p3;
    struct br_timeline line;

    (void)state;
    slow.overtake = 1;
    assert_int_equal(br_timeline_open(&line, 3), 0);
    br_timeline_run(&line, &slow, (uint8_t[]){0, 0, 0}, true);
    NEAR(line.groups[0].end, 3);
    NEAR(line.groups[2].end, 6);
    NEAR(line.groups[1].end, 7);
    NEAR(line.delay, 3);
    NEAR(line.iteration, 9);
    br_timeline_run(&line, &slow, (uint8_t[]){0, 0, 0}, false);
    NEAR(line.iteration, 10);
    br_timeline_close(&line);
}

/* Slices of 2: nothing overtakes within a layer, and layer 1 comes after the first layer that
 * left. */
static void timeline_run__overtaking_waits_for_the_slice(void **state)
{
    struct br_workload coarse = p3;
    struct br_timeline line;

    (void)state;
    coarse.slice_bytes = 2;
    assert_int_equal(br_timeline_open(&line, 3), 0);
    br_timeline_run(&line, &coarse, (uint8_t[]){0, 0, 0}, true);
    NEAR(line.groups[0].end, 3); /* layer 3: 1 to 3 */
    NEAR(line.groups[2].end, 5); /* layer 1 */
    NEAR(line.groups[1].end, 7); /* layer 2 */
    NEAR(line.iteration, 9);
    br_timeline_close(&line);
}

/* Not within the start-up either. */
static void timeline_run__the_start_up_is_not_overtaken(void **state)
{
    static const struct br_layer two[2] = {{1, 1, 1}, {10, 1, 1}};
    struct br_workload work = {.layers = two, .n = 2, .cost = {5, 1}, .slice_bytes = 0};
    struct br_timeline line;

    (void)state;
    assert_int_equal(br_timeline_open(&line, 2), 0);
    br_timeline_run(&line, &work, (uint8_t[]){0, 0}, true);
    NEAR(line.groups[1].start, 6);
    NEAR(line.groups[1].end, 12);
    NEAR(line.groups[0].end, 22);
    br_timeline_close(&line);
}

/* In order an iteration takes what the paper says: t_f, then t_c(1) + max(tau_c(2) + t_c(2),
 * tau_b(1) + t_b(1)). */
static void timeline_run__in_order_is_the_papers_time(void **state)
{
    static struct work work;
    static uint8_t joins[WORK_MOST];
    struct br_timeline line;
    struct br_random random;

    (void)state;
    br_random_seed(&random, 4);
    assert_int_equal(br_timeline_open(&line, 60), 0);
    for (int i = 0; i < 1000; i++) {
        double forward = 0;

        work_draw(&work, 1 + (uint32_t)br_random_below(&random, 60), &random);
        for (uint32_t l = 0; l < work.load.n; l++) {
            joins[l] = l && br_random_below(&random, 2);
            forward += work.layers[l].forward;
        }
        br_timeline_run(&line, &work.load, joins, false);
        NEAR(line.iteration, work_end(&work.load, joins) + forward);
    }
    br_timeline_close(&line);
}

/* Whatever the order: the line is never given twice, each group gets what it needs after it was
 * ready, none of the line's time is lost while somebody waits, and nothing runs before its
 * gradient. */
static void check_laws(const struct br_timeline *line, const struct br_workload *load)
{
    static double served[WORK_MOST];
    double end = 0, total = 0;

    memset(served, 0, sizeof served);
    assert_true(line->n_spans < 2 * line->n_groups);
    for (uint32_t i = 0; i < line->n_spans; i++) {
        const struct br_timeline_span *span = &line->spans[i];

        assert_true(span->start >= end - 1e-12 && span->end > span->start);
        assert_true(span->start >= line->groups[span->group].ready - 1e-12);
        served[span->group] += span->end - span->start;
        end = span->end;
    }
    NEAR(line->reduced, end);
    for (uint32_t g = 0; g < line->n_groups; g++) {
        NEAR(served[g], br_cost_line_seconds(&load->cost, line->groups[g].bytes));
        total += served[g];
    }
    assert_true(line->reduced <= line->groups[line->n_groups - 1].ready + total + 1e-9);
    for (uint32_t l = 0; l < load->n; l++)
        assert_true(line->layers[l].forward >= line->groups[line->layers[l].group].end);
    NEAR(line->iteration, br_workload_compute(load) + line->exposed);
}

static void timeline_run__laws_hold_on_drawn_workloads(void **state)
{
    static struct work work;
    static uint8_t joins[WORK_MOST];
    struct br_timeline line;
    struct br_random random;

    (void)state;
    br_random_seed(&random, 5);
    assert_int_equal(br_timeline_open(&line, 60), 0);
    for (int i = 0; i < 4000; i++) {
        double end;

        work_draw(&work, 1 + (uint32_t)br_random_below(&random, 60), &random);
        if (br_random_below(&random, 2)) /* gradients that become ready at the borders of slices */
            for (uint32_t l = 0; l < work.load.n; l++) {
                work.layers[l].bytes = 1 + (double)br_random_below(&random, 5);
                work.layers[l].backward = (double)br_random_below(&random, 4);
                work.load.cost = (struct br_cost_line){(double)br_random_below(&random, 2), 1};
                work.load.slice_bytes = 1;
            }
        for (uint32_t l = 0; l < work.load.n; l++)
            joins[l] = l && br_random_below(&random, 2);
        br_timeline_run(&line, &work.load, joins, true);
        check_laws(&line, &work.load);
        end = line.reduced;
        br_timeline_run(&line, &work.load, joins, false);
        check_laws(&line, &work.load);
        NEAR(line.reduced, end); /* the order changes nothing about the last one's end */
    }
    br_timeline_close(&line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timeline_run__three_layers_in_order),
        cmocka_unit_test(timeline_run__three_layers_urgent),
        cmocka_unit_test(timeline_run__overtaking_takes_its_time),
        cmocka_unit_test(timeline_run__overtaking_waits_for_the_slice),
        cmocka_unit_test(timeline_run__the_start_up_is_not_overtaken),
        cmocka_unit_test(timeline_run__in_order_is_the_papers_time),
        cmocka_unit_test(timeline_run__laws_hold_on_drawn_workloads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
