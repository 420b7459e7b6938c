/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store_message.h"

#define BODY_MAX 4096

/* doc/wire.md shows these bytes. Computed apart, with Python's hashlib.blake2b. */
static const uint8_t hello_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x01, 0x00, 0x70, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f,
    0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x5b, 0x5c, 0x5d, 0x5e, 0x5f,
    0x03, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0xd2, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x6e, 0x6f, 0x64, 0x65, 0x37, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};
static const uint8_t challenge_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x02, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f,
    0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f,
};
static const uint8_t proof_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x03, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x90, 0x8e, 0x2c, 0xe8, 0xcb, 0x99, 0x29, 0xff, 0x62, 0xe4, 0xbd, 0xe4, 0x6c, 0x47, 0xa0, 0xf4,
    0x88, 0x55, 0xf0, 0x3d, 0x64, 0x56, 0x78, 0x11, 0x20, 0x69, 0x95, 0x99, 0x99, 0xeb, 0x59, 0x91,
};
static const uint8_t welcome_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x04, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x16, 0xc2, 0xff, 0xa0, 0x07, 0xfd, 0xfc, 0x37, 0x34, 0x78, 0x37, 0x48, 0x7e, 0x9a, 0xb5, 0x3c,
    0x03, 0xa1, 0x4a, 0x00, 0x3d, 0xef, 0x7e, 0x20, 0xb1, 0x9a, 0x1a, 0x9d, 0x08, 0xb9, 0x03, 0x20,
};
static const uint8_t put_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x05, 0x00, 0x21, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x61, 0x64,
    0x64, 0x72, 0x65, 0x73, 0x73, 0x2f, 0x33, 0x31, 0x30, 0x2e, 0x30, 0x2e, 0x30, 0x2e, 0x33,
};
static const uint8_t get_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x06, 0x00, 0x19, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x88, 0x13, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x61, 0x64, 0x64, 0x72, 0x65, 0x73, 0x73, 0x2f, 0x30,
};
static const uint8_t gather_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x07, 0x00, 0x15, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x60, 0xea, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x73, 0x74, 0x61, 0x72, 0x74,
};
static const uint8_t value_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x08, 0x00, 0x08, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x31, 0x30, 0x2e, 0x30, 0x2e, 0x30, 0x2e, 0x31,
};
static const uint8_t error_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x09, 0x00, 0x0b, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x6e, 0x00, 0x00, 0x00, 0x74, 0x6f, 0x6f, 0x20, 0x62, 0x61, 0x64,
};
static const uint8_t bye_vector[] = {
    0x52, 0x42, 0x53, 0x54, 0x01, 0x00, 0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
};

static const struct vector {
    enum br_store_kind kind;
    const uint8_t *bytes;
    size_t n;
} vectors[] = {
    {BR_STORE_HELLO, hello_vector, sizeof hello_vector},
    {BR_STORE_CHALLENGE, challenge_vector, sizeof challenge_vector},
    {BR_STORE_PROOF, proof_vector, sizeof proof_vector},
    {BR_STORE_WELCOME, welcome_vector, sizeof welcome_vector},
    {BR_STORE_PUT, put_vector, sizeof put_vector},
    {BR_STORE_GET, get_vector, sizeof get_vector},
    {BR_STORE_GATHER, gather_vector, sizeof gather_vector},
    {BR_STORE_VALUE, value_vector, sizeof value_vector},
    {BR_STORE_ERROR, error_vector, sizeof error_vector},
    {BR_STORE_BYE, bye_vector, sizeof bye_vector},
};
#define N_VECTORS (sizeof vectors / sizeof *vectors)

static struct br_store_hello hello_of_vectors(void)
{
    struct br_store_hello hello = {.rank = 3, .size = 4, .pid = 1234, .host = "node7"};

    for (int i = 0; i < 32; i++)
        hello.nonce[i] = (uint8_t)(0x40 + i);
    return hello;
}

