/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: what the queue does not take, and what it is full of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "rig.h"
#include "tests/says.h"

/* post() says that the frame was not taken, the link fails once, and memory that the frame was
 * copied into is back. */
static void check_failed(struct rig *rig, int rc)
{
    assert_int_equal(rc, -EIO);
    assert_int_not_equal(strlen(br_error_message()), 0);
    fake_heal();
    assert_int_equal(rig_message(&rig->a, 10, 9), -EIO); /* and goes on saying so */
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -EIO);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), 0);
    assert_int_equal(fake_state(rig_link(&rig->a)->lanes[0].qp), IBV_QPS_ERR);
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
}

static void post__message_fails(void **state)
{
    struct rig *rig = *state;

    fake_fail("post_send", 1, EIO);
    check_failed(rig, rig_message(&rig->a, 10, 1)); /* inline */
}

/* As some providers do it, against the manual: it is no number of frames. */
static void post__fails_with_a_negative_value(void **state)
{
    struct rig *rig = *state;

    fake_fail("post_send", 1, -EINVAL);
    check_failed(rig, rig_message(&rig->a, 10, 1));
}

static void post__copied_message_fails(void **state)
{
    struct rig *rig = *state;

    fake_fail("post_send", 1, EIO);
    check_failed(rig, rig_message(&rig->a, 4000, 1));
}

static void post__write_fails(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);

    fake_fail("post_send", 1, EIO);
    check_failed(rig, rig_placed(rig, slot, 1));
    rig_slot_put(rig, slot);
}

/* From a pinned copy, whose room is then free again. */
static void post__bounced_write_fails(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, false);
    void *room;

    fake_fail("post_send", 1, EIO);
    check_failed(rig, rig_placed(rig, slot, 1));
    assert_int_equal(br_verbs_bounce_get(&rig->a.device->tx, rig->a.device->tx.bytes, &room), 0);
    br_verbs_bounce_put(&rig->a.device->tx, room);
    rig_slot_put(rig, slot);
}

/* Without any pinned memory frames go in pieces; one of them fails in the middle. */
static void post__piece_fails(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;

    fake_fail_always("reg_mr", ENOMEM);
    slot = rig_slot(rig, false);
    fake_fail("post_send", 3, EIO);
    check_failed(rig, rig_placed(rig, slot, 1));
    rig_ops->link_close(rig->a.link);
    assert_int_equal(rig->a.device->n_pushing, 0);
    rig_slot_put(rig, slot);
}

static void post__pieces_arrive(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;

    fake_fail_always("reg_mr", ENOMEM);
    slot = rig_slot(rig, false);
    memset(rig->from, 5, sizeof rig->from);
    assert_int_equal(rig_placed(rig, slot, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_DATA), 1);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), 1);
    assert_memory_equal(rig->to, rig->from, sizeof rig->to);
    rig_slot_put(rig, slot);
}

/* A queue that is full takes nothing, and what was taken is SENT once, in order. */
static void post__full(void **state)
{
    struct rig *rig = *state;
    uint64_t taken = 0;

    fake_devices[0].hold = true;
    while (rig_message(&rig->a, 10, taken + 1) == 1)
        taken++;
    assert_in_range(taken, BR_VERBS_DEPTH / 2, BR_VERBS_DEPTH);
    assert_int_equal(rig_message(&rig->a, 10, 1), 0);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), taken);
    for (uint64_t i = 0; i < taken; i++)
        assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, i + 1);
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
}

/* Its memory is the NIC's until the completion: SENT waits. */
static void post__write_is_sent_when_done(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);

    fake_devices[0].hold = true;
    assert_int_equal(rig_placed(rig, slot, 4), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), 0);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, 4);
    rig_slot_put(rig, slot);
}

static int setup_classes(void **state)
{
    setenv("BRAID_TRAFFIC_CLASS", "8,-2:16,5:104", 1);
    return rig_setup(state);
}

static int teardown_classes(void **state)
{
    unsetenv("BRAID_TRAFFIC_CLASS");
    return rig_teardown(state);
}

