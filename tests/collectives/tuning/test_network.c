/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks hear from each other through the store is in tests/system/test_plan.sh. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/tuning/calibration.h"
#include "collectives/tuning/network.h"
#include "collectives/tuning/tuning.h"
#include "tests/says.h"

static void open_network(struct br_network *network, const char *text)
{
    memset(network, 0, sizeof *network);
    assert_int_equal(br_topology_parse(&network->topology, text), 0);
}

static void br_network_init__has_default_figures_for_each_topology(void **state)
{
    struct br_network network;

    (void)state;
    open_network(&network, "hosts:2x4");
    assert_int_equal(br_network_init(&network, 0, BR_COST_NETWORK, 4, "", "", NULL, 0), 0);
    assert_false(network.measured);
    assert_ptr_equal(network.model.topology, &network.topology);
    assert_int_equal(network.model.n_levels, 2);
    assert_true(network.model.levels[0].alpha < network.model.levels[1].alpha);
    br_network_destroy(&network);
    open_network(&network, "bcube:3,2");
    assert_int_equal(br_network_init(&network, 0, BR_COST_NETWORK, 1, "", "", NULL, 0), 0);
    assert_int_equal(network.model.n_levels, 2);
    assert_true(network.model.levels[0].beta == network.model.levels[1].beta);
    br_network_destroy(&network);
    open_network(&network, "flat:4");
    assert_int_equal(br_network_init(&network, 0, BR_COST_NETWORK, 3, "", "", NULL, 0), 0);
    assert_int_equal(network.model.n_levels, 3);
    br_network_destroy(&network);
}

static void br_network_init__takes_the_figures_of_a_calibration_that_fits(void **state)
{
    struct br_calibration calibration = {.topology = "bcube:3,2", .version = "0", .date = "now"};
    char path[] = "/tmp/braid_network_XXXXXX";
    struct br_network network;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    calibration.model.n_levels = 2;
    calibration.model.levels[0] =
        (struct br_cost_level){.alpha = 3e-6, .overhead = 1e-6, .beta = 5e-9};
    calibration.model.levels[1] =
        (struct br_cost_level){.alpha = 4e-6, .overhead = 1e-6, .beta = 6e-9};
    assert_int_equal(br_calibration_write(path, &calibration), 0);
    open_network(&network, "bcube:4,2");
    assert_int_equal(br_network_init(&network, 0, BR_COST_NETWORK, 1, path, "", NULL, 0), 0);
    assert_true(network.measured);
    assert_true(network.model.levels[1].beta == 6e-9);
    assert_ptr_equal(network.model.topology, &network.topology);
    br_network_destroy(&network);
    open_network(&network, "flat:4");
    assert_int_equal(br_network_init(&network, 0, BR_COST_NETWORK, 1, path, "", NULL, 0), -EINVAL);
    assert_says(br_error_message(), "BRAID_CALIBRATION|bcube:3,2");
    br_network_destroy(&network);
    unlink(path);
}

static bool tries_link(const char *text, enum br_cost_locality place, bool emulated)
{
    struct br_network network;
    bool tries;

    open_network(&network, text);
    network.topology.emulated = emulated;
    assert_int_equal(br_network_init(&network, 0, place, 1, "", "", NULL, 0), 0);
    assert_true(network.model.link.beta == 0);
    tries = network.tries_link;
    br_network_destroy(&network);
    return tries;
}

static void br_network_init__tries_a_link_where_messages_go_over_one(void **state)
{
    (void)state;
    assert_true(tries_link("flat:4", BR_COST_NETWORK, false));
    assert_true(tries_link("flat:4", BR_COST_MACHINE, true));
    assert_true(tries_link("hosts:2x4", BR_COST_NETWORK, false));
    assert_false(tries_link("flat:4", BR_COST_MACHINE, false));
    assert_false(tries_link("flat:4", BR_COST_HOST, false));
    assert_false(tries_link("flat:1", BR_COST_NETWORK, false));
    assert_false(tries_link("bcube:2,2", BR_COST_NETWORK, false));
}

static void br_network_tried__is_on_another_host(void **state)
{
    struct br_network network;

    (void)state;
    open_network(&network, "hosts:2x4");
    assert_int_equal(br_network_tried(&network), 4);
    br_network_destroy(&network);
    open_network(&network, "hosts:2x4 cyclic");
    assert_int_equal(br_network_tried(&network), 1);
    br_network_destroy(&network);
    open_network(&network, "flat:4");
    assert_int_equal(br_network_tried(&network), 1);
    br_network_destroy(&network);
}

/* Of one host there are no links between its ranks. */
static void br_network_part__has_the_link_between_hosts(void **state)
{
    static const int of_host[] = {0, 1, 2, 3}, of_hosts[] = {0, 4};
    struct br_network whole, part;

    (void)state;
    open_network(&whole, "hosts:2x4");
    assert_int_equal(br_network_init(&whole, 0, BR_COST_NETWORK, 1, "", "", NULL, 0), 0);
    whole.model.link = (struct br_cost_level){.alpha = 1e-3, .beta = 80e-9};
    assert_int_equal(br_network_part(&whole, of_host, 4, &part), 0);
    assert_true(part.model.link.beta == 0);
    br_network_destroy(&part);
    assert_int_equal(br_network_part(&whole, of_hosts, 2, &part), 0);
    assert_true(part.model.link.beta == 80e-9);
    br_network_destroy(&part);
    br_network_destroy(&whole);
}