static void store_write__vectors(void **state)
{
    struct br_store_hello hello = hello_of_vectors();
    struct br_store_challenge challenge;
    struct br_store_proof proof;
    struct br_secret secret;
    uint8_t out[512];

    (void)state;
    for (int i = 0; i < 32; i++) {
        secret.key[i] = (uint8_t)i;
        challenge.nonce[i] = (uint8_t)(0x80 + i);
    }
    assert_int_equal(br_store_write(out, BR_STORE_HELLO, &hello, sizeof hello), sizeof hello_vector);
    assert_memory_equal(out, hello_vector, sizeof hello_vector);
    assert_int_equal(br_store_write(out, BR_STORE_CHALLENGE, &challenge, sizeof challenge),
                     sizeof challenge_vector);
    assert_memory_equal(out, challenge_vector, sizeof challenge_vector);
    br_store_prove(&secret, false, &hello, &challenge, &proof);
    assert_int_equal(br_store_write(out, BR_STORE_PROOF, &proof, sizeof proof), sizeof proof_vector);
    assert_memory_equal(out, proof_vector, sizeof proof_vector);
    br_store_prove(&secret, true, &hello, &challenge, &proof);
    assert_int_equal(br_store_write(out, BR_STORE_WELCOME, &proof, sizeof proof), sizeof welcome_vector);
    assert_memory_equal(out, welcome_vector, sizeof welcome_vector);
    assert_int_equal(br_store_write_request(out, BR_STORE_PUT, 0, "address/3", "10.0.0.3", 8),
                     sizeof put_vector);
    assert_memory_equal(out, put_vector, sizeof put_vector);
    assert_int_equal(br_store_write_request(out, BR_STORE_GET, 5000, "address/0", NULL, 0),
                     sizeof get_vector);
    assert_memory_equal(out, get_vector, sizeof get_vector);
    assert_int_equal(br_store_write_request(out, BR_STORE_GATHER, 60000, "start", NULL, 0),
                     sizeof gather_vector);
    assert_memory_equal(out, gather_vector, sizeof gather_vector);
    assert_int_equal(br_store_write(out, BR_STORE_VALUE, "10.0.0.1", 8), sizeof value_vector);
    assert_memory_equal(out, value_vector, sizeof value_vector);
    assert_int_equal(br_store_write_error(out, ETIMEDOUT, "too bad"), sizeof error_vector);
    assert_memory_equal(out, error_vector, sizeof error_vector);
    assert_int_equal(br_store_write(out, BR_STORE_BYE, NULL, 0), sizeof bye_vector);
    assert_memory_equal(out, bye_vector, sizeof bye_vector);
}

static void store_parse__vectors(void **state)
{
    struct br_store_hello hello = hello_of_vectors();
    struct br_store_message message;

    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++) {
        assert_int_equal(br_store_parse(vectors[i].bytes, vectors[i].n, BODY_MAX, &message), 0);
        assert_int_equal(message.kind, vectors[i].kind);
        assert_int_equal(message.bytes, vectors[i].n);
        switch (message.kind) {
        case BR_STORE_HELLO:
            assert_memory_equal(&message.hello, &hello, sizeof hello);
            break;
        case BR_STORE_PUT:
            assert_int_equal(message.request.key_bytes, 9);
            assert_memory_equal(message.key, "address/3", 9);
            assert_int_equal(message.value_bytes, 8);
            assert_memory_equal(message.value, "10.0.0.3", 8);
            break;
        case BR_STORE_GET:
            assert_int_equal(message.request.timeout_ms, 5000);
            break;
        case BR_STORE_ERROR:
            assert_int_equal(message.error.err, ETIMEDOUT);
            assert_int_equal(message.value_bytes, 7);
            assert_memory_equal(message.value, "too bad", 7);
            break;
        default:
            break;
        }
    }
}

/* Every beginning of a message asks for more, and never for more than the message has. */
static void store_parse__every_beginning(void **state)
{
    struct br_store_message message;

    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++) {
        for (size_t n = 0; n < vectors[i].n; n++) {
            uint8_t *exact = malloc(n ? n : 1); /* so that ASan sees a byte too many */

            memcpy(exact, vectors[i].bytes, n);
            assert_int_equal(br_store_parse(exact, n, BODY_MAX, &message), 1);
            assert_true(message.bytes > n && message.bytes <= vectors[i].n);
            free(exact);
        }
    }
}

/* Changes one byte of a vector and expects it to be refused. */
static void refused(const uint8_t *vector, size_t n, size_t at, uint8_t value, int err)
{
    uint8_t bytes[512];
    struct br_store_message message;

    memcpy(bytes, vector, n);
    bytes[at] = value;
    if (br_store_parse(bytes, n, BODY_MAX, &message) != -err)
        fail_msg("byte %zu = %02x is not refused", at, value);
}

