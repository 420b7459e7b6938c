/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/handshake.h"
#include "protocol/message.h"
#include "tests/protocol/vectors.h"
#include "tests/says.h"

struct wire {
    uint8_t bytes[BR_HANDSHAKE_BYTES_MAX];
    size_t n;
};

/* Rank 5 connects its rail 1, for the third time, to rank 2. */
struct pair {
    struct br_handshake_self maker_self, taker_self;
    struct br_handshake maker, taker;
    struct wire hello, challenge, proof, welcome;
};

static struct br_handshake_self self_of(uint32_t rank, uint8_t nonce)
{
    struct br_handshake_self self = {
        .rank = rank,
        .size = 9,
        .rails = 2,
        .limits = {.frame_bytes = 65536,
                   .message_bytes = 16384,
                   .eager_bytes = 8192,
                   .slice_bytes = 262144},
    };
    struct br_secret job;

    for (int i = 0; i < 32; i++) {
        job.key[i] = (uint8_t)i;
        self.nonce[i] = (uint8_t)(nonce + i);
    }
    br_secret_subkey(&job, BR_SECRET_LINKS, self.key);
    return self;
}

static void init(struct pair *p)
{
    memset(p, 0, sizeof *p);
    p->maker_self = self_of(5, 0x40);
    p->taker_self = self_of(2, 0x80);
}

static void start(struct pair *p)
{
    br_handshake_init_acceptor(&p->taker, &p->taker_self);
    br_handshake_init_connector(&p->maker, &p->maker_self, 2, 1, 3, p->hello.bytes, &p->hello.n);
}

static int pass(struct br_handshake *to, const struct wire *message, struct wire *answer)
{
    return br_handshake_receive(to, message->bytes, message->n, answer->bytes, &answer->n);
}

/* Carries the messages until one side ends; the result of the last receive. */
static int run(struct pair *p)
{
    struct wire nothing;
    int rc;

    start(p);
    rc = pass(&p->taker, &p->hello, &p->challenge);
    if (rc == 0)
        rc = pass(&p->maker, &p->challenge, &p->proof);
    if (rc == 0)
        rc = pass(&p->taker, &p->proof, &p->welcome);
    if (rc == 1)
        rc = pass(&p->maker, &p->welcome, &nothing);
    return rc;
}

