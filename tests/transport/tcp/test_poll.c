/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames, unauthenticated peers and waiting over TCP; what every back end must do is in
 * tests/contract/. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void post__large_frame_in_pieces_lands_in_its_place(void **state)
{
    struct br_link *link = ends_connect();
    struct br_slot *slot =
        br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, ENDS_PLACE_BYTES);
    struct br_frame frame = {
        .kind = BR_FRAME_DATA, .payload = ends_source, .length = ENDS_PLACE_BYTES, .cookie = 1};

    (void)state;
    frame.slot = br_slot_number(&ends_b.slots, slot);
    assert_int_equal(ends_ops->post(link, &frame, 1), 1);
    ends_until(&ends_b.n_data_frames, 1);
    ends_until(&ends_a.n_sent, 1);
    assert_memory_equal(ends_place, ends_source, ENDS_PLACE_BYTES);
    assert_int_equal(slot->missing, 0);
    assert_int_equal(ends_a.device->counters.tx_copied_bytes, 0);
    /* no more than what was read ahead with the header, and behind a large one nothing is */
    assert_true(ends_b.device->counters.rx_copied_bytes < BR_TCP_AHEAD);
    assert_true(((struct br_tcp_link *)ends_b.links[0])->bulk);
    assert_int_equal(ends_b.device->counters.rx_bytes, ENDS_PLACE_BYTES);
    assert_int_equal(ends_a.device->counters.tx_bytes, ENDS_PLACE_BYTES);
}

