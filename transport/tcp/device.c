/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the tcp back end: probe, open, close. */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/numa.h"
#include "transport/backends.h"

#define TRASH_BYTES (64u << 10)

static bool have_io_uring(void)
{
    struct io_uring ring;

    if (io_uring_queue_init(2, &ring, 0))
        return false;
    io_uring_queue_exit(&ring);
    return true;
}

static void tcp_device_describe(const struct br_interface *interface, bool ring,
                                struct br_device_info *out)
{
    static const struct br_device_config any = {0};
    struct br_tcp_socket_options options;
    static const char *const ways[] = {
        [BR_TCP_ZERO_COPY_TRIED] = "tried on each link",
        [BR_TCP_ZERO_COPY_OFF] = "off",
        [BR_TCP_ZERO_COPY_ON] = "on",
    };
    enum br_tcp_zero_copy_way way;
    char address[64] = "no address";

    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", interface->name);
    br_interface_why_not(interface, out->why_not, sizeof out->why_not);
    out->numa_node = br_numa_node_of_interface(interface->name);
    out->bits_per_second = br_interface_speed(interface);
    out->loopback = interface->loopback;
    if (interface->address.any.sa_family != AF_UNSPEC)
        br_inet_text(&interface->address, false, address, sizeof address);
    if (br_tcp_socket_options_read(interface, &any, &options)) {
        snprintf(out->why_not, sizeof out->why_not, "%.127s", br_error_message());
        *options.congestion = '\0';
    }
    if (br_tcp_zero_copy_read(&way))
        snprintf(out->why_not, sizeof out->why_not, "%.127s", br_error_message());
    snprintf(out->detail, sizeof out->detail, "%.39s, TCP %.15s, %s, zero-copy send %s", address,
             *options.congestion ? options.congestion : "as the host",
             ring ? "io_uring" : "no io_uring", ways[way]);
}

static int tcp_device_probe(struct br_device_info *out, int max)
{
    struct br_interface all[BR_INTERFACES];
    int n = br_interface_list(all, max < BR_INTERFACES ? max : BR_INTERFACES);
    bool ring = have_io_uring();

    for (int i = 0; i < n; i++)
        tcp_device_describe(&all[i], ring, &out[i]);
    return n;
}

static void tcp_device_device_close(struct br_device *base)
{
    struct br_tcp_device *device = (struct br_tcp_device *)base;

    while (device->n_open)
        br_tcp_link_close(&device->open[0]->base);
    br_tcp_batch_destroy(&device->batch);
    br_tcp_pipe_close(&device->pipe);
    if (device->epoll_fd >= 0)
        close(device->epoll_fd);
    if (device->listen_fd >= 0)
        close(device->listen_fd);
    br_pool_destroy(&device->links);
    br_pool_destroy(&device->aheads);
    free(device->open);
    free(device->busy);
    free(device->inlines);
    free(device->stream.trash);
    free(device);
}

static int tcp_device_allocate(struct br_tcp_device *device, const struct br_device_config *config)
{
    int rc;

    device->open = calloc(config->max_links, sizeof(struct br_tcp_link *));
    device->busy = calloc(config->max_links, sizeof(struct br_tcp_link *));
    device->inlines = calloc(BR_TCP_EVENTS, sizeof *device->inlines);
    device->stream = (struct br_stream_config){.slots = config->slots,
                                               .max_message = config->message_bytes,
                                               .max_frame = BR_FRAME_MAX_PAYLOAD,
                                               .trash = malloc(TRASH_BYTES),
                                               .trash_bytes = TRASH_BYTES};
    if (!device->open || !device->busy || !device->inlines || !device->stream.trash)
        return br_error(ENOMEM, "no memory for %u links", config->max_links);
    rc = br_pool_init(&device->links, sizeof(struct br_tcp_link), config->max_links);
    return rc ? rc : br_pool_init(&device->aheads, BR_TCP_AHEAD, config->max_links);
}

/* Starts to listen, and readies the readiness. */
static int tcp_device_start(struct br_tcp_device *device, const struct br_interface *interface)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    int rc = br_tcp_zero_copy_read(&device->zero_copy);

    if (!rc)
        rc = br_tcp_socket_options_of(&device->base, interface, &device->options);
    if (rc)
        return rc;
    device->listen_fd = br_tcp_socket_listen(interface, &device->options, &device->address);
    if (device->listen_fd < 0)
        return device->listen_fd;
    device->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (device->epoll_fd < 0 ||
        epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, device->listen_fd, &event))
        return br_error(errno, "epoll: %s", strerror(errno));
    br_tcp_batch_init(&device->batch);
    br_inet_pack(&device->address, &device->base.address);
    return 0;
}

static int tcp_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_interface interface;
    struct br_tcp_device *device;
    int rc = br_interface_find(config->name, &interface);

    if (rc)
        return br_error_prefix(rc, "device %s: ", config->name ? config->name : "(any)");
    device = calloc(1, sizeof *device);
    if (!device)
        return br_error(ENOMEM, "device %s: no memory", interface.name);
    device->base.config = config;
    device->base.caps = (struct br_caps){
        .max_frame = BR_FRAME_MAX_PAYLOAD, .max_message = config->message_bytes, .spares = true};
    snprintf(device->base.name, sizeof device->base.name, "%s",
             config->name ? config->name : interface.name);
    device->listen_fd = device->epoll_fd = -1;
    device->pipe = (struct br_tcp_pipe){-1, -1, -1};
    device->check_sockets = true;
    rc = tcp_device_allocate(device, config);
    if (!rc)
        rc = tcp_device_start(device, &interface);
    if (rc) {
        br_error_prefix(rc, "device %s: ", device->base.name);
        tcp_device_device_close(&device->base);
        return rc;
    }
    *out = &device->base;
    return 0;
}

const struct br_transport_ops br_tcp_ops = {
    .name = "tcp",
    .probe = tcp_device_probe,
    .device_open = tcp_device_device_open,
    .device_close = tcp_device_device_close,
    .link_connect = br_tcp_link_connect,
    .link_close = br_tcp_link_close,
    .post = br_tcp_link_post,
    .poll = br_tcp_poll,
    .arm = br_tcp_arm,
    .release = br_tcp_link_release,
};
