/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts to and gets from memory that the worker cannot touch: when the hooks are called, and what
 * leaves when. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "wired.h"

#define BYTES 3000u

static uint8_t buffer[BYTES];
static struct br_region owner, region;
static struct br_target *target; /* of the last begin() or store() */
static int held, begun,
    stored; /* regions that were found; targets between begin() and done(); calls of store() */
static bool at_once;

/* All addresses are a GPU's: nobody may touch them. */
static int find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **at,
                struct br_region **found)
{
    (void)context, (void)id, (void)bytes;
    *at = (void *)(uintptr_t)(4096 + offset);
    *found = &owner;
    held++;
    return 1;
}

static void region_done(void *context, struct br_region *given)
{
    (void)context;
    assert_ptr_equal(given, &owner);
    held--;
}

static bool begin(void *context, struct br_target *t)
{
    (void)context;
    assert_int_equal(t->gpu, 1);
    assert_ptr_equal(t->address, (void *)(uintptr_t)4104);
    assert_int_equal(t->peer, 1);
    target = t;
    begun++;
    t->memory = buffer;
    t->region = &region;
    return t->arrives || at_once;
}

static bool store(void *context, struct br_target *t)
{
    (void)context;
    assert_true(t->arrives);
    target = t;
    stored++;
    return at_once;
}

static void done(void *context, struct br_target *t)
{
    begun--;
    region_done(context, t->owner);
}

static void set_up(struct wired *x, bool immediately)
{
    wired_create(x, 0, 1, NULL);
    x->w->config.region_find = find;
    x->w->config.region_done = region_done;
    x->w->config.target = (struct br_target_hooks){begin, store, done};
    held = begun = stored = 0;
    at_once = immediately;
    memset(buffer, 0xa5, sizeof buffer);
}

/* The peer's only request, and the READY for the data of a get. */
static void ask(struct wired *x, enum br_message_type type, uint32_t bytes, const void *payload,
                uint32_t length)
{
    struct br_message m = {.type = (uint8_t)type,
                           .tag = br_tag_onesided(0, BR_PART_REQUEST),
                           .bytes = bytes,
                           .onesided = {.offset = 8, .check = 77, .operation = BR_ATOMIC_ADD}};

    wire_message(x->links[0], &m, payload, length);
    wired_turn(x, 0);
}

static void ready(struct wired *x, uint32_t bytes)
{
    wired_say(x, 0,
              &(struct br_message){.type = BR_MESSAGE_READY,
                                   .sequence = 1,
                                   .tag = br_tag_onesided(0, BR_PART_DATA),
                                   .bytes = bytes,
                                   .ready.slot = 0x10004});
}

/* A put that succeeds is answered by PUT_DONE. */
static int32_t status(struct wired *x)
{
    const struct wire_frame *frame = wire_take(x->links[0], BR_MESSAGE_PUT_DONE);
    int32_t result;

    if (frame)
        return 0;
    frame = wire_take(x->links[0], BR_MESSAGE_EAGER);
    assert_non_null(frame);
    memcpy(&result, frame->message.data, sizeof result);
    return result;
}

static void expect_none(struct wired *x)
{
    assert_null(wire_take(x->links[0], BR_MESSAGE_EAGER));
    assert_null(wire_take(x->links[0], BR_MESSAGE_PUT_DONE));
    assert_int_equal(begun, 1);
    assert_int_equal(held, 1);
}

static void expect_clean(struct wired *x)
{
    assert_int_equal(x->w->failed, 0);
    assert_int_equal(held, 0);
    assert_int_equal(begun, 0);
    assert_int_equal(x->w->services.n_used, 0);
    assert_int_equal(x->w->sends.count, 0);
    assert_int_equal(x->wires[0].buffers, 0);
    wired_destroy(x);
}

static void resume(struct wired *x)
{
    br_onesided_resume(x->w, target);
    wired_turn(x, 0);
}

