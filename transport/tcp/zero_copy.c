/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp/zero_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"

/* Of the CPU time with a copy: cheaper if it is less. The rest is for what the sender does not see:
 * an ACK, and a receiver that reads memory which no cache of its own has. */
#define CHEAPER    0.65
#define PIPE_BYTES (512 << 10) /* A frame of 256 KiB has 64 pages or one more; a power of two. */
#define LEND_CALLS 7u          /* System calls of a send without a copy, as a rule. */

int br_tcp_zero_copy_read(enum br_tcp_zero_copy_way *out)
{
    static const char *const ways[] = {"auto", "off", "on", NULL};
    int way, rc = br_env_choice("BRAID_TCP_ZERO_COPY", ways, BR_TCP_ZERO_COPY_TRIED, &way);

    *out = rc ? BR_TCP_ZERO_COPY_OFF : (enum br_tcp_zero_copy_way)way;
    return rc;
}

/* ---- the pipe -------------------------------------------------------------------------------- */

void br_tcp_pipe_close(struct br_tcp_pipe *pipe)
{
    const int fds[] = {pipe->in, pipe->out, pipe->null};

    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *pipe = (struct br_tcp_pipe){-1, -1, -1};
}

/* 0, or a negative errno. */
static int pipe_open(struct br_tcp_pipe *pipe)
{
    int fds[2], rc;

    if (pipe->in >= 0)
        return 0;
    if (pipe2(fds, O_CLOEXEC))
        return -errno;
    *pipe = (struct br_tcp_pipe){fds[1], fds[0], open("/dev/null", O_WRONLY | O_CLOEXEC)};
    (void)fcntl(pipe->in, F_SETPIPE_SZ, PIPE_BYTES); /* else a frame takes several calls */
    rc = pipe->null < 0 ? -errno : 0;
    if (rc)
        br_tcp_pipe_close(pipe);
    return rc;
}

/* splice() to a socket. A socket whose peer is gone raises SIGPIPE, which no flag prevents, and
 * which would end the program. */
static ssize_t splice_quietly(int from, int to, size_t bytes)
{
    const struct timespec at_once = {0};
    sigset_t broken, before, pending;
    bool pends;
    ssize_t n;
    int error;

    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    pends = sigismember(&before, SIGPIPE) && !sigpending(&pending) &&
            sigismember(&pending, SIGPIPE); /* one of the program's own */
    n = splice(from, NULL, to, NULL, bytes, SPLICE_F_NONBLOCK);
    error = errno;
    if (n < (ssize_t)bytes && !pends)
        sigtimedwait(&broken, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

/* Sends payload without a copy. Bytes sent, or a negative errno; *filled: the socket took no more.
 */
static long lend_payload(struct br_tcp_pipe *pipe, int fd, const struct iovec *payload,
                         bool *filled)
{
    ssize_t n = vmsplice(pipe->in, payload, 1, SPLICE_F_NONBLOCK), sent;

    if (n <= 0)
        return n < 0 && errno != EAGAIN ? -errno : -ENOBUFS;
    sent = splice_quietly(pipe->out, fd, (size_t)n);
    if (sent < 0)
        sent = -errno;
    *filled = sent < 0 ? sent == -EAGAIN : sent < n;
    for (ssize_t left = n - (sent > 0 ? sent : 0), k; left > 0; left -= k) {
        k = splice(pipe->out, NULL, pipe->null, NULL, (size_t)left, SPLICE_F_NONBLOCK);
        if (k <= 0) {
            br_tcp_pipe_close(pipe); /* the next call finds none, and leaves this way */
            break;
        }
    }
    return sent;
}

/* The header first, which the kernel holds until the payload joins it. */
static long lend(struct br_tcp_pipe *pipe, struct br_tcp_call *call)
{
    const struct iovec *header = &call->iov[0], *payload = &call->iov[call->msg.msg_iovlen - 1];
    ssize_t before = 0;
    long n;

    if (payload != header) {
        before = send(call->fd, header->iov_base, header->iov_len,
                      MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE);
        if (before < 0)
            return -errno;
        call->filled = (size_t)before < header->iov_len;
        if (call->filled)
            return before;
    }
    n = lend_payload(pipe, call->fd, payload, &call->filled);
    return n < 0 && before ? before : before + n;
}

/* ---- the trial ------------------------------------------------------------------------------- */

static void leave(struct br_tcp_zero_copy *zero, const char *name, int error)
{
    zero->state = BR_TCP_ZERO_COPY_LEFT;
    br_log_info("%s: zero-copy send left: %s", name, strerror(error));
}

static void begin(struct br_tcp_zero_copy *zero, struct br_tcp_pipe *pipe, const char *name)
{
    int rc = pipe_open(pipe);

    if (rc)
        leave(zero, name, -rc);
    else
        zero->state =
            zero->way == BR_TCP_ZERO_COPY_ON ? BR_TCP_ZERO_COPY_TAKEN : BR_TCP_ZERO_COPY_TRIAL_ON;
}

void br_tcp_zero_copy_took(struct br_tcp_zero_copy *zero, double cost, const char *name)
{
    bool cheaper = cost < zero->copied * CHEAPER, taken;

    if (zero->calls++ % 2 == 0) {
        zero->copied = cost;
        return;
    }
    zero->cheaper += cheaper;
    zero->dearer += !cheaper;
    taken = zero->cheaper > BR_TCP_ZERO_COPY_PAIRS / 2;
    if (!taken && zero->dearer < BR_TCP_ZERO_COPY_PAIRS / 2)
        return;
    zero->state = taken ? BR_TCP_ZERO_COPY_TAKEN : BR_TCP_ZERO_COPY_DEARER;
    br_log_debug("%s: zero-copy send %s: cheaper in %d of %d pairs", name, taken ? "taken" : "left",
                 zero->cheaper, zero->cheaper + zero->dearer);
}

static long send_copied(const struct br_tcp_call *call)
{
    ssize_t n = sendmsg(call->fd, &call->msg, MSG_DONTWAIT | MSG_NOSIGNAL);

    return n < 0 ? -errno : n;
}

unsigned br_tcp_zero_copy_send(struct br_tcp_zero_copy *zero, struct br_tcp_pipe *pipe,
                               struct br_tcp_call *call, const char *name)
{
    uint64_t start = 0;
    bool trial;

    if (zero->state == BR_TCP_ZERO_COPY_UNTRIED)
        begin(zero, pipe, name);
    if (!br_tcp_zero_copy_lends(zero))
        return 0;
    trial = zero->state == BR_TCP_ZERO_COPY_TRIAL_ON;
    call->lent = !trial || zero->calls % 2;
    if (trial)
        start = br_clock_thread();
    call->result = call->lent ? lend(pipe, call) : send_copied(call);
    if (trial && call->result > 0)
        br_tcp_zero_copy_took(zero, (double)(br_clock_thread() - start) / (double)call->result,
                              name);
    if (call->lent && call->result < 0 && call->result != -EAGAIN && call->result != -EINTR) {
        /* such memory has no pages; if it is the link, the copy fails, too */
        leave(zero, name, -(int)call->result);
        call->lent = false;
        call->result = send_copied(call);
    }
    return (call->lent ? LEND_CALLS : 1u) + (trial ? 2u : 0u);
}