static void post__alone_leaves_without_a_poll(void **state)
{
    struct br_link *link = ends_connect();

    (void)state;
    link->alone = true;
    assert_int_equal(ends_message(link, 20), 1);
    link->alone = false;
    assert_false(ends_a.device->unsent);
    for (int i = 0; ends_b.n_messages < 1 && i < 60000; i++) {
        ends_step(&ends_b, 8);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(ends_b.n_messages, 1);
    assert_int_equal(ends_message(link, 20), 1);
    assert_true(ends_a.device->unsent);
    ends_until(&ends_b.n_messages, 2);
    assert_false(ends_a.device->unsent);
    ends_until(&ends_a.n_sent, 2);
}

/* Waits until so many bytes have come to the socket. */
static void await_bytes(int fd, int bytes)
{
    int here = 0;

    for (int i = 0; here < bytes && i < 60000; i++) {
        assert_int_equal(ioctl(fd, FIONREAD, &here), 0);
        if (here < bytes)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    assert_int_equal(here, bytes);
}

/* What has been read ahead and found no room in one poll comes in the next, without a call, and
 * keeps the device from going to sleep. */
static void poll__small_frames_come_several_by_a_call(void **state)
{
    enum { N = 40, LENGTH = 20, ROOM = 4 };
    struct br_link *link = ends_connect();
    struct br_device_counters *counters = &ends_b.device->counters;
    uint64_t calls;

    (void)state;
    for (int i = 0; i < N; i++)
        assert_int_equal(ends_message(link, LENGTH), 1);
    for (int i = 0; ends_a.n_sent < N && i < 1000; i++)
        ends_step(&ends_a, BR_TCP_EVENTS);
    await_bytes(((struct br_tcp_link *)ends_b.links[0])->fd,
                N * (int)(sizeof(struct br_frame_header) + LENGTH));
    ends_b.links[0]->authenticated = true;
    calls = counters->system_calls;
    for (int n = ROOM; n <= N; n += ROOM) {
        ends_step(&ends_b, ROOM);
        assert_int_equal(ends_b.n_messages, n);
        if (n < N)
            assert_int_equal(ends_ops->arm(ends_b.device), -EAGAIN);
        assert_true((((struct br_tcp_link *)ends_b.links[0])->ahead != NULL) == (n < N));
    }
    /* epoll_wait() in each arm() and in each poll behind it */
    assert_true(counters->system_calls - calls <= 2 * N / ROOM + 1);
}

static void poll__many_links_through_the_ring(void **state)
{
    struct br_slot *slots[ENDS_LINKS];
    int n = ENDS_LINKS;

    (void)state;
    for (int i = 0; i < n; i++)
        ends_connect();
    for (int i = 0; i < n; i++) {
        slots[i] = br_slot_get(&ends_b.slots, ends_place + i * 65536, 65536, 65536);
        for (uint32_t k = 0; k < 8; k++) {
            struct br_frame frame = {.kind = BR_FRAME_DATA,
                                     .payload = ends_source + i * 65536 + k * 8192,
                                     .length = 8192,
                                     .slot = br_slot_number(&ends_b.slots, slots[i]),
                                     .offset = k * 8192,
                                     .cookie = 1};

            assert_int_equal(ends_ops->post(ends_a.links[i], &frame, 1), 1);
        }
    }
    ends_until(&ends_b.n_data_frames, 8 * n);
    ends_until(&ends_a.n_sent, 8 * n);
    assert_memory_equal(ends_place, ends_source, (size_t)n * 65536);
    for (int i = 0; i < n; i++)
        assert_null(((struct br_tcp_link *)ends_b.links[i])->ahead);
    assert_true(((struct br_tcp_device *)ends_a.device)->batch.ring_on ||
                getenv("BRAID_TEST_NO_URING"));
}

static void poll__without_a_ring_the_same(void **state)
{
    br_tcp_batch_destroy(&((struct br_tcp_device *)ends_a.device)->batch);
    br_tcp_batch_destroy(&((struct br_tcp_device *)ends_b.device)->batch);
    setenv("BRAID_TEST_NO_URING", "1", 1);
    poll__many_links_through_the_ring(state);
    unsetenv("BRAID_TEST_NO_URING");
}

static void poll__unauthenticated_with_malformed_bytes_loses_its_link_only(void **state)
{
    struct br_link *link = ends_connect();
    uint8_t garbage[64] = "GET / HTTP/1.1\r\n";
    int fd = ends_stranger();

    (void)state;
    ends_until(&ends_b.n_links, 2);
    assert_int_equal(send(fd, garbage, sizeof garbage, 0), sizeof garbage);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.error, -EPROTO);
    assert_non_null(strstr(ends_b.links[1]->message, "not a braid frame"));
    assert_non_null(strstr(ends_b.links[1]->message, ends_b.links[1]->peer_name));
    assert_int_equal(ends_b.device->counters.bad_frames, 1);
    assert_int_equal(ends_message(ends_b.links[1], 0), -EPROTO);
    ends_ops->link_close(ends_b.links[1]);
    assert_int_equal(ends_message(link, 100), 1);
    ends_until(&ends_b.n_messages, 1);
    close(fd);
}

/* The last proof and the first placed frame may come in one packet: the former must be handled
 * first. */
static void poll__data_frames_wait_for_authentication(void **state)
{
    struct br_slot *slot =
        br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, ENDS_PLACE_BYTES);
    struct br_frame frame = {.kind = BR_FRAME_DATA, .payload = ends_source, .length = 65536};
    struct br_link *link;

    (void)state;
    ends_b.trusting = false;
    link = ends_connect();
    frame.slot = br_slot_number(&ends_b.slots, slot);
    for (int trust = 1; trust >= 0; trust--) {
        assert_int_equal(ends_message(link, 10), 1);
        assert_int_equal(ends_ops->post(link, &frame, 1), 1);
        ends_b.links[0]->authenticated = false;
        for (int goal = ends_b.n_messages + 1, i = 0; ends_b.n_messages < goal && i < 10000; i++) {
            ends_step(&ends_a, 8);
            ends_step(&ends_b, 8);
        }
        assert_int_equal(ends_b.n_data_frames, !trust);
        ends_b.links[0]->authenticated = trust;
        ends_until(trust ? &ends_b.n_data_frames : &ends_b.n_closed, 1);
    }
    assert_int_equal(ends_b.error, -EPROTO);
    assert_int_equal(ends_b.n_data_frames, 1);
}

static void poll__unauthenticated_who_closes_in_the_middle_of_a_header(void **state)
{
    int fd = ends_stranger();

    (void)state;
    ends_until(&ends_b.n_links, 1);
    assert_int_equal(send(fd, "rb", 2, 0), 2);
    close(fd);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.error, -ECONNRESET);
    assert_non_null(strstr(ends_b.links[0]->message, "peer closed"));
}

static void poll__messages_before_the_end_are_delivered(void **state)
{
    struct br_link *link = ends_connect();

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(ends_message(link, 300), 1);
    ends_until(&ends_a.n_sent, 4);
    ends_ops->link_close(link);
    for (int i = 0; i < 4; i++) /* b's sends meet a closed socket before b has read everything */
        ends_message(ends_b.links[0], 300);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.n_messages, 4);
}

