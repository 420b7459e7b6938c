/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: made, connected, opened and fenced, with each call failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

/* Connects while the nth call of that name fails. One side reports it, none has a link, nothing is
 * left but what they close. */
static void connect_with_fault(struct rig *rig, const char *call, int nth, int err)
{
    fake_fail(call, nth, err);
    rig_begin(rig);
    rig_settle(rig);
    if (rig->b.link)
        rig->b.link->authenticated = true;
    rig->a.link->authenticated = true;
    rig_settle(rig);
    assert_true(fake_has_failed());
    fake_heal();
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1);
    assert_true(rig_take(&rig->a, BR_EVENT_CLOSED)->error < 0);
    assert_int_not_equal(strlen(rig->a.link->message), 0);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_CLOSED), rig->b.link ? 1 : 0);
    rig_ops->link_close(rig->a.link);
    if (rig->b.link)
        rig_ops->link_close(rig->b.link);
    rig->b.link = NULL;
    rig->a.n_events = rig->b.n_events = 0;
    assert_int_equal(fake_live().qps, 0);
    assert_int_equal(rig->a.device->n_open + rig->b.device->n_open, 0);
    assert_int_equal(rig->a.device->n_exchanges + rig->b.device->n_exchanges, 0);
    assert_int_equal(rig->a.device->n_closed + rig->b.device->n_closed, 0);
}

static void connect_each_call_fails(struct rig *rig, int classes)
{
    int creations, modifications;

    rig_connect(rig);
    creations = fake_calls("create_qp");
    modifications = fake_calls("modify_qp");
    assert_int_equal(creations, 2 * classes);
    assert_int_equal(modifications, 8 * classes); /* init, receive, send and open on both sides */
    rig_ops->link_close(rig->a.link);
    rig_ops->link_close(rig->b.link);
    rig->b.link = NULL;
    for (int nth = 1; nth <= creations; nth++) {
        connect_with_fault(rig, "create_qp", nth, ENOMEM);
        connect_with_fault(rig, "create_qp", nth, FAKE_SILENT);
    }
    for (int nth = 1; nth <= modifications; nth++)
        connect_with_fault(rig, "modify_qp", nth, EINVAL);
    connect_with_fault(rig, "post_send", 1, EIO); /* which tells the peer that it may write */
    /* nothing has stayed behind that would hinder it */
    rig_connect(rig);
}

static void connect__each_call_fails(void **state)
{
    connect_each_call_fails(*state, 1);
}

static void connect__each_call_fails_with_classes(void **state)
{
    connect_each_call_fails(*state, 2);
}

/* So much does not go inline on this device: a header alone does. */
static void create__little_goes_inline(void **state)
{
    struct rig *rig = *state;

    fake_fail("create_qp", 1, EINVAL);
    rig_connect(rig);
    assert_int_equal(fake_calls("create_qp"), 3);
    assert_int_equal(rig_link(&rig->a)->max_inline + rig_link(&rig->b)->max_inline, 64 + 192);
    assert_int_equal(rig_message(&rig->a, 100, 1), 1);
    assert_int_equal(rig_message(&rig->b, 100, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_MESSAGE) + rig_count(&rig->b, BR_EVENT_MESSAGE),
                     2);
}

static int teardown_classes(void **state)
{
    unsetenv("BRAID_SERVICE_LEVEL");
    unsetenv("BRAID_TRAFFIC_CLASS");
    unsetenv("BRAID_VERBS_CONNECT");
    return rig_teardown(state);
}

static int setup_one_class(void **state)
{
    setenv("BRAID_SERVICE_LEVEL", "3", 1);
    setenv("BRAID_TRAFFIC_CLASS", "104", 1);
    return rig_setup(state);
}

static void ready__service_level_and_traffic_class(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(fake_service_level(rig_link(&rig->a)->lanes[0].qp), 3);
    assert_int_equal(fake_service_level(rig_link(&rig->b)->lanes[0].qp), 3);
    assert_int_equal(fake_traffic_class(rig_link(&rig->a)->lanes[0].qp), 104);
}

