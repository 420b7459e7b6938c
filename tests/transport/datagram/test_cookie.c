/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "transport/datagram/cookie.h"

#include <arpa/inet.h>

#define PEER 0x1234567812345678u

static struct br_dgram_cookies cookies;

static union br_inet_address at(const char *ip, uint16_t port)
{
    union br_inet_address address = {.v4 = {.sin_family = AF_INET, .sin_port = htons(port)}};

    assert_int_equal(inet_pton(AF_INET, ip, &address.v4.sin_addr), 1);
    return address;
}

static int set_up(void **state)
{
    (void)state;
    return br_dgram_cookie_init(&cookies);
}

static void cookie_good__for_two_periods(void **state)
{
    union br_inet_address from = at("10.0.0.1", 700);
    uint64_t now = 10 * BR_DGRAM_COOKIE_PERIOD,
             number = br_dgram_cookie_answer(&cookies, &from, PEER, now);

    (void)state;
    assert_true(br_dgram_cookie_good(&cookies, number, &from, PEER, now));
    assert_true(
        br_dgram_cookie_good(&cookies, number, &from, PEER, now + 2 * BR_DGRAM_COOKIE_PERIOD - 1));
    assert_false(
        br_dgram_cookie_good(&cookies, number, &from, PEER, now + 2 * BR_DGRAM_COOKIE_PERIOD));
    assert_false(br_dgram_cookie_good(&cookies, number, &from, PEER, now - 1));
}

static void cookie_good__for_who_asked_only(void **state)
{
    union br_inet_address from = at("10.0.0.1", 700), port = at("10.0.0.1", 701),
                          ip = at("10.0.0.2", 700);
    union br_inet_address v6 = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(700)}};
    uint64_t number = br_dgram_cookie_answer(&cookies, &from, PEER, BR_SEC);

    (void)state;
    assert_false(br_dgram_cookie_good(&cookies, number, &port, PEER, BR_SEC));
    assert_false(br_dgram_cookie_good(&cookies, number, &ip, PEER, BR_SEC));
    assert_false(br_dgram_cookie_good(&cookies, number, &v6, PEER, BR_SEC));
    assert_false(br_dgram_cookie_good(&cookies, number, &from, PEER + 1, BR_SEC));
    assert_false(br_dgram_cookie_good(&cookies, number + 1, &from, PEER, BR_SEC));
    number = br_dgram_cookie_answer(&cookies, &v6, PEER, BR_SEC);
    assert_true(br_dgram_cookie_good(&cookies, number, &v6, PEER, BR_SEC));
    v6.v6.sin6_addr.s6_addr[15]++;
    assert_false(br_dgram_cookie_good(&cookies, number, &v6, PEER, BR_SEC));
}

static void cookie_good__by_this_device_only(void **state)
{
    union br_inet_address from = at("10.0.0.1", 700);
    uint64_t number = br_dgram_cookie_answer(&cookies, &from, PEER, BR_SEC);
    struct br_dgram_cookies other;

    (void)state;
    assert_int_equal(br_dgram_cookie_init(&other), 0);
    assert_false(br_dgram_cookie_good(&other, number, &from, PEER, BR_SEC));
}

static void cookie_end__is_remembered(void **state)
{
    union br_inet_address from = at("10.0.0.1", 700);
    uint64_t number = br_dgram_cookie_answer(&cookies, &from, PEER, BR_SEC);

    (void)state;
    br_dgram_cookie_end(&cookies, number);
    for (uint64_t i = 1; i < BR_DGRAM_COOKIE_ENDED; i++)
        br_dgram_cookie_end(&cookies, br_dgram_cookie_new(&cookies));
    assert_false(br_dgram_cookie_good(&cookies, number, &from, PEER, BR_SEC));
}

static void cookie_new__never_the_same(void **state)
{
    uint64_t numbers[1000];

    (void)state;
    for (int i = 0; i < 1000; i++) {
        numbers[i] = br_dgram_cookie_new(&cookies);
        assert_true(numbers[i]);
        for (int k = 0; k < i; k++)
            assert_true(numbers[i] != numbers[k]);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(cookie_good__for_two_periods, set_up),
        cmocka_unit_test_setup(cookie_good__for_who_asked_only, set_up),
        cmocka_unit_test_setup(cookie_good__by_this_device_only, set_up),
        cmocka_unit_test_setup(cookie_end__is_remembered, set_up),
        cmocka_unit_test_setup(cookie_new__never_the_same, set_up),
    };

    return cmocka_run_group_tests_name("cookie", cases, NULL, NULL);
}
