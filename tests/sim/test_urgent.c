/* SPDX-License-Identifier: BSD-3-Clause */
/* Urgent all-reduces amid large ones: doc/design/rails.md, section 7. BRAID_URGENT=1 prints a table
 * instead (bench/urgent.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "urgent.h"

static void run(const struct urgent_plan *plan, struct urgent_result *result)
{
    urgent_run(plan, result);
    if (result->wrong[0]) {
        fprintf(stderr, "%u ranks: %s\n", plan->n, result->wrong);
        exit(1);
    }
}

struct figures {
    struct urgent_result alone, large, amid;
    double alone_us, first_us, most_us; /* most: of those after the first one */
    double share; /* of the large ones' time alone, besides what the urgent ones take alone */
};

static void measure(struct urgent_plan plan, struct figures *f)
{
    uint32_t n_large = plan.n_large, n_small = plan.n_small;

    plan.n_large = 0;
    run(&plan, &f->alone);
    plan.n_large = n_large;
    plan.n_small = 0;
    run(&plan, &f->large);
    plan.n_small = n_small;
    run(&plan, &f->amid);
    f->alone_us = f->alone.small_us[1];
    f->first_us = f->amid.small_us[0];
    f->most_us = 0;
    for (uint32_t i = 1; i < n_small; i++)
        f->most_us = f->amid.small_us[i] > f->most_us ? f->amid.small_us[i] : f->most_us;
    f->share = (f->amid.large_ms - n_small * f->alone_us / 1e3) / f->large.large_ms;
}

static struct urgent_plan plan_of(uint32_t n, uint32_t small, bool early_sent)
{
    return (struct urgent_plan){.n = n,
                                .bits_per_second = 4000000000,
                                .latency_ns = 5000,
                                .early_sent = early_sent,
                                .large = 16 << 20,
                                .n_large = 1,
                                .small = small,
                                .n_small = 6,
                                .pace_ns = 3300000,
                                .algorithm = "ring"};
}

static void assert_urgent(const struct urgent_plan *plan, double times)
{
    struct figures f;

    measure(*plan, &f);
    printf("%u ranks: %.0f us alone, %.0f amid a large one, the first %.0f; that takes %.3f\n",
           plan->n, f.alone_us, f.most_us, f.first_us, f.share);
    if (f.most_us > times * f.alone_us)
        fail_msg("%u ranks: %g us instead of %g alone", plan->n, f.most_us, f.alone_us);
    /* the first one finds what the large one has in flight, 1 ms of the link at most */
    if (f.first_us > times * f.alone_us + 1000)
        fail_msg("%u ranks: the first took %g us", plan->n, f.first_us);
    if (f.share > 1.05)
        fail_msg("%u ranks: the large one took %g times as long", plan->n, f.share);
}

static void urgent__three_times_its_time_alone_on_2_ranks(void **state)
{
    struct urgent_plan plan = plan_of(2, 40000, false);

    (void)state;
    assert_urgent(&plan, 3);
}

static void urgent__four_times_its_time_alone_on_8_ranks(void **state)
{
    struct urgent_plan plan = plan_of(8, 40000, false);

    (void)state;
    assert_urgent(&plan, 4);
}

/* Where a program at the other end acknowledges, more is in flight. */
static void urgent__on_byte_streams(void **state)
{
    struct urgent_plan plan = plan_of(2, 40000, true);

    (void)state;
    assert_urgent(&plan, 5);
    plan.n = 8;
    assert_urgent(&plan, 4);
}

static void print_line(const struct urgent_plan *plan)
{
    struct figures f;

    measure(*plan, &f);
    printf("%-7s %5u %7u %9.0f %9.0f %9.0f %7.2f %9.2f %9.2f %7.3f\n",
           plan->early_sent ? "stream" : "rdma", plan->n, plan->small, f.alone_us, f.first_us,
           f.most_us, f.most_us / f.alone_us, f.large.large_ms, f.amid.large_ms, f.share);
}

static void print_table(void)
{
    static const uint32_t sizes[] = {4000, 40000, 160000};

    printf("4 Gb/s, 20 us of round trip, large all-reduces of 16 MiB with a ring\n");
    printf("%-7s %5s %7s %9s %9s %9s %7s %9s %9s %7s\n", "links", "ranks", "bytes", "alone us",
           "first us", "most us", "times", "large ms", "amid ms", "times");
    for (int stream = 0; stream < 2; stream++)
        for (uint32_t n = 2; n <= 8; n *= 2)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                struct urgent_plan plan = plan_of(n, sizes[i], stream);

                plan.n_large = 2;
                plan.n_small = 10;
                print_line(&plan);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent__three_times_its_time_alone_on_2_ranks),
        cmocka_unit_test(urgent__four_times_its_time_alone_on_8_ranks),
        cmocka_unit_test(urgent__on_byte_streams),
    };

    if (getenv("BRAID_URGENT")) {
        print_table();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
