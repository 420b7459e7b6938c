/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "transport/dpdk/pci.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[] = "/tmp/braid-pci-XXXXXX";

static void __attribute__((format(printf, 1, 2))) run(const char *format, ...)
{
    char command[600];
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

/* A device with a class, and a driver unless it is "". */
static void add(const char *address, const char *class, const char *driver)
{
    run("d=%s/sys/bus/pci/devices/%s; mkdir -p $d && echo %s > $d/class && echo 1 > $d/numa_node",
        root, address, class);
    if (*driver)
        run("ln -s ../../drivers/%s %s/sys/bus/pci/devices/%s/driver", driver, root, address);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(root));
    add("0000:01:00.0", "0x020000", "ixgbe");
    run("mkdir -p %s/sys/bus/pci/devices/0000:01:00.0/net/eth7", root);
    add("0000:02:00.0", "0x020000", "vfio-pci");
    add("0000:03:00.0", "0x020000", "");
    add("0000:04:00.0", "0x020000", "virtio-pci");
    run("mkdir -p %s/sys/bus/pci/devices/0000:04:00.0/virtio2/net/ens4", root);
    add("0000:05:00.0", "0x010802", "nvme");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run("rm -r %s", root);
    return 0;
}

static void nics__are_listed_with_driver_and_interface(void **state)
{
    struct br_dpdk_nic nics[8];

    (void)state;
    assert_int_equal(br_dpdk_nics(root, nics, 8), 4);
    assert_string_equal(nics[0].address, "0000:01:00.0");
    assert_string_equal(nics[0].driver, "ixgbe");
    assert_string_equal(nics[0].interface, "eth7");
    assert_int_equal(nics[0].numa_node, 1);
    assert_string_equal(nics[3].interface, "ens4");
    assert_int_equal(br_dpdk_nics(root, nics, 2), 2);
    assert_int_equal(br_dpdk_nics("/nowhere", nics, 8), 0);
}

static void nic_check__says_the_remedy(void **state)
{
    struct br_dpdk_nic nic;

    (void)state;
    assert_true(br_dpdk_nic_read(root, "0000:02:00.0", &nic));
    assert_int_equal(br_dpdk_nic_check(&nic), 0);
    assert_true(br_dpdk_nic_read(root, "0000:01:00.0", &nic));
    assert_int_equal(br_dpdk_nic_check(&nic), -EBUSY);
    assert_non_null(strstr(br_error_message(), "eth7"));
    assert_non_null(strstr(br_error_message(), "dpdk-devbind.py -b vfio-pci 0000:01:00.0"));
    assert_true(br_dpdk_nic_read(root, "0000:03:00.0", &nic));
    assert_int_equal(br_dpdk_nic_check(&nic), -ENODEV);
    assert_non_null(strstr(br_error_message(), "modprobe vfio-pci"));
    assert_false(br_dpdk_nic_read(root, "0000:09:00.0", &nic));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics__are_listed_with_driver_and_interface),
        cmocka_unit_test(nic_check__says_the_remedy),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
