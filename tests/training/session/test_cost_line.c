/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "training/session/cost_line.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define NEAR(a, b, part) assert_true(fabs((a) - (b)) <= (part)*fabs(b))

/* Start-up times that the MG-WFBP paper measured over 10 GbE: those of a ring whose messages take
 * 45.26 us. */
static void line_law__start_up_of_the_papers_ring(void **state)
{
    static const struct {
        uint32_t n;
        double a;
    } measured[] = {{2, 90.52e-6}, {4, 271.56e-6}, {8, 633.64e-6}};
    struct br_cost_line_links links = {.alpha = 45.26e-6, .beta = 8e-10, .gamma = 1e-11};
    struct br_cost_line cost;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(br_cost_line_law("ring", measured[i].n, &links, &cost), 0);
        NEAR(cost.a, measured[i].a, 1e-9);
    }
    NEAR(cost.b, 2 * 7 / 8.0 * 8e-10 + 7 / 8.0 * 1e-11, 1e-9);
}

static void line_law__all_of_the_table(void **state)
{
    struct br_cost_line_links links = {.alpha = 1e-5, .beta = 1e-9, .gamma = 1e-10};
    struct br_cost_line cost;

    (void)state;
    assert_int_equal(br_cost_line_law("halving", 8, &links, &cost), 0);
    NEAR(cost.a, 6e-5, 1e-9);
    NEAR(cost.b, 2e-9 - 2.1e-9 / 8 + 1e-10, 1e-9);
    assert_int_equal(br_cost_line_law("binary_tree", 8, &links, &cost), 0);
    NEAR(cost.a, 6e-5, 1e-9);
    NEAR(cost.b, 6.3e-9, 1e-9);
    assert_int_equal(br_cost_line_law("doubling", 8, &links, &cost), 0);
    NEAR(cost.a, 3e-5, 1e-9);
    NEAR(cost.b, 3.3e-9, 1e-9);
    NEAR(br_cost_line_seconds(&(struct br_cost_line){1e-3, 1e-9}, 1e6), 2e-3, 1e-9);
}

/* These figures are among those for which the difference of two products rounds to a number below
 * zero. */
static void line_law__one_rank_takes_exactly_no_time(void **state)
{
    static const char *const names[] = {"ring", "halving", "binary_tree", "doubling"};
    struct br_cost_line_links links = {.alpha = 45.26e-6, .beta = 0.8e-9, .gamma = 0.1e-9};
    struct br_cost_line cost;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(br_cost_line_law(names[i], 1, &links, &cost), 0);
        if (cost.a != 0 || cost.b != 0)
            fail_msg("%s: one rank takes a %g s, b %g s/byte", names[i], cost.a, cost.b);
    }
}

static void line_law__nonsense(void **state)
{
    struct br_cost_line_links links = {.alpha = 1e-5, .beta = 1e-9, .gamma = 1e-10};
    struct br_cost_line cost;

    (void)state;
    assert_int_equal(br_cost_line_law("star", 8, &links, &cost), -EINVAL);
    assert_non_null(strstr(br_error_message(), "star"));
    assert_int_equal(br_cost_line_law("ring", 0, &links, &cost), -EINVAL);
    links.beta = NAN;
    assert_int_equal(br_cost_line_law("ring", 8, &links, &cost), -EINVAL);
}

static void line_measure__finds_the_line_again(void **state)
{
    struct br_cost_line_sample samples[20];
    struct br_cost_line cost, is = {5e-4, 8e-10};

    (void)state;
    for (int i = 0; i < 20; i++) {
        samples[i].bytes = 1000 * pow(1.8, i);
        samples[i].seconds = br_cost_line_seconds(&is, samples[i].bytes);
    }
    assert_int_equal(br_cost_line_measure(samples, 20, &cost), 0);
    NEAR(cost.a, is.a, 1e-6);
    NEAR(cost.b, is.b, 1e-6);
    for (int i = 0; i < 20; i++)
        samples[i].seconds *= i % 2 ? 1.05 : 0.95;
    assert_int_equal(br_cost_line_measure(samples, 20, &cost), 0);
    NEAR(cost.a, is.a, 0.1);
    NEAR(cost.b, is.b, 0.1);
}

static void line_measure__never_below_zero(void **state)
{
    const struct br_cost_line_sample steep[] = {{1000, 1e-6}, {2000, 4e-6}};
    const struct br_cost_line_sample falling[] = {{1000, 4e-6}, {2000, 1e-6}};
    const struct br_cost_line_sample one_size[] = {{1000, 2e-6}, {1000, 2e-6}};
    struct br_cost_line cost;

    (void)state;
    assert_int_equal(br_cost_line_measure(steep, 2, &cost), 0);
    assert_true(cost.a == 0 && cost.b > 0);
    assert_int_equal(br_cost_line_measure(falling, 2, &cost), 0);
    assert_true(cost.a > 0 && cost.b == 0);
    assert_int_equal(br_cost_line_measure(one_size, 2, &cost), 0);
    assert_true(cost.a == 0);
    NEAR(cost.b, 2e-9, 1e-9);
}

static void line_measure__no_time(void **state)
{
    const struct br_cost_line_sample none[] = {{1000, 1e-6}, {2000, 0}};
    struct br_cost_line cost;

    (void)state;
    assert_int_equal(br_cost_line_measure(none, 0, &cost), -EINVAL);
    assert_int_equal(br_cost_line_measure(none, 2, &cost), -EINVAL);
    assert_non_null(strstr(br_error_message(), "sample 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_law__start_up_of_the_papers_ring),
        cmocka_unit_test(line_law__all_of_the_table),
        cmocka_unit_test(line_law__one_rank_takes_exactly_no_time),
        cmocka_unit_test(line_law__nonsense),
        cmocka_unit_test(line_measure__finds_the_line_again),
        cmocka_unit_test(line_measure__never_below_zero),
        cmocka_unit_test(line_measure__no_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
