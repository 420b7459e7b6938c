/* SPDX-License-Identifier: BSD-3-Clause */
/* Links come up; unauthenticated peers are kept out, are counted, and hold nothing for long. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "tests/says.h"
#include "wired.h"

/* HELLO of the peer with another key or incarnation. */
static void hello(struct wired *x, struct wire_link *link, uint8_t key, uint32_t incarnation)
{
    struct br_handshake_self self = wired_self(x);
    uint8_t bytes[BR_HANDSHAKE_BYTES_MAX];
    size_t n;

    self.key[0] = key;
    br_handshake_init_connector(&link->handshake, &self, 0, 0, incarnation, bytes, &n);
    wire_handshake(link, bytes, n);
    wired_turn(x, 0);
}

/* Our side takes the worker's answer; returns what br_handshake_receive() says. */
static int go_on(struct wired *x, struct wire_link *link)
{
    struct wire_frame *frame = wire_take(link, BR_MESSAGE_HANDSHAKE);
    uint8_t bytes[BR_HANDSHAKE_BYTES_MAX];
    size_t n;
    int rc;

    assert_non_null(frame);
    rc = br_handshake_receive(&link->handshake, frame->payload, frame->frame.length, bytes, &n);
    if (n)
        wire_handshake(link, bytes, n);
    wired_turn(x, 0);
    return rc;
}

static enum br_rail_state rail_state(const struct wired *x)
{
    return x->w->peers[x->peer].rails[0].state;
}

static void acceptor__takes_the_peer(void **state)
{
    struct wired *x = *state;

    assert_false(br_worker_connected(x->w));
    assert_true(wired_connect(x, 0));
    assert_false(br_worker_connected(x->w)); /* one of two rails */
    assert_true(wired_connect(x, 1));
    assert_true(br_worker_connected(x->w));
    assert_true(x->links[0]->link.authenticated);
    assert_int_equal(x->w->counters.failed_handshakes, 0);
}

static void connector__connects_by_itself(void **state)
{
    struct wired *x = *state;

    assert_true(x->links[0]->link.authenticated);
    assert_int_equal(x->w->peers[0].rails[1].incarnation, 1);
}

/* Nobody answers: again and again, each attempt with a time limit and a larger pause; the message
 * says why. */
static void connector__tries_again(void **state)
{
    char text[200];
    struct wired *x = *state;
    int links = 0;

    for (int ms = 0; ms < 10000; ms += 10)
        wired_turn(x, 10 * BR_MS);
    br_list_for_each (node, &x->wires[0].links)
        links++;
    assert_in_range(links, 5, 10);
    assert_int_equal(x->w->failed, 0);
    br_worker_missing(x->w, text, sizeof text);
    assert_says(text, "rank 0|level 0|wire0|handshake");
}

/* From our proof on, the link may be UP at the other end, for whom it may be the last rail: it has
 * the patience of a rail, not that of an attempt. */
static void connector__does_not_take_its_proof_back(void **state)
{
    struct br_handshake_self self;
    struct wire_link *link;
    struct wired *x = *state;

    x->w->peers[0].rails[0].patience = 5 * BR_SEC;
    wired_turn(x, 20 * BR_MS);
    link = br_container_of(x->wires[0].links.next, struct wire_link, node);
    self = wired_self(x);
    br_handshake_init_acceptor(&link->handshake, &self);
    assert_int_equal(go_on(x, link), 0); /* CHALLENGE; it answers PROOF, and hears nothing */
    for (int ms = 0; ms < 4900; ms += 10)
        wired_turn(x, 10 * BR_MS);
    assert_false(link->closed);
    for (int ms = 0; ms < 200; ms += 10)
        wired_turn(x, 10 * BR_MS);
    assert_true(link->closed);
    assert_true(wired_connect(x, 0));
}

/* The ranks below are many: a few attempts at a time, the nearest first; when one has ended, the
 * next begins. */
