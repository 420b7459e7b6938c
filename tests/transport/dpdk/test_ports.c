/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "transport/dpdk/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct br_dpdk_spec specs[BR_DPDK_PORTS];

static void spec_parse__keeps_what_is_not_ours_for_dpdk(void **state)
{
    struct br_dpdk_spec *spec = &specs[0];

    (void)state;
    assert_int_equal(
        br_dpdk_spec_parse("net_memif0,role=client,address=10.1.2.3/16,socket=/run/m,mtu=9000,"
                           "gateway=10.1.0.1,port=999,neighbour=10.1.0.9@02:00:00:00:00:09",
                           spec),
        0);
    assert_string_equal(spec->name, "net_memif0");
    assert_string_equal(spec->devargs, "net_memif0,role=client,socket=/run/m");
    assert_false(spec->pci);
    assert_int_equal(spec->ip, inet_addr("10.1.2.3"));
    assert_int_equal(spec->mask, inet_addr("255.255.0.0"));
    assert_int_equal(spec->gateway, inet_addr("10.1.0.1"));
    assert_int_equal(spec->mtu, 9000);
    assert_int_equal(spec->port, 999);
    assert_int_equal(spec->n_neighbours, 1);
    assert_int_equal(spec->neighbours[0].ip, inet_addr("10.1.0.9"));
    assert_int_equal(spec->neighbours[0].mac[5], 9);
}

static void spec_parse__takes_the_interface_beneath(void **state)
{
    struct br_dpdk_spec *spec = &specs[0];

    (void)state;
    assert_int_equal(br_dpdk_spec_parse("net_af_packet0,iface=lo", spec), 0);
    assert_string_equal(spec->interface, "lo");
    assert_true(spec->mtu >= 1500);
    assert_non_null(strstr(spec->devargs, "framesz="));
    assert_int_equal(br_dpdk_spec_parse("net_af_packet0,iface=lo,framesz=2048,mtu=1400", spec), 0);
    assert_string_equal(spec->devargs, "net_af_packet0,iface=lo,framesz=2048");
    assert_int_equal(spec->mtu, 1400);
}

static void spec_parse__keeps_a_mac_address_for_whom_has_none(void **state)
{
    struct br_dpdk_spec *spec = &specs[0];

    (void)state;
    assert_int_equal(
        br_dpdk_spec_parse("net_af_packet0,iface=lo,framesz=2048,mac=02:00:00:00:00:07", spec), 0);
    assert_int_equal(spec->mac[5], 7);
    assert_string_equal(spec->devargs, "net_af_packet0,iface=lo,framesz=2048");
    assert_false(br_dpdk_spec_is_tap(spec));
    assert_int_equal(br_dpdk_spec_parse("net_tap0,mac=02:00:00:00:00:08", spec), 0);
    assert_int_equal(spec->mac[5], 8);
    assert_string_equal(spec->devargs, "net_tap0");
    assert_true(br_dpdk_spec_is_tap(spec));
    assert_int_equal(br_dpdk_spec_parse("net_memif0,mac=02:00:00:00:00:07", spec), 0);
    assert_int_equal(spec->mac[5], 0);
    assert_string_equal(spec->devargs, "net_memif0,mac=02:00:00:00:00:07");
    assert_int_equal(br_dpdk_spec_parse("net_af_packet0,iface=lo,mac=01:00:00:00:00:07", spec),
                     -EINVAL);
}

static void spec_mac__is_the_ports_but_at_a_tap(void **state)
{
    static const struct {
        const char *port;
        uint8_t driver[6], expected[6];
    } cases[] = {
        {"net_memif0", {2, 0, 0, 0, 0, 9}, {2, 0, 0, 0, 0, 9}},
        {"net_memif0", {0}, {2, 0, 10, 0, 0, 1}},
        {"net_tap0", {2, 1, 1, 1, 1, 1}, {0, 1, 1, 1, 1, 1}},
        {"net_tap0,mac=fixed", {0, 'd', 't', 'a', 'p', '0'}, {2, 'd', 't', 'a', 'p', '0'}},
        {"net_tap0,remote=eth1", {2, 1, 1, 1, 1, 1}, {2, 1, 1, 1, 1, 1}},
        {"net_tap0,remote=eth1,mac=02:00:00:00:00:08", {2, 1, 1, 1, 1, 1}, {2, 0, 0, 0, 0, 8}},
    };
    char text[80];
    uint8_t mac[6];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, "%s,address=10.0.0.1/24", cases[i].port);
        assert_int_equal(br_dpdk_spec_parse(text, &specs[0]), 0);
        br_dpdk_spec_mac(&specs[0], cases[i].driver, mac);
        assert_memory_equal(mac, cases[i].expected, sizeof mac);
    }
    assert_string_equal(specs[0].devargs, "net_tap0,remote=eth1");
    assert_int_equal(br_dpdk_spec_parse("net_tap0,mac=fixed", &specs[0]), 0);
    assert_string_equal(specs[0].devargs, "net_tap0,mac=fixed");
}

