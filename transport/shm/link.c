/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link's life.
 *
 * 1. Who connects says HELLO, who accepts answers HELLO, who connected says CONFIRM: then both know
 *    that the other has mapped the inbox.
 * 2. The socket stays: its end is the end of the peer, however that died, noticed without any
 *    heartbeat.
 * 3. Whoever closes sets `closed` in the inbox it writes to before it lets go of its memory. A
 *    receiver that finds it set after a copy knows that the copy may be of anything, and does not
 *    report it. A peer that was killed sets nothing and changes nothing any more.
 * 4. After the end of the peer, messages that stand in our inbox are still delivered (the reason
 *    for the end may be among them); DATA frames are not.
 * 5. Rejected: an eventfd for waking, a second descriptor a link whose flags the peer can change
 *    under us (a write to it may then block). A packet wakes as well, at the 60 us that waking
 *    costs.
 */
#include "transport/shm/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "transport/shm/address.h"

#define MAX_PACKETS 1024 /* read in one go; the rest waits for the next look */

static void free_link(struct br_shm_link *link)
{
    struct br_shm_device *device = br_shm_device(&link->base);

    if (link->state < BR_SHM_OPEN)
        device->n_connecting--;
    for (int i = 0; i < BR_SHM_FDS; i++)
        if (link->fds[i].fd >= 0)
            close(link->fds[i].fd);
    if (link->socket >= 0)
        close(link->socket);
    for (uint32_t i = 0; i < BR_SHM_SEGMENTS; i++)
        br_shm_segment_gone(link, i);
    br_inbox_unmap(&link->in);
    br_inbox_unmap(&link->out);
    free(link->messages);
    free(link->free_messages);
    free(link->message_out);
    free(link->turns);
    free(link->reached);
    free(link->sent);
    device->links[link->index] = NULL;
    device->n_links--;
    while (device->top && !device->links[device->top - 1])
        device->top--;
    free(link);
}

/* NULL: *rc is -EMFILE or -ENOMEM, with a message. */
static struct br_shm_link *new_link(struct br_shm_device *device, enum br_shm_state state, int *rc)
{
    struct br_shm_link *link;
    uint32_t index = 0;

    while (index < device->config->max_links && device->links[index])
        index++;
    if (index == device->config->max_links) {
        *rc = br_error(EMFILE, "all %u links are in use", device->config->max_links);
        return NULL;
    }
    link = calloc(1, sizeof *link);
    if (!link) {
        *rc = br_error(ENOMEM, "no memory for a link");
        return NULL;
    }
    link->base.device = &device->base;
    link->index = index;
    link->state = state;
    link->socket = -1;
    for (int i = 0; i < BR_SHM_FDS; i++)
        link->fds[i].fd = -1;
    br_list_init(&link->maps);
    device->links[index] = link;
    device->n_links++;
    device->n_connecting++;
    if (device->top <= index)
        device->top = index + 1;
    return link;
}

void br_shm_link_fail(struct br_shm_link *link, int err, const char *format, ...)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    va_list args;
    int n;

    if (link->state == BR_SHM_FAILED)
        return;
    n = snprintf(link->base.message, sizeof link->base.message, "%s to %s: ", device->base.name,
                 link->base.peer_name[0] ? link->base.peer_name : "a peer");
    va_start(args, format);
    vsnprintf(link->base.message + n, sizeof link->base.message - (size_t)n, format, args);
    va_end(args);
    if (link->state < BR_SHM_OPEN)
        device->n_connecting--;
    if (err == EPROTO)
        device->base.counters.bad_frames++;
    link->state = BR_SHM_FAILED;
    device->base.unshared++;
    link->error = -err;
    link->report_closed = link->known;
    if (link->socket >= 0) {
        epoll_ctl(device->epoll, EPOLL_CTL_DEL, link->socket, NULL);
        shutdown(link->socket, SHUT_RDWR); /* the peer shall know now, not when the caller closes */
    }
}

void br_shm_link_wake_sleeper(struct br_shm_link *link)
{
    BR_DISABLE_CANCELLATION; /* small messages leave with it enabled (base/process.h, note 5) */
    struct br_packet packet = {.kind = BR_PACKET_WAKE};
    _Atomic uint32_t *sleep = &link->out.header->sleep;

    if ((link->wake_due != BR_ASLEEP &&
         atomic_load_explicit(sleep, memory_order_relaxed) != BR_STARVED) ||
        atomic_exchange_explicit(sleep, BR_AWAKE, memory_order_relaxed) == BR_AWAKE)
        return;
    link->base.device->counters.system_calls++;
    /* full: then it is readable, which wakes too */
    (void)br_shm_packet_send(link->socket, &packet, -1);
}

