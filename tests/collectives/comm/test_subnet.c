/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/subnet.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

#define IP(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

static struct br_wiring wiring;
static struct br_subnet subnets[4 * BR_WIRING_NICS];

/* BCube(2,2), 10.LEVEL.SWITCH.PORT+1/24. */
static int build(void **state)
{
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 2, 2), 0);
    assert_int_equal(br_wiring_init(&wiring, &cube, 4), 0);
    for (uint32_t h = 0; h < 4; h++) {
        wiring.hosts[h].n_nics = 2;
        for (uint32_t level = 0; level < 2; level++) {
            wiring.hosts[h].nics[level].level = (int)level;
            snprintf(wiring.hosts[h].nics[level].name, 16, "eth%u", level);
            subnets[h * BR_WIRING_NICS + level] = (struct br_subnet){
                IP(10, level, br_bcube_switch(&cube, h, level), br_bcube_port(&cube, h, level) + 1),
                IP(255, 255, 255, 0)};
        }
    }
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    br_wiring_destroy(&wiring);
    return 0;
}

static void check__right(void **state)
{
    (void)state;
    assert_int_equal(br_subnet_check(&wiring, subnets), 0);
    subnets[1].address = 0; /* IPv6 only, say */
    assert_int_equal(br_subnet_check(&wiring, subnets), 0);
}

static void check__another_subnet(void **state)
{
    (void)state;
    subnets[3 * BR_WIRING_NICS + 1].address = IP(10, 7, 7, 7);
    assert_int_equal(br_subnet_check(&wiring, subnets), -ENETUNREACH);
    assert_says(br_error_message(),
                "switch <1,1>|level 1|rank 1: eth1 has 10.1.1.1/24|rank 3: eth1 has 10.7.7.7/24");
}

static void check__one_address_twice(void **state)
{
    (void)state;
    subnets[1 * BR_WIRING_NICS].address = subnets[0].address;
    assert_int_equal(br_subnet_check(&wiring, subnets), -ENETUNREACH);
    assert_says(br_error_message(), "rank 1: eth0 has 10.0.0.1/24");
}

static void of__loopback(void **state)
{
    (void)state;
    assert_int_equal(br_subnet_of("lo", "lo").address, IP(127, 0, 0, 1));
    assert_int_equal(br_subnet_of("lo", "lo").mask, IP(255, 0, 0, 0));
    assert_int_equal(br_subnet_of("127.0.0.1", "lo").address, IP(127, 0, 0, 1));
    assert_int_equal(br_subnet_of("10.77.0.1", "lo").address, 0);
    assert_int_equal(br_subnet_of("nosuch0", "nosuch0").address, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(check__right, build, destroy),
        cmocka_unit_test_setup_teardown(check__another_subnet, build, destroy),
        cmocka_unit_test_setup_teardown(check__one_address_twice, build, destroy),
        cmocka_unit_test(of__loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
