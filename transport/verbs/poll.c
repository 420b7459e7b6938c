/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the verbs back end does in a poll: look at sockets and events now and then, empty the
 * completion queue into the links, refill the receive queue, report what the links have.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "transport/verbs/rkey.h"
#include "transport/verbs/verbs.h"

#define LOOK_PERIOD  (1 * BR_MS)
#define LOOK_EVERY   256 /* polls, at the latest: the clock of the caller may be slow */
#define BATCH        64  /* completions of one poll: it must come back */
#define EPOLL_EVENTS 32
/* Frames that may wait in the inbox of a link: it takes buffers from the others. */
#define INBOX          1024u
#define INBOX_AT_FIRST 64u /* of one that is not trusted */

/* ---- events for the caller ------------------------------------------------------------------- */

struct report {
    struct br_event *events;
    int n, max;
};

static struct br_event *verbs_poll_add_event(struct report *report, struct br_verbs_link *link,
                                             enum br_event_kind kind)
{
    struct br_event *event = &report->events[report->n++];

    *event = (struct br_event){.kind = kind, .link = &link->base};
    return event;
}

BR_VERBS_RARE static void verbs_poll_malformed(struct br_verbs_link *link)
{
    link->base.device->counters.bad_frames++;
    br_verbs_link_fail(link, -EPROTO, true, br_error_message());
}

static struct br_event *verbs_poll_data_event(struct br_verbs_link *link, struct report *report,
                                              uint32_t length)
{
    struct br_event *event = verbs_poll_add_event(report, link, BR_EVENT_DATA);

    event->length = length;
    link->base.device->counters.rx_frames++;
    link->base.device->counters.rx_bytes += length;
    return event;
}

/* The NIC has written the bytes. 0 or -EPROTO with a message. */
static inline int take_written(struct br_verbs_link *link, uint32_t immediate, uint32_t length,
                               struct report *report)
{
    struct br_verbs_device *device = br_verbs_device_of(link);
    struct br_slot_table *slots = device->base.config->slots;
    struct br_verbs_imm imm = br_verbs_imm_unpack(immediate);
    uint32_t number, offset;
    struct br_slot *slot = br_verbs_imm_slot(slots, imm, &number);
    struct br_event *event;
    int rc;

    if (!link->opened)
        return br_error(EPROTO, "a write from somebody who has not proved to belong to the job");
    /* which are those of the sender's token */
    offset = slot ? imm.granules * slot->granule_bytes : 0;
    rc = br_slot_admit(slots, slot, offset, length);
    if (rc && rc != -ESTALE)
        return rc;
    if (slot && !rc && device->staging[imm.index]) {
        memcpy(slot->base + offset, (const uint8_t *)device->staging[imm.index] + offset, length);
        device->base.counters.rx_copied_bytes += length;
    }
    if (slot && !rc && slot->region && slot->region->gpu)
        device->base.counters.rx_gpu_bytes += length;
    event = verbs_poll_data_event(link, report, length);
    event->inline_ = br_verbs_imm_inline[imm.flags];
    event->slot = number;
    event->offset = offset;
    event->stale = rc == -ESTALE;
    return 0;
}

/* Reports what of a lane needs its memory no more, as far as there is room. */
static void verbs_poll_report_sent(struct br_verbs_link *link, struct br_verbs_lane *lane,
                                   struct report *report)
{
    struct br_device_counters *counters = &link->base.device->counters;

    for (; lane->reported != lane->posted && report->n < report->max; lane->reported++) {
        const struct br_verbs_entry *entry = &lane->entries[lane->reported % BR_VERBS_DEPTH];

        if (!entry->early && (int32_t)(lane->done - lane->reported) <= 0)
            return;
        if (!entry->reports)
            continue;
        counters->tx_frames++;
        counters->tx_bytes += entry->length;
        if (entry->cookie)
            verbs_poll_add_event(report, link, BR_EVENT_SENT)->cookie = entry->cookie;
    }
}

/* ---- completions ----------------------------------------------------------------------------- */

/* May something be reported without a turn in device->ready? Half of the room is for what has
 * one. */
static bool is_next(const struct br_verbs_link *link, const struct report *report)
{
    return 2 * report->n < report->max && link->state == BR_VLINK_UP && link->reported;
}

static void verbs_poll_sent(struct br_verbs_device *device, const struct ibv_wc *wc,
                            struct report *report)
{
    struct br_verbs_work work = br_verbs_work_of(wc->wr_id);
    struct br_verbs_link *link = br_pool_at(&device->links, work.link);
    struct br_verbs_lane *lane = &link->lanes[work.lane];

