/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/samples.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static bool near(double a, double b, double relative)
{
    return fabs(a - b) <= fabs(b) * relative;
}

static void perf_times__of_known_samples(void **state)
{
    (void)state;
    uint64_t samples[] = {40, 10, 30, 20};
    struct br_perf_row row = {0};
    br_perf_times(samples, 4, 0.5, &row);
    assert_float_equal(row.min, 5, 1e-9);
    assert_float_equal(row.max, 20, 1e-9);
    assert_float_equal(row.median, 12.5, 1e-9);
    assert_float_equal(row.mean, 12.5, 1e-9);
    assert_float_equal(row.stddev, 6.454972, 1e-5); /* of 5, 10, 15, 20 as a sample */
    assert_float_equal(row.p99, 20, 1e-9);
    uint64_t one = 7;
    br_perf_times(&one, 1, 1, &row);
    assert_float_equal(row.median, 7, 1e-9);
    assert_float_equal(row.stddev, 0, 1e-9);
}

static void perf_times__percentiles_are_nearest_ranks(void **state)
{
    (void)state;
    uint64_t samples[1000];
    struct br_perf_row row = {0};
    for (uint64_t i = 0; i < 1000; i++)
        samples[i] = 1000 - i;
    br_perf_times(samples, 1000, 1, &row);
    assert_float_equal(row.p99, 990, 1e-9);
    assert_float_equal(row.p999, 999, 1e-9);
    assert_float_equal(row.max, 1000, 1e-9);
}

static void perf_peak__finds_the_fastest_run(void **state)
{
    (void)state;
    /* 100 ns each when alone; the last three overlap and are done 10 ns apart. */
    const uint64_t posts[] = {0, 100, 200, 200, 200}, ends[] = {100, 200, 240, 250, 260};
    assert_float_equal(br_perf_peak(posts, ends, 2), 1e7, 1);
    assert_float_equal(br_perf_peak(posts, ends, 5), 5e7, 1); /* 3 in 60 ns */
    assert_float_equal(br_perf_peak(posts, ends, 0), 0, 0);
}

static void histogram__agrees_with_all_samples(void **state)
{
    (void)state;
    static struct br_histogram h;
    static uint64_t samples[20000];
    struct br_random random;
    struct br_perf_row exact = {0}, counted = {0};
    br_random_seed(&random, 1);
    br_histogram_init(&h);
    for (size_t i = 0; i < 20000; i++) {
        samples[i] = br_random_next(&random) >> (20 + br_random_below(&random, 44));
        br_histogram_add(&h, samples[i]);
    }
    br_perf_times(samples, 20000, 1, &exact);
    br_perf_times_of(&h, 1, &counted);
    assert_float_equal(counted.min, exact.min, 1e-9);
    assert_float_equal(counted.max, exact.max, 1e-9);
    assert_true(near(counted.mean, exact.mean, 1e-9));
    assert_true(near(counted.stddev, exact.stddev, 1e-6));
    assert_true(near(counted.median, exact.median, 1e-2));
    assert_true(near(counted.p99, exact.p99, 1e-3));
    assert_true(near(counted.p999, exact.p999, 1e-3));
}

static void histogram__edges(void **state)
{
    (void)state;
    static struct br_histogram h;
    const uint64_t values[] = {
        0, 1, 2047, 2048, 2049, 4095, 4096, (UINT64_C(1) << 48) - 1, UINT64_C(1) << 48, UINT64_MAX};
    br_histogram_init(&h);
    assert_int_equal(br_histogram_quantile(&h, 0.5), 0);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        br_histogram_init(&h);
        br_histogram_add(&h, values[i]);
        br_histogram_add(&h, UINT64_MAX);
        uint64_t found = br_histogram_quantile(&h, 0.5);
        if (values[i] < UINT64_C(1) << 48) {
            assert_true(found >= values[i]);
            assert_true(found - values[i] <= values[i] / 1024);
        }
        assert_true(br_histogram_quantile(&h, 1) >= (UINT64_C(1) << 48) - 1);
    }
}

static void histogram_print__ends_with_all(void **state)
{
    (void)state;
    static struct br_histogram h;
    char text[8192];
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    br_histogram_init(&h);
    for (uint64_t i = 1; i <= 1000; i++)
        br_histogram_add(&h, i * 1000);
    br_histogram_print(&h, 1e-3, out);
    fclose(out);
    assert_non_null(strstr(text, "Percentile"));
    assert_non_null(strstr(text, "1.000000000000       1000\n"));
    assert_non_null(strstr(text, "#[Mean    =      500.500"));
    assert_non_null(strstr(text, "#[Max     =     1000.000, Total count    =         1000]"));
}

/* A message a ns; they end in bursts of 100. */
static void perf_window__bursts_count_once(void **state)
{
    (void)state;
    for (uint64_t margin = 0; margin <= 250; margin += 50) {
        struct br_perf_window w = br_perf_window_begin(5000, 1000, margin);
        for (uint64_t burst = 100; burst <= 1200; burst += 100)
            for (uint64_t i = 1; i <= 100; i++)
                br_perf_window_note(&w, 5000 + burst, burst - 100 + i);
        assert_true(w.final > w.first && w.final_at > w.first_at);
        assert_int_equal(w.final - w.first, w.final_at - w.first_at);
        assert_true(w.final_at <= 6000 - margin && w.first_at <= 5000 + margin);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(perf_times__of_known_samples),
        cmocka_unit_test(perf_times__percentiles_are_nearest_ranks),
        cmocka_unit_test(perf_peak__finds_the_fastest_run),
        cmocka_unit_test(perf_window__bursts_count_once),
        cmocka_unit_test(histogram__agrees_with_all_samples),
        cmocka_unit_test(histogram__edges),
        cmocka_unit_test(histogram_print__ends_with_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
