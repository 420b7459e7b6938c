/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of asynchronous event of a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "rig.h"
#include "tests/says.h"

/* Raises it at a, and says what CLOSED then says; 0: the link stands. */
static int error_after(struct rig *rig, enum ibv_event_type type, uint8_t port)
{
    const struct br_event *closed;

    if (type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
        type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_PATH_MIG_ERR)
        fake_event_qp(type, rig_link(&rig->a)->lanes[0].qp);
    else
        fake_event(0, type, port);
    rig_settle(rig);
    closed = rig_take(&rig->a, BR_EVENT_CLOSED);
    return closed ? closed->error : 0;
}

static void close_both(struct rig *rig)
{
    rig_ops->link_close(rig->a.link);
    if (rig->b.link)
        rig_ops->link_close(rig->b.link);
    rig->a.link = rig->b.link = NULL;
    rig->a.n_events = rig->b.n_events = 0;
    rig_settle(rig);
}

/* The link fails with a message, its queue pair is in error, the peer hears of it; then they
 * connect again. */
static void fails_and_comes_back(struct rig *rig, enum ibv_event_type type, int error)
{
    assert_int_equal(error_after(rig, type, 1), error);
    assert_int_not_equal(strlen(rig->a.link->message), 0);
    assert_int_equal(fake_state(rig_link(&rig->a)->lanes[0].qp), IBV_QPS_ERR);
    assert_non_null(rig_take(&rig->b, BR_EVENT_CLOSED));
    close_both(rig);
    assert_int_equal(fake_live().qps, 0);
    rig_connect(rig);
}

static void events__of_the_queue_pair(void **state)
{
    struct rig *rig = *state;

    fails_and_comes_back(rig, IBV_EVENT_QP_FATAL, -EIO);
    fails_and_comes_back(rig, IBV_EVENT_QP_REQ_ERR, -EIO);
    fails_and_comes_back(rig, IBV_EVENT_QP_ACCESS_ERR, -EIO);
    fails_and_comes_back(rig, IBV_EVENT_PATH_MIG_ERR, -EIO);
}

static void dies(struct rig *rig, enum ibv_event_type type)
{
    struct br_link *link;
    struct br_address address;

    assert_int_equal(error_after(rig, type, 1), -ENODEV);
    close_both(rig);
    address = rig->b.device->base.address;
    assert_int_equal(rig_ops->link_connect(&rig->a.device->base, &address, &link), 0);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    assert_says(link->message, "restart");
    rig_ops->link_close(link);
    /* Nobody comes in, either. */
    address = rig->a.device->base.address;
    assert_int_equal(rig_ops->link_connect(&rig->b.device->base, &address, &link), 0);
    rig_settle(rig);
    assert_int_not_equal(rig_take(&rig->b, BR_EVENT_CLOSED)->error, 0);
    rig_ops->link_close(link);
    assert_int_equal(rig_count(&rig->a, BR_EVENT_ACCEPTED), 0);
    /* And who waits for it sleeps. */
    assert_int_equal(rig_ops->arm(&rig->a.device->base), rig->a.device->epoll_fd);
    rig_close(&rig->a);
    assert_int_equal(rig_open(&rig->a), 0);
    rig_connect(rig);
}

static void events__of_the_device(void **state)
{
    struct rig *rig = *state;

    dies(rig, IBV_EVENT_CQ_ERR);
    dies(rig, IBV_EVENT_SRQ_ERR);
    dies(rig, IBV_EVENT_DEVICE_FATAL);
    dies(rig, IBV_EVENT_WQ_FATAL);
}

/* A card that has been taken out has no events any more, only an error, and its descriptor is
 * readable for ever. */
static void events__cannot_be_read(void **state)
{
    struct rig *rig = *state;
    struct pollfd fd;

    fake_fail_always("get_async_event", EIO);
    fake_event(0, IBV_EVENT_COMM_EST, 1);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENODEV);
    close_both(rig);
    fd = (struct pollfd){.fd = rig_ops->arm(&rig->a.device->base), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 0);
}

