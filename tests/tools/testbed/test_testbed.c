/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/testbed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/inventory.h"

static struct br_testbed make(int n, int k, uint32_t hosts, bool loopback)
{
    struct br_testbed bed = {.name = "bed", .hosts = hosts, .loopback = loopback, .lock = -1};

    assert_int_equal(br_bcube_init(&bed.cube, n, k), 0);
    assert_int_equal(br_testbed_lay(&bed), 0);
    return bed;
}

static void testbed_names__of_everything(void **state)
{
    struct br_testbed bed = make(3, 2, 9, false);
    char text[BR_NAMESPACE_NAME];

    (void)state;
    assert_string_equal(br_testbed_host_space(&bed, 5, text), "bed-h12");
    assert_string_equal(br_testbed_switch_space(&bed, text), "bed-switches");
    assert_string_equal(br_testbed_nic(&bed, 5, 1, text), "eth1");
    assert_string_equal(br_testbed_port(&bed, 5, 1, text), "l1s2p1");
    assert_string_equal(br_testbed_bridge(1, 2, text), "l1s2");
    assert_string_equal(br_testbed_address(&bed, 5, 1, text), "10.1.2.2/24");
    assert_string_equal(br_testbed_management(&bed, 5, text), "10.255.0.6/16");
    assert_string_equal(br_testbed_management_ip(&bed, 5, text), "10.255.0.6");
}

static void testbed_neighbours__of_hosts_and_management(void **state)
{
    struct br_testbed bed = make(8, 2, 64, false);

    (void)state;
    assert_int_equal(br_testbed_neighbours(&bed), 64 * 14 + 2 * 63);
    bed = make(3, 2, 4, false); /* three hosts of one switch, and one below the first */
    assert_int_equal(br_testbed_neighbours(&bed), 6 + 2 + 2 * 3);
    bed = make(2, 1, 1, false);
    assert_int_equal(br_testbed_neighbours(&bed), 0);
}

/* In loopback a NIC is its address, and no two have the same. */
static void testbed_nic__loopback(void **state)
{
    struct br_testbed bed = make(2, 3, 8, true);
    char texts[24][BR_TESTBED_ADDRESS];

    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        br_testbed_nic(&bed, i / 3, i % 3, texts[i]);
        assert_int_equal(strncmp(texts[i], "127.", 4), 0);
        assert_null(strchr(texts[i], '/'));
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(texts[i], texts[j]);
    }
}

/* The kernel takes 15 characters. */
static void testbed_port__fits_in_the_largest(void **state)
{
    struct br_testbed bed = make(2, 16, BR_TESTBED_HOSTS_MAX, false);
    char text[BR_TESTBED_LINK + 1];

    (void)state;
    for (uint32_t level = 0; level < 16; level++) {
        memset(text, 'x', sizeof text);
        assert_true(strlen(br_testbed_port(&bed, 999, level, text)) < BR_TESTBED_LINK);
        assert_int_equal(text[BR_TESTBED_LINK], 'x');
    }
}

static void testbed_parse_host__three_ways(void **state)
{
    struct br_testbed bed = make(3, 2, 8, false);
    static const char *const same[] = {"h12", "5", "[1,2]"};
    static const char *const bad[] = {"h22", "8", "[2,2]", "[3,0]", "", "h", "5x", "-1"};
    uint32_t host;

    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        assert_int_equal(br_testbed_parse_host(&bed, same[i], &host), 0);
        assert_int_equal(host, 5);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_testbed_parse_host(&bed, bad[i], &host), -ENOENT);
        assert_non_null(strstr(br_error_message(), "0 (h00) to 7"));
    }
}