static void store_parse__bad_fields(void **state)
{
    (void)state;
    for (size_t at = 0; at < 4; at++)
        refused(bye_vector, sizeof bye_vector, at, 0, EPROTO);
    refused(bye_vector, sizeof bye_vector, 4, 2, EPROTONOSUPPORT);
    refused(bye_vector, sizeof bye_vector, 6, 0, EPROTO);
    refused(bye_vector, sizeof bye_vector, 6, 11, EPROTO);
    refused(bye_vector, sizeof bye_vector, 10, 1, EPROTO);           /* 65,536 bytes of body */
    refused(bye_vector, sizeof bye_vector, 15, 1, EPROTO);           /* reserved */
    refused(hello_vector, sizeof hello_vector, 60, 1, EPROTO);       /* reserved */
    refused(hello_vector, sizeof hello_vector, 65, '\n', EPROTO);    /* host not printable */
    refused(put_vector, sizeof put_vector, 20, 8, EPROTO);           /* key and value do not fill the body */
    refused(put_vector, sizeof put_vector, 20, 0, EPROTO);           /* no key */
    refused(put_vector, sizeof put_vector, 20, 200, EPROTO);         /* key too long */
    refused(put_vector, sizeof put_vector, 26, 2, EPROTO);           /* value too long */
    refused(put_vector, sizeof put_vector, 28, 1, EPROTO);           /* reserved */
    refused(put_vector, sizeof put_vector, 19, 0xff, EPROTO);        /* waits for weeks */
    refused(put_vector, sizeof put_vector, 33, 7, EPROTO);           /* key not printable */
    refused(put_vector, sizeof put_vector, 6, BR_STORE_GET, EPROTO); /* GET with a value */
    refused(error_vector, sizeof error_vector, 16, 0, EPROTO);
    refused(error_vector, sizeof error_vector, 19, 1, EPROTO);
}

/* A length that does not belong to the kind. */
static void store_parse__wrong_lengths(void **state)
{
    struct br_store_message message;
    uint8_t bytes[512] = {0};

    (void)state;
    for (size_t i = 0; i < N_VECTORS; i++) {
        if (vectors[i].kind == BR_STORE_VALUE || vectors[i].kind == BR_STORE_ERROR)
            continue; /* any length is right */
        for (int off = -1; off <= 1; off += 2) {
            uint32_t body = (uint32_t)(vectors[i].n - sizeof(struct br_store_header)) + (uint32_t)off;

            memcpy(bytes, vectors[i].bytes, vectors[i].n);
            memcpy(bytes + 8, &body, sizeof body);
            assert_int_equal(br_store_parse(bytes, sizeof bytes, BODY_MAX, &message), -EPROTO);
        }
    }
}

static void store_prove__everything_counts(void **state)
{
    struct br_store_hello hello = hello_of_vectors(), other = hello;
    struct br_store_challenge challenge = {{1}}, later = {{2}};
    struct br_secret secret = {{3}}, wrong = {{4}};
    struct br_store_proof right, proof;

    (void)state;
    other.rank++;
    br_store_prove(&secret, false, &hello, &challenge, &right);
    br_store_prove(&secret, false, &hello, &challenge, &proof);
    assert_true(br_store_proof_equal(&right, &proof));
    br_store_prove(&secret, true, &hello, &challenge, &proof);
    assert_false(br_store_proof_equal(&right, &proof));
    br_store_prove(&wrong, false, &hello, &challenge, &proof);
    assert_false(br_store_proof_equal(&right, &proof));
    br_store_prove(&secret, false, &other, &challenge, &proof);
    assert_false(br_store_proof_equal(&right, &proof));
    br_store_prove(&secret, false, &hello, &later, &proof);
    assert_false(br_store_proof_equal(&right, &proof));
}

static void store_copy_text__hides_what_is_not_printable(void **state)
{
    char out[8];

    (void)state;
    br_store_copy_text(out, sizeof out, "a\033[2J\xff", 6);
    assert_string_equal(out, "a?[2J?");
    br_store_copy_text(out, sizeof out, "longer than that", 16);
    assert_string_equal(out, "longer ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_write__vectors),
        cmocka_unit_test(store_parse__vectors),
        cmocka_unit_test(store_parse__every_beginning),
        cmocka_unit_test(store_parse__bad_fields),
        cmocka_unit_test(store_parse__wrong_lengths),
        cmocka_unit_test(store_prove__everything_counts),
        cmocka_unit_test(store_copy_text__hides_what_is_not_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
