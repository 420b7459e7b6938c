/* SPDX-License-Identifier: BSD-3-Clause */
/* What the udp back end does in a poll: receive, report, send. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "transport/udp/udp.h"

#define ROUNDS     16          /* of receives in one poll, at most */
#define MOST_BYTES (4u << 20)  /* after which it receives no more */
#define SOON       (5 * BR_US) /* to sleep for less is not worth it */
/* The same where what is due cannot leave: the kernel says when there is room. */
#define NO_ROOM (1 * BR_MS)

static struct br_udp_device *udp_poll_device_of(struct br_dgram_device *device)
{
    return (struct br_udp_device *)device;
}

static void udp_poll_arrive(struct br_udp_device *device, const struct br_udp_arrival *arrival)
{
    struct br_dgram_address from = {.address = *arrival->from};

    device->dgram.arrived = arrival->at;
    for (uint32_t at = 0; at < arrival->n; at += arrival->packet_bytes) {
        uint32_t left = arrival->n - at;

        br_dgram_device_take(&device->dgram, arrival->bytes + at,
                             left < arrival->packet_bytes ? left : arrival->packet_bytes,
                             arrival->marked, &from);
    }
}

static void handle_error(struct br_dgram_member *member, int error)
{
    if (error == ECONNREFUSED)
        br_dgram_member_fail(member, -ECONNREFUSED, "nobody listens there (any more)");
    else if (error == EMSGSIZE && member->state == BR_DGRAM_UP)
        br_dgram_member_fail(member, -EMSGSIZE,
                             "the path carries shorter packets than when the link was set up");
    else if ((error == EHOSTUNREACH || error == ENETUNREACH) && member->state == BR_DGRAM_OPENING)
        br_dgram_member_fail(member, -error, strerror(error));
}

/* What ICMP says about packets that were sent by this socket. */
static void receive_socket(struct br_udp_device *device, int fd)
{
    struct br_udp_diagnosis trouble;

    while (br_udp_socket_diagnosis(fd, &trouble)) {
        struct br_dgram_member *member =
            br_dgram_device_quoted(&device->dgram, trouble.quote, trouble.quote_bytes);

        device->dgram.base.counters.system_calls++;
        if (member)
            handle_error(member, trouble.error);
    }
}

/* true: all that there was. */
static bool udp_poll_receive(struct br_udp_device *device, struct br_dgram_report *report)
{
    uint32_t bytes = 0;

    for (int round = 0; round < ROUNDS && bytes < MOST_BYTES && report->n < report->max; round++) {
        int n = br_udp_inbox_receive(device->inbox, device->fds[0], BR_UDP_TRAINS);

        device->dgram.base.counters.system_calls++;
        if (n < 0 && n != -EAGAIN && n != -EINTR)
            receive_socket(device, device->fds[0]);
        for (int i = 0; i < n; i++) {
            struct br_udp_arrival arrival = br_udp_inbox_at(device->inbox, i);

            udp_poll_arrive(device, &arrival);
            bytes += arrival.n;
        }
        if (n > 0)
            br_dgram_device_report(&device->dgram, report);
        if (n < BR_UDP_TRAINS)
            return true;
    }
    return false;
}

static void read_error_queue(struct br_udp_device *device)
{
    for (int i = 0; i < device->dgram.paths; i++)
        receive_socket(device, device->fds[i]);
}

/* false: the kernel has no room. */
static bool send_outbox(struct br_udp_device *device)
{
    struct br_udp_outbox *outbox = device->outbox;

    device->dgram.base.counters.system_calls += br_udp_outbox_send(outbox);
    if (outbox->error) /* of a link that is still open: a closed one has no train any more */
        ((struct br_dgram_member *)outbox->error_link)->send_error = outbox->error;
    outbox->error = 0;
    if (outbox->news)
        read_error_queue(device);
    outbox->news = false;
    return !br_udp_outbox_waits(outbox);
}

static void udp_poll_send_all(struct br_udp_device *device)
{
    if (br_udp_outbox_waits(device->outbox) && !send_outbox(device))
        br_dgram_device_expire(&device->dgram);
    else if (br_dgram_device_send(&device->dgram) && br_udp_outbox_waits(device->outbox))
        send_outbox(device);
}

