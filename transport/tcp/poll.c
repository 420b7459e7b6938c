/* SPDX-License-Identifier: BSD-3-Clause */
/* A poll of the tcp back end: send (send.c), look who is ready, accept, receive, report. */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"

#define EPOLL_EVERY 16 /* polls of a device with one link (note 2) */
/* Polls without a need of epoll after which the only link leaves it: some 0.1 ms of waiting, so
 * that it costs little beside a sleep, which brings the link back. */
#define WATCH_POLLS 256
/* Of one call, so that a large frame does not keep the others waiting. */
#define RECEIVE_BYTES (256u << 10)
#define ROUNDS        16 /* of receives in one poll */
/* Receives that do not peek behind a peek at a frame that is longer than what is read ahead: it was
 * in vain, and they make that rare. */
#define UNPEEKED 256
/* From one link that the kernel is asked about to the next, at least: a call takes 0.6 us, so this
 * is less than a thousandth of the time, however many links there are. */
#define ASK_INTERVAL BR_MS
/* From one trial of zero-copy send to the next: some 1,000 large frames or more are sent meanwhile
 * where that matters, 8 to 16 of them the dearer way. */
#define TRIAL_INTERVAL (500 * BR_MS)

struct report {
    struct br_event *events;
    int n, max;
};

static struct br_event *tcp_poll_add_event(struct report *report, struct br_tcp_link *link,
                                           enum br_event_kind kind)
{
    struct br_event *event = &report->events[report->n++];

    *event = (struct br_event){.kind = kind, .link = &link->base};
    return event;
}

/* The k-th busy link, beginning with another one in each poll. */
static struct br_tcp_link *round_robin(const struct br_tcp_device *device, int k)
{
    int i = device->first + k;

    return device->busy[i < device->n_busy ? i : i - device->n_busy];
}

static bool has_ahead(const struct br_tcp_link *link)
{
    return link->ahead != NULL;
}

static bool can_receive(const struct br_tcp_link *link)
{
    return link->state == BR_TCP_UP && link->reported && (link->readable || has_ahead(link)) &&
           !link->starved;
}

/* The connection is up, or not. */
static void finish_connect(struct br_tcp_link *link)
{
    struct br_tcp_device *device = (struct br_tcp_device *)link->base.device;
    union br_inet_address own = {0}, peer = {0};
    socklen_t own_bytes = sizeof own, peer_bytes = sizeof peer, bytes = sizeof(int);
    int err = 0;

    device->base.counters.system_calls += 3;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &err, &bytes))
        err = errno;
    if (!err && getsockname(link->fd, &own.any, &own_bytes))
        err = errno;
    if (!err && getpeername(link->fd, &peer.any, &peer_bytes))
        err = errno;
    /* On one host, connecting to a port that nobody holds any more can meet itself. */
    if (!err && own_bytes == peer_bytes && !memcmp(&own, &peer, own_bytes))
        err = ECONNREFUSED;
    if (err) {
        br_tcp_link_fail(link, -err, strerror(err));
        return;
    }
    link->state = BR_TCP_UP;
    link->readable = link->writable = true;
    br_tcp_link_ask(link);
}

