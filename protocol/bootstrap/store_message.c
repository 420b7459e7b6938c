/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store_message.h"

#include "base/error.h"
#include "protocol/bootstrap/secret.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

static bool store_message_printable(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

static int store_message_malformed(const char *what)
{
    return br_error(EPROTO, "malformed store message: %s", what);
}

static int parse_hello(const uint8_t *body, size_t bytes, struct br_store_message *out)
{
    const struct br_store_hello *hello = &out->hello;
    size_t host_bytes;

    if (bytes != sizeof *hello)
        return store_message_malformed("HELLO of a wrong length");
    memcpy(&out->hello, body, sizeof *hello);
    host_bytes = strnlen(hello->host, sizeof hello->host);
    if (hello->reserved || host_bytes == sizeof hello->host ||
        !store_message_printable(hello->host, host_bytes))
        return store_message_malformed("HELLO with bad fields");
    return 0;
}

static int parse_request(const uint8_t *body, size_t bytes, struct br_store_message *out)
{
    const struct br_store_request *request = &out->request;

    if (bytes < sizeof *request)
        return store_message_malformed("request too short");
    memcpy(&out->request, body, sizeof *request);
    if (request->reserved || request->timeout_ms > BR_STORE_TIMEOUT_MAX)
        return store_message_malformed("request with bad fields");
    if (request->key_bytes < 1 || request->key_bytes > BR_STORE_KEY_MAX ||
        request->value_bytes > BR_STORE_VALUE_MAX)
        return store_message_malformed("key or value too long");
    if (bytes != sizeof *request + request->key_bytes + request->value_bytes)
        return store_message_malformed("request of a wrong length");
    if (out->kind == BR_STORE_GET && request->value_bytes)
        return store_message_malformed("GET with a value");
    out->key = (const char *)body + sizeof *request;
    if (!store_message_printable(out->key, request->key_bytes))
        return store_message_malformed("key that is not printable");
    out->value = body + sizeof *request + request->key_bytes;
    out->value_bytes = request->value_bytes;
    return 0;
}

static int parse_error(const uint8_t *body, size_t bytes, struct br_store_message *out)
{
    if (bytes < sizeof out->error || bytes > sizeof out->error + BR_STORE_TEXT_MAX)
        return store_message_malformed("ERROR of a wrong length");
    memcpy(&out->error, body, sizeof out->error);
    if (out->error.err < 1 || out->error.err > 4095)
        return store_message_malformed("ERROR without an errno");
    out->value = body + sizeof out->error;
    out->value_bytes = bytes - sizeof out->error;
    return 0;
}

/* Bodies that are one fixed struct of nothing but bytes. */
static int parse_fixed(const uint8_t *body, size_t bytes, void *into, size_t expected)
{
    if (bytes != expected)
        return store_message_malformed("wrong length");
    if (expected)
        memcpy(into, body, expected);
    return 0;
}

static int parse_body(const uint8_t *body, size_t bytes, struct br_store_message *out)
{
    switch (out->kind) {
    case BR_STORE_HELLO:
        return parse_hello(body, bytes, out);
    case BR_STORE_CHALLENGE:
        return parse_fixed(body, bytes, &out->challenge, sizeof out->challenge);
    case BR_STORE_PROOF:
    case BR_STORE_WELCOME:
        return parse_fixed(body, bytes, &out->proof, sizeof out->proof);
    case BR_STORE_PUT:
    case BR_STORE_GET:
    case BR_STORE_GATHER:
        return parse_request(body, bytes, out);
    case BR_STORE_VALUE:
        out->value = body;
        out->value_bytes = bytes;
        return 0;
    case BR_STORE_ERROR:
        return parse_error(body, bytes, out);
    case BR_STORE_BYE:
        return parse_fixed(body, bytes, NULL, 0);
    }
    return store_message_malformed("unknown kind");
}

int br_store_parse(const void *bytes, size_t n, size_t body_max, struct br_store_message *out)
{
    struct br_store_header header;

    memset(out, 0, sizeof *out);
    out->bytes = sizeof header;
    if (n < sizeof header)
        return 1;
    memcpy(&header, bytes, sizeof header);
    if (header.magic != BR_STORE_MAGIC)
        return store_message_malformed("no braid at the other end, another program's port?");
    if (header.version != BR_STORE_VERSION)
        return br_error(
            EPROTONOSUPPORT,
            "speaks version %u of the store protocol, we speak %u: install the same braid "
            "on all hosts",
            header.version, BR_STORE_VERSION);
    if (header.reserved)
        return store_message_malformed("reserved bits");
    if (header.bytes > body_max)
        return store_message_malformed("body too long");
    out->kind = (enum br_store_kind)header.kind;
    out->bytes = sizeof header + header.bytes;
    if (n < out->bytes)
        return 1;
    return parse_body((const uint8_t *)bytes + sizeof header, header.bytes, out);
}

static size_t write_header(uint8_t *out, enum br_store_kind kind, size_t body_bytes)
{
    struct br_store_header header = {
        .magic = BR_STORE_MAGIC,
        .version = BR_STORE_VERSION,
        .kind = (uint16_t)kind,
        .bytes = (uint32_t)body_bytes,
    };

    memcpy(out, &header, sizeof header);
    return sizeof header;
}

size_t br_store_write(void *out, enum br_store_kind kind, const void *body, size_t body_bytes)
{
    size_t at = write_header(out, kind, body_bytes);

    if (body_bytes)
        memcpy((uint8_t *)out + at, body, body_bytes);
    return at + body_bytes;
}

size_t br_store_write_request(void *out, enum br_store_kind kind, uint32_t timeout_ms,
                              const char *key, const void *value, size_t value_bytes)
{
    struct br_store_request request = {
        .timeout_ms = timeout_ms,
        .key_bytes = (uint32_t)strlen(key),
        .value_bytes = (uint32_t)value_bytes,
    };
    uint8_t *at = out;

    at += write_header(at, kind, sizeof request + request.key_bytes + value_bytes);
    memcpy(at, &request, sizeof request);
    memcpy(at + sizeof request, key, request.key_bytes);
    at += sizeof request + request.key_bytes;
    if (value_bytes)
        memcpy(at, value, value_bytes);
    return (size_t)(at - (uint8_t *)out) + value_bytes;
}

size_t br_store_write_error(void *out, int err, const char *text)
{
    struct br_store_error error = {.err = (uint32_t)err};
    size_t bytes = strnlen(text, BR_STORE_TEXT_MAX),
           at = write_header(out, BR_STORE_ERROR, sizeof error + bytes);

    memcpy((uint8_t *)out + at, &error, sizeof error);
    memcpy((uint8_t *)out + at + sizeof error, text, bytes);
    return at + sizeof error + bytes;
}

void br_store_prove(const struct br_secret *secret, bool from_store,
                    const struct br_store_hello *hello, const struct br_store_challenge *challenge,
                    struct br_store_proof *out)
{
    static const char labels[2][17] = {"braid store rank", "braid store host"};
    crypto_generichash_state state;
    uint8_t key[BR_SECRET_KEY_BYTES];

    br_secret_subkey(secret, BR_SECRET_STORE, key);
    crypto_generichash_init(&state, key, sizeof key, sizeof out->proof);
    crypto_generichash_update(&state, (const unsigned char *)labels[from_store], 16);
    crypto_generichash_update(&state, (const unsigned char *)hello, sizeof *hello);
    crypto_generichash_update(&state, (const unsigned char *)challenge, sizeof *challenge);
    crypto_generichash_final(&state, out->proof, sizeof out->proof);
    sodium_memzero(&state, sizeof state);
    sodium_memzero(key, sizeof key);
}

bool br_store_proof_equal(const struct br_store_proof *a, const struct br_store_proof *b)
{
    return sodium_memcmp(a->proof, b->proof, sizeof a->proof) == 0;
}

void br_store_copy_text(char *out, size_t size, const void *text, size_t bytes)
{
    size_t n = bytes < size ? bytes : size - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = store_message_printable((const char *)text + i, 1) ? ((const char *)text)[i] : '?';
    out[n] = 0;
}
