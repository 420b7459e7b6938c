/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of calls on a pair of connected sockets, whose buffers are small. */
#include "transport/tcp/uring_batch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/random.h"

#define BYTES 60000u

static struct br_tcp_batch batch;
static int ends[2];
static uint8_t sent[BYTES], received[BYTES];

static int set_up(void **state)
{
    int least = 1; /* the kernel makes it some KiB */

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    br_tcp_batch_init(&batch);
    for (uint32_t i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)(i * 7 + i / 256);
    memset(received, 0, sizeof received);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    br_tcp_batch_destroy(&batch);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

/* Puts `bytes` from `at` on into the batch as a send of parts with random ends. */
static void add_send(struct br_random *random, uint32_t at, uint32_t bytes)
{
    struct br_tcp_call *call = br_tcp_batch_send(&batch, NULL, ends[0]);
    uint32_t done = 0;

    while (done < bytes) {
        uint32_t left = bytes - done, n = 1 + (uint32_t)br_random_below(random, 100);

        if (n > left || call->msg.msg_iovlen == BR_TCP_IOVECS - 1)
            n = left;
        call->iov[call->msg.msg_iovlen++] = (struct iovec){sent + at + done, n};
        done += n;
    }
    call->bytes = bytes;
}

/* Sends of sizes around the one up to which parts are copied together, and of more than the socket
 * takes at once. What it has not taken is sent again. */
static void run__parts_arrive_in_order_whatever_the_socket_takes(void **state)
{
    static const uint32_t sizes[] = {BR_TCP_TOGETHER - 1, BR_TCP_TOGETHER, BR_TCP_TOGETHER + 1,
                                     9000};
    struct br_random random;
    bool partial = false;

    (void)state;
    br_random_seed(&random, 1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t out = 0, in = 0;

        memset(received, 0, sizeof received);
        while (in < BYTES) {
            uint32_t most = BYTES - in, some = 1 + (uint32_t)br_random_below(&random, 3000);

            if (out < BYTES)
                add_send(&random, out, BYTES - out < sizes[i] ? BYTES - out : sizes[i]);
            br_tcp_batch_receive(&batch, NULL, ends[1], received + in, some < most ? some : most,
                                 false);
            br_tcp_batch_run(&batch);
            for (int k = 0; k < batch.n; k++) {
                const struct br_tcp_call *call = &batch.calls[k];

                assert_true(call->result > 0 || call->result == -EAGAIN);
                partial |= call->is_send && call->result > 0 && (size_t)call->result < call->bytes;
                *(call->is_send ? &out : &in) += call->result > 0 ? (uint32_t)call->result : 0;
            }
            batch.n = 0;
        }
        assert_memory_equal(received, sent, BYTES);
    }
    assert_true(partial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run__parts_arrive_in_order_whatever_the_socket_takes,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