static int setup_classes(void **state)
{
    setenv("BRAID_SERVICE_LEVEL", "3", 1);
    setenv("BRAID_TRAFFIC_CLASS", "8,1:104", 1);
    return rig_setup_unconnected(state);
}

static int setup_classes_cm(void **state)
{
    setenv("BRAID_VERBS_CONNECT", "cm", 1);
    return setup_classes(state);
}

static void ready__class_has_a_queue_pair(void **state)
{
    struct rig *rig = *state;
    const struct rig_end *ends[] = {&rig->a, &rig->b};

    rig_connect(rig);
    for (int i = 0; i < 2; i++) {
        const struct br_verbs_lane *lanes = rig_link(ends[i])->lanes;

        assert_ptr_not_equal(lanes[0].qp, lanes[1].qp);
        assert_int_equal(fake_traffic_class(lanes[0].qp), 104); /* the most urgent first */
        assert_int_equal(fake_traffic_class(lanes[1].qp), 8);
        assert_int_equal(fake_service_level(lanes[0].qp), 3);
        assert_int_equal(fake_service_level(lanes[1].qp), 3);
    }
    assert_int_equal(fake_live().qps, 4);
    rig_ops->link_close(rig->a.link);
    assert_int_equal(fake_live().qps, 2);
}

static void ready__other_classes_than_the_peer(void **state)
{
    struct rig *rig = *state;

    rig_close(&rig->a);
    setenv("BRAID_TRAFFIC_CLASS", "104", 1);
    assert_int_equal(rig_open(&rig->a), 0);
    rig_begin(rig);
    rig_settle(rig);
    assert_null(rig->b.link);
    assert_true(rig_take(&rig->a, BR_EVENT_CLOSED)->error < 0);
    assert_int_equal(rig->b.device->n_open, 0);
}

/* link_close() with work under way: in error and destroyed before it returns, so the slice can be
 * sent again elsewhere. What had not left never arrives, nothing of it is reported, and all memory
 * is back. */
static void close__fences(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot = rig_slot(rig, true);

    fake_devices[0].hold = true;
    memset(rig->from, 1, sizeof rig->from);
    assert_int_equal(rig_placed(rig, slot, 1), 1);
    assert_int_equal(rig_message(&rig->a, 4096, 2), 1);
    rig_settle(rig);
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count - 1);
    rig->a.n_events = 0; /* the message is SENT: it was copied */
    rig_ops->link_close(rig->a.link);
    assert_int_equal(fake_live().qps, 1);
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig->a.n_events, 0);
    assert_int_equal(rig->to[0], 0);
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -ECONNRESET);
    rig_ops->link_close(rig->b.link);
    rig_connect(rig);
    rig->a.n_events = 0;
    assert_int_equal(rig_placed(rig, slot, 3), 1);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_SENT)->cookie, 3);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_DATA), 1);
    assert_memory_equal(rig->to, rig->from, sizeof rig->to);
    rig_slot_put(rig, slot);
}

/* Frames of both classes and messages are on their way: none arrives, nothing of them is left. */
static void close__fences_every_class(void **state)
{
    struct rig *rig = *state;
    struct br_slot *slot;

    rig_connect(rig);
    slot = rig_slot(rig, true);
    fake_devices[0].hold = true;
    memset(rig->from, 1, sizeof rig->from);
    for (int32_t priority = 0; priority < 2; priority++)
        assert_int_equal(rig_placed_urgently(rig, slot, 1, priority), 1);
    assert_int_equal(rig_message(&rig->a, 4096, 2), 1);
    rig_ops->link_close(rig->a.link);
    assert_int_equal(fake_live().qps, 2);
    assert_int_equal(rig->a.device->numbers.count, 0);
    assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig->a.n_events, 0);
    assert_int_equal(rig->to[0], 0);
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -ECONNRESET);
    rig_slot_put(rig, slot);
}

