/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/training/session/workloads.h"
#include "training/session/policy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static uint8_t joins[WORK_MOST];

static double iteration(enum br_policy policy, const struct br_workload *load)
{
    struct br_policy_plan plan = {.joins = joins};
    struct br_timeline line;

    assert_int_equal(br_policy_make(policy, load, &plan), 0);
    assert_int_equal(br_timeline_open(&line, load->n), 0);
    br_timeline_run(&line, load, joins, plan.urgent);
    assert_true(fabs(line.iteration - plan.iteration) <= 1e-12 * plan.iteration);
    assert_int_equal(joins[0], 0);
    br_timeline_close(&line);
    return plan.iteration;
}

static void policy_find__names(void **state)
{
    enum br_policy policy;

    (void)state;
    for (int i = 0; i < BR_POLICIES; i++) {
        assert_int_equal(br_policy_find(br_policy_name((enum br_policy)i), &policy), 0);
        assert_int_equal((int)policy, i);
    }
    assert_int_equal(br_policy_find("best", &policy), -EINVAL);
    assert_non_null(strstr(br_error_message(), "mgwfbp"));
}

static void policy_make__auto_is_never_worse(void **state)
{
    static struct work work;
    struct br_random random;
    int better = 0;

    (void)state;
    br_random_seed(&random, 6);
    for (int i = 0; i < 300; i++) {
        double best = INFINITY, found;

        work_draw(&work, 1 + (uint32_t)br_random_below(&random, 80), &random);
        for (int p = 0; p < BR_POLICY_AUTO; p++)
            best = fmin(best, iteration((enum br_policy)p, &work.load));
        found = iteration(BR_POLICY_AUTO, &work.load);
        if (found > best * (1 + 1e-8))
            fail_msg("%u layers: auto %.12g s, the best other policy %.12g s", work.load.n, found,
                     best);
        better += found < best * 0.999;
    }
    assert_true(better > 30);
}

/* All plans in both orders, for few layers: how far the search is from the best. */
static double least_of_all(const struct work *work)
{
    struct br_timeline line;
    double least = INFINITY;

    assert_int_equal(br_timeline_open(&line, work->load.n), 0);
    for (uint32_t plan = 0; plan < 1u << (work->load.n - 1); plan++) {
        for (uint32_t l = 0; l < work->load.n; l++)
            joins[l] = l && (plan >> (l - 1) & 1);
        br_timeline_run(&line, &work->load, joins, true);
        least = fmin(least, line.iteration);
        br_timeline_run(&line, &work->load, joins, false);
        least = fmin(least, line.iteration);
    }
    br_timeline_close(&line);
    return least;
}

static void policy_make__auto_is_close_to_the_least_of_all(void **state)
{
    static struct work work;
    struct br_random random;
    double worst = 1;

    (void)state;
    br_random_seed(&random, 7);
    for (int i = 0; i < 300; i++) {
        work_draw(&work, 2 + (uint32_t)br_random_below(&random, 9), &random);
        worst = fmax(worst, iteration(BR_POLICY_AUTO, &work.load) / least_of_all(&work));
    }
    work_resnet50(&work, 12);
    worst = fmax(worst, iteration(BR_POLICY_AUTO, &work.load) / least_of_all(&work));
    printf("auto over the least of all plans: %.4f at most\n", worst);
    assert_true(worst < 1.03);
}

static void policy_make__p3_halves_the_papers_delay(void **state)
{
    static const struct br_layer three[3] = {{2, 1, 1}, {2, 1, 1}, {2, 1, 1}};
    struct br_workload load = {.layers = three, .n = 3, .cost = {0, 1}, .slice_bytes = 1};

    (void)state;
    assert_true(fabs(iteration(BR_POLICY_LAYERWISE, &load) - 10) < 1e-12);
    assert_true(fabs(iteration(BR_POLICY_P3, &load) - 8) < 1e-12);
}

static void policy_make__one_layer(void **state)
{
    static const struct br_layer one[1] = {{1e6, 1e-3, 2e-3}};
    struct br_workload load = {.layers = one, .n = 1, .cost = {1e-4, 1e-9}, .slice_bytes = 2e5};

    (void)state;
    for (int p = 0; p < BR_POLICIES; p++)
        assert_true(fabs(iteration((enum br_policy)p, &load) - 4.1e-3) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_find__names),
        cmocka_unit_test(policy_make__auto_is_never_worse),
        cmocka_unit_test(policy_make__auto_is_close_to_the_least_of_all),
        cmocka_unit_test(policy_make__p3_halves_the_papers_delay),
        cmocka_unit_test(policy_make__one_layer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