static void connector__few_at_a_time(void **state)
{
    struct br_worker_config config = {.rank = 20,
                                      .size = 24,
                                      .seed = 1,
                                      .eager_bytes = 1024,
                                      .slice_bytes = 64 << 10,
                                      .peer_timeout = BR_SEC,
                                      .connect_timeout = BR_SEC,
                                      .max_slots = 16,
                                      .max_transfers = 16};
    struct wire wire = {.device = {.ops = &wire_ops, .caps = wire_caps(false)}};
    struct br_rail_config rail = {0};
    struct wire_link *first;
    struct br_worker *w;
    int links = 0;

    (void)state;
    assert_int_equal(br_worker_create(&config, &w), 0);
    assert_int_equal(br_worker_open_device(w, &wire_ops, "wire0", &wire, &rail.device), 0);
    for (int rank = 0; rank < config.size; rank++)
        if (rank != config.rank)
            assert_int_equal(br_worker_set_peer(w, rank, &rail, 1), 0);
    br_worker_poll(w, BR_SEC);
    br_list_for_each (node, &wire.links)
        links++;
    assert_int_equal(links, 8);
    for (int rank = 0; rank < config.size; rank++)
        assert_int_equal(w->peers[rank].rails && w->peers[rank].rails[0].link,
                         rank >= 12 && rank < 20);
    first = br_container_of(wire.links.next, struct wire_link, node);
    wire_fail(first, ECONNREFUSED, "refused");
    while (w->peers[19].rails[0].link)
        br_worker_poll(w, BR_SEC + BR_MS);
    br_worker_poll(w, BR_SEC + 2 * BR_MS);
    assert_null(w->peers[19].rails[0].link);
    assert_non_null(w->peers[11].rails[0].link);
    assert_null(w->peers[10].rails[0].link);
    br_worker_destroy(w);
}

/* A wrong secret does not become right: the job ends, with a message that names rank and device. */
static void connector__wrong_secret_ends_the_job(void **state)
{
    struct br_handshake_self self;
    struct wire_link *link;
    struct wired *x = *state;

    wired_turn(x, 20 * BR_MS);
    link = br_container_of(x->wires[0].links.next, struct wire_link, node);
    self = wired_self(x);
    self.key[0] = 1;
    br_handshake_init_acceptor(&link->handshake, &self);
    assert_int_equal(go_on(x, link), 0);
    /* our half, which has another secret, refuses the proof */
    assert_int_equal(go_on(x, link), -EPERM);
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, -EPERM);
    assert_says(x->w->message, "rank 0");
    assert_says(x->w->message, "wire0");
    assert_says(x->w->message, "secret");
}

static void connector__something_else_than_a_handshake(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_EAGER, .bytes = 8};
    struct wire_link *link;
    struct wired *x = *state;

    wired_turn(x, 20 * BR_MS);
    link = br_container_of(x->wires[0].links.next, struct wire_link, node);
    wire_message(link, &m, NULL, 0);
    wired_turn(x, 0);
    assert_true(link->closed);
    assert_int_equal(x->w->failed, 0);
    assert_true(wired_connect(x, 0)); /* the next attempt is a new link */
    assert_int_equal(rail_state(x), BR_RAIL_UP);
}

static void unauthenticated__wrong_secret(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    hello(x, link, 1, 1);
    assert_int_equal(go_on(x, link), 0);      /* CHALLENGE */
    assert_int_equal(go_on(x, link), -EPERM); /* REFUSE */
    assert_int_equal(x->w->counters.failed_handshakes, 1);
    assert_int_equal(rail_state(x), BR_RAIL_IDLE);
    assert_false(link->link.authenticated);
    assert_false(link->closed); /* so that it gets to read why */
    wired_turn(x, 200 * BR_MS);
    assert_true(link->closed);
    assert_int_equal(x->w->failed, 0);
    assert_true(wired_connect(x, 0)); /* it has spoiled nothing */
}

