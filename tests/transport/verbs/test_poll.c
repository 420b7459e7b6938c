/* SPDX-License-Identifier: BSD-3-Clause */
/* Polling: completions in error, a completion queue that fails, waiting, and what comes before its
 * link is up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rig.h"

static void breaks(struct rig *rig, enum ibv_wc_status status, int error)
{
    fake_devices[0].hold = true;
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(rig_message(&rig->a, 2000, i), 1);
    rig_settle(rig);
    fake_break(rig_link(&rig->a)->lanes[0].qp, status);
    fake_devices[0].hold = false;
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1); /* though three completions say so */
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, error);
    assert_int_equal(fake_state(rig_link(&rig->a)->lanes[0].qp), IBV_QPS_ERR);
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -ECONNRESET);
    rig_ops->link_close(rig->a.link);
    rig_ops->link_close(rig->b.link);
    rig->a.n_events = rig->b.n_events = 0;
    rig_connect(rig);
}

static void poll__completions_in_error(void **state)
{
    static const struct {
        enum ibv_wc_status status;
        int error;
    } kinds[] = {{IBV_WC_LOC_LEN_ERR, -EPROTO},
                 {IBV_WC_LOC_QP_OP_ERR, -EIO},
                 {IBV_WC_LOC_PROT_ERR, -EFAULT},
                 {IBV_WC_WR_FLUSH_ERR, -ECONNABORTED},
                 {IBV_WC_MW_BIND_ERR, -EIO},
                 {IBV_WC_BAD_RESP_ERR, -EIO},
                 {IBV_WC_LOC_ACCESS_ERR, -EFAULT},
                 {IBV_WC_REM_INV_REQ_ERR, -EPROTO},
                 {IBV_WC_REM_ACCESS_ERR, -EPROTO},
                 {IBV_WC_REM_OP_ERR, -EIO},
                 {IBV_WC_RETRY_EXC_ERR, -ETIMEDOUT},
                 {IBV_WC_RNR_RETRY_EXC_ERR, -ETIMEDOUT},
                 {IBV_WC_REM_ABORT_ERR, -EIO},
                 {IBV_WC_FATAL_ERR, -EIO},
                 {IBV_WC_RESP_TIMEOUT_ERR, -ETIMEDOUT},
                 {IBV_WC_GENERAL_ERR, -EIO}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        breaks(*state, kinds[i].status, kinds[i].error);
}

/* The peer's queue pair is gone, as when its process has died: the NIC says so, and the socket its
 * part. */
static void poll__peer_is_gone(void **state)
{
    struct rig *rig = *state;

    rig_ops->link_close(rig->b.link);
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    rig_settle(rig);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_CLOSED), 1);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ECONNRESET);
}

static void poll__queue_fails(void **state)
{
    struct rig *rig = *state;

    fake_fail("poll_cq", 1, EIO);
    rig_settle(rig);
    assert_true(fake_has_failed());
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    assert_true(rig->a.device->dead);
    assert_false(rig->b.device->dead);
}

/* The first words of the peer may stand in the completion queue before the last byte of the
 * exchange stands in the socket: ACCEPTED comes first all the same. */
static void poll__message_before_the_link_is_up(void **state)
{
    struct rig *rig = *state;
    struct br_verbs_link *early;

    rig_begin(rig);
    while (!rig_count(&rig->a, BR_EVENT_CONNECTED)) {
        rig_poll(rig, &rig->b);
        rig_poll(rig, &rig->a);
    }
    assert_int_equal(rig->b.device->n_open, 1);
    early = rig->b.device->open[0];
    assert_int_equal(early->state, BR_VLINK_CONNECTING);
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    br_verbs_drain(rig->b.device); /* what a poll does behind its look at the sockets */
    assert_int_equal(early->n_inbox, 1);
    rig->b.device->n_exchanges--; /* so that it does not look at them again */
    rig->b.device->check_events = false;
    rig->b.device->next_check = UINT64_MAX;
    rig_poll(rig, &rig->b);
    assert_int_equal(rig->b.n_events, 0);
    rig->b.device->n_exchanges++;
    rig->b.device->next_check = 0;
    rig_settle(rig);
    assert_int_equal(rig->b.events[0].kind, BR_EVENT_ACCEPTED);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 1);
}

/* arm() asks for a notification: what comes makes the descriptor readable, and the notification is
 * acknowledged. */
static void arm__wakes(void **state)
{
    struct rig *rig = *state;
    struct pollfd fd = {.fd = rig_ops->arm(&rig->b.device->base), .events = POLLIN};

    assert_true(fd.fd >= 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    assert_int_equal(poll(&fd, 1, 0), 1);
    rig_poll(rig, &rig->b);
    assert_int_equal(rig_count(&rig->b, BR_EVENT_MESSAGE), 1);
    assert_int_equal(poll(&fd, 1, 0), 0);
    /* What is there already is not waited for. */
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    assert_int_equal(rig_ops->arm(&rig->b.device->base), -EAGAIN);
}

static void arm__cannot_be_armed(void **state)
{
    struct rig *rig = *state;

    fake_fail("req_notify_cq", 1, EINVAL);
    assert_int_equal(rig_ops->arm(&rig->a.device->base), -EAGAIN);
    /* there is something to report */
    assert_int_equal(rig_ops->arm(&rig->a.device->base), -EAGAIN);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    assert_true(rig_ops->arm(&rig->a.device->base) >= 0);
}

/* Its descriptor would stay readable: given up, so that whoever waits can sleep. */
static void arm__channel_fails(void **state)
{
    struct rig *rig = *state;
    struct pollfd fd = {.fd = rig_ops->arm(&rig->b.device->base), .events = POLLIN};

    fake_fail_always("get_cq_event", EIO);
    assert_int_equal(rig_message(&rig->a, 10, 1), 1);
    assert_int_equal(poll(&fd, 1, 0), 1);
    rig_settle(rig);
    assert_true(fake_has_failed());
    assert_int_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, -ENODEV);
    rig_ops->link_close(rig->b.link);
    assert_true(rig_ops->arm(&rig->b.device->base) >= 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        CASE(poll__completions_in_error),
        CASE(poll__peer_is_gone),
        CASE(poll__queue_fails),
        cmocka_unit_test_setup_teardown(poll__message_before_the_link_is_up, rig_setup_unconnected,
                                        rig_teardown),
        CASE(arm__wakes),
        CASE(arm__cannot_be_armed),
        CASE(arm__channel_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
