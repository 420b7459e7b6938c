/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared receive queue: short of memory, of buffers, and of those that failed queue pairs have
 * taken along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>

#include "base/clock.h"
#include "rig.h"

/* All buffers of the queue are in the caller's hands, but for `left`. */
static void hold_all_but(struct rig *rig, uint32_t left)
{
    struct br_verbs_receive *receive = &rig->b.device->receive;

    rig->b.hold = true;
    rig->b.config.message_buffers = RIG_EVENTS;
    while (fake_buffers(receive->srq) > left || !br_list_empty(&receive->spare)) {
        assert_int_equal(rig_message(&rig->a, 0, 1), 1);
        rig_poll(rig, &rig->b);
        rig_poll(rig, &rig->a);
    }
}

static void give_back(struct rig *rig)
{
    const struct br_event *event;

    while ((event = rig_take(&rig->b, BR_EVENT_MESSAGE)))
        rig_ops->release(event->link->device, event->link, event->buffer);
}

/* No memory for more: senders wait, it is said once, and tried again now and then, not in each
 * poll. */
static void refill__no_memory(void **state)
{
    struct rig *rig = *state;
    struct br_verbs_receive *receive = &rig->b.device->receive;
    int tries;

    fake_fail_always("reg_mr", ENOMEM);
    hold_all_but(rig, 0);
    assert_true(receive->failures > 0);
    assert_int_equal(rig_message(&rig->a, 0, 77), 1);
    tries = fake_calls("reg_mr");
    for (int i = 0; i < 50; i++)
        rig_poll(rig, &rig->b);
    assert_in_range(fake_calls("reg_mr") - tries, 0, 1);
    rig->now += BR_SEC;
    rig_poll(rig, &rig->b);
    assert_true(fake_calls("reg_mr") > tries);
    /* What the caller gives back goes into the queue, and the message comes. */
    give_back(rig);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 1);
    give_back(rig);
    rig_settle(rig);
    assert_int_equal(fake_buffers(receive->srq), receive->target);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_CLOSED), 0);
}

/* When there is memory again the queue grows. */
static void refill__memory_comes_back(void **state)
{
    struct rig *rig = *state;
    struct br_verbs_receive *receive = &rig->b.device->receive;

    fake_fail_always("reg_mr", ENOMEM);
    hold_all_but(rig, 0);
    fake_heal();
    rig->now += BR_SEC;
    rig_poll(rig, &rig->b);
    assert_true(fake_buffers(receive->srq) > 0);
    give_back(rig);
}

/* Neither full nor short: the queue is broken, and a device that takes no buffers would let all its
 * peers wait for ever. */
static void refill__queue_takes_nothing(void **state)
{
    struct rig *rig = *state;

    fake_fail("post_srq_recv", 1, EINVAL);
    assert_int_equal(rig_message(&rig->a, 0, 1), 1);
    rig_settle(rig);
    assert_true(fake_has_failed());
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -ENODEV);
    assert_non_null(rig_take(&rig->b, BR_EVENT_MESSAGE)); /* it had come before */
}

/* A list of which the queue takes only the first ones. */
static void queue_takes_some(struct rig *rig, int err)
{
    struct br_verbs_receive *receive = &rig->b.device->receive;

    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(rig_message(&rig->a, 0, i), 1);
    fake_fail("post_srq_recv", 4, err);
    rig_poll(rig, &rig->b);
    rig_poll(rig, &rig->b); /* the first one had messages to take */
    assert_true(fake_has_failed());
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 8);
    assert_int_equal(receive->posted, receive->target);
    assert_int_equal(fake_buffers(receive->srq), receive->target);
}

static void refill__queue_takes_some(void **state)
{
    queue_takes_some(*state, ENOMEM);
}

/* mlx4 returns -1 and no errno from a queue that is full. */
static void refill__queue_takes_some_and_says_nothing(void **state)
{
    queue_takes_some(*state, FAKE_SILENT);
}

/* Nobody's message waits until a few missing buffers are replaced. */
static void refill__waits_for_a_poll_without_work(void **state)
{
    struct rig *rig = *state;
    struct br_verbs_receive *receive = &rig->b.device->receive;
    int calls = fake_calls("post_srq_recv");

    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(rig_message(&rig->a, 0, i), 1);
    rig_poll(rig, &rig->b);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 8);
    assert_int_equal(fake_calls("post_srq_recv"), calls);
    rig_poll(rig, &rig->b);
    assert_int_equal(fake_calls("post_srq_recv"), calls + 8);
    /* One more than a few: at once. */
    for (uint32_t i = 0; i <= receive->slack; i++)
        assert_int_equal(rig_message(&rig->a, 0, i), 1);
    rig_poll(rig, &rig->b);
    assert_true(fake_calls("post_srq_recv") > calls + 8);
    assert_int_equal(receive->posted, receive->target);
}