static void says(const char *text)
{
    if (!says_all(br_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", br_error_message(), text);
}

/* The acceptor must refuse HELLO so, and the connector must hear the same. */
static void hello_refused(struct pair *p, int err, const char *text)
{
    struct wire nothing;

    assert_int_equal(run(p), -err);
    says(text);
    assert_int_equal(p->taker.state, BR_HANDSHAKE_FAILED);
    assert_int_equal(p->challenge.n, sizeof(struct br_handshake_refuse));
    assert_int_equal(pass(&p->maker, &p->challenge, &nothing), -err);
    says(text);
    says("rank 2|rail 1");
    assert_int_equal(nothing.n, 0);
}

static void handshake_receive__both_become_ready(void **state)
{
    struct pair p;

    (void)state;
    init(&p);
    p.taker_self.limits = (struct br_handshake_limits){1024, 32768, 16, 524288};
    assert_int_equal(run(&p), 1);
    assert_int_equal(p.maker.state, BR_HANDSHAKE_READY);
    assert_int_equal(p.taker.state, BR_HANDSHAKE_READY);
    assert_int_equal(p.taker.peer, 5);
    assert_int_equal(p.taker.rail, 1);
    assert_int_equal(p.taker.incarnation, 3);
    assert_int_equal(p.maker.peer, 2);
    assert_int_equal(p.maker.version, BR_PROTOCOL_VERSION);
    assert_int_equal(p.taker.version, BR_PROTOCOL_VERSION);
    assert_int_equal(p.maker.limits.frame_bytes, 1024);
    assert_int_equal(p.maker.limits.message_bytes, 16384);
    assert_int_equal(p.maker.limits.eager_bytes, 16);
    assert_int_equal(p.maker.limits.slice_bytes, 262144);
    assert_memory_equal(&p.maker.limits, &p.taker.limits, sizeof p.maker.limits);
}

static void check(const char *name, const struct wire *message)
{
    uint8_t bytes[2 * BR_HANDSHAKE_BYTES_MAX];

    assert_int_equal(vector(name, bytes, sizeof bytes), message->n);
    assert_memory_equal(message->bytes, bytes, message->n);
}

/* Those of doc/wire.md, which were computed apart, with Python's hashlib.blake2b. */
static void handshake_receive__vectors(void **state)
{
    struct pair p;

    (void)state;
    init(&p);
    assert_int_equal(run(&p), 1);
    check("handshake-hello", &p.hello);
    check("handshake-challenge", &p.challenge);
    check("handshake-proof", &p.proof);
    check("handshake-welcome", &p.welcome);
}

/* Runs to the message that comes as step `step`, flips one bit of it, goes on. true: both sides
 * were content. */
static bool content_after_flip(struct pair *p, int step, size_t bit)
{
    struct wire *messages[] = {&p->hello, &p->challenge, &p->proof, &p->welcome}, nothing;
    struct br_handshake *to[] = {&p->taker, &p->maker, &p->taker, &p->maker};

    start(p);
    for (int i = 0; i < 4; i++) {
        if (i == step)
            messages[i]->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (pass(to[i], messages[i], i < 3 ? messages[i + 1] : &nothing) < 0)
            return false;
    }
    return true;
}

static void handshake_receive__every_bit_counts(void **state)
{
    static const size_t bytes[] = {
        sizeof(struct br_handshake_hello), sizeof(struct br_handshake_challenge),
        sizeof(struct br_handshake_proof), sizeof(struct br_handshake_proof)};
    struct pair p;

    (void)state;
    for (int step = 0; step < 4; step++) {
        for (size_t bit = 0; bit < 8 * bytes[step]; bit++) {
            init(&p);
            if (content_after_flip(&p, step, bit))
                fail_msg("bit %zu of message %d does not matter", bit, step);
            assert_int_equal(p.maker.state == BR_HANDSHAKE_READY, false);
            assert_int_equal(p.taker.state == BR_HANDSHAKE_READY, step == 3);
        }
    }
    init(&p);
    assert_true(content_after_flip(&p, 4, 0)); /* no flip: the loop above can succeed */
}

static void handshake_receive__every_wrong_length(void **state)
{
    struct pair p;
    struct wire answer, message;

    (void)state;
    init(&p);
    for (size_t n = 0; n <= BR_HANDSHAKE_BYTES_MAX; n++) {
        if (n != sizeof(struct br_handshake_hello)) {
            start(&p);
            message = p.hello;
            message.n = n;
            assert_true(pass(&p.taker, &message, &answer) < 0);
        }
        if (n != sizeof(struct br_handshake_proof)) {
            assert_int_equal(run(&p), 1);
            start(&p);
            assert_int_equal(pass(&p.taker, &p.hello, &answer), 0);
            message = p.proof;
            message.n = n;
            assert_int_equal(pass(&p.taker, &message, &answer), -EPROTO);
        }
    }
}

static void handshake_receive__wrong_secret(void **state)
{
    struct pair p;
    struct wire nothing;

    (void)state;
    init(&p);
    p.maker_self.key[31] ^= 1;
    assert_int_equal(run(&p), -EPERM);
    says("rank 2|rail 1|rank 5|other side|secret");
    assert_int_equal(pass(&p.maker, &p.welcome, &nothing), -EPERM);
    says("we do not|secret");
}

/* An acceptor without the secret cannot make a WELCOME, not even from the PROOF that it was
 * given. */
static void handshake_receive__reflected_proof(void **state)
{
    struct br_handshake_header header;
    struct wire answer;
    struct pair p;

    (void)state;
    init(&p);
    assert_int_equal(run(&p), 1);
    start(&p);
    assert_int_equal(pass(&p.maker, &p.challenge, &answer), 0);
    memcpy(&header, answer.bytes, sizeof header);
    header.kind = BR_HANDSHAKE_WELCOME;
    memcpy(answer.bytes, &header, sizeof header);
    assert_int_equal(pass(&p.maker, &answer, &p.welcome), -EPERM);
}

/* Bytes recorded from a good handshake do not work against a new nonce, on either side. */
static void handshake_receive__replayed(void **state)
{
    struct wire answer, proof, welcome, challenge;
    struct pair p;

    (void)state;
    init(&p);
    assert_int_equal(run(&p), 1);
    proof = p.proof;
    welcome = p.welcome;
    challenge = p.challenge;
    p.taker_self.nonce[0]++;
    start(&p);
    assert_int_equal(pass(&p.taker, &p.hello, &answer), 0);
    assert_int_equal(pass(&p.taker, &proof, &answer), -EPERM);
    p.maker_self.nonce[0]++;
    start(&p);
    assert_int_equal(pass(&p.maker, &challenge, &answer), 0);
    assert_int_equal(pass(&p.maker, &welcome, &answer), -EPERM);
}

static void handshake_receive__disagreements_are_named_on_both_sides(void **state)
{
    struct pair p;

    (void)state;
    init(&p);
    p.maker_self.size = 8;
    hello_refused(&p, EPROTO, "9 ranks|8|WORLD_SIZE");
    init(&p);
    p.taker_self.rank = 3;
    assert_int_equal(run(&p), -EPROTO);
    says("rank 3 answers|rank 2");
    init(&p);
    p.maker_self.rank = 2;
    hello_refused(&p, EEXIST, "processes|rank 2");
    init(&p);
    p.taker_self.rails = 1;
    hello_refused(&p, EPROTO, "1 rails|rail 1|BRAID_RAILS");
    init(&p);
    p.maker_self.limits.frame_bytes = 0;
    hello_refused(&p, EPROTO, "malformed");
    init(&p);
    p.maker_self.limits.eager_bytes = 15; /* less than an answer of a one-sided access */
    hello_refused(&p, EPROTO, "malformed");
    init(&p);
    p.maker_self.rank = 9;
    hello_refused(&p, EPROTO, "malformed");
}

/* Another version's HELLO may be longer than ours. */
static void handshake_receive__other_version(void **state)
{
    uint8_t longer[120] = {0};
    struct wire refusal, nothing;
    struct pair p;

    (void)state;
    init(&p);
    start(&p);
    memcpy(longer, p.hello.bytes, p.hello.n);
    longer[8] = longer[10] = BR_PROTOCOL_VERSION + 1;
    assert_int_equal(
        br_handshake_receive(&p.taker, longer, sizeof longer, refusal.bytes, &refusal.n),
        -EPROTONOSUPPORT);
    says("protocol version 15|16");
    assert_int_equal(pass(&p.maker, &refusal, &nothing), -EPROTONOSUPPORT);
    says("protocol version 15|16");
}

/* A braid of version 7 made its proofs with the job's key itself. Both sides learn that the
 * versions differ, not that the secret is wrong. */
static void handshake_receive__version_with_the_jobs_key(void **state)
{
    struct wire refusal, nothing;
    struct pair p;

    (void)state;
    init(&p);
    start(&p);
    p.hello.bytes[8] = p.hello.bytes[10] = 7;
    assert_int_equal(pass(&p.taker, &p.hello, &refusal), -EPROTONOSUPPORT);
    says("protocol version 15|7");
    start(&p);
    assert_int_equal(pass(&p.taker, &p.hello, &p.challenge), 0);
    p.challenge.bytes[8] = 7;
    assert_int_equal(pass(&p.maker, &p.challenge, &refusal), -EPROTONOSUPPORT);
    says("protocol version 15|7");
    assert_int_equal(pass(&p.taker, &refusal, &nothing), -EPROTONOSUPPORT);
}

static void handshake_receive__challenge_of_another_rank(void **state)
{
    struct pair p;
    struct wire answer;

    (void)state;
    init(&p);
    assert_int_equal(run(&p), 1);
    start(&p);
    p.challenge.bytes[12]++;
    assert_int_equal(pass(&p.maker, &p.challenge, &answer), -EPROTO);
    says("rank 3 answers|rank 2");
}

static void handshake_receive__a_failure_stays(void **state)
{
    struct pair p;
    struct wire answer;

    (void)state;
    init(&p);
    p.maker_self.size = 8;
    assert_int_equal(run(&p), -EPROTO);
    p.maker_self.size = 9;
    br_handshake_init_connector(&p.maker, &p.maker_self, 2, 1, 3, p.hello.bytes, &p.hello.n);
    assert_int_equal(pass(&p.taker, &p.hello, &answer), -EPROTO);
    assert_int_equal(answer.n, 0);
}

static void handshake_receive__out_of_turn(void **state)
{
    struct pair p;
    struct wire answer;

    (void)state;
    init(&p);
    assert_int_equal(run(&p), 1);
    assert_int_equal(pass(&p.taker, &p.proof, &answer), -EPROTO);
    assert_int_equal(p.taker.state, BR_HANDSHAKE_FAILED);
    start(&p);
    assert_int_equal(pass(&p.taker, &p.proof, &answer), -EPROTO);
    start(&p);
    assert_int_equal(pass(&p.maker, &p.welcome, &answer), -EPROTO);
}

static void handshake_refuse_stale__both_hear_it(void **state)
{
    struct pair p;
    struct wire nothing;

    (void)state;
    init(&p);
    start(&p);
    assert_int_equal(pass(&p.taker, &p.hello, &p.challenge), 0);
    assert_int_equal(pass(&p.maker, &p.challenge, &p.proof), 0);
    assert_int_equal(pass(&p.taker, &p.proof, &p.welcome), 1);
    assert_int_equal(br_handshake_refuse_stale(&p.taker, 7, p.welcome.bytes, &p.welcome.n),
                     -ESTALE);
    assert_int_equal(p.taker.state, BR_HANDSHAKE_FAILED);
    assert_int_equal(pass(&p.maker, &p.welcome, &nothing), -ESTALE);
    says("connection 7|3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handshake_receive__both_become_ready),
        cmocka_unit_test(handshake_receive__vectors),
        cmocka_unit_test(handshake_receive__every_bit_counts),
        cmocka_unit_test(handshake_receive__every_wrong_length),
        cmocka_unit_test(handshake_receive__wrong_secret),
        cmocka_unit_test(handshake_receive__reflected_proof),
        cmocka_unit_test(handshake_receive__replayed),
        cmocka_unit_test(handshake_receive__disagreements_are_named_on_both_sides),
        cmocka_unit_test(handshake_receive__other_version),
        cmocka_unit_test(handshake_receive__version_with_the_jobs_key),
        cmocka_unit_test(handshake_receive__challenge_of_another_rank),
        cmocka_unit_test(handshake_receive__a_failure_stays),
        cmocka_unit_test(handshake_receive__out_of_turn),
        cmocka_unit_test(handshake_refuse_stale__both_hear_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
