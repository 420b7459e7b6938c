/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a link, as a state machine: bytes in, bytes out. It does no I/O and has no
 * clock, memory or random numbers of its own: the caller carries the messages and gives up when the
 * time is over. What the proofs protect and what not is said in doc/design/bootstrap.md, section 1.
 *
 * A handshake belongs to one caller at a time; no function blocks.
 */
#ifndef BR_PROTOCOL_HANDSHAKE_H
#define BR_PROTOCOL_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "protocol/message_handshake.h"

enum br_handshake_state {
    BR_HANDSHAKE_AWAIT_HELLO,     /* acceptor */
    BR_HANDSHAKE_AWAIT_CHALLENGE, /* connector: HELLO is out */
    BR_HANDSHAKE_AWAIT_PROOF,     /* acceptor: CHALLENGE is out */
    BR_HANDSHAKE_AWAIT_WELCOME,   /* connector: PROOF is out */
    BR_HANDSHAKE_READY,
    BR_HANDSHAKE_FAILED,
};

/* What we say of ourselves. */
struct br_handshake_self {
    uint32_t rank, size;
    uint32_t rails; /* an acceptor takes links of rails 0..rails-1 */
    struct br_handshake_limits limits;
    uint8_t key[32]; /* of the job's links: BR_SECRET_LINKS */
    /* never used before: random, in the simulator seeded */
    uint8_t nonce[BR_HANDSHAKE_NONCE_BYTES];
};

struct br_handshake {
    enum br_handshake_state state;
    bool connector;
    int error; /* in FAILED: the negative errno */
    struct br_handshake_self self;
    struct br_handshake_hello hello;         /* as on the wire */
    struct br_handshake_challenge challenge; /* as on the wire */

    /* Valid in READY; an acceptor knows them, unproved, from AWAIT_PROOF on. */
    uint32_t peer, rail, incarnation;
    uint32_t version;
    struct br_handshake_limits limits; /* the smaller of both sides */
};

/* Starts as the side that connects, to `rail` of rank `peer`. Writes HELLO to `reply`
 * (BR_HANDSHAKE_BYTES_MAX) and its length to *reply_bytes. */
void br_handshake_init_connector(struct br_handshake *hs, const struct br_handshake_self *self,
                                 uint32_t peer, uint32_t rail, uint32_t incarnation, void *reply,
                                 size_t *reply_bytes);

/* Starts as the side that accepts; waits for HELLO. */
void br_handshake_init_acceptor(struct br_handshake *hs, const struct br_handshake_self *self);

/*
 * Takes the peer's next message. Returns 0: go on, 1: the link is ready, or a negative errno with
 * a message: the link must be closed. In all three cases, when *reply_bytes is not 0, send that
 * many bytes of `reply` (BR_HANDSHAKE_BYTES_MAX). An acceptor is ready when it answers WELCOME; the
 * connector may still refuse that. -EPROTO (malformed, wrong rank, size or rail), -EPROTONOSUPPORT
 * (version), -EPERM (secret), -EEXIST (two processes with one rank), -ESTALE; every call after a
 * failure returns the same error.
 */
int br_handshake_receive(struct br_handshake *hs, const void *bytes, size_t n, void *reply,
                         size_t *reply_bytes);

/* For an acceptor that does not want the link although the handshake is right. Replaces the WELCOME
 * that br_handshake_receive() just wrote by a refusal; `known` is the incarnation that the rail
 * already has. Returns -ESTALE with a message. */
int br_handshake_refuse_stale(struct br_handshake *hs, uint32_t known, void *reply,
                              size_t *reply_bytes);

#endif