static void lose(struct rig *rig, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rig_ops->link_close(rig->b.link);
        rig_ops->link_close(rig->a.link);
        rig_connect(rig);
        rig->a.n_events = rig->b.n_events = 0;
    }
}

/* Queue pairs take buffers along until the limit tells; then they are replaced. */
static void limit__lost_buffers_are_replaced(void **state)
{
    struct rig *rig = *state;
    struct br_verbs_receive *receive = &rig->b.device->receive;
    uint32_t lost;

    fake_devices[1].loses_buffers = true;
    while (!receive->lost) {
        assert_true(fake_buffers(receive->srq) > 0);
        lose(rig, 1);
    }
    lost = receive->lost;
    assert_in_range(lost, receive->target / 2, receive->target);
    assert_true(fake_buffers(receive->srq) > receive->target * 3 / 4);
    assert_int_equal(receive->posted, receive->target);
    /* And a second time: the limit is asked for anew. */
    while (receive->lost == lost)
        lose(rig, 1);
    assert_int_equal(rig_message(&rig->a, 100, 5), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 1);
}

/* A queue of 96, most of which is filled between two polls. */
static int setup_large(void **state)
{
    rig_setup_unconnected(state);
    rig_close(&((struct rig *)*state)->b);
    ((struct rig *)*state)->b.config.message_bytes = 43000;
    ((struct rig *)*state)->b.config.message_buffers = RIG_EVENTS;
    ((struct rig *)*state)->b.hold = true;
    assert_int_equal(rig_open(&((struct rig *)*state)->b), 0);
    rig_connect(*state);
    return 0;
}

static void burst(struct rig *rig)
{
    struct br_verbs_receive *receive = &rig->b.device->receive;
    uint32_t n = receive->target * 3 / 4 + 8;

    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(rig_message(&rig->a, 0, i), 1);
        rig_poll(rig, &rig->a);
    }
    /* the limit event is there */
    assert_int_equal(fake_buffers(receive->srq), receive->target - n);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), n);
    assert_int_equal(receive->lost, 0);
    give_back(rig);
    rig_settle(rig);
    assert_int_equal(receive->posted, receive->target);
    assert_int_equal(fake_buffers(receive->srq), receive->target);
}

/* What has been filled and not been polled is not lost. Twice, as the limit is asked for anew. */
static void limit__a_burst_is_no_loss(void **state)
{
    struct rig *rig = *state;

    burst(rig);
    burst(rig);
}

/* The same where nothing can be replaced: the count stays right. */
static void limit__a_burst_without_memory(void **state)
{
    struct rig *rig = *state;

    fake_fail_always("reg_mr", ENOMEM);
    burst(rig);
}

/* The queue is as short as we think: nothing is lost. */
static void limit__caller_holds_them(void **state)
{
    struct rig *rig = *state;

    fake_fail_always("reg_mr", ENOMEM);
    hold_all_but(rig, 0);
    rig_settle(rig);
    assert_int_equal(rig->b.device->receive.lost, 0);
    give_back(rig);
}

/* A device without limit events serves all the same. */
static int setup_without_limit(void **state)
{
    rig_setup_unconnected(state);
    rig_close(&((struct rig *)*state)->b);
    fake_fail_always("modify_srq", EOPNOTSUPP);
    assert_int_equal(rig_open(&((struct rig *)*state)->b), 0);
    rig_connect(*state);
    return 0;
}

static void limit__is_not_to_be_had(void **state)
{
    struct rig *rig = *state;

    assert_true(fake_has_failed());
    for (int i = 0; i < 10; i++) {
        assert_int_equal(rig_message(&rig->a, 10, 1), 1);
        rig_settle(rig);
    }
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 10);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        CASE(refill__no_memory),
        CASE(refill__memory_comes_back),
        CASE(refill__queue_takes_nothing),
        CASE(refill__queue_takes_some),
        CASE(refill__queue_takes_some_and_says_nothing),
        CASE(refill__waits_for_a_poll_without_work),
        CASE(limit__lost_buffers_are_replaced),
        cmocka_unit_test_setup_teardown(limit__a_burst_is_no_loss, setup_large, rig_teardown),
        cmocka_unit_test_setup_teardown(limit__a_burst_without_memory, setup_large, rig_teardown),
        CASE(limit__caller_holds_them),
        cmocka_unit_test_setup_teardown(limit__is_not_to_be_had, setup_without_limit, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
