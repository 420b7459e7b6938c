/* SPDX-License-Identifier: BSD-3-Clause */
/* Zero-copy send: its trial on a link, what it costs against a copy, and whose memory it is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "ends.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAMES 32 /* at least as many as a trial has calls */

static const uint32_t frame_bytes = ENDS_PLACE_BYTES / FRAMES;

static struct br_tcp_link *link_of(struct end *end)
{
    return (struct br_tcp_link *)end->links[0];
}

/* `way` is BRAID_TCP_ZERO_COPY of both ends, which have so many links. Returns a's first one, on
 * which FRAMES large frames for b's place were posted; nobody has polled since. */
static struct br_tcp_link *begin_among(int links, const char *way, bool lasts)
{
    const int little = 32 << 10;
    struct br_slot *slot;
    struct br_link *link;

    ends_close(&ends_a);
    ends_close(&ends_b);
    setenv("BRAID_TCP_ZERO_COPY", way, 1);
    assert_int_equal(ends_open(&ends_a, "127.0.0.1", ENDS_LINKS), 0);
    assert_int_equal(ends_open(&ends_b, "127.0.0.1", ENDS_LINKS), 0);
    unsetenv("BRAID_TCP_ZERO_COPY");
    slot = br_slot_get(&ends_b.slots, ends_place, ENDS_PLACE_BYTES, frame_bytes);
    link = ends_connect();
    for (int i = 1; i < links; i++)
        ends_connect();
    assert_int_equal(
        setsockopt(link_of(&ends_b)->fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little),
        0); /* so that a frame does not fit */
    memset(ends_place, 0, sizeof ends_place);
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct br_frame frame = {.kind = BR_FRAME_DATA,
                                 .payload = ends_source + i * frame_bytes,
                                 .length = frame_bytes,
                                 .slot = br_slot_number(&ends_b.slots, slot),
                                 .offset = i * frame_bytes,
                                 .cookie = i + 1,
                                 .lasts = lasts};

        assert_int_equal(ends_ops->post(link, &frame, 1), 1);
    }
    return (struct br_tcp_link *)link;
}

static struct br_tcp_link *begin(const char *way, bool lasts)
{
    return begin_among(1, way, lasts);
}

static void arrives(void)
{
    ends_until(&ends_b.n_data_frames, FRAMES);
    ends_until(&ends_a.n_sent, FRAMES);
    assert_memory_equal(ends_place, ends_source, ENDS_PLACE_BYTES);
    assert_int_equal(ends_a.n_closed + ends_b.n_closed, 0);
}

static void send__auto_decides_by_a_trial(void **state)
{
    struct br_tcp_link *link = begin("auto", true);

    (void)state;
    assert_true(link->base.lends);
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_UNTRIED);
    arrives();
    assert_in_range(link->zero_copy.state, BR_TCP_ZERO_COPY_TAKEN, BR_TCP_ZERO_COPY_LEFT);
    assert_int_equal(link->base.lends, link->zero_copy.state == BR_TCP_ZERO_COPY_TAKEN);
    assert_true(link->lent_end);
}

static void send__off_copies(void **state)
{
    struct br_tcp_link *link = begin("off", true);

    (void)state;
    assert_false(link->base.lends);
    arrives();
    assert_int_equal(link->lent_end, 0);
}

static void send__on_lends(void **state)
{
    struct br_tcp_link *link = begin("on", true);

    (void)state;
    arrives();
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_TAKEN);
    assert_int_equal(link->lent_end, link->sent_bytes);
}

/* Memory of other frames is its owner's again at SENT, whether they have been read or not. */
static void send__what_does_not_last_is_copied(void **state)
{
    struct br_tcp_link *link = begin("on", false);
    uint8_t first = ends_source[0];

    (void)state;
    for (int i = 0; !ends_a.n_sent && i < 100000; i++) {
        ends_step(&ends_a, 8);
        if (link->tx.cursor && link->tx.sent == 0) /* the first frame does not fit */
            ends_step(&ends_b, 8);
    }
    assert_true(ends_a.n_sent);
    ends_source[0] = (uint8_t)~first;
    ends_until(&ends_b.n_data_frames, 1);
    assert_int_equal(ends_place[0], first);
    ends_source[0] = first;
    arrives();
    assert_int_equal(link->lent_end, 0);
}

/* Without the pipe, or for memory that has no pages. */
static void send__copies_what_cannot_be_lent(void **state)
{
    struct br_tcp_link *link = begin("on", true);

    (void)state;
    ends_until(&ends_b.n_data_frames, 1);
    br_tcp_pipe_close(&((struct br_tcp_device *)ends_a.device)->pipe);
    arrives();
    assert_int_equal(link->zero_copy.state, BR_TCP_ZERO_COPY_LEFT);
    assert_false(link->base.lends);
}

/* A pipe takes little, or none of that memory, while the socket has room: epoll does not tell of it
 * again where there are other links. */
static void send__what_the_pipe_does_not_take(void **state)
{
    (void)state;
    for (int none = 0; none < 2; none++) {
        struct br_tcp_link *link = begin_among(2, "on", true);
        struct br_tcp_pipe *pipe = &((struct br_tcp_device *)ends_a.device)->pipe;
        int fds[2];

        for (int i = 0; i < 10; i++)
            ends_step(&ends_b, 8);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        assert_true(fcntl(fds[1], F_SETPIPE_SZ, 4096) > 0);
        *pipe = (struct br_tcp_pipe){fds[1], fds[0], open("/dev/null", O_WRONLY | O_CLOEXEC)};
        if (none)
            assert_int_equal(dup2(pipe->null, pipe->in), pipe->in);
        arrives();
        assert_int_equal(link->zero_copy.state,
                         none ? BR_TCP_ZERO_COPY_LEFT : BR_TCP_ZERO_COPY_TAKEN);
    }
}

