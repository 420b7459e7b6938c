/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"
#include "tools/testbed/switch_config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *configured(const char *yaml, const char *kind_name, int expected)
{
    struct br_inventory inventory;
    enum br_switch_kind kind;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    assert_int_equal(br_switch_kind_parse(kind_name, &kind), 0);
    assert_int_equal(br_inventory_parse(&inventory, yaml, strlen(yaml), "test.yaml"), 0);
    assert_int_equal(br_switch_config(&inventory, kind, out), expected);
    fclose(out);
    br_inventory_destroy(&inventory);
    return text;
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;

    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

static void switch_config__cisco(void **state)
{
    char *text = configured("shape: {n: 3, k: 2}\nmtu: 9000", "cisco", 0);

    (void)state;
    assert_int_equal(count(text, "hostname s"), 6);
    assert_int_equal(count(text, "\ninterface Ethernet1/"), 18);
    assert_int_equal(count(text, "mtu 9216\n"), 18);
    /* Switch <1,2> is the sixth: nobody else has its VLAN. */
    assert_int_equal(count(text, "\nvlan 105\n  name bcube-l1-s2\n"), 1);
    assert_int_equal(count(text, "access vlan 105\n"), 3);
    assert_int_equal(count(text, "interface Ethernet1/2\n  description h12 eth1\n"), 1);
    free(text);
}

static void switch_config__sonic(void **state)
{
    char *text = configured("shape: {n: 3, k: 2}\nhosts: [~, ~, ~, {missing: true}, ~, ~, ~, ~, ~]",
                            "sonic", 0);

    (void)state;
    assert_int_equal(count(text, "sudo config vlan member add -u 10"), 16);
    assert_int_equal(count(text, "sudo config vlan member add -u 100 Ethernet8\n"), 1);
    assert_int_equal(count(text, "h10 "), 0);
    free(text);
}

static void switch_config__linux_with_labels(void **state)
{
    char *text = configured("shape: {n: 2, k: 1}\nmtu: 4000\nswitches: [{level: 0, index: 0, name: "
                            "top, ports: [lan3, lan5]}]",
                            "linux", 0);

    (void)state;
    assert_int_equal(count(text, "hostname top\nip link add name l0s0 type bridge"), 1);
    assert_int_equal(
        count(
            text,
            "ip link set dev lan5 alias 'h1 eth0'\nip link set dev lan5 mtu 4000 master l0s0 up\n"),
        1);
    free(text);
}

static void switch_config__more_than_there_are_vlans(void **state)
{
    char *text = configured("shape: {n: 4, k: 7, hosts: 4}", "cisco", -EINVAL);

    (void)state;
    assert_non_null(strstr(br_error_message(), "VLANs"));
    free(text);
    free(configured("shape: {n: 4, k: 7, hosts: 4}", "linux", 0));
}

static void switch_kind_parse__unknown(void **state)
{
    enum br_switch_kind kind;

    (void)state;
    assert_int_equal(br_switch_kind_parse("hub", &kind), -EINVAL);
    assert_says(br_error_message(), "cisco|sonic|linux");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switch_config__cisco),
        cmocka_unit_test(switch_config__sonic),
        cmocka_unit_test(switch_config__linux_with_labels),
        cmocka_unit_test(switch_config__more_than_there_are_vlans),
        cmocka_unit_test(switch_kind_parse__unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
