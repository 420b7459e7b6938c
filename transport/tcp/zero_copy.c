/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/tcp/zero_copy.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"

#define CHEAPER 0.9 /* Of the CPU time with a copy: taken if it is less. */

int br_tcp_zero_copy_read(enum br_tcp_zero_copy_way *out)
{
    static const char *const ways[] = {"auto", "off", "on", NULL};
    int way, rc = br_env_choice("BRAID_TCP_ZERO_COPY", ways, BR_TCP_ZERO_COPY_TRIED, &way);

    *out = rc ? BR_TCP_ZERO_COPY_OFF : (enum br_tcp_zero_copy_way)way;
    return rc;
}

/* CPU seconds a GB. */
static double cost_a_gb(const struct br_tcp_zero_copy_cost *cost)
{
    return cost->bytes ? (double)cost->cpu / (double)cost->bytes : 0;
}

static void leave(struct br_tcp_zero_copy *zero, const char *name, const char *why)
{
    if (zero->state == BR_TCP_ZERO_COPY_LEFT)
        return;
    zero->state = BR_TCP_ZERO_COPY_LEFT;
    br_log_info("%s: zero-copy send left: %s", name, why);
}

static void begin(struct br_tcp_zero_copy *zero, int fd, const char *name)
{
    int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on))
        leave(zero, name, strerror(errno));
    else
        zero->state =
            zero->way == BR_TCP_ZERO_COPY_ON ? BR_TCP_ZERO_COPY_TAKEN : BR_TCP_ZERO_COPY_TRIAL_ON;
}

/* The trial is over when its calls have been made and have ended, as their ends cost, too: with the
 * last end, or with the last copy. */
static void decide(struct br_tcp_zero_copy *zero, const char *name)
{
    double copied = cost_a_gb(&zero->copied), uncopied = cost_a_gb(&zero->uncopied);

    if (zero->state != BR_TCP_ZERO_COPY_TRIAL_ON || br_tcp_zero_copy_pending(zero) ||
        zero->copied.calls < BR_TCP_ZERO_COPY_TRIAL ||
        zero->uncopied.calls < BR_TCP_ZERO_COPY_TRIAL)
        return;
    if (uncopied < copied * CHEAPER)
        zero->state = BR_TCP_ZERO_COPY_TAKEN;
    else
        zero->state = BR_TCP_ZERO_COPY_LEFT;
    br_log_info("%s: zero-copy send %s: %.3f CPU seconds a GB, %.3f with a copy", name,
                zero->state == BR_TCP_ZERO_COPY_TAKEN ? "taken" : "left", uncopied, copied);
}

/* Does the next call go without a copy? The two kinds of a trial take turns. */
static bool goes_uncopied(const struct br_tcp_zero_copy *zero)
{
    if (zero->made - zero->ended == BR_TCP_ZERO_COPY_CALLS)
        return false;
    return zero->state == BR_TCP_ZERO_COPY_TAKEN || (zero->state == BR_TCP_ZERO_COPY_TRIAL_ON &&
                                                     zero->uncopied.calls <= zero->copied.calls &&
                                                     zero->uncopied.calls < BR_TCP_ZERO_COPY_TRIAL);
}

static long send_call(const struct br_tcp_call *call, int flags)
{
    ssize_t n = sendmsg(call->fd, &call->msg, MSG_DONTWAIT | MSG_NOSIGNAL | flags);

    return n < 0 ? -errno : n;
}

unsigned br_tcp_zero_copy_send(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx,
                               struct br_tcp_call *call, const char *name)
{
    unsigned system_calls = 1;
    struct br_tcp_zero_copy_cost *cost;
    uint64_t start = 0;
    bool uncopied;

    if (zero->state == BR_TCP_ZERO_COPY_UNTRIED) {
        begin(zero, call->fd, name);
        system_calls++;
    }
    uncopied = goes_uncopied(zero);
    cost = uncopied ? &zero->uncopied : &zero->copied;
    if (zero->state == BR_TCP_ZERO_COPY_TRIAL_ON) {
        start = br_clock_thread();
        system_calls += 2;
    }
    call->result = send_call(call, uncopied ? MSG_ZEROCOPY : 0);
    if (call->result > 0 && zero->state == BR_TCP_ZERO_COPY_TRIAL_ON) {
        cost->cpu += br_clock_thread() - start;
        cost->bytes += (uint64_t)call->result;
        cost->calls++;
    }
    if (uncopied && call->result > 0) {
        zero->first[zero->made++ % BR_TCP_ZERO_COPY_CALLS] = tx->sent;
        br_stream_tx_hold(tx);
    } else if (uncopied && call->result != -EAGAIN && call->result != -EINTR) {
        /* Memory is short, or may not be locked; if it is the link, the copy fails too. What calls
         * under way hold comes back. */
        if (call->result != -ENOBUFS || !br_tcp_zero_copy_pending(zero))
            leave(zero, name, strerror(-(int)call->result));
        call->result = send_call(call, 0);
        system_calls++;
    }
    decide(zero, name);
    return system_calls;
}

void br_tcp_zero_copy_end(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx, uint32_t first,
                          uint32_t last, bool copied, const char *name)
{
    for (uint32_t i = zero->ended; i != zero->made; i++)
        if (i - first <= last - first)
            zero->out_of_turn |= 1ull << i % BR_TCP_ZERO_COPY_CALLS;
    while (br_tcp_zero_copy_pending(zero) &&
           zero->out_of_turn & 1ull << zero->ended % BR_TCP_ZERO_COPY_CALLS)
        zero->out_of_turn &= ~(1ull << zero->ended++ % BR_TCP_ZERO_COPY_CALLS);
    if (br_tcp_zero_copy_pending(zero))
        br_stream_tx_let_go(tx, zero->first[zero->ended % BR_TCP_ZERO_COPY_CALLS]);
    else
        br_stream_tx_let_go_all(tx);
    if (copied && zero->way != BR_TCP_ZERO_COPY_ON)
        leave(zero, name, "the kernel copies on this route");
}

/* The end of some calls, or NULL: it is something else. */
static const struct sock_extended_err *end_of(const struct cmsghdr *control)
{
    const struct sock_extended_err *end = (const void *)CMSG_DATA(control);

    if (!(control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_RECVERR) &&
        !(control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_RECVERR))
        return NULL;
    return end->ee_origin == SO_EE_ORIGIN_ZEROCOPY ? end : NULL;
}

unsigned br_tcp_zero_copy_read_ends(struct br_tcp_zero_copy *zero, struct br_stream_tx *tx, int fd,
                                    const char *name)
{
    bool trial = zero->state == BR_TCP_ZERO_COPY_TRIAL_ON;
    uint64_t start = trial ? br_clock_thread() : 0;
    unsigned system_calls = 0;

    for (;;) {
        _Alignas(struct cmsghdr) char control[128];
        struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};

        system_calls++;
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            break;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            const struct sock_extended_err *end = end_of(c);

            if (end)
                br_tcp_zero_copy_end(zero, tx, end->ee_info, end->ee_data,
                                     end->ee_code & SO_EE_CODE_ZEROCOPY_COPIED, name);
        }
    }
    if (trial) {
        zero->uncopied.cpu += br_clock_thread() - start;
        system_calls += 2;
    }
    decide(zero, name);
    return system_calls;
}
