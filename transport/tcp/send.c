/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tcp back end sends: all that is posted. */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

/* Of payload, of one link and poll: half of it and 128 bytes more, 2 MiB take a third longer. */
#define SEND_BYTES (1u << 20)

/* So many sends at once without a wait in between are taken for a stream. A burst of fewer messages
 * arrives without the round trip by which a held one may be late. */
#define IN_A_ROW 8

static void hold(struct br_tcp_link *link, bool holds)
{
    int on = !holds;

    /* an error shows in the next call; when it is set, the kernel sends what it holds */
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    link->base.device->counters.system_calls++;
    link->holds = holds;
}

/* true: ask again (br_stream_tx_gather). */
static bool send_ended(struct br_tcp_device *device, struct br_tcp_link *link,
                       const struct br_tcp_call *call)
{
    if (call->result >= 0) {
        link->unanswered = 0;
        br_stream_tx_advance(&link->tx, (size_t)call->result);
        link->sent_bytes += (uint64_t)call->result;
        if (link->tx.reported != link->tx.sent)
            device->unreported = true;
        /* epoll tells only of a socket that was full: not where the pipe took less */
        if (call->lent ? call->filled : (size_t)call->result < call->bytes)
            link->writable = false;
    } else if (call->result == -EAGAIN) {
        link->writable = false;
    } else if (call->result != -EINTR) {
        link->send_error = (int)call->result;
        link->readable = link->hung_up = true;
    }
    return (call->bytes <= BR_STREAM_LITTLE || call->lent) && br_tcp_can_send(link);
}

/* true: ask again. */
static bool send_batch(struct br_tcp_device *device)
{
    struct br_tcp_batch *batch = &device->batch;
    bool again = false;

    device->base.counters.system_calls += br_tcp_batch_run(batch);
    for (int i = 0; i < batch->n; i++)
        again = send_ended(device, batch->calls[i].owner, &batch->calls[i]) || again;
    batch->n = 0;
    return again;
}

/* Adds a call for what is posted on a link; it may have been made already. */
static void add_send(struct br_tcp_device *device, struct br_tcp_link *link)
{
    struct br_tcp_call *call = br_tcp_batch_send(&device->batch, link, link->fd);

    call->msg.msg_iovlen =
        (size_t)br_stream_tx_gather(&link->tx, call->iov, BR_TCP_IOVECS, SEND_BYTES, &call->bytes);
    if (!br_stream_tx_lends(&link->tx))
        return;
    device->base.counters.system_calls +=
        br_tcp_zero_copy_send(&link->zero_copy, &device->pipe, call, link->base.peer_name);
    if (call->lent && call->result > 0)
        link->lent_end = link->sent_bytes + (uint64_t)call->result;
    link->base.lends = link->tx.lends = br_tcp_zero_copy_lends(&link->zero_copy);
}

/* Is a message that is sent at once part of a stream? A wait takes many polls. */
static bool streams(struct br_tcp_link *link, uint32_t polls)
{
    link->sent_row = polls - link->sent_poll <= 1 ? link->sent_row + 1 : 0;
    link->sent_poll = polls;
    return link->sent_row >= IN_A_ROW;
}

/* May the kernel hold what comes next? What stands in front of it must ask to be acknowledged at
 * once. So when a stream begins, all from before has to be on its way: NIC, pacing, and windows may
 * keep it for a while. */
static bool may_hold(struct br_tcp_link *link)
{
    int unsent;

    if (link->tx.posted != link->tx.sent || link->holds)
        return link->tx.posted == link->tx.sent;
    link->base.device->counters.system_calls++;
    return !ioctl(link->fd, SIOCOUTQNSD, &unsent) && !unsent;
}

void br_tcp_send_link(struct br_tcp_link *link)
{
    struct br_tcp_device *device = (struct br_tcp_device *)link->base.device;
    bool holds;

    if (!br_tcp_can_send(link))
        return;
    holds = streams(link, device->n_polls) && br_stream_tx_ask(&link->tx);
    add_send(device, link);
    send_batch(device);
    holds = holds && may_hold(link);
    if (holds != link->holds)
        hold(link, holds);
    device->holds = device->holds || holds;
}

void br_tcp_send_streamed(struct br_tcp_link *link)
{
    uint32_t polls = ((const struct br_tcp_device *)link->base.device)->n_polls;

    if (polls - link->sent_poll <= 1)
        br_tcp_send_link(link);
    else
        streams(link, polls); /* for the next one */
}

void br_tcp_send_held(struct br_tcp_device *device)
{
    device->holds = false;
    for (int i = 0; i < device->n_open; i++) {
        struct br_tcp_link *link = device->open[i];

        if (link->holds && link->state == BR_TCP_UP && device->n_polls - link->sent_poll > 1)
            hold(link, false);
        device->holds = device->holds || link->holds;
    }
}

/* A call for each link that has something; true: ask again. */
static bool send_round(struct br_tcp_device *device)
{
    struct br_tcp_batch *batch = &device->batch;
    bool again = false;

    for (int i = 0; i < device->n_busy; i++) {
        if (!br_tcp_can_send(device->busy[i]))
            continue;
        if (device->busy[i]->holds)
            hold(device->busy[i], false);
        device->busy[i]->sent_row = 0; /* its sender does something else between them */
        add_send(device, device->busy[i]);
        if (br_tcp_batch_full(batch))
            again = send_batch(device) || again;
    }
    if (batch->n)
        again = send_batch(device) || again;
    return again;
}

void br_tcp_send_pending(struct br_tcp_device *device)
{
    while (send_round(device))
        ;
}
