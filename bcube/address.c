/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcube/address.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_bcube_init(struct br_bcube *cube, int64_t n, int64_t k)
{
    uint64_t hosts = 1;
    if (n < 2)
        return br_error(
            EINVAL, "BCube(%" PRId64 ",%" PRId64 "): n, the ports of a switch, must be at least 2",
            n, k);
    if (k < 1)
        return br_error(EINVAL,
                        "BCube(%" PRId64 ",%" PRId64 "): k, the NICs of a host, must be at least 1",
                        n, k);
    for (int64_t i = 0; i < k && hosts <= BR_BCUBE_HOSTS_MAX; i++)
        hosts *= (uint64_t)(n <= BR_BCUBE_HOSTS_MAX ? n : BR_BCUBE_HOSTS_MAX + 1);
    if (hosts > BR_BCUBE_HOSTS_MAX)
        return br_error(EINVAL,
                        "BCube(%" PRId64 ",%" PRId64
                        "): n^k hosts are more than the %u that are possible",
                        n, k, BR_BCUBE_HOSTS_MAX);
    *cube = (struct br_bcube){.n = (uint32_t)n, .k = (uint32_t)k, .hosts = (uint32_t)hosts};
    return 0;
}

/* A whole number of at most 9 digits at *at, which moves behind it; -1: there is none. */
static int64_t bcube_address_number(const char **at)
{
    char digits[10];
    size_t length = strspn(*at, "0123456789");
    if (!length || length >= sizeof digits)
        return -1;
    memcpy(digits, *at, length);
    digits[length] = 0;
    *at += length;
    return strtoll(digits, NULL, 10);
}

int br_bcube_parse(struct br_bcube *cube, const char *text)
{
    const char *at = text ? text : "";
    int64_t n = bcube_address_number(&at);
    if (n < 0 || *at++ != ',')
        goto malformed;
    int64_t k = bcube_address_number(&at);
    if (k < 0 || *at)
        goto malformed;
    return br_bcube_init(cube, n, k);
malformed:
    return br_error(
        EINVAL,
        "'%.64s' is no shape of a BCube: write N,K, such as 3,2 for 9 hosts with 2 NICs each",
        text ? text : "");
}

uint32_t br_bcube_power(const struct br_bcube *cube, uint32_t level)
{
    uint32_t power = 1;
    for (uint32_t i = 0; i < level; i++)
        power *= cube->n;
    return power;
}

uint32_t br_bcube_digit(const struct br_bcube *cube, uint32_t host, uint32_t level)
{
    return host / br_bcube_power(cube, level) % cube->n;
}

uint32_t br_bcube_with_digit(const struct br_bcube *cube, uint32_t host, uint32_t level,
                             uint32_t digit)
{
    uint32_t power = br_bcube_power(cube, level);
    return host - host / power % cube->n * power + digit * power;
}

void br_bcube_digits(const struct br_bcube *cube, uint32_t host,
                     uint32_t digits[BR_BCUBE_LEVELS_MAX])
{
    for (uint32_t i = 0; i < cube->k; i++, host /= cube->n)
        digits[i] = host % cube->n;
}

uint32_t br_bcube_host(const struct br_bcube *cube, const uint32_t digits[])
{
    uint32_t host = 0;
    for (uint32_t i = cube->k; i--;)
        host = host * cube->n + digits[i];
    return host;
}

char *br_bcube_text(const struct br_bcube *cube, uint32_t host, char *out)
{
    uint32_t digits[BR_BCUBE_LEVELS_MAX] = {0};
    size_t used = 0;
    br_bcube_digits(cube, host, digits);
    for (uint32_t i = cube->k; i--;)
        used += (size_t)snprintf(out + used, BR_BCUBE_TEXT - used, "%c%u",
                                 i == cube->k - 1 ? '[' : ',', digits[i]);
    memcpy(out + used, "]", 2);
    return out;
}

int br_bcube_parse_host(const struct br_bcube *cube, const char *text, uint32_t *host)
{
    uint32_t digits[BR_BCUBE_LEVELS_MAX];
    const char *at = text ? text : "";
    char example[BR_BCUBE_TEXT];
    if (*at != '[') {
        int64_t value = bcube_address_number(&at);
        if (value < 0 || *at || value >= cube->hosts)
            goto malformed;
        *host = (uint32_t)value;
        return 0;
    }
    for (uint32_t i = cube->k; i--;) {
        at++;
        int64_t value = bcube_address_number(&at);
        if (value < 0 || value >= cube->n || *at != (i ? ',' : ']'))
            goto malformed;
        digits[i] = (uint32_t)value;
    }
    if (at[1])
        goto malformed;
    *host = br_bcube_host(cube, digits);
    return 0;
malformed:
    return br_error(
        EINVAL,
        "'%.64s' is no host of BCube(%u,%u): write a number from 0 to %u, or %u digits from 0 to "
        "%u such as %s",
        text ? text : "", cube->n, cube->k, cube->hosts - 1, cube->k, cube->n - 1,
        br_bcube_text(cube, cube->hosts - 1, example));
}

uint32_t br_bcube_distance(const struct br_bcube *cube, uint32_t a, uint32_t b)
{
    uint32_t distance = 0;
    for (; a != b; a /= cube->n, b /= cube->n)
        distance += a % cube->n != b % cube->n;
    return distance;
}

int br_bcube_level(const struct br_bcube *cube, uint32_t a, uint32_t b)
{
    if (a == b)
        return -1;
    for (int level = 0;; level++, a /= cube->n, b /= cube->n)
        if (a % cube->n != b % cube->n)
            return a / cube->n == b / cube->n ? level : -1;
}

uint32_t br_bcube_neighbour(const struct br_bcube *cube, uint32_t host, uint32_t level, uint32_t i)
{
    return br_bcube_with_digit(cube, host, level, i + (i >= br_bcube_digit(cube, host, level)));
}

uint32_t br_bcube_switch(const struct br_bcube *cube, uint32_t host, uint32_t level)
{
    uint32_t power = br_bcube_power(cube, level);
    return host / power / cube->n * power + host % power;
}

uint32_t br_bcube_port(const struct br_bcube *cube, uint32_t host, uint32_t level)
{
    return br_bcube_digit(cube, host, level);
}

uint32_t br_bcube_switch_host(const struct br_bcube *cube, uint32_t level, uint32_t index,
                              uint32_t port)
{
    uint32_t power = br_bcube_power(cube, level);
    return (index / power * cube->n + port) * power + index % power;
}
