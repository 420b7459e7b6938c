/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/relay/relay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define EVENTS 64
/* Bytes; measured with shm: up to here the copies of a message of a collective or a put cost less
 * than a READY and its answer. Point to point they do up to all that a buffer takes
 * (doc/design/shared_memory.md, small messages). */
#define EAGER_WITH_MAPS (8u << 10)
#define CONNECT_BACKOFF (5 * BR_MS)

static int worker_create_pools(struct br_worker *w)
{
    uint32_t n = w->config.max_transfers;
    int rc;

    if ((rc = br_put_batches_create(w)))
        return rc;
    if ((rc = br_table_init(&w->receives, n)) || (rc = br_table_init(&w->sends, n)) ||
        (rc = br_table_init(&w->confirms, n)) ||
        (rc = br_growing_pool_init(&w->unexpected, br_match_unexpected_bytes(), n,
                                   BR_WORKER_CHUNKS)) ||
        (rc = br_pool_init(&w->flights, sizeof(struct br_flight), n)) ||
        (rc = br_growing_pool_init(&w->services, br_onesided_service_bytes(), n,
                                   BR_WORKER_CHUNKS)) ||
        (rc = br_slot_table_init(&w->slots, w->config.max_slots)))
        return br_error(-rc, "rank %d: no memory for the tables of %u transfers", w->config.rank,
                        n);
    return 0;
}

/* Zeroes only: where most ranks never get rails, as among thousands of simulated hosts, their pages
 * are never touched. */
static int create_peers(struct br_worker *w)
{
    br_list_init(&w->known);
    w->peers = calloc((size_t)w->config.size, sizeof *w->peers);
    if (!w->peers)
        return br_error(ENOMEM, "rank %d: no memory for %d peers", w->config.rank, w->config.size);
    return 0;
}

static int create_relay(struct br_worker *w)
{
    if (w->config.cube.hosts < (uint32_t)w->config.size)
        return br_error(EINVAL,
                        "BCube(%u,%u) has %u hosts, and the job %d ranks: start one rank a host",
                        w->config.cube.n, w->config.cube.k, w->config.cube.hosts, w->config.size);
    w->max_deferred = BR_RELAY_LINKS;
    w->deferred = calloc(w->max_deferred, sizeof *w->deferred);
    if (!w->deferred)
        return br_error(ENOMEM, "rank %d: no memory for relaying", w->config.rank);
    return br_relay_create(w);
}

int br_worker_create(const struct br_worker_config *config, struct br_worker **out)
{
    struct br_worker *w = calloc(1, sizeof *w);
    int rc;

    if (!w)
        return br_error(ENOMEM, "rank %d: no memory for a worker", config->rank);
    w->config = *config;
    br_list_init(&w->done);
    for (int k = 0; k < BR_SLOTLESS; k++)
        br_list_init(&w->slotless[k]);
    br_list_init(&w->arrivals);
    br_list_init(&w->active);
    br_list_init(&w->blocked);
    br_random_seed(&w->random, config->seed + (uint64_t)config->rank);
    if ((rc = worker_create_pools(w)) || (rc = create_peers(w)) || (rc = br_connect_init(w)) ||
        (rc = br_demand_init(w)) || (config->cube.hosts && (rc = create_relay(w)))) {
        br_worker_destroy(w);
        return rc;
    }
    *out = w;
    return 0;
}

void br_worker_destroy(struct br_worker *w)
{
    if (!w)
        return;
    for (int d = w->n_devices; d-- > 0;) {
        br_log_limit_end(&w->devices[d]->peer_lines, w->devices[d]->name);
        w->devices[d]->ops->device_close(w->devices[d]);
    }
    br_relay_destroy(w);
    if (w->unauthenticated)
        br_connect_destroy(w);
    br_match_destroy(w);
    if (w->peers)
        for (int rank = 0; rank < w->config.size; rank++) {
            struct br_peer *peer = &w->peers[rank];

            if (!peer->n_rails)
                continue;
            for (int k = 0; k < BR_STREAMS; k++)
                br_list_for_each_safe (unacked, &peer->streams[k].resend)
                    free(br_container_of(unacked, struct br_unacked, node));
            for (int i = 0; i < peer->n_rails; i++) {
                free(peer->rails[i].retained);
                free(peer->rails[i].relay);
            }
            free(peer->rails);
            free(peer->dones);
            free(peer->asked);
        }
    free(w->peers);
    free(w->left);
    free(w->deferred);
    br_slot_table_destroy(&w->slots);
    br_put_batches_destroy(w);
    br_growing_pool_destroy(&w->services);
    br_pool_destroy(&w->flights);
    br_growing_pool_destroy(&w->unexpected);
    br_table_destroy(&w->confirms);
    br_table_destroy(&w->sends);
    br_table_destroy(&w->receives);
    free(w);
}

