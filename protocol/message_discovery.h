/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire format of neighbour discovery: one UDP datagram, to ff02::1 and 224.0.0.1, by which a rank
 * says on each NIC of a BCube which rank it is and by which number it calls that NIC
 * (protocol/bootstrap/discovery.h). Little-endian; doc/wire.md specifies it.
 *
 * The port is BR_DISCOVERY_PORT_FIRST plus the first two bytes of the nonce (a number of 16 bits)
 * modulo BR_DISCOVERY_PORTS. The proof is BLAKE2b-256, keyed with the job's key for discovery,
 * over all bytes before it.
 */
#ifndef BR_PROTOCOL_MESSAGE_DISCOVERY_H
#define BR_PROTOCOL_MESSAGE_DISCOVERY_H

#include <assert.h>
#include <stdint.h>

#include "transport/frame.h" /* little-endian machines only */

#define BR_DISCOVERY_MAGIC       0x43424252u /* "RBBC" in memory order */
#define BR_DISCOVERY_VERSION     2
#define BR_DISCOVERY_NONCE_BYTES 16
#define BR_DISCOVERY_PROOF_BYTES 32
#define BR_DISCOVERY_PORT_FIRST  20000
#define BR_DISCOVERY_PORTS       10000

struct br_discovery_message {
    uint32_t magic;
    uint16_t version;
    uint16_t nic; /* number of the sender's NIC that it leaves through */
    uint32_t rank;
    uint32_t reserved; /* 0 */
    /* of this start of this job: rank 0 makes it, the store spreads it */
    uint8_t nonce[BR_DISCOVERY_NONCE_BYTES];
    uint8_t proof[BR_DISCOVERY_PROOF_BYTES];
};

static_assert(sizeof(struct br_discovery_message) == 64, "wire format");

#endif
