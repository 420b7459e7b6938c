/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two devices find each other: a small exchange over TCP on the address of the NIC (wire.h).
 *
 *   connector                                  listener
 *   connect()
 *   makes its queue pair, hello          ->    checks it, makes its queue pair, ready to receive
 * and send ready to receive and send            <-    hello UP; go                               ->
 * UP
 *
 * 1. Nothing blocks: every step is taken when poll() finds the socket readable or writable. A hello
 *    is smaller than any socket buffer, so it leaves with one send.
 * 2. The listener reports the link when the connector's queue pair can receive: a first frame that
 *    comes too early is lost and costs a whole timeout of the NIC.
 * 3. Anybody can connect. Who has not come through in UNAUTHENTICATED_TIME is dropped, and
 *    takes one of max_links until then; a queue pair is made only for a whole and well-formed
 *    hello, and lets its owner write nothing (verbs.h note 5).
 * 4. The socket has no keepalive of its own: the protocol has, and a NIC that gets no answer says
 *    so.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/tcp_socket.h"
#include "transport/verbs/verbs.h"

#define UNAUTHENTICATED_TIME (2 * BR_SEC)
#define CONNECT_TIME         (10 * BR_SEC) /* of our own; the protocol is less patient */
#define ACCEPTS              16            /* in one go */
#define BY_TCP               0x76 /* first byte of an address of this back end: how to connect */
#define BY_CM                0x77

int br_verbs_hello_check(const struct br_verbs_hello *hello)
{
    if (hello->magic != BR_VERBS_MAGIC)
        return br_error(
            EPROTO, "no hello of braid's verbs (magic 0x%08x): something else speaks on this port",
            hello->magic);
    if (hello->version != BR_VERBS_VERSION)
        return br_error(EPROTO,
                        "hello of version %u, we speak %u: install the same braid on both hosts",
                        hello->version, BR_VERBS_VERSION);
    if (hello->mtu < IBV_MTU_256 || hello->mtu > IBV_MTU_4096 || hello->psn >> 24 ||
        !hello->lanes || hello->lanes > BR_VERBS_CLASSES || !hello->message_bytes ||
        hello->message_bytes > BR_FRAME_MAX_PAYLOAD)
        return br_error(
            EPROTO,
            "malformed hello (MTU %u, %u queue pairs, first packet %u, messages of %u bytes)",
            hello->mtu, hello->lanes, hello->psn, hello->message_bytes);
    for (int i = 0; i < BR_VERBS_CLASSES; i++)
        if (hello->qps[i] >> 24)
            return br_error(EPROTO, "malformed hello (queue pair %u)", hello->qps[i]);
    return 0;
}

void br_verbs_address(const struct br_verbs_device *device, struct br_address *out)
{
    struct br_address inner;

    br_inet_pack(&device->address, &inner);
    memset(out, 0, sizeof *out);
    out->bytes = (uint16_t)(inner.bytes + 1);
    out->data[0] = device->cm.channel ? BY_CM : BY_TCP;
    memcpy(out->data + 1, inner.data, inner.bytes);
}

static int verbs_connect_unpack(const struct br_verbs_device *device,
                                const struct br_address *address, union br_inet_address *out)
{
    struct br_address inner = {.bytes = (uint16_t)(address->bytes - 1)};
    uint8_t kind = device->cm.channel ? BY_CM : BY_TCP;

    if (!address->bytes || address->bytes > BR_ADDRESS_BYTES ||
        (address->data[0] != BY_TCP && address->data[0] != BY_CM))
        return br_error(EINVAL, "the peer's address is none of the verbs back end");
    if (address->data[0] != kind)
        return br_error(
            EINVAL, "the peer connects by %s, we by %s: set BRAID_VERBS_CONNECT alike everywhere",
            kind == BY_CM ? "TCP" : "rdma_cm", kind == BY_CM ? "rdma_cm" : "TCP");
    memcpy(inner.data, address->data + 1, inner.bytes);
    return br_inet_unpack(&inner, out);
}

static void options_of(const struct br_verbs_device *device, struct br_tcp_socket_options *options)
{
    struct br_interface interface = {.address = device->address};

    if (br_tcp_socket_options_read(&interface, device->base.config, options))
        br_log_warn("device %s: %s", device->base.name, br_error_message());
}