/* It would end the program. */
static void send__a_lost_peer_raises_no_signal(void **state)
{
    struct br_tcp_link *link = begin("on", true);
    sigset_t pending;

    (void)state;
    for (int i = 0; link->writable && i < 10000; i++)
        ends_step(&ends_a, 8);
    ends_ops->link_close(ends_b.links[0]);
    link->writable = true; /* it is tried before the end is read */
    ends_until(&ends_a.n_closed, 1);
    assert_int_equal(sigpending(&pending), 0);
    assert_false(sigismember(&pending, SIGPIPE));
}

/* What the kernel may still read then is not sent any more: its memory has another owner soon. */
static void link_close__forgets_what_is_lent(void **state)
{
    struct br_tcp_link *link = begin("on", true);

    (void)state;
    for (int i = 0; link->writable && i < 10000; i++)
        ends_step(&ends_a, 8);
    assert_true(link->lent_end);
    ends_ops->link_close(&link->base);
    ends_until(&ends_b.n_closed, 1);
    assert_int_equal(ends_b.error, -ECONNRESET);
    assert_true(ends_b.n_data_frames < FRAMES);
}

/* When the peer has all of that, the frames behind it still leave. */
static void link_close__sends_what_stands_behind(void **state)
{
    struct br_tcp_link *link = begin("on", true);

    (void)state;
    arrives();
    assert_int_equal(ends_message(&link->base, 100), 1);
    ends_until(&ends_a.n_sent, FRAMES);
    for (int i = 0; link->tx.sent != link->tx.posted && i < 1000; i++)
        ends_step(&ends_a, 8);
    ends_ops->link_close(&link->base);
    ends_until(&ends_b.n_messages, 1);
}

/* The state after so many pairs in which the way without a copy takes half of the time, and others
 * by turns. */
static int after_trial(int cheaper, int dearer)
{
    struct br_tcp_zero_copy zero;

    br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_TRIED);
    zero.state = BR_TCP_ZERO_COPY_TRIAL_ON;
    for (int left[] = {dearer, cheaper}, k = cheaper > dearer; left[0] + left[1]; k = !k) {
        if (!left[k])
            continue;
        left[k]--;
        assert_int_equal(zero.state, BR_TCP_ZERO_COPY_TRIAL_ON);
        br_tcp_zero_copy_took(&zero, 0.4, "x");
        br_tcp_zero_copy_took(&zero, k ? 0.2 : 0.3, "x");
    }
    return zero.state;
}

static void took__most_pairs_decide(void **state)
{
    (void)state;
    assert_int_equal(after_trial(9, 0), BR_TCP_ZERO_COPY_TAKEN);
    assert_int_equal(after_trial(9, 7), BR_TCP_ZERO_COPY_TAKEN);
    assert_int_equal(after_trial(8, 7), BR_TCP_ZERO_COPY_TRIAL_ON);
    assert_int_equal(after_trial(7, 8), BR_TCP_ZERO_COPY_DEARER);
    assert_int_equal(after_trial(0, 8), BR_TCP_ZERO_COPY_DEARER);
}

/* One call took a hundred times as long, as something else had the core. */
static void took__a_single_call_does_not_decide(void **state)
{
    struct br_tcp_zero_copy zero;

    (void)state;
    for (int lent = 0; lent < 2; lent++) {
        br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_TRIED);
        zero.state = BR_TCP_ZERO_COPY_TRIAL_ON;
        for (int i = 0; zero.state == BR_TCP_ZERO_COPY_TRIAL_ON; i++) {
            assert_in_range(i, 0, BR_TCP_ZERO_COPY_PAIRS);
            br_tcp_zero_copy_took(&zero, i == 3 && !lent ? 40 : 0.4, "x");
            br_tcp_zero_copy_took(&zero, i == 3 && lent ? 20 : lent ? 0.2 : 0.4, "x");
        }
        assert_int_equal(zero.state, lent ? BR_TCP_ZERO_COPY_TAKEN : BR_TCP_ZERO_COPY_DEARER);
    }
}

/* Not what was left for good, nor where there is no trial. */
static void try_again__what_a_trial_has_decided(void **state)
{
    struct br_tcp_zero_copy zero;

    (void)state;
    br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_TRIED);
    zero.state = BR_TCP_ZERO_COPY_DEARER;
    zero.calls = 1;
    assert_false(br_tcp_zero_copy_lends(&zero));
    br_tcp_zero_copy_try_again(&zero);
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_UNTRIED);
    assert_int_equal(zero.calls, 0);
    assert_true(br_tcp_zero_copy_lends(&zero));
    zero.state = BR_TCP_ZERO_COPY_LEFT;
    br_tcp_zero_copy_try_again(&zero);
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_LEFT);
    br_tcp_zero_copy_init(&zero, BR_TCP_ZERO_COPY_ON);
    zero.state = BR_TCP_ZERO_COPY_TAKEN;
    br_tcp_zero_copy_try_again(&zero);
    assert_int_equal(zero.state, BR_TCP_ZERO_COPY_TAKEN);
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
        TEST(send__auto_decides_by_a_trial),
        TEST(send__off_copies),
        TEST(send__on_lends),
        TEST(send__what_does_not_last_is_copied),
        TEST(send__copies_what_cannot_be_lent),
        TEST(send__what_the_pipe_does_not_take),
        TEST(send__a_lost_peer_raises_no_signal),
        TEST(link_close__forgets_what_is_lent),
        TEST(link_close__sends_what_stands_behind),
        TEST(took__most_pairs_decide),
        TEST(took__a_single_call_does_not_decide),
        TEST(try_again__what_a_trial_has_decided),
        TEST(device_open__bad_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
