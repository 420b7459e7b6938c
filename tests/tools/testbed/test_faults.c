/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/faults.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

static struct br_testbed bed; /* BCube(3,2), 8 of 9 hosts */
static struct br_faults faults;

static int set_up(void **state)
{
    (void)state;
    bed =
        (struct br_testbed){.name = "bed", .hosts = 8, .rate = 100000000, .mtu = 1500, .lock = -1};
    faults.count = 0;
    return br_bcube_init(&bed.cube, 3, 2) || br_testbed_lay(&bed);
}

/* Splits the text into words and does as the command does. */
static int do_fault(const char *text)
{
    char copy[128], *words[8], *rest = copy;
    struct br_fault fault;
    bool plant;
    int n = 0, rc;

    snprintf(copy, sizeof copy, "%s", text);
    while ((words[n] = strtok_r(rest, " ", &rest)))
        n++;
    rc = br_fault_parse(&fault, &plant, &bed, n, words);
    if (rc < 0)
        return rc;
    return plant ? br_faults_inject(&faults, &fault) : br_faults_clear(&faults, &fault, &bed);
}

static struct br_nic_state nic(uint32_t host, uint32_t level)
{
    struct br_nic_state of;

    br_faults_nic(&faults, &bed, host, level, &of);
    return of;
}

static void assert_healthy(void)
{
    for (uint32_t host = 0; host < bed.hosts; host++) {
        struct br_host_state of;

        br_faults_host(&faults, host, &of);
        assert_true(of.management && of.arp && of.rp_filter);
        for (uint32_t level = 0; level < 2; level++) {
            struct br_nic_state is = nic(host, level);
            char text[BR_TESTBED_ADDRESS];

            assert_true(is.up && !is.off && !is.missing && !is.loss_in && !is.loss_out);
            assert_int_equal(is.level, level);
            assert_int_equal(is.index, br_bcube_switch(&bed.cube, host, level));
            assert_int_equal(is.rate, bed.rate);
            assert_true(is.mtu == 1500 && is.port_mtu == 1500);
            assert_string_equal(is.address, br_testbed_address(&bed, host, level, text));
            assert_string_equal(is.name, level ? "eth1" : "eth0");
        }
    }
}

static void faults_nic__healthy(void **state)
{
    (void)state;
    assert_healthy();
}

/* Every kind is injected, printed, read back, does something, and is cleared. */
static void fault_parse__every_kind_and_back(void **state)
{
    static const char *const all[][2] = {
        {"nic h01 1 down", "nic h01 1 up"},
        {"switch 0 2 down", "switch 0 2 up"},
        {"host h10 down", "host h10 up"},
        {"level 1 down", "level 1 up"},
        {"missing h01 1", "missing h01 1 clear"},
        {"off h01 1", "off h01 1 clear"},
        {"swap h01 0 1", "swap h01 0 1 clear"},
        {"move h01 1 s0-2", "move h01 1 clear"},
        {"join s0-1 s1-2", "join s0-1 s1-2 clear"},
        {"mute 1 2", "mute 1 2 clear"},
        {"deaf h01 1", "deaf h01 1 clear"},
        {"loss h01 1 12.5", "loss h01 1 clear"},
        {"rate h01 1 10mbit", "rate h01 1 clear"},
        {"mtu h01 1 1400", "mtu h01 1 clear"},
        {"switch-mtu h01 1 1400", "switch-mtu h01 1 clear"},
        {"address h01 1 10.0.0.9/24", "address h01 1 up"},
        {"mac h01 1 02:00:00:00:00:07", "mac h01 1 clear"},
        {"name h01 1 enp3s0", "name h01 1 clear"},
        {"arp h01", "arp h01 clear"},
        {"rp_filter h01", "rp_filter h01 clear"},
    };
    char text[128];

    (void)state;
    assert_int_equal(sizeof all / sizeof *all, BR_FAULT_KINDS);
    for (size_t i = 0; i < BR_FAULT_KINDS; i++) {
        struct br_host_state host;
        FILE *out = fmemopen(text, sizeof text, "w");
        struct br_nic_state is;

        assert_int_equal(do_fault(all[i][0]), 0);
        assert_int_equal(faults.count, 1);
        br_fault_print(&faults.fault[0], &bed, out);
        fclose(out);
        assert_string_equal(text, all[i][0]);
        is = nic(1, 1);
        br_faults_host(&faults, 1, &host);
        if (!strncmp(text, "host", 4) || !strncmp(text, "switch 0", 8) ||
            !strncmp(text, "level", 5) || !strncmp(text, "join", 4))
            assert_true(strncmp(text, "level", 5) != 0 || !is.up);
        else
            assert_false(is.up && !is.off && !is.missing && !is.loss_in && !is.loss_out &&
                         is.level == 1 && is.index == 1 && is.rate == bed.rate && is.mtu == 1500 &&
                         is.port_mtu == 1500 && host.arp && host.rp_filter &&
                         !strcmp(is.address, "10.1.1.1/24") && !strcmp(is.name, "eth1") &&
                         strcmp(is.mac, "02:00:00:00:00:07") != 0 && strncmp(text, "mute", 4) != 0);
        assert_int_equal(do_fault(all[i][1]), 0);
        assert_int_equal(faults.count, 0);
        assert_healthy();
    }
}

static void faults_nic__overlapping_faults_come_and_go(void **state)
{
    (void)state;
    assert_int_equal(do_fault("nic 0 0 down"), 0);
    assert_int_equal(do_fault("switch 0 0 down"), 0);
    assert_int_equal(do_fault("nic h00 0 up"), 0);
    assert_false(nic(0, 0).up);
    assert_false(nic(2, 0).up);
    assert_true(nic(3, 0).up);
    assert_int_equal(do_fault("move h10 0 0"), 0); /* to a switch without power */
    assert_false(nic(3, 0).up);
    assert_int_equal(do_fault("switch 0 0 up"), 0);
    assert_true(nic(0, 0).up && nic(3, 0).up);
    assert_int_equal(nic(3, 0).index, 0);
}