static void udp_poll_reply(struct br_dgram_device *base, const struct br_dgram_address *to,
                           const void *head, uint32_t bytes, uint32_t zeros)
{
    static const uint8_t nothing[BR_DGRAM_MAX_PACKET];
    struct iovec iov[2] = {{(void *)head, bytes}, {(void *)nothing, zeros}};
    struct msghdr msg = {.msg_name = (void *)&to->address,
                         .msg_namelen = br_inet_bytes(&to->address),
                         .msg_iov = iov,
                         .msg_iovlen = zeros ? 2 : 1};

    (void)!sendmsg(udp_poll_device_of(base)->fds[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    base->base.counters.system_calls++;
}

static bool udp_poll_can_send(struct br_dgram_device *base, struct br_dgram_member *member)
{
    struct br_udp_device *device = udp_poll_device_of(base);

    (void)member;
    return !br_udp_outbox_full(device->outbox) || send_outbox(device);
}

static void udp_poll_add(struct br_dgram_device *base, struct br_dgram_member *member,
                         const struct br_dgram_packet *packet)
{
    struct br_udp_device *device = udp_poll_device_of(base);

    base->base.counters.tx_copied_bytes += packet->payload_bytes;
    br_udp_outbox_add(device->outbox, member, device->fds[packet->path], &member->peer.address,
                      packet);
}

static void udp_poll_drop(struct br_dgram_device *base, struct br_dgram_member *member)
{
    br_udp_outbox_drop(udp_poll_device_of(base)->outbox, member);
}

/* The kernel finds the way. */
static int udp_poll_resolve(struct br_dgram_device *base, struct br_dgram_member *member)
{
    (void)base, (void)member;
    return 1;
}

const struct br_dgram_io br_udp_io = {.reply = udp_poll_reply,
                                      .can_send = udp_poll_can_send,
                                      .send = udp_poll_add,
                                      .drop = udp_poll_drop,
                                      .resolve = udp_poll_resolve};

int br_udp_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_udp_device *device = (struct br_udp_device *)base;
    struct br_dgram_report report = {events, 0, max};
    uint64_t heard = device->dgram.now;

    base->unsent = false;
    if (device->armed)
        read_error_queue(device); /* they wake, too, and go on doing so */
    device->armed = false;
    br_dgram_device_begin(&device->dgram, now);
    br_dgram_device_report(&device->dgram, &report);
    /* Up to which all has been heard: what waits in the socket is not lost. */
    if (udp_poll_receive(device, &report))
        device->dgram.now = br_clock_now();
    else
        device->dgram.now = device->inbox->not_before > heard ? device->inbox->not_before : heard;
    udp_poll_send_all(device);
    br_dgram_device_drain(&device->dgram);
    br_dgram_device_report(&device->dgram, &report);
    return report.n;
}

/* Besides what comes, which the first one alone takes in. */
static void watch_socket(struct br_udp_device *device, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events | (fd == device->fds[0] ? EPOLLIN : 0)};

    epoll_ctl(device->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

/* Asks epoll to say when the socket that had no room has some; -1: none had. */
static void watch_room(struct br_udp_device *device, int fd)
{
    if (fd == device->out_fd)
        return;
    if (device->out_fd >= 0)
        watch_socket(device, device->out_fd, 0);
    if (fd >= 0)
        watch_socket(device, fd, EPOLLOUT);
    device->out_fd = fd;
}

int br_udp_arm(struct br_device *base)
{
    struct br_udp_device *device = (struct br_udp_device *)base;
    bool no_room = br_udp_outbox_waits(device->outbox);
    struct itimerspec timer = {0};
    uint64_t now = device->dgram.now, least = no_room ? NO_ROOM : SOON, first, left;

    device->armed = true;
    if (!br_dgram_device_idle(&device->dgram, no_room, &first))
        return -EAGAIN;
    if (first < now + SOON && !no_room)
        return -EAGAIN;
    if (first != BR_DGRAM_NEVER) {
        left = first > now + least ? first - now : least;
        timer.it_value.tv_sec = (time_t)(left / BR_SEC);
        timer.it_value.tv_nsec = (long)(left % BR_SEC);
    }
    timerfd_settime(device->timer_fd, 0, &timer, NULL);
    watch_room(device, no_room ? device->outbox->trains[device->outbox->first].fd : -1);
    device->dgram.base.counters.system_calls++;
    return device->epoll_fd;
}
