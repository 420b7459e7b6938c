/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a BCube is wired and numbered: the switch and port of every NIC, and an IPv4 address for it
 * that nobody else has. There is one subnet for each switch; BCube(3,2) has 10.0.s.x/24 on level 0,
 * 10.1.s.x/24 on level 1, and 10.255.0.0/16 for management. doc/design/bcube.md has the rules.
 *
 * Addresses are numbers in host byte order. Nothing here blocks or allocates; any thread may call
 * any function.
 */
#ifndef BR_BCUBE_CABLING_H
#define BR_BCUBE_CABLING_H

#include <stdbool.h>
#include <stdint.h>

#include "bcube/address.h"

/* Bytes of a NIC's name, the final zero included: the kernel's limit */
#define BR_NIC_NAME        16
#define BR_HOST_NAME       64
#define BR_ADDRESS_TEXT    20 /* of "255.255.255.255/32" */
#define BR_CABLING_NETWORK "10.0.0.0/8"

struct br_cabling {
    struct br_bcube cube;
    uint32_t hosts; /* 0..hosts-1 are there, the others are missing */
    uint32_t network, network_bits;
    uint32_t subnet_bits;     /* prefix length of every subnet */
    uint32_t level_addresses; /* from a level's first subnet to the next level's */
    uint32_t management, management_bits;
};

/* The cable of a NIC. */
struct br_cable {
    uint32_t host, level;
    uint32_t index, port; /* the switch is <level, index> */
    uint32_t subnet, address, bits;
    char nic[BR_NIC_NAME]; /* default name */
};

/* hosts: 1..cube->hosts; 0: all. network: "A.B.C.D/LEN" with LEN from 8 to 24; NULL:
 * BR_CABLING_NETWORK. -EINVAL with a message; -ENOSPC with a message when the cube does not fit
 * in. */
int br_cabling_init(struct br_cabling *cabling, const struct br_bcube *cube, int64_t hosts,
                    const char *network);

void br_cabling_cable(const struct br_cabling *cabling, uint32_t host, uint32_t level,
                      struct br_cable *cable);
uint32_t br_cabling_subnet(const struct br_cabling *cabling, uint32_t level, uint32_t index);
uint32_t br_cabling_management(const struct br_cabling *cabling, uint32_t host);

/* Is any host that is there on this switch? In a partial cube some have none, and need not be
 * bought. */
bool br_cabling_switch_used(const struct br_cabling *cabling, uint32_t level, uint32_t index);

/* Default names: of a host "h12" from the digits v(k-1)..v0, "h10-3" with n > 10; of a switch
 * "s1-2" from level and index. Out holds BR_HOST_NAME bytes and is returned. */
char *br_cabling_host_name(const struct br_bcube *cube, uint32_t host, char *out);
char *br_cabling_switch_name(uint32_t level, uint32_t index, char *out);

/* "10.0.0.1", with bits <= 32 also "10.0.0.1/24"; bits > 32: without. Out holds BR_ADDRESS_TEXT
 * bytes and is returned. */
char *br_address_text(uint32_t address, uint32_t bits, char *out);

/* The address, and the prefix length, 33 when there is none. -EINVAL without a message. */
int br_address_parse(const char *text, uint32_t *address, uint32_t *bits);

/* The mask of a prefix length from 0 to 32. */
uint32_t br_address_mask(uint32_t bits);

#endif
