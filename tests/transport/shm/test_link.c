/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/transport/shm/pair.h"
#include "transport/segment.h"

static const struct br_transport_ops *ops;

/* A process that connects to `address`, sends one message and then stands still. */
static pid_t fork_peer(const struct br_address *address)
{
    struct br_event event;
    struct end end;
    pid_t pid = fork();

    if (pid)
        return pid;
    if (end_open(&end, 4) || ops->link_connect(end.device, address, &end.link))
        _exit(1);
    do {
        while (ops->poll(end.device, br_clock_now(), &event, 1) < 1)
            continue;
    } while (event.kind != BR_EVENT_CONNECTED);
    post_message(&end, NULL, "here", 4, 0);
    for (;;)
        pause();
}

static void listen__peer_is_killed(void **state)
{
    struct br_address address;
    struct br_event event;
    struct end end;
    pid_t pid;

    (void)state;
    assert_int_equal(end_open(&end, 4), 0);
    address = end.device->address;
    pid = fork_peer(&address);
    end.link = await(&end, NULL, BR_EVENT_ACCEPTED).link;
    (void)await(&end, NULL, BR_EVENT_MESSAGE);
    kill(pid, SIGKILL);
    event = await(&end, NULL, BR_EVENT_CLOSED);
    assert_int_equal(event.error, -ECONNRESET);
    assert_non_null(strstr(end.link->message, "ended"));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    end_close(&end);
}

#define BYTES (1u << 20)

/* A process that sends frames of BYTES equal bytes, another value each, from plain memory and from
 * a segment, for ever. */
static pid_t fork_stream(const struct br_address *address, uint32_t slot)
{
    struct br_region regions[2] = {{.bytes = BYTES, .segment_fd = -1}, {.bytes = BYTES, .id = 1}};
    struct end end;
    pid_t pid = fork();

    if (pid)
        return pid;
    regions[0].base = malloc(BYTES);
    if (end_open(&end, 4) ||
        br_segment_alloc(BYTES, -1, &regions[1].base, &regions[1].segment_fd) ||
        ops->region_register(end.device, &regions[1]) ||
        ops->link_connect(end.device, address, &end.link))
        _exit(1);
    (void)await(&end, NULL, BR_EVENT_MESSAGE); /* we are trusted now */
    for (int k = 0;; k++) {
        memset(regions[k % 2].base, k, BYTES);
        post_placed(&end, regions[k % 2].base, BYTES, slot, 0, &regions[k % 2], 1);
        (void)await(&end, NULL, BR_EVENT_SENT);
    }
}

static void listen__sender_is_killed_while_we_copy(void **state)
{
    uint8_t *to = malloc(BYTES);
    int placed = 0, here;

    (void)state;
    for (uint64_t round = 0; round < 10; round++) {
        struct br_event event = {0};
        struct br_address address;
        struct br_slot *slot;
        uint64_t kill_at;
        struct end end;
        pid_t pid;

        assert_int_equal(end_open(&end, 4), 0);
        slot = br_slot_get(&end.slots, to, BYTES, BYTES);
        address = end.device->address;
        pid = fork_stream(&address, br_slot_number(&end.slots, slot));
        end.link = await(&end, NULL, BR_EVENT_ACCEPTED).link;
        end.link->authenticated = true;
        post_message(&end, NULL, NULL, 0, 0);
        here = 0;
        kill_at = br_clock_now() + 10 * BR_MS + round * 777 * BR_US;
        while (event.kind != BR_EVENT_CLOSED) {
            if (kill_at && here >= 2 &&
                br_clock_now() > kill_at) { /* in the middle of a copy, also on a loaded machine */
                kill(pid, SIGKILL);
                kill_at = 0;
            }
            if (ops->poll(end.device, br_clock_now(), &event, 1) && event.kind == BR_EVENT_DATA) {
                assert_memory_equal(to, to + 1, BYTES - 1); /* all bytes alike */
                placed++;
                here++;
            }
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        end_close(&end);
    }
    assert_true(placed > 10);
    free(to);
}

static void listen__messages_before_the_end_are_delivered(void **state)
{
    struct pair *pair = *state;

    for (int i = 0; i < 3; i++)
        post_message(&pair->a, NULL, "bye", 4, 0);
    ops->link_close(pair->a.link);
    (void)await(&pair->b, &pair->a, BR_EVENT_CLOSED);
    assert_int_equal(count_events(&pair->b, BR_EVENT_MESSAGE), 3);
    assert_non_null(strstr(pair->b.link->message, "closed"));
    ops->link_close(pair->b.link);
}

static void close__what_was_posted_is_not_written(void **state)
{
    struct pair *pair = *state;
    static uint8_t from[4096], to[4096];
    struct br_slot *slot = br_slot_get(&pair->b.slots, to, sizeof to, sizeof to);

    post_placed(&pair->a, from, sizeof from, br_slot_number(&pair->b.slots, slot), 0, NULL, 0);
    ops->link_close(pair->a.link);
    (void)await(&pair->b, &pair->a, BR_EVENT_CLOSED);
    assert_int_equal(count_events(&pair->b, BR_EVENT_DATA), 0);
}

static void close__peer_sees_it_and_post_fails(void **state)
{
    struct pair *pair = *state;
    struct br_frame frame = {.kind = BR_FRAME_MESSAGE};

    ops->link_close(pair->b.link);
    (void)await(&pair->a, NULL, BR_EVENT_CLOSED);
    assert_int_equal(ops->post(pair->a.link, &frame, 1), -ENOTCONN);
    ops->link_close(pair->a.link);
    settle(&pair->a, &pair->b);
    assert_int_equal(pair->a.n_events, 0);
}

/* What was found of the peer's memory is not looked for where it was: neither once the peer has
 * left, while its last messages are still here, nor once the link has failed. */
static void close__what_is_shared_may_be_out_of_reach(void **state)
{
    struct pair *pair = *state;
    struct br_shm_link *link = inside(&pair->b);
    uint32_t before = pair->b.device->unshared;

    post_message(&pair->a, NULL, "here", 4, 0);
    ops->link_close(pair->a.link);
    while (!link->peer_left)
        br_shm_link_listen(link);
    assert_int_equal(link->state, BR_SHM_OPEN);
    assert_int_not_equal(pair->b.device->unshared, before);
    before = pair->b.device->unshared;
    (void)await(&pair->b, NULL, BR_EVENT_MESSAGE);
    (void)await(&pair->b, NULL, BR_EVENT_CLOSED);
    assert_int_not_equal(pair->b.device->unshared, before);
}

static void fd__crosses_the_link(void **state)
{
    struct pair *pair = *state;
    int fd = br_segment_create("test", 100), got;
    size_t bytes;

    assert_int_equal(br_shm_link_take_fd(pair->b.link, 7), -EAGAIN);
    assert_int_equal(br_shm_link_send_fd(pair->a.link, 7, fd), 0);
    assert_int_equal(br_shm_link_take_fd(pair->b.link, 8), -EAGAIN);
    got = br_shm_link_take_fd(pair->b.link, 7);
    assert_true(got >= 0);
    assert_int_equal(br_segment_check(got, &bytes), 0);
    assert_int_equal(bytes, 4096);
    assert_int_equal(br_shm_link_take_fd(pair->b.link, 7), -EAGAIN);
    close(got);
    close(fd);
}

static void fd__flood_fails_the_link(void **state)
{
    struct pair *pair = *state;

    for (int i = 0; i <= BR_SHM_FDS; i++)
        assert_int_equal(br_shm_link_send_fd(pair->a.link, 1, 0), 0);
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_CLOSED).error, -EPROTO);
}