static void put__small_is_answered_when_stored(void **state)
{
    uint8_t from[100];
    struct wired x;

    (void)state;
    memset(from, 3, sizeof from);
    for (int immediately = 0; immediately < 2; immediately++) {
        set_up(&x, immediately);
        ask(&x, BR_MESSAGE_PUT, sizeof from, from, sizeof from);
        assert_memory_equal(buffer, from, sizeof from);
        assert_int_equal(buffer[sizeof from], 0xa5);
        assert_int_equal(stored, 1);
        if (!immediately) {
            assert_true(target->carried);
            expect_none(&x);
            resume(&x);
        }
        assert_int_equal(status(&x), 0);
        expect_clean(&x);
    }
}

static void put__large_is_answered_when_stored(void **state)
{
    const struct wire_frame *frame;
    uint8_t from[BYTES];
    struct wired x;

    (void)state;
    memset(from, 3, sizeof from);
    for (int immediately = 0; immediately < 2; immediately++) {
        set_up(&x, immediately);
        ask(&x, BR_MESSAGE_PUT, BYTES, NULL, 0);
        frame = wire_take(x.links[0], BR_MESSAGE_READY);
        assert_non_null(frame);
        assert_false(target->carried);
        assert_int_equal(stored, 0);
        wire_placed(x.links[0], frame->message.ready.slot, 0, from, BYTES, 0);
        wired_turn(&x, 0);
        assert_memory_equal(buffer, from, BYTES);
        assert_int_equal(stored, 1);
        if (!immediately) {
            expect_none(&x);
            resume(&x);
        }
        assert_int_equal(status(&x), 0);
        expect_clean(&x);
    }
}

/* Whether its READY comes before the bytes are there or after. */
static void get__leaves_when_begun(void **state)
{
    struct wire_frame *frame;
    struct wired x;

    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        bool immediately = turn == 0, late = turn == 2;

        set_up(&x, immediately);
        ask(&x, BR_MESSAGE_GET, BYTES, NULL, 0);
        if (!late)
            ready(&x, BYTES);
        if (!immediately) {
            assert_null(wire_take_placed(x.links[0]));
            expect_none(&x);
            resume(&x);
        }
        if (late)
            ready(&x, BYTES);
        frame = wire_take_placed(x.links[0]);
        assert_non_null(frame);
        assert_int_equal(frame->frame.slot, 0x10004);
        assert_ptr_equal(frame->frame.payload, buffer);
        assert_ptr_equal(frame->frame.region, &region);
        expect_none(&x); /* it is read until SENT; and its data are the answer */
        wire_sent(frame);
        wired_turn(&x, 0);
        assert_null(wire_take(x.links[0], BR_MESSAGE_EAGER));
        assert_int_equal(stored, 0);
        expect_clean(&x);
    }
}

static void atomic__refused(void **state)
{
    struct br_operands operands = {1, 0};
    struct wired x;

    (void)state;
    set_up(&x, true);
    ask(&x, BR_MESSAGE_ATOMIC, 8, &operands, sizeof operands);
    assert_int_equal(status(&x), -EFAULT);
    expect_clean(&x);
}

/* A worker that fails gives back what it has begun, once, and not before nobody can write there any
 * more. */
static void request__given_back_after_a_failure(void **state)
{
    static const uint8_t from[100];
    struct wired x;

    (void)state;
    for (int turn = 0; turn < 3; turn++) {
        set_up(&x, false);
        ask(&x, turn ? BR_MESSAGE_PUT : BR_MESSAGE_GET, turn == 1 ? sizeof from : BYTES, from,
            turn == 1 ? sizeof from : 0);
        assert_int_equal(begun, 1);
        br_worker_fail(x.w, ECANCELED, "enough");
        wired_turn(&x, 0);
        assert_int_equal(begun, 1);
        wired_turn(&x, BR_ABORT_LINGER);
        wired_turn(&x, BR_ABORT_LINGER);
        assert_false(x.w->fail_due);
        assert_int_equal(begun, 0);
        assert_int_equal(held, 0);
        wired_destroy(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__small_is_answered_when_stored),
        cmocka_unit_test(put__large_is_answered_when_stored),
        cmocka_unit_test(get__leaves_when_begun),
        cmocka_unit_test(atomic__refused),
        cmocka_unit_test(request__given_back_after_a_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