static void poll__links_over_the_limit_are_refused_and_counted(void **state)
{
    int fds[ENDS_LINKS + 3];

    (void)state;
    for (int i = 0; i < ENDS_LINKS + 3; i++)
        fds[i] = ends_stranger();
    ends_until(&ends_b.n_links, ENDS_LINKS);
    for (int i = 0; i < 200000 && ends_b.device->counters.refused_links < 3; i++)
        ends_step(&ends_b, 64);
    assert_int_equal(ends_b.n_links, ENDS_LINKS);
    assert_int_equal(ends_b.device->counters.refused_links, 3);
    assert_int_equal(recv(fds[ENDS_LINKS], ends_place, 1, 0), 0);
    for (int i = 0; i < ENDS_LINKS + 3; i++)
        close(fds[i]);
    ends_until(&ends_b.n_closed, ENDS_LINKS);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, timeout_ms) == 1;
}

/* Polls until arm() gives its descriptor. */
static int fall_asleep(struct end *end)
{
    int fd;

    for (int i = 0; i < 1000; i++) {
        ends_step(end, 8);
        fd = ends_ops->arm(end->device);
        if (fd >= 0)
            return fd;
        assert_int_equal(fd, -EAGAIN);
    }
    fail_msg("never idle");
    return -1;
}

static void arm__wakes_for_a_connection_a_message_and_the_end(void **state)
{
    struct br_address address;
    struct br_link *link;
    int fd = fall_asleep(&ends_b);

    (void)state;
    assert_false(readable(fd, 0));
    address = ends_b.device->address;
    assert_int_equal(ends_ops->link_connect(ends_a.device, &address, &link), 0);
    assert_true(readable(fd, 20000));
    ends_until(&ends_a.n_links, 1);
    ends_until(&ends_b.n_links, 1);
    for (int i = 1; i <= 40; i++) {
        fd = fall_asleep(&ends_b);
        assert_false(readable(fd, 0));
        assert_int_equal(ends_message(link, 10), 1);
        ends_until(&ends_a.n_sent, i);
        ends_step(&ends_a, 8);
        ends_until(&ends_b.n_messages, i);
    }
    fd = fall_asleep(&ends_b);
    assert_int_equal(ends_message(link, 10), 1);
    for (int i = 0; i < 10; i++)
        ends_step(&ends_a, 8);
    assert_true(readable(fd, 20000));
    ends_until(&ends_b.n_messages, 41);
    fd = fall_asleep(&ends_b);
    ends_ops->link_close(link);
    assert_true(readable(fd, 20000));
    ends_until(&ends_b.n_closed, 1);
}

static void arm__says_when_something_is_pending(void **state)
{
    struct br_link *link = ends_connect();

    (void)state;
    fall_asleep(&ends_a);
    assert_int_equal(ends_message(link, 10), 1);
    assert_int_equal(ends_ops->arm(ends_a.device), -EAGAIN);
    fall_asleep(&ends_a);
    ends_until(&ends_a.n_sent, 1);
}

static void arm__does_not_spin_on_a_link_that_has_no_message_buffer(void **state)
{
    struct br_link *link = ends_connect();
    void *first;
    int fd;

    (void)state;
    ends_b.hold = true;
    assert_int_equal(ends_message(link, 10), 1);
    ends_until(&ends_b.n_messages, 1);
    first = ends_b.last_message.buffer;
    for (int i = 0; i < 9; i++)
        assert_int_equal(ends_message(link, 10), 1);
    ends_until(&ends_a.n_sent, 10);
    ends_until(&ends_b.n_messages, 5); /* four credits, and the one that a cheating peer gets */
    fd = fall_asleep(&ends_b);
    assert_false(readable(fd, 10));
    ends_ops->release(ends_b.links[0]->device, ends_b.links[0], first);
    assert_int_equal(ends_ops->arm(ends_b.device), -EAGAIN);
    ends_until(&ends_b.n_messages, 6);
}

/* Polls until epoll no longer tells of the only link, which is tried in each poll. */
static struct br_tcp_link *let_the_only_link_leave_epoll(struct end *end)
{
    struct br_tcp_link *link = (struct br_tcp_link *)end->links[0];

    for (int i = 0; link->watched && i < 10000; i++)
        ends_step(end, 8);
    assert_false(link->watched);
    return link;
}

