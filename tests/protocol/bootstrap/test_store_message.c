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
#include "tests/protocol/vectors.h"

#define BODY_MAX 4096

/* The vectors of doc/wire.md, which were computed apart, with Python's hashlib.blake2b; by kind. */
static struct sample {
    const char *name;
    uint8_t bytes[512];
    size_t n;
} samples[] = {
    [BR_STORE_HELLO] = {.name = "store-hello"},
    [BR_STORE_CHALLENGE] = {.name = "store-challenge"},
    [BR_STORE_PROOF] = {.name = "store-proof"},
    [BR_STORE_WELCOME] = {.name = "store-welcome"},
    [BR_STORE_PUT] = {.name = "store-put"},
    [BR_STORE_GET] = {.name = "store-get"},
    [BR_STORE_GATHER] = {.name = "store-gather"},
    [BR_STORE_VALUE] = {.name = "store-value"},
    [BR_STORE_ERROR] = {.name = "store-error"},
    [BR_STORE_BYE] = {.name = "store-bye"},
};

static int load(void **state)
{
    (void)state;
    for (int kind = BR_STORE_HELLO; kind <= BR_STORE_BYE; kind++)
        samples[kind].n =
            vector(samples[kind].name, samples[kind].bytes, sizeof samples[kind].bytes);
    return 0;
}

static void check(enum br_store_kind kind, const uint8_t *bytes, size_t n)
{
    assert_int_equal(n, samples[kind].n);
    assert_memory_equal(bytes, samples[kind].bytes, n);
}

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
    check(BR_STORE_HELLO, out, br_store_write(out, BR_STORE_HELLO, &hello, sizeof hello));
    check(BR_STORE_CHALLENGE, out,
          br_store_write(out, BR_STORE_CHALLENGE, &challenge, sizeof challenge));
    br_store_prove(&secret, false, &hello, &challenge, &proof);
    check(BR_STORE_PROOF, out, br_store_write(out, BR_STORE_PROOF, &proof, sizeof proof));
    br_store_prove(&secret, true, &hello, &challenge, &proof);
    check(BR_STORE_WELCOME, out, br_store_write(out, BR_STORE_WELCOME, &proof, sizeof proof));
    check(BR_STORE_PUT, out,
          br_store_write_request(out, BR_STORE_PUT, 0, "address/3", "10.0.0.3", 8));
    check(BR_STORE_GET, out, br_store_write_request(out, BR_STORE_GET, 5000, "address/0", NULL, 0));
    check(BR_STORE_GATHER, out,
          br_store_write_request(out, BR_STORE_GATHER, 60000, "start", NULL, 0));
    check(BR_STORE_VALUE, out, br_store_write(out, BR_STORE_VALUE, "10.0.0.1", 8));
    check(BR_STORE_ERROR, out, br_store_write_error(out, ETIMEDOUT, "too bad"));
    check(BR_STORE_BYE, out, br_store_write(out, BR_STORE_BYE, NULL, 0));
}

static void store_parse__vectors(void **state)
{
    struct br_store_hello hello = hello_of_vectors();
    struct br_store_message message;

    (void)state;
    for (int i = BR_STORE_HELLO; i <= BR_STORE_BYE; i++) {
        assert_int_equal(br_store_parse(samples[i].bytes, samples[i].n, BODY_MAX, &message), 0);
        assert_int_equal(message.kind, i);
        assert_int_equal(message.bytes, samples[i].n);
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
    for (int i = BR_STORE_HELLO; i <= BR_STORE_BYE; i++) {
        for (size_t n = 0; n < samples[i].n; n++) {
            uint8_t *exact = malloc(n ? n : 1); /* so that ASan sees a byte too many */

            memcpy(exact, samples[i].bytes, n);
            assert_int_equal(br_store_parse(exact, n, BODY_MAX, &message), 1);
            assert_true(message.bytes > n && message.bytes <= samples[i].n);
            free(exact);
        }
    }
}

/* Changes one byte of a vector and expects it to be refused. */
static void refused(enum br_store_kind kind, size_t at, uint8_t value, int err)
{
    struct sample sample = samples[kind];
    struct br_store_message message;

    sample.bytes[at] = value;
    if (br_store_parse(sample.bytes, sample.n, BODY_MAX, &message) != -err)
        fail_msg("byte %zu = %02x is not refused", at, value);
}

static void store_parse__bad_fields(void **state)
{
    (void)state;
    for (size_t at = 0; at < 4; at++)
        refused(BR_STORE_BYE, at, 0, EPROTO);
    refused(BR_STORE_BYE, 4, BR_STORE_VERSION - 1, EPROTONOSUPPORT);
    refused(BR_STORE_BYE, 6, 0, EPROTO);
    refused(BR_STORE_BYE, 6, 11, EPROTO);
    refused(BR_STORE_BYE, 10, 1, EPROTO);           /* 65,536 bytes of body */
    refused(BR_STORE_BYE, 15, 1, EPROTO);           /* reserved */
    refused(BR_STORE_HELLO, 60, 1, EPROTO);         /* reserved */
    refused(BR_STORE_HELLO, 65, '\n', EPROTO);      /* host not printable */
    refused(BR_STORE_PUT, 20, 8, EPROTO);           /* key and value do not fill the body */
    refused(BR_STORE_PUT, 20, 0, EPROTO);           /* no key */
    refused(BR_STORE_PUT, 20, 200, EPROTO);         /* key too long */
    refused(BR_STORE_PUT, 26, 2, EPROTO);           /* value too long */
    refused(BR_STORE_PUT, 28, 1, EPROTO);           /* reserved */
    refused(BR_STORE_PUT, 19, 0xff, EPROTO);        /* waits for weeks */
    refused(BR_STORE_PUT, 33, 7, EPROTO);           /* key not printable */
    refused(BR_STORE_PUT, 6, BR_STORE_GET, EPROTO); /* GET with a value */
    refused(BR_STORE_ERROR, 16, 0, EPROTO);
    refused(BR_STORE_ERROR, 19, 1, EPROTO);
}

/* A length that does not belong to the kind. */
static void store_parse__wrong_lengths(void **state)
{
    struct br_store_message message;
    uint8_t bytes[512] = {0};

    (void)state;
    for (int i = BR_STORE_HELLO; i <= BR_STORE_BYE; i++) {
        if (i == BR_STORE_VALUE || i == BR_STORE_ERROR)
            continue; /* any length is right */
        for (int off = -1; off <= 1; off += 2) {
            uint32_t body =
                (uint32_t)(samples[i].n - sizeof(struct br_store_header)) + (uint32_t)off;

            memcpy(bytes, samples[i].bytes, samples[i].n);
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

    return cmocka_run_group_tests(tests, load, NULL);
}
