/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections by rdma_cm: each call fails once, each event comes. */
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

static int setup(void **state)
{
    setenv("BRAID_VERBS_CONNECT", "cm", 1);
    return rig_setup_unconnected(state);
}

static int teardown(void **state)
{
    unsetenv("BRAID_VERBS_CONNECT");
    return rig_teardown(state);
}

/* Both ends close what they have; nothing stays but the two listeners. */
static void close_both(struct rig *rig)
{
    rig_ops->link_close(rig->a.link);
    if (rig->b.link)
        rig_ops->link_close(rig->b.link);
    rig->b.link = NULL;
    rig_settle(rig);
    rig->a.n_events = rig->b.n_events = 0;
    assert_int_equal(fake_live().qps, 0);
    assert_int_equal(fake_live().ids, 2);
    assert_int_equal(rig->a.device->n_open + rig->b.device->n_open, 0);
    assert_int_equal(rig->a.device->n_exchanges + rig->b.device->n_exchanges, 0);
}

static void listen__each_call_fails(void **state)
{
    static const char *const calls[] = {"cm_create_event_channel", "cm_create_id", "cm_bind_addr",
                                        "cm_listen"};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        rig_close(&rig->a);
        fake_fail(calls[i], 1, EMFILE);
        assert_int_equal(rig_open(&rig->a), -EMFILE);
        assert_true(fake_has_failed());
        assert_non_null(strstr(br_error_message(), "fake0: rdma_"));
        assert_int_equal(fake_live().ids, 1);
        fake_heal();
        assert_int_equal(rig_open(&rig->a), 0);
    }
}

static void listen__no_librdmacm(void **state)
{
    struct rig *rig = *state;

    rig_close(&rig->a);
    fake_without_cm();
    assert_int_equal(rig_open(&rig->a), -EOPNOTSUPP);
    assert_says(br_error_message(), "BRAID_VERBS_CONNECT=cm|librdmacm");
    unsetenv("BRAID_VERBS_CONNECT"); /* without it nobody needs that library */
    assert_int_equal(rig_open(&rig->a), 0);
}

static void connect__each_call_fails(void **state)
{
    static const struct {
        const char *name;
        int nth;
    } calls[] = {{"cm_create_id", 1},    {"cm_resolve_addr", 1}, {"cm_resolve_route", 1},
                 {"create_qp", 1},       {"cm_connect", 1},      {"create_qp", 2},
                 {"cm_init_qp_attr", 1}, {"cm_init_qp_attr", 2}, {"modify_qp", 3},
                 {"cm_accept", 1},       {"cm_init_qp_attr", 3}, {"modify_qp", 6},
                 {"cm_init_qp_attr", 4}, {"cm_establish", 1}};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fake_fail(calls[i].name, calls[i].nth, EIO);
        rig_begin(rig);
        rig_settle(rig);
        assert_true(fake_has_failed());
        fake_heal();
        assert_int_equal(rig_count(&rig->a, BR_EVENT_CONNECTED), 0);
        assert_int_equal(rig_count(&rig->b, BR_EVENT_ACCEPTED), 0);
        assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1);
        assert_true(rig_take(&rig->a, BR_EVENT_CLOSED)->error < 0);
        assert_int_not_equal(strlen(rig->a.link->message), 0);
        close_both(rig);
    }
    rig_connect(rig);
    close_both(rig);
}

static void connect__uses_what_rdma_cm_knows(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    assert_int_equal(rig_link(&rig->a)->fd, -1); /* no TCP */
    assert_int_not_equal(rig_link(&rig->a)->psn, 0);
    assert_int_equal(rig_message(&rig->a, 1000, 1), 1);
    assert_int_equal(rig_message(&rig->b, 1000, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_MESSAGE) + rig_count(&rig->b, BR_EVENT_MESSAGE),
                     2);
}

static void connect__nobody_listens(void **state)
{
    struct rig *rig = *state;
    struct br_address address;

    address = rig->b.device->base.address;
    rig_close(&rig->b);
    assert_int_equal(rig_ops->link_connect(&rig->a.device->base, &address, &rig->a.link), 0);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ECONNREFUSED);
    assert_non_null(strstr(rig->a.link->message, "nobody listens"));
}

