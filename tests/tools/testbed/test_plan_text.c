/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "tools/testbed/plan_text.h"

#include <stdlib.h>
#include <string.h>

static struct br_inventory inventory_of(const char *text)
{
    struct br_inventory inventory;

    if (br_inventory_parse(&inventory, text, strlen(text), "test.yaml"))
        fail_msg("%s", br_error_message());
    return inventory;
}

static char *printed(const char *yaml,
                     void (*print)(const struct br_inventory *inventory, FILE *out))
{
    struct br_inventory inventory = inventory_of(yaml);
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    print(&inventory, out);
    fclose(out);
    br_inventory_destroy(&inventory);
    return text;
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("not there: %s\nin:\n%s", part, text);
}

static size_t lines(const char *text, const char *part)
{
    size_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

#define NAMED                                                                                      \
    "shape: {n: 3, k: 2}\nhosts: [{name: alpha, nics: [{name: x0}, {name: x1}]}, {missing: "       \
    "true}, {nics: "                                                                               \
    "[{}, ~]},"                                                                                    \
    " ~, ~, ~, ~, ~, ~]\nswitches: [{level: 0, index: 0, name: top, ports: [p7, p8, p9]}]\n"

static void plan_list__every_cable_once(void **state)
{
    char *text = printed("shape: {n: 3, k: 2}", br_plan_list);

    (void)state;
    has(text, "BCube(3,2): 9 hosts of 2 NICs, 6 switches of 3 ports, 18 cables");
    has(text, "0      s0-0 .. s0-2          10.0.0.0/24 .. 10.0.2.0/24\n");
    has(text, "h12        5  [1,2]   eth1      1  s1-2    1     10.1.2.2/24         10.255.0.6\n");
    assert_int_equal(lines(text, "  10.255.0."), 18);
    free(text);
}

static void plan_list__names_of_the_inventory(void **state)
{
    char *text = printed(NAMED, br_plan_list);

    (void)state;
    has(text, "BCube(3,2), partial: 8 hosts of 2 NICs, 6 switches of 3 ports, 15 cables");
    has(text, "alpha       0  [0,0]   x0        0  top     p7    10.0.0.1/24");
    assert_int_equal(lines(text, "\nh01 "), 0);
    assert_int_equal(lines(text, "\nh02 "), 1);
    free(text);
}

/* One line with a box a cable, and two for the end. */
static void plan_checklist__boxes(void **state)
{
    char *text = printed("shape: {n: 4, k: 2}", br_plan_checklist);

    (void)state;
    assert_int_equal(lines(text, "[ ] port"), 32);
    assert_int_equal(lines(text, "[ ]"), 34);
    assert_int_equal(lines(text, "\nSwitch "), 8);
    free(text);
    text = printed(NAMED, br_plan_checklist);
    has(text,
        "Switch top (level 0, 10.0.0.0/24)\n\n  [ ] port p7    to  alpha  x0    10.0.0.1/24\n  [ ] "
        "port p9    to  h02");
    free(text);
    text = printed("shape: {n: 3, k: 2, hosts: 4}", br_plan_checklist);
    assert_int_equal(lines(text, "\nSwitch "), 5);
    free(text);
}

static void plan_subnet__as_the_nics_have_it(void **state)
{
    struct br_inventory inventory = inventory_of(
        "shape: {n: 2, k: 1}\nhosts: [{nics: [~]}, {nics: [{address: 172.20.1.9/28}]}]");
    char text[BR_ADDRESS_TEXT];

    (void)state;
    assert_string_equal(br_plan_subnet(&inventory, 0, 0, text), "172.20.1.0/28");
    assert_false(br_plan_has_cable(&inventory, 0, 0));
    assert_true(br_plan_has_cable(&inventory, 1, 0));
    assert_false(br_plan_has_cable(&inventory, 2, 0));
    assert_true(br_plan_has_switch(&inventory, 0, 0));
    br_inventory_destroy(&inventory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_list__every_cable_once),
        cmocka_unit_test(plan_list__names_of_the_inventory),
        cmocka_unit_test(plan_checklist__boxes),
        cmocka_unit_test(plan_subnet__as_the_nics_have_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
