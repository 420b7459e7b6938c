/* SPDX-License-Identifier: BSD-3-Clause */
/* The last words of a worker that fails. */
#include "wired.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/says.h"

static void failed(struct wired *x, int error)
{
    wired_create(x, 0, 1, NULL);
    br_worker_fail(x->w, error, "rank 7 is lost");
    wired_turn(x, 0);
    assert_int_equal(x->w->failed, -error);
}

static void worker_fail__says_why(void **state)
{
    static const struct {
        int error;
        enum br_abort_reason reason;
    } cases[] = {{ECONNRESET, BR_ABORT_LOST},
                 {ETIMEDOUT, BR_ABORT_DEADLINE},
                 {EPROTO, BR_ABORT_DISAGREE},
                 {ECANCELED, BR_ABORT_CANCELED},
                 {ENOMEM, BR_ABORT_CANCELED}};
    struct wired x;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire_frame *frame;

        failed(&x, cases[i].error);
        frame = wire_take(x.links[0], BR_MESSAGE_ABORT);
        assert_non_null(frame);
        assert_int_equal(frame->message.abort.reason, cases[i].reason);
        assert_int_equal(frame->frame.length, strlen("rank 7 is lost"));
        wired_destroy(&x);
    }
}

/* If the link were closed at once, the peer might see that before it reads the words. */
static void worker_fail__waits_for_the_answer(void **state)
{
    const struct br_message abort_message = {.type = BR_MESSAGE_ABORT},
                            other = {.type = BR_MESSAGE_PING};
    struct wired x;

    (void)state;
    failed(&x, ECONNRESET);
    wired_turn(&x, 800 * BR_MS); /* the peer waits for a core */
    assert_true(x.w->fail_due);
    assert_false(x.links[0]->closed);
    wire_message(x.links[0], &other, NULL, 0);
    wired_turn(&x, BR_MS);
    assert_false(x.links[0]->closed);
    wire_message(x.links[0], &abort_message, NULL, 0);
    wired_turn(&x, BR_MS);
    assert_true(x.links[0]->closed);
    assert_false(x.w->fail_due);
    assert_says(x.w->message, "rank 7");
    wired_destroy(&x);
}

static void worker_fail__peer_closes(void **state)
{
    struct wired x;

    (void)state;
    failed(&x, ECONNRESET);
    wire_fail(x.links[0], ECONNRESET, "closed");
    wired_turn(&x, BR_MS);
    assert_true(x.links[0]->closed);
    assert_false(x.w->fail_due);
    wired_destroy(&x);
}

/* A peer that is stopped does not hold us up. */
static void worker_fail__no_answer(void **state)
{
    struct wired x;

    (void)state;
    failed(&x, ECONNRESET);
    assert_true(br_worker_next_timer(x.w) <= x.now + 1100 * BR_MS);
    wired_turn(&x, 1100 * BR_MS);
    assert_true(x.links[0]->closed);
    assert_false(x.w->fail_due);
    assert_true(br_worker_next_timer(x.w) == UINT64_MAX);
    wired_destroy(&x);
}

static void abort__brings_its_errno(void **state)
{
    static const int errors[] = {ECANCELED, ECONNRESET, ETIMEDOUT, EPROTO, ECANCELED};
    struct wired x;

    (void)state;
    for (uint32_t reason = 0; reason < 5; reason++) {
        const struct br_message m = {.type = BR_MESSAGE_ABORT, .abort.reason = reason};

        wired_create(&x, 0, 1, NULL);
        wire_message(x.links[0], &m, "it \033 said", 9);
        wired_turn(&x, 0);
        assert_int_equal(x.w->failed, -errors[reason]);
        assert_string_equal(x.w->message, "rank 1: it ? said");
        wired_destroy(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worker_fail__says_why),
        cmocka_unit_test(worker_fail__waits_for_the_answer),
        cmocka_unit_test(worker_fail__peer_closes),
        cmocka_unit_test(worker_fail__no_answer),
        cmocka_unit_test(abort__brings_its_errno),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
