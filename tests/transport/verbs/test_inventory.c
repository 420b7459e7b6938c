/* SPDX-License-Identifier: BSD-3-Clause */
/* What files say of a host, from a tree of them, odd ones included. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/verbs/inventory.h"

static char root[64];

static void make(const char *path, const char *text)
{
    char full[512], command[640];
    FILE *file;

    snprintf(full, sizeof full, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname %s)\"", full);
    assert_int_equal(system(command), 0);
    file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/braid-test-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[96];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void read__an_empty_host(void **state)
{
    struct br_verbs_inventory s;

    (void)state;
    br_verbs_inventory_read(&s, root);
    assert_false(s.core || s.soft_roce || s.nodes);
    assert_int_equal(s.n_devices, 0);
    assert_true(s.n_interfaces >= 1); /* those of this machine: they do not come from files */
    assert_non_null(br_verbs_interface(&s, "lo"));
    assert_null(br_verbs_interface(&s, "none"));
}

static void read__devices_in_the_order_of_their_numbers(void **state)
{
    struct br_verbs_inventory s;

    (void)state;
    make("/sys/class/infiniband/mlx5_10/fw_ver", "1\n");
    make("/sys/class/infiniband/mlx5_2/fw_ver", "1\n");
    make("/dev/infiniband/rdma_cm", "");
    br_verbs_inventory_read(&s, root);
    assert_true(s.core);
    assert_false(s.nodes);
    assert_int_equal(s.n_devices, 2);
    assert_string_equal(s.devices[0], "mlx5_2");
    assert_string_equal(s.devices[1], "mlx5_10");
    make("/dev/infiniband/uverbs0", "");
    br_verbs_inventory_read(&s, root);
    assert_true(s.nodes);
}

static void read__soft_roce_as_a_module_of_this_kernel(void **state)
{
    struct br_verbs_inventory s;
    struct utsname name;
    char path[256];

    (void)state;
    make("/lib/modules/0.0.0-other/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko", "");
    br_verbs_inventory_read(&s, root);
    assert_false(s.soft_roce);
    assert_int_equal(uname(&name), 0);
    snprintf(path, sizeof path,
             "/lib/modules/%.65s/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz", name.release);
    make(path, "");
    br_verbs_inventory_read(&s, root);
    assert_true(s.soft_roce);
}

static void read__soft_roce_loaded(void **state)
{
    struct br_verbs_inventory s;

    (void)state;
    make("/sys/module/rdma_rxe/refcnt", "0\n");
    br_verbs_inventory_read(&s, root);
    assert_true(s.soft_roce);
}

static void read__ipc_lock_frees_of_the_limit(void **state)
{
    struct br_verbs_inventory s;

    (void)state;
    make("/proc/self/status", "Name:\tx\nCapInh:\t0000000000000000\nCapEff:\t0000000000004000\n");
    br_verbs_inventory_read(&s, root);
    assert_true(s.memlock == UINT64_MAX);
}

static void rate__odd_lines(void **state)
{
    static const struct {
        const char *line;
        uint64_t rate;
    } cases[] = {
        {"100 Gb/sec (4X EDR)\n", 100000000000u},
        {"2.5 Gb/sec (1X SDR)\n", 2500000000u},
        {"10 Gb/sec (1X FDR10)", 10000000000u},
        {"", 0},
        {"-1\n", 0},
        {"4294967295 Gb/sec\n", 0},
        {"unknown\n", 0},
        {"nan Gb/sec\n", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make("/sys/class/infiniband/x/ports/1/rate", cases[i].line);
        assert_true(br_verbs_rate(root, "x", 1) == cases[i].rate);
    }
    assert_true(br_verbs_rate(root, "x", 2) == 0);
}

static void numa_node__odd_lines(void **state)
{
    static const struct {
        const char *line;
        int node;
    } cases[] = {{"1\n", 1}, {"0\n", 0}, {"-1\n", -1}, {"", -1}, {"x\n", -1}, {"99999\n", -1}};

    (void)state;
    assert_int_equal(br_verbs_numa_node(root, "x"), -1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make("/sys/class/infiniband/x/device/numa_node", cases[i].line);
        assert_int_equal(br_verbs_numa_node(root, "x"), cases[i].node);
    }
}

static void main_netdev__from_the_best_place(void **state)
{
    char name[IF_NAMESIZE];

    (void)state;
    br_verbs_main_netdev(root, "x", 1, name);
    assert_string_equal(name, "");
    make("/sys/class/infiniband/x/device/net/ens1f0/mtu", "1500\n");
    br_verbs_main_netdev(root, "x", 1, name);
    assert_string_equal(name, "ens1f0");
    make("/sys/class/infiniband/x/device/net/ens1f0_0/mtu",
         "1500\n"); /* a representor: which one is not known */
    br_verbs_main_netdev(root, "x", 1, name);
    assert_string_equal(name, "");
    assert_false(br_verbs_is_software(root, "x"));
    make("/sys/class/infiniband/x/parent", "eth7\n");
    assert_true(br_verbs_is_software(root, "x"));
    br_verbs_main_netdev(root, "x", 1, name);
    assert_string_equal(name, "eth7");
    make("/sys/class/infiniband/x/ports/1/gid_attrs/ndevs/0", "bond0\n");
    br_verbs_main_netdev(root, "x", 1, name);
    assert_string_equal(name, "bond0");
}

static void netdev_of__addresses_of_this_machine(void **state)
{
    struct br_verbs_inventory s = {0};
    uint8_t raw[BR_GID_BYTES];

    (void)state;
    assert_true(br_gid_parse("10.0.0.7", raw));
    assert_null(br_verbs_netdev_of(&s, raw));
    s.n_addresses = 1;
    memcpy(s.addresses[0].raw, raw, sizeof raw);
    strcpy(s.addresses[0].netdev, "eth3");
    assert_string_equal(br_verbs_netdev_of(&s, raw), "eth3");
    br_verbs_inventory_read(&s, "");
    assert_true(br_gid_parse("127.0.0.1", raw));
    assert_string_equal(br_verbs_netdev_of(&s, raw), "lo");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(read__an_empty_host),
        CASE(read__devices_in_the_order_of_their_numbers),
        CASE(read__soft_roce_as_a_module_of_this_kernel),
        CASE(read__soft_roce_loaded),
        CASE(read__ipc_lock_frees_of_the_limit),
        CASE(rate__odd_lines),
        CASE(numa_node__odd_lines),
        CASE(main_netdev__from_the_best_place),
        CASE(netdev_of__addresses_of_this_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