/* Also where a poll has just asked epoll; and it stays for a while. */
static void arm__only_link_stays_watched_for_a_while(void **state)
{
    struct br_tcp_device *device = (struct br_tcp_device *)ends_b.device;
    struct br_tcp_link *only;
    int fd;

    (void)state;
    ends_connect();
    only = let_the_only_link_leave_epoll(&ends_b);
    for (int i = 0; !device->checked && i < 10000; i++)
        ends_step(&ends_b, 8);
    assert_true(device->checked);
    assert_false(only->watched);
    fd = ends_ops->arm(ends_b.device);
    assert_int_equal(fd, device->epoll_fd);
    assert_false(readable(fd, 0)); /* not because the socket takes bytes */
    for (int i = 0; i < 10; i++)
        ends_step(&ends_b, 8);
    assert_true(only->watched);
}

static bool epoll_is_full;

int __real_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    if (epoll_is_full && op == EPOLL_CTL_ADD) {
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(epoll_fd, op, fd, event);
}

/* Who would sleep polls until there is room. */
static void arm__epoll_without_room_for_the_only_link(void **state)
{
    struct br_link *link = ends_connect();
    struct br_tcp_link *only = let_the_only_link_leave_epoll(&ends_b);

    (void)state;
    epoll_is_full = true;
    assert_int_equal(ends_ops->arm(ends_b.device), -EAGAIN);
    assert_int_equal(ends_message(link, 10), 1);
    ends_until(&ends_b.n_messages, 1);
    epoll_is_full = false;
    assert_int_equal(fall_asleep(&ends_b), ((struct br_tcp_device *)ends_b.device)->epoll_fd);
    assert_true(only->watched);
    assert_int_equal(ends_b.n_closed, 0);
}

/* They are refused, and the link that is there goes on. */
static void poll__epoll_without_room_for_more_links(void **state)
{
    struct br_link *link = ends_connect(), *refused;
    struct br_address address = ends_b.device->address;
    int fd;

    (void)state;
    let_the_only_link_leave_epoll(&ends_a);
    let_the_only_link_leave_epoll(&ends_b);
    epoll_is_full = true;
    assert_true(ends_ops->link_connect(ends_a.device, &address, &refused) < 0);
    assert_non_null(strstr(br_error_message(), strerror(ENOSPC)));
    fd = ends_stranger();
    for (int i = 0; !ends_b.device->counters.refused_links && i < 60000; i++)
        ends_step(&ends_b, 8);
    assert_int_equal(ends_b.device->counters.refused_links, 1);
    assert_int_equal(recv(fd, ends_place, 1, 0), 0);
    assert_int_equal(ends_message(link, 10), 1);
    ends_until(&ends_b.n_messages, 1);
    assert_int_equal(ends_message(ends_b.links[0], 10), 1);
    ends_until(&ends_a.n_messages, 1);
    epoll_is_full = false;
    ends_connect();
    assert_true(((struct br_tcp_link *)link)->watched);
    assert_true(((struct br_tcp_link *)ends_b.links[0])->watched);
    assert_int_equal(ends_a.n_closed + ends_b.n_closed, 0);
    close(fd);
}

/* What a peer sends on a link that has failed wakes nobody. */
static void arm__failed_link_is_not_watched(void **state)
{
    uint8_t garbage[64] = "GET / HTTP/1.1\r\n";
    int plain = ends_stranger(), fd;

    (void)state;
    ends_until(&ends_b.n_links, 1);
    assert_int_equal(send(plain, garbage, sizeof garbage, 0), sizeof garbage);
    ends_until(&ends_b.n_closed, 1);
    fd = fall_asleep(&ends_b);
    assert_int_equal(send(plain, garbage, 8, 0), 8);
    await_bytes(((struct br_tcp_link *)ends_b.links[0])->fd, 8);
    assert_false(readable(fd, 0));
    close(plain);
}

