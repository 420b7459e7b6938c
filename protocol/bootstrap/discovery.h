/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Beacons: who is on the wire of each NIC. For a short time every rank announces itself on each of
 * its NICs by link-local multicast and collects whom it hears where. What it means is said
 * elsewhere (bcube/wiring.h).
 *
 * 1. Multicast to all nodes of the link, IPv6 (ff02::1) and IPv4 (224.0.0.1). No switch filters
 *    these two groups and nobody has to join them. IPv6 needs no address but the one that every NIC
 *    gives itself; IPv4 serves where IPv6 is off, or still waits to know that its address is
 *    unique. Neither needs root. Linux drops IPv4 packets whose source it has no route to
 *    (rp_filter, also the loose kind), and a NIC on the wrong switch has such an address there. So
 *    IPv4 beacons leave once with each address of the host: the one of the management network is
 *    known everywhere. Rejected: Ethernet frames (root), and asking LLDP (needs switches that speak
 *    it, and its daemon on every host).
 * 2. A packet counts for the NIC that it came in through, whatever address it bears: swapped cables
 *    have the wrong subnet.
 * 3. Beacons of other jobs, old and forged ones are not heard: each carries a nonce of this start
 *    and a proof made with the job's secret. That keeps unauthenticated peers out of the picture;
 *    who can copy packets from one wire to another can still paint it wrong.
 *
 * One thread at a time.
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
    uint8_t key[32]; /* of the job's beacons: BR_SECRET_DISCOVERY */
    uint8_t nonce[BR_DISCOVERY_NONCE_BYTES];
    int n_nics;
    char nics[BR_DISCOVERY_NICS][IF_NAMESIZE]; /* "": a number without a NIC */
    /* Sightings that are kept of each NIC. When there are more, those of the lowest ranks stay, on
     * all ranks alike. */
    uint32_t max_neighbours;
};

struct br_discovery;

/* On success *out is the caller's until br_discovery_close(). -ENODEV (no such NIC), -ENOMEM, or
 * why there is no socket; with a message. */
int br_discovery_open(const struct br_discovery_config *config, struct br_discovery **out);
void br_discovery_close(struct br_discovery *discovery); /* NULL allowed */

/* Announces and listens for so long; blocks. May be called again: what was heard before stays. */
void br_discovery_listen(struct br_discovery *discovery, uint64_t ns);

bool br_discovery_nic_up(const struct br_discovery *discovery, int nic); /* up, and with carrier */
/* It is up, but the kernel takes beacons neither by IPv6 nor by IPv4: why, as text; NULL: it
 * does. */
const char *br_discovery_nic_deaf(const struct br_discovery *discovery, int nic);
/* Copies up to max; returns how many there are. In the order of NICs. */
uint32_t br_discovery_neighbours(const struct br_discovery *discovery,
                                 struct br_discovery_neighbour *out, uint32_t max);

/* Writes and checks one datagram; pure. */
void br_discovery_write(const struct br_discovery_config *config, int nic,
                        struct br_discovery_message *out);
/* -EPROTO: none of ours: too short, another version, job or start, no proof, or a rank that does
 * not exist. */
int br_discovery_read(const struct br_discovery_config *config, const void *bytes, size_t n,
                      struct br_discovery_message *out);

#endif
