/* SPDX-License-Identifier: BSD-3-Clause */
/* What is particular to TCP; what every back end must do is in tests/contract/. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/uring/uring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINKS         8
#define MESSAGE_BYTES 512
#define PLACE_BYTES   (4u << 20)

/* One end: a device, its slots and what has happened to it. */
struct end {
    struct br_slot_table slots;
    struct br_device_config config;
    struct br_device *device;
    struct br_link *links[LINKS]; /* in the order they came up */
    int n_links, n_closed, n_sent, n_messages, n_placed, error;
    bool hold;     /* keep message buffers */
    bool trusting; /* takes everybody for a peer */
    struct br_event last_message;
    uint64_t now;
};

static const struct br_transport_ops *ops;
static struct end a, b;
static uint8_t source[PLACE_BYTES], place[PLACE_BYTES];

static int open_end(struct end *end, const char *name, uint32_t max_links)
{
    memset(end, 0, sizeof *end);
    end->trusting = true;
    assert_int_equal(br_slot_table_init(&end->slots, 64), 0);
    end->config = (struct br_device_config){.name = name,
                                            .slots = &end->slots,
                                            .message_bytes = MESSAGE_BYTES,
                                            .message_buffers = 4,
                                            .max_links = max_links};
    return ops->device_open(&end->config, &end->device);
}

static void close_end(struct end *end)
{
    if (end->device)
        ops->device_close(end->device);
    br_slot_table_destroy(&end->slots);
    memset(end, 0, sizeof *end);
}

static int set_up(void **state)
{
    (void)state;
    ops = br_transport_get("uring");
    memset(place, 0, sizeof place);
    for (uint32_t i = 0; i < PLACE_BYTES; i++)
        source[i] = (uint8_t)(i * 31 + i / 4096);
    return open_end(&a, "127.0.0.1", LINKS) || open_end(&b, "127.0.0.1", LINKS);
}

static int tear_down(void **state)
{
    (void)state;
    close_end(&a);
    close_end(&b);
    return 0;
}

static void handle(struct end *end, const struct br_event *event)
{
    switch (event->kind) {
    case BR_EVENT_ACCEPTED:
    case BR_EVENT_CONNECTED:
        end->links[end->n_links++] = event->link;
        event->link->trusted = end->trusting;
        break;
    case BR_EVENT_CLOSED:
        end->n_closed++;
        end->error = event->error;
        break;
    case BR_EVENT_SENT:
        end->n_sent++;
        break;
    case BR_EVENT_MESSAGE:
        end->n_messages++;
        end->last_message = *event;
        if (!end->hold)
            ops->message_release(event->link, event->buffer);
        break;
    case BR_EVENT_PLACED:
        end->n_placed++;
        br_slot_arrive(br_slot_find(&end->slots, event->slot), event->offset, event->length);
        break;
    }
}

static void step(struct end *end, int max)
{
    struct br_event events[BR_URING_EVENTS];
    int n = ops->poll(end->device, ++end->now, events, max);

    assert_in_range(n, 0, max);
    for (int i = 0; i < n; i++)
        handle(end, &events[i]);
}

/* Both ends work until *count reaches `goal`; within two seconds. */
static void until(const int *count, int goal)
{
    for (int i = 0; *count < goal && i < 200000; i++) {
        step(&a, 1 + i % 20);
        step(&b, 1 + i % 7);
        if (i > 1000)
            nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    assert_int_equal(*count, goal);
}

static struct br_link *connect_ends(void)
{
    struct br_address address;
    struct br_link *link;
    int goal_a = a.n_links + 1, goal_b = b.n_links + 1;

    assert_int_equal(ops->device_address(b.device, &address), 0);
    assert_int_equal(ops->link_connect(a.device, &address, &link), 0);
    until(&a.n_links, goal_a);
    until(&b.n_links, goal_b);
    return link;
}

static int post_message(struct br_link *link, uint32_t length)
{
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE, .payload = source, .length = length};

    return ops->post(link, &frame, 1);
}

