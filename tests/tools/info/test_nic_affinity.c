/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On the machine of two_sockets.xml: two sockets, as hwloc describes them; the GPUs have the
 * addresses of the fake driver's. GPU 1 and mlx5_0 are behind one switch; eth0 is on the same host
 * bridge; on a second host bridge of that socket is a NIC without an interface (DPDK's). GPU 0 and
 * mlx5_1 are on the other socket. Of eth9's host bridge the machine does not say where it is. The
 * file has no comment, as hwloc reads one with libhwloc-plugins alone.
 */
#include "tools/info/nic_affinity.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"

static struct br_nic_affinity *near;

static int enter(void **state)
{
    char path[512];

    (void)state;
    snprintf(path, sizeof path, "%.470s/tests/tools/info/two_sockets.xml", getenv("BRAID_SOURCE"));
    setenv("HWLOC_XMLFILE", path, 1);
    if (br_nic_affinity_open(&near) == -EOPNOTSUPP) {
        printf("skipped: %s\n", br_error_message());
        exit(77);
    }
    return near == NULL;
}

static int leave(void **state)
{
    (void)state;
    br_nic_affinity_close(near);
    return 0;
}

static void nics__nearest_first(void **state)
{
    static const struct br_nic_affinity_nic expected[] = {
        {"ib0 mlx5_0", BR_DISTANCE_SWITCH}, {"eth0", BR_DISTANCE_HOST_BRIDGE},
        {"fa0e:10:00.0", BR_DISTANCE_NODE}, {"mlx5_1", BR_DISTANCE_SYSTEM},
        {"eth9", BR_DISTANCE_UNKNOWN},
    };
    struct br_nic_affinity_nic nics[8];

    (void)state;
    assert_int_equal(br_nic_affinity_nics(near, "fa0e:02:00.0", nics, 8), 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(nics[i].name, expected[i].name);
        assert_int_equal(nics[i].distance, expected[i].distance);
    }
}

static void nics__of_the_other_socket(void **state)
{
    struct br_nic_affinity_nic nics[8];

    (void)state;
    assert_int_equal(br_nic_affinity_nics(near, "fa0e:01:00.0", nics, 8), 5);
    assert_string_equal(nics[0].name, "mlx5_1");
    assert_int_equal(nics[0].distance, BR_DISTANCE_NODE);
    assert_int_equal(nics[1].distance, BR_DISTANCE_SYSTEM);
    assert_int_equal(nics[3].distance, BR_DISTANCE_SYSTEM);
    assert_int_equal(nics[4].distance, BR_DISTANCE_UNKNOWN);
}

static void nics__of_a_device_that_is_not_there(void **state)
{
    struct br_nic_affinity_nic nics[8];

    (void)state;
    assert_int_equal(br_nic_affinity_nics(near, "0000:99:00.0", nics, 8), -ENODEV);
    assert_non_null(strstr(br_error_message(), "0000:99:00.0"));
    assert_int_equal(br_nic_affinity_nics(near, "", nics, 8), -ENODEV);
    assert_int_equal(br_nic_affinity_nics(near, "fa0e:01:00.0", nics, 2), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics__nearest_first),
        cmocka_unit_test(nics__of_the_other_socket),
        cmocka_unit_test(nics__of_a_device_that_is_not_there),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}