static void faults_nic__where_cables_end(void **state)
{
    (void)state;
    assert_int_equal(do_fault("swap [1,2] 1 0"), 0); /* host 5: switches <0,1> and <1,2> */
    assert_int_equal(nic(5, 0).level, 1);
    assert_int_equal(nic(5, 0).index, 2);
    assert_int_equal(nic(5, 1).level, 0);
    assert_int_equal(nic(5, 1).index, 1);
    assert_int_equal(do_fault("join s0-0 s0-1"), 0);
    assert_int_equal(nic(5, 1).index, 0);
    assert_int_equal(nic(4, 0).index, 0);
    assert_int_equal(nic(6, 0).index, 2);
}

static void faults_nic__the_larger_loss_counts(void **state)
{
    (void)state;
    assert_int_equal(do_fault("deaf h00 0"), 0);
    assert_int_equal(do_fault("loss h00 0 1%"), 0);
    assert_int_equal(nic(0, 0).loss_out, 1000000);
    assert_int_equal(nic(0, 0).loss_in, 10000);
    assert_int_equal(do_fault("loss h00 0 2"), 0); /* replaces */
    assert_int_equal(faults.count, 2);
    assert_int_equal(nic(0, 0).loss_in, 20000);
}

static void fault_parse__refuses(void **state)
{
    static const char *const bad[][2] = {
        {"", "--help"},
        {"gremlins", "'gremlins'"},
        {"nic h00 0", "nic|HOST|LEVEL|down|up"},
        {"nic h00", "nic|HOST|LEVEL|down|up"},
        {"nic h00 2 down", "from 0 to 1"},
        {"nic h22 0 down", "'h22'"},
        {"nic h00 0 0 down", "nic|HOST|LEVEL|down|up"},
        {"switch 0 3 down", "s0-0 to s1-2"},
        {"switch -1 0 down", "from 0 to 1"},
        {"swap h00 1 1", "differ"},
        {"join s0-1 s0-1", "differ"},
        {"join 0 1", "s0-0 to s1-2"},
        {"move h00 0 s0", "s0-0 to s1-2"},
        {"mtu h00 0 70000", "MTU"},
        {"mtu h00 0 clear 7", "mtu|HOST|LEVEL"},
        {"rate h00 0 1kbit", "64kbit"},
        {"loss h00 0 0", "percentage"},
        {"loss h00 0 101", "percentage"},
        {"address h00 0 10.0.0", "no address"},
        {"mac h00 0 03:00:00:00:00:01", "no MAC"},
        {"name h00 0 a/b", "no name"},
        {"name h00 0 sixteencharacters", "no name"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(do_fault(bad[i][0]) < 0);
        assert_says(br_error_message(), bad[i][1]);
    }
    assert_int_equal(do_fault("nic h00 0 up"), -ENOENT);
    assert_int_equal(faults.count, 0);
}

static void faults_plant__a_full_list(void **state)
{
    struct br_fault fault = {.kind = BR_FAULT_NIC};

    (void)state;
    for (int i = 0; i < BR_FAULTS_MAX; i++) {
        fault.operand[0] = (uint64_t)i;
        assert_int_equal(br_faults_inject(&faults, &fault), 0);
    }
    assert_int_equal(br_faults_inject(&faults, &fault), 0); /* there already */
    fault.operand[0] = BR_FAULTS_MAX;
    assert_int_equal(br_faults_inject(&faults, &fault), -ENOSPC);
}

static void faults_load__what_was_saved(void **state)
{
    struct br_faults read = {.count = 7};
    char path[BR_TESTBED_FOLDER + 32];
    FILE *file;

    (void)state;
    strcpy(bed.folder, "/tmp/test_faults.XXXXXX");
    assert_non_null(mkdtemp(bed.folder));
    assert_int_equal(br_faults_load(&read, &bed), 0);
    assert_int_equal(read.count, 0);
    assert_int_equal(do_fault("loss h00 1 0.0125"), 0);
    assert_int_equal(do_fault("address h01 0 none"), 0);
    assert_int_equal(do_fault("switch 1 1 down"), 0);
    assert_int_equal(br_faults_save(&faults, &bed), 0);
    assert_int_equal(br_faults_load(&read, &bed), 0);
    assert_int_equal(read.count, 3);
    assert_memory_equal(read.fault, faults.fault, 3 * sizeof *read.fault);
    file = fopen(br_testbed_path(&bed, "faults", path), "w");
    assert_non_null(file);
    fputs("nic h99 0 down\n", file);
    fclose(file);
    assert_int_equal(br_faults_load(&read, &bed), -ENOENT);
    assert_says(br_error_message(), "faults|damaged");
    unlink(path);
    rmdir(bed.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(faults_nic__healthy, set_up),
        cmocka_unit_test_setup(fault_parse__every_kind_and_back, set_up),
        cmocka_unit_test_setup(faults_nic__overlapping_faults_come_and_go, set_up),
        cmocka_unit_test_setup(faults_nic__where_cables_end, set_up),
        cmocka_unit_test_setup(faults_nic__the_larger_loss_counts, set_up),
        cmocka_unit_test_setup(fault_parse__refuses, set_up),
        cmocka_unit_test_setup(faults_plant__a_full_list, set_up),
        cmocka_unit_test_setup(faults_load__what_was_saved, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