int br_verbs_listen(struct br_verbs_device *device)
{
    struct br_interface interface = {.address = device->address};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &device->listen_fd};
    struct br_tcp_socket_options options;
    int rc = br_tcp_socket_options_read(&interface, device->base.config, &options);

    if (rc)
        return rc;
    device->listen_fd = br_tcp_socket_listen(&interface, &options, &device->address);
    if (device->listen_fd < 0)
        return device->listen_fd;
    if (epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, device->listen_fd, &event))
        return br_error(errno, "epoll_ctl: %s", strerror(errno));
    return 0;
}

/* Waits for the socket: to become writable (connected), then for bytes and its end. */
static int verbs_connect_watch(struct br_verbs_link *link, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = link};

    if (epoll_ctl(br_verbs_device_of(link)->epoll_fd, operation, link->fd, &event))
        return br_error(errno, "epoll_ctl: %s", strerror(errno));
    return 0;
}

static int connect_by_tcp(struct br_verbs_link *link, const union br_inet_address *peer)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct br_tcp_socket_options options;

    options_of(device, &options);
    link->fd = br_tcp_socket_connect(&device->address, &options, peer);
    return link->fd < 0 ? link->fd : verbs_connect_watch(link, EPOLL_CTL_ADD, EPOLLOUT);
}

int br_verbs_link_connect(struct br_device *base, const struct br_address *address,
                          struct br_link **out)
{
    struct br_verbs_device *device = (struct br_verbs_device *)base;
    union br_inet_address peer;
    struct br_verbs_link *link;
    int rc = verbs_connect_unpack(device, address, &peer);

    if (rc)
        return br_error_prefix(rc, "device %s: ", base->name);
    link = br_verbs_link_make(device, &peer);
    if (!link)
        return -EMFILE;
    *out = &link->base;
    link->known = true;
    if (device->dead)
        rc = br_error(ENODEV, "the device has failed; restart the job when it is there again");
    else if (device->attr.state != IBV_PORT_ACTIVE)
        rc = br_error(ENETDOWN, "port %u is %s", device->port,
                      device->library->port_state_str(device->attr.state));
    else if (device->cm.channel)
        rc = br_verbs_cm_connect(link, &peer);
    else
        rc = connect_by_tcp(link, &peer);
    if (rc < 0)
        br_verbs_link_fail(link, rc, true, br_error_message());
    return 0;
}

static void accept_one(struct br_verbs_device *device, int fd, const union br_inet_address *peer)
{
    struct br_verbs_link *link = device->dead ? NULL : br_verbs_link_make(device, peer);

    if (link) {
        link->fd = fd;
        link->accepted = true;
    }
    if (!link || verbs_connect_watch(link, EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP)) {
        device->base.counters.refused_links++;
        if (link)
            br_verbs_link_close(&link->base);
        else
            close(fd);
    }
}

void br_verbs_accept(struct br_verbs_device *device)
{
    for (int i = 0; i < ACCEPTS; i++) {
        union br_inet_address peer = {0};
        socklen_t bytes = sizeof peer;
        int fd = accept4(device->listen_fd, &peer.any, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);

        device->base.counters.system_calls++;
        if (fd >= 0)
            accept_one(device, fd, &peer);
        else if (errno == EAGAIN)
            return;
        else if (errno != ECONNABORTED && errno != EINTR)
            br_log_limited(&device->base.peer_lines, br_clock_now(), BR_LOG_WARN,
                           "device %s: cannot accept a connection: %s", device->base.name,
                           strerror(errno));
    }
}

void br_verbs_hello_fill(const struct br_verbs_link *link, struct br_verbs_hello *hello)
{
    const struct br_verbs_device *device = br_verbs_device_of(link);

    *hello = (struct br_verbs_hello){.magic = BR_VERBS_MAGIC,
                                     .version = BR_VERBS_VERSION,
                                     .mtu = (uint8_t)device->attr.active_mtu,
                                     .lid = device->attr.lid,
                                     .psn = link->psn,
                                     .message_bytes = device->base.config->message_bytes,
                                     .lanes = (uint8_t)device->classes.n};
    for (unsigned i = 0; i < device->classes.n; i++)
        hello->qps[i] = link->lanes[i].qp->qp_num;
}

static int send_hello(struct br_verbs_link *link)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct br_verbs_hello hello;
    struct br_gid_set offer;
    ssize_t n;

    br_verbs_hello_fill(link, &hello);
    br_gid_set(device->gids, &device->choice, &offer);
    memcpy(hello.gids, offer.raw, sizeof hello.gids);
    memcpy(hello.gid_types, offer.type, sizeof hello.gid_types);
    n = send(link->fd, &hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return br_error(errno, "cannot send the hello: %s", strerror(errno));
    return n == (ssize_t)sizeof hello ? 0 : br_error(EIO, "cannot send the whole hello");
}

