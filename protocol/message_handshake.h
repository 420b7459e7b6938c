/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire format of the handshake of a link: the payload of MESSAGE frames of type
 * BR_MESSAGE_HANDSHAKE. The state machine is protocol/handshake.h; doc/wire.md specifies it with
 * test vectors.
 *
 *   connector                    acceptor
 *   HELLO     ----------------->              who I am, whom I want, what I can do, my nonce
 *             <-----------------  CHALLENGE   who I am, what I can do, the version, my nonce
 *   PROOF     ----------------->              I know the job's secret and saw the same messages
 *             <-----------------  WELCOME     so do I; the link is ready
 *
 * Either side may send REFUSE instead of what is expected of it. The first 12 bytes of HELLO and
 * all of REFUSE stay the same in every version, so that two versions can say that they differ.
 */
#ifndef BR_PROTOCOL_MESSAGE_HANDSHAKE_H
#define BR_PROTOCOL_MESSAGE_HANDSHAKE_H

#include <assert.h>
#include <stdint.h>

#include "transport/frame.h" /* little-endian machines only */

#define BR_HANDSHAKE_MAGIC       0x53484252u /* "RBHS" in memory order */
#define BR_HANDSHAKE_NONCE_BYTES 32
#define BR_HANDSHAKE_PROOF_BYTES 32
#define BR_HANDSHAKE_BYTES_MAX   80 /* the longest message */

enum br_handshake_kind {
    BR_HANDSHAKE_HELLO = 1,
    BR_HANDSHAKE_CHALLENGE,
    BR_HANDSHAKE_PROOF,
    BR_HANDSHAKE_WELCOME,
    BR_HANDSHAKE_REFUSE,
};

/* Why a link is refused; the two numbers of REFUSE are the value of the refusing and of the refused
 * side. */
enum br_handshake_reason {
    BR_REFUSED_MALFORMED = 1,
    BR_REFUSED_VERSION, /* largest protocol versions */
    BR_REFUSED_SECRET,
    BR_REFUSED_SIZE,  /* ranks of the job */
    BR_REFUSED_RANK,  /* the rank that is, the rank that was wanted */
    BR_REFUSED_SELF,  /* both the same rank */
    BR_REFUSED_RAIL,  /* rails there are, rail that was wanted */
    BR_REFUSED_STALE, /* incarnation of the rail that is known, the one offered */
};

struct br_handshake_header {
    uint32_t magic;
    uint8_t kind; /* enum br_handshake_kind */
    uint8_t reserved[3];
};

/* What a side can do; the link uses the smaller of both. */
struct br_handshake_limits {
    uint32_t frame_bytes;   /* payload of a DATA frame, at least 1 */
    uint32_t message_bytes; /* payload of a MESSAGE frame, at least 1 */
    uint32_t eager_bytes;   /* up to this size a transfer goes without READY */
    uint32_t slice_bytes;   /* unit of scheduling, at least 1 */
};

struct br_handshake_hello {
    struct br_handshake_header header;
    uint16_t version_min, version_max; /* BR_PROTOCOL_VERSION */
    uint32_t rank, size;               /* of the connector */
    uint32_t peer;                     /* the rank that it wants */
    uint32_t rail;                     /* the index of the rail that this link becomes */
    uint32_t incarnation;              /* the number of this connection of the rail */
    struct br_handshake_limits limits;
    uint8_t nonce[BR_HANDSHAKE_NONCE_BYTES];
};

struct br_handshake_challenge {
    struct br_handshake_header header;
    uint16_t version; /* the one that the link will speak */
    uint16_t reserved;
    uint32_t rank, size; /* of the acceptor */
    struct br_handshake_limits limits;
    uint8_t nonce[BR_HANDSHAKE_NONCE_BYTES];
};

/* PROOF and WELCOME. */
struct br_handshake_proof {
    struct br_handshake_header header;
    uint8_t proof[BR_HANDSHAKE_PROOF_BYTES];
};

struct br_handshake_refuse {
    struct br_handshake_header header;
    uint32_t reason; /* enum br_handshake_reason */
    uint32_t ours, yours;
};

static_assert(sizeof(struct br_handshake_header) == 8, "wire format");
static_assert(sizeof(struct br_handshake_hello) == BR_HANDSHAKE_BYTES_MAX, "wire format");
static_assert(sizeof(struct br_handshake_challenge) == 68, "wire format");
static_assert(sizeof(struct br_handshake_proof) == 40, "wire format");
static_assert(sizeof(struct br_handshake_refuse) == 20, "wire format");

#endif
