/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/testbed/synthetic.h"

static struct br_survey survey;
static int wires[64];

static int setup(void **state)
{
    (void)state;
    synthetic_init(&survey, 3, 2);
    synthetic_wires(&survey, wires);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_survey_destroy(&survey);
    return 0;
}

static void hear_and_expect(const char *code, const char *text)
{
    br_survey_match(&survey);
    synthetic_hear(&survey, wires);
    expect_one(&survey, code, text);
}

static void nics__missing(void **state)
{
    (void)state;
    survey.hosts[4].n_nics = 1;
    wires[br_survey_port_of(&survey, 4, 1)] = -1;
    hear_and_expect("BC010", "h04|NIC eth1|level 1");
}

static void nics__renamed(void **state)
{
    (void)state;
    strcpy(synthetic_nic(&survey, 4, 1)->name, "enp7s0");
    hear_and_expect("BC011", "NIC eth1 of h04|enp7s0");
}

/* By whom it hears, when neither MAC nor address tell. */
static void nics__renamed_and_replaced(void **state)
{
    (void)state;
    struct br_nic *nic = synthetic_nic(&survey, 4, 1);
    strcpy(nic->name, "enp7s0");
    nic->mac[1] = 77;
    nic->n_addresses = 0;
    survey.ports[br_survey_port_of(&survey, 4, 1)].has_mac = false;
    synthetic_hear(&survey, wires);
    br_survey_match(&survey);
    struct br_findings findings;
    synthetic_diagnose(&survey, &findings);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.list[0].code, "BC011");
    assert_string_equal(findings.list[1].code, "BC040");
    br_findings_destroy(&findings);
}

static void nics__mac(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->mac[1] = 77;
    hear_and_expect("BC012", "eth1 of h04|MAC");
}

static void nics__same_mac(void **state)
{
    (void)state;
    memcpy(synthetic_nic(&survey, 4, 1)->mac, synthetic_nic(&survey, 1, 1)->mac, 6);
    hear_and_expect("BC018", "eth1 of h01|eth1 of h04|MAC");
}

static void nics__place(void **state)
{
    (void)state;
    uint32_t port = br_survey_port_of(&survey, 4, 1);
    strcpy(survey.ports[port].pci, "0000:3b:00.0");
    strcpy(synthetic_nic(&survey, 4, 1)->pci, "0000:3b:00.0");
    synthetic_hear(&survey, wires);
    expect_none(&survey);
    strcpy(synthetic_nic(&survey, 4, 1)->pci, "0000:5e:00.0");
    expect_one(&survey, "BC013", "eth1 of h04|PCI");
    strcpy(synthetic_nic(&survey, 4, 1)->pci, "0000:3b:00.0");
    survey.ports[port].numa = 1;
    synthetic_nic(&survey, 4, 1)->numa = 0;
    expect_one(&survey, "BC014", "eth1 of h04|NUMA");
}

static void nics__down(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->up = synthetic_nic(&survey, 4, 1)->carrier = false;
    hear_and_expect("BC015", "eth1 of h04 is down");
}

static void nics__no_carrier(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->carrier = false;
    hear_and_expect("BC016", "carrier|eth1 of h04|port 1 of switch s1-1");
}

static void nics__host_dark(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 0)->carrier = synthetic_nic(&survey, 4, 1)->carrier = false;
    hear_and_expect("BC016", "carrier|host h04");
}

static void nics__switch_down(void **state)
{
    (void)state;
    synthetic_nic(&survey, 1, 1)->carrier = synthetic_nic(&survey, 4, 1)->carrier =
        synthetic_nic(&survey, 7, 1)->carrier = false;
    hear_and_expect("BC028", "switch s1-1 is down");
}

static void nics__speed(void **state)
{
    (void)state;
    survey.ports[br_survey_port_of(&survey, 4, 1)].rate = 25e9;
    hear_and_expect("BC017", "eth1 of h04|10 Gb/s|25");
}

static void nics__mtu(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->mtu = 1400;
    synthetic_link(&survey, 4, 1)->path_mtu = synthetic_link(&survey, 1, 4)->path_mtu = 1400;
    synthetic_link(&survey, 4, 7)->path_mtu = synthetic_link(&survey, 7, 4)->path_mtu = 1400;
    hear_and_expect("BC050", "eth1 of h04|MTU of 1400|1500");
}

static void hosts__not_reached(void **state)
{
    struct br_findings findings;
    (void)state;
    survey.hosts[4].reached = false;
    survey.hosts[4].n_nics = 0;
    strcpy(survey.hosts[4].message, "ssh: connect to host: No route to host");
    wires[br_survey_port_of(&survey, 4, 0)] = wires[br_survey_port_of(&survey, 4, 1)] = -1;
    hear_and_expect("BC001", "host h04");
    synthetic_diagnose(&survey, &findings);
    assert_string_equal(findings.list[0].evidence[0], "ssh: connect to host: No route to host");
    assert_int_equal(findings.list[0].consequences, 8);
    br_findings_destroy(&findings);
}

static void hosts__same_reason(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 9; h++) {
        survey.hosts[h].reached = false;
        survey.hosts[h].n_nics = 0;
        strcpy(survey.hosts[h].message, "the agent has ended: sh: 1: braid: not found");
    }
    br_survey_match(&survey);
    expect_one(&survey, "BC001", "hosts h00, h01, h02, h03|5 more");
}

/* A host that could not listen is not taken for one that hears nobody. */
static void hosts__could_not_listen(void **state)
{
    struct br_findings findings;
    (void)state;
    survey.hosts[4].root = false;
    synthetic_nic(&survey, 4, 0)->speaks = synthetic_nic(&survey, 4, 1)->speaks = false;
    wires[br_survey_port_of(&survey, 4, 0)] = wires[br_survey_port_of(&survey, 4, 1)] = -1;
    br_survey_match(&survey);
    synthetic_hear(&survey, wires);
    for (uint32_t l = 0; l < br_survey_links(&survey); l++)
        survey.links[l] = survey.links[0];
    synthetic_diagnose(&survey, &findings);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.list[0].code, "BC002");
    assert_string_equal(findings.list[1].code, "BC003");
    br_findings_destroy(&findings);
}

/* Empty places of a partial cube are no findings. */
static void hosts__absent(void **state)
{
    (void)state;
    survey.hosts[8].absent = true;
    survey.hosts[8].reached = false;
    survey.hosts[8].n_nics = 0;
    for (uint32_t level = 0; level < 2; level++) {
        survey.ports[br_survey_port_of(&survey, 8, level)].absent = true;
        wires[br_survey_port_of(&survey, 8, level)] = -1;
    }
    br_survey_match(&survey);
    synthetic_hear(&survey, wires);
    expect_none(&survey);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(nics__missing),      TEST(nics__renamed),      TEST(nics__renamed_and_replaced),
        TEST(nics__mac),          TEST(nics__same_mac),     TEST(nics__place),
        TEST(nics__down),         TEST(nics__no_carrier),   TEST(nics__host_dark),
        TEST(nics__switch_down),  TEST(nics__speed),        TEST(nics__mtu),
        TEST(hosts__not_reached), TEST(hosts__same_reason), TEST(hosts__could_not_listen),
        TEST(hosts__absent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
