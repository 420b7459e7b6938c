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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char full[] =
    "shape: {n: 3, k: 2, hosts: 2}\n"
    "reach: emulation\n"
    "rate: 500mbit\n"
    "mtu: 9000\n"
    "hosts:\n"
    "  - name: alpha\n"
    "    reach: root@10.9.9.9\n"
    "    management: 10.255.3.4\n"
    "    nics:\n"
    "      - {name: enp1s0, address: 10.0.0.77/24, mac: \"02:00:00:00:00:0A\", rate: 1gbit,\n"
    "         pci: 0000:3b:00.0, numa: 1, gid_index: 3}\n"
    "      - {name: enp2s0}\n"
    "  - name: beta\n"
    "    missing: true\n"
    "switches:\n"
    "  - {level: 1, index: 2, name: core}\n"
    "  - {level: 0, index: 0, name: rack1-sw3, ports: [swp1, swp2, swp9]}\n";

static int parse(struct br_inventory *inventory, const char *text)
{
    return br_inventory_parse(inventory, text, strlen(text), "test.yaml");
}

static void inventory_parse__everything(void **state)
{
    static const uint8_t mac[] = {2, 0, 0, 0, 0, 10};
    struct br_inventory inventory;
    char name[BR_HOST_NAME];

    (void)state;
    assert_int_equal(parse(&inventory, full), 0);
    assert_int_equal(inventory.cabling.cube.hosts, 9);
    assert_int_equal(inventory.cabling.hosts, 2);
    assert_int_equal(inventory.n_hosts, 2);
    assert_int_equal(inventory.access, BR_INVENTORY_EMULATION);
    assert_int_equal(inventory.rate, 500000000);
    assert_int_equal(inventory.mtu, 9000);
    const struct br_inventory_host *host = &inventory.hosts[0];
    assert_string_equal(host->name, "alpha");
    assert_string_equal(host->access, "root@10.9.9.9");
    assert_int_equal(host->management, 0x0aff0304);
    assert_int_equal(host->line, 6);
    assert_string_equal(host->nics[0].name, "enp1s0");
    assert_int_equal(host->nics[0].address, 0x0a00004d);
    assert_int_equal(host->nics[0].bits, 24);
    assert_memory_equal(host->nics[0].mac, mac, 6);
    assert_int_equal(host->nics[0].rate, 1000000000);
    assert_string_equal(host->nics[0].pci, "0000:3b:00.0");
    assert_int_equal(host->nics[0].numa, 1);
    assert_int_equal(host->nics[0].gid_index, 3);
    assert_int_equal(host->nics[0].line, 10);
    /* What the second NIC leaves out. */
    assert_string_equal(host->nics[1].name, "enp2s0");
    assert_int_equal(host->nics[1].address, 0x0a010001);
    assert_int_equal(host->nics[1].rate, 500000000);
    assert_int_equal(host->nics[1].numa, -1);
    assert_int_equal(host->nics[1].gid_index, -1);
    assert_string_equal(inventory.hosts[1].access, "beta");
    assert_true(inventory.hosts[1].missing);
    assert_int_equal(inventory.n_switches, 2);
    assert_string_equal(br_inventory_switch_name(&inventory, 0, 0, name), "rack1-sw3");
    assert_string_equal(br_inventory_port_name(&inventory, 0, 0, 2, name), "swp9");
    assert_string_equal(br_inventory_switch_name(&inventory, 1, 2, name), "core");
    assert_string_equal(br_inventory_port_name(&inventory, 1, 2, 2, name), "2");
    assert_string_equal(br_inventory_switch_name(&inventory, 1, 1, name), "s1-1");
    br_inventory_destroy(&inventory);
}

/* The shape alone is a whole inventory, the same as the default. */
static void inventory_parse__shape_alone(void **state)
{
    struct br_inventory inventory, other;
    struct br_cabling cabling;
    struct br_bcube cube;

    (void)state;
    assert_int_equal(parse(&inventory, "shape: {n: 3, k: 2}"), 0);
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_int_equal(br_cabling_init(&cabling, &cube, 0, NULL), 0);
    assert_int_equal(br_inventory_default(&other, &cabling), 0);
    assert_int_equal(inventory.n_hosts, 9);
    assert_memory_equal(&inventory.cabling, &other.cabling, sizeof cabling);
    assert_int_equal(inventory.mtu, 1500);
    for (uint32_t i = 0; i < 9; i++) {
        assert_string_equal(inventory.hosts[i].name, other.hosts[i].name);
        assert_memory_equal(inventory.hosts[i].nics, other.hosts[i].nics,
                            2 * sizeof *other.all_nics);
    }
    assert_string_equal(inventory.hosts[5].name, "h12");
    assert_string_equal(inventory.hosts[5].access, "h12");
    assert_int_equal(inventory.hosts[5].nics[1].address, 0x0a010202);
    br_inventory_destroy(&inventory);
    br_inventory_destroy(&other);
}

