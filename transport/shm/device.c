/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The back end `shm`: processes of one host and one user.
 *
 * 1. Each link has an inbox of shared memory at either end (inbox.h) and a socket (socket.h).
 *    Frames, payload and completions go through the inboxes without any system call; the socket
 *    carries descriptors, wake-ups and, by its end, the news that the peer has gone.
 * 2. poll() looks at the sockets once a millisecond of `now` (one epoll_wait for all), in every
 *    call while a handshake is under way, and after sleeping.
 * 3. Sleeping: arm() sets `sleep` in the inboxes and then looks again; whoever writes something
 *    looks at `sleep` afterwards. With a full fence on both sides at least one of them sees the
 *    other.
 * 4. Peers must run under our uid (SO_PEERCRED): others are refused and counted. A peer sees of our
 *    memory what is passed to it as a sealed memfd (segment.h), and what we ask it to read from
 *    our process (ways.h): if the kernel does not let it (Yama's ptrace_scope, a filter of system
 *    calls, name spaces), the bytes go through the pipe.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/backends.h"
#include "transport/shm/address.h"
#include "transport/shm/link.h"

#define NAME         "shm0"
#define CHECK_PERIOD (1 * BR_MS)
/* an incoming link that has not come through its handshake by then is dropped */
#define UNAUTHENTICATED_TIME (2 * BR_SEC)
#define LISTENER             UINT64_MAX /* epoll's word for the listener; links: their index */
#define EPOLL_EVENTS         32
#define MAX_ACCEPTS          16 /* in one go */

static int shm_device_probe(struct br_device_info *out, int max)
{
    if (max < 1)
        return 0;
    *out = (struct br_device_info){
        .name = NAME,
        .detail = "processes of this host; braid_alloc() memory is read in place",
        .numa_node = -1,
        .loopback = true};
    return 1;
}

static int shm_device_open_sockets(struct br_shm_device *device)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = LISTENER};

    device->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (device->epoll < 0)
        return br_error(errno, "epoll_create1: %s", strerror(errno));
    device->listener = br_shm_socket_listen(device->socket_name);
    if (device->listener < 0)
        return device->listener;
    if (epoll_ctl(device->epoll, EPOLL_CTL_ADD, device->listener, &event) < 0)
        return br_error(errno, "epoll_ctl: %s", strerror(errno));
    return 0;
}

static void shm_device_device_close(struct br_device *base)
{
    struct br_shm_device *device = (struct br_shm_device *)base;

    for (uint32_t i = 0; device->links && i < device->config->max_links; i++)
        if (device->links[i])
            br_shm_link_close(&device->links[i]->base);
    while (!br_list_empty(&device->closed_maps))
        br_shm_mapping_put(
            br_container_of(br_list_pop_front(&device->closed_maps), struct br_shm_map, node)
                ->mapping);
    if (device->listener >= 0)
        close(device->listener);
    if (device->epoll >= 0)
        close(device->epoll);
    br_pool_destroy(&device->maps);
    free(device->links);
    free(device);
}

static void shm_device_describe(struct br_shm_device *device)
{
    device->base.config = device->config;
    device->base.caps = (struct br_caps){.max_frame = BR_FRAME_MAX_PAYLOAD,
                                         .max_message = device->config->message_bytes,
                                         .sent_means_arrived = true,
                                         .maps = true,
                                         .reduces = true};
    snprintf(device->base.name, sizeof device->base.name, NAME);
}

static int shm_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_shm_device *device;
    int rc;

    if (config->name && strcmp(config->name, NAME) != 0)
        return br_error(ENODEV, "shm has one device, " NAME ", and no %s", config->name);
    device = calloc(1, sizeof *device);
    if (!device)
        return br_error(ENOMEM, NAME ": no memory");
    device->config = config;
    device->listener = device->epoll = -1;
    br_list_init(&device->closed_maps);
    shm_device_describe(device);
    device->links = calloc(config->max_links, sizeof(struct br_shm_link *));
    if (getrandom(&device->token, sizeof device->token, 0) != (ssize_t)sizeof device->token) {
        rc = br_error(errno, "getrandom: %s", strerror(errno));
        shm_device_device_close(&device->base);
        return br_error_prefix(rc, NAME ": ");
    }
    rc = device->links ? br_pool_init(&device->maps, sizeof(struct br_shm_map),
                                      config->max_links * BR_INBOX_DATA)
                       : br_error(ENOMEM, "no memory");
    if (!rc)
        rc = shm_device_open_sockets(device);
    if (!rc)
        rc = br_shm_address_make(device->socket_name, &device->base.address);
    if (rc) {
        shm_device_device_close(&device->base);
        return br_error_prefix(rc, NAME ": ");
    }
    device->check_now = true;
    *out = &device->base;
    return 0;
}

static void shm_device_accept_links(struct br_shm_device *device)
{
    int fd;

    for (int i = 0; i < MAX_ACCEPTS; i++) {
        device->base.counters.system_calls++;
        fd = br_shm_socket_accept(device->listener);
        if (fd < 0)
            return; /* none; or no descriptor left, then later */
        if (br_shm_link_accept(device, fd)) {
            device->base.counters.refused_links++;
            br_log_limited(&device->base.peer_lines, br_clock_now(), BR_LOG_INFO, "%s",
                           br_error_message());
        }
    }
}

