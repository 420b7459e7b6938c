/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "transport/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static void list__loopback_is_local_and_usable(void **state)
{
    struct br_interface all[BR_INTERFACES];
    int n = br_interface_list(all, BR_INTERFACES), found = 0;
    char why[128];

    (void)state;
    assert_true(n >= 1);
    for (int i = 0; i < n; i++)
        if (!strcmp(all[i].name, "lo")) {
            br_interface_why_not(&all[i], why, sizeof why);
            assert_string_equal(why, "");
            assert_true(all[i].loopback && all[i].local);
            found++;
        }
    assert_int_equal(found, 1);
}

static void list__no_more_than_there_is_room_for(void **state)
{
    struct br_interface one;

    (void)state;
    assert_int_equal(br_interface_list(&one, 1), 1);
}

static void find__by_name_and_by_address(void **state)
{
    struct br_interface found;

    (void)state;
    assert_int_equal(br_interface_find("lo", &found), 0);
    assert_int_equal(ntohl(found.address.v4.sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(br_interface_find("127.3.2.1", &found), 0);
    assert_string_equal(found.name, "lo");
    assert_int_equal(ntohl(found.address.v4.sin_addr.s_addr), 0x7f030201);
    assert_int_equal(found.address.v4.sin_port, 0);
}

static void find__says_what_there_is(void **state)
{
    struct br_interface found;

    (void)state;
    assert_int_equal(br_interface_find("no-such-if", &found), -ENODEV);
    assert_says(br_error_message(), "no-such-if");
    assert_non_null(strstr(br_error_message(), " lo"));
    assert_int_equal(br_interface_find("203.0.113.7", &found), -EADDRNOTAVAIL);
    assert_int_equal(br_interface_find("2001:db8::77", &found), -EADDRNOTAVAIL);
    assert_says(br_error_message(), "2001:db8::77");
}

static void why_not__names_the_command_that_helps(void **state)
{
    struct br_interface interface = {.name = "eth7"};
    char why[128];

    (void)state;
    br_interface_why_not(&interface, why, sizeof why);
    assert_non_null(strstr(why, "ip link set eth7 up"));
    interface.up = true;
    br_interface_why_not(&interface, why, sizeof why);
    assert_non_null(strstr(why, "ip addr add ADDRESS/24 dev eth7"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(list__loopback_is_local_and_usable),
        cmocka_unit_test(list__no_more_than_there_is_room_for),
        cmocka_unit_test(find__by_name_and_by_address),
        cmocka_unit_test(find__says_what_there_is),
        cmocka_unit_test(why_not__names_the_command_that_helps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
