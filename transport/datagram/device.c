/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/datagram/device.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

#define SEND_BYTES (256u << 10) /* of one link and poll */

int br_dgram_device_init(struct br_dgram_device *device, const struct br_dgram_io *io,
                         const struct br_device_config *config)
{
    int rc;

    device->io = io;
    device->base.config = config;
    device->base.caps = (struct br_caps){
        .max_frame = BR_DGRAM_MAX_FRAME,
        .max_message =
            config->message_bytes < BR_DGRAM_MAX_FRAME ? config->message_bytes : BR_DGRAM_MAX_FRAME,
        .sent_means_arrived = true,
    };
    device->paths = 1;
    device->open = calloc(config->max_links, sizeof(struct br_dgram_member *));
    if (!device->open)
        return br_error(ENOMEM, "no memory for %u links", config->max_links);
    if ((rc = br_dgram_cookie_init(&device->cookies)) ||
        (rc = br_pool_init(&device->links, sizeof(struct br_dgram_member), config->max_links)))
        return rc;
    return br_table_init(&device->ids, config->max_links);
}

void br_dgram_device_close_links(struct br_dgram_device *device)
{
    while (device->n_open)
        br_dgram_member_close(&device->open[0]->base);
}

void br_dgram_device_destroy(struct br_dgram_device *device)
{
    br_table_destroy(&device->ids);
    br_pool_destroy(&device->links);
    free(device->open);
}

void br_dgram_device_begin(struct br_dgram_device *device, uint64_t now)
{
    device->now = device->arrived = now;
    for (int i = 0; i < device->n_open; i++) {
        struct br_dgram_member *member = device->open[i];

        if (!member->dgram && member->state == BR_DGRAM_OPENING)
            br_dgram_member_begin(member);
        if (member->authenticated || !member->base.authenticated)
            continue;
        br_dgram_link_authenticate(member->dgram);
        member->authenticated = member->eventful = true;
    }
}

/* CLOSED; or, of a link that the caller has never heard of, nothing. */
static void report_end(struct br_dgram_member *member, struct br_dgram_report *report)
{
    if (!member->reported) {
        br_dgram_member_close(&member->base);
        return;
    }
    report->events[report->n++] =
        (struct br_event){.kind = BR_EVENT_CLOSED, .error = member->error, .link = &member->base};
    member->eventful = false;
}

void br_dgram_member_report(struct br_dgram_member *member, struct br_dgram_report *report)
{
    struct br_device_counters *counters = &member->base.device->counters;

    while (member->state != BR_DGRAM_FAILED && report->n < report->max) {
        struct br_event *event = &report->events[report->n];

        if (!br_dgram_link_event(member->dgram, event)) {
            member->eventful = false;
            return;
        }
        event->link = &member->base;
        if (event->kind == BR_EVENT_CLOSED) {
            counters->bad_frames += event->error == -EPROTO;
            br_dgram_member_fail(member, event->error, br_dgram_link_message(member->dgram));
            break;
        }
        report->n++;
        if (event->kind == BR_EVENT_ACCEPTED || event->kind == BR_EVENT_CONNECTED) {
            member->state = BR_DGRAM_UP;
            member->reported = true;
        } else if (event->kind != BR_EVENT_SENT) {
            counters->rx_frames++;
            counters->rx_bytes += event->length;
            if (!member->authenticated)
                return;
        }
    }
    if (member->state == BR_DGRAM_FAILED && report->n < report->max)
        report_end(member, report);
}

/* What a link may send now. false: there was no room. */
static bool send_member(struct br_dgram_device *device, struct br_dgram_member *member)
{
    struct br_dgram_packet *packet = &device->packet;

    for (uint32_t bytes = 0; bytes < SEND_BYTES;
         bytes += packet->head_bytes + packet->payload_bytes) {
        if (!device->io->can_send(device, member))
            return false;
        if (member->state == BR_DGRAM_FAILED ||
            !br_dgram_link_next(member->dgram, device->now, packet)) {
            member->dirty = false;
            break;
        }
        device->base.counters.tx_packets++;
        device->io->send(device, member, packet);
        member->dirty = !packet->last;
        if (packet->last)
            break;
    }
    member->unsettled = true;
    return true;
}

bool br_dgram_device_send(struct br_dgram_device *device)
{
    device->first++;
    for (int k = 0; k < device->n_open; k++) {
        struct br_dgram_member *member =
            device->open[((uint32_t)k + device->first) % (uint32_t)device->n_open];

        if (br_dgram_member_wants(member, device->now) && !send_member(device, member))
            return false;
    }
    return true;
}

void br_dgram_device_expire(struct br_dgram_device *device)
{
    for (int i = 0; i < device->n_open; i++) {
        struct br_dgram_member *member = device->open[i];

        if (!member->dgram || member->state == BR_DGRAM_FAILED || member->timer > device->now)
            continue;
        br_dgram_link_expire(member->dgram, device->now);
        member->eventful = true;
    }
}

void br_dgram_device_drain(struct br_dgram_device *device)
{
    for (int i = 0; i < device->n_open; i++) {
        struct br_dgram_member *member = device->open[i];

        if (!member->unsettled)
            continue;
        member->unsettled = false;
        member->base.facts.resent_packets = br_dgram_link_resent(member->dgram);
        if (member->timer <= device->now)
            member->eventful = true; /* waiting may have had an end */
        member->timer =
            member->state == BR_DGRAM_FAILED ? BR_DGRAM_NEVER : br_dgram_link_timer(member->dgram);
    }
}

bool br_dgram_device_idle(const struct br_dgram_device *device, bool no_room, uint64_t *first)
{
    *first = BR_DGRAM_NEVER;
    for (int i = 0; i < device->n_open; i++) {
        const struct br_dgram_member *member = device->open[i];

        if (member->eventful || member->authenticated != member->base.authenticated ||
            (member->dirty && !no_room))
            return false;
        *first = member->timer < *first ? member->timer : *first;
    }
    return true;
}
