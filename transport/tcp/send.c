/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tcp back end sends: all that is posted, and what links have kept (behind.h). */
#include "transport/tcp/tcp.h"

#include <errno.h>

/* Of payload, of one link and poll: half of it and 128 bytes more, 2 MiB take a third longer. */
#define SEND_BYTES (1u << 20)

/* true: ask again (br_stream_tx_gather). */
static bool send_ended(struct br_tcp_device *device, struct br_tcp_link *link,
                       const struct br_tcp_call *call)
{
    if (call->result >= 0) {
        br_tcp_behind_sent(&link->behind, (size_t)call->result, call->flags & MSG_MORE);
        br_stream_tx_advance(&link->tx, (size_t)call->result);
        if (link->tx.reported != link->tx.done)
            device->unreported = true;
        if ((size_t)call->result < call->bytes)
            link->writable = false;
    } else if (call->result == -EAGAIN) {
        link->writable = false;
    } else if (call->result != -EINTR) {
        link->send_error = (int)call->result;
        link->readable = link->hung_up = true;
    }
    return call->bytes <= BR_STREAM_LITTLE && br_tcp_can_send(link);
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
static struct br_tcp_call *add_send(struct br_tcp_batch *batch, struct br_tcp_link *link)
{
    struct br_tcp_call *call = br_tcp_batch_send(batch, link, link->fd);

    call->msg.msg_iovlen =
        (size_t)br_stream_tx_gather(&link->tx, call->iov, BR_TCP_IOVECS, SEND_BYTES, &call->bytes);
    if (br_tcp_zero_copy_wants(&link->zero_copy, call->bytes))
        link->base.device->counters.system_calls +=
            br_tcp_zero_copy_send(&link->zero_copy, &link->tx, call, link->base.peer_name);
    return call;
}

void br_tcp_send_link(struct br_tcp_link *link)
{
    struct br_tcp_device *device = (struct br_tcp_device *)link->base.device;
    struct br_tcp_call *call;

    if (!br_tcp_can_send(link))
        return;
    call = add_send(&device->batch, link);
    if (!device->base.config->shared_cores || device->armed || call->bytes > BR_TCP_AHEAD ||
        !br_tcp_behind_streams(&link->behind, device->n_polls)) {
        send_batch(device);
        return;
    }
    call->flags = link->behind.is_behind ? MSG_MORE : 0;
    send_batch(device);
    device->base.counters.system_calls += br_tcp_behind_check(&link->behind, link->fd);
    device->keeps = device->keeps || link->behind.kept;
}

void br_tcp_push_kept(struct br_tcp_device *device, uint64_t now)
{
    device->keeps = false;
    for (int i = 0; i < device->n_open; i++) {
        struct br_tcp_link *link = device->open[i];

        if (link->state != BR_TCP_UP || !link->behind.kept)
            continue;
        device->base.counters.system_calls += br_tcp_behind_push(&link->behind, link->fd, now);
        device->keeps = device->keeps || link->behind.kept;
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
        add_send(batch, device->busy[i]);
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
