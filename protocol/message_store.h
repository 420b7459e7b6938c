/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire format of the store through which ranks find each other (protocol/bootstrap/store.h). One
 * TCP stream a rank; every message is a header and a body. doc/wire.md specifies it with test
 * vectors.
 *
 *   rank                      store (rank 0)
 *   HELLO     ------------->                   who I am, my nonce
 *             <-------------  CHALLENGE        the store's nonce
 *   PROOF     ------------->                   I know the job's secret
 *             <-------------  WELCOME          so do I
 *   PUT/GET/GATHER -------->                   one at a time
 *             <-------------  VALUE or ERROR
 *   BYE       ------------->
 *
 * The header and the position of HELLO's fields stay the same in every version, so that two
 * versions can say that they differ. All numbers are little-endian, reserved fields are zero and
 * are refused otherwise.
 */
#ifndef BR_PROTOCOL_MESSAGE_STORE_H
#define BR_PROTOCOL_MESSAGE_STORE_H

#include <assert.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the wire formats are read in place");

#define BR_STORE_MAGIC   0x54534252u /* "RBST" in memory order */
#define BR_STORE_VERSION 2

#define BR_STORE_NONCE_BYTES 32
#define BR_STORE_PROOF_BYTES 32
#define BR_STORE_HOST_BYTES  64

#define BR_STORE_KEY_MAX    128         /* bytes of a key, at least 1; no final zero on the wire */
#define BR_STORE_VALUE_MAX  (64u << 10) /* bytes of one value or of one rank's part of a gather */
#define BR_STORE_GATHER_MAX (64u << 20) /* bytes of a whole gather */
/* Bytes of a body that a rank takes before the store's WELCOME. */
#define BR_STORE_UNPROVED_MAX 256
#define BR_STORE_TEXT_MAX     240          /* bytes of an error's message */
#define BR_STORE_TOTAL_MAX    (256u << 20) /* bytes of all values the store keeps */
#define BR_STORE_TIMEOUT_MAX  86400000u    /* ms, a day */

enum br_store_kind {
    BR_STORE_HELLO = 1,
    BR_STORE_CHALLENGE,
    BR_STORE_PROOF,
    BR_STORE_WELCOME,
    BR_STORE_PUT,
    BR_STORE_GET,
    BR_STORE_GATHER,
    BR_STORE_VALUE,
    BR_STORE_ERROR,
    BR_STORE_BYE,
};

struct br_store_header {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;  /* enum br_store_kind */
    uint32_t bytes; /* of the body that follows */
    uint32_t reserved;
};

struct br_store_hello {
    uint8_t nonce[BR_STORE_NONCE_BYTES];
    uint32_t rank, size;
    uint32_t pid;
    uint32_t reserved;
    char host[BR_STORE_HOST_BYTES]; /* zero-terminated, for error messages only */
};

struct br_store_challenge {
    uint8_t nonce[BR_STORE_NONCE_BYTES];
};

/* PROOF and WELCOME. */
struct br_store_proof {
    uint8_t proof[BR_STORE_PROOF_BYTES];
};

/* PUT, GET and GATHER: then key_bytes of key, then value_bytes of value. */
struct br_store_request {
    uint32_t timeout_ms; /* how long the store may wait before it answers with an ERROR */
    uint32_t key_bytes, value_bytes;
    uint32_t reserved;
};

/* ERROR: then the message, printable, without a final zero. */
struct br_store_error {
    uint32_t err; /* a positive errno, Linux numbering */
};

static_assert(sizeof(struct br_store_header) == 16, "wire format");
static_assert(sizeof(struct br_store_hello) == 112, "wire format");
static_assert(sizeof(struct br_store_challenge) == 32, "wire format");
static_assert(sizeof(struct br_store_proof) == 32, "wire format");
static_assert(sizeof(struct br_store_request) == 16, "wire format");
static_assert(sizeof(struct br_store_error) == 4, "wire format");

#endif