    if (wc->status != IBV_WC_SUCCESS) {
        if (wc->status != IBV_WC_WR_FLUSH_ERR || link->state == BR_VLINK_UP)
            br_verbs_link_fail_by(link, wc);
        return;
    }
    for (; lane->done != work.number + 1; lane->done++) /* it completes those before it, too */
        br_verbs_entry_done(device, &lane->entries[lane->done % BR_VERBS_DEPTH]);
    if (is_next(link, report))
        verbs_poll_report_sent(link, lane, report);
    if ((int32_t)(lane->done - lane->reported) > 0)
        br_verbs_link_is_ready(link);
}

/* A receive that is not reported at once: for the inbox, or for nobody. */
static void received_otherwise(struct br_verbs_device *device, struct br_verbs_link *link,
                               const struct ibv_wc *wc)
{
    struct br_verbs_buffer *buffer = (void *)(uintptr_t)wc->wr_id;
    bool good = wc->status == IBV_WC_SUCCESS; /* else nothing more of it means anything */
    bool empty = good && wc->opcode == IBV_WC_RECV && (wc->wc_flags & IBV_WC_WITH_IMM);

    if (link && empty && ntohl(wc->imm_data) == BR_VERBS_OPEN)
        link->may_write = true;
    if (!link || !good || empty || link->state == BR_VLINK_FAILED) {
        br_list_push_back(&device->receive.spare, &buffer->node);
        if (link && !good && link->state == BR_VLINK_UP)
            br_verbs_link_fail_by(link, wc);
        return;
    }
    buffer->written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    buffer->length = wc->byte_len;
    buffer->imm = buffer->written ? ntohl(wc->imm_data) : 0;
    br_list_push_back(&link->inbox, &buffer->node);
    link->n_inbox++;
    br_verbs_link_is_ready(link);
}

static void verbs_poll_received(struct br_verbs_device *device, const struct ibv_wc *wc,
                                struct report *report)
{
    struct br_verbs_buffer *buffer = (void *)(uintptr_t)wc->wr_id;
    struct br_verbs_link *link = br_verbs_link_of(device, wc->qp_num);

    if (device->receive.posted)
        device->receive.posted--; /* else one that was taken for lost has come back */
    if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && link &&
        is_next(link, report) && br_list_empty(&link->inbox)) {
        br_list_push_back(&device->receive.spare, &buffer->node);
        if (take_written(link, ntohl(wc->imm_data), wc->byte_len, report))
            verbs_poll_malformed(link);
    } else {
        received_otherwise(device, link, wc);
    }
}

/* Takes a batch of completions to their links, or at once into the report; returns how many. */
static inline int take_completions(struct br_verbs_device *device, struct report *report)
{
    struct ibv_wc wcs[BATCH];
    int n = ibv_poll_cq(device->cq, BATCH, wcs);

    for (int i = 0; i < n; i++)
        if (wcs[i].wr_id >> 63)
            verbs_poll_sent(device, &wcs[i], report);
        else
            verbs_poll_received(device, &wcs[i], report);
    if (n < 0)
        br_verbs_device_fail(device, "ibv_poll_cq has failed");
    return n;
}

void br_verbs_drain(struct br_verbs_device *device)
{
    while (take_completions(device, &(struct report){.n = 0}) == BATCH)
        ;
}

/* ---- what the links have --------------------------------------------------------------------- */

/* Bytes of a frame that comes in pieces: to their place, if they are still wanted there. */
static int copy_piece(struct br_verbs_link *link, const uint8_t *bytes, uint32_t length)
{
    const struct br_frame_header *header = &link->partial;
    struct br_device *device = link->base.device;
    struct br_slot *slot;
    int rc =
        br_slot_expect(device->config->slots, header->slot, header->offset, header->length, &slot);

    if (rc)
        return rc;
    if (!slot->base)
        return br_error(EPROTO, "bytes for a transfer that takes only mappings");
    if (slot->region &&
        /* its token can be said, so no honest peer sends pieces (rkey.h note 2) */
        slot->region->gpu)
        return br_error(EPROTO, "bytes in pieces for memory of a GPU");
    memcpy(slot->base + header->offset + link->partial_bytes, bytes, length);
    device->counters.rx_copied_bytes += length;
    return 0;
}

/* A piece of a DATA frame. 0 or -EPROTO with a message. */
static int take_piece(struct br_verbs_link *link, struct br_verbs_buffer *buffer,
                      const uint8_t *bytes, uint32_t length, struct report *report)
{
    const struct br_frame_header *header = &link->partial;
    struct br_event *event;
    int rc;

    if (length > header->length - link->partial_bytes || (!length && header->length))
        return br_error(EPROTO, "a piece of %u bytes does not belong to a frame of %u", length,
                        header->length);
    rc = copy_piece(link, bytes, length);
    if (rc && rc != -ESTALE)
        return rc;
    link->partial_bytes += length;
    if (link->partial_bytes < header->length) {
        br_list_push_back(&br_verbs_device_of(link)->receive.spare, &buffer->node);
        return 0;
    }
    link->partial_bytes = 0;
    memcpy(buffer->inline_, header->inline_, BR_FRAME_INLINE);
    event = verbs_poll_data_event(link, report, header->length);
    event->inline_ = buffer->inline_;
    /* until the caller has read it */
    br_list_push_back(&br_verbs_device_of(link)->lent, &buffer->node);
    event->slot = header->slot;
    event->offset = header->offset;
    event->stale = rc == -ESTALE;
    return 0;
}