int br_worker_open_device(struct br_worker *w, const struct br_transport_ops *ops, const char *name,
                          void *simulation, int *index)
{
    struct br_device_config *config = &w->device_configs[w->n_devices];
    /* Unauthenticated peers who come at once push out older ones, whose links are closed only after
     * the batch of events. */
    int peers = w->config.neighbours ? w->config.neighbours : w->config.size;
    uint32_t links = (uint32_t)peers * BR_MAX_RAILS + (uint32_t)w->n_unauthenticated + EVENTS;
    struct br_link **grown;
    int rc;

    if (w->n_devices == BR_MAX_DEVICES)
        return br_error(E2BIG, "rank %d: more than %d devices", w->config.rank, BR_MAX_DEVICES);
    grown = realloc(w->deferred, (w->max_deferred + links) * sizeof *grown);
    if (!grown)
        return br_error(ENOMEM, "rank %d: no memory for %u links", w->config.rank, links);
    w->deferred = grown;
    w->max_deferred += links;
    *config = (struct br_device_config){
        .name = name,
        .level = w->n_devices,
        .slots = &w->slots,
        .message_bytes = w->config.eager_bytes < BR_MAX_TEXT ? BR_MAX_TEXT : w->config.eager_bytes,
        .message_buffers = BR_MESSAGE_BUFFERS, /* relayed frames are copied and released at once */
        .patience = 2 * w->config.peer_timeout,
        .own_nic_only = w->config.own_nic_only,
        .thread_spin = w->config.thread_spin,
        .max_links = links,
        .gid = w->config.gids[w->n_devices],
        .simulation = simulation,
    };
    if (w->relay)
        config->message_bytes = br_relay_frame_bytes(&w->config);
    rc = br_transport_open(ops, config, &w->devices[w->n_devices]);
    if (rc)
        return br_error_prefix(rc, "rank %d, device %s: ", w->config.rank, name ? name : ops->name);
    config->name = w->devices[w->n_devices]->name; /* the caller's need not outlive this call */
    w->devices[w->n_devices]->index = w->n_devices;
    *index = w->n_devices++;
    return 0;
}

static void set_rail(struct br_worker *w, struct br_rail *rail, const struct br_rail_config *config)
{
    rail->level = (uint8_t)(config ? (uint32_t)config->level : w->config.cube.k);
    rail->device = config ? w->devices[config->device] : &w->relay->device;
    if (config)
        rail->address = config->address;
    rail->alternate = !config;
    rail->keeps = rail->peer->n_rails > 1 || !rail->device->caps.maps;
    rail->spares = rail->peer->n_rails == 1 && !w->relay && rail->device->caps.spares;
    rail->connector = w->config.rank > rail->peer->rank;
    rail->backoff = CONNECT_BACKOFF;
    rail->patience = !w->relay         ? w->config.peer_timeout
                     : rail->alternate ? w->config.peer_timeout / 4 * 3
                                       : w->config.peer_timeout / 4;
    rail->target_delay = w->config.target_delay ? w->config.target_delay : BR_TARGET_DELAY;
    if (config && !rail->device->caps.sent_means_arrived) {
        rail->turn = config->turn;
        rail->least_window = config->least_window;
    }
    snprintf(rail->message, sizeof rail->message, "%s",
             rail->connector ? "not tried yet" : "it has not connected to us");
}

static int set_rails(struct br_worker *w, struct br_peer *peer, const struct br_rail_config *rails,
                     int n_rails)
{
    int rc = 0;

    for (int i = 0; i < peer->n_rails && !rc; i++) {
        struct br_rail *rail = &peer->rails[i];

        br_rail_init(rail, peer, i);
        set_rail(w, rail, i < n_rails ? &rails[i] : NULL);
        if (rail->device->caps.needs_rkey)
            peer->rkey_rails |= (uint8_t)(1u << i);
        peer->reduces = peer->reduces || rail->device->caps.reduces;
        if (rail->alternate)
            peer->alternates |= (uint8_t)(1u << i);
        else if (!peer->on_demand)
            rc = br_rail_prepare(w, rail);
        if (!rc && w->relay && !rail->alternate)
            rc = br_relay_rail_init(w, rail);
    }
    return rc;
}

