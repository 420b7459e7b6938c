/* SPDX-License-Identifier: BSD-3-Clause */
/* The links of a device (device.h). */
#include "transport/datagram/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define PATIENCE (10 * BR_SEC) /* where the caller has no wish */

static struct br_dgram_device *member_device_of(const struct br_dgram_member *member)
{
    return (struct br_dgram_device *)member->base.device;
}

static struct br_dgram_config config_of(const struct br_dgram_device *device, uint64_t id)
{
    const struct br_device_config *config = device->base.config;

    return (struct br_dgram_config){.slots = config->slots,
                                    .id = id,
                                    .message_bytes = device->base.caps.max_message,
                                    .message_buffers = config->message_buffers,
                                    .max_packet = device->max_packet,
                                    .paths = (uint32_t)device->paths,
                                    .target = device->target,
                                    .flight_bytes = device->flight_bytes,
                                    .header_only = device->header_only,
                                    .acks_behind = device->acks_behind,
                                    .patience = config->patience ? config->patience : PATIENCE};
}

/* A link without its datagram link. NULL with a message. */
static struct br_dgram_member *member_make(struct br_dgram_device *device,
                                           const struct br_dgram_address *peer, uint64_t id)
{
    struct br_dgram_member *member = br_pool_get(&device->links);

    if (!member) {
        br_error(EMFILE, "device %s: all %u links are in use", device->base.name,
                 device->links.count);
        return NULL;
    }
    memset(member, 0, sizeof *member);
    member->base.device = &device->base;
    member->id = id;
    member->peer = *peer;
    member->dirty = true;
    br_inet_text(&peer->address, true, member->base.peer_name, sizeof member->base.peer_name);
    if (br_table_insert(&device->ids, id, 0, member)) {
        br_pool_put(&device->links, member);
        br_error(EEXIST, "device %s: a link's number came twice", device->base.name);
        return NULL;
    }
    member->index = device->n_open;
    device->open[device->n_open++] = member;
    return member;
}

static void member_unmake(struct br_dgram_member *member)
{
    struct br_dgram_device *device = member_device_of(member);

    br_table_remove(&device->ids, member->id, 0);
    device->open[member->index] = device->open[--device->n_open];
    device->open[member->index]->index = member->index;
    br_pool_put(&device->links, member);
}

void br_dgram_member_fail(struct br_dgram_member *member, int error, const char *why)
{
    struct br_dgram_device *device = member_device_of(member);
    char local[64], sending[96] = "";

    if (member->state == BR_DGRAM_FAILED)
        return;
    br_inet_text(&device->address, member->accepted, local, sizeof local);
    if (member->send_error)
        snprintf(sending, sizeof sending, "; packets could not be sent: %s%s",
                 strerror(member->send_error),
                 member->send_error == EPERM ? " (a firewall of this host?)" : "");
    br_error(-error, "device %s, %s %s %s: %s%s", device->base.name, local,
             member->accepted ? "<-" : "->", member->base.peer_name, why, sending);
    snprintf(member->base.message, sizeof member->base.message, "%.159s", br_error_message());
    device->io->drop(device, member);
    member->state = BR_DGRAM_FAILED;
    member->error = error;
    member->eventful = true;
}

int br_dgram_member_connect(struct br_device *base, const struct br_address *address,
                            struct br_link **out)
{
    struct br_dgram_device *device = (struct br_dgram_device *)base;
    struct br_dgram_address peer = {.hop = {0}};
    struct br_dgram_member *member;
    int rc = br_inet_unpack_peer(address, &device->address, &peer.address);

    if (rc)
        return br_error_prefix(rc, "device %s: ", base->name);
    member = member_make(device, &peer, br_dgram_cookie_new(&device->cookies));
    if (!member)
        return -EMFILE;
    member->reported = true;
    *out = &member->base;
    return 0;
}

void br_dgram_member_begin(struct br_dgram_member *member)
{
    struct br_dgram_device *device = member_device_of(member);
    struct br_dgram_config config = config_of(device, member->id);
    int rc;

    member->resolve_began = member->resolve_began ? member->resolve_began : device->now;
    rc = device->io->resolve(device, member);
    if (rc > 0)
        rc = br_dgram_link_connect(&config, device->now, &member->dgram);
    if (rc < 0)
        br_dgram_member_fail(member, rc, br_error_message());
}

struct br_dgram_member *br_dgram_member_accept(struct br_dgram_device *device,
                                               const struct br_dgram_view *confirm,
                                               const struct br_dgram_address *from)
{
    struct br_dgram_config config = config_of(device, confirm->header.link);
    struct br_dgram_view open = *confirm;
    struct br_dgram_member *member = member_make(device, from, config.id);

    /* The OPEN that has left no trace (cookie.h), as it must have been. */
    open.kind = BR_DGRAM_OPEN;
    open.header.kind = BR_DGRAM_OPEN;
    open.header.link = 0;
    if (member && br_dgram_link_accept(&config, &open, device->now, &member->dgram)) {
        member_unmake(member);
        member = NULL;
    }
    if (!member) {
        device->base.counters.refused_links++;
        return NULL;
    }
    member->accepted = true;
    return member;
}

void br_dgram_member_close(struct br_link *base)
{
    struct br_dgram_member *member = (struct br_dgram_member *)base;
    struct br_dgram_device *device = member_device_of(member);
    struct br_dgram_packet *packet = &device->packet;

    /* The peer may not hear it: then its next packet is answered with a refusal. */
    if (member->dgram && br_dgram_link_close(member->dgram, packet))
        device->io->reply(device, &member->peer, packet->head, packet->head_bytes, 0);
    device->io->drop(device, member);
    br_dgram_link_destroy(member->dgram);
    br_dgram_cookie_end(&device->cookies, member->id);
    member_unmake(member);
}

int br_dgram_member_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_dgram_member *member = (struct br_dgram_member *)base;
    struct br_device_counters *counters = &base->device->counters;
    int taken;

    if (member->state == BR_DGRAM_FAILED)
        return member->error;
    if (member->state == BR_DGRAM_OPENING)
        return 0;
    taken = br_dgram_link_post(member->dgram, frames, n);
    member->dirty = base->device->unsent = true;
    for (int i = 0; i < taken; i++) {
        counters->tx_frames++;
        counters->tx_bytes += frames[i].length;
    }
    return taken;
}

int br_dgram_member_release(struct br_device *device, struct br_link *base, void *buffer)
{
    struct br_dgram_member *member = (struct br_dgram_member *)base;

    (void)device;
    br_dgram_link_release(member->dgram, buffer);
    member->dirty = true;
    return 0;
}