/* Takes a connected socket: whose is it, and put it among those we listen to. */
static int shm_link_adopt(struct br_shm_link *link, int fd)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.u64 = link->index};
    int rc = br_shm_socket_peer(fd, &link->pid);

    link->socket = fd;
    if (rc)
        return rc;
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "pid %d", (int)link->pid);
    if (epoll_ctl(device->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return br_error(errno, "epoll_ctl: %s", strerror(errno));
    return 0;
}

static int shm_link_send_hello(struct br_shm_link *link)
{
    struct br_shm_device *device = br_shm_device(&link->base);
    struct br_packet packet = {.kind = BR_PACKET_HELLO};
    int fd, rc;

    rc = br_inbox_create(&link->in, device->config->message_bytes, device->config->message_buffers,
                         &fd);
    if (rc)
        return rc;
    packet.hello.message_bytes = link->in.message_bytes;
    packet.hello.message_buffers = link->in.message_buffers;
    rc = br_shm_packet_send(link->socket, &packet, fd);
    close(fd);
    if (rc)
        return rc;
    link->messages = calloc(link->in.message_buffers, sizeof *link->messages);
    return link->messages ? 0 : br_error(ENOMEM, "no memory for a link");
}

static void shm_link_open_link(struct br_shm_link *link)
{
    link->state = BR_SHM_OPEN;
    link->report_open = true;
    link->known = true;
    br_shm_device(&link->base)->n_connecting--;
}

static int shm_link_hello(struct br_shm_link *link, const struct br_packet *packet, int fd)
{
    struct br_packet confirm = {.kind = BR_PACKET_CONFIRM};
    int rc;

    if (link->state != BR_SHM_GREETING && link->state != BR_SHM_GREETED)
        return br_error(EPROTO, "HELLO out of turn");
    rc =
        br_inbox_attach(&link->out, packet->hello.message_bytes, packet->hello.message_buffers, fd);
    if (!rc)
        rc = br_shm_send_init(link);
    if (rc)
        return rc;
    if (link->state == BR_SHM_GREETED) {
        link->state = BR_SHM_CONFIRM;
        return shm_link_send_hello(link);
    }
    rc = br_shm_packet_send(link->socket, &confirm, -1);
    if (!rc)
        shm_link_open_link(link);
    return rc;
}

static int shm_link_confirmed(struct br_shm_link *link)
{
    if (link->state != BR_SHM_CONFIRM)
        return br_error(EPROTO, "CONFIRM out of turn");
    shm_link_open_link(link);
    return 0;
}

static int keep_fd(struct br_shm_link *link, uint32_t tag, int *fd)
{
    for (int i = 0; i < BR_SHM_FDS; i++) {
        if (link->fds[i].fd < 0) {
            link->fds[i].fd = *fd;
            link->fds[i].tag = tag;
            *fd = -1;
            return 0;
        }
    }
    return br_error(EPROTO, "more than %d descriptors that nobody takes", BR_SHM_FDS);
}

static int shm_link_dispatch(struct br_shm_link *link, const struct br_packet *packet, int *fd)
{
    if (packet->kind == BR_PACKET_HELLO)
        return shm_link_hello(link, packet, *fd);
    if (packet->kind == BR_PACKET_CONFIRM)
        return shm_link_confirmed(link);
    if (link->state != BR_SHM_OPEN)
        return br_error(EPROTO, "packet of kind %u before the handshake", packet->kind);
    switch (packet->kind) {
    case BR_PACKET_WAKE:
        return 0;
    case BR_PACKET_SEGMENT:
        return br_shm_segment_arrived(link, packet->segment.number, packet->segment.id, *fd);
    case BR_PACKET_UNMAP:
        if (packet->segment.number >= BR_SHM_SEGMENTS)
            return br_error(EPROTO, "segment number %u", packet->segment.number);
        br_shm_segment_gone(link, packet->segment.number);
        return 0;
    case BR_PACKET_FD:
        return keep_fd(link, packet->tag, fd);
    default:
        return br_error(EPROTO, "packet of unknown kind %u", packet->kind);
    }
}

/* One packet. 1: there may be more. */
static int listen_once(struct br_shm_link *link)
{
    struct br_packet packet;
    int fd, rc;

    link->base.device->counters.system_calls++;
    rc = br_shm_packet_receive(link->socket, &packet, &fd);
    if (rc > 0) {
        rc = shm_link_dispatch(link, &packet, &fd);
        if (fd >= 0)
            close(fd);
        return rc ? rc : 1;
    }
    if (rc != -ECONNRESET)
        return rc;
    if (link->state != BR_SHM_OPEN)
        return br_error(ECONNRESET, "the peer left during the handshake");
    link->peer_left = true;
    link->base.device->unshared++;
    epoll_ctl(br_shm_device(&link->base)->epoll, EPOLL_CTL_DEL, link->socket, NULL);
    return 0;
}

void br_shm_link_listen(struct br_shm_link *link)
{
    int rc = 1;

    for (int i = 0; i < MAX_PACKETS && rc > 0 && link->state != BR_SHM_FAILED && !link->peer_left;
         i++)
        rc = listen_once(link);
    if (rc < 0)
        br_shm_link_fail(link, -rc, "%s", br_error_message());
}

/* Connects and greets; a full queue of the listener leaves the link DIALLING. */
static int shm_link_dial(struct br_shm_link *link)
{
    int fd = br_shm_socket_connect(link->peer_socket);
    int rc;

    if (fd == -EAGAIN)
        return 0;
    if (fd < 0)
        return fd;
    rc = shm_link_adopt(link, fd);
    if (rc)
        return rc;
    link->state = BR_SHM_GREETING;
    return shm_link_send_hello(link);
}

void br_shm_link_redial(struct br_shm_link *link)
{
    int rc = shm_link_dial(link);

    if (rc)
        br_shm_link_fail(link, -rc, "%s", br_error_message());
}

int br_shm_link_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out)
{
    struct br_shm_device *device = (struct br_shm_device *)base;
    char name[BR_SHM_SOCKET_NAME];
    struct br_shm_link *link;
    int rc = br_shm_address_resolve(address, name);

    if (rc)
        return br_error_prefix(rc, "%s: ", device->base.name);
    link = new_link(device, BR_SHM_DIALLING, &rc);
    if (!link)
        return br_error_prefix(rc, "%s: ", device->base.name);
    memcpy(link->peer_socket, name, sizeof name);
    link->outgoing = link->known = true;
    br_shm_link_redial(link); /* a refusal is reported as CLOSED, as by the other back ends */
    *out = &link->base;
    return 0;
}

