/* SPDX-License-Identifier: BSD-3-Clause */
/* Links of the udp back end. */
#include "transport/udp/udp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define PATIENCE (10 * BR_SEC) /* where the caller has no wish */
/* Of queueing. Processes wait for their turn on a core for about as long: with less, that looks like congestion. */
#define TARGET (2 * BR_MS)

static struct br_udp_device *device_of(const struct br_udp_link *link)
{
    return (struct br_udp_device *)link->base.device;
}

static struct br_dgram_config config_of(const struct br_udp_device *device, uint64_t id)
{
    const struct br_device_config *config = device->base.config;

    return (struct br_dgram_config){.slots = config->slots,
                                    .id = id,
                                    .message_bytes = device->base.caps.max_message,
                                    .message_buffers = config->message_buffers,
                                    .max_packet = device->max_packet,
                                    .paths = (uint32_t)device->paths,
                                    .target = TARGET,
                                    .patience = config->patience ? config->patience : PATIENCE};
}

/* A link without its datagram link. NULL with words. */
static struct br_udp_link *make(struct br_udp_device *device, const union br_inet_address *peer, uint64_t id)
{
    struct br_udp_link *link = br_pool_get(&device->links);

    if (!link) {
        br_error(EMFILE, "device %s: all %u links are in use", device->base.name, device->links.count);
        return NULL;
    }
    memset(link, 0, sizeof *link);
    link->base.device = &device->base;
    link->id = id;
    link->peer = *peer;
    link->dirty = true;
    br_inet_words(peer, true, link->base.peer_name, sizeof link->base.peer_name);
    if (br_table_insert(&device->ids, id, 0, link)) {
        br_pool_put(&device->links, link);
        br_error(EEXIST, "device %s: a link's number came twice", device->base.name);
        return NULL;
    }
    link->place = device->n_open;
    device->open[device->n_open++] = link;
    return link;
}

static void unmake(struct br_udp_link *link)
{
    struct br_udp_device *device = device_of(link);

    br_table_remove(&device->ids, link->id, 0);
    device->open[link->place] = device->open[--device->n_open];
    device->open[link->place]->place = link->place;
    br_pool_put(&device->links, link);
}

void br_udp_link_fail(struct br_udp_link *link, int error, const char *why)
{
    struct br_udp_device *device = device_of(link);
    char local[64], sending[96] = "";

    if (link->state == BR_UDP_FAILED)
        return;
    br_inet_words(&device->address, link->accepted, local, sizeof local);
    if (link->send_error)
        snprintf(sending, sizeof sending, "; packets could not be sent: %s%s", strerror(link->send_error),
                 link->send_error == EPERM ? " (a firewall of this host?)" : "");
    br_error(-error, "device %s, %s %s %s: %s%s", device->base.name, local, link->accepted ? "<-" : "->",
             link->base.peer_name, why, sending);
    snprintf(link->base.words, sizeof link->base.words, "%.159s", br_error_words());
    br_udp_outbox_drop(device->outbox, link);
    link->state = BR_UDP_FAILED;
    link->error = error;
    link->eventful = true;
}

int br_udp_link_connect(struct br_device *base, const struct br_address *address, struct br_link **out)
{
    struct br_udp_device *device = (struct br_udp_device *)base;
    union br_inet_address peer;
    struct br_udp_link *link;
    int rc = br_inet_unpack_peer(address, &device->address, &peer);

    if (rc)
        return br_error_prefix(rc, "device %s: ", base->name);
    link = make(device, &peer, br_udp_cookie_new(&device->cookies));
    if (!link)
        return -EMFILE;
    link->told = true;
    *out = &link->base;
    return 0;
}

void br_udp_link_begin(struct br_udp_link *link)
{
    struct br_udp_device *device = device_of(link);
    struct br_dgram_config config = config_of(device, link->id);
    int rc = br_dgram_link_connect(&config, device->now, &link->dgram);

    if (rc)
        br_udp_link_fail(link, rc, br_error_words());
}

struct br_udp_link *br_udp_link_accept(struct br_udp_device *device, const struct br_dgram_view *confirm,
                                       const union br_inet_address *from)
{
    struct br_dgram_config config = config_of(device, confirm->header.link);
    struct br_dgram_view open = *confirm;
    struct br_udp_link *link = make(device, from, config.id);

    /* The OPEN that has left no trace (cookie.h), as it must have been. */
    open.kind = BR_DGRAM_OPEN;
    open.header.kind = BR_DGRAM_OPEN;
    open.header.link = 0;
    if (link && br_dgram_link_accept(&config, &open, device->now, &link->dgram)) {
        unmake(link);
        link = NULL;
    }
    if (!link) {
        device->base.counters.refused_links++;
        return NULL;
    }
    link->accepted = true;
    return link;
}

/* Tells the peer, which may not hear it: then it is told when it sends the next packet. */
static void say_goodbye(struct br_udp_device *device, struct br_udp_link *link)
{
    struct br_dgram_packet *packet = &device->packet;

    if (!link->dgram || !br_dgram_link_close(link->dgram, packet))
        return;
    (void)!sendto(device->fds[0], packet->head, packet->head_bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                  &link->peer.any, br_inet_bytes(&link->peer));
    device->base.counters.system_calls++;
}

void br_udp_link_close(struct br_link *base)
{
    struct br_udp_link *link = (struct br_udp_link *)base;
    struct br_udp_device *device = device_of(link);

    say_goodbye(device, link);
    br_udp_outbox_drop(device->outbox, link);
    br_dgram_link_destroy(link->dgram);
    br_udp_cookie_end(&device->cookies, link->id);
    unmake(link);
}

int br_udp_link_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_udp_link *link = (struct br_udp_link *)base;
    struct br_device_counters *counters = &base->device->counters;
    int taken;

    if (link->state == BR_UDP_FAILED)
        return link->error;
    if (link->state == BR_UDP_OPENING)
        return 0;
    taken = br_dgram_link_post(link->dgram, frames, n);
    link->dirty = true;
    for (int i = 0; i < taken; i++) {
        counters->tx_frames++;
        counters->tx_bytes += frames[i].length;
    }
    return taken;
}

void br_udp_link_release(struct br_link *base, void *buffer)
{
    struct br_udp_link *link = (struct br_udp_link *)base;

    br_dgram_link_release(link->dgram, buffer);
    link->dirty = true;
}
