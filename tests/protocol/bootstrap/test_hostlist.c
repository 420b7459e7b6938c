/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/hostlist.h"
#include "tests/says.h"

static void hostlist_first__names(void **state)
{
    static const char *const lists[][2] = {
        {"node1", "node1"},
        {"node1,node2", "node1"},
        {"node[01-03,7],other", "node01"},
        {"other,node[01-03]", "other"},
        {"rack[0-1]n[2-5]-ib", "rack0n2-ib"},
        {"[10-12]", "10"},
        {"a.example.org", "a.example.org"},
        {"n[7]", "n7"},
    };
    char first[64];

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_int_equal(br_hostlist_first(lists[i][0], first, sizeof first), 0);
        assert_string_equal(first, lists[i][1]);
    }
}

static void hostlist_first__no_lists(void **state)
{
    static const char *const lists[] = {"",     ",a",    "n[",   "n[]", "n[1",  "n[1-]",
                                        "n[a]", "n[1,]", "n[-]", "n 1", "n]",   "n[1-2-3]",
                                        "n;rm", "n[1 ]", "$x",   "n\n", "n[,1]"};
    char first[64], small[5];

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(br_hostlist_first(lists[i], first, sizeof first), -EINVAL);
    assert_int_equal(br_hostlist_first("node1", small, sizeof small), -EINVAL);
    assert_int_equal(br_hostlist_first("nod[1-2]", small, sizeof small), 0);
    assert_int_equal(br_hostlist_first("nod[01-2]", small, sizeof small), -EINVAL);
    assert_says(br_error_message(), "nod[01-2]");
}

static void hostlist_count_at__nodes(void **state)
{
    static const uint32_t expected[] = {2, 2, 2, 1, 16};
    uint32_t count;

    (void)state;
    for (uint32_t node = 0; node < 5; node++) {
        assert_int_equal(br_hostlist_count_at("2(x3),1,16", node, &count), 0);
        assert_int_equal(count, expected[node]);
    }
    assert_int_equal(br_hostlist_count_at("2(x3),1,16", 5, &count), -EINVAL);
    assert_says(br_error_message(), "5");
    assert_int_equal(br_hostlist_count_at("4(x4294967295),1", UINT32_MAX, &count), 0);
    assert_int_equal(count, 1);
}

static void hostlist_count_at__no_lists(void **state)
{
    static const char *const lists[] = {
        "",   "x",  "2(x0)", "2(x3",        "2(3)",           "2(x)",
        "2,", "-1", "2 ,1",  "99999999999", "2(x99999999999)"};
    uint32_t count;

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_int_equal(br_hostlist_count_at(lists[i], 1, &count), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostlist_first__names),
        cmocka_unit_test(hostlist_first__no_lists),
        cmocka_unit_test(hostlist_count_at__nodes),
        cmocka_unit_test(hostlist_count_at__no_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
