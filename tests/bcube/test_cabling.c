/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "bcube/cabling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct br_cabling cabling_of(uint32_t n, uint32_t k, const char *network)
{
    struct br_cabling cabling;
    struct br_bcube cube;

    assert_int_equal(br_bcube_init(&cube, n, k), 0);
    assert_int_equal(br_cabling_init(&cabling, &cube, 0, network), 0);
    return cabling;
}

static const char *address(uint32_t number, uint32_t bits)
{
    static char text[BR_ADDRESS_TEXT];

    return br_address_text(number, bits, text);
}

/* BCube(3,2), the table of doc/bcube.md. */
static void cabling_cable__by_hand(void **state)
{
    struct br_cabling cabling = cabling_of(3, 2, NULL);
    struct br_cable cable;

    (void)state;
    br_cabling_cable(&cabling, 5, 0, &cable); /* [1,2] */
    assert_int_equal(cable.index, 1);
    assert_int_equal(cable.port, 2);
    assert_string_equal(address(cable.address, cable.bits), "10.0.1.3/24");
    assert_string_equal(address(cable.subnet, cable.bits), "10.0.1.0/24");
    assert_string_equal(cable.nic, "eth0");
    br_cabling_cable(&cabling, 5, 1, &cable);
    assert_int_equal(cable.index, 2);
    assert_int_equal(cable.port, 1);
    assert_string_equal(address(cable.address, cable.bits), "10.1.2.2/24");
    assert_string_equal(cable.nic, "eth1");
    assert_string_equal(address(br_cabling_management(&cabling, 5), cabling.management_bits),
                        "10.255.0.6/16");
}

struct span {
    uint32_t first, last;
};

static int by_first(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/* The subnets and the management network lie in the network and do not touch each other. */
static void check_layout(const struct br_cabling *c)
{
    uint32_t switches = br_bcube_power(&c->cube, c->cube.k - 1), count = 0;
    uint32_t end = c->network | ~br_address_mask(c->network_bits);
    struct span *spans = calloc((size_t)c->cube.k * switches + 1, sizeof *spans);

    assert_non_null(spans);
    spans[count++] =
        (struct span){c->management, c->management | ~br_address_mask(c->management_bits)};
    for (uint32_t level = 0; level < c->cube.k; level++) {
        for (uint32_t index = 0; index < switches; index++) {
            uint32_t subnet = br_cabling_subnet(c, level, index);

            assert_true((subnet & ~br_address_mask(c->subnet_bits)) == 0);
            spans[count++] = (struct span){subnet, subnet | ~br_address_mask(c->subnet_bits)};
        }
    }
    qsort(spans, count, sizeof *spans, by_first);
    assert_true(spans[0].first >= c->network);
    assert_true(spans[count - 1].last <= end);
    for (uint32_t i = 1; i < count; i++)
        assert_true(spans[i].first > spans[i - 1].last);
    free(spans);
}

/* Addresses of hosts are usable ones of their subnet and of the management network. */
static void check_hosts(const struct br_cabling *c)
{
    uint32_t step = c->cube.hosts > 512 ? c->cube.hosts / 509 : 1,
             mask = br_address_mask(c->subnet_bits);

    for (uint32_t host = 0; host < c->cube.hosts; host += step) {
        for (uint32_t level = 0; level < c->cube.k; level++) {
            struct br_cable cable;

            br_cabling_cable(c, host, level, &cable);
            assert_int_equal(cable.address & mask, br_cabling_subnet(c, level, cable.index));
            assert_true(cable.address > cable.subnet && cable.address < (cable.subnet | ~mask));
            assert_true(br_bcube_switch_host(&c->cube, level, cable.index, cable.port) == host);
        }
    }
    assert_true(br_cabling_management(c, 0) > c->management);
    /* The last usable address is for the machine that runs the tools. */
    assert_true(br_cabling_management(c, c->cube.hosts - 1) <
                (c->management | ~br_address_mask(c->management_bits)) - 1);
}

/* Every shape there is: for each k the smallest n, the largest, and those around powers of two. */
static void cabling_init__no_shape_collides(void **state)
{
    int shapes = 0;

    (void)state;
    for (uint32_t k = 1; k <= 16; k++) {
        for (uint32_t n = 2; n <= 65536; n += n < 300 || k > 1 ? 1 : 9973) {
            struct br_bcube cube;
            struct br_cabling cabling;

            if (br_bcube_init(&cube, n, k))
                break;
            if (cube.hosts * k > 200000 && n % 7 && n > 20)
                continue;
            assert_int_equal(br_cabling_init(&cabling, &cube, 0, NULL), 0);
            check_layout(&cabling);
            check_hosts(&cabling);
            shapes++;
        }
    }
    assert_true(shapes > 500);
    for (uint32_t n = 65530; n <= 65536; n++) {
        struct br_cabling cabling = cabling_of(n, 1, NULL);

        check_layout(&cabling);
        check_hosts(&cabling);
    }
}

static void cabling_init__other_networks(void **state)
{
    static const struct {
        uint32_t n, k;
        const char *network, *level1, *management;
    } good[] = {
        {3, 2, "172.16.0.0/12", "172.17.0.0/24", "172.31.0.0/16"},
        {3, 2, "192.168.0.0/16", "192.168.3.0/24", "192.168.192.0/18"},
        {3, 2, "192.168.7.0/24", "192.168.7.24/29", "192.168.7.192/26"},
        {3, 2, "127.0.0.0/8", "127.1.0.0/24", "127.255.0.0/16"},
        {4, 8, "10.0.0.0/8", "10.2.0.0/29", "10.254.0.0/15"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct br_cabling cabling = cabling_of(good[i].n, good[i].k, good[i].network);

        check_layout(&cabling);
        check_hosts(&cabling);
        assert_string_equal(address(br_cabling_subnet(&cabling, 1, 0), cabling.subnet_bits),
                            good[i].level1);
        assert_string_equal(address(cabling.management, cabling.management_bits),
                            good[i].management);
    }
}

static void cabling_init__bad(void **state)
{
    static const char *const networks[] = {
        "",           "10.0.0.0", "10.0.0.0/",    "10.0.0.0/7", "10.0.0.0/25", "10.0.0/8",
        "10.0.0.0/x", "ten/8",    "10.0.0.0/8/8", "10.0.0.1/8", "::/8",        "10.0.0.0/008"};
    struct br_cabling cabling;
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 16, 3), 0);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        assert_int_equal(br_cabling_init(&cabling, &cube, 0, networks[i]), -EINVAL);
        assert_non_null(strstr(br_error_message(), "/"));
    }
    assert_int_equal(br_cabling_init(&cabling, &cube, 0, "192.168.0.0/20"), -ENOSPC);
    assert_non_null(strstr(br_error_message(), "larger network"));
    assert_int_equal(br_cabling_init(&cabling, &cube, 4097, NULL), -EINVAL);
    assert_non_null(strstr(br_error_message(), "from 1 to 4096"));
    assert_int_equal(br_cabling_init(&cabling, &cube, -1, NULL), -EINVAL);
}

