/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the udp back end: probe, open, close. */
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numa.h"
#include "transport/backends.h"
#include "transport/udp/udp.h"

/* Of queueing; in it are a train that passes as one, and what a call takes. */
#define TARGET (500 * BR_US)
#define FLIGHT (2u << 20) /* bytes of a link under way; a socket holds those of several peers */
/* At most: with all its headers it is one train, however long packets are. */
#define FRAME (60u << 10)
/* Of a socket's queue, in bytes; with less, bursts of several peers get lost. */
#define LEAST_ROOM (1u << 20)

static_assert(FRAME + BR_FRAME_INLINE + BR_DGRAM_PARTS * sizeof(struct br_dgram_data) <=
                  BR_UDP_TRAIN_BYTES,
              "a frame is a train");

static int read_paths(int *out)
{
    int64_t paths = 1;
    int rc = br_env_number("BRAID_UDP_PATHS", 1, BR_DGRAM_PATHS, 1, &paths);

    *out = (int)paths;
    return rc;
}

/* What covers payload (udp.h note 3); *crc32c: our own checksum, too. */
static int read_checksum(bool *crc32c)
{
    static const char *const ways[] = {"udp", "crc32c", NULL};
    int way = 0, rc = br_env_choice("BRAID_UDP_CHECKSUM", ways, 0, &way);

    *crc32c = way == 1;
    return rc;
}

static bool kernel_cuts(int fd)
{
    int none = 0;

    return !setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &none, sizeof none);
}

static void udp_device_describe(const struct br_interface *interface, struct br_device_info *out)
{
    struct br_tcp_socket_options any = {.first_port = 0};
    union br_inet_address address = interface->address;
    char ip[64] = "no address";
    uint32_t bytes = br_udp_socket_packet_bytes(interface);
    int fd = -1, paths;
    bool crc32c;

    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", interface->name);
    br_interface_why_not(interface, out->why_not, sizeof out->why_not);
    out->numa_node = br_numa_node_of_interface(interface->name);
    out->bits_per_second = br_interface_speed(interface);
    out->loopback = interface->loopback;
    if (!out->why_not[0]) {
        br_inet_text(&interface->address, false, ip, sizeof ip);
        fd = br_udp_socket_open(&any, true, &address);
        if (fd < 0 || read_paths(&paths) || read_checksum(&crc32c))
            snprintf(out->why_not, sizeof out->why_not, "%.127s", br_error_message());
        else if (bytes < BR_DGRAM_MIN_PACKET)
            snprintf(out->why_not, sizeof out->why_not,
                     "packets of %u bytes are too short; ip link set %.15s mtu 1500", bytes,
                     interface->name);
    }
    snprintf(out->detail, sizeof out->detail, "%.39s, UDP packets of %u bytes%s, queue of %u KiB",
             ip, bytes, fd >= 0 && kernel_cuts(fd) ? " in trains" : "",
             fd >= 0 ? br_udp_socket_room(fd) >> 10 : 0);
    if (fd >= 0)
        close(fd);
}

static int udp_device_probe(struct br_device_info *out, int max)
{
    struct br_interface all[BR_INTERFACES];
    int n = br_interface_list(all, max < BR_INTERFACES ? max : BR_INTERFACES);

    for (int i = 0; i < n; i++)
        udp_device_describe(&all[i], &out[i]);
    return n;
}

static void udp_device_device_close(struct br_device *base)
{
    struct br_udp_device *device = (struct br_udp_device *)base;

    br_dgram_device_close_links(&device->dgram);
    for (int i = 0; i < (int)BR_DGRAM_PATHS; i++)
        if (device->fds[i] >= 0)
            close(device->fds[i]);
    if (device->timer_fd >= 0)
        close(device->timer_fd);
    if (device->epoll_fd >= 0)
        close(device->epoll_fd);
    br_dgram_device_destroy(&device->dgram);
    free(device->outbox);
    free(device->inbox);
    free(device);
}

static int udp_device_allocate(struct br_udp_device *device)
{
    device->outbox = aligned_alloc(64, sizeof *device->outbox);
    device->inbox = aligned_alloc(64, sizeof *device->inbox);
    if (!device->outbox || !device->inbox)
        return br_error(ENOMEM, "no memory for packets");
    br_udp_inbox_init(device->inbox);
    return 0;
}