#define SHAPE "shape: {n: 3, k: 2}\n"
#define HOST  SHAPE "hosts:\n  - "

/* Each is refused with the line and words that say what to write; nothing is left allocated. */
static void inventory_parse__bad(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "test.yaml:1|inventory|empty"},
        {"# only a comment\n", "empty"},
        {"3,2", "test.yaml:1|inventory|keys|shape|network"},
        {"[1, 2]", "keys"},
        {"reach: ssh\n", "test.yaml:1|shape: {n: 3, k: 2}"},
        {"shape: 3,2\n", "test.yaml:1|shape|keys|n|k|hosts"},
        {"shape: {n: 3}\n", "test.yaml:1|shape|n|k"},
        {"shape: {n: three, k: 2}\n", "n|'three'|2"},
        {"shape: {n: 3, k: }\n", "test.yaml:1|shape|n|k"},
        {"shape: {n: 3, k: 0}\n", "k: '0'"},
        {"shape: {n: 300, k: 16}\n", "test.yaml:1|BCube(300,16)|hosts"},
        {"shape: {n: 3, k: 2, hosts: 10}\n", "test.yaml:1|10 hosts"},
        {"shape: {n: 3, k: 2, m: 1}\n", "shape|key|'m'|n|k|hosts"},
        {"shape: {n: 3, k: 2, n: 4}\n", "'n'|twice"},
        {SHAPE "shape: {n: 3, k: 2}\n", "test.yaml:2|'shape'|twice"},
        {SHAPE "speed: 5\n", "test.yaml:2|inventory|key|'speed'|shape|network|reach|rate"},
        {SHAPE "[a]: 5\n", "test.yaml:2|key|one value"},
        {SHAPE "network: 10.0.0.0/33\n", "test.yaml:2|'10.0.0.0/33'|network"},
        {SHAPE "network: 192.168.1.0/24\nreach: telnet\n", "test.yaml:3|reach|'telnet'|ssh"},
        {SHAPE "rate: fast\n", "test.yaml:2|rate|'fast'|500mbit"},
        {SHAPE "rate: [1]\n", "rate|one value"},
        {SHAPE "mtu: 100\n", "mtu|'100'|576"},
        {SHAPE "mtu: 99999999999999999999\n", "mtu:"},
        {SHAPE "hosts: h00\n", "hosts|list"},
        {SHAPE "hosts: []\n", "list|empty"},
        {SHAPE "hosts: [~,~,~,~,~,\n~,~,~,~,~]\n", "test.yaml:3|hosts|10|BCube(3,2)|9"},
        {HOST "h00\n", "test.yaml:3|host|keys|name|reach|management"},
        {HOST "{name: \"a b\"}\n", "name|host|'a b'|-_.:/@+%"},
        {HOST "{name: \"\"}\n", "name|1|63"},
        {HOST "{name: \"a$(b)\"}\n", "'a$(b)'|-_.:/@+%"},
        {HOST "{name: a, reach: -oProxyCommand=x}\n", "reach|'-'"},
        {HOST "{name: \"a\\0b\"}\n", "name|host|one value"},
        {HOST "{name: a, management: 10.0.0.1/24}\n",
         "management|'10.0.0.1/24'|address|10.255.0.1"},
        {HOST "{name: a, missing: maybe}\n", "missing|true|false"},
        {HOST "{name: a, nics: [~, ~, ~]}\n", "nics: 3 are listed, BCube(3,2) has at most 2"},
        {HOST "{name: a, nics: [eth0]}\n", "NIC|keys|name|address|mac|rate|pci|numa|gid_index"},
        {HOST "{nics: [{name: much-too-long-a-name}]}\n", "name|1|15"},
        {HOST "{nics: [{address: 10.0.0.1}]}\n", "address|'10.0.0.1'|prefix length"},
        {HOST "{nics: [{address: 10.0.0.1/32}]}\n", "address|'10.0.0.1/32'|prefix length"},
        {HOST "{nics: [{mac: \"02:00:00:00:00\"}]}\n", "mac|'02:00:00:00:00'|02:00"},
        {HOST "{nics: [{mac: \"02:00:00:00:00:0g\"}]}\n", "mac|'02:00:00:00:00:0g'"},
        {HOST "{nics: [{pci: 3b:00.0}]}\n", "pci|'3b:00.0'|lspci -D"},
        {HOST "{nics: [{numa: -2}]}\n", "numa: '-2'"},
        {HOST "{nics: [{gid_index: 256}]}\n", "gid_index: '256'"},
        {HOST "{nics: [{speed: 1}]}\n", "NIC|key|'speed'"},
        {SHAPE "switches: [{level: 0}]\n", "test.yaml:2|switch|level|index"},
        {SHAPE "switches: [{level: 2, index: 0}]\n", "level|'2'|0|1"},
        {SHAPE "switches: [{level: 1, index: 3}]\n", "index|'3'|0|2"},
        {SHAPE "switches: [{level: 1, index: 0, ports: [a, b, c, d]}]\n", "ports|4"},
        {SHAPE "switches: [{level: 1, index: 0, ports: [a, [b]]}]\n", "port|one value"},
        {SHAPE "\thosts: x\n", "YAML"},
        {SHAPE "hosts: [\n", "test.yaml:3|YAML"},
        {SHAPE "---\nshape: {n: 2, k: 2}\n", "one YAML document"},
        {SHAPE "hosts: *nobody\n", "YAML"},
        {"&a [*a, *a]", "keys"},
        {"shape: &a {n: *a, k: 2}", "n|one value"},
        {"\xff\xfe\x01", "YAML"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct br_inventory inventory;

        assert_int_equal(parse(&inventory, bad[i].text), -EINVAL);
        if (!says_all(br_error_message(), bad[i].message))
            fail_msg("%s\nsays: %s\nnot: %s", bad[i].text, br_error_message(), bad[i].message);
        assert_null(inventory.hosts);
        assert_null(inventory.file);
    }
}