/* A plain socket that is connected to b. */
static int stranger(void)
{
    struct sockaddr_in to = ((struct br_uring_device *)b.device)->address.v4;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void post__large_frame_in_pieces_lands_without_a_copy(void **state)
{
    struct br_link *link = connect_ends();
    struct br_slot *slot = br_slot_get(&b.slots, place, PLACE_BYTES, PLACE_BYTES);
    struct br_frame frame = {.kind = BR_FRAME_PLACED, .payload = source, .length = PLACE_BYTES};

    (void)state;
    frame.slot = br_slot_number(&b.slots, slot);
    assert_int_equal(ops->post(link, &frame, 1), 1);
    until(&b.n_placed, 1);
    until(&a.n_sent, 1);
    assert_memory_equal(place, source, PLACE_BYTES);
    assert_int_equal(slot->missing, 0);
    assert_int_equal(a.device->counters.tx_copied_bytes + b.device->counters.rx_copied_bytes, 0);
    assert_int_equal(b.device->counters.rx_bytes, PLACE_BYTES);
    assert_int_equal(a.device->counters.tx_bytes, PLACE_BYTES);
}

static void poll__many_links_through_the_ring(void **state)
{
    struct br_slot *slots[LINKS];
    int n = LINKS;

    (void)state;
    for (int i = 0; i < n; i++)
        connect_ends();
    for (int i = 0; i < n; i++) {
        slots[i] = br_slot_get(&b.slots, place + i * 65536, 65536, 65536);
        for (uint32_t k = 0; k < 8; k++) {
            struct br_frame frame = {.kind = BR_FRAME_PLACED,
                                     .payload = source + i * 65536 + k * 8192,
                                     .length = 8192,
                                     .slot = br_slot_number(&b.slots, slots[i]),
                                     .offset = k * 8192};

            assert_int_equal(ops->post(a.links[i], &frame, 1), 1);
        }
    }
    until(&b.n_placed, 8 * n);
    until(&a.n_sent, 8 * n);
    assert_memory_equal(place, source, (size_t)n * 65536);
    assert_true(((struct br_uring_device *)a.device)->batch.ring_on || getenv("BRAID_TEST_NO_URING"));
}

static void poll__without_a_ring_the_same(void **state)
{
    br_uring_batch_destroy(&((struct br_uring_device *)a.device)->batch);
    br_uring_batch_destroy(&((struct br_uring_device *)b.device)->batch);
    setenv("BRAID_TEST_NO_URING", "1", 1);
    poll__many_links_through_the_ring(state);
    unsetenv("BRAID_TEST_NO_URING");
}

static void poll__stranger_with_malformed_bytes_loses_its_link_only(void **state)
{
    struct br_link *link = connect_ends();
    uint8_t garbage[64] = "GET / HTTP/1.1\r\n";
    int fd = stranger();

    (void)state;
    until(&b.n_links, 2);
    assert_int_equal(send(fd, garbage, sizeof garbage, 0), sizeof garbage);
    until(&b.n_closed, 1);
    assert_int_equal(b.error, -EPROTO);
    assert_non_null(strstr(b.links[1]->words, "not a braid frame"));
    assert_non_null(strstr(b.links[1]->words, b.links[1]->peer_name));
    assert_int_equal(b.device->counters.bad_frames, 1);
    assert_int_equal(post_message(b.links[1], 0), -EPROTO);
    ops->link_close(b.links[1]);
    assert_int_equal(post_message(link, 100), 1);
    until(&b.n_messages, 1);
    close(fd);
}

/* The last proof and the first placed frame may come in one packet: the former must be handled first. */
static void poll__placed_frames_wait_for_trust(void **state)
{
    struct br_slot *slot = br_slot_get(&b.slots, place, PLACE_BYTES, PLACE_BYTES);
    struct br_frame frame = {.kind = BR_FRAME_PLACED, .payload = source, .length = 65536};
    struct br_link *link;

    (void)state;
    b.trusting = false;
    link = connect_ends();
    frame.slot = br_slot_number(&b.slots, slot);
    for (int trust = 1; trust >= 0; trust--) {
        assert_int_equal(post_message(link, 10), 1);
        assert_int_equal(ops->post(link, &frame, 1), 1);
        b.links[0]->trusted = false;
        for (int goal = b.n_messages + 1, i = 0; b.n_messages < goal && i < 10000; i++) {
            step(&a, 8);
            step(&b, 8);
        }
        assert_int_equal(b.n_placed, !trust);
        b.links[0]->trusted = trust;
        until(trust ? &b.n_placed : &b.n_closed, 1);
    }
    assert_int_equal(b.error, -EPROTO);
    assert_int_equal(b.n_placed, 1);
}

static void poll__stranger_who_closes_in_the_middle_of_a_header(void **state)
{
    int fd = stranger();

    (void)state;
    until(&b.n_links, 1);
    assert_int_equal(send(fd, "rb", 2, 0), 2);
    close(fd);
    until(&b.n_closed, 1);
    assert_int_equal(b.error, -ECONNRESET);
    assert_non_null(strstr(b.links[0]->words, "peer closed"));
}

static void poll__messages_before_the_end_are_delivered(void **state)
{
    struct br_link *link = connect_ends();

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(post_message(link, 300), 1);
    until(&a.n_sent, 4);
    ops->link_close(link);
    for (int i = 0; i < 4; i++) /* b's sends meet a closed socket before b has read everything */
        post_message(b.links[0], 300);
    until(&b.n_closed, 1);
    assert_int_equal(b.n_messages, 4);
}

static void poll__links_over_the_limit_are_refused_and_counted(void **state)
{
    int fds[LINKS + 3];

    (void)state;
    for (int i = 0; i < LINKS + 3; i++)
        fds[i] = stranger();
    until(&b.n_links, LINKS);
    for (int i = 0; i < 200000 && b.device->counters.refused_links < 3; i++)
        step(&b, 64);
    assert_int_equal(b.n_links, LINKS);
    assert_int_equal(b.device->counters.refused_links, 3);
    assert_int_equal(recv(fds[LINKS], place, 1, 0), 0);
    for (int i = 0; i < LINKS + 3; i++)
        close(fds[i]);
    until(&b.n_closed, LINKS);
}

static void link_connect__to_a_closed_port_names_both_ends(void **state)
{
    struct br_address address;
    struct br_link *link;

    (void)state;
    assert_int_equal(ops->device_address(b.device, &address), 0);
    ops->device_close(b.device);
    b.device = NULL;
    assert_int_equal(ops->link_connect(a.device, &address, &link), 0);
    for (int i = 0; i < 100000 && !a.n_closed; i++)
        step(&a, 8);
    assert_int_equal(a.error, -ECONNREFUSED);
    assert_non_null(strstr(link->words, "127.0.0.1 -> 127.0.0.1:"));
    assert_non_null(strstr(link->words, strerror(ECONNREFUSED)));
    ops->link_close(link);
}

static void link_connect__bad_addresses(void **state)
{
    struct br_address address = {.bytes = 3};
    struct br_link *link;

    (void)state;
    assert_int_equal(ops->link_connect(a.device, &address, &link), -EINVAL);
    assert_int_equal(ops->device_address(b.device, &address), 0);
    address.data[0] = 6;
    assert_int_equal(ops->link_connect(a.device, &address, &link), -EAFNOSUPPORT);
    address.data[0] = 77;
    assert_int_equal(ops->link_connect(a.device, &address, &link), -EINVAL);
}

static void link_connect__all_links_in_use(void **state)
{
    struct br_address address;
    struct br_link *link;

    (void)state;
    for (int i = 0; i < LINKS; i++)
        connect_ends();
    assert_int_equal(ops->device_address(b.device, &address), 0);
    assert_int_equal(ops->link_connect(a.device, &address, &link), -EMFILE);
    ops->link_close(a.links[0]);
    assert_int_equal(ops->link_connect(a.device, &address, &link), 0);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, timeout_ms) == 1;
}

