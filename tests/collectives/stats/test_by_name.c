/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters by name, of one rank; lists of peers and rails: tests/system/test_stats.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"
#include "tests/says.h"

#define COUNT(name, kind, help) +1

static void stats_name__all_of_them(void **state)
{
    static const struct {
        const char *of, *first;
        int n;
    } lists[] = {{"rank", "operations", BRAID_RANK_FIELDS(COUNT)},
                 {"peer", "queued_high", BRAID_PEER_FIELDS(COUNT)},
                 {"rail", "up", BRAID_RAIL_FIELDS(COUNT)}};

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int n = 0;

        assert_string_equal(braid_stats_name(lists[i].of, 0), lists[i].first);
        while (braid_stats_name(lists[i].of, n))
            n++;
        assert_int_equal(n, lists[i].n);
        assert_null(braid_stats_name(lists[i].of, -1));
    }
    assert_null(braid_stats_name("job", 0));
    assert_null(braid_stats_name(NULL, 0));
}

static void stats_get__of_the_rank(void **state)
{
    struct braid_stats stats = {0};
    uint64_t value = 77;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    assert_int_equal(braid_stats_get(comm, "operations", &value), 0);
    assert_int_equal(value, 3);
    for (int i = 0; braid_stats_name("rank", i); i++)
        assert_int_equal(braid_stats_get(comm, braid_stats_name("rank", i), &value), 0);
    assert_int_equal(braid_stats(comm, &stats), 0);
    assert_int_equal(braid_stats_get(comm, "late_allocations", &value), 0);
    assert_int_equal(value, stats.late_allocations);
}

static void stats_get__arguments(void **state)
{
    static const char *const none[] = {
        "",          "operation", "operations ", "rank/0/up",
        "rail/up",   "rail//up",  "rail/-1/up",  "rail/0/operations",
        "rail/0",    "rail/x/up", "rail/0/up/",  "rail/99999999999999999999/up",
        "peer/0/up", "raili/0/up"};
    uint64_t value;

    (void)state;
    SAYS(-EINVAL, "braid_stats_get", braid_stats_get(NULL, "operations", &value));
    SAYS(-EINVAL, "braid_stats_get", braid_stats_get(comm, NULL, &value));
    SAYS(-EINVAL, "braid_stats_get", braid_stats_get(comm, "operations", NULL));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(braid_stats_get(comm, none[i], &value), -ENOENT);
    SAYS(-ENOENT, "operation", braid_stats_get(comm, "operation", &value));
    SAYS(-ENOENT, "rail/0/up|0", braid_stats_get(comm, "rail/0/up", &value)); /* there are none */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stats_name__all_of_them),
        cmocka_unit_test_setup_teardown(stats_get__of_the_rank, join, leave),
        cmocka_unit_test_setup_teardown(stats_get__arguments, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