static void unauthenticated__garbage(void **state)
{
    static const uint8_t garbage[300] = "GET / HTTP/1.1";
    struct wired *x = *state;

    for (uint32_t n = 0; n <= sizeof garbage; n += 20) {
        struct wire_link *link = wire_accept(&x->wires[0]);

        wire_handshake(link, garbage, n);
        wired_turn(x, 200 * BR_MS);
        wired_turn(x, 200 * BR_MS);
        assert_true(link->closed);
    }
    assert_int_equal(x->w->counters.failed_handshakes, 16);
    assert_int_equal(x->wires[0].buffers, 0);
}

/* Peers without a proof cannot fill the log. */
static void unauthenticated__ten_thousand_leave_few_lines(void **state)
{
    static const uint8_t garbage[80] = "GET / HTTP/1.1";
    int saved = dup(STDERR_FILENO), lines = 0;
    FILE *log = tmpfile();
    struct wired *x = *state;

    assert_non_null(log);
    assert_true(saved >= 0);
    br_log_set_level(BR_LOG_INFO);
    dup2(fileno(log), STDERR_FILENO);
    for (int i = 0; i < 10000; i++) {
        wire_handshake(wire_accept(&x->wires[0]), garbage, sizeof garbage);
        wired_turn(x, BR_MS);
    }
    dup2(saved, STDERR_FILENO);
    close(saved);
    br_log_set_level(BR_LOG_WARN);
    rewind(log);
    for (int c; (c = getc(log)) != EOF;)
        lines += c == '\n';
    fclose(log);
    assert_true(x->w->counters.failed_handshakes >= 10000);
    assert_in_range(lines, BR_LOG_LIMIT_LINES, 49);
}

/* Refused once, it is not heard any more, however much it says; and it cannot stay by saying
 * more. */
static void unauthenticated__goes_on_after_it_was_refused(void **state)
{
    struct br_message m = {.type = BR_MESSAGE_EAGER, .bytes = 8};
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    for (int ms = 0; ms < 300; ms += 10) {
        wire_message(link, &m, NULL, 0);
        wired_turn(x, 10 * BR_MS);
    }
    assert_int_equal(x->w->counters.failed_handshakes, 1);
    assert_true(link->closed);
}

static void unauthenticated__says_nothing(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    for (int ms = 0; ms < 990; ms += 10)
        wired_turn(x, 10 * BR_MS);
    assert_false(link->closed);
    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 10 * BR_MS);
    assert_true(link->closed);
    assert_int_equal(x->w->counters.failed_handshakes, 1);
}

/* Nobody answers while we have no core: it has as much of our time as otherwise. */
static void unauthenticated__while_we_are_starved(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    wired_turn(x, 0);
    link = wire_accept(&x->wires[0]);
    wired_turn(x, 10 * BR_MS);
    wired_turn(x, 10 * BR_SEC);
    assert_false(link->closed);
}

/* It comes while we sleep with no timer at all: its time runs all the same. */
static void unauthenticated__comes_while_nothing_is_due(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    wired_turn(x, 0);
    assert_true(br_worker_next_timer(x->w) == UINT64_MAX);
    link = wire_accept(&x->wires[0]);
    wired_turn(x, 100 * BR_MS);
    assert_in_range(br_worker_next_timer(x->w), x->now, x->now + BR_SEC);
    for (int ms = 0; ms < 1010; ms += 10)
        wired_turn(x, 10 * BR_MS);
    assert_true(link->closed);
}

static void unauthenticated__hangs_up(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    wired_turn(x, 0);
    wire_fail(link, ECONNRESET, "closed");
    wired_turn(x, 0);
    assert_true(link->closed);
    assert_int_equal(x->w->counters.failed_handshakes, 1);
}

#define PLACES 32 /* for unauthenticated peers in a job of few ranks */

