/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/inventory.h"
#include "tests/says.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct found {
    char all[4096]; /* "LINE: words\n" of each */
    size_t used;
};

static void collect(void *user, uint32_t line, const char *text)
{
    struct found *found = user;

    found->used += (size_t)snprintf(found->all + found->used, sizeof found->all - found->used,
                                    "%u: %s\n", line, text);
    assert_true(found->used < sizeof found->all);
}

/* How many contradictions there are; one of them must name all of `nouns` (says.h). */
static int check(const char *text, const char *nouns)
{
    struct br_inventory inventory;
    struct found found = {"", 0};

    if (br_inventory_parse(&inventory, text, strlen(text), "test.yaml"))
        fail_msg("%s\n%s", text, br_error_message());
    int count = br_inventory_check(&inventory, collect, &found);
    bool said = !nouns;
    for (char *line = found.all, *end; (end = strchr(line, '\n')) && !said; line = end + 1) {
        *end = 0;
        said = says_all(line, nouns);
        *end = '\n';
    }
    if (!said)
        fail_msg("%s\nsays:\n%snot: %s", text, found.all, nouns);
    assert_int_equal(br_inventory_check(&inventory, NULL, NULL), count);
    assert_int_equal(br_inventory_sound(&inventory), count ? -EINVAL : 0);
    if (count)
        assert_says(br_error_message(), "test.yaml:");
    br_inventory_destroy(&inventory);
    return count;
}

static void inventory_check__sound(void **state)
{
    (void)state;
    assert_int_equal(check("shape: {n: 3, k: 2}", NULL), 0);
    assert_int_equal(check("shape: {n: 16, k: 3, hosts: 999}", NULL), 0);
    assert_int_equal(check("shape: {n: 2, k: 12}", NULL), 0);
    assert_int_equal(check("shape: {n: 3, k: 2}\nnetwork: 127.0.0.0/8\nreach: here\n", NULL), 0);
    /* Own addresses, as long as each switch has a subnet of its own. */
    assert_int_equal(check("shape: {n: 2, k: 1}\nhosts:\n"
                           "  - {nics: [{address: 192.168.7.20/28}]}\n"
                           "  - {nics: [{address: 192.168.7.21/28}]}\n",
                           NULL),
                     0);
}

#define TWO "shape: {n: 2, k: 1}\nhosts:\n"

static void inventory_check__each_contradiction(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"shape: {n: 2, k: 1}\nhosts: [{}]\n", "0|1|2"},
        {"shape: {n: 2, k: 1, hosts: 1}\nhosts: [{}, {}]\n", "2|1|shape"},
        {TWO "  - {name: a}\n  - {name: a, reach: b}\n", "4|name a|line 3"},
        {TWO "  - {name: a, reach: c}\n  - {name: b, reach: c}\n", "4: b|reach c|a|line 3"},
        {TWO "  - {management: 10.255.0.9}\n  - {management: 10.255.0.9}\n",
         "4: h1|address 10.255.0.9|h0"},
        {TWO "  - {management: 10.0.0.9}\n  - {}\n", "3: h0|management address|switch s0-0"},
        {TWO "  - {}\n  - {nics: []}\n", "4: h1|NIC|level 0|- {name: eth0, address: 10.0.0.2/24}"},
        {TWO "  - {}\n  - nics:\n    - {mac: \"03:00:00:00:00:01\"}\n", "5: h1 eth0|MAC|multicast"},
        {TWO "  - nics: [{mac: \"02:00:00:00:00:01\"}]\n  - nics:\n    - {mac: "
             "\"02:00:00:00:00:01\"}\n",
         "5: h1 eth0|MAC|h0 eth0|line 3"},
        {TWO "  - {}\n  - nics:\n    - {address: 10.0.0.1/24}\n",
         "5: h1 eth0|address 10.0.0.1|h0 eth0"},
        {TWO "  - {}\n  - nics:\n    - {address: 10.0.1.2/24}\n",
         "5: h1 eth0|10.0.1.2/24|10.0.0.0/24|switch s0-0|10.0.0.2/24"},
        {TWO "  - {}\n  - nics:\n    - {address: 10.0.0.2/25}\n", "10.0.0.2/25|10.0.0.0/24"},
        {TWO "  - {}\n  - nics:\n    - {address: 10.0.0.255/24}\n",
         "5: h1 eth0|10.0.0.255/24|broadcast"},
        {TWO "  - {}\n  - nics:\n    - {address: 10.0.0.0/24}\n", "10.0.0.0/24|network"},
        /* The majority is right, also against the plan. */
        {"shape: {n: 3, k: 1}\nhosts:\n  - {nics: [{address: 10.9.0.1/24}]}\n  - {nics: [{address: "
         "10.9.0.2/24}]}\n"
         "  - {}\n",
         "5: h2 eth0|10.0.0.3/24|10.9.0.0/24|switch s0-0|10.9.0.3/24"},
        {"shape: {n: 2, k: 2}\nhosts:\n  - {nics: [{name: a}, {name: a}]}\n  - {}\n  - {}\n  - "
         "{}\n",
         "3: h00|level 0|1|a"},
        {"shape: {n: 2, k: 1}\nswitches:\n  - {level: 0, index: 0, ports: [1]}\n",
         "3: switch <0,0> lists 1 ports, but 2"},
        {"shape: {n: 2, k: 1}\nswitches:\n  - {level: 0, index: 0, ports: [1, 1]}\n",
         "lists port 1 twice"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(check(bad[i].text, bad[i].message), 1);
    assert_int_equal(
        check(
            "shape: {n: 2, k: 2}\nswitches:\n  - {level: 0, index: 0}\n  - {level: 0, index: 0}\n",
            "4|switch|level 0|index 0|line 3"),
        1);
}

/* Two switches with one subnet: both levels of every host of a 2-host line. */
static void inventory_check__overlap(void **state)
{
    (void)state;
    assert_int_equal(check("shape: {n: 2, k: 2}\nhosts:\n"
                           "  - {nics: [{}, {address: 10.0.0.11/24}]}\n"
                           "  - {}\n"
                           "  - {nics: [{}, {address: 10.0.0.12/24}]}\n"
                           "  - {}\n",
                           "s1-0|s0-0|line 3|overlap") >= 1,
                     1);
}

/* Nothing is expected of a host that is not there. */
static void inventory_check__what_is_not_there(void **state)
{
    (void)state;
    assert_int_equal(check(TWO "  - {}\n  - {missing: true, nics: []}\n", NULL), 0);
    assert_int_equal(check(TWO "  - {}\n  - {nics: [~]}\n", NULL),
                     0); /* nor of a NIC that is said not to be */
}

static void inventory_sound__counts_the_others(void **state)
{
    static const char text[] = TWO "  - {nics: []}\n  - {nics: []}\n";
    struct br_inventory inventory;

    (void)state;
    assert_int_equal(br_inventory_parse(&inventory, text, sizeof text - 1, "x.yaml"), 0);
    assert_int_equal(br_inventory_sound(&inventory), -EINVAL);
    assert_says(br_error_message(), "x.yaml:3|h0|NIC");
    assert_says(br_error_message(), "1 more");
    br_inventory_destroy(&inventory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inventory_check__sound),
        cmocka_unit_test(inventory_check__each_contradiction),
        cmocka_unit_test(inventory_check__overlap),
        cmocka_unit_test(inventory_check__what_is_not_there),
        cmocka_unit_test(inventory_sound__counts_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
