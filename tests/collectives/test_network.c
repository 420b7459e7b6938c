/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/network.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct br_network whole, part;

static void part_of(const int *ranks, int n)
{
    assert_int_equal(br_network_part(&whole, ranks, n, &part), 0);
    assert_ptr_equal(part.model.topology, &part.topology);
    assert_int_equal(part.topology.n, n);
    assert_int_equal(br_cost_model_check(&part.model), 0);
}

static void part__of_hosts(void **state)
{
    const uint64_t hosts[6] = {7, 7, 7, 9, 9, 9};

    (void)state;
    assert_int_equal(br_topology_hosts(&whole.topology, 6, hosts), 0);
    br_cost_model_on(&whole.model, &whole.topology, BR_COST_NETWORK, 1);
    part_of((const int[]){5, 4, 1, 2}, 4); /* two of each, in another order */
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_HOSTS);
    assert_int_equal(part.topology.per_host, 2);
    assert_int_equal(part.model.n_levels, 2);
    br_network_destroy(&part);
    part_of((const int[]){0, 2}, 2); /* in one host */
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_FLAT);
    assert_true(part.model.levels[0].beta == whole.model.levels[0].beta);
    br_network_destroy(&part);
    part_of((const int[]){3, 2}, 2); /* one of each */
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_FLAT);
    assert_int_equal(part.model.n_levels, 1);
    assert_true(part.model.levels[0].beta == whole.model.levels[1].beta);
    br_network_destroy(&part);
    br_network_destroy(&whole);
}

static void part__of_a_cube(void **state)
{
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 2, 2), 0);
    br_topology_bcube(&whole.topology, &cube);
    br_cost_model_on(&whole.model, &whole.topology, BR_COST_NETWORK, 1);
    whole.model.levels[1].beta *= 2;
    part_of((const int[]){0, 1, 2, 3}, 4);
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_BCUBE);
    assert_int_equal(part.model.n_levels, 2);
    part_of((const int[]){0, 2, 1, 3}, 4);
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_FLAT);
    part_of((const int[]){2, 1}, 2);
    assert_int_equal(part.model.n_levels, 1);
    assert_true(part.model.levels[0].beta == whole.model.levels[1].beta);
    br_network_destroy(&whole);
}

static void part__of_a_flat_network(void **state)
{
    (void)state;
    br_topology_flat(&whole.topology, 5);
    br_cost_model_on(&whole.model, &whole.topology, BR_COST_NETWORK, 3);
    part_of((const int[]){4, 0, 1}, 3);
    assert_int_equal(part.topology.kind, BR_TOPOLOGY_FLAT);
    assert_int_equal(part.model.n_levels, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(part__of_hosts),
        cmocka_unit_test(part__of_a_cube),
        cmocka_unit_test(part__of_a_flat_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