static void init_peer(struct br_worker *w, struct br_peer *peer, int rank)
{
    peer->rank = rank;
    peer->eager_bytes = w->config.eager_bytes;
    for (int k = 0; k < BR_QUEUES; k++)
        br_queue_init(&peer->queues[k]);
    br_list_init(&peer->moving);
    br_list_init(&peer->waiting);
    br_list_init(&peer->expecting);
    br_list_init(&peer->awaited);
    for (int k = 0; k < BR_STREAMS; k++)
        br_list_init(&peer->streams[k].resend);
    br_list_init(&peer->active);
    br_list_init(&peer->known);
}

int br_worker_set_peer(struct br_worker *w, int rank, const struct br_rail_config *rails,
                       int n_rails)
{
    struct br_peer *peer = &w->peers[rank];
    int n_alternates = w->relay ? br_relay_alternates(w, rank) : 0, n = n_rails + n_alternates;

    if (n < 1 || n > (int)BR_MAX_RAILS)
        return br_error(EINVAL, "rank %d: %d rails to rank %d, 1 to %u are possible",
                        w->config.rank, n, rank, BR_MAX_RAILS);
    peer->rails = calloc((size_t)n, sizeof *peer->rails);
    peer->dones = malloc(BR_DONES * sizeof *peer->dones);
    peer->asked = malloc(BR_ASKED * sizeof *peer->asked);
    if (!peer->rails || !peer->dones || !peer->asked) {
        free(peer->rails);
        free(peer->dones);
        free(peer->asked);
        return br_error(ENOMEM, "rank %d: no memory for the rails to rank %d", w->config.rank,
                        rank);
    }
    init_peer(w, peer, rank);
    peer->n_rails = n;
    peer->n_dones = BR_DONES;
    peer->n_alternates = n_alternates;
    w->several_rails = w->several_rails || n_rails > 1;
    peer->eager_p2p = peer->eager_bytes;
    if (n_rails && w->devices[rails[0].device]->caps.maps && peer->eager_bytes > EAGER_WITH_MAPS)
        peer->eager_bytes = EAGER_WITH_MAPS;
    peer->in_tree = w->config.on_demand && br_demand_in_tree(w->config.rank, rank);
    peer->on_demand =
        w->config.on_demand && !peer->in_tree && n_rails && !w->devices[rails[0].device]->caps.maps;
    if (!peer->on_demand)
        br_list_push_back(&w->known, &peer->known);
    if (n_rails && !peer->on_demand)
        w->n_waited++;
    else
        peer->state = BR_PEER_UP; /* as far as that can be said of it */
    return set_rails(w, peer, rails, n_rails);
}

bool br_worker_uses_only(const struct br_worker *w, int rank, uint32_t devices)
{
    const struct br_peer *peer = &w->peers[rank];

    for (int i = 0; i < peer->n_rails; i++)
        if (!peer->rails[i].alternate && !(devices >> peer->rails[i].device->index & 1))
            return false;
    if (peer->n_alternates)
        return w->config.region_copy && br_peer_direct(peer);
    return peer->n_rails > 0;
}

bool br_worker_connected(const struct br_worker *w)
{
    return w->n_waited == 0;
}

void br_worker_missing(const struct br_worker *w, char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = 0;
    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, const struct br_peer, known);

        for (int i = 0; i < peer->n_rails; i++) {
            const struct br_rail *rail = &peer->rails[i];

            if (rail->was_up || rail->alternate || peer->on_demand || used >= bytes)
                continue;
            used += (size_t)snprintf(text + used, bytes - used,
                                     "%srank %d level %d (device %s): %s", used ? "; " : "",
                                     peer->rank, rail->level, rail->device->name, rail->message);
        }
    }
}

/* ---- poll ------------------------------------------------------------------------------------ */