/* The device works through what came in when it is polled, on a loaded machine perhaps late. */
static void await_refusals(struct pair *pair, const struct br_shm_device *device, uint64_t n)
{
    uint64_t until = br_clock_now() + 20 * BR_SEC;

    while (device->base.counters.refused_links < n && br_clock_now() < until)
        settle(&pair->a, &pair->b);
}

static void hello__inbox_that_can_shrink_is_refused(void **state)
{
    struct pair *pair = *state;
    struct br_shm_device *device = (struct br_shm_device *)pair->b.device;
    struct br_packet packet = {.kind = BR_PACKET_HELLO,
                               .hello = {.message_bytes = 64, .message_buffers = 1}};
    int fd = br_shm_socket_connect(device->socket_name), inbox = memfd_create("trap", MFD_CLOEXEC);

    assert_int_equal(ftruncate(inbox, 1 << 20), 0);
    assert_int_equal(br_shm_packet_send(fd, &packet, inbox), 0);
    await_refusals(pair, device, 1);
    assert_int_equal(device->n_links, 1);
    assert_int_equal(device->base.counters.refused_links, 1);
    close(inbox);
    close(fd);
}

static void hello__inbox_too_small_is_refused(void **state)
{
    struct pair *pair = *state;
    struct br_shm_device *device = (struct br_shm_device *)pair->b.device;
    struct br_packet packet = {.kind = BR_PACKET_HELLO,
                               .hello = {.message_bytes = 4096, .message_buffers = 64}};
    int fd = br_shm_socket_connect(device->socket_name), inbox = br_segment_create("small", 4096);

    assert_int_equal(br_shm_packet_send(fd, &packet, inbox), 0);
    await_refusals(pair, device, 1);
    assert_int_equal(device->n_links, 1);
    packet.hello.message_buffers = UINT32_MAX;
    close(fd);
    fd = br_shm_socket_connect(device->socket_name);
    assert_int_equal(br_shm_packet_send(fd, &packet, inbox), 0);
    await_refusals(pair, device, 2);
    assert_int_equal(device->n_links, 1);
    close(inbox);
    close(fd);
}

static void packet__out_of_turn_fails_the_link(void **state)
{
    struct pair *pair = *state;
    struct br_packet packet = {.kind = BR_PACKET_CONFIRM};

    assert_int_equal(br_shm_packet_send(inside(&pair->a)->socket, &packet, -1), 0);
    assert_int_equal(await(&pair->b, &pair->a, BR_EVENT_CLOSED).error, -EPROTO);
    assert_int_equal(pair->b.device->counters.bad_frames, 1);
}

int main(void)
{
#define PAIR(test) cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listen__peer_is_killed),
        cmocka_unit_test(listen__sender_is_killed_while_we_copy),
        PAIR(listen__messages_before_the_end_are_delivered),
        PAIR(close__what_was_posted_is_not_written),
        PAIR(close__peer_sees_it_and_post_fails),
        PAIR(close__what_is_shared_may_be_out_of_reach),
        PAIR(fd__crosses_the_link),
        PAIR(fd__flood_fails_the_link),
        PAIR(hello__inbox_that_can_shrink_is_refused),
        PAIR(hello__inbox_too_small_is_refused),
        PAIR(packet__out_of_turn_fails_the_link),
    };

    ops = br_transport_get("shm");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