static void testbed_check_name__good_and_bad(void **state)
{
    static const char *const bad[] = {
        "", "1st", "-x", "a/b", "..", "a b", "abcdefghijklmnopqrstuvwx"};

    (void)state;
    assert_int_equal(br_testbed_check_name("Lab-2"), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(br_testbed_check_name(bad[i]), -EINVAL);
}

/* The folder of a user; root's is tested as a whole by tests/system. */
static void testbed_open__what_was_saved(void **state)
{
    struct br_testbed bed = make(4, 2, 10, true), read;
    char names[4][BR_TESTBED_NAME];

    (void)state;
    if (geteuid() == 0)
        strcpy(bed.name, "unit-test-of-braid"); /* in /run/braid */
    bed.rate = 12345678901;
    bed.mtu = 9000;
    assert_int_equal(br_testbed_open(&read, bed.name, false), -ENOENT);
    assert_int_equal(br_testbed_create(&bed), 0);
    assert_true(br_testbed_list(names, 4) > 0);
    assert_int_equal(br_testbed_open(&read, bed.name, false), 0);
    assert_int_equal(read.cube.n, 0); /* killed at once */
    assert_int_equal(br_testbed_save(&bed), 0);
    br_testbed_close(&bed);
    assert_int_equal(br_testbed_open(&read, bed.name, false), 0);
    assert_int_equal(br_testbed_check_ready(&read), -EAGAIN);
    assert_non_null(strstr(br_error_message(), "half made"));
    bed.ready = true;
    assert_int_equal(br_testbed_save(&bed), 0);
    assert_int_equal(br_testbed_check_ready(&read), 0);
    assert_int_equal(read.cube.hosts, 16);
    assert_int_equal(read.hosts, 10);
    assert_int_equal(read.rate, bed.rate);
    assert_int_equal(read.mtu, 9000);
    assert_true(read.loopback);
    assert_int_equal(br_testbed_create(&read), -EEXIST);
    assert_int_equal(br_testbed_open(&read, bed.name, true), 0);
    assert_int_equal(br_testbed_forget(&read), 0);
    assert_int_equal(br_testbed_open(&read, bed.name, false), -ENOENT);
}

/* What emulate writes is sound for those who read it. */
static void testbed_write_inventory__is_sound(void **state)
{
    char path[BR_TESTBED_FOLDER + 32], text[BR_TESTBED_ADDRESS];
    struct br_inventory inventory;

    (void)state;
    for (int loopback = 0; loopback < 2; loopback++) {
        struct br_testbed bed = make(3, 2, loopback ? 9 : 7, loopback);

        bed.mtu = 9000;
        bed.rate = loopback ? 0 : 40000000;
        strcpy(bed.folder, "/tmp/test_testbed.XXXXXX");
        assert_non_null(mkdtemp(bed.folder));
        assert_int_equal(br_testbed_write_inventory(&bed), 0);
        br_testbed_path(&bed, BR_TESTBED_INVENTORY, path);
        assert_int_equal(br_inventory_load(&inventory, path), 0);
        if (br_inventory_sound(&inventory) < 0)
            fail_msg("%s", br_error_message());
        assert_int_equal(inventory.access, loopback ? BR_INVENTORY_HERE : BR_INVENTORY_EMULATION);
        assert_int_equal(inventory.n_hosts, bed.hosts);
        assert_true(inventory.mtu == 9000 && inventory.rate == bed.rate);
        assert_string_equal(inventory.hosts[5].nics[1].name, br_testbed_nic(&bed, 5, 1, text));
        assert_string_equal(inventory.hosts[5].access, loopback ? "h12" : "bed-h12");
        br_inventory_destroy(&inventory);
        unlink(path);
        rmdir(bed.folder);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(testbed_names__of_everything),
        cmocka_unit_test(testbed_neighbours__of_hosts_and_management),
        cmocka_unit_test(testbed_nic__loopback),
        cmocka_unit_test(testbed_port__fits_in_the_largest),
        cmocka_unit_test(testbed_parse_host__three_ways),
        cmocka_unit_test(testbed_check_name__good_and_bad),
        cmocka_unit_test(testbed_open__what_was_saved),
        cmocka_unit_test(testbed_write_inventory__is_sound),
    };
    char folder[] = "/tmp/test_testbed.XXXXXX";
    int failed;

    if (mkdtemp(folder))
        setenv("XDG_RUNTIME_DIR", folder, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
