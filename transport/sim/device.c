/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end's operations: open and close a port, post frames, poll for events. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/sim/internal.h"

/* NULL with a message: -EINVAL or -ENODEV in *rc. */
static struct br_sim_port *sim_device_find_port(const struct br_device_config *config, int *rc)
{
    struct br_sim_host *host = config->simulation;

    if (!host) {
        *rc = br_error(
            EINVAL, "sim exists only inside a simulation (br_device_config.simulation is not set)");
        return NULL;
    }
    for (int i = 0; i < host->n_ports; i++)
        if (config->name ? !strcmp(config->name, host->ports[i].name) : i == config->level)
            return &host->ports[i];
    *rc = br_error(ENODEV, "host %d has no device %s, only sim0 to sim%d", host->number,
                   config->name ? config->name : "of this level", host->n_ports - 1);
    return NULL;
}

static void sim_device_set_address(struct br_sim_device *device)
{
    struct br_address *out = &device->base.address;
    uint32_t where[3] = {(uint32_t)device->port->host->number,
                         (uint32_t)(device->port - device->port->host->ports), device->number};

    out->bytes = sizeof where;
    memcpy(out->data, where, sizeof where);
}

static int sim_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_sim_port *port;
    struct br_sim_device *device;
    struct br_sim_config *play;
    bool places;
    int rc = 0;

    port = sim_device_find_port(config, &rc);
    if (!port)
        return rc;
    device = calloc(1, sizeof *device);
    if (!device)
        return br_error(ENOMEM, "%s: no memory for the device", port->name);
    device->sim = port->host->sim;
    play = &device->sim->config;
    device->port = port;
    places = play->rkey_ports >> (port - port->host->ports) & 1;
    device->number = device->sim->next_device++;
    device->base.config = config;
    device->base.caps = (struct br_caps){
        .max_frame = play->max_frame,
        .max_message =
            play->max_message < config->message_bytes ? play->max_message : config->message_bytes,
        .sent_means_arrived = !play->early_sent || places,
        .maps = play->maps && !places,
        .reduces = !play->hollow && !places && play->reduce_ports >> (port - port->host->ports) & 1,
        .needs_rkey = places,
    };
    snprintf(device->base.name, sizeof device->base.name, "%s", port->name);
    sim_device_set_address(device);
    br_list_init(&device->links);
    br_list_init(&device->ready);
    br_list_init(&device->reported);
    br_list_init(&device->maps);
    br_list_init(&device->free_buffers);
    if (places && (rc = br_sim_rkeys_open(device))) {
        free(device);
        return rc;
    }
    br_list_push_back(&port->devices, &device->node);
    *out = &device->base;
    return 0;
}

static void free_reported(struct br_sim_device *device)
{
    struct br_list *node;

    while ((node = br_list_pop_front(&device->reported)))
        br_list_push_front(&device->sim->free_notes, node);
}

static void sim_device_device_close(struct br_device *base)
{
    struct br_sim_device *device = br_container_of(base, struct br_sim_device, base);
    struct br_list *node;

    while (!br_list_empty(&device->links))
        br_sim_link_close(&br_container_of(device->links.next, struct br_sim_link, node)->base);
    while (!br_list_empty(&device->maps))
        (void)br_sim_release(base, NULL,
                             br_container_of(device->maps.next, struct br_sim_map, node));
    free_reported(device);
    while ((node = br_list_pop_front(&device->free_buffers)))
        free(br_container_of(node, struct br_sim_buffer, node));
    br_sim_rkeys_close(device);
    br_list_remove(&device->node);
    free(device);
}

static int sim_device_check(struct br_sim_link *link, const struct br_frame *frame)
{
    const struct br_device *device = link->base.device;
    uint32_t limit =
        frame->kind == BR_FRAME_MESSAGE ? device->caps.max_message : device->caps.max_frame;

    if (frame->length > limit)
        return br_error(EMSGSIZE, "%s: a frame of %u bytes, at most %u are possible", device->name,
                        frame->length, limit);
    return br_sim_rkey_post(link, frame);
}

static struct br_sim_frame *new_frame(struct br_sim_link *link, const struct br_frame *frame)
{
    struct br_sim_frame *out = br_sim_frame_new(link->connection, link->end, BR_SIM_DATA);

    if (!out)
        return NULL;
    br_frame_header_fill(&out->header, frame);
    out->cookie = frame->cookie;
    out->early = !link->base.device->caps.sent_means_arrived;
    if (frame->rkey)
        memcpy(&out->rkey, frame->rkey, sizeof out->rkey);
    out->payload = frame->payload;
    if (frame->length &&
        (out->early || (frame->kind == BR_FRAME_MESSAGE && link->base.device->caps.maps))) {
        out->copy = malloc(frame->length);
        if (!out->copy) {
            br_sim_frame_drop(out);
            return NULL;
        }
        memcpy(out->copy, frame->payload, frame->length);
        out->payload = out->copy;
        link->base.device->counters.tx_copied_bytes += frame->length;
    }
    return out;
}

