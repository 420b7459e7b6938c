/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a link: connect, accept, fail, close; and the events that it hands to poll(). */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/sim/internal.h"

static struct br_sim_device *sim_link_device_of(const struct br_sim_link *link)
{
    return br_container_of(link->base.device, struct br_sim_device, base);
}

void br_sim_connection_drop(struct br_sim_connection *connection)
{
    if (--connection->references)
        return;
    br_list_remove(&connection->node);
    free(connection);
}

static struct br_sim_link *sim_link_new(struct br_sim_device *device,
                                        struct br_sim_connection *connection, int end)
{
    struct br_sim_link *link = calloc(1, sizeof *link);
    const struct br_sim_port *peer = connection->port[!end];

    if (!link)
        return NULL;
    link->base.device = &device->base;
    snprintf(link->base.peer_name, sizeof link->base.peer_name, "host %d %.20s", peer->host->number,
             peer->name);
    link->connection = connection;
    connection->references++;
    connection->link[end] = link;
    link->end = end;
    br_list_init(&link->in_ready);
    br_list_init(&link->notes);
    br_list_init(&link->flying);
    br_list_init(&link->waiting);
    br_list_init(&link->held_buffers);
    br_list_push_back(&device->links, &link->node);
    device->n_links++;
    return link;
}

/* Makes the host of the link known as ready: it has a note, or takes frames again. */
void br_sim_link_ready(struct br_sim_link *link)
{
    struct br_sim_host *host = sim_link_device_of(link)->port->host;

    if (br_list_empty(&host->ready) && !host->dead)
        br_list_push_back(&host->sim->ready, &host->ready);
}

/* Queues a note and makes the link, the device and the host known as ready. */
static void sim_link_report(struct br_sim_link *link, struct br_sim_note *note)
{
    struct br_sim_device *device = sim_link_device_of(link);

    note->event.link = &link->base;
    br_list_push_back(&link->notes, &note->node);
    if (br_list_empty(&link->in_ready))
        br_list_push_back(&device->ready, &link->in_ready);
    br_sim_link_ready(link);
}

struct br_sim_note *br_sim_link_note(struct br_sim_link *link, enum br_event_kind kind)
{
    struct br_list *node;
    struct br_sim_note *note;

    if (link->state == BR_SIM_FAILED)
        return NULL; /* nothing follows CLOSED */
    node = br_list_pop_front(&sim_link_device_of(link)->sim->free_notes);
    note = node ? br_container_of(node, struct br_sim_note, node) : malloc(sizeof *note);
    if (!note) {
        br_sim_link_fail(link, ENOMEM, "no memory for events");
        return NULL;
    }
    memset(&note->event, 0, sizeof note->event);
    note->event.kind = kind;
    sim_link_report(link, note);
    return note;
}

/* Of a byte stream the round trip is known, as a kernel knows it of TCP. */
void br_sim_link_open(struct br_sim_link *link, enum br_event_kind kind)
{
    struct br_sim_port *const *ports = link->connection->port;

    if (link->state != BR_SIM_CONNECTING)
        return;
    link->state = BR_SIM_OPEN;
    if (!link->base.device->caps.sent_means_arrived)
        link->base.facts.min_rtt = 2 * (ports[0]->latency + ports[1]->latency);
    br_sim_link_note(link, kind);
}

void br_sim_link_fail(struct br_sim_link *link, int error, const char *format, ...)
{
    struct br_sim_device *device = sim_link_device_of(link);
    size_t used, size = sizeof link->base.message;
    va_list args;

    if (link->state == BR_SIM_FAILED)
        return;
    link->state = BR_SIM_FAILED;
    used = (size_t)snprintf(link->base.message, size, "%.16s (level %d) to %s: ", device->base.name,
                            device->base.config->level, link->base.peer_name);
    va_start(args, format);
    vsnprintf(link->base.message + used, size - used, format, args);
    va_end(args);
    link->closed.event = (struct br_event){.kind = BR_EVENT_CLOSED, .error = -error};
    sim_link_report(link, &link->closed);
    br_sim_trace_number(device->sim, "link failed", link->connection->number);
}

enum br_sim_verdict br_sim_link_accept(struct br_sim_frame *frame)
{
    struct br_sim_connection *connection = frame->connection;
    struct br_sim_device *device = NULL;
    struct br_sim_link *link;