static void inventory_parse__deep(void **state)
{
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 1);
    struct br_inventory inventory;

    (void)state;
    assert_non_null(text);
    memset(text, '[', DEPTH);
    text[DEPTH] = 0;
    assert_int_equal(parse(&inventory, text), -EINVAL);
    assert_says(br_error_message(), "test.yaml:1|lists");
    memset(text, '{', DEPTH);
    assert_int_equal(parse(&inventory, text), -EINVAL);
    for (size_t i = 0; i < DEPTH; i++)
        text[i] = "- "[i % 2];
    assert_int_equal(parse(&inventory, text), -EINVAL);
    assert_says(br_error_message(), "test.yaml:1|lists");
    free(text);
}

/* Is a document of `times` units and an end too deep? It is no inventory in any case. */
static bool is_too_deep(const char *unit, int times, const char *end)
{
    char text[8192] = "#\n";
    struct br_inventory inventory;

    for (int i = 0; i < times; i++)
        strcat(text, unit);
    strcat(text, end);
    assert_int_equal(parse(&inventory, text), -EINVAL);
    return strstr(br_error_message(), "lists within lists");
}

static void inventory_parse__limit_of_depth(void **state)
{
    (void)state;
    assert_false(is_too_deep("[", 32, "]"));
    assert_true(is_too_deep("[", 33, ""));
    assert_says(br_error_message(), "test.yaml:2|lists");
    assert_false(is_too_deep("- ", 32, "a"));
    assert_true(is_too_deep("- ", 33, "a"));
    assert_true(is_too_deep("{a: ", 33, ""));
}

/* What stands side by side, is quoted or is a comment is not deep. */
static void inventory_parse__only_what_is_nested_is_deep(void **state)
{
    (void)state;
    assert_false(is_too_deep("- [a, {b: c}]\n", 200, ""));
    assert_false(is_too_deep("# [[[[[[[[\n", 200, "a: b\n"));
    assert_false(is_too_deep("- \"[[[[[[[[\"\n", 200, ""));
    /* A closing bracket in a comment closes nothing. */
    assert_true(is_too_deep("[ #]\n", 33, ""));
    assert_false(is_too_deep("", 0, ""));
    assert_false(is_too_deep("@\t:", 3, ""));
}

static int write_text(const struct br_inventory *inventory, char **text, size_t *bytes)
{
    FILE *out = open_memstream(text, bytes);

    assert_non_null(out);
    int rc = br_inventory_write(inventory, out);
    fclose(out);
    return rc;
}

