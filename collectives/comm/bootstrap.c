/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank joins its job: it finds the others, agrees with them, opens devices, publishes their
 * addresses, reads those of the others, and connects. From the first link to the start of the
 * progress thread nothing may block: peers would take it for silence.
 *
 * 1. All ranks agree on the back end between hosts (backend.h), on their settings and, in a BCube
 *    before anything is opened, on which NIC is which level (devices.h). Then every rank publishes
 *    one record of fixed size with an address for each device.
 * 2. Mesh: ranks of one host use shm, others RDMA or TCP with a rail for each device;
 *    BRAID_BACKEND forces one back end. Rail i of a pair runs between their i-th devices (modulo
 * their number).
 * 3. BCube: device i is on level i. A rank has one rail to each of its neighbours, between both
 *    devices of the level on which they are neighbours, and none to anybody else. Never over shm:
 *    whoever asks for the cube wants its links.
 */
#include "collectives/comm/bootstrap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bcube/address.h"
#include "collectives/comm/backend.h"
#include "collectives/comm/cabling_check.h"
#include "collectives/comm/context.h"
#include "collectives/comm/devices.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/link_trial.h"
#include "collectives/tuning/topology.h"
#include "gpu/pointer.h"
#include "protocol/bootstrap/store.h"
#include "protocol/message.h"
#include "protocol/worker.h"
#include "transport/host.h"
#include "transport/transport.h"
#include "transport/verbs/capabilities.h"

/* Where one rank listens. */
struct record {
    struct br_address shm; /* bytes 0: none */
    uint32_t n_net;
    uint32_t rails;
    uint32_t on_demand;          /* 1: links are made when first needed */
    uint32_t gpu_local_possible; /* 1: it could (gpu/gpu_local.h, note 7) */
    uint32_t gpus;               /* 1: it has a driver of GPUs */
    uint32_t turn_us;            /* br_settings.turn_us of its host */
    struct br_address net[BR_MAX_DEVICES];
};

struct local {
    int shm;                 /* device index, -1: none */
    int net[BR_MAX_DEVICES]; /* device indexes */
    int n_net;
    bool warned_of_rails;
    struct record record;
};

/* threaded: the device gets a thread of its own if the back end has use for one. */
static int open_device(struct br_context *context, const char *backend, bool threaded,
                       const char *name, struct br_address *address, int *index)
{
    const struct br_transport_ops *ops = br_transport_get(backend);
    int rc;

    if (!ops)
        return br_error(EOPNOTSUPP, "the back end %s is not in this build", backend);
    if (threaded && br_transport_threaded(ops))
        ops = br_transport_threaded(ops);
    rc = br_worker_open_device(context->worker, ops, name, NULL, index);
    if (!rc)
        *address = context->worker->devices[*index]->address;
    return rc;
}

/* What the inventory says of the GID of the NIC that a device is; 0: nothing. */
static uint32_t gid_of(const struct br_settings *s, const char *name)
{
    for (uint32_t level = 0; s->has_inventory && level < s->cube.k; level++)
        if (!strcmp(s->nics[level], name))
            return s->gids[level];
    return 0;
}

/* Opens the device for ranks of this host, where the settings allow one. */
static int open_within_host(struct br_context *context, struct local *local)
{
    const struct br_settings *s = &context->settings;
    const struct br_transport_ops *ops;

    local->shm = -1;
    if (s->cube.n ||
        (strcmp(s->backend, "auto") != 0 && !br_transport_traits(s->backend).within_host))
        return 0;
    for (int i = 0; (ops = br_transport_at(i)); i++)
        if (ops->traits.within_host)
            return open_device(context, ops->name, false, NULL, &local->record.shm, &local->shm);
    return 0;
}

/* For which the thread of a device polls in vain before it sleeps, where each thread has a core:
 * elsewhere it would keep others from what it waits for. */
#define THREAD_SPIN (100 * BR_US)

