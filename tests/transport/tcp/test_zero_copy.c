/* SPDX-License-Identifier: BSD-3-Clause */
/* Zero-copy send: its trial on a link, what it costs against a copy, and SENT. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "ends.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/resource.h>
#include <unistd.h>

#define FRAMES 8

/* `way` is BRAID_TCP_ZERO_COPY of both ends. Returns a's link, on which FRAMES large frames for
 * b's place were posted; nobody has polled since. */
static struct br_tcp_link *begin(const char *way)
{
    const uint32_t bytes = ENDS_PLACE_BYTES / FRAMES;
    const int little = 32 << 10;
    struct br_slot *slot;
    struct br_link *link;

    ends_close(&ends_a);
    ends_close(&ends_b);
    setenv("BRAID_TCP_ZERO_COPY", way, 1);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", ENDS_LINKS), 0);
    assert_int_equal(ends_open(&ends_b, "127.0.0.1", ENDS_LINKS), 0);
    unsetenv("BRAID_TCP_ZERO_COPY");
    slot = br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, bytes);
    link = ends_connect();
    assert_int_equal(setsockopt(((struct br_tcp_link *)ends_b.links[0])->fd, SOL_SOCKET, SO_RCVBUF,
                                &little, sizeof little),
                     0); /* so that a frame does not fit */
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct br_frame frame = {.kind = BR_FRAME_DATA,
                                 .payload = ends_source + i * bytes,
                                 .length = bytes,
                                 .slot = br_slot_number(&ends_b.slots, slot),
                                 .offset = i * bytes,
                                 .cookie = i + 1};

        assert_int_equal(ends_ops->post(link, &frame, 1), 1);
    }
    return (struct br_tcp_link *)link;
}

static void arrives(const struct br_tcp_link *link)
{
    ends_until(&ends_b.n_data_frames, FRAMES);
    ends_until(&ends_a.n_sent, FRAMES);
    assert_memory_equal(ends_place, ends_source, ENDS_PLACE_BYTES);
    assert_false(br_tcp_zero_copy_pending(&link->zero_copy));
    assert_int_equal(ends_a.n_closed + ends_b.n_closed, 0);
    assert_false(link->hung_up); /* as an event of its ends may look */
}

/* Who lacks CAP_SYS_RESOURCE, as root of a container may, can lock little memory, which all
 * processes of the user share. */
static void skip_without_memory(const struct br_tcp_link *link)
{
    static const struct rlimit any = {RLIM_INFINITY, RLIM_INFINITY};

    if (setrlimit(RLIMIT_MEMLOCK, &any) &&
        (link->zero_copy.state == BR_TCP_ZERO_COPY_LEFT || !link->zero_copy.made))
        skip();
}

static void send__loopback_copies_and_ends_the_trial(void **state)
{
    struct br_tcp_link *link = begin("auto");

    (void)state;
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_UNTRIED);
    arrives(link);
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_LEFT);
    if (!link->zero_copy.made)
        skip_without_memory(link);
    assert_in_range(link->zero_copy.made, 1, BR_TCP_ZERO_COPY_TRIAL);
}

static void send__off_never_tries(void **state)
{
    struct br_tcp_link *link = begin("off");

    (void)state;
    arrives(link);
    assert_int_equal(link->zero_copy.made, 0);
}

static void send__on_lets_go_when_the_kernel_does(void **state)
{
    struct br_tcp_link *link = begin("on");

    (void)state;
    for (int i = 0; !br_tcp_zero_copy_pending(&link->zero_copy) && i < 1000; i++)
        ends_step(&ends_a, 8);
    skip_without_memory(link);
    assert_true(br_tcp_zero_copy_pending(&link->zero_copy));
    arrives(link);
    skip_without_memory(link);
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_TAKEN);
}

/* Who sleeps while nothing but an end of a send is outstanding is woken by it. */
static void arm__an_end_wakes(void **state)
{
    struct br_tcp_link *link = begin("on");

    (void)state;
    for (int i = 0; ends_a.n_sent < FRAMES && i < 100000; i++) {
        struct pollfd sleep = {.events = POLLIN};

        if (link->tx.sent == link->tx.posted)
            sleep.fd = ends_ops->arm(ends_a.device);
        else
            ends_step(&ends_b, 8);
        if (sleep.fd > 0) {
            while (ends_b.n_data_frames < FRAMES)
                ends_step(&ends_b, 8);
            assert_int_equal(poll(&sleep, 1, 20000), 1);
        }
        ends_step(&ends_a, 8);
    }
    assert_int_equal(ends_a.n_sent, FRAMES);
}

/* What the kernel may still read then is not sent any more: its memory has another owner soon. */
static void link_close__forgets_what_is_pending(void **state)
{
    struct br_tcp_link *link = begin("on");

    (void)state;
    for (int i = 0; link->writable && i < 10000; i++)
        ends_step(&ends_a, 8);
    skip_without_memory(link);
    assert_true(br_tcp_zero_copy_pending(&link->zero_copy));
    ends_ops->link_close(&link->base);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.error, -ECONNRESET);
    assert_true(ends_b.n_data_frames < FRAMES);
}