/* Each frame on the queue pair of its class, messages and pieces on the first; each is SENT once
 * and arrives. */
static void post__by_priority(void **state)
{
    static const struct {
        int32_t priority;
        unsigned lane;
    } cases[] = {{INT32_MAX, 0}, {5, 0}, {4, 1}, {0, 1}, {-2, 1}, {-3, 2}, {INT32_MIN, 2}};
    struct rig *rig = *state;
    const struct br_verbs_lane *lanes = rig_link(&rig->a)->lanes;
    struct br_slot *slot = rig_slot(rig, true);

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t before[3] = {lanes[0].posted, lanes[1].posted, lanes[2].posted};

        assert_int_equal(rig_placed_urgently(rig, slot, i + 1, cases[i].priority), 1);
        for (unsigned lane = 0; lane < 3; lane++)
            assert_int_equal(lanes[lane].posted, before[lane] + (lane == cases[i].lane));
        rig_settle(rig);
        assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, i + 1);
        assert_int_equal(rig_take(&rig->b, BR_EVENT_DATA)->length, RIG_PLACE);
        assert_int_equal(rig_message(&rig->a, 10, i + 1), 1);
        assert_int_equal(lanes[0].posted, before[0] + (cases[i].lane == 0) + 1);
        rig_settle(rig);
        assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), i + 1);
        assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, i + 1);
    }
    rig_slot_put(rig, slot);
}

/* A class whose queue pair is full holds up no other. */
static void post__full_class(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);
    int taken = 0;

    fake_devices[0].hold = true;
    while (rig_placed_urgently(rig, slot, 7, 0) == 1)
        taken++;
    assert_int_equal(taken, rig->a.device->depth);
    assert_int_equal(rig_placed_urgently(rig, slot, 8, 5), 1);
    assert_int_equal(rig_placed_urgently(rig, slot, 9, -3), 1);
    assert_int_equal(rig_message(&rig->a, 10, 10), 1);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_SENT), taken + 3);
    assert_int_equal(rig_placed_urgently(rig, slot, 7, 0), 1);
    rig_settle(rig);
    rig_slot_put(rig, slot);
}

/* device_close() lets out what stands on every queue pair. */
static void flush__every_class(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);

    /* asks for a completion of what told the peer that it may write */
    br_verbs_flush(rig_link(&rig->a));
    rig_settle(rig);
    assert_false(br_verbs_flush(rig_link(&rig->a)));
    fake_devices[0].hold = true;
    assert_int_equal(rig_placed_urgently(rig, slot, 1, -3), 1);
    assert_true(br_verbs_flush(rig_link(&rig->a)));
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_false(br_verbs_flush(rig_link(&rig->a)));
    rig_slot_put(rig, slot);
}

/* A key that is none of the peer's: its NIC refuses, the link fails with a message. */
static void post__wrong_key(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);
    struct br_verbs_rkey place;

    place = br_verbs_rkey_unpack(slot->rkeys[0]);
    place.rkey ^= 0x55;
    assert_true(br_verbs_rkey_pack(&place, slot->rkeys[0]));
    assert_int_equal(rig_placed(rig, slot, 4), 1);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -EPROTO);
    assert_says(rig->a.link->message, "place");
    assert_int_equal(rig_count(&rig->b, BR_EVENT_DATA), 0);
    rig_slot_put(rig, slot);
}

int main(void)
{
#define CASE(name)    cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define CLASSES(name) cmocka_unit_test_setup_teardown(name, setup_classes, teardown_classes)
    const struct CMUnitTest tests[] = {
        CASE(post__message_fails),           CASE(post__fails_with_a_negative_value),
        CASE(post__copied_message_fails),    CASE(post__write_fails),
        CASE(post__bounced_write_fails),     CASE(post__piece_fails),
        CASE(post__pieces_arrive),           CASE(post__full),
        CASE(post__write_is_sent_when_done), CASE(post__wrong_key),
        CLASSES(post__by_priority),          CLASSES(post__full_class),
        CLASSES(flush__every_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