void br_worker_event(struct br_worker *w, const struct br_event *event)
{
    struct br_link *link = event->link;
    struct br_rail *rail = link->owner;

    if (event->kind == BR_EVENT_ACCEPTED) {
        br_connect_event(w, event);
        return;
    }
    if (!rail) { /* lost in this batch */
        if (event->kind == BR_EVENT_DATA && event->mapped)
            link->device->ops->release(link->device, NULL, event->buffer);
        return;
    }
    if (!link->authenticated) { /* of an unknown peer, of a rail that is not UP, or a probe */
        br_connect_event(w, event);
        return;
    }
    if (rail->peer->blocked)
        br_peer_unblock(w, rail->peer);
    switch (event->kind) {
    case BR_EVENT_SENT:
        br_send_sent(w, event);
        break;
    case BR_EVENT_MESSAGE:
        if (br_awaited_arrives(w, rail, event))
            break;
        /* fall through */
    case BR_EVENT_DATA:
        br_receive_event(w, rail, event);
        break;
    case BR_EVENT_CLOSED:
        br_rail_lost(w, rail, -event->error, link->message);
        break;
    default:
        break;
    }
}

/* Returns the number of its events. */
static int worker_poll_device(struct br_worker *w, struct br_device *device, int max)
{
    struct br_event events[EVENTS];
    int n = device->ops->poll(device, w->now, events, max);

    w->in_batch = true;
    for (int i = 0; i < n; i++)
        if (w->failed)
            br_worker_last_event(w, &events[i]);
        else
            br_worker_event(w, &events[i]);
    w->in_batch = false;
    br_links_close_deferred(w);
    return n;
}

bool br_worker_is_near(const struct br_worker *w, int rank)
{
    const struct br_rail *rail = br_peer_only_rail(w, &w->peers[rank]);

    return rail && rail->device->caps.maps;
}

void br_worker_look(struct br_worker *w, const struct br_awaited *awaited, uint64_t now)
{
    w->now = now;
    for (int i = 0; i < EVENTS && !awaited->came && br_worker_is_near(w, awaited->rank); i++)
        if (!worker_poll_device(w, w->peers[awaited->rank].rails->device, 1))
            break;
}

int br_worker_poll(struct br_worker *w, uint64_t now)
{
    bool drained = true;
    int n = 0;

    w->now = now;
    w->flush_due = false;
    if (w->failed)
        return br_worker_shut_down(w);
    for (int d = 0; d < w->n_devices; d++) {
        int k = worker_poll_device(w, w->devices[d], EVENTS);

        drained = drained && k < EVENTS && !w->devices[d]->behind;
        n += k;
    }
    if (w->failed)
        return n; /* the next poll begins with it */
    if (w->relay) {
        int k = br_relay_poll(w);

        drained = drained && !k;
        n += k;
    }
    if (now - w->last_timers >= BR_TIMER_PERIOD)
        br_worker_timers(w, drained);
    return n;
}

int br_worker_pump(struct br_worker *w, uint64_t now)
{
    int n = 0;

    w->now = now;
    if (w->failed)
        return 0;
    if (!br_list_empty(&w->blocked) &&
        (now > w->blocked_until || w->blocked_shared != (now < w->shared_until)))
        br_peers_unblock(w);
    w->in_batch = true;
    br_list_for_each_safe (node, &w->active)
        n += br_pump_peer(w, br_container_of(node, struct br_peer, active));
    w->in_batch = false;
    br_links_close_deferred(w);
    return n;
}

/* ---- leaving --------------------------------------------------------------------------------- */

void br_worker_leave(struct br_worker *w)
{
    w->leaving = true;
    if (w->relay)
        return; /* from those behind other hosts first: br_relay_leave() */
    br_list_for_each (node, &w->known) {
        struct br_peer *peer = br_container_of(node, struct br_peer, known);

        peer->bye_due = !br_peer_is_unlinked(peer);
        br_peer_activate(w, peer);
    }
    br_demand_left(w, w->config.rank);
}

bool br_worker_left(const struct br_worker *w)
{
    if (w->failed)
        return true;
    br_list_for_each (node, &w->known) {
        const struct br_peer *peer = br_container_of(node, const struct br_peer, known);

        if (peer->state != BR_PEER_DEAD && !(peer->state == BR_PEER_LEFT && peer->bye_sent))
            return false;
        if (peer->left_due && br_peer_is_up(peer))
            return false;
    }
    return !w->left || w->n_left == w->config.size;
}
