/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/tuning/cost_fit.h"

#define N 12

/* 5 us and 1 ns a byte, 1 KiB to 2 MiB, each time off by up to `noise`. */
static void draw(struct br_random *random, double noise, double *x, double *y)
{
    for (int i = 0; i < N; i++) {
        double each = (double)br_random_below(random, 2001) / 1000 - 1;

        x[i] = (double)(1024u << i);
        y[i] = (5e-6 + 1e-9 * x[i]) * (1 + noise * each);
    }
}

static void br_cost_fit_line__finds_a_planted_line(void **state)
{
    struct br_random random;
    double x[N], y[N];
    struct br_cost_fit fit;

    (void)state;
    br_random_seed(&random, 1);
    draw(&random, 0, x, y);
    assert_true(br_cost_fit_line(x, y, N, &fit));
    assert_true(fabs(fit.start - 5e-6) < 1e-12 && fabs(fit.slope - 1e-9) < 1e-16);
    assert_true(fit.r2 > 0.999999 && fit.outliers == 0 && fit.n == N);
}

/* The interval holds the planted figure about as often as it says. */
static void br_cost_fit_line__knows_how_sure_it_is(void **state)
{
    int inside = 0, runs = 400;

    (void)state;
    for (int run = 0; run < runs; run++) {
        struct br_random random;
        double x[N], y[N];
        struct br_cost_fit fit;

        br_random_seed(&random, (uint64_t)run);
        draw(&random, 0.03, x, y);
        assert_true(br_cost_fit_line(x, y, N, &fit));
        assert_true(fit.slope_error > 0 && fit.start_error > 0);
        assert_true(fabs(fit.slope - 1e-9) < 0.05e-9 && fabs(fit.start - 5e-6) < 0.5e-6);
        inside += fabs(fit.slope - 1e-9) < fit.slope_error;
    }
    assert_in_range(inside, 0.85 * runs, runs);
}

static void br_cost_fit_line__names_what_is_off(void **state)
{
    (void)state;
    for (int wild = 0; wild < N; wild++) {
        struct br_random random;
        double x[N], y[N];
        struct br_cost_fit fit;

        br_random_seed(&random, (uint64_t)wild);
        draw(&random, 0.005, x, y);
        y[wild] *= wild % 3 == 0 ? 1e-4 : wild % 3 == 1 ? 0.4 : 30;
        y[(wild + 5) % N] *= 3;
        assert_true(br_cost_fit_line(x, y, N, &fit));
        assert_int_equal(fit.outliers, 1u << wild | 1u << (wild + 5) % N);
        assert_int_equal(fit.n, N - 2);
        assert_true(fabs(fit.slope - 1e-9) < 0.02e-9 && fabs(fit.start - 5e-6) < 0.2e-6);
    }
}

static void br_cost_fit_line__gives_nothing_below_zero(void **state)
{
    const double x[] = {1, 2, 3, 4}, falling[] = {9, 8, 7, 6}, low[] = {1, 3, 5, 7};
    struct br_cost_fit fit;

    (void)state;
    assert_true(br_cost_fit_line(x, falling, 4, &fit));
    assert_true(fit.slope == 0 && fit.start > 6 && fit.start < 9);
    assert_true(br_cost_fit_line(x, low, 4, &fit));
    assert_true(fit.start == 0 && fit.slope > 1 && fit.slope < 2);
}

static void br_cost_fit_line__refuses_what_has_no_line(void **state)
{
    const double x[] = {4, 4, 4}, y[] = {1, 2, 3}, ascending[] = {1, 2, 3}, bad[] = {1, NAN, 3},
                 none[] = {1, 0, 2};
    struct br_cost_fit fit;

    (void)state;
    assert_false(br_cost_fit_line(x, y, 3, &fit));
    assert_false(br_cost_fit_line(ascending, y, 1, &fit));
    assert_false(br_cost_fit_line(ascending, bad, 3, &fit));
    assert_false(br_cost_fit_line(ascending, none, 3, &fit));
    assert_true(br_cost_fit_line(ascending, y, 2, &fit));
    assert_true(fit.slope_error == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_cost_fit_line__finds_a_planted_line),
        cmocka_unit_test(br_cost_fit_line__knows_how_sure_it_is),
        cmocka_unit_test(br_cost_fit_line__names_what_is_off),
        cmocka_unit_test(br_cost_fit_line__gives_nothing_below_zero),
        cmocka_unit_test(br_cost_fit_line__refuses_what_has_no_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