/* Written, read and written again is the same text. */
static void inventory_write__reads_back(void **state)
{
    static const char *const texts[] = {
        full,
        SHAPE,
        "shape: {n: 16, k: 3}\nnetwork: 172.16.0.0/12\nrate: 40gbit\n",
        HOST "{name: \"on\", reach: \"@a:b%c\", nics: [~, {name: \"1:2\", rate: 3mbit}]}\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct br_inventory first, second;
        char *one, *two;
        size_t one_bytes, two_bytes;

        assert_int_equal(parse(&first, texts[i]), 0);
        assert_int_equal(write_text(&first, &one, &one_bytes), 0);
        if (br_inventory_parse(&second, one, one_bytes, "again"))
            fail_msg("%s\n%s", br_error_message(), one);
        assert_int_equal(write_text(&second, &two, &two_bytes), 0);
        assert_string_equal(one, two);
        assert_int_equal(first.n_hosts, second.n_hosts);
        assert_memory_equal(&first.cabling, &second.cabling, sizeof first.cabling);
        for (uint32_t h = 0; h < first.n_hosts; h++) {
            assert_string_equal(first.hosts[h].name, second.hosts[h].name);
            assert_string_equal(first.hosts[h].access, second.hosts[h].access);
            assert_int_equal(first.hosts[h].missing, second.hosts[h].missing);
            for (uint32_t l = 0; l < first.cabling.cube.k; l++) {
                first.hosts[h].nics[l].line = second.hosts[h].nics[l].line = 0;
                assert_memory_equal(&first.hosts[h].nics[l], &second.hosts[h].nics[l],
                                    sizeof *first.all_nics);
            }
        }
        br_inventory_destroy(&first);
        br_inventory_destroy(&second);
        free(one);
        free(two);
    }
}

static void inventory_write__full_device(void **state)
{
    struct br_inventory inventory;
    FILE *out = fopen("/dev/full", "w");

    (void)state;
    assert_int_equal(parse(&inventory, full), 0);
    assert_non_null(out);
    assert_int_equal(br_inventory_write(&inventory, out), -EIO);
    assert_says(br_error_message(), "write");
    fclose(out);
    br_inventory_destroy(&inventory);
}

static void inventory_load__files(void **state)
{
    char path[] = "/tmp/braid-inventory-XXXXXX";
    struct br_inventory inventory;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, full, sizeof full - 1), sizeof full - 1);
    assert_int_equal(br_inventory_load(&inventory, path), 0);
    assert_string_equal(inventory.file, path);
    br_inventory_destroy(&inventory);
    assert_int_equal(ftruncate(fd, (off_t)BR_INVENTORY_BYTES + 1), 0);
    assert_int_equal(br_inventory_load(&inventory, path), -E2BIG);
    assert_says(br_error_message(), path);
    close(fd);
    unlink(path);
    assert_int_equal(br_inventory_load(&inventory, path), -ENOENT);
    assert_says(br_error_message(), "--inventory-out");
    assert_int_equal(br_inventory_load(&inventory, "/tmp"), -EISDIR);
    br_inventory_destroy(&inventory);
}

static void inventory_host__by_name_number_digits(void **state)
{
    struct br_inventory inventory;
    uint32_t host = 77;

    (void)state;
    assert_int_equal(parse(&inventory, SHAPE), 0);
    assert_int_equal(br_inventory_host(&inventory, "h21", &host), 0);
    assert_int_equal(host, 7);
    assert_int_equal(br_inventory_host(&inventory, "3", &host), 0);
    assert_int_equal(host, 3);
    assert_int_equal(br_inventory_host(&inventory, "[1,2]", &host), 0);
    assert_int_equal(host, 5);
    assert_int_equal(br_inventory_host(&inventory, "9", &host), -ENOENT);
    assert_int_equal(br_inventory_host(&inventory, "h33", &host), -ENOENT);
    assert_says(br_error_message(), "h00");
    br_inventory_destroy(&inventory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inventory_parse__everything),
        cmocka_unit_test(inventory_parse__shape_alone),
        cmocka_unit_test(inventory_parse__bad),
        cmocka_unit_test(inventory_parse__deep),
        cmocka_unit_test(inventory_parse__limit_of_depth),
        cmocka_unit_test(inventory_parse__only_what_is_nested_is_deep),
        cmocka_unit_test(inventory_write__reads_back),
        cmocka_unit_test(inventory_write__full_device),
        cmocka_unit_test(inventory_load__files),
        cmocka_unit_test(inventory_host__by_name_number_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
