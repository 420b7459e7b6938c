/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcube/cabling.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static uint32_t power_of_two_from(uint64_t number)
{
    uint32_t power = 1;
    while (power < number)
        power *= 2;
    return power;
}

static uint32_t bits_of(uint32_t addresses) /* a power of two */
{
    return 32 - (uint32_t)__builtin_ctz(addresses);
}

uint32_t br_address_mask(uint32_t bits)
{
    return bits ? UINT32_MAX << (32 - bits) : 0;
}

char *br_address_text(uint32_t address, uint32_t bits, char *out)
{
    int used = snprintf(out, BR_ADDRESS_TEXT, "%u.%u.%u.%u", address >> 24, address >> 16 & 0xff,
                        address >> 8 & 0xff, address & 0xff);
    if (bits <= 32)
        snprintf(out + used, (size_t)(BR_ADDRESS_TEXT - used), "/%u", bits);
    return out;
}

int br_address_parse(const char *text, uint32_t *address, uint32_t *bits)
{
    char copy[INET_ADDRSTRLEN];
    struct in_addr in;
    size_t length = strcspn(text, "/");
    uint32_t prefix = 33;
    if (length >= sizeof copy)
        return -EINVAL;
    memcpy(copy, text, length);
    copy[length] = 0;
    if (inet_pton(AF_INET, copy, &in) != 1)
        return -EINVAL;
    if (text[length]) {
        const char *digits = text + length + 1;
        size_t count = strspn(digits, "0123456789");
        if (!count || count > 2 || digits[count])
            return -EINVAL;
        prefix = (uint32_t)atoi(digits);
        if (prefix > 32)
            return -EINVAL;
    }
    *address = ntohl(in.s_addr);
    *bits = prefix;
    return 0;
}

static int parse_network(struct br_cabling *cabling, const char *network)
{
    uint32_t address, bits;
    char right[BR_ADDRESS_TEXT];
    if (br_address_parse(network, &address, &bits) || bits < 8 || bits > 24)
        return br_error(EINVAL,
                        "'%.64s' is no network for a BCube: write it as 10.0.0.0/8, with a prefix "
                        "length from 8 to 24",
                        network);
    if (address & ~br_address_mask(bits))
        return br_error(EINVAL, "'%s' is an address within a network; the network is %s", network,
                        br_address_text(address & br_address_mask(bits), bits, right));
    cabling->network = address;
    cabling->network_bits = bits;
    return 0;
}

/* Chooses the management network, the size of a subnet and where levels begin. */
static int cabling_lay_out(struct br_cabling *cabling)
{
    const struct br_bcube *cube = &cabling->cube;
    uint32_t all = (uint32_t)(UINT64_C(1) << (32 - cabling->network_bits));
    /* network, broadcast, operator */
    uint32_t management = power_of_two_from((uint64_t)cube->hosts + 3);
    uint32_t usual = all / 4 < 65536 ? all / 4 : 65536,
             tight = power_of_two_from((uint64_t)cube->n + 2);
    uint32_t choices[][2] = {{256, 65536}, {256, 256}, {tight, 65536}, {tight, tight}};
    uint32_t switches = br_bcube_power(cube, cube->k - 1);
    char text[BR_ADDRESS_TEXT];
    if (management < usual)
        management = usual;
    cabling->management = cabling->network + (all - management);
    cabling->management_bits = bits_of(management);
    for (size_t i = 0; i < sizeof choices / sizeof *choices && management < all; i++) {
        uint64_t subnet = choices[i][0], unit = choices[i][1];
        uint64_t level = (switches * subnet + unit - 1) / unit * unit;
        if (subnet < tight || level * cube->k > all - management)
            continue;
        cabling->subnet_bits = bits_of((uint32_t)subnet);
        cabling->level_addresses = (uint32_t)level;
        return 0;
    }
    return br_error(ENOSPC, "BCube(%u,%u) does not fit into %s: give a larger network, such as %s",
                    cube->n, cube->k,
                    br_address_text(cabling->network, cabling->network_bits, text),
                    BR_CABLING_NETWORK);
}

int br_cabling_init(struct br_cabling *cabling, const struct br_bcube *cube, int64_t hosts,
                    const char *network)
{
    *cabling = (struct br_cabling){.cube = *cube, .hosts = hosts ? (uint32_t)hosts : cube->hosts};
    if (hosts < 0 || hosts > cube->hosts)
        return br_error(EINVAL, "%" PRId64 " hosts: BCube(%u,%u) has from 1 to %u of them", hosts,
                        cube->n, cube->k, cube->hosts);
    int rc = parse_network(cabling, network ? network : BR_CABLING_NETWORK);
    return rc ? rc : cabling_lay_out(cabling);
}

uint32_t br_cabling_subnet(const struct br_cabling *cabling, uint32_t level, uint32_t index)
{
    return cabling->network + level * cabling->level_addresses +
           index * (1u << (32 - cabling->subnet_bits));
}

void br_cabling_cable(const struct br_cabling *cabling, uint32_t host, uint32_t level,
                      struct br_cable *cable)
{
    const struct br_bcube *cube = &cabling->cube;
    *cable = (struct br_cable){
        .host = host,
        .level = level,
        .index = br_bcube_switch(cube, host, level),
        .port = br_bcube_port(cube, host, level),
        .bits = cabling->subnet_bits,
    };
    cable->subnet = br_cabling_subnet(cabling, level, cable->index);
    cable->address = cable->subnet + cable->port + 1;
    snprintf(cable->nic, sizeof cable->nic, "eth%u", level);
}

uint32_t br_cabling_management(const struct br_cabling *cabling, uint32_t host)
{
    return cabling->management + host + 1;
}

bool br_cabling_switch_used(const struct br_cabling *cabling, uint32_t level, uint32_t index)
{
    return br_bcube_switch_host(&cabling->cube, level, index, 0) < cabling->hosts;
}

char *br_cabling_host_name(const struct br_bcube *cube, uint32_t host, char *out)
{
    uint32_t digits[BR_BCUBE_LEVELS_MAX] = {0};
    size_t used = (size_t)snprintf(out, BR_HOST_NAME, "h");
    br_bcube_digits(cube, host, digits);
    for (uint32_t i = cube->k; i--;)
        used += (size_t)snprintf(out + used, BR_HOST_NAME - used, "%s%u",
                                 cube->n > 10 && i + 1 < cube->k ? "-" : "", digits[i]);
    return out;
}

char *br_cabling_switch_name(uint32_t level, uint32_t index, char *out)
{
    snprintf(out, BR_HOST_NAME, "s%u-%u", level, index);
    return out;
}
