/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract of these devices is checked by tests/contract (tcp-threaded, udp-threaded). */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/transport.h"

static struct br_slot_table slots;
static struct br_device_config config;
static struct br_device *device;

static int setup(void **state)
{
    (void)state;
    config = (struct br_device_config){.name = "127.0.0.1",
                                       .slots = &slots,
                                       .message_bytes = 1024,
                                       .message_buffers = 4,
                                       .max_links = 2};
    return br_slot_table_init(&slots, 4) ||
           br_transport_open(br_transport_threaded(br_transport_get("tcp")), &config, &device);
}

static int teardown(void **state)
{
    (void)state;
    device->ops->device_close(device);
    assert_null(slots.views);
    br_slot_table_destroy(&slots);
    return 0;
}

static void transport_threaded__which_back_ends(void **state)
{
    const struct br_transport_ops *ops;

    (void)state;
    for (int i = 0; (ops = br_transport_at(i)); i++) {
        const struct br_transport_ops *threaded = br_transport_threaded(ops);

        assert_true(!threaded == (strcmp(ops->name, "tcp") != 0 && strcmp(ops->name, "udp") != 0));
        if (threaded) {
            assert_string_equal(threaded->name, ops->name);
            assert_ptr_equal(br_transport_threaded(threaded), threaded);
        }
    }
}

static void device_open__fails_like_that_of_the_back_end(void **state)
{
    const struct br_transport_ops *ops = br_transport_threaded(br_transport_get("udp"));
    struct br_device_config wrong = {.name = "no-such-nic",
                                     .slots = &slots,
                                     .message_bytes = 1024,
                                     .message_buffers = 4,
                                     .max_links = 2};
    struct br_device *none = NULL;

    (void)state;
    assert_int_equal(br_slot_table_init(&slots, 4), 0);
    assert_true(br_transport_open(ops, &wrong, &none) < 0);
    assert_non_null(strstr(br_error_message(), "no-such-nic"));
    assert_null(none);
    assert_null(slots.views);
    br_slot_table_destroy(&slots);
}

static void poll__behind_until_the_thread_has_looked(void **state)
{
    struct br_event events[4];

    (void)state;
    assert_int_equal(device->ops->poll(device, UINT64_MAX, events, 4), 0);
    assert_true(device->behind); /* it has not looked at the end of all time */
    do {
        sched_yield();
        assert_int_equal(device->ops->poll(device, br_clock_now(), events, 4), 0);
    } while (device->behind);
}

/* Who sleeps in the descriptor is woken by the thread, which sleeps itself. */
static void arm__wakes_for_a_link(void **state)
{
    struct br_event events[4];
    struct br_link *link;
    int n = 0, fd;

    (void)state;
    do {
        sched_yield();
        assert_int_equal(device->ops->poll(device, br_clock_now(), events, 4), 0);
    } while (device->behind);
    fd = device->ops->arm(device);
    assert_true(fd >= 0);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
    assert_int_equal(device->ops->link_connect(device, &device->address, &link), 0);
    while (n < 2) { /* CONNECTED, ACCEPTED, both with what the back end knows */
        fd = device->ops->arm(device);
        if (fd >= 0)
            assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000), 1);
        for (int i = device->ops->poll(device, br_clock_now(), events, 4); i-- > 0; n++)
            assert_true(events[i].link->facts.min_rtt);
    }
    link->facts.min_rtt = 0;
    device->ops->poll(device, br_clock_now() + BR_LINK_FACTS_AGE, events, 4);
    assert_true(link->facts.min_rtt);
    assert_int_equal(n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transport_threaded__which_back_ends),
        cmocka_unit_test(device_open__fails_like_that_of_the_back_end),
        cmocka_unit_test_setup_teardown(poll__behind_until_the_thread_has_looked, setup, teardown),
        cmocka_unit_test_setup_teardown(arm__wakes_for_a_link, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