static void verbs_poll_take_message(struct br_verbs_link *link, struct br_verbs_buffer *buffer,
                                    struct report *report)
{
    struct br_event *event = verbs_poll_add_event(report, link, BR_EVENT_MESSAGE);

    event->length = buffer->frame->length;
    event->inline_ = buffer->frame->inline_;
    event->payload = (const uint8_t *)(buffer->frame + 1);
    event->buffer = buffer;
    br_list_push_back(&link->held, &buffer->node);
    link->n_held++;
    link->base.device->counters.rx_frames++;
    link->base.device->counters.rx_bytes += event->length;
}

/* A SEND. 0 or -EPROTO with a message. */
static int take_send(struct br_verbs_link *link, struct br_verbs_buffer *buffer,
                     struct report *report)
{
    const struct br_frame_header *header = buffer->frame;
    const uint32_t head = (uint32_t)sizeof *header;
    int rc;

    if (link->partial_bytes)
        return take_piece(link, buffer, (const uint8_t *)header, buffer->length, report);
    if (buffer->length < head)
        return br_error(EPROTO, "a frame of %u bytes is shorter than its header", buffer->length);
    rc = br_frame_check(header, link->base.device->caps.max_message, BR_FRAME_MAX_PAYLOAD);
    if (rc)
        return rc;
    if (header->kind == BR_FRAME_DATA) {
        if (!link->base.authenticated)
            return br_error(
                EPROTO,
                "a frame for a transfer from somebody who has not proved to belong to the job");
        link->partial = *header;
        return take_piece(link, buffer, (const uint8_t *)(header + 1), buffer->length - head,
                          report);
    }
    if (header->length != buffer->length - head)
        return br_error(EPROTO, "a message says it has %u bytes, and has %u", header->length,
                        buffer->length - head);
    verbs_poll_take_message(link, buffer, report);
    return 0;
}

/* The next frame of the inbox. false: it has to wait for a released message. */
static bool verbs_poll_take_next(struct br_verbs_link *link, struct report *report)
{
    const struct br_device_config *config = link->base.device->config;
    struct br_verbs_buffer *buffer =
        br_container_of(link->inbox.next, struct br_verbs_buffer, node);
    int rc;

    if (link->n_inbox > (link->base.authenticated ? INBOX : INBOX_AT_FIRST)) {
        br_error(EPROTO,
                 "the peer has sent %u frames more than the %u messages it may have outstanding",
                 link->n_inbox, config->message_buffers);
        verbs_poll_malformed(link);
        return true;
    }
    if (link->n_held >= config->message_buffers && !buffer->written)
        return false;
    br_list_remove(&buffer->node);
    link->n_inbox--;
    rc = buffer->written ? take_written(link, buffer->imm, buffer->length, report)
                         : take_send(link, buffer, report);
    if (rc || buffer->written)
        br_list_push_back(&br_verbs_device_of(link)->receive.spare, &buffer->node);
    if (rc)
        verbs_poll_malformed(link);
    return true;
}

static bool report_state(struct br_verbs_link *link, struct report *report)
{
    if (link->reported)
        return true;
    if (link->state == BR_VLINK_UP) {
        link->reported = link->known = true;
        verbs_poll_add_event(report, link, link->accepted ? BR_EVENT_ACCEPTED : BR_EVENT_CONNECTED);
    }
    return report->n < report->max;
}

/* Reports what one link has. true: there is more, for the next poll or when there is room. */
static bool report_link(struct br_verbs_link *link, struct report *report, bool drained)
{
    if (link->state == BR_VLINK_FAILED && !link->known) { /* nobody has heard of it */
        br_verbs_link_close(&link->base);
        return false;
    }
    if (link->state == BR_VLINK_CONNECTING) /* though the peer's first words may be here already */
        return false;
    if (!report_state(link, report))
        return true;
    for (unsigned i = 0; i < br_verbs_device_of(link)->classes.n && link->state == BR_VLINK_UP; i++)
        verbs_poll_report_sent(link, &link->lanes[i], report);
    while (report->n < report->max && !br_list_empty(&link->inbox) && !link->silent) {
        bool trusted = link->base.authenticated;

        if (!verbs_poll_take_next(link, report))
            return false;
        if (!trusted && !br_list_empty(&link->inbox))
            return true; /* one frame a poll */
    }
    if (link->hung_up && link->state == BR_VLINK_UP && br_list_empty(&link->inbox) && drained)
        br_verbs_link_fail(link, -ECONNRESET, false, "peer closed");
    if (report->n == report->max)
        return true;
    if (link->state == BR_VLINK_FAILED && !link->reported &&
        (link->silent || br_list_empty(&link->inbox))) {
        link->reported = true;
        verbs_poll_add_event(report, link, BR_EVENT_CLOSED)->error = link->error;
    }
    return link->hung_up && link->state == BR_VLINK_UP;
}