    if (frame->delivered) /* decided before, but the answer was lost, or this is a duplicate */
        return connection->accepted ? BR_SIM_OK : BR_SIM_REFUSED;
    frame->delivered = true;
    br_list_for_each (node, &connection->port[1]->devices) {
        struct br_sim_device *candidate = br_container_of(node, struct br_sim_device, node);

        if (candidate->number == connection->target)
            device = candidate;
    }
    if (!device || device->port->host->dead || !connection->link[0])
        return BR_SIM_REFUSED;
    if (device->n_links >= device->base.config->max_links) {
        device->base.counters.refused_links++;
        return BR_SIM_REFUSED;
    }
    link = sim_link_new(device, connection, 1);
    if (!link)
        return BR_SIM_REFUSED;
    connection->accepted = true;
    br_sim_link_open(link, BR_EVENT_ACCEPTED);
    return BR_SIM_OK;
}

static struct br_sim_port *sim_link_find_port(struct br_sim *sim, const struct br_address *address,
                                              uint32_t *device)
{
    uint32_t where[3];

    if (address->bytes != sizeof where)
        return NULL;
    memcpy(where, address->data, sizeof where);
    if (where[0] >= sim->n_hosts || where[1] >= (uint32_t)sim->hosts[where[0]]->n_ports)
        return NULL;
    *device = where[2];
    return &sim->hosts[where[0]]->ports[where[1]];
}

int br_sim_link_connect(struct br_device *base, const struct br_address *address,
                        struct br_link **out)
{
    struct br_sim_device *device = br_container_of(base, struct br_sim_device, base);
    struct br_sim *sim = device->sim;
    struct br_sim_connection *connection;
    struct br_sim_frame *frame;
    struct br_sim_link *link;
    uint32_t target = 0;
    struct br_sim_port *peer = sim_link_find_port(sim, address, &target);

    if (!peer)
        return br_error(EINVAL, "%s: not the address of a simulated device", base->name);
    if (device->n_links >= base->config->max_links)
        return br_error(EMFILE, "%s: all %u links are in use", base->name, base->config->max_links);
    connection = calloc(1, sizeof *connection);
    if (!connection)
        return br_error(ENOMEM, "%s: no memory for a link", base->name);
    br_list_push_back(&sim->connections, &connection->node);
    connection->sim = sim;
    connection->number = sim->next_connection++;
    connection->port[0] = device->port;
    connection->port[1] = peer;
    connection->target = target;
    frame = br_sim_frame_new(connection, 0, BR_SIM_CONNECT);
    if (!frame) {
        free(connection);
        return br_error(ENOMEM, "%s: no memory for a link", base->name);
    }
    link = sim_link_new(device, connection, 0);
    if (link)
        br_sim_frame_send(frame);
    br_sim_frame_drop(frame);
    if (!link)
        return br_error(ENOMEM, "%s: no memory for a link", base->name);
    *out = &link->base;
    return 0;
}

/* The frames that are on the wire will arrive after their memory has gone back to its owner: they
 * take their bytes with them. */
static void let_fly(struct br_sim_frame *frame)
{
    br_list_remove(&frame->node);
    if (frame->references > 1 && !frame->delivered && frame->header.length && !frame->copy) {
        frame->copy = malloc(frame->header.length);
        if (frame->copy)
            memcpy(frame->copy, frame->payload, frame->header.length);
        else
            frame->delivered = true; /* as if the network had lost it for good */
        frame->payload = frame->copy;
    }
    br_sim_frame_drop(frame);
}

static void sim_link_free(struct br_sim_link *link)
{
    struct br_sim_device *device = sim_link_device_of(link);
    struct br_list *node;

    while (!br_list_empty(&link->flying))
        let_fly(br_container_of(link->flying.next, struct br_sim_frame, node));
    while ((node = br_list_pop_front(&link->waiting)))
        br_sim_frame_drop(br_container_of(node, struct br_sim_frame, waiting_node));
    while ((node = br_list_pop_front(&link->notes)))
        if (node != &link->closed.node)
            br_list_push_front(&device->sim->free_notes, node);
    while ((node = br_list_pop_front(&link->held_buffers)))
        br_list_push_front(&device->free_buffers, node);
    br_list_remove(&link->in_ready);
    br_list_remove(&link->node);
    device->n_links--;
    link->connection->link[link->end] = NULL;
    br_sim_connection_drop(link->connection);
    free(link);
}

void br_sim_link_close(struct br_link *base)
{
    struct br_sim_link *link = br_container_of(base, struct br_sim_link, base);
    struct br_sim_connection *connection = link->connection;
    struct br_sim_frame *frame = NULL;

    if (connection->link[!link->end] && !connection->port[link->end]->host->dead)
        frame = br_sim_frame_new(connection, link->end, BR_SIM_CLOSE);
    sim_link_free(link);
    if (frame) {
        br_sim_frame_send(frame);
        br_sim_frame_drop(frame);
    }
}