static int sim_device_post(struct br_link *base, const struct br_frame *frames, int n)
{
    struct br_sim_link *link = br_container_of(base, struct br_sim_link, base);
    struct br_sim_device *device = br_container_of(base->device, struct br_sim_device, base);
    int taken, rc;

    if (link->state == BR_SIM_FAILED || device->port->host->dead)
        return br_error(EPIPE, "%s", base->message);
    for (taken = 0; taken < n && link->state == BR_SIM_OPEN; taken++) {
        struct br_sim_frame *frame;

        if (link->n_flying >= device->sim->config.tx_depth)
            break;
        rc = sim_device_check(link, &frames[taken]);
        if (rc)
            return taken ? taken : rc;
        frame = new_frame(link, &frames[taken]);
        if (!frame)
            break;
        frame->sequence = link->tx_sequence++;
        frame->order = link->tx_order;
        if (!device->sim->config.unordered || frames[taken].kind == BR_FRAME_MESSAGE)
            link->tx_order++;
        link->n_flying++;
        br_list_push_back(&link->flying, &frame->node);
        device->sim->counters.frames++;
        base->device->counters.tx_frames++;
        base->device->counters.tx_bytes += frame->header.length;
        br_sim_frame_send(frame);
    }
    return taken;
}

static int sim_device_poll_(struct br_device *base, uint64_t now, struct br_event *events, int max)
{
    struct br_sim_device *device = br_container_of(base, struct br_sim_device, base);
    struct br_list *node;
    int n = 0;

    (void)now; /* the simulator's own time counts here */
    free_reported(device);
    while (n < max && !device->port->host->dead && (node = br_list_pop_front(&device->ready))) {
        struct br_sim_link *link = br_container_of(node, struct br_sim_link, in_ready);
        struct br_sim_note *note =
            br_container_of(br_list_pop_front(&link->notes), struct br_sim_note, node);

        events[n++] = note->event;
        if (!br_list_empty(&link->notes))
            br_list_push_back(&device->ready, &link->in_ready);
        if (note != &link->closed)
            br_list_push_back(&device->reported, &note->node);
    }
    return n;
}

/* Not empty, so that a leak of a registration shows. */
static int sim_device_region_register(struct br_device *base, struct br_region *region)
{
    if (region->gpu)
        return br_error(EOPNOTSUPP, "device %s: takes no memory of GPUs", base->name);
    region->keys[base->index] = region->base;
    return 0;
}

static void sim_device_region_release(struct br_device *base, struct br_region *region)
{
    struct br_sim_device *device = br_container_of(base, struct br_sim_device, base);

    region->keys[base->index] = NULL;
    br_list_for_each (node, &device->links) {
        struct br_sim_link *link = br_container_of(node, struct br_sim_link, node);

        for (int i = 0; i < BR_SIM_SHARED; i++)
            if (link->shared[i] == region)
                link->shared[i] = NULL;
    }
}

static int sim_device_share_own(struct br_sim_link *link, const struct br_region *own)
{
    int free = -1;

    for (int i = 0; i < BR_SIM_SHARED; i++) {
        if (link->shared[i] == own)
            return 0;
        if (!link->shared[i])
            free = i;
    }
    if (free < 0)
        return -ENOSPC;
    link->shared[free] = own;
    return 0;
}

/* Both ends stand in one process, so there is nothing to map, and it takes no virtual time. */
static int sim_device_share(struct br_link *base, const struct br_region *own, uint32_t id,
                            struct br_shared *theirs)
{
    struct br_sim_link *link = br_container_of(base, struct br_sim_link, base);
    const struct br_sim_link *other = link->connection->link[!link->end];

    if (!base->device->caps.maps)
        return -EOPNOTSUPP;
    if (link->state != BR_SIM_OPEN || !other || other->state != BR_SIM_OPEN)
        return -ENOTCONN;
    if (own)
        return sim_device_share_own(link, own);
    for (int i = 0; i < BR_SIM_SHARED; i++) {
        if (!other->shared[i] || other->shared[i]->id != id)
            continue;
        *theirs =
            (struct br_shared){.base = other->shared[i]->base, .bytes = other->shared[i]->bytes};
        return 0;
    }
    return -ENOENT;
}

const struct br_transport_ops br_sim_ops = {
    .name = "sim",
    .device_open = sim_device_device_open,
    .device_close = sim_device_device_close,
    .region_register = sim_device_region_register,
    .region_release = sim_device_region_release,
    .rkey = br_sim_rkey,
    .share = sim_device_share,
    .link_connect = br_sim_link_connect,
    .link_close = br_sim_link_close,
    .post = sim_device_post,
    .poll = sim_device_poll_,
    .release = br_sim_release,
};