/* BCube(3,2) with 4 hosts: [1,0] needs switch <0,1>, nobody needs <0,2>. */
static void cabling_switch_used__partial(void **state)
{
    struct br_cabling cabling = cabling_of(3, 2, NULL);
    struct br_bcube cube = cabling.cube;

    (void)state;
    assert_int_equal(br_cabling_init(&cabling, &cube, 4, NULL), 0);
    assert_true(br_cabling_switch_used(&cabling, 0, 1));
    assert_false(br_cabling_switch_used(&cabling, 0, 2));
    assert_true(br_cabling_switch_used(&cabling, 1, 2));
    for (uint32_t hosts = 1; hosts <= 9; hosts++) {
        assert_int_equal(br_cabling_init(&cabling, &cube, hosts, NULL), 0);
        for (uint32_t level = 0; level < 2; level++) {
            for (uint32_t index = 0; index < 3; index++) {
                bool used = false;
                for (uint32_t host = 0; host < hosts; host++)
                    used |= br_bcube_switch(&cube, host, level) == index;
                assert_int_equal(br_cabling_switch_used(&cabling, level, index), used);
            }
        }
    }
}

static void cabling_names__by_hand(void **state)
{
    char name[BR_HOST_NAME];

    (void)state;
    assert_string_equal(br_cabling_host_name(&(struct br_bcube){3, 2, 9}, 5, name), "h12");
    assert_string_equal(br_cabling_host_name(&(struct br_bcube){16, 2, 256}, 163, name), "h10-3");
    assert_string_equal(br_cabling_host_name(&(struct br_bcube){16, 4, 65536}, 65535, name),
                        "h15-15-15-15");
    assert_string_equal(br_cabling_host_name(&(struct br_bcube){65536, 1, 65536}, 65535, name),
                        "h65535");
    assert_string_equal(br_cabling_switch_name(1, 2, name), "s1-2");
}

static void address_parse__good_and_bad(void **state)
{
    static const char *const bad[] = {"",           "1.2.3",      "1.2.3.4.5", "1.2.3.256",
                                      "1.2.3.4/33", "1.2.3.4/-1", "a",         "1.2.3.4/"};
    uint32_t number, bits;

    (void)state;
    assert_int_equal(br_address_parse("10.0.1.3/24", &number, &bits), 0);
    assert_int_equal(bits, 24);
    assert_string_equal(address(number, bits), "10.0.1.3/24");
    assert_int_equal(br_address_parse("255.255.255.255", &number, &bits), 0);
    assert_int_equal(bits, 33);
    assert_string_equal(address(number, bits), "255.255.255.255");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(br_address_parse(bad[i], &number, &bits), -EINVAL);
    assert_true(br_address_mask(0) == 0);
    assert_true(br_address_mask(24) == 0xffffff00);
    assert_true(br_address_mask(32) == 0xffffffff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cabling_cable__by_hand),
        cmocka_unit_test(cabling_init__no_shape_collides),
        cmocka_unit_test(cabling_init__other_networks),
        cmocka_unit_test(cabling_init__bad),
        cmocka_unit_test(cabling_switch_used__partial),
        cmocka_unit_test(cabling_names__by_hand),
        cmocka_unit_test(address_parse__good_and_bad),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
