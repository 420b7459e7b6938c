/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/transport/shm/pair.h"

static const struct br_transport_ops *ops;

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int count_sockets(void)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[256], name[64];
    int n = 0;

    assert_non_null(file);
    snprintf(name, sizeof name, "@braid-%d-", (int)getpid());
    while (fgets(line, sizeof line, file))
        n += strstr(line, name) != NULL;
    fclose(file);
    return n;
}

static void probe__names_the_device(void **state)
{
    struct br_device_info info;

    (void)state;
    assert_int_equal(ops->probe(&info, 1), 1);
    assert_string_equal(info.name, "shm0");
    assert_string_equal(info.why_not, "");
    assert_int_equal(ops->probe(&info, 0), 0);
}

static void open__another_name(void **state)
{
    struct br_device_config config = {.name = "eth0", .message_buffers = 1, .max_links = 1};
    struct br_device *device;

    (void)state;
    assert_int_equal(br_transport_open(ops, &config, &device), -ENODEV);
    assert_non_null(strstr(br_error_message(), "eth0"));
}

static void close__leaves_nothing(void **state)
{
    void *pair;
    int fds = count_fds();

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pair_setup(&pair), 0);
        assert_true(count_sockets() >= 2);
        pair_teardown(&pair);
    }
    assert_int_equal(count_fds(), fds);
    assert_int_equal(count_sockets(), 0);
}

static void connect__to_itself(void **state)
{
    struct end *end = &((struct pair *)*state)->a;
    struct br_address address;
    struct br_link *link;

    address = end->device->address;
    assert_int_equal(ops->link_connect(end->device, &address, &link), 0);
    assert_ptr_equal(await(end, NULL, BR_EVENT_CONNECTED).link, link);
    (void)await(end, NULL, BR_EVENT_ACCEPTED);
}

static void connect__nobody_there(void **state)
{
    struct pair *pair = *state;
    struct br_address address;
    struct br_event event;
    struct br_link *link;

    address = pair->b.device->address;
    end_close(&pair->b);
    memset(&pair->b, 0, sizeof pair->b);
    assert_int_equal(ops->link_connect(pair->a.device, &address, &link), 0);
    do {
        event = await(&pair->a, NULL, BR_EVENT_CLOSED);
    } while (event.link != link);
    assert_int_equal(event.error, -ECONNREFUSED);
    assert_non_null(strstr(link->message, "refused"));
    ops->link_close(link);
}

static void connect__another_host(void **state)
{
    struct pair *pair = *state;
    struct br_address address;
    struct br_link *link;

    address = pair->b.device->address;
    address.data[20] ^= 1; /* in the boot id */
    assert_int_equal(ops->link_connect(pair->a.device, &address, &link), -EHOSTUNREACH);
    address.bytes = 3;
    assert_int_equal(ops->link_connect(pair->a.device, &address, &link), -EINVAL);
}

static void accept__too_many(void **state)
{
    struct pair *pair = *state;
    struct br_address address;
    struct br_link *link;
    struct end c;

    assert_int_equal(end_open(&c, 8), 0);
    address = pair->b.device->address;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ops->link_connect(c.device, &address, &link), 0);
    for (int i = 0; i < 3; i++)
        (void)await(&c, &pair->b, BR_EVENT_CONNECTED);
    (void)await(&c, &pair->b, BR_EVENT_CLOSED);
    assert_int_equal(pair->b.device->counters.refused_links, 1);
    end_close(&c);
}

static void accept__silent_peer_is_dropped(void **state)
{
    struct pair *pair = *state;
    struct br_shm_device *device = (struct br_shm_device *)pair->b.device;
    int fd = br_shm_socket_connect(device->socket_name);
    uint64_t now = br_clock_now();
    struct br_event event;
    char byte;

    assert_true(fd >= 0);
    /* In time of our own: a test that stands still for a moment is no unauthenticated peer that
     * does. */
    for (int i = 0; device->n_links < 2 && i < 1000; i++)
        (void)ops->poll(pair->b.device, now += BR_MS, &event, 1);
    assert_int_equal(device->n_links, 2);
    (void)ops->poll(pair->b.device, now + 3 * BR_SEC, &event, 1);
    assert_int_equal(device->n_links, 1);
    assert_int_equal(device->base.counters.refused_links, 1);
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
}

static void accept__garbage_instead_of_hello(void **state)
{
    struct pair *pair = *state;
    struct br_shm_device *device = (struct br_shm_device *)pair->b.device;
    int fd = br_shm_socket_connect(device->socket_name);

    assert_int_equal(write(fd, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    settle(&pair->a, &pair->b);
    assert_int_equal(device->n_links, 1);
    assert_int_equal(device->base.counters.refused_links, 1);
    close(fd);
}

static void arm__wakes_for_a_message(void **state)
{
    struct pair *pair = *state;
    struct pollfd p;

    settle(&pair->a, &pair->b);
    p = (struct pollfd){.fd = ops->arm(pair->b.device), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    post_message(&pair->a, NULL, "hello", 5, 1);
    assert_int_equal(poll(&p, 1, 20000), 1);
    (void)await(&pair->b, NULL, BR_EVENT_MESSAGE);
    settle(&pair->a, &pair->b);
    assert_int_equal(ops->arm(pair->b.device), p.fd); /* nothing left to do */
    assert_int_equal(poll(&p, 1, 0), 0);
}

static void arm__not_with_something_to_do(void **state)
{
    struct pair *pair = *state;

    settle(&pair->a, &pair->b);
    post_message(&pair->a, NULL, "hello", 5, 1);
    assert_int_equal(ops->arm(pair->b.device), -EAGAIN);
    assert_int_equal(ops->arm(pair->a.device), -EAGAIN); /* its SENT is due */
}

static void arm__starved_sender_wakes_for_a_released_buffer(void **state)
{
    struct pair *pair = *state;
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE};
    struct pollfd p;

    while (ops->post(pair->a.link, &frame, 1) == 1)
        continue;
    settle(&pair->a, &pair->b);
    assert_int_equal(count_events(&pair->b, BR_EVENT_MESSAGE), 16);
    p = (struct pollfd){.fd = ops->arm(pair->a.device), .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    ops->release(pair->b.link->device, pair->b.link,
                 await(&pair->b, NULL, BR_EVENT_MESSAGE).buffer);
    end_poll(&pair->b);
    assert_int_equal(poll(&p, 1, 20000), 1);
    end_poll(&pair->a);
    assert_int_equal(ops->post(pair->a.link, &frame, 1), 1);
}

int main(void)
{
#define PAIR(test) cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probe__names_the_device),
        cmocka_unit_test(open__another_name),
        cmocka_unit_test(close__leaves_nothing),
        PAIR(connect__to_itself),
        PAIR(connect__nobody_there),
        PAIR(connect__another_host),
        PAIR(accept__too_many),
        PAIR(accept__silent_peer_is_dropped),
        PAIR(accept__garbage_instead_of_hello),
        PAIR(arm__wakes_for_a_message),
        PAIR(arm__not_with_something_to_do),
        PAIR(arm__starved_sender_wakes_for_a_released_buffer),
    };

    ops = br_transport_get("shm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
