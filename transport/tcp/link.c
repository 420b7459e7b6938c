/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of the tcp back end: their sockets, and what is posted on them. */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <linux/tcp.h> /* netinet's tcp_info ends before the least round trip */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

static struct br_tcp_device *tcp_link_device_of(const struct br_tcp_link *link)
{
    return (struct br_tcp_device *)link->base.device;
}

/* A link with its buffers but without a socket. NULL with a message. */
static struct br_tcp_link *tcp_link_make(struct br_tcp_device *device,
                                         const union br_inet_address *peer)
{
    struct br_tcp_link *link;
    int rc = 0;

    if (device->n_open == 1 && device->open[0]->state == BR_TCP_UP)
        rc = br_tcp_link_watch(device->open[0]); /* which is no longer the only one */
    if (rc) {
        br_error(-rc, "device %s: epoll has no room for one more link: %s", device->base.name,
                 strerror(-rc));
        return NULL;
    }
    link = br_pool_get(&device->links);
    if (!link) {
        br_error(EMFILE, "device %s: all %u links are in use", device->base.name,
                 device->links.count);
        return NULL;
    }
    memset(link, 0, sizeof *link);
    if (br_stream_rx_init(&link->rx, &device->stream, device->base.config->message_buffers)) {
        br_pool_put(&device->links, link);
        return NULL;
    }
    link->base.device = &device->base;
    link->fd = link->busy = -1;
    br_tcp_zero_copy_init(&link->zero_copy, device->zero_copy);
    link->base.lends = link->tx.lends = br_tcp_zero_copy_lends(&link->zero_copy);
    link->event_poll = link->sent_poll = device->n_polls - 2;
    br_inet_text(peer, true, link->base.peer_name, sizeof link->base.peer_name);
    link->index = device->n_open;
    device->open[device->n_open++] = link;
    device->check_sockets = true;
    return link;
}

int br_tcp_link_watch(struct br_tcp_link *link)
{
    struct br_tcp_device *device = tcp_link_device_of(link);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = link};

    if (link->watched)
        return 0;
    device->base.counters.system_calls++;
    if (epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, link->fd, &event))
        return -errno;
    link->watched = true;
    return 0;
}

void br_tcp_link_unwatch(struct br_tcp_link *link)
{
    struct br_tcp_device *device = tcp_link_device_of(link);

    if (!link->watched)
        return;
    device->base.counters.system_calls++;
    epoll_ctl(device->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    link->watched = false;
}

void br_tcp_link_ask(struct br_tcp_link *link)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;

    link->base.device->counters.system_calls++;
    if (link->fd < 0 || getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &bytes))
        return;
    if (info.tcpi_min_rtt == UINT32_MAX)
        info.tcpi_min_rtt = 0; /* no packet has been measured yet */
    link->base.facts = (struct br_link_facts){.resent_packets = info.tcpi_total_retrans,
                                              .min_rtt = info.tcpi_min_rtt * BR_US,
                                              .delivery_rate = info.tcpi_delivery_rate};
}

void br_tcp_link_fail(struct br_tcp_link *link, int error, const char *why)
{
    struct br_tcp_device *device = tcp_link_device_of(link);
    char local[64];

    if (link->state == BR_TCP_FAILED)
        return;
    br_inet_text(&device->address, link->accepted, local, sizeof local);
    br_error(-error, "device %s, %s %s %s: %s", device->base.name, local,
             link->accepted ? "<-" : "->", link->base.peer_name, why);
    snprintf(link->base.message, sizeof link->base.message, "%.159s", br_error_message());
    br_tcp_link_ask(link);
    br_tcp_link_unwatch(link);
    link->reported = false;
    link->state = BR_TCP_FAILED;
    link->error = error;
    br_tcp_link_set_busy(device, link);
}

int br_tcp_link_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out)
{
    struct br_tcp_device *device = (struct br_tcp_device *)base;
    union br_inet_address peer;
    struct br_tcp_link *link;
    int rc = br_inet_unpack_peer(address, &device->address, &peer);

    if (rc)
        return br_error_prefix(rc, "device %s: ", base->name);
    link = tcp_link_make(device, &peer);
    if (!link)
        return -EMFILE;
    *out = &link->base;
    base->counters.system_calls++;
    rc = br_tcp_socket_connect(&device->address, &device->options, &peer);
    if (rc < 0) {
        br_tcp_link_fail(link, rc, br_error_message());
        return 0;
    }
    link->fd = rc;
    rc = br_tcp_link_watch(link);
    if (rc)
        br_tcp_link_fail(link, rc, strerror(-rc));
    return 0;
}