static void connect__other_way_at_the_peer(void **state)
{
    struct rig *rig = *state;

    rig_close(&rig->b);
    unsetenv("BRAID_VERBS_CONNECT");
    assert_int_equal(rig_open(&rig->b), 0);
    for (int i = 0; i < 2; i++) {
        struct rig_end *from = i ? &rig->b : &rig->a, *to = i ? &rig->a : &rig->b;
        struct br_address address;
        struct br_link *link;

        address = to->device->base.address;
        assert_int_equal(rig_ops->link_connect(&from->device->base, &address, &link), -EINVAL);
        assert_non_null(strstr(br_error_message(), "set BRAID_VERBS_CONNECT alike"));
    }
}

/* Where nobody listens the process has ended; one that lives may refuse for other reasons. */
static void events__rejected(void **state)
{
    static const int reasons[] = {8, -ECONNREFUSED, 28, 3};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        rig_begin(rig);
        fake_cm_event(rig_link(&rig->a)->id, RDMA_CM_EVENT_REJECTED, reasons[i]);
        for (int n = 0; n < 3 && !rig_count(&rig->a, BR_EVENT_CLOSED); n++)
            rig_poll(rig, &rig->a);
        assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error,
                         i < 2 ? -ECONNREFUSED : -ECONNRESET);
        close_both(rig);
    }
}

static void events__that_end_the_exchange(void **state)
{
    static const enum rdma_cm_event_type types[] = {
        RDMA_CM_EVENT_ADDR_ERROR,  RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_CONNECT_ERROR,
        RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_REJECTED,    RDMA_CM_EVENT_DISCONNECTED};
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        rig_begin(rig);
        fake_cm_event(rig_link(&rig->a)->id, types[i],
                      types[i] == RDMA_CM_EVENT_REJECTED ? 28 : -ETIMEDOUT);
        for (int n = 0; n < 3 && !rig_count(&rig->a, BR_EVENT_CLOSED); n++)
            rig_poll(rig, &rig->a);
        assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error,
                         types[i] == RDMA_CM_EVENT_REJECTED       ? -ECONNRESET
                         : types[i] == RDMA_CM_EVENT_DISCONNECTED ? -ECONNREFUSED
                                                                  : -ETIMEDOUT);
        close_both(rig);
    }
}

static void events__that_mean_nothing(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    fake_cm_event(rig_link(&rig->a)->id, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    fake_cm_event(rig_link(&rig->a)->id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    fake_cm_event(rig->a.device->cm.listener, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 0);
}

/* What the peer has said before it went is reported first. */
static void events__peer_closes(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    assert_int_equal(rig_message(&rig->b, 10, 1), 1);
    rig_ops->link_close(rig->b.link);
    rig->b.link = NULL;
    rig_settle(rig);
    assert_int_equal(rig->a.events[0].kind, BR_EVENT_MESSAGE);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ECONNRESET);
    close_both(rig);
}

/* A link that fails on our side is told to the peer at once. */
static void events__we_fail(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    fake_event_qp(IBV_EVENT_QP_FATAL, rig_link(&rig->a)->lanes[0].qp);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_CLOSED), 1);
    close_both(rig);
}

static void events__device_is_removed(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    fake_cm_event(rig_link(&rig->a)->id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    close_both(rig);
}

/* Links that are up stay, and nobody is kept awake. */
static void events__cannot_be_read(void **state)
{
    struct rig *rig = *state;

    rig_connect(rig);
    fake_fail("cm_get_event", 1, EIO);
    fake_cm_event(rig->a.device->cm.listener, RDMA_CM_EVENT_ADDR_CHANGE, 0);
    rig_settle(rig);
    assert_true(fake_has_failed());
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(listen__each_call_fails),   CASE(listen__no_librdmacm),
        CASE(connect__each_call_fails),  CASE(connect__uses_what_rdma_cm_knows),
        CASE(connect__nobody_listens),   CASE(connect__other_way_at_the_peer),
        CASE(events__rejected),          CASE(events__that_end_the_exchange),
        CASE(events__that_mean_nothing), CASE(events__peer_closes),
        CASE(events__we_fail),           CASE(events__device_is_removed),
        CASE(events__cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