static int udp_device_watch(struct br_udp_device *device, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(device->epoll_fd, EPOLL_CTL_ADD, fd, &event)
               ? br_error(errno, "epoll: %s", strerror(errno))
               : 0;
}

static int udp_device_open_sockets(struct br_udp_device *device,
                                   const struct br_tcp_socket_options *options)
{
    for (int i = 0; i < device->dgram.paths; i++) {
        union br_inet_address source = device->dgram.address;
        int rc;

        device->fds[i] = br_udp_socket_open(options, i == 0, i ? &source : &device->dgram.address);
        if (device->fds[i] < 0)
            return device->fds[i];
        rc = udp_device_watch(device, device->fds[i], i ? 0 : EPOLLIN); /* the others only send */
        if (rc)
            return rc;
    }
    return 0;
}

static int udp_device_start(struct br_udp_device *device, const struct br_interface *interface)
{
    struct br_tcp_socket_options options;
    int rc = br_tcp_socket_options_of(&device->dgram.base, interface, &options);
    bool crc32c = false;

    if (!rc)
        rc = read_paths(&device->dgram.paths);
    if (!rc)
        rc = read_checksum(&crc32c);
    if (rc)
        return rc;
    device->dgram.header_only = !crc32c;
    device->dgram.address = interface->address;
    device->dgram.max_packet = br_udp_socket_packet_bytes(interface);
    if (device->dgram.max_packet < BR_DGRAM_MIN_PACKET)
        return br_error(EMSGSIZE,
                        "its packets carry %u bytes, %u are needed: ip link set %.15s mtu 1500",
                        device->dgram.max_packet, BR_DGRAM_MIN_PACKET, interface->name);
    device->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    device->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (device->epoll_fd < 0 || device->timer_fd < 0)
        return br_error(errno, "no descriptor to wait for: %s", strerror(errno));
    rc = udp_device_open_sockets(device, &options);
    if (!rc)
        rc = udp_device_watch(device, device->timer_fd, EPOLLIN);
    if (rc)
        return rc;
    br_udp_outbox_init(device->outbox, kernel_cuts(device->fds[0]));
    if (!device->outbox->cuts)
        br_downgrade(gso);
    if (br_udp_socket_room(device->fds[0]) < LEAST_ROOM) {
        br_downgrade(receive_buffer);
        br_log_info(
            "device %s: only %u KiB may wait to be received: sysctl -w net.core.rmem_max=8388608",
            device->dgram.base.name, br_udp_socket_room(device->fds[0]) >> 10);
    }
    return 0;
}

static int udp_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_interface interface;
    struct br_udp_device *device;
    int rc = br_interface_find(config->name, &interface);

    if (rc)
        return br_error_prefix(rc, "device %s: ", config->name ? config->name : "(any)");
    device = calloc(1, sizeof *device);
    if (!device)
        return br_error(ENOMEM, "device %s: no memory", interface.name);
    snprintf(device->dgram.base.name, sizeof device->dgram.base.name, "%s",
             config->name ? config->name : interface.name);
    device->epoll_fd = device->timer_fd = device->out_fd = -1;
    memset(device->fds, 0xff, sizeof device->fds);
    rc = br_dgram_device_init(&device->dgram, &br_udp_io, config);
    device->dgram.base.caps.max_frame = FRAME;
    device->dgram.target = TARGET;
    device->dgram.flight_bytes = FLIGHT;
    if (!rc)
        rc = udp_device_allocate(device);
    if (!rc)
        rc = udp_device_start(device, &interface);
    if (rc) {
        br_error_prefix(rc, "device %s: ", device->dgram.base.name);
        udp_device_device_close(&device->dgram.base);
        return rc;
    }
    br_inet_pack(&device->dgram.address, &device->dgram.base.address);
    *out = &device->dgram.base;
    return 0;
}

const struct br_transport_ops br_udp_ops = {
    .name = "udp",
    .traits = {.packets = true},
    .probe = udp_device_probe,
    .device_open = udp_device_device_open,
    .device_close = udp_device_device_close,
    .link_connect = br_dgram_member_connect,
    .link_close = br_dgram_member_close,
    .post = br_dgram_member_post,
    .poll = br_udp_poll,
    .arm = br_udp_arm,
    .release = br_dgram_member_release,
};