static void arm__watches_the_only_link_again(void **state)
{
    struct br_link *link = ends_connect();
    struct br_tcp_link *only = let_the_only_link_leave_epoll(&ends_b);
    int fd;

    (void)state;
    assert_int_equal(ends_message(link, 10), 1);
    ends_step(&ends_a, 8);
    await_bytes(only->fd, (int)sizeof(struct br_frame_header) + 10);
    assert_int_equal(ends_ops->arm(ends_b.device), -EAGAIN); /* it is here already */
    assert_true(only->watched);
    ends_until(&ends_b.n_messages, 1);
    let_the_only_link_leave_epoll(&ends_b);
    fd = ends_ops->arm(ends_b.device);
    assert_int_equal(fd, ((struct br_tcp_device *)ends_b.device)->epoll_fd);
    assert_false(readable(fd, 10)); /* not because the socket takes bytes */
    assert_int_equal(ends_message(link, 10), 1);
    ends_step(&ends_a, 8);
    assert_true(readable(fd, 60000));
    ends_until(&ends_b.n_messages, 2);
    let_the_only_link_leave_epoll(&ends_b);
    ends_ops->link_close(link);
    fd = ends_ops->arm(ends_b.device);
    assert_true(fd < 0 || readable(fd, 60000));
    ends_until(&ends_b.n_closed, 1);
}

static void poll__only_link_outside_epoll_and_another_one(void **state)
{
    struct br_tcp_link *first;

    (void)state;
    ends_connect();
    first = let_the_only_link_leave_epoll(&ends_b);
    ends_connect();
    assert_true(first->watched);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ends_message(ends_a.links[i], 10), 1);
    ends_until(&ends_b.n_messages, 2);
}

/* It comes back to hear when there is room again, and stays for a while. Where epoll has no room
 * it is tried. */
static void poll__only_link_outside_epoll_fills_its_socket(void **state)
{
    struct br_tcp_link *link;
    struct br_frame frame = {
        .kind = BR_FRAME_DATA, .payload = ends_source, .length = ENDS_PLACE_BYTES};
    int room = 256 << 10; /* else the kernel's window may grow to the whole frame */

    (void)state;
    frame.slot = br_slot_number(
        &ends_b.slots, br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, ENDS_PLACE_BYTES));
    ends_connect();
    assert_int_equal(setsockopt(((struct br_tcp_link *)ends_b.links[0])->fd, SOL_SOCKET, SO_RCVBUF,
                                &room, sizeof room),
                     0);
    for (int full = 1; full >= 0; full--) {
        epoll_is_full = full;
        link = let_the_only_link_leave_epoll(&ends_a);
        memset(ends_place, 0, ENDS_PLACE_BYTES);
        assert_int_equal(ends_ops->post(&link->base, &frame, 1), 1);
        for (int i = 0; link->writable && i < 10000; i++)
            ends_step(&ends_a, 8);
        assert_false(link->writable);
        for (int i = 0; link->tx.sent != link->tx.posted && i < 1000000; i++) {
            ends_step(&ends_a, 8);
            assert_int_equal(link->watched, !full);
            ends_step(&ends_b, 8);
        }
        ends_step(&ends_a, 8);
        assert_int_equal(link->watched, !full);
        ends_until(&ends_b.n_data_frames, 2 - full);
        assert_memory_equal(ends_place, ends_source, ENDS_PLACE_BYTES);
        frame.slot = br_slot_number(&ends_b.slots, br_slot_get(&ends_b.slots, ends_place,
                                                               ENDS_PLACE_BYTES, ENDS_PLACE_BYTES));
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ends_set_up, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(post__large_frame_in_pieces_lands_in_its_place),
        TEST(post__alone_leaves_without_a_poll),
        TEST(poll__small_frames_come_several_by_a_call),
        TEST(poll__many_links_through_the_ring),
        TEST(poll__without_a_ring_the_same),
        TEST(poll__unauthenticated_with_malformed_bytes_loses_its_link_only),
        TEST(poll__data_frames_wait_for_authentication),
        TEST(poll__unauthenticated_who_closes_in_the_middle_of_a_header),
        TEST(poll__messages_before_the_end_are_delivered),
        TEST(poll__links_over_the_limit_are_refused_and_counted),
        TEST(arm__wakes_for_a_connection_a_message_and_the_end),
        TEST(arm__says_when_something_is_pending),
        TEST(arm__does_not_spin_on_a_link_that_has_no_message_buffer),
        TEST(arm__watches_the_only_link_again),
        TEST(arm__only_link_stays_watched_for_a_while),
        TEST(arm__epoll_without_room_for_the_only_link),
        TEST(arm__failed_link_is_not_watched),
        TEST(poll__epoll_without_room_for_more_links),
        TEST(poll__only_link_outside_epoll_and_another_one),
        TEST(poll__only_link_outside_epoll_fills_its_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