/* Connected, or not: the connector begins. */
static int verbs_connect_begin(struct br_verbs_link *link)
{
    socklen_t bytes = sizeof(int);
    int err = 0, rc;

    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &err, &bytes))
        err = errno;
    if (err)
        return br_error(err, "%s", strerror(err));
    rc = br_verbs_link_create(link);
    if (!rc)
        rc = send_hello(link);
    return rc ? rc : verbs_connect_watch(link, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
}

/* The peer's hello is whole. */
static int verbs_connect_answer(struct br_verbs_link *link)
{
    static const uint8_t go = BR_VERBS_GO;
    int rc = br_verbs_hello_check(&link->hello);

    if (rc) {
        br_verbs_device_of(link)->base.counters.bad_frames++;
        return rc;
    }
    if (link->accepted) {
        rc = br_verbs_link_create(link);
        if (!rc)
            rc = br_verbs_link_ready(link);
        return rc ? rc : send_hello(link);
    }
    rc = br_verbs_link_ready(link);
    if (!rc && send(link->fd, &go, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        rc = br_error(errno, "cannot send: %s", strerror(errno));
    if (!rc)
        br_verbs_link_up(link);
    return rc;
}

/* Bytes of the exchange. 1: nothing more just now. */
static int verbs_connect_take(struct br_verbs_link *link)
{
    bool whole = link->hello_bytes == sizeof link->hello;
    uint8_t go, *to = whole ? &go : (uint8_t *)&link->hello + link->hello_bytes;
    ssize_t n =
        recv(link->fd, to, whole ? 1 : sizeof link->hello - link->hello_bytes, MSG_DONTWAIT);

    br_verbs_device_of(link)->base.counters.system_calls++;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (n < 0)
        return br_error(errno, "%s", strerror(errno));
    if (!n)
        return br_error(ECONNREFUSED,
                        "the peer closed during the exchange; its log (BRAID_LOG=info) says why");
    if (whole) {
        if (go != BR_VERBS_GO)
            return br_error(EPROTO, "unexpected byte 0x%02x after the hello", go);
        br_verbs_link_up(link);
        return 0;
    }
    link->hello_bytes += (uint32_t)n;
    return link->hello_bytes == sizeof link->hello ? verbs_connect_answer(link) : 0;
}

/* After the exchange nothing comes but the end. */
static void verbs_connect_check_end(struct br_verbs_link *link)
{
    uint8_t byte;
    ssize_t n = recv(link->fd, &byte, 1, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0) {
        br_verbs_device_of(link)->base.counters.bad_frames++;
        br_verbs_link_fail(link, -EPROTO, true, "bytes on the TCP connection after the exchange");
        return;
    }
    link->hung_up = true; /* what it said before is reported first (poll.c) */
    epoll_ctl(br_verbs_device_of(link)->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
    br_verbs_link_is_ready(link);
}

void br_verbs_socket_event(struct br_verbs_link *link, uint32_t events)
{
    int rc = 0;

    if (link->state == BR_VLINK_CONNECTING && !link->accepted && !link->lanes[0].qp)
        rc = verbs_connect_begin(link);
    while (!rc && link->state == BR_VLINK_CONNECTING &&
           (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)))
        rc = verbs_connect_take(link);
    if (rc < 0) {
        br_verbs_link_give_up(link, rc, br_error_message());
        return;
    }
    if (link->state == BR_VLINK_UP && !link->hung_up)
        verbs_connect_check_end(link);
    else if (link->state == BR_VLINK_FAILED)
        epoll_ctl(br_verbs_device_of(link)->epoll_fd, EPOLL_CTL_DEL, link->fd, NULL);
}

void br_verbs_exchange_timers(struct br_verbs_device *device)
{
    for (int i = device->n_open; i-- > 0;) {
        struct br_verbs_link *link = device->open[i];

        if (link->state != BR_VLINK_CONNECTING)
            continue;
        if (!link->deadline) /* the clock is poll()'s alone */
            link->deadline = device->now + (link->accepted ? UNAUTHENTICATED_TIME : CONNECT_TIME);
        if (device->now > link->deadline)
            br_verbs_link_give_up(link, -ETIMEDOUT, "the exchange takes too long");
    }
}