static int open_net(struct br_context *context, struct local *local,
                    const struct br_devices *devices)
{
    struct br_worker *worker = context->worker;
    const char *backend = context->settings.network;
    int threads = br_settings_threads(&context->settings, devices->n), rc = 0;

    worker->config.thread_spin = context->settings.own_cores > threads ? THREAD_SPIN : 0;
    if (devices->n >= BR_MAX_DEVICES)
        return br_error(E2BIG,
                        "rank %d: more than %d devices; name the ones to use in BRAID_DEVICES",
                        context->rank, BR_MAX_DEVICES - 1);
    for (int i = 0; i < devices->n && !rc; i++) {
        local->net[i] = -1;
        if (!devices->names[i][0])
            continue;
        worker->config.gids[worker->n_devices] = gid_of(&context->settings, devices->names[i]);
        rc = open_device(context, backend, i < threads, devices->names[i], &local->record.net[i],
                         &local->net[i]);
    }
    local->n_net = devices->n;
    return rc;
}

static int open_devices(struct br_context *context, struct local *local,
                        const struct br_devices *devices)
{
    const struct br_settings *s = &context->settings;
    int rc = open_within_host(context, local);

    if (!rc)
        rc = open_net(context, local, devices);
    local->record.n_net = (uint32_t)local->n_net;
    local->record.rails = (uint32_t)(s->rails ? s->rails : local->n_net);
    return rc;
}

/* Can both ranks use shared memory? */
static bool use_shm(const struct local *local, const struct record *peer)
{
    return local->shm >= 0 && peer->shm.bytes && peer->shm.host == local->record.shm.host;
}

/* ns; an answer waits for the peer's core, and for ours until it is heard */
static uint64_t longest_turn(const struct local *local, const struct record *peer)
{
    uint32_t ours = local->record.turn_us;

    return (peer->turn_us > ours ? peer->turn_us : ours) * BR_US;
}

static int bootstrap_set_peer(struct br_context *context, struct local *local, int rank,
                              const struct record *peer)
{
    struct br_rail_config rails[BR_MAX_RAILS];
    uint32_t n;

    if (peer->n_net > BR_MAX_DEVICES || peer->rails > BR_MAX_RAILS)
        return br_error(EPROTO, "the record of rank %d makes no sense", rank);
    if (peer->on_demand != local->record.on_demand)
        return br_error(
            EPROTO, "rank %d makes links %s and rank %d %s: give all ranks the same BRAID_LINKS",
            rank, peer->on_demand ? "on demand" : "at the start", context->rank,
            local->record.on_demand ? "on demand" : "at the start");
    if (use_shm(local, peer)) {
        rails[0] = (struct br_rail_config){.device = local->shm, .address = peer->shm};
        return br_worker_set_peer(context->worker, rank, rails, 1);
    }
    if (!peer->n_net || !local->n_net)
        return br_error(
            EHOSTUNREACH,
            "rank %d is on another host than rank %d and one of them has shared memory only; use "
            "BRAID_BACKEND=auto",
            rank, context->rank);
    n = peer->rails < local->record.rails ? peer->rails : local->record.rails;
    if (peer->rails != local->record.rails && !local->warned_of_rails) {
        local->warned_of_rails = true;
        br_log_warn(
            "rank %d: rank %d has %u rails where this rank has %u, so the two use %u; give all "
            "ranks the same BRAID_RAILS and as many devices",
            context->rank, rank, peer->rails, local->record.rails, n);
    }
    for (uint32_t i = 0; i < n; i++)
        rails[i] = (struct br_rail_config){.device = local->net[i % (uint32_t)local->n_net],
                                           .address = peer->net[i % peer->n_net],
                                           .level = (int)i,
                                           .turn = longest_turn(local, peer),
                                           .least_window = context->settings.least_window};
    return br_worker_set_peer(context->worker, rank, rails, (int)n);
}

/* A rail to a neighbour, between both devices of the level; none to others. */
static int set_cube_peer(struct br_context *context, const struct local *local, int rank,
                         const struct record *peer)
{
    const struct br_bcube *cube = &context->settings.cube;
    int level = br_bcube_level(cube, (uint32_t)context->rank, (uint32_t)rank);

    if (peer->n_net != cube->k)
        return br_error(EPROTO, "the record of rank %d makes no sense", rank);
    if (level < 0 || local->net[level] < 0 || !peer->net[level].bytes)
        return 0;
    return br_worker_set_peer(context->worker, rank,
                              &(struct br_rail_config){.device = local->net[level],
                                                       .address = peer->net[level],
                                                       .level = level,
                                                       .turn = longest_turn(local, peer)},
                              1);
}

