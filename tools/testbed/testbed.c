/* SPDX-License-Identifier: BSD-3-Clause */
/* The names, addresses and inventory of an emulated BCube. */
#include "tools/testbed/testbed.h"

#include "base/error.h"
#include "base/file.h"
#include "protocol/bootstrap/inventory.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK "127.0.0.0/8"
#define NO_BITS  33

int br_testbed_check_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

    if (!isalpha((unsigned char)*name) || name[n] || n >= BR_TESTBED_NAME)
        return br_error(
            EINVAL,
            "'%s' is no name of a testbed: write up to %d letters, digits and '-', a letter first",
            name, BR_TESTBED_NAME - 1);
    return 0;
}

int br_testbed_lay(struct br_testbed *testbed)
{
    return br_cabling_init(&testbed->cabling, &testbed->cube, testbed->hosts,
                           testbed->loopback ? LOOPBACK : NULL);
}

char *br_testbed_host_name(const struct br_testbed *testbed, uint32_t host,
                           char out[BR_TESTBED_HOST])
{
    return br_cabling_host_name(&testbed->cube, host, out);
}

int br_testbed_parse_host(const struct br_testbed *testbed, const char *text, uint32_t *host)
{
    char name[BR_TESTBED_HOST];

    for (uint32_t i = 0; i < testbed->hosts; i++) {
        if (!strcmp(br_testbed_host_name(testbed, i, name), text)) {
            *host = i;
            return 0;
        }
    }
    if ((*text == '[' || isdigit((unsigned char)*text)) &&
        br_bcube_parse_host(&testbed->cube, text, host) == 0 && *host < testbed->hosts)
        return 0;
    return br_error(ENOENT, "testbed %s has no host '%s': it has 0 (%s) to %u", testbed->name, text,
                    br_testbed_host_name(testbed, 0, name), testbed->hosts - 1);
}

char *br_testbed_host_space(const struct br_testbed *testbed, uint32_t host,
                            char out[BR_NAMESPACE_NAME])
{
    char name[BR_TESTBED_HOST];

    snprintf(out, BR_NAMESPACE_NAME, "%s-%s", testbed->name,
             br_testbed_host_name(testbed, host, name));
    return out;
}

char *br_testbed_switch_space(const struct br_testbed *testbed, char out[BR_NAMESPACE_NAME])
{
    snprintf(out, BR_NAMESPACE_NAME, "%s-switches", testbed->name);
    return out;
}

char *br_testbed_nic(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                     char out[BR_TESTBED_ADDRESS])
{
    struct br_cable cable;

    br_cabling_cable(&testbed->cabling, host, level, &cable);
    if (testbed->loopback)
        br_address_text(cable.address, NO_BITS, out);
    else
        snprintf(out, BR_TESTBED_ADDRESS, "%s", cable.nic);
    return out;
}

char *br_testbed_port(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                      char out[BR_TESTBED_LINK])
{
    snprintf(out, BR_TESTBED_LINK, "l%us%up%u", level, br_bcube_switch(&testbed->cube, host, level),
             br_bcube_port(&testbed->cube, host, level));
    return out;
}

char *br_testbed_bridge(uint32_t level, uint32_t index, char out[BR_TESTBED_LINK])
{
    snprintf(out, BR_TESTBED_LINK, "l%us%u", level, index);
    return out;
}

static void testbed_mac_bytes(uint32_t host, uint32_t level, uint8_t out[6])
{
    const uint8_t mac[6] = {0x02, 0xbc, 0xbe, (uint8_t)level, (uint8_t)(host >> 8), (uint8_t)host};

    memcpy(out, mac, sizeof mac);
}

char *br_testbed_mac(uint32_t host, uint32_t level, char out[BR_TESTBED_MAC])
{
    uint8_t mac[6];

    testbed_mac_bytes(host, level, mac);
    snprintf(out, BR_TESTBED_MAC, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3],
             mac[4], mac[5]);
    return out;
}

char *br_testbed_address(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                         char out[BR_TESTBED_ADDRESS])
{
    struct br_cable cable;

    br_cabling_cable(&testbed->cabling, host, level, &cable);
    return br_address_text(cable.address, cable.bits, out);
}

char *br_testbed_management(const struct br_testbed *testbed, uint32_t host,
                            char out[BR_TESTBED_ADDRESS])
{
    return br_address_text(br_cabling_management(&testbed->cabling, host),
                           testbed->cabling.management_bits, out);
}

char *br_testbed_management_ip(const struct br_testbed *testbed, uint32_t host,
                               char out[BR_TESTBED_ADDRESS])
{
    return br_address_text(br_cabling_management(&testbed->cabling, host), NO_BITS, out);
}

uint32_t br_testbed_neighbours(const struct br_testbed *testbed)
{
    const struct br_bcube *cube = &testbed->cube;
    uint32_t count = 2 * (testbed->hosts - 1);

    for (uint32_t host = 0; host < testbed->hosts; host++)
        for (uint32_t level = 0; level < cube->k; level++)
            for (uint32_t i = 0; i < cube->n - 1; i++)
                count += br_bcube_neighbour(cube, host, level, i) < testbed->hosts;
    return count;
}

/* ---- inventory ------------------------------------------------------------------------------- */

static void testbed_fill_host(struct br_inventory *inventory, const struct br_testbed *testbed,
                              uint32_t number)
{
    struct br_inventory_host *host = &inventory->hosts[number];
    char space[BR_NAMESPACE_NAME], name[BR_TESTBED_ADDRESS];

    if (!testbed->loopback)
        snprintf(host->access, sizeof host->access, "%s",
                 br_testbed_host_space(testbed, number, space));
    for (uint32_t level = 0; level < testbed->cube.k; level++) {
        struct br_inventory_nic *nic = &host->nics[level];

        nic->rate = testbed->rate;
        snprintf(nic->name, sizeof nic->name, "%.15s",
                 br_testbed_nic(testbed, number, level, name));
        if (!testbed->loopback)
            testbed_mac_bytes(number, level, nic->mac);
    }
}

int br_testbed_write_inventory(const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32];
    struct br_inventory inventory;
    int rc = br_inventory_default(&inventory, &testbed->cabling);
    struct br_file out;

    if (rc < 0)
        return rc;
    inventory.access = testbed->loopback ? BR_INVENTORY_HERE : BR_INVENTORY_EMULATION;
    inventory.mtu = testbed->mtu;
    inventory.rate = testbed->rate;
    for (uint32_t host = 0; host < testbed->hosts; host++)
        testbed_fill_host(&inventory, testbed, host);
    rc = br_file_open(&out, NULL, br_testbed_path(testbed, BR_TESTBED_INVENTORY, path), false);
    if (!rc) {
        fprintf(out.stream,
                "# The emulated testbed %s, by `braid bcube emulate`; removed with it.\n",
                testbed->name);
        rc = br_file_close(&out, NULL, br_inventory_write(&inventory, out.stream));
    }
    br_inventory_destroy(&inventory);
    return rc;
}