/* Polls until wait() gives its descriptor. */
static int fall_asleep(struct end *end)
{
    int fd;

    for (int i = 0; i < 1000; i++) {
        step(end, 8);
        fd = ops->wait(end->device);
        if (fd >= 0)
            return fd;
        assert_int_equal(fd, -EAGAIN);
    }
    fail_msg("never idle");
    return -1;
}

static void wait__wakes_for_a_connection_a_message_and_the_end(void **state)
{
    struct br_address address;
    struct br_link *link;
    int fd = fall_asleep(&b);

    (void)state;
    assert_false(readable(fd, 0));
    assert_int_equal(ops->device_address(b.device, &address), 0);
    assert_int_equal(ops->link_connect(a.device, &address, &link), 0);
    assert_true(readable(fd, 20000));
    until(&a.n_links, 1);
    until(&b.n_links, 1);
    for (int i = 1; i <= 40; i++) {
        fd = fall_asleep(&b);
        assert_false(readable(fd, 0));
        assert_int_equal(post_message(link, 10), 1);
        until(&a.n_sent, i);
        step(&a, 8);
        until(&b.n_messages, i);
    }
    fd = fall_asleep(&b);
    assert_int_equal(post_message(link, 10), 1);
    for (int i = 0; i < 10; i++)
        step(&a, 8);
    assert_true(readable(fd, 20000));
    until(&b.n_messages, 41);
    fd = fall_asleep(&b);
    ops->link_close(link);
    assert_true(readable(fd, 20000));
    until(&b.n_closed, 1);
}

static void wait__says_when_something_is_pending(void **state)
{
    struct br_link *link = connect_ends();

    (void)state;
    fall_asleep(&a);
    assert_int_equal(post_message(link, 10), 1);
    assert_int_equal(ops->wait(a.device), -EAGAIN);
    fall_asleep(&a);
    until(&a.n_sent, 1);
}

static void wait__does_not_spin_on_a_link_that_has_no_message_buffer(void **state)
{
    struct br_link *link = connect_ends();
    void *first;
    int fd;

    (void)state;
    b.hold = true;
    assert_int_equal(post_message(link, 10), 1);
    until(&b.n_messages, 1);
    first = b.last_message.buffer;
    for (int i = 0; i < 9; i++)
        assert_int_equal(post_message(link, 10), 1);
    until(&a.n_sent, 10);
    until(&b.n_messages, 5); /* four credits, and the one that a cheating peer gets */
    fd = fall_asleep(&b);
    assert_false(readable(fd, 10));
    ops->message_release(b.links[0], first);
    assert_int_equal(ops->wait(b.device), -EAGAIN);
    until(&b.n_messages, 6);
}

