/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/schedule/schedule.h"
#include "collectives/tuning/topology.h"

static void br_topology_hosts__finds_hosts_in_any_order(void **state)
{
    const uint64_t blocks[] = {7, 7, 3, 3}, turns[] = {7, 3, 7, 3}, uneven[] = {7, 7, 3},
                   mixed[] = {7, 3, 7, 3, 3, 7};
    struct br_topology t;

    (void)state;
    assert_int_equal(br_topology_hosts(&t, 4, blocks), 0);
    assert_int_equal(t.kind, BR_TOPOLOGY_HOSTS);
    assert_int_equal(t.hosts, 2);
    assert_int_equal(t.per_host, 2);
    assert_int_equal(br_topology_port(&t, 3, 1), 2);
    br_topology_destroy(&t);
    assert_int_equal(br_topology_hosts(&t, 4, turns), 0);
    assert_int_equal(t.per_host, 0);
    assert_true(t.cyclic);
    assert_int_equal(br_topology_port(&t, 3, 0), 1);
    br_topology_destroy(&t);
    assert_int_equal(br_topology_hosts(&t, 3, uneven), 0);
    assert_int_equal(t.per_host, 0);
    assert_false(t.cyclic);
    br_topology_destroy(&t);
    assert_int_equal(br_topology_hosts(&t, 6, mixed), 0);
    assert_false(t.cyclic);
    assert_int_equal(t.per_host, 0);
    br_topology_destroy(&t);
}

static void br_topology_hosts__is_flat_where_hosts_make_no_difference(void **state)
{
    const uint64_t one[] = {7, 7, 7}, each[] = {1, 2, 3};
    struct br_topology t;

    (void)state;
    assert_int_equal(br_topology_hosts(&t, 3, one), 0);
    assert_int_equal(t.kind, BR_TOPOLOGY_FLAT);
    assert_int_equal(br_topology_hosts(&t, 3, each), 0);
    assert_int_equal(t.kind, BR_TOPOLOGY_FLAT);
    assert_int_equal(t.n, 3);
}

static void br_topology_route__knows_levels_and_relays(void **state)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    struct br_topology t;

    (void)state;
    assert_int_equal(br_topology_parse(&t, "bcube:3,2"), 0);
    assert_int_equal(br_topology_route(&t, 4, 5, BR_LEVEL_ANY, hops), 1);
    assert_int_equal(hops[0].level, 0);
    assert_int_equal(br_topology_route(&t, 4, 1, BR_LEVEL_ANY, hops), 1);
    assert_int_equal(hops[0].level, 1);
    assert_int_equal(br_topology_route(&t, 4, 2, BR_LEVEL_ANY, hops), 4); /* over 5, and over 1 */
    for (uint32_t i = 0; i < 4; i += 2) {
        assert_int_equal(hops[i].from, 4);
        assert_int_equal(hops[i].to, i == 0 ? 5 : 1);
        assert_int_equal(hops[i].level, i == 0 ? 0 : 1);
        assert_int_equal(hops[i + 1].from, hops[i].to);
        assert_int_equal(hops[i + 1].to, 2);
        assert_true(hops[i].share == 0.5 && hops[i + 1].share == 0.5);
    }
    assert_int_equal(br_topology_parse(&t, "hosts:2x4"), 0);
    assert_int_equal(br_topology_route(&t, 0, 3, BR_LEVEL_ANY, hops), 1);
    assert_int_equal(hops[0].level, 0);
    assert_int_equal(br_topology_route(&t, 3, 4, 0, hops), 1);
    assert_int_equal(hops[0].level, 1);
    br_topology_destroy(&t);
    br_topology_flat(&t, 4);
    assert_int_equal(br_topology_route(&t, 0, 3, 1, hops), 1);
    assert_int_equal(hops[0].level, 1);
}

static void br_topology_route__keeps_off_hosts_that_are_missing(void **state)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    struct br_topology t;

    (void)state;
    assert_int_equal(br_topology_parse(&t, "bcube:3,3"), 0);
    assert_true(br_topology_is_whole_cube(&t));
    for (t.cube.hosts = t.n = 2; t.n < 27; t.n = ++t.cube.hosts) {
        assert_false(br_topology_is_whole_cube(&t));
        for (uint32_t from = 0; from < t.n; from++)
            for (uint32_t to = 0; to < t.n; to++) {
                uint32_t n = br_topology_route(&t, from, to, BR_LEVEL_ANY, hops);

                assert_int_equal(n == 0, from == to);
                for (uint32_t i = 0; i < n; i++) {
                    assert_int_equal(hops[i].from, i ? hops[i - 1].to : from);
                    assert_true(hops[i].to < t.n);
                }
                assert_true(n == 0 || hops[n - 1].to == to);
            }
    }
}

static void br_topology_parse__reads_what_text_writes(void **state)
{
    static const char *const good[] = {"bcube:3,2",
                                       "bcube:16,4",
                                       "hosts:2x4",
                                       "flat:9",
                                       "hosts:4 uneven, 5 ranks",
                                       "hosts:2 uneven, 4 ranks",
                                       "hosts:3x4 cyclic"};
    static const char *const bad[] = {"",
                                      "bcube",
                                      "bcube:1,2",
                                      "bcube:3",
                                      "bcube:3,2,1",
                                      "bcube:3,2x",
                                      "hosts:2",
                                      "hosts:0x4",
                                      "flat:0",
                                      "bcube:2,17",
                                      "bcube:256,3",
                                      "hosts:-1x2",
                                      "hosts:1 uneven, 5 ranks",
                                      "hosts:5 uneven, 5 ranks",
                                      "hosts:2 uneven, 99999 ranks",
                                      "hosts:4 uneven, 5 ranks or so",
                                      "hosts:2x2 cyclical",
                                      "hosts:2x2 "};
    char text[BR_TOPOLOGY_TEXT];
    struct br_topology t;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(br_topology_parse(&t, good[i]), 0);
        assert_string_equal(br_topology_text(&t, text), good[i]);
        assert_int_equal(t.kind == BR_TOPOLOGY_HOSTS, t.leader != NULL);
        br_topology_destroy(&t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(br_topology_parse(&t, bad[i]), -EINVAL);
    assert_int_equal(br_topology_parse(&t, "9"), 0);
    assert_int_equal(t.n, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_topology_hosts__finds_hosts_in_any_order),
        cmocka_unit_test(br_topology_hosts__is_flat_where_hosts_make_no_difference),
        cmocka_unit_test(br_topology_route__knows_levels_and_relays),
        cmocka_unit_test(br_topology_route__keeps_off_hosts_that_are_missing),
        cmocka_unit_test(br_topology_parse__reads_what_text_writes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