/* One pass of the worker; sleeps for a moment when there was nothing to do. */
static int bootstrap_progress(struct br_context *context, uint64_t until)
{
    struct br_worker *w = context->worker;
    /* with more ranks than cores each look takes the time of one that has something to do */
    struct timespec nap = {0, context->settings.oversubscribed ? BR_MS : 50 * BR_US};
    uint64_t now = br_clock_now();
    int n = br_worker_poll(w, now) + br_worker_pump(w, now);

    if (w->failed && !w->fail_due)
        return br_error(-w->failed, "%s", w->message);
    if (now > until && !w->failed)
        return -ETIMEDOUT;
    if (!n)
        nanosleep(&nap, NULL);
    return 0;
}

int br_bootstrap_connect(struct br_context *context)
{
    char missing[200];
    int rc = 0;

    while (!rc && !br_worker_connected(context->worker))
        rc = bootstrap_progress(context, context->init_deadline);
    if (rc == -ETIMEDOUT) {
        br_worker_missing(context->worker, missing, sizeof missing);
        return br_error(ETIMEDOUT, "rank %d: not connected in time: %s", context->rank, missing);
    }
    return rc;
}

/* A rank without shared memory counts as a host of its own. */
static int bootstrap_set_topology(struct br_context *context, const struct record *all)
{
    uint32_t n = (uint32_t)context->size;
    uint64_t *host;
    int rc;

    if (context->settings.cube.n) {
        struct br_bcube cube = context->settings.cube;

        cube.hosts = n; /* the last ones may be missing */
        br_topology_bcube(&context->network.topology, &cube);
        return 0;
    }
    host = calloc(n, sizeof *host);
    if (!host)
        return br_error(ENOMEM, "rank %d: no memory for the hosts of %u ranks", context->rank, n);
    for (uint32_t r = 0; r < n; r++)
        host[r] = all[r].shm.host ? all[r].shm.host : r;
    rc = br_topology_hosts(&context->network.topology, n, host);
    free(host);
    return rc;
}

/* Lists the devices when their NICs are up. A NIC whose link comes up a moment after the start is
 * waited for, for 5 seconds and a quarter of the time in which the job has to start at most; then
 * whoever opens it, or checks the cabling, says what is wrong. */
static int find_devices(const struct br_context *context, struct br_devices *devices)
{
    uint64_t now = br_clock_now(), left = context->init_deadline - now;
    uint64_t until = now + (left / 4 < 5 * BR_SEC ? left / 4 : 5 * BR_SEC);
    bool waiting = false;
    int rc;

    while ((rc = br_devices_list(context, devices)) == -ENETDOWN ||
           (!rc && br_devices_check_up(context, devices))) {
        if (br_clock_now() >= until)
            break;
        if (!waiting)
            br_log_info("%s; waiting for it", br_error_message());
        waiting = true;
        nanosleep(&(struct timespec){.tv_nsec = 50 * BR_MS}, NULL);
    }
    return rc;
}

/* Devices of a mesh are opened at once, those of a BCube when their levels are known. */
static int list_devices(struct br_context *context, struct local *local, struct br_devices *devices)
{
    int rc = find_devices(context, devices);

    return rc || context->settings.cube.n ? rc : open_devices(context, local, devices);
}

/* Which ranks share this host, where the launcher does not say: those that could share memory. */
static int find_local_ranks(struct br_context *context, uint64_t until)
{
    struct br_environment *e = &context->settings.environment;
    uint64_t mine, *all = calloc(e->size, sizeof *all);
    struct br_host host;
    int rc;

    mine = br_host_read(&host) ? 0 : br_host_number(&host);
    rc = all ? br_store_gather(context->store, "hosts", &mine, sizeof mine, all, until)
             : br_error(ENOMEM, "rank %d: no memory for the hosts of %u ranks", context->rank,
                        e->size);

    if (!rc && !e->local_known) {
        e->local_known = true;
        e->local_rank = e->local_size = 0;
        for (uint32_t r = 0; r < e->size; r++) {
            bool here = r == e->rank || (mine && all[r] == mine);

            e->local_rank += here && r < e->rank;
            e->local_size += here;
        }
        br_settings_apply_local(&context->settings);
        context->worker->config.own_nic_only = context->settings.cube.n && e->local_size == 1;
    }
    free(all);
    return rc;
}