static void device_open__names(void **state)
{
    (void)state;
    close_end(&a);
    close_end(&b);
    assert_int_equal(open_end(&a, "no-such-if", 2), -ENODEV);
    assert_non_null(strstr(br_error_words(), "no network interface no-such-if; there are: "));
    close_end(&a);
    assert_int_equal(open_end(&a, "203.0.113.7", 2), -EADDRNOTAVAIL);
    assert_non_null(strstr(br_error_words(), "203.0.113.7 is no address of this host"));
    close_end(&a);
    assert_int_equal(open_end(&a, NULL, 2), 0);
    close_end(&a);
    assert_int_equal(open_end(&a, "127.0.0.2", 2), 0);
    assert_int_equal(open_end(&b, "lo", 2), 0);
    connect_ends();
    assert_non_null(strstr(b.links[0]->peer_name, "127.0.0.2:")); /* the source is the device's address */
}

static void device_open__ipv6(void **state)
{
    (void)state;
    if (access("/proc/net/if_inet6", R_OK))
        skip();
    close_end(&a);
    close_end(&b);
    if (open_end(&a, "::1", 2) == -EADDRNOTAVAIL)
        skip();
    assert_int_equal(open_end(&b, "::1", 2), 0);
    assert_int_equal(post_message(connect_ends(), 10), 1);
    until(&b.n_messages, 1);
    assert_non_null(strstr(b.links[0]->peer_name, "[::1]:"));
}

/* A peer that is stopped for less than the protocol's patience is not lost, whatever the kernel would do by itself. */
static void device_open__patience(void **state)
{
    int ms = 0;
    socklen_t bytes = sizeof ms;

    (void)state;
    close_end(&a);
    a.config.patience = 120 * BR_SEC;
    assert_int_equal(br_slot_table_init(&a.slots, 64), 0);
    assert_int_equal(ops->device_open(&a.config, &a.device), 0);
    assert_int_equal(getsockopt(((struct br_uring_device *)a.device)->listen_fd, IPPROTO_TCP,
                                TCP_USER_TIMEOUT, &ms, &bytes),
                     0);
    assert_int_equal(ms, 120000);
}

/* A malformed variable is said where the device is opened. */
static void device_open__options_from_the_environment(void **state)
{
    (void)state;
    close_end(&a);
    setenv("BRAID_PORT_RANGE", "7-3", 1);
    assert_int_equal(open_end(&a, "127.0.0.1", 2), -EINVAL);
    unsetenv("BRAID_PORT_RANGE");
    assert_non_null(strstr(br_error_words(), "BRAID_PORT_RANGE=7-3"));
    close_end(&a);
    setenv("BRAID_TCP_CONGESTION", "system", 1);
    assert_int_equal(open_end(&a, "127.0.0.1", 2), 0);
    unsetenv("BRAID_TCP_CONGESTION");
    assert_string_equal(((struct br_uring_device *)a.device)->options.congestion, "");
}

static void probe__finds_loopback(void **state)
{
    struct br_device_info info[16];
    int n = ops->probe(info, 16), found = 0;

    (void)state;
    assert_true(n >= 1);
    for (int i = 0; i < n; i++)
        if (info[i].loopback && !*info[i].why_not) {
            assert_non_null(strstr(info[i].detail, "127.0.0.1"));
            assert_non_null(strstr(info[i].detail, "zero-copy send off"));
            found++;
        }
    assert_int_equal(found, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(post__large_frame_in_pieces_lands_without_a_copy),
        TEST(poll__many_links_through_the_ring),
        TEST(poll__without_a_ring_the_same),
        TEST(poll__stranger_with_malformed_bytes_loses_its_link_only),
        TEST(poll__placed_frames_wait_for_trust),
        TEST(poll__stranger_who_closes_in_the_middle_of_a_header),
        TEST(poll__messages_before_the_end_are_delivered),
        TEST(poll__links_over_the_limit_are_refused_and_counted),
        TEST(link_connect__to_a_closed_port_names_both_ends),
        TEST(link_connect__bad_addresses),
        TEST(link_connect__all_links_in_use),
        TEST(wait__wakes_for_a_connection_a_message_and_the_end),
        TEST(wait__says_when_something_is_pending),
        TEST(wait__does_not_spin_on_a_link_that_has_no_message_buffer),
        TEST(device_open__names),
        TEST(device_open__ipv6),
        TEST(device_open__patience),
        TEST(device_open__options_from_the_environment),
        TEST(probe__finds_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
