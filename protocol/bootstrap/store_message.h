/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading and writing the store's messages (protocol/message_store.h). Pure: no I/O, no memory of
 * its own, so that it can be fuzzed and checked against test vectors. Thread-safe.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_MESSAGE_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message_store.h"

struct br_secret;

/* A message that br_store_parse() found. The pointers point into the bytes it was given. */
struct br_store_message {
    enum br_store_kind kind;
    size_t bytes; /* of the whole message, header included */
    union {
        struct br_store_hello hello;
        struct br_store_challenge challenge;
        struct br_store_proof proof; /* PROOF, WELCOME */
        struct br_store_request request;
        struct br_store_error error;
    };
    const char *key;   /* PUT, GET, GATHER: request.key_bytes bytes, printable */
    const void *value; /* PUT, GATHER: the value; VALUE: the body; ERROR: its text */
    size_t value_bytes;
};

/* The message at the start of n bytes. 0: *out is filled; 1: not yet whole, out->bytes says how
 * many bytes will be needed at least; -EPROTO: malformed, or a body over body_max;
 * -EPROTONOSUPPORT: another version. Errors come with a message. */
int br_store_parse(const void *bytes, size_t n, size_t body_max, struct br_store_message *out);

/* Writers: the bytes of the message at `out`, which has room for them; they return how many. */
size_t br_store_write(void *out, enum br_store_kind kind, const void *body, size_t body_bytes);
size_t br_store_write_request(void *out, enum br_store_kind kind, uint32_t timeout_ms,
                              const char *key, const void *value, size_t value_bytes);
size_t br_store_write_error(void *out, int err, const char *text);

/* What a rank (or, with from_store, the store) sends to prove that it knows the secret:
 * BLAKE2b-256 keyed with it, over a label of 16 bytes that tells the roles apart, the hello and
 * the challenge. */
void br_store_prove(const struct br_secret *secret, bool from_store,
                    const struct br_store_hello *hello, const struct br_store_challenge *challenge,
                    struct br_store_proof *out);
/* In constant time. */
bool br_store_proof_equal(const struct br_store_proof *a, const struct br_store_proof *b);

/* Copies text of an unauthenticated peer into a string of `size` bytes, with a '?' for whatever is
 * not printable ASCII. */
void br_store_copy_text(char *out, size_t size, const void *text, size_t bytes);

#endif
