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
    calibration.model.levels[0] = (struct br_cost_level){3e-6, 1e-6, 5e-9};
    calibration.model.levels[1] = (struct br_cost_level){4e-6, 1e-6, 6e-9};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_network_init__has_default_figures_for_each_topology),
        cmocka_unit_test(br_network_init__takes_the_figures_of_a_calibration_that_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