struct br_tcp_link *br_tcp_link_accept(struct br_tcp_device *device, bool *again)
{
    union br_inet_address peer = {0};
    socklen_t bytes = sizeof peer;
    int fd = accept4(device->listen_fd, &peer.any, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct br_tcp_link *link;

    device->base.counters.system_calls++;
    *again = fd >= 0 || errno == ECONNABORTED || errno == EINTR;
    if (fd < 0) {
        if (!*again && errno != EAGAIN)
            br_log_limited(&device->base.peer_lines, br_clock_now(), BR_LOG_WARN,
                           "device %s: cannot accept a connection: %s", device->base.name,
                           strerror(errno));
        return NULL;
    }
    link = tcp_link_make(device, &peer);
    if (!link) {
        device->base.counters.refused_links++;
        close(fd);
        return NULL;
    }
    link->fd = fd;
    link->accepted = true;
    link->state = BR_TCP_UP;
    link->readable = link->writable = true;
    br_tcp_link_set_busy(device, link);
    if (br_tcp_link_watch(link)) {
        device->base.counters.refused_links++;
        br_tcp_link_close(&link->base);
        return NULL;
    }
    br_tcp_link_ask(link);
    return link;
}

/* Has the peer's kernel not confirmed all that was sent without a copy? */
static bool has_lent(const struct br_tcp_link *link)
{
    int unconfirmed;

    return link->fd >= 0 && link->lent_end && !ioctl(link->fd, SIOCOUTQ, &unconfirmed) &&
           (uint64_t)unconfirmed > link->sent_bytes - link->lent_end;
}

/* Takes what was peeked at out of the socket: close() with unread bytes in it resets the
 * connection, and what was sent might not arrive. */
static void take_peeked(struct br_tcp_link *link)
{
    uint8_t bytes[BR_TCP_AHEAD];

    while (link->peeked) {
        ssize_t n = recv(link->fd, bytes, link->peeked, MSG_DONTWAIT);

        if (n <= 0)
            return;
        link->peeked -= (uint32_t)n;
    }
}

void br_tcp_link_close(struct br_link *base)
{
    static const struct linger reset = {.l_onoff = 1};
    struct br_tcp_link *link = (struct br_tcp_link *)base;
    struct br_tcp_device *device = tcp_link_device_of(link);

    br_tcp_link_unwatch(link);
    take_peeked(link);
    if (has_lent(link)) /* which the kernel then forgets (doc/design/tcp.md) */
        setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (link->fd >= 0)
        close(link->fd);
    br_stream_rx_destroy(&link->rx);
    br_tcp_link_drop_ahead(device, link);
    br_tcp_link_set_idle(device, link);
    device->open[link->index] = device->open[--device->n_open];
    device->open[link->index]->index = link->index;
    device->check_sockets = true;
    br_pool_put(&device->links, link);
}

/* Sends the message that was pushed last, whose payload is the caller's, if nothing stands in front
 * of it. */
static void send_spared(struct br_tcp_link *link, const struct br_frame *frame)
{
    if (link->tx.posted - link->tx.sent == 1 && link->base.streamed)
        br_tcp_send_streamed(link);
    else if (link->tx.posted - link->tx.sent == 1)
        br_tcp_send_link(link);
    br_stream_tx_spare(&link->tx, frame->spare);
}

int br_tcp_link_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_tcp_link *link = (struct br_tcp_link *)base;
    const struct br_caps *caps = &base->device->caps;
    int taken = 0;

    if (link->state == BR_TCP_FAILED)
        return link->error;
    if (link->state == BR_TCP_CONNECTING)
        return 0;
    for (; taken < n; taken++) {
        const struct br_frame *frame = &frames[taken];

        if (frame->length > (frame->kind == BR_FRAME_MESSAGE ? caps->max_message : caps->max_frame))
            return taken ? taken
                         : br_error(EMSGSIZE, "a frame of %u bytes is too long to post",
                                    frame->length);
        if (!br_stream_tx_push(&link->tx, frame))
            break;
        if (frame->spare)
            send_spared(link, frame);
        base->device->counters.tx_frames++;
        base->device->counters.tx_bytes += frame->length;
    }
    br_tcp_link_set_busy(tcp_link_device_of(link), link);
    if (base->alone)
        br_tcp_send_link(link);
    else if (base->streamed && taken && !frames[taken - 1].spare) /* else send_spared() has */
        br_tcp_send_streamed(link);
    base->device->unsent = base->device->unsent || link->tx.sent != link->tx.posted;
    return taken;
}

int br_tcp_link_release(struct br_device *device, struct br_link *base, void *buffer)
{
    struct br_tcp_link *link = (struct br_tcp_link *)base;

    br_stream_rx_release(&link->rx, buffer);
    if (link->starved)
        br_tcp_link_set_busy((struct br_tcp_device *)device, link);
    link->starved = false;
    return 0;
}