static void note_ready(struct br_tcp_device *device, struct br_tcp_link *link, uint32_t events)
{
    br_tcp_link_set_busy(device, link);
    if (link->state == BR_TCP_CONNECTING) {
        if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
            finish_connect(link);
        return;
    }
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        link->hung_up = true;
    if (events & EPOLLIN || link->hung_up)
        link->readable = true;
    if (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        link->writable = true;
}

/* Asks the kernel for the facts of the next link: all of them at once would keep frames waiting. */
static void ask_for_facts(struct br_tcp_device *device, uint64_t now)
{
    uint64_t turn = BR_LINK_FACTS_AGE / 2; /* all links once, where they are few */
    struct br_tcp_link *link;

    if (device->n_open)
        turn /= (uint64_t)device->n_open;
    device->facts_due = now + (turn > ASK_INTERVAL ? turn : ASK_INTERVAL);
    if (++device->facts_next >= device->n_open)
        device->facts_next = 0;
    if (!device->n_open || device->open[device->facts_next]->state != BR_TCP_UP)
        return;
    link = device->open[device->facts_next];
    br_tcp_link_ask(link);
    if (now < link->trial_due)
        return;
    br_tcp_zero_copy_try_again(&link->zero_copy);
    link->base.lends = link->tx.lends = br_tcp_zero_copy_lends(&link->zero_copy);
    link->trial_due = now + TRIAL_INTERVAL;
}

/* Asks epoll who has become ready. */
static void tcp_poll_check_sockets(struct br_tcp_device *device)
{
    struct epoll_event ready[BR_TCP_EVENTS];
    int n = epoll_wait(device->epoll_fd, ready, BR_TCP_EVENTS, 0);

    device->base.counters.system_calls++;
    device->checked = true;
    device->check_sockets = n == BR_TCP_EVENTS;
    for (int i = 0; i < n; i++)
        if (ready[i].data.ptr)
            note_ready(device, ready[i].data.ptr, ready[i].events);
        else
            device->incoming = true;
}

/* The link of a device that has just one; NULL: it has another number of them, or that one is not
 * up. */
static struct br_tcp_link *only_link(const struct br_tcp_device *device)
{
    return device->n_open == 1 && device->open[0]->state == BR_TCP_UP ? device->open[0] : NULL;
}

/* Must epoll be asked, or is there just one link, which we simply try? (note 2) */
static bool must_check_sockets(struct br_tcp_device *device)
{
    struct br_tcp_link *link = only_link(device);

    if (!link || device->check_sockets)
        return true;
    link->readable = true;
    br_tcp_link_set_busy(device, link);
    if (!link->writable && link->tx.sent != link->tx.posted) {
        device->watch_poll = device->n_polls;
        if (br_tcp_link_watch(link))
            link->writable = true; /* nobody tells: it is tried */
        return true;
    }
    if (device->n_polls - device->watch_poll > WATCH_POLLS)
        br_tcp_link_unwatch(link);
    return device->n_polls % EPOLL_EVERY == 0;
}

static void tcp_poll_accept_links(struct br_tcp_device *device, struct report *report)
{
    while (device->incoming && report->n < report->max) {
        struct br_tcp_link *link = br_tcp_link_accept(device, &device->incoming);

        if (!link)
            continue;
        link->reported = true;
        tcp_poll_add_event(report, link, BR_EVENT_ACCEPTED);
    }
}

static void report_states(struct br_tcp_device *device, struct report *report)
{
    for (int i = 0; i < device->n_busy && report->n < report->max; i++) {
        struct br_tcp_link *link = device->busy[i];

        if (link->reported || link->state == BR_TCP_CONNECTING)
            continue;
        link->reported = true;
        if (link->state == BR_TCP_UP)
            tcp_poll_add_event(report, link, BR_EVENT_CONNECTED);
        else
            tcp_poll_add_event(report, link, BR_EVENT_CLOSED)->error = link->error;
    }
}

/* Until `report` has max events. */
static void tcp_poll_report_sent(struct br_tcp_device *device, struct report *report, int max)
{
    device->unreported = false;
    for (int k = 0; k < device->n_busy; k++) {
        struct br_tcp_link *link = round_robin(device, k);
        uint64_t cookie;

        if (link->state != BR_TCP_UP)
            continue;
        while (report->n < max && br_stream_tx_report(&link->tx, &cookie))
            tcp_poll_add_event(report, link, BR_EVENT_SENT)->cookie = cookie;
        if (link->tx.reported != link->tx.sent) {
            device->unreported = true;
            return;
        }
    }
}

/* Bytes of a link stand where br_stream_rx_want() said; they may be the last ones of a frame. */
static void bytes_arrived(struct br_tcp_device *device, struct br_tcp_link *link, uint32_t bytes,
                          struct report *report)
{
    struct br_event *event = &report->events[report->n];
    int rc = br_stream_rx_got(&link->rx, bytes, link->base.authenticated, event);

    if (rc < 0) {
        device->base.counters.bad_frames++;
        br_tcp_link_fail(link, rc, br_error_message());
    }
    if (rc <= 0)
        return;
    event->link = &link->base;
    if (event->kind == BR_EVENT_DATA)
        event->inline_ = memcpy(device->inlines[report->n], event->inline_, BR_FRAME_INLINE);
    report->n++;
    device->base.counters.rx_frames++;
    device->base.counters.rx_bytes += event->length;
    link->bulk = event->length > BR_TCP_AHEAD;
    /* Nothing in the poll before: not streaming. */
    link->resting = device->n_polls - link->event_poll > 1 || !link->base.authenticated;
    link->event_poll = device->n_polls;
}

/* Brings what was read ahead where it belongs, as far as there is room for events, of which
 * `reserved` are for others. */
static void tcp_poll_take_ahead(struct br_tcp_device *device, struct br_tcp_link *link,
                                struct report *report, int reserved)
{
    while (has_ahead(link) && can_receive(link) && report->n < report->max - reserved &&
           (link->base.authenticated || !link->resting)) {
        uint32_t left = link->ahead_end - link->ahead_at, bytes;
        void *place;

        link->starved = !br_stream_rx_want(&link->rx, &place, &bytes);
        if (link->starved)
            return;
        bytes = bytes < left ? bytes : left;
        if (link->rx.part == BR_STREAM_SLOT)
            device->base.counters.rx_copied_bytes += bytes;
        memcpy(place, link->ahead + link->ahead_at, bytes);
        link->ahead_at += bytes;
        if (link->ahead_at == link->ahead_end)
            br_tcp_link_drop_ahead(device, link);
        bytes_arrived(device, link, bytes, report);
    }
}

/* So many bytes stand in link->ahead, the first of which may have been received by a peek. */
static void received_ahead(struct br_tcp_device *device, struct br_tcp_link *link, uint32_t bytes,
                           bool peeks)
{
    link->ahead_at = bytes < link->peeked ? bytes : link->peeked;
    link->ahead_end = bytes;
    link->peeked = peeks ? bytes : link->peeked - link->ahead_at;
    if (link->peeked == BR_TCP_AHEAD)
        link->unpeeked = UNPEEKED;
    if (link->ahead_at == link->ahead_end)
        br_tcp_link_drop_ahead(device, link);
}

static void tcp_poll_received(struct br_tcp_device *device, const struct br_tcp_call *call,
                              struct report *report)
{
    struct br_tcp_link *link = call->owner;

    if (call->result <= 0)
        br_tcp_link_drop_ahead(device, link);
    if (call->result == -EAGAIN && link->send_error) {
        br_tcp_link_fail(link, link->send_error, strerror(-link->send_error));
        return;
    }
    if (call->result == -EAGAIN) {
        link->readable = false;
        return;
    }
    if (call->result == -EINTR)
        return;
    if (call->result <= 0) {
        int error = call->result       ? (int)call->result
                    : link->send_error ? link->send_error
                                       : -ECONNRESET;

        br_tcp_link_fail(link, error,
                         call->result || link->send_error ? strerror(-error) : "peer closed");
        return;
    }
    link->unanswered++;
    link->unpeeked -= link->unpeeked > 0;
    if ((size_t)call->result < call->bytes && !link->hung_up && !call->peeks)
        link->readable = false;
    if (link->ahead)
        received_ahead(device, link, (uint32_t)call->result, call->peeks);
    else
        bytes_arrived(device, link, (uint32_t)call->result, report);
}

/* Would the kernel send an ACK within the receive, which may as well leave with what we send next
 * (note 11)? */
static bool peeks(const struct br_tcp_device *device, const struct br_tcp_link *link)
{
    return link->base.authenticated && !link->peeked && link->unanswered && !link->unpeeked &&
           !link->rx.asks && only_link(device);
}

/* One call for each link that has something; false: none can have more. No more calls than there is
 * room for events. */
static bool receive_round(struct br_tcp_device *device, struct report *report)
{
    struct br_tcp_batch *batch = &device->batch;
    bool more;
    int k = 0;

    for (; k < device->n_busy && batch->n < report->max - report->n; k++) {
        struct br_tcp_link *link = round_robin(device, k);
        uint32_t bytes;
        void *place;

        if (has_ahead(link))
            tcp_poll_take_ahead(device, link, report, batch->n); /* from the poll before */
        if (has_ahead(link) || !can_receive(link) || link->resting ||
            batch->n == report->max - report->n)
            continue;
        link->starved = !br_stream_rx_want(&link->rx, &place, &bytes);
        if (link->starved)
            continue;
        if (link->peeked || (bytes < BR_TCP_AHEAD && !link->bulk)) {
            place = link->ahead = br_pool_get(&device->aheads);
            bytes = BR_TCP_AHEAD;
        }
        br_tcp_batch_receive(batch, link, link->fd, place,
                             bytes < RECEIVE_BYTES ? bytes : RECEIVE_BYTES,
                             link->ahead && peeks(device, link));
        if (br_tcp_batch_full(batch))
            break;
    }
    if (!batch->n)
        return false;
    device->base.counters.system_calls += br_tcp_batch_run(batch);
    for (int i = 0; i < batch->n; i++) /* an event each, at most */
        tcp_poll_received(device, &batch->calls[i], report);
    more = k < device->n_busy;
    for (int i = 0; i < batch->n; i++) {
        struct br_tcp_link *link = batch->calls[i].owner;

        if (has_ahead(link))
            tcp_poll_take_ahead(device, link, report, 0);
        if (link->peeked) /* until the next poll, but what is to be acknowledged must leave it */
            link->resting = !link->rx.ack_now && link->peeked < BR_TCP_AHEAD;
        more = more || (can_receive(link) && !link->resting);
    }
    batch->n = 0;
    return more;
}

/* Has the kernel acknowledge messages that ask for it, as their sender holds what follows. */
static void acknowledge(struct br_tcp_device *device)
{
    int on = 1;

    for (int i = 0; i < device->n_busy; i++) {
        struct br_tcp_link *link = device->busy[i];

        if (!link->rx.ack_now || link->peeked || link->state != BR_TCP_UP)
            continue;
        link->rx.ack_now = false;
        setsockopt(link->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
        device->base.counters.system_calls++;
    }
}

static bool has_work(const struct br_tcp_link *link)
{
    if (!link->reported && link->state != BR_TCP_CONNECTING)
        return true;
    if (link->state != BR_TCP_UP)
        return false;
    return br_tcp_can_send(link) || can_receive(link) || link->tx.sent != link->tx.reported;
}

int br_tcp_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_tcp_device *device = (struct br_tcp_device *)base;
    struct report report = {events, 0, max < BR_TCP_EVENTS ? max : BR_TCP_EVENTS};
    int room;

    base->unsent = false;
    device->n_polls++;
    device->checked = false;
    br_tcp_send_pending(device);
    if (device->holds)
        br_tcp_send_held(device);
    if (must_check_sockets(device)) {
        tcp_poll_check_sockets(device);
        if (now >= device->facts_due)
            ask_for_facts(device, now);
        br_tcp_send_pending(device);
    }
    tcp_poll_accept_links(device, &report);
    device->first = device->n_busy ? (int)(device->n_polls % (uint32_t)device->n_busy) : 0;
    report_states(device, &report);
    /* sent frames get half of it at first, so that neither side starves */
    room = report.max - report.n;
    if (device->unreported)
        tcp_poll_report_sent(device, &report, report.n + (room + (int)(device->n_polls & 1)) / 2);
    for (int i = 0; i < device->n_busy; i++)
        device->busy[i]->resting = false;
    for (int round = 0; round < ROUNDS && receive_round(device, &report); round++)
        ;
    acknowledge(device);
    if (device->unreported)
        tcp_poll_report_sent(device, &report, report.max);
    for (int i = device->n_busy; i-- > 0;)
        if (!has_work(device->busy[i]))
            br_tcp_link_set_idle(device, device->busy[i]);
    return report.n;
}

int br_tcp_arm(struct br_device *base)
{
    struct br_tcp_device *device = (struct br_tcp_device *)base;
    struct br_tcp_link *link = only_link(device);

    device->watch_poll = device->n_polls;
    if (link && !link->watched) {
        if (br_tcp_link_watch(link))
            return -EAGAIN;      /* nobody would wake who sleeps */
        device->checked = false; /* it tells of what is so already, too */
    }
    if (!device->checked) /* else what has come since makes the descriptor readable */
        tcp_poll_check_sockets(device);
    if (device->incoming)
        return -EAGAIN;
    for (int i = 0; i < device->n_busy; i++)
        if (has_work(device->busy[i]))
            return -EAGAIN;
    device->check_sockets = true; /* what woke us stands in epoll */
    return device->epoll_fd;
}