static void check_sockets(struct br_shm_device *device, uint64_t now)
{
    struct epoll_event events[EPOLL_EVENTS];
    int n = epoll_wait(device->epoll, events, EPOLL_EVENTS, 0);

    device->base.counters.system_calls++;
    device->checked_at = now;
    device->check_now = n == EPOLL_EVENTS;
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 == LISTENER)
            shm_device_accept_links(device);
        else if (device->links[events[i].data.u64])
            br_shm_link_listen(device->links[events[i].data.u64]);
    }
}

/* Links that are not open yet: dials again, and drops unauthenticated peers that failed or say
 * nothing. */
static void poll_connecting(struct br_shm_device *device, uint64_t now)
{
    for (uint32_t i = 0; i < device->top; i++) {
        struct br_shm_link *link = device->links[i];

        if (!link || link->state == BR_SHM_OPEN)
            continue;
        if (!link->since)
            link->since = now;
        if (link->state == BR_SHM_DIALLING)
            br_shm_link_redial(link);
        if (!link->known && now - link->since > UNAUTHENTICATED_TIME)
            br_shm_link_fail(link, ETIMEDOUT, "no handshake");
        if (!link->known && link->state == BR_SHM_FAILED) {
            br_log_limited(&device->base.peer_lines, now, BR_LOG_INFO, "refused a link: %s",
                           link->base.message);
            device->base.counters.refused_links++;
            br_shm_link_close(&link->base);
        }
    }
}

static int poll_link(struct br_shm_link *link, struct br_event *events, int max)
{
    int n = 0;

    if (link->report_open && n < max) {
        events[n++] = (struct br_event){
            .kind = link->outgoing ? BR_EVENT_CONNECTED : BR_EVENT_ACCEPTED, .link = &link->base};
        link->report_open = false;
    }
    if (link->state == BR_SHM_OPEN)
        n += br_shm_send_poll(link, events + n, max - n);
    if (link->state == BR_SHM_OPEN)
        n += br_shm_receive_poll(link, events + n, max - n);
    br_shm_link_wake_peer(link);
    if (link->report_closed && n < max) {
        events[n++] =
            (struct br_event){.kind = BR_EVENT_CLOSED, .link = &link->base, .error = link->error};
        link->report_closed = false;
    }
    return n;
}

/* Nobody sleeps any more: peers need not wake us. */
static void shm_device_disarm(struct br_shm_device *device)
{
    device->armed = false;
    for (uint32_t i = 0; i < device->top; i++)
        if (device->links[i] && device->links[i]->in.header)
            atomic_store_explicit(&device->links[i]->in.header->sleep, BR_AWAKE,
                                  memory_order_relaxed);
}

static int poll_device(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_shm_device *device = (struct br_shm_device *)base;
    uint32_t i = device->first;
    int n = 0;

    if (max > BR_SHM_POLL_EVENTS)
        max = BR_SHM_POLL_EVENTS;
    if (device->n_connecting || device->check_now || now - device->checked_at >= CHECK_PERIOD) {
        if (device->armed)
            shm_device_disarm(device);
        check_sockets(device, now);
        if (device->n_links)
            poll_connecting(device, now);
    }
    device->n_data = 0;
    for (uint32_t k = 0; k < device->top && n < max; k++) {
        i = i + 1 < device->top ? i + 1 : 0;
        if (device->links[i])
            n += poll_link(device->links[i], events + n, max - n);
    }
    device->first = i;
    return n;
}

static bool shm_device_pending(const struct br_shm_link *link)
{
    if (link->report_open || link->report_closed || link->state == BR_SHM_DIALLING)
        return true;
    if (link->state == BR_SHM_FAILED)
        return !link->known;
    return link->state == BR_SHM_OPEN &&
           (br_shm_send_pending(link) || br_shm_receive_pending(link));
}

static int shm_device_arm(struct br_device *base)
{
    struct br_shm_device *device = (struct br_shm_device *)base;

    device->armed = device->check_now = true;
    for (uint32_t i = 0; i < device->top; i++) {
        struct br_shm_link *link = device->links[i];

        if (!link || link->state != BR_SHM_OPEN)
            continue;
        br_shm_link_wake_peer(link);
        atomic_store_explicit(&link->in.header->sleep,
                              link->n_free_messages ? BR_ASLEEP : BR_STARVED, memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t i = 0; i < device->top; i++)
        if (device->links[i] && shm_device_pending(device->links[i]))
            return -EAGAIN;
    return device->epoll;
}

const struct br_transport_ops br_shm_ops = {
    .name = "shm",
    .traits = {.within_host = true},
    .probe = shm_device_probe,
    .device_open = shm_device_device_open,
    .device_close = shm_device_device_close,
    .region_register = br_shm_region_register,
    .region_release = br_shm_region_release,
    .share = br_shm_share,
    .link_connect = br_shm_link_connect,
    .link_close = br_shm_link_close,
    .post = br_shm_post,
    .poll = poll_device,
    .arm = shm_device_arm,
    .release = br_shm_release,
};