/* Decides what this rank offers, and where that says the back end, opens devices. */
static int offer_devices(struct br_context *context, struct local *local,
                         struct br_verbs_capabilities *offer, struct br_devices *devices,
                         bool *known)
{
    int rc = br_backend_query(&context->settings, offer);

    *known = context->settings.network[0];
    return rc || !*known ? rc : list_devices(context, local, devices);
}

/* This rank cannot take part. It joins the store for a moment all the same, so that the others, if
 * they are there, end at once and not when the time is over. Returns rc with its message. */
static int tell_others(struct br_context *context, int rc)
{
    uint64_t until = br_clock_now() + 2 * BR_SEC;
    struct br_store *store;
    char message[BR_ERROR_BYTES];

    snprintf(message, sizeof message, "%s", br_error_message());
    if (!br_store_open(&context->settings.environment, &context->settings.secret,
                       until < context->init_deadline ? until : context->init_deadline, &store))
        br_store_close(store);
    return br_error(-rc, "%s", message);
}

/* Joins the store and agrees with the others. Where it is known what devices there are, they are
 * listed first, so that a wrong name is reported before this rank waits for others. */
static int bootstrap_exchange(struct br_context *context, struct local *local, uint64_t until)
{
    const struct br_settings *s = &context->settings;
    bool early = s->environment.local_known || s->devices[0] || s->has_inventory;
    struct br_verbs_capabilities offer;
    struct br_devices devices;
    bool known = false;
    int rc = early ? offer_devices(context, local, &offer, &devices, &known) : 0;

    if (rc)
        tell_others(context, rc);
    else
        rc = br_store_open(&s->environment, &s->secret, context->init_deadline, &context->store);
    if (!rc)
        rc = find_local_ranks(context, until);
    if (!rc && !early)
        rc = offer_devices(context, local, &offer, &devices, &known);
    if (!rc)
        rc = br_backend_agree(context, &offer, until);
    if (!rc && !known)
        rc = list_devices(context, local, &devices);
    if (!rc)
        rc = br_cabling_agree(context, &devices, until);
    if (!rc && context->settings.cube.n)
        rc = open_devices(context, local, &devices);
    if (rc && *context->settings.no_rdma)
        br_error_prefix(rc, "RDMA devices stay unused (%s): ", context->settings.no_rdma);
    return rc;
}

int br_bootstrap_join(struct br_context *context)
{
    struct record *all = calloc((size_t)context->size, sizeof *all);
    struct local local = {0};
    uint64_t until = context->init_deadline;
    int rc;

    if (!all)
        return br_error(ENOMEM, "rank %d: no memory for %d addresses", context->rank,
                        context->size);
    local.record.on_demand = context->worker->config.on_demand;
    local.record.gpu_local_possible = context->gpu->may_share(context);
    local.record.gpus = br_gpu_found();
    rc = bootstrap_exchange(context, &local, until);
    local.record.turn_us = context->settings.turn_us;
    if (!rc)
        rc = br_store_gather(context->store, "addresses", &local.record, sizeof local.record, all,
                             until);
    context->gpu_local_possible = !rc;
    for (int r = 0; r < context->size && !rc; r++) {
        context->gpu_local_possible &= all[r].gpu_local_possible != 0;
        context->gpus |= all[r].gpus != 0;
        context->crowded |= all[r].turn_us != 0;
        if (all[r].turn_us > BR_TURN_MOST)
            rc = br_error(EPROTO, "the record of rank %d makes no sense", r);
        if (!rc && r != context->rank)
            rc = context->settings.cube.n ? set_cube_peer(context, &local, r, &all[r])
                                          : bootstrap_set_peer(context, &local, r, &all[r]);
    }
    if (!rc)
        rc = bootstrap_set_topology(context, all);
    free(all);
    if (rc)
        br_bootstrap_end(context);
    return rc;
}

/* The progress thread must be running: the last frames of our handshakes still have to leave while
 * this rank waits for the others. */
int br_bootstrap_meet(struct br_context *context)
{
    int rc = br_store_barrier(context->store, "connected", context->init_deadline);

    if (!rc && context->network.tries_link) {
        rc = br_link_trial(context);
        if (!rc) /* rank 0's store ends with it: nobody may still have to ask */
            rc = br_store_barrier(context->store, "link known", context->init_deadline);
    }
    br_store_close(context->store);
    context->store = NULL;
    return rc;
}

void br_bootstrap_end(struct br_context *context)
{
    br_store_close(context->store);
    context->store = NULL;
}