static void port_goes(struct rig *rig, bool known)
{
    struct br_address address;
    struct br_link *link;

    if (known)
        fake_devices[0].state = IBV_PORT_DOWN;
    else
        fake_fail_always("query_port", EIO);
    assert_int_equal(error_after(rig, IBV_EVENT_PORT_ERR, 1), -ENETDOWN);
    assert_non_null(strstr(rig->a.link->message, "port 1 is down"));
    close_both(rig);
    address = rig->b.device->base.address;
    assert_int_equal(rig_ops->link_connect(&rig->a.device->base, &address, &link), 0);
    rig_settle(rig);
    assert_int_equal(rig_take(&rig->a, BR_EVENT_CLOSED)->error, -ENETDOWN);
    rig_ops->link_close(link);
    fake_heal();
    fake_devices[0].state = IBV_PORT_ACTIVE;
    fake_event(0, IBV_EVENT_PORT_ACTIVE, 1);
    rig_settle(rig);
    rig_connect(rig);
}

static void events__port_goes_and_comes(void **state)
{
    port_goes(*state, true);
    port_goes(*state, false); /* and cannot even be asked */
}

static void events__port_is_up_again_already(void **state)
{
    assert_int_equal(error_after(*state, IBV_EVENT_PORT_ERR, 1), 0);
}

static void events__of_another_port(void **state)
{
    struct rig *rig = *state;

    fake_devices[0].state = IBV_PORT_DOWN;
    assert_int_equal(error_after(rig, IBV_EVENT_PORT_ERR, 2), 0);
    assert_int_equal(error_after(rig, IBV_EVENT_LID_CHANGE, 2), 0);
    memset(&fake_devices[0].gid, 0, sizeof fake_devices[0].gid);
    assert_int_equal(error_after(rig, IBV_EVENT_GID_CHANGE, 2), 0);
}

static void events__lid_change(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(error_after(rig, IBV_EVENT_LID_CHANGE, 1), 0); /* Ethernet has none */
    fake_devices[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
    assert_int_equal(error_after(rig, IBV_EVENT_LID_CHANGE, 1), -ENETRESET);
}

static void events__gid_stays(void **state)
{
    assert_int_equal(error_after(*state, IBV_EVENT_GID_CHANGE, 1), 0);
}

/* While it is gone there is nothing to connect with; when it is back there is. */
static void events__gid_goes_and_comes(void **state)
{
    struct rig *rig = *state;
    union ibv_gid gid = fake_devices[0].gid;

    memset(&fake_devices[0].gid, 0, sizeof fake_devices[0].gid);
    assert_int_equal(error_after(rig, IBV_EVENT_GID_CHANGE, 1), -EADDRNOTAVAIL);
    close_both(rig);
    rig_begin(rig);
    rig_settle(rig);
    assert_non_null(rig_take(&rig->a, BR_EVENT_CLOSED));
    close_both(rig);
    fake_devices[0].gid = gid;
    fake_event(0, IBV_EVENT_GID_CHANGE, 1);
    rig_settle(rig);
    rig_connect(rig);
}

static void events__gid_cannot_be_asked(void **state)
{
    fake_fail_always("query_gid", EIO);
    assert_int_equal(error_after(*state, IBV_EVENT_GID_CHANGE, 1), -EADDRNOTAVAIL);
}

static void events__that_change_nothing(void **state)
{
    static const enum ibv_event_type types[] = {
        IBV_EVENT_COMM_EST,          IBV_EVENT_SQ_DRAINED,
        IBV_EVENT_PATH_MIG,          IBV_EVENT_QP_LAST_WQE_REACHED,
        IBV_EVENT_PKEY_CHANGE,       IBV_EVENT_SM_CHANGE,
        IBV_EVENT_CLIENT_REREGISTER, (enum ibv_event_type)99};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_int_equal(error_after(*state, types[i], 1), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        CASE(events__of_the_queue_pair),
        CASE(events__of_the_device),
        CASE(events__cannot_be_read),
        CASE(events__port_goes_and_comes),
        CASE(events__port_is_up_again_already),
        CASE(events__of_another_port),
        CASE(events__lid_change),
        CASE(events__gid_stays),
        CASE(events__gid_goes_and_comes),
        CASE(events__gid_cannot_be_asked),
        CASE(events__that_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