static void spec_parse__says_what_is_wrong(void **state)
{
    static const char *const wrong[][2] = {
        {"eth0,address=10.0.0.1/24", "PCI address"},
        {"net_ring0,address=10.0.0.1", "10.0.0.1/24"},
        {"net_ring0,address=10.0.0.1/33", "10.0.0.1/24"},
        {"net_ring0,address=ten/8", "10.0.0.1/24"},
        {"net_ring0,mtu=900", "from 1108"},
        {"net_ring0,port=0", "from 1 to 65535"},
        {"net_ring0,gateway=x", "IPv4"},
        {"net_ring0,neighbour=10.0.0.2", "IP@MAC"},
        {"net_ring0,neighbour=10.0.0.2@ff:00:00:00:00:01", "IP@MAC"},
        {"net_ring0123456789012345678901234567890123456789012345", "too long"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(br_dpdk_spec_parse(wrong[i][0], &specs[0]), -EINVAL);
        if (!strstr(br_error_message(), wrong[i][1]))
            fail_msg("%s: %s", wrong[i][0], br_error_message());
    }
}

static void specs_read__lists_ports(void **state)
{
    (void)state;
    setenv("BRAID_DPDK_PORTS", " 0000:03:00.1,address=10.0.0.1/24 ; net_ring0,address=10.0.1.1/24;",
           1);
    assert_int_equal(br_dpdk_specs_read(specs), 2);
    assert_true(specs[0].pci);
    assert_string_equal(specs[0].devargs, "0000:03:00.1");
    assert_int_equal(br_dpdk_spec_find(specs, 2, NULL), 0);
    assert_int_equal(br_dpdk_spec_find(specs, 2, "net_ring0"), 1);
    assert_int_equal(br_dpdk_spec_find(specs, 2, "10.0.1.1"), 1);
    assert_int_equal(br_dpdk_spec_find(specs, 2, "10.0.1.2"), -ENODEV);
    assert_int_equal(br_dpdk_spec_find(specs, 0, NULL), -ENODEV);
    setenv("BRAID_DPDK_PORTS", "net_ring0,address=10.0.0.1/24;net_ring1,address=10.0.0.1/24", 1);
    assert_int_equal(br_dpdk_specs_read(specs), -EINVAL);
    unsetenv("BRAID_DPDK_PORTS");
    assert_int_equal(br_dpdk_specs_read(specs), 0);
}

static void spec_hop__goes_through_the_gateway(void **state)
{
    (void)state;
    assert_int_equal(br_dpdk_spec_parse("net_ring0,address=10.0.0.1/24", &specs[0]), 0);
    assert_int_equal(br_dpdk_spec_hop(&specs[0], inet_addr("10.0.0.77")), inet_addr("10.0.0.77"));
    assert_int_equal(br_dpdk_spec_hop(&specs[0], inet_addr("10.0.1.77")), 0);
    specs[0].gateway = inet_addr("10.0.0.254");
    assert_int_equal(br_dpdk_spec_hop(&specs[0], inet_addr("10.0.1.77")), inet_addr("10.0.0.254"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spec_parse__keeps_what_is_not_ours_for_dpdk),
        cmocka_unit_test(spec_parse__takes_the_interface_beneath),
        cmocka_unit_test(spec_parse__keeps_a_mac_address_for_whom_has_none),
        cmocka_unit_test(spec_mac__is_the_ports_but_at_a_tap),
        cmocka_unit_test(spec_parse__says_what_is_wrong),
        cmocka_unit_test(specs_read__lists_ports),
        cmocka_unit_test(spec_hop__goes_through_the_gateway),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
