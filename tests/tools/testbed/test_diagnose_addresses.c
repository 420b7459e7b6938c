/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

/* What happens to the links of a NIC without its address. */
static void cut(uint32_t host, uint32_t level)
{
    for (uint32_t i = 0; i + 1 < survey.cube.n; i++) {
        uint32_t other = br_bcube_neighbour(&survey.cube, host, level, i);
        synthetic_link(&survey, host, other)->got = synthetic_link(&survey, other, host)->got = 0;
    }
}

static void addresses__none(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->n_addresses = 0;
    cut(4, 1);
    expect_one(&survey, "BC040", "eth1 of h04|address");
}

static void addresses__another_subnet(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->addresses[0].ip = 0x0a4d0001;
    cut(4, 1);
    expect_one(&survey, "BC041", "eth1 of h04|has 10.77.0.1/24|10.1.1.2/24|subnet");
}

static void addresses__duplicate(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->addresses[0] = synthetic_nic(&survey, 1, 1)->addresses[0];
    cut(4, 1);
    expect_one(&survey, "BC042", "eth1 of h04|10.1.1.1|eth1 of h01");
}

static void addresses__duplicate_of_a_stranger(void **state)
{
    (void)state;
    struct br_arp_answer answer = {.on = 4 * BR_SURVEY_NICS,
                                   .ip = synthetic_nic(&survey, 4, 0)->addresses[0].ip,
                                   .mac = {9, 9, 9, 9, 9, 9}};
    assert_int_equal(br_survey_add_answer(&survey, &answer), 0);
    expect_one(&survey, "BC042", "10.0.1.2|eth0 of h04");
}

static void addresses__exchanged(void **state)
{
    (void)state;
    struct br_cidr first = synthetic_nic(&survey, 4, 0)->addresses[0];
    synthetic_nic(&survey, 4, 0)->addresses[0] = synthetic_nic(&survey, 4, 1)->addresses[0];
    synthetic_nic(&survey, 4, 1)->addresses[0] = first;
    cut(4, 0);
    cut(4, 1);
    expect_one(&survey, "BC043", "eth0|eth1|host h04");
}

static void addresses__prefix(void **state)
{
    (void)state;
    synthetic_nic(&survey, 4, 1)->addresses[0].prefix = 16;
    expect_one(&survey, "BC044", "eth1 of h04|prefix /16|/24");
}

static void addresses__two_nics_in_a_subnet(void **state)
{
    (void)state;
    struct br_nic *nic = synthetic_nic(&survey, 4, 0);
    nic->addresses[nic->n_addresses++] = (struct br_cidr){0x0a0101c8, 24};
    expect_one(&survey, "BC045", "eth0 of h04|subnet|eth1");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(addresses__none),
        TEST(addresses__another_subnet),
        TEST(addresses__duplicate),
        TEST(addresses__duplicate_of_a_stranger),
        TEST(addresses__exchanged),
        TEST(addresses__prefix),
        TEST(addresses__two_nics_in_a_subnet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