/* One queue pair of the link breaks: the link has failed, and the other carries nothing any
 * more. */
static void close__class_fails(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < 2; i++) {
        rig_connect(rig);
        fake_devices[0].hold = true;
        assert_int_equal(rig_message(&rig->a, 300, 1), 1);
        fake_event_qp(IBV_EVENT_QP_FATAL, rig_link(&rig->a)->lanes[i].qp);
        rig_settle(rig);
        fake_devices[0].hold = false;
        assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -EIO);
        for (int lane = 0; lane < 2; lane++)
            assert_int_equal(fake_state(rig_link(&rig->a)->lanes[lane].qp), IBV_QPS_ERR);
        assert_int_equal(rig_message(&rig->a, 10, 9), -EIO);
        rig_ops->link_close(rig->a.link);
        rig_settle(rig);
        rig_ops->link_close(rig->b.link);
        rig->a.n_events = rig->b.n_events = 0;
    }
}

/* The queue pair cannot be moved to ERROR: destroying it fences as well. */
static void close__no_error_state(void **state)
{
    struct rig *rig = *state;

    fake_fail("modify_qp", 1, EIO);
    rig_ops->link_close(rig->a.link);
    assert_true(fake_has_failed());
    assert_int_equal(fake_live().qps, 1);
    assert_false(rig->a.device->dead);
    rig_settle(rig);
    rig_ops->link_close(rig->b.link);
    rig_connect(rig);
}

/* It cannot be destroyed: nothing says that it is fenced, so the device is not to be used any
 * more. */
static void close__cannot_be_destroyed(void **state)
{
    struct rig *rig = *state;
    struct br_link *first = rig->a.link, *second;
    struct br_address address;

    address = rig->b.device->base.address;
    assert_int_equal(rig_ops->link_connect(&rig->a.device->base, &address, &second), 0);
    rig_settle(rig);
    rig->a.n_events = 0;
    fake_fail("destroy_qp", 1, EBUSY);
    rig_ops->link_close(first);
    rig_settle(rig);
    assert_true(rig->a.device->dead);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    rig_close(&rig->a);
    rig_close(&rig->b);
    fake_abandon();
}

/* Completions that flushing leaves in the queue are not those of the link that is made next. */
static void close__number_comes_again(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < 20; i++) {
        fake_devices[0].hold = true;
        for (uint64_t n = 0; n < 20; n++)
            assert_int_equal(rig_message(&rig->a, 300, n), 1);
        fake_break(rig_link(&rig->a)->lanes[0].qp, IBV_WC_RETRY_EXC_ERR);
        fake_devices[0].hold = false;
        if (i % 2)
            rig_settle(rig);
        rig_ops->link_close(rig->a.link);
        rig_settle(rig);
        rig_ops->link_close(rig->b.link);
        rig->a.n_events = rig->b.n_events = 0;
        rig_connect(rig);
        assert_int_equal(rig->a.n_events, 0);
        assert_int_equal(rig->a.device->copies.n_free, rig->a.device->copies.count);
    }
}

int main(void)
{
#define CASE(name)           cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define CLASSES(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown_classes)
#define ALONE(t)             cmocka_unit_test_setup_teardown(t, rig_setup_unconnected, rig_teardown)
    const struct CMUnitTest tests[] = {
        ALONE(connect__each_call_fails),
        ALONE(create__little_goes_inline),
        CLASSES(ready__service_level_and_traffic_class, setup_one_class),
        CLASSES(connect__each_call_fails_with_classes, setup_classes),
        CLASSES(ready__class_has_a_queue_pair, setup_classes),
        CLASSES(ready__class_has_a_queue_pair, setup_classes_cm),
        CLASSES(ready__other_classes_than_the_peer, setup_classes),
        CLASSES(close__fences_every_class, setup_classes),
        CLASSES(close__class_fails, setup_classes),
        CASE(close__fences),
        CASE(close__no_error_state),
        CASE(close__cannot_be_destroyed),
        CASE(close__number_comes_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