/* Parts of four ranks, which share two cores, of a job on several hosts compare no core_tree. */
static void check_part_has_no_core_tree(const struct br_network *whole, const int ranks[4])
{
    struct br_network part;
    struct br_tuning tunings[BR_ALGORITHM_CONFIGS];
    int n;

    assert_int_equal(br_network_part(whole, ranks, 4, &part), 0);
    assert_int_equal(part.topology.cores, 2);
    n = br_tuning_choose_all(&part.model, BR_ALLREDUCE, 4, 8, tunings);
    assert_true(n > 0);
    for (int i = 0; i < n; i++)
        assert_int_not_equal(tunings[i].config.algorithm, BR_CORE_TREE);
    br_network_destroy(&part);
}

/* What ranks of one of several hosts say to each other stays in its memory, also where they share
 * cores: core_tree, which loses there, is not compared. */
static void br_network_part__of_one_host_is_in_memory(void **state)
{
    static const int of_host[] = {0, 1, 2, 3}, of_hosts[] = {0, 4};
    struct br_network whole, part;

    (void)state;
    open_network(&whole, "hosts:2x4");
    whole.topology.cores = 2;
    assert_int_equal(br_network_init(&whole, 0, BR_COST_NETWORK, 1, "", "", NULL, 0), 0);
    check_part_has_no_core_tree(&whole, of_host);
    assert_int_equal(br_network_part(&whole, of_hosts, 2, &part), 0);
    assert_false(part.model.in_memory);
    br_network_destroy(&part);
    br_network_destroy(&whole);
}

/* Ranks of emulated hosts of their own have links between them, whatever cores they share: no
 * core_tree. */
static void br_network_part__of_one_rank_a_host_has_links(void **state)
{
    static const int leaders[] = {0, 2, 4, 6};
    struct br_network whole;

    (void)state;
    open_network(&whole, "hosts:4x2");
    whole.topology.cores = 2;
    assert_int_equal(br_network_init(&whole, 0, BR_COST_MACHINE, 1, "", "", NULL, 0), 0);
    check_part_has_no_core_tree(&whole, leaders);
    br_network_destroy(&whole);
}

/* A window of operations that take `ratio` of the predicted time, but one in the middle of it. */
static double window(struct br_calibration_drift *drift, double ratio, double one)
{
    double off = 0;

    for (int i = 0; i < BR_CALIBRATION_DRIFT_WINDOW; i++) {
        assert_true(off == 0); /* only at its end */
        off = br_calibration_drift_add(drift, 1e-3, 1e-3 * (i == 7 ? one : ratio));
    }
    return off;
}

static void br_calibration_drift_add__tells_once(void **state)
{
    struct br_calibration_drift drift = {.bound = 3};

    (void)state;
    assert_true(window(&drift, 2.9, 2.9) == 0);
    assert_true(window(&drift, 5, 4) == 4);
    assert_true(window(&drift, 5, 4) == 0);
    drift = (struct br_calibration_drift){.bound = 3};
    assert_true(window(&drift, 0.1, 0.25) == 0.25);
}

static void br_calibration_drift_add__one_that_was_right_keeps_it_quiet(void **state)
{
    struct br_calibration_drift drift = {.bound = 3};

    (void)state;
    assert_true(window(&drift, 50, 1) == 0);
    assert_true(window(&drift, 0.01, 1) == 0);
    assert_true(window(&drift, 50, 0.01) == 0);
}

static void br_calibration_drift_add__counts_nothing_without_a_bound_or_a_prediction(void **state)
{
    struct br_calibration_drift drift = {.bound = 0};

    (void)state;
    assert_true(window(&drift, 50, 50) == 0);
    drift.bound = 3;
    for (int i = 0; i < 2 * BR_CALIBRATION_DRIFT_WINDOW; i++)
        assert_true(br_calibration_drift_add(&drift, 0, 1) == 0);
    assert_int_equal(drift.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_network_init__has_default_figures_for_each_topology),
        cmocka_unit_test(br_network_init__takes_the_figures_of_a_calibration_that_fits),
        cmocka_unit_test(br_network_init__tries_a_link_where_messages_go_over_one),
        cmocka_unit_test(br_network_tried__is_on_another_host),
        cmocka_unit_test(br_network_part__has_the_link_between_hosts),
        cmocka_unit_test(br_network_part__of_one_host_is_in_memory),
        cmocka_unit_test(br_network_part__of_one_rank_a_host_has_links),
        cmocka_unit_test(br_calibration_drift_add__tells_once),
        cmocka_unit_test(br_calibration_drift_add__one_that_was_right_keeps_it_quiet),
        cmocka_unit_test(br_calibration_drift_add__counts_nothing_without_a_bound_or_a_prediction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
