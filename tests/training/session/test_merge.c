/* SPDX-License-Identifier: BSD-3-Clause */
/* Merge plans against all plans there are, against Algorithm 1 as the paper prints it, and worked
 * examples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/training/session/workloads.h"
#include "training/session/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Algorithm 1 as printed, layers from 1 to L ---------------------------------------------- */

struct printed {
    int L;
    double a, b, t_b[WORK_MOST + 2], p[WORK_MOST + 2], t_c[WORK_MOST + 2], tau_b[WORK_MOST + 2],
        tau_c[WORK_MOST + 2];
};

static void calculate_comm_start(struct printed *m)
{
    m->tau_c[m->L] = m->tau_b[m->L] + m->t_b[m->L];
    for (int l = m->L - 1; l >= 1; l--)
        m->tau_c[l] = fmax(m->tau_c[l + 1] + m->t_c[l + 1], m->tau_b[l] + m->t_b[l]);
}

static void algorithm_1(const struct br_workload *load, uint8_t *joins)
{
    struct printed *m = calloc(1, sizeof *m);

    m->L = (int)load->n;
    m->a = load->cost.a;
    m->b = load->cost.b;
    for (int l = 1; l <= m->L; l++) {
        m->p[l] = load->layers[l - 1].bytes;
        m->t_b[l] = load->layers[l - 1].backward;
        m->t_c[l] = m->a + m->b * m->p[l];
    }
    for (int l = m->L - 1; l >= 0; l--) /* tau_b(0): the end of the backward pass */
        m->tau_b[l] = m->tau_b[l + 1] + m->t_b[l + 1];
    calculate_comm_start(m);
    memset(joins, 0, load->n);
    for (int l = m->L; l >= 2; l--) {
        if (m->tau_b[l - 2] - m->tau_c[l] < m->a) {
            m->t_c[l] = 0;
            m->p[l - 1] += m->p[l];
            m->t_c[l - 1] = m->a + m->b * m->p[l - 1];
            calculate_comm_start(m);
            joins[l - 1] = 1;
        }
    }
    free(m);
}

static void merge_greedy__is_algorithm_1(void **state)
{
    static struct work work;
    static uint8_t printed[WORK_MOST], ours[WORK_MOST];
    struct br_random random;
    int merged = 0;

    (void)state;
    br_random_seed(&random, 1);
    for (int i = 0; i < 2000; i++) {
        work_draw(&work, 1 + (uint32_t)br_random_below(&random, 60), &random);
        algorithm_1(&work.load, printed);
        br_merge_greedy(&work.load, ours);
        assert_memory_equal(ours, printed, work.load.n);
        for (uint32_t l = 0; l < work.load.n; l++)
            merged += ours[l];
    }
    assert_true(merged > 1000); /* the drawn ones are worth merging */
}

/* Three layers, 1 s each backwards, of 1 byte; a = 1.5 s, b = 0.5 s/byte. Layer 3 is ready at 1,
 * layer 2 at 2: waiting costs 1 s and saves 1.5, merged. {3, 2} could start at 2, layer 1 is ready
 * at 3: merged again. All leave at 3 and take 1.5 + 1.5: 6. */
static void merge_greedy__worked_example(void **state)
{
    struct br_layer layers[3] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    struct br_workload load = {.layers = layers, .n = 3, .cost = {1.5, 0.5}};
    uint8_t joins[3];

    (void)state;
    br_merge_greedy(&load, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 1, 1}), 3);
    assert_true(work_end(&load, joins) == 6);
    load.cost.a = 0.5; /* nothing to gain: 1, 2, 3 leave at once, and take 1 each */
    br_merge_greedy(&load, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 0, 0}), 3);
    assert_true(work_end(&load, joins) == 4);
}

static void check_optimal(const struct work *work)
{
    static uint8_t joins[WORK_MOST], greedy[WORK_MOST];
    double least = work_least_end(&work->load), ours, theirs;

    assert_int_equal(br_merge_optimal(&work->load, joins), 0);
    assert_int_equal(joins[0], 0);
    ours = work_end(&work->load, joins);
    if (fabs(ours - least) > 1e-12 * least)
        fail_msg("%u layers: %.17g s, the least is %.17g", work->load.n, ours, least);
    br_merge_greedy(&work->load, greedy);
    theirs = work_end(&work->load, greedy);
    if (ours > theirs * (1 + 1e-12))
        fail_msg("%u layers: %.17g s, Algorithm 1 has %.17g", work->load.n, ours, theirs);
}

static void merge_optimal__least_of_all_plans(void **state)
{
    static struct work work;
    struct br_random random;

    (void)state;
    br_random_seed(&random, 2);
    for (int i = 0; i < 4000; i++) {
        work_draw(&work, 1 + (uint32_t)br_random_below(&random, 10), &random);
        check_optimal(&work);
    }
    for (int i = 0; i < 40; i++) {
        work_draw(&work, 16, &random);
        check_optimal(&work);
    }
    for (uint32_t n = 1; n <= 16; n++) {
        work_resnet50(&work, n);
        check_optimal(&work);
    }
}

/* Algorithm 1 is not the optimum: it counts what a merge saves as the start-up, but when the line
 * would have been idle anyway before the next layer is ready nothing is saved. */
static void merge_optimal__beats_algorithm_1(void **state)
{
    static struct work work;
    static uint8_t joins[WORK_MOST], greedy[WORK_MOST];
    struct br_random random;
    double most = 0;

    (void)state;
    br_random_seed(&random, 3);
    for (int i = 0; i < 2000; i++) {
        work_draw(&work, 30, &random);
        assert_int_equal(br_merge_optimal(&work.load, joins), 0);
        br_merge_greedy(&work.load, greedy);
        most = fmax(most, work_end(&work.load, greedy) / work_end(&work.load, joins));
    }
    assert_true(most > 1.01);
}

static void merge_bucket__ends_with_the_layer_that_fills_it(void **state)
{
    struct br_layer layers[6] = {{10, 0, 0}, {4, 0, 0}, {4, 0, 0}, {4, 0, 0}, {9, 0, 0}, {3, 0, 0}};
    struct br_workload load = {.layers = layers, .n = 6};
    uint8_t joins[6];

    (void)state;
    br_merge_bucket(&load, 8, joins); /* {3, 9}, {4, 4}, {4, 10} */
    assert_memory_equal(joins, ((uint8_t[]){0, 1, 0, 1, 0, 1}), 6);
    br_merge_bucket(&load, 1e9, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 1, 1, 1, 1, 1}), 6);
    br_merge_bucket(&load, 0, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 0, 0, 0, 0, 0}), 6);
}

static void merge_single__and_layerwise(void **state)
{
    struct br_layer layers[3] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    struct br_workload load = {.layers = layers, .n = 3};
    uint8_t joins[3];

    (void)state;
    br_merge_single(&load, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 1, 1}), 3);
    br_merge_layerwise(&load, joins);
    assert_memory_equal(joins, ((uint8_t[]){0, 0, 0}), 3);
    load.n = 1;
    br_merge_single(&load, joins);
    assert_int_equal(joins[0], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_greedy__is_algorithm_1),
        cmocka_unit_test(merge_greedy__worked_example),
        cmocka_unit_test(merge_optimal__least_of_all_plans),
        cmocka_unit_test(merge_optimal__beats_algorithm_1),
        cmocka_unit_test(merge_bucket__ends_with_the_layer_that_fills_it),
        cmocka_unit_test(merge_single__and_layerwise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
