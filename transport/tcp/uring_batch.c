/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp/uring_batch.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/downgrade.h"
#include "base/log.h"

#define NO_RESULT (-4096L) /* no errno is that large */

void br_tcp_batch_init(struct br_tcp_batch *batch)
{
    int rc = io_uring_queue_init(BR_TCP_BATCH, &batch->ring, 0);

    batch->ring_on = rc == 0;
    if (rc) {
        br_downgrade(io_uring);
        br_log_info("no io_uring here (%s): plain system calls instead", strerror(-rc));
    }
}

void br_tcp_batch_destroy(struct br_tcp_batch *batch)
{
    if (batch->ring_on)
        io_uring_queue_exit(&batch->ring);
    batch->ring_on = false;
}

static struct br_tcp_call *batch_add(struct br_tcp_batch *batch, void *owner, int fd, bool is_send)
{
    struct br_tcp_call *call = &batch->calls[batch->n++];

    call->owner = owner;
    call->fd = fd;
    call->is_send = is_send;
    call->lent = call->filled = false;
    call->result = NO_RESULT;
    return call;
}

void br_tcp_batch_receive(struct br_tcp_batch *batch, void *owner, int fd, void *place,
                          size_t bytes, bool peeks)
{
    struct br_tcp_call *call = batch_add(batch, owner, fd, false);

    call->peeks = peeks;
    call->iov[0] = (struct iovec){place, bytes};
    call->bytes = bytes;
}

struct br_tcp_call *br_tcp_batch_send(struct br_tcp_batch *batch, void *owner, int fd)
{
    struct br_tcp_call *call = batch_add(batch, owner, fd, true);

    memset(&call->msg, 0, sizeof call->msg);
    call->msg.msg_iov = call->iov;
    return call;
}

/* recv() and send() take two atomic operations more each in a process of several threads, as one
 * can be cancelled in them; but sanitizers look at the memory of these alone. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RECEIVE(...) recvfrom(__VA_ARGS__)
#define SEND(...)    sendto(__VA_ARGS__)
#else
#define RECEIVE(...) syscall(SYS_recvfrom, __VA_ARGS__)
#define SEND(...)    syscall(SYS_sendto, __VA_ARGS__)
#endif

static int receive_flags(const struct br_tcp_call *call)
{
    return MSG_DONTWAIT | (call->peeks ? MSG_PEEK : 0);
}

static ssize_t batch_receive(const struct br_tcp_call *call)
{
    return RECEIVE(call->fd, call->iov[0].iov_base, call->bytes, receive_flags(call), NULL, NULL);
}

static ssize_t batch_send_one(const struct br_tcp_call *call, const void *bytes, size_t n)
{
    return SEND(call->fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

/* Sends the parts from one place (note 4). */
static ssize_t batch_send_together(struct br_tcp_batch *batch, const struct br_tcp_call *call)
{
    size_t at = 0;

    for (size_t i = 0; i < call->msg.msg_iovlen; at += call->iov[i++].iov_len)
        memcpy(batch->together + at, call->iov[i].iov_base, call->iov[i].iov_len);
    return batch_send_one(call, batch->together, call->bytes);
}

/* Are the parts so small that the copy costs less than the list of them (note 4)? */
static bool batch_copies(const struct br_tcp_call *call)
{
    return call->bytes <= BR_TCP_LITTLE ||
           (call->bytes <= BR_TCP_TOGETHER && call->bytes <= call->msg.msg_iovlen * BR_TCP_PART);
}

static void run_plain(struct br_tcp_batch *batch, struct br_tcp_call *call)
{
    ssize_t n;

    if (!call->is_send)
        n = batch_receive(call);
    else if (call->msg.msg_iovlen == 1) /* 0.1 us less than sendmsg */
        n = batch_send_one(call, call->iov[0].iov_base, call->bytes);
    else if (batch_copies(call))
        n = batch_send_together(batch, call);
    else
        n = sendmsg(call->fd, &call->msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    call->result = n < 0 ? -errno : n;
}

static void batch_prepare(struct io_uring_sqe *sqe, struct br_tcp_call *call)
{
    if (call->is_send)
        io_uring_prep_sendmsg(sqe, call->fd, &call->msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    else
        io_uring_prep_recv(sqe, call->fd, call->iov[0].iov_base, call->bytes, receive_flags(call));
    io_uring_sqe_set_data(sqe, call);
}

/* Collects `n` completions. With MSG_DONTWAIT they are all there already. */
static void batch_collect(struct io_uring *ring, int n)
{
    struct io_uring_cqe *cqe;

    while (n) {
        int rc = io_uring_wait_cqe(ring, &cqe);

        if (rc == -EINTR || rc == -EAGAIN)
            continue;
        if (rc)
            return;
        ((struct br_tcp_call *)io_uring_cqe_get_data(cqe))->result = cqe->res;
        io_uring_cqe_seen(ring, cqe);
        n--;
    }
}

/* n: calls without a result. */
static void run_ring(struct br_tcp_batch *batch, int n)
{
    int rc;

    for (int i = 0; i < batch->n; i++)
        if (batch->calls[i].result == NO_RESULT)
            batch_prepare(io_uring_get_sqe(&batch->ring), &batch->calls[i]);
    rc = io_uring_submit_and_wait(&batch->ring, (unsigned)n);
    batch_collect(&batch->ring, rc > 0 ? rc : 0);
    if (rc == n)
        return;
    /* What was not taken would go out later with addresses that are no longer ours: the ring must
     * go. */
    br_downgrade(io_uring);
    br_log_warn("io_uring took %d of %d calls: plain system calls from now on", rc, n);
    br_tcp_batch_destroy(batch);
}

unsigned br_tcp_batch_run(struct br_tcp_batch *batch)
{
    unsigned system_calls = 0;
    int n = 0;

    for (int i = 0; batch->n > BR_TCP_FEW && i < batch->n; i++)
        n += batch->calls[i].result == NO_RESULT;
    if (batch->ring_on && n > BR_TCP_FEW) {
        run_ring(batch, n);
        system_calls++;
    }
    for (int i = 0; i < batch->n; i++)
        if (batch->calls[i].result == NO_RESULT) {
            run_plain(batch, &batch->calls[i]);
            system_calls++;
        }
    return system_calls;
}
