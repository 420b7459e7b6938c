/* SPDX-License-Identifier: BSD-3-Clause */
/* The names and addresses of an emulated BCube. */
#include "tools/bcube/testbed.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int br_testbed_check_name(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");

    if (!isalpha((unsigned char)*name) || name[n] || n >= BR_TESTBED_NAME)
        return br_error(
            EINVAL, "'%s' is no name of a testbed: write up to %d letters, digits and '-', a letter first",
            name, BR_TESTBED_NAME - 1);
    return 0;
}

char *br_testbed_host_name(const struct br_testbed *testbed, uint32_t host, char out[BR_TESTBED_HOST])
{
    const struct br_bcube *cube = &testbed->cube;
    char *end = out;

    *end++ = 'h';
    for (uint32_t level = cube->k; level-- > 0;)
        end += sprintf(end, "%u%s", br_bcube_digit(cube, host, level), cube->n > 10 && level ? "-" : "");
    return out;
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

char *br_testbed_host_space(const struct br_testbed *testbed, uint32_t host, char out[BR_NAMESPACE_NAME])
{
    char name[BR_TESTBED_HOST];

    snprintf(out, BR_NAMESPACE_NAME, "%s-%s", testbed->name, br_testbed_host_name(testbed, host, name));
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
    if (testbed->loopback) {
        br_testbed_address(testbed, host, level, out);
        *strchr(out, '/') = 0;
    } else {
        snprintf(out, BR_TESTBED_ADDRESS, "eth%u", level);
    }
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

char *br_testbed_mac(uint32_t host, uint32_t level, char out[18])
{
    snprintf(out, 18, "02:bc:be:%02x:%02x:%02x", level & 0xff, host >> 8 & 0xff, host & 0xff);
    return out;
}

char *br_testbed_address(const struct br_testbed *testbed, uint32_t host, uint32_t level,
                         char out[BR_TESTBED_ADDRESS])
{
    uint32_t index = br_bcube_switch(&testbed->cube, host, level),
             port = br_bcube_port(&testbed->cube, host, level);

    snprintf(out, BR_TESTBED_ADDRESS, "%d.%u.%u.%u/24", testbed->loopback ? 127 : 10,
             (16 * level + index / 256) & 0xff, index & 0xff, (port + 1) & 0xff);
    return out;
}

char *br_testbed_management(const struct br_testbed *testbed, uint32_t host, char out[BR_TESTBED_ADDRESS])
{
    snprintf(out, BR_TESTBED_ADDRESS, "%d.255.%u.%u/16", testbed->loopback ? 127 : 10, host / 250 & 0xff,
             host % 250 + 1);
    return out;
}
