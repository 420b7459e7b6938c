/* SPDX-License-Identifier: BSD-3-Clause */
/* What the udp back end does in a poll: receive, report, send. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/error.h"
#include "transport/udp/udp.h"

#define ROUNDS     4            /* of receives in one poll */
#define SEND_BYTES (256u << 10) /* of one link and poll */
#define SOON       (5 * BR_US)  /* to sleep for less is not worth it */

struct report {
    struct br_event *events;
    int n, max;
};

/* CLOSED; or, of a link that the caller has never heard of, nothing. */
static void report_end(struct br_udp_link *link, struct report *report)
{
    if (!link->told) {
        br_udp_link_close(&link->base);
        return;
    }
    report->events[report->n++] =
        (struct br_event){.kind = BR_EVENT_CLOSED, .error = link->error, .link = &link->base};
    link->eventful = false;
}

/* Moves events from the link to the report; of one that is not trusted yet, one frame. */
static void report_link(struct br_udp_link *link, struct report *report)
{
    struct br_device_counters *counters = &link->base.device->counters;

    while (link->state != BR_UDP_FAILED && report->n < report->max) {
        struct br_event *event = &report->events[report->n];

        if (!br_dgram_link_event(link->dgram, event)) {
            link->eventful = false;
            return;
        }
        event->link = &link->base;
        if (event->kind == BR_EVENT_CLOSED) {
            counters->bad_frames += event->error == -EPROTO;
            br_udp_link_fail(link, event->error, br_dgram_link_words(link->dgram));
            break;
        }
        report->n++;
        if (event->kind == BR_EVENT_ACCEPTED || event->kind == BR_EVENT_CONNECTED) {
            link->state = BR_UDP_UP;
            link->told = true;
        } else if (event->kind != BR_EVENT_SENT) {
            counters->rx_frames++;
            counters->rx_bytes += event->length;
            if (!link->trusted)
                return;
        }
    }
    if (link->state == BR_UDP_FAILED && report->n < report->max)
        report_end(link, report);
}

static void report_links(struct br_udp_device *device, struct report *report)
{
    for (int k = device->n_open; k-- > 0 && report->n < report->max;)
        if (device->open[k]->eventful)
            report_link(device->open[k], report);
}

static void receive(struct br_udp_device *device, struct report *report)
{
    for (int round = 0; round < ROUNDS && report->n < report->max; round++) {
        int n = br_udp_inbox_receive(device->inbox, device->fds[0], BR_UDP_TRAINS);

        device->base.counters.system_calls++;
        if (n < 0 && n != -EAGAIN && n != -EINTR)
            br_udp_troubles(device, device->fds[0]);
        for (int i = 0; i < n; i++) {
            struct br_udp_arrival arrival = br_udp_inbox_at(device->inbox, i);

            br_udp_arrive(device, &arrival);
        }
        if (n > 0)
            report_links(device, report);
        if (n < BR_UDP_TRAINS)
            return;
    }
}

static void hear_troubles(struct br_udp_device *device)
{
    for (int i = 0; i < device->paths; i++)
        br_udp_troubles(device, device->fds[i]);
}

/* false: the kernel has no room. */
static bool send_outbox(struct br_udp_device *device)
{
    struct br_udp_outbox *outbox = device->outbox;

    device->base.counters.system_calls += br_udp_outbox_send(outbox);
    if (outbox->error) /* of a link that is still open: a closed one has no train any more */
        ((struct br_udp_link *)outbox->error_link)->send_error = outbox->error;
    outbox->error = 0;
    if (outbox->news)
        hear_troubles(device);
    outbox->news = false;
    return !br_udp_outbox_waits(outbox);
}

/* What a link may send now. false: the kernel has no room. */
static bool send_link(struct br_udp_device *device, struct br_udp_link *link)
{
    struct br_dgram_packet *packet = &device->packet;

    for (uint32_t bytes = 0; bytes < SEND_BYTES; bytes += packet->head_bytes + packet->payload_bytes) {
        if (br_udp_outbox_full(device->outbox) && !send_outbox(device))
            return false;
        if (link->state == BR_UDP_FAILED || !br_dgram_link_next(link->dgram, device->now, packet)) {
            link->dirty = false;
            break;
        }
        br_udp_outbox_add(device->outbox, link, device->fds[packet->path], &link->peer, packet);
    }
    if (link->timer <= device->now)
        link->eventful = true; /* waiting may have had an end */
    link->timer = link->state == BR_UDP_FAILED ? BR_DGRAM_NEVER : br_dgram_link_timer(link->dgram);
    return true;
}

static void send_links(struct br_udp_device *device)
{
    device->turn++;
    for (int k = 0; k < device->n_open; k++) {
        struct br_udp_link *link = device->open[((uint32_t)k + device->turn) % (uint32_t)device->n_open];

        if ((link->dirty || link->timer <= device->now) && !send_link(device, link))
            return;
    }
    if (br_udp_outbox_waits(device->outbox))
        send_outbox(device);
}

/* What callers have wished for since the last poll. */
static void look_after(struct br_udp_device *device)
{
    for (int i = 0; i < device->n_open; i++) {
        struct br_udp_link *link = device->open[i];

        if (!link->dgram && link->state == BR_UDP_OPENING)
            br_udp_link_begin(link);
        if (link->trusted || !link->base.trusted)
            continue;
        br_dgram_link_trust(link->dgram);
        link->trusted = link->eventful = true;
    }
}

int br_udp_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_udp_device *device = (struct br_udp_device *)base;
    struct report report = {events, 0, max};

    device->now = now;
    if (device->woken)
        hear_troubles(device); /* they wake, too, and go on doing so */
    device->woken = false;
    look_after(device);
    report_links(device, &report);
    receive(device, &report);
    if (!br_udp_outbox_waits(device->outbox) || send_outbox(device))
        send_links(device);
    report_links(device, &report);
    return report.n;
}

/* Asks epoll to say when the socket that had no room has some; -1: none had. */
static void watch_room(struct br_udp_device *device, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    if (fd == device->out_fd)
        return;
    if (device->out_fd >= 0)
        epoll_ctl(device->epoll_fd, EPOLL_CTL_MOD, device->out_fd, &event);
    event.events |= EPOLLOUT;
    if (fd >= 0)
        epoll_ctl(device->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    device->out_fd = fd;
}

int br_udp_wait(struct br_device *base)
{
    struct br_udp_device *device = (struct br_udp_device *)base;
    bool no_room = br_udp_outbox_waits(device->outbox);
    struct itimerspec timer = {0};
    uint64_t first = BR_DGRAM_NEVER, left;

    for (int i = 0; i < device->n_open; i++) {
        const struct br_udp_link *link = device->open[i];

        if (link->eventful || link->trusted != link->base.trusted || (link->dirty && !no_room))
            return -EAGAIN;
        first = link->timer < first ? link->timer : first;
    }
    if (first < device->now + SOON && !no_room)
        return -EAGAIN;
    if (first != BR_DGRAM_NEVER) {
        left = first > device->now + SOON ? first - device->now : SOON;
        timer.it_value.tv_sec = (time_t)(left / BR_SEC);
        timer.it_value.tv_nsec = (long)(left % BR_SEC);
    }
    timerfd_settime(device->timer_fd, 0, &timer, NULL);
    watch_room(device, no_room ? device->outbox->trains[device->outbox->first].fd : -1);
    device->base.counters.system_calls++;
    return device->epoll_fd;
}

void br_udp_wake(struct br_device *base)
{
    ((struct br_udp_device *)base)->woken = true;
}
