/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbour discovery: which ranks are on the wire of each NIC. For a short time every rank
 * announces itself on each of its NICs by link-local multicast and collects which ranks it hears on
 * which NIC. What the result means is decided elsewhere (bcube/wiring.h). How the datagrams travel
 * and why they can be believed is said in doc/design/bootstrap.md, section 3.
 *
 * A br_discovery is used by one thread at a time.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_DISCOVERY_H
#define BR_PROTOCOL_BOOTSTRAP_DISCOVERY_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message_discovery.h"

#define BR_DISCOVERY_NICS 16

struct br_discovery_neighbour {
    uint32_t rank;
    uint16_t other_nic; /* of that rank */
    uint16_t nic;       /* of ours, on which it was heard */
};

struct br_discovery_config {
    uint32_t rank, size;
    uint8_t key[32]; /* BR_SECRET_DISCOVERY */
    uint8_t nonce[BR_DISCOVERY_NONCE_BYTES];
    int n_nics;
    char nics[BR_DISCOVERY_NICS][IF_NAMESIZE]; /* "": a number without a NIC */
    /* Sightings that are kept of each NIC. When there are more, those of the lowest ranks stay, on
     * all ranks alike. */
    uint32_t max_neighbours;
};

struct br_discovery;

/* Opens the sockets. On success *out is the caller's until br_discovery_close(). -ENODEV (no such
 * NIC), -ENOMEM or the errno of the socket, with a message. */
int br_discovery_open(const struct br_discovery_config *config, struct br_discovery **out);
void br_discovery_close(struct br_discovery *discovery); /* NULL allowed */

/* Announces this rank and listens for so long; blocks. May be called again: what was heard before
 * stays. */
void br_discovery_listen(struct br_discovery *discovery, uint64_t ns);

bool br_discovery_nic_up(const struct br_discovery *discovery, int nic); /* up, and with carrier */
/* Of a NIC that is up: the reason, as text, why the kernel takes our datagrams neither by IPv6 nor
 * by IPv4; NULL: it takes them. */
const char *br_discovery_nic_deaf(const struct br_discovery *discovery, int nic);
/* Copies up to max neighbours, in the order of NICs; returns how many there are. */
uint32_t br_discovery_neighbours(const struct br_discovery *discovery,
                                 struct br_discovery_neighbour *out, uint32_t max);

/* Writes the datagram that leaves through a NIC. Pure. */
void br_discovery_write(const struct br_discovery_config *config, int nic,
                        struct br_discovery_message *out);
/* Checks a datagram and copies it to *out. Pure. 0, or -EPROTO without a message: it is too short,
 * of another version, job or start, has no proof, or names a rank that does not exist. */
int br_discovery_read(const struct br_discovery_config *config, const void *bytes, size_t n,
                      struct br_discovery_message *out);

#endif