/* Each once; those for whose events there is no room are first in the next poll. */
static void verbs_poll_report_all(struct br_verbs_device *device, struct report *report,
                                  bool drained)
{
    const struct br_list *last = device->ready.prev;
    bool all = false;

    while (report->n < report->max && !all) {
        struct br_list *node = br_list_pop_front(&device->ready);
        struct br_verbs_link *link = br_container_of(node, struct br_verbs_link, ready);

        all = node == last;
        if (report_link(link, report, drained))
            br_verbs_link_is_ready(link);
    }
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void take_notifications(struct br_verbs_device *device)
{
    struct ibv_cq *cq;
    unsigned n = 0;
    void *user;
    bool failed;

    errno = 0;
    for (; !device->library->get_cq_event(device->channel, &cq, &user); errno = 0)
        n++;
    /* it would stay readable, and nobody would sleep any more */
    failed = errno != EAGAIN && errno != EINTR;
    if (n)
        device->library->ack_cq_events(device->cq, n);
    if (failed)
        br_verbs_device_fail(device, "ibv_get_cq_event has failed");
}

static void verbs_poll_check_events(struct br_verbs_device *device)
{
    struct epoll_event events[EPOLL_EVENTS];
    int n = epoll_wait(device->epoll_fd, events, EPOLL_EVENTS, 0);

    device->base.counters.system_calls++;
    device->check_events = n == EPOLL_EVENTS || device->n_exchanges;
    device->next_check = device->now + LOOK_PERIOD;
    for (int i = 0; i < n; i++) {
        void *who = events[i].data.ptr;

        if (who == &device->listen_fd)
            br_verbs_accept(device);
        else if (who == &device->cm)
            br_verbs_cm_events(device);
        else if (who == device->channel)
            take_notifications(device);
        else if (who == device->context)
            br_verbs_events(device);
        else
            br_verbs_socket_event(who, events[i].events);
    }
    if (device->n_exchanges)
        br_verbs_exchange_timers(device);
}

static void push_pieces(struct br_verbs_device *device)
{
    for (int i = 0; i < device->n_open && device->n_pushing; i++)
        if (device->open[i]->pieces.frame.kind)
            br_verbs_push(device->open[i]);
}

int br_verbs_poll(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_verbs_device *device = (struct br_verbs_device *)base;
    struct report report = {events, 0, max};
    int n;

    device->now = now;
    br_verbs_receive_return(device, &device->lent);
    if (device->check_events || now >= device->next_check || ++device->n_polls % LOOK_EVERY == 0)
        verbs_poll_check_events(device);
    if (device->n_closed)
        br_verbs_open_links(device);
    n = take_completions(device, &report);
    if (br_verbs_receive_is_short(&device->receive, n <= 0))
        br_verbs_receive_refill(device);
    if (device->n_pushing)
        push_pieces(device);
    if (!br_list_empty(&device->ready))
        verbs_poll_report_all(device, &report, n < BATCH);
    return report.n;
}

int br_verbs_arm(struct br_device *base)
{
    struct br_verbs_device *device = (struct br_verbs_device *)base;
    int rc;

    device->check_events = true;
    if (!br_list_empty(&device->ready))
        return -EAGAIN;
    for (int i = 0; i < device->n_open && device->n_closed; i++)
        if (device->open[i]->base.authenticated && !device->open[i]->opened)
            return -EAGAIN;
    if (device->dead)
        return device->epoll_fd;
    rc = ibv_req_notify_cq(device->cq, 0);
    if (rc) {
        br_error(rc, "ibv_req_notify_cq: %s", strerror(rc));
        br_verbs_device_fail(device, br_error_message());
        return -EAGAIN;
    }
    /* What came before the notification was asked for does not notify. */
    return take_completions(device, &(struct report){.n = 0}) ? -EAGAIN : device->epoll_fd;
}

int br_verbs_release(struct br_device *device, struct br_link *base, void *handle)
{
    struct br_verbs_link *link = (struct br_verbs_link *)base;
    struct br_verbs_buffer *buffer = handle;

    br_list_remove(&buffer->node);
    br_list_push_back(&((struct br_verbs_device *)device)->receive.spare, &buffer->node);
    link->n_held--;
    if (!br_list_empty(&link->inbox))
        br_verbs_link_is_ready(link);
    return 0;
}