/* More than there is room for: the oldest goes, and who belongs to the job still comes in. */
static void table_is_full(bool at_once)
{
    struct wire_link *links[PLACES + 3];
    struct wired x;

    wired_open(&x, 0, 1, NULL);
    for (int i = 0; i < PLACES + 3; i++) {
        links[i] = wire_accept(&x.wires[0]);
        if (!at_once)
            wired_turn(&x, BR_US);
    }
    wired_turn(&x, 0);
    for (int i = 0; i < PLACES + 3; i++)
        assert_int_equal(links[i]->closed, i < 3);
    assert_int_equal(x.w->counters.failed_handshakes, 3);
    assert_true(wired_connect(&x, 0));
    assert_true(links[3]->closed);
    assert_int_equal(rail_state(&x), BR_RAIL_UP);
    wired_destroy(&x);
}

static void unauthenticated__the_table_is_full(void **state)
{
    (void)state;
    table_is_full(false);
    table_is_full(true);
}

/* The rail has a link already: the second one, although it knows the secret, is told so and is no
 * unauthenticated peer. */
static void peer__comes_twice(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    hello(x, link, 0, 5);
    assert_int_equal(go_on(x, link), 0);
    assert_int_equal(go_on(x, link), -ESTALE);
    assert_int_equal(x->w->counters.failed_handshakes, 0);
    assert_int_equal(rail_state(x), BR_RAIL_UP);
    assert_false(x->links[0]->closed);
    wired_turn(x, 200 * BR_MS);
    assert_true(link->closed);
}

/* It comes on the device of another rail: its frames would carry the wrong rail's numbers. */
static void peer__comes_on_another_device(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[1]);
    hello(x, link, 0, 1); /* says rail 0 */
    assert_int_equal(go_on(x, link), 0);
    assert_int_equal(go_on(x, link), -ESTALE);
    assert_int_equal(rail_state(x), BR_RAIL_IDLE);
}

/* The answer finds the link full: the attempt fails, the worker does not. */
static void peer__full_link(void **state)
{
    struct wire_link *link;
    struct wired *x = *state;

    link = wire_accept(&x->wires[0]);
    hello(x, link, 0, 1);
    x->wires[0].room = 0;
    assert_int_equal(go_on(x, link), 0);
    assert_int_equal(rail_state(x), BR_RAIL_IDLE);
    assert_true(link->closed);
    x->wires[0].room = -1;
    assert_true(wired_connect(x, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WIRED_TEST(acceptor__takes_the_peer, .rails = 2),
        WIRED_TEST(connector__connects_by_itself, .rank = 1, .rails = 2, .up = true),
        WIRED_TEST(connector__tries_again, .rank = 1, .rails = 1),
        WIRED_TEST(connector__does_not_take_its_proof_back, .rank = 1, .rails = 1),
        cmocka_unit_test(connector__few_at_a_time),
        WIRED_TEST(connector__wrong_secret_ends_the_job, .rank = 1, .rails = 1),
        WIRED_TEST(connector__something_else_than_a_handshake, .rank = 1, .rails = 1),
        WIRED_TEST(unauthenticated__wrong_secret, .rails = 1),
        WIRED_TEST(unauthenticated__ten_thousand_leave_few_lines, .rails = 1),
        WIRED_TEST(unauthenticated__garbage, .rails = 1),
        WIRED_TEST(unauthenticated__goes_on_after_it_was_refused, .rails = 1),
        WIRED_TEST(unauthenticated__says_nothing, .rails = 1),
        WIRED_TEST(unauthenticated__while_we_are_starved, .rails = 1),
        WIRED_TEST(unauthenticated__comes_while_nothing_is_due, .rails = 1),
        WIRED_TEST(unauthenticated__hangs_up, .rails = 1),
        cmocka_unit_test(unauthenticated__the_table_is_full),
        WIRED_TEST(peer__comes_twice, .rails = 1, .up = true),
        WIRED_TEST(peer__comes_on_another_device, .rails = 2),
        WIRED_TEST(peer__full_link, .rails = 1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