int br_shm_link_accept(struct br_shm_device *device, int fd)
{
    int rc = 0;
    struct br_shm_link *link = new_link(device, BR_SHM_GREETED, &rc);

    if (!link) {
        close(fd);
        return br_error_prefix(rc, "%s: refused a link: ", device->base.name);
    }
    rc = shm_link_adopt(link, fd);
    if (rc) {
        free_link(link);
        return br_error_prefix(rc, "%s: refused a link: ", device->base.name);
    }
    return 0;
}

void br_shm_link_close(struct br_link *base)
{
    struct br_shm_link *link = (struct br_shm_link *)base;

    if (link->out.header) {
        br_shm_share_no_more(link, BR_SHM_SEGMENTS);
        atomic_store_explicit(&link->out.header->closed, 1, memory_order_relaxed);
        /* before the caller reuses the memory of what it posted */
        atomic_thread_fence(memory_order_seq_cst);
    }
    while (!br_list_empty(&link->maps)) {
        struct br_shm_map *map =
            br_container_of(br_list_pop_front(&link->maps), struct br_shm_map, node);

        map->link = NULL;
        br_list_push_back(&br_shm_device(base)->closed_maps, &map->node);
    }
    free_link(link);
}

int br_shm_link_send_fd(struct br_link *base, uint32_t tag, int fd)
{
    struct br_shm_link *link = (struct br_shm_link *)base;
    struct br_packet packet = {.kind = BR_PACKET_FD, .tag = tag};

    if (link->state != BR_SHM_OPEN || link->peer_left)
        return br_error(ENOTCONN, "%s: no open link to hand a descriptor over",
                        link->base.device->name);
    return br_shm_packet_send(link->socket, &packet, fd);
}

int br_shm_link_take_fd(struct br_link *base, uint32_t tag)
{
    struct br_shm_link *link = (struct br_shm_link *)base;
    int fd;

    if (link->state == BR_SHM_OPEN && !link->peer_left)
        br_shm_link_listen(link);
    for (int i = 0; i < BR_SHM_FDS; i++) {
        if (link->fds[i].fd >= 0 && link->fds[i].tag == tag) {
            fd = link->fds[i].fd;
            link->fds[i].fd = -1;
            return fd;
        }
    }
    return -EAGAIN;
}
