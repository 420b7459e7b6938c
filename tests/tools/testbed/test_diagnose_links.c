/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/testbed/synthetic.h"

static struct br_survey survey;

static void make(uint32_t n, uint32_t k)
{
    int wires[64];
    synthetic_init(&survey, n, k);
    synthetic_wires(&survey, wires);
    synthetic_hear(&survey, wires);
}

static int setup(void **state)
{
    (void)state;
    make(3, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_survey_destroy(&survey);
    return 0;
}

/* Host 4's neighbours of level 0 are 3 and 5. */
static void links__port_unreachable(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->got = synthetic_link(&survey, 3, 4)->got = 0;
    synthetic_link(&survey, 4, 5)->got = synthetic_link(&survey, 5, 4)->got = 0;
    expect_one(&survey, "BC080", "eth0 of h04|neighbours");
}

static void links__one_direction_unreachable(void **state)
{
    (void)state;
    synthetic_link(&survey, 3, 4)->got = synthetic_link(&survey, 5, 4)->got = 0;
    expect_one(&survey, "BC080", "to eth0 of h04");
}

static void links__pair_unreachable(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->got = synthetic_link(&survey, 3, 4)->got = 0;
    expect_one(&survey, "BC080", "eth0 of h03|eth0 of h04");
}

static void links__switch_port_mtu(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->path_mtu = synthetic_link(&survey, 3, 4)->path_mtu = 1404;
    synthetic_link(&survey, 4, 5)->path_mtu = synthetic_link(&survey, 5, 4)->path_mtu = 1404;
    expect_one(&survey, "BC051", "switch port|eth0 of h04");
}

static void links__loss(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->got = synthetic_link(&survey, 3, 4)->got = 55;
    synthetic_link(&survey, 4, 5)->got = synthetic_link(&survey, 5, 4)->got = 58;
    synthetic_link(&survey, 4, 5)->alone = 20e6; /* TCP suffers from it: no second finding */
    expect_one(&survey, "BC081", "eth0 of h04 loses packets");
}

static void links__one_lost_echo_is_nothing(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->got = 59;
    expect_none(&survey);
}

static void set_rate(uint32_t from, uint32_t to, double rate)
{
    struct br_survey_link *link = synthetic_link(&survey, from, to);

    link->alone = link->together = rate;
}

static void links__slow(void **state)
{
    (void)state;
    set_rate(4, 3, 20e6);
    set_rate(3, 4, 20e6);
    set_rate(4, 5, 20e6);
    set_rate(5, 4, 20e6);
    expect_one(&survey, "BC082", "link|eth0 of h04");
}

static void links__slow_one_direction(void **state)
{
    (void)state;
    set_rate(4, 3, 20e6);
    set_rate(4, 5, 20e6);
    synthetic_link(&survey, 3, 4)->together = 10e6; /* its acknowledgements */
    expect_one(&survey, "BC082", "eth0 of h04|sends");
    set_rate(4, 3, 95e6);
    set_rate(4, 5, 95e6);
    set_rate(3, 4, 20e6);
    set_rate(5, 4, 20e6);
    expect_one(&survey, "BC082", "eth0 of h04|receives");
}

/* With two ports a switch nobody can tell which end it is. */
static void links__slow_pair(void **state)
{
    (void)state;
    br_survey_destroy(&survey);
    make(2, 2);
    set_rate(1, 0, 20e6);
    expect_one(&survey, "BC082", "link|eth0 of h01|eth0 of h00");
}

/* Under more load it was not. */
static void links__slow_for_a_moment(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->alone = 20e6;
    expect_none(&survey);
}

static void links__all_below_nominal_is_a_note(void **state)
{
    struct br_findings findings;
    (void)state;
    for (uint32_t l = 0; l < br_survey_links(&survey); l++)
        survey.links[l].alone = 40e6;
    synthetic_diagnose(&survey, &findings);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.list[0].code, "BC086");
    assert_int_equal(findings.list[0].severity, BR_NOTE);
    br_findings_destroy(&findings);
}

/* The hosts can do better: the level is to blame. */
static void links__a_level_below_nominal(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < br_survey_links(&survey); l++)
        if (br_survey_level_of(&survey, l / 2) == 1)
            survey.links[l].alone = 40e6;
    expect_one(&survey, "BC086", "level 1|0.04 of 0.1 Gb/s");
}

static void links__late(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->min_us = synthetic_link(&survey, 3, 4)->min_us = 2000;
    synthetic_link(&survey, 4, 5)->min_us = synthetic_link(&survey, 5, 4)->min_us = 2000;
    expect_one(&survey, "BC084", "latency|eth0 of h04");
}

static void links__collapse_under_load(void **state)
{
    (void)state;
    synthetic_link(&survey, 4, 3)->together = synthetic_link(&survey, 4, 5)->together = 5e6;
    synthetic_link(&survey, 3, 4)->together = synthetic_link(&survey, 5, 4)->together = 5e6;
    expect_one(&survey, "BC085", "eth0 of h04|all links");
}

static void links__counters(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->before[2] = 10;
    synthetic_nic(&survey, 4, 1)->after[2] = 17;
    expect_one(&survey, "BC087", "error counters|eth1 of h04");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(links__port_unreachable),
        TEST(links__one_direction_unreachable),
        TEST(links__pair_unreachable),
        TEST(links__switch_port_mtu),
        TEST(links__loss),
        TEST(links__one_lost_echo_is_nothing),
        TEST(links__slow),
        TEST(links__slow_one_direction),
        TEST(links__slow_pair),
        TEST(links__slow_for_a_moment),
        TEST(links__all_below_nominal_is_a_note),
        TEST(links__a_level_below_nominal),
        TEST(links__late),
        TEST(links__collapse_under_load),
        TEST(links__counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