/* A link with three calls that the kernel may read, which began with frames 0, 4 and 7. */
static void three_calls(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx)
{
    br_tcp_zero_copy_init(zero, BR_TCP_ZERO_COPY_ON);
    zero->state = BR_TCP_ZERO_COPY_TAKEN;
    zero->made = 2, zero->ended = ~0u; /* the kernel's numbers wrap around */
    zero->first[~0u % BR_TCP_ZERO_COPY_CALLS] = 0;
    zero->first[0] = 4;
    zero->first[1] = 7;
    memset(tx, 0, sizeof *tx);
    tx->posted = tx->sent = 9;
    tx->held = true;
    for (int i = 0; i < 9; i++)
        tx->queue[i].cookie = 1;
}

static void end__out_of_turn_waits_for_the_earlier(void **state)
{
    struct br_tcp_zero_copy zero;
    struct br_stream_tx tx;

    (void)state;
    three_calls(&zero, &tx);
    br_tcp_zero_copy_end(&zero, &tx, 0, 0, true, "x");
    assert_int_equal(tx.done, 0);
    br_tcp_zero_copy_end(&zero, &tx, ~0u, ~0u, true, "x");
    assert_int_equal(tx.done, 7);
    assert_true(br_tcp_zero_copy_pending(&zero));
    br_tcp_zero_copy_end(&zero, &tx, 0, 5, true, "x"); /* some of them never made */
    assert_int_equal(tx.done, 9);
    assert_false(tx.held);
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_TAKEN);
    three_calls(&zero, &tx);
    br_tcp_zero_copy_end(&zero, &tx, ~0u, 1, true, "x");
    assert_int_equal(tx.done, 9);
    assert_int_equal(zero.out_of_turn, 0);
}

/* The state after a trial with these costs, in ns of 1 GB. */
static int after_trial(uint64_t uncopied, uint64_t copied, bool last)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), calls = BR_TCP_ZERO_COPY_TRIAL;
    struct br_tcp_zero_copy zero;
    struct br_stream_tx tx = {0};

    br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_TRIED);
    zero.state = BR_TCP_ZERO_COPY_TRIAL_ON;
    zero.uncopied = (struct br_tcp_zero_copy_cost){uncopied, 1000000000, calls};
    zero.copied = (struct br_tcp_zero_copy_cost){copied, 1000000000, last ? calls : calls - 1};
    br_tcp_zero_copy_read_ends(&zero, &tx, fd, "x");
    close(fd);
    return zero.state;
}

/* The last end may come before the last copy is made. */
static void send__the_last_copy_decides(void **state)
{
    struct br_tcp_zero_copy zero;
    struct br_stream_tx tx = {0};
    struct iovec part = {"bytes", 5};
    struct br_tcp_call call = {.msg = {.msg_iov = &part, .msg_iovlen = 1}};
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    call.fd = fds[0];
    br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_TRIED);
    zero.state = BR_TCP_ZERO_COPY_TRIAL_ON;
    zero.uncopied = (struct br_tcp_zero_copy_cost){1, 1000000000, BR_TCP_ZERO_COPY_TRIAL};
    zero.copied = (struct br_tcp_zero_copy_cost){400000000, 1000000000, BR_TCP_ZERO_COPY_TRIAL - 1};
    br_tcp_zero_copy_send(&zero, &tx, &call, "x");
    assert_int_equal(call.result, 5);
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_TAKEN);
    close(fds[0]);
    close(fds[1]);
}

static void read_ends__decides_by_cpu_time(void **state)
{
    (void)state;
    assert_int_equal(after_trial(100000000, 300000000, true), BR_TCP_ZERO_COPY_TAKEN);
    assert_int_equal(after_trial(100000000, 300000000, false), BR_TCP_ZERO_COPY_TRIAL_ON);
    assert_int_equal(after_trial(290000000, 300000000, true), BR_TCP_ZERO_COPY_LEFT);
    assert_int_equal(after_trial(400000000, 300000000, true), BR_TCP_ZERO_COPY_LEFT);
}

static void end__copied_after_all_ends_what_was_taken(void **state)
{
    struct br_tcp_zero_copy zero;
    struct br_stream_tx tx;

    (void)state;
    three_calls(&zero, &tx);
    zero.way = BR_TCP_ZERO_COPY_TRIED;
    br_tcp_zero_copy_end(&zero, &tx, ~0u, 0, false, "x");
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_TAKEN);
    br_tcp_zero_copy_end(&zero, &tx, 1, 1, true, "x");
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_LEFT);
}

static void device_open__bad_word(void **state)
{
    (void)state;
    ends_close(&ends_a);
    setenv("BRAID_TCP_ZERO_COPY", "perhaps", 1);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", 1), -EINVAL);
    unsetenv("BRAID_TCP_ZERO_COPY");
    assert_non_null(strstr(br_error_message(), "BRAID_TCP_ZERO_COPY=perhaps"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ends_set_up, ends_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(send__loopback_copies_and_ends_the_trial),
        TEST(send__off_never_tries),
        TEST(send__on_lets_go_when_the_kernel_does),
        TEST(arm__an_end_wakes),
        TEST(link_close__forgets_what_is_pending),
        TEST(end__out_of_turn_waits_for_the_earlier),
        TEST(end__copied_after_all_ends_what_was_taken),
        TEST(send__the_last_copy_decides),
        TEST(read_ends__decides_by_cpu_time),
        TEST(device_open__bad_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
