/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From alone to connected: open devices, tell the others where they listen, learn where they do, connect.
 *
 * 1. Every rank publishes one record of fixed size: which host it is on and an address a device.
 * 2. Ranks of one host use shm, others TCP, a rail a device; BRAID_BACKEND forces one. Rail i of a pair runs between their
 *    i-th devices (modulo their number): in a BCube that is level i on both sides.
 */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/local.h"
#include "protocol/bootstrap/store.h"
#include "transport/shm/address.h"

/* One rank, as the others see it. */
struct record {
    struct br_address shm; /* bytes 0: none */
    uint32_t n_net;
    uint32_t rails;
    uint32_t sizes[4]; /* slice, eager, chunk, board: the same on all ranks */
    struct br_address net[BR_MAX_DEVICES];
};

static const char *const size_names[4] = {"BRAID_SLICE_BYTES", "BRAID_EAGER_BYTES", "BRAID_CHUNK_BYTES",
                                          "BRAID_BOARD_BYTES"};

struct local {
    int shm;                 /* device index, -1: none */
    int net[BR_MAX_DEVICES]; /* device indexes */
    int n_net;
    struct record record;
};

static int open_device(struct braid_comm *comm, const char *backend, const char *name,
                       struct br_address *address, int *index)
{
    const struct br_transport_ops *ops = br_transport_get(backend);
    int rc;

    if (!ops)
        return br_error(EOPNOTSUPP, "the back end %s is not in this build", backend);
    rc = br_worker_open_device(comm->worker, ops, name, NULL, index);
    if (!rc)
        rc = comm->worker->devices[*index]->ops->device_address(comm->worker->devices[*index], address);
    return rc;
}

static int open_net(struct braid_comm *comm, struct local *local, const char *name)
{
    int i = local->n_net, rc;

    if (i == BR_MAX_DEVICES - 1)
        return br_error(E2BIG, "rank %d: more than %d devices; name the ones to use in BRAID_DEVICES",
                        comm->rank, BR_MAX_DEVICES - 1);
    rc = open_device(comm, "uring", name, &local->record.net[i], &local->net[i]);
    if (!rc)
        local->n_net++;
    return rc;
}

/* Without BRAID_DEVICES: loopback when the job has one host only, else every NIC that is up. */
static int open_default_net(struct braid_comm *comm, struct local *local)
{
    const struct br_environment *env = &comm->settings.environment;
    bool one_host = env->local_known && env->local_size == env->size;
    struct br_device_info infos[32];
    int n = br_transport_get("uring")->probe(infos, 32), rc = 0;

    if (n < 0)
        return n;
    for (int i = 0; i < n && !rc; i++)
        if (!infos[i].why_not[0] && infos[i].loopback == one_host && local->n_net < BR_MAX_DEVICES - 1)
            rc = open_net(comm, local, infos[i].name);
    if (!rc && !local->n_net)
        rc = br_error(ENODEV,
                      "rank %d: no network device is up%s; see `braid info`, or name one in BRAID_DEVICES",
                      comm->rank, one_host ? "" : " besides loopback");
    return rc;
}

static int open_devices(struct braid_comm *comm, struct local *local)
{
    struct br_settings *s = &comm->settings;
    bool want_shm = strcmp(s->backend, "uring"), want_net = strcmp(s->backend, "shm");
    char *save = NULL;
    int rc = 0;

    local->shm = -1;
    if (want_shm)
        rc = open_device(comm, "shm", NULL, &local->record.shm, &local->shm);
    if (!rc && want_net && s->devices[0]) {
        for (char *name = strtok_r(s->devices, ", ", &save); name && !rc; name = strtok_r(NULL, ", ", &save))
            rc = open_net(comm, local, name);
    } else if (!rc && want_net) {
        rc = open_default_net(comm, local);
    }
    local->record.n_net = (uint32_t)local->n_net;
    local->record.rails = (uint32_t)(s->rails ? s->rails : local->n_net);
    local->record.sizes[0] = (uint32_t)s->slice_bytes;
    local->record.sizes[1] = (uint32_t)s->eager_bytes;
    local->record.sizes[2] = (uint32_t)s->chunk_bytes;
    local->record.sizes[3] = (uint32_t)s->board_bytes;
    return rc;
}

/* shm within a host, if both sides have it; the back end knows which addresses it can reach. */
static bool use_shm(const struct local *local, const struct record *peer)
{
    char socket[BR_SOCKET_NAME];

    return local->shm >= 0 && peer->shm.bytes && !br_shm_address_resolve(&peer->shm, socket);
}

static int set_peer(struct braid_comm *comm, const struct local *local, int rank, const struct record *peer)
{
    struct br_rail_config rails[BR_MAX_RAILS];
    uint32_t n;

    for (int i = 0; i < 4; i++)
        if (peer->sizes[i] != local->record.sizes[i])
            return br_error(EPROTO, "%s is %u on rank %d and %u on rank %d; it must be the same on all ranks",
                            size_names[i], peer->sizes[i], rank, local->record.sizes[i], comm->rank);
    if (use_shm(local, peer)) {
        rails[0] = (struct br_rail_config){.device = local->shm, .address = peer->shm};
        return br_worker_set_peer(comm->worker, rank, rails, 1);
    }
    if (!peer->n_net || !local->n_net)
        return br_error(EHOSTUNREACH,
                        "rank %d is on another host than rank %d and one of them has shared memory only; use "
                        "BRAID_BACKEND=auto",
                        rank, comm->rank);
    if (peer->n_net > BR_MAX_DEVICES || peer->rails > BR_MAX_RAILS)
        return br_error(EPROTO, "the record of rank %d makes no sense", rank);
    n = peer->rails < local->record.rails ? peer->rails : local->record.rails;
    for (uint32_t i = 0; i < n; i++)
        rails[i] = (struct br_rail_config){.device = local->net[i % (uint32_t)local->n_net],
                                           .address = peer->net[i % peer->n_net],
                                           .level = (int)i};
    return br_worker_set_peer(comm->worker, rank, rails, (int)n);
}

/* One turn of the worker, and a nap when there was nothing to do. */
static int turn(struct braid_comm *comm, uint64_t until)
{
    struct br_worker *w = comm->worker;
    struct timespec nap = {0, 50000};
    uint64_t now = br_clock_now();
    int n = br_worker_poll(w, now) + br_worker_pump(w, now);

    if (w->failed && !w->fail_due)
        return br_error(-w->failed, "%s", w->words);
    if (now > until && !w->failed)
        return -ETIMEDOUT;
    if (!n)
        nanosleep(&nap, NULL);
    return 0;
}

static int connect_all(struct braid_comm *comm, uint64_t until)
{
    char missing[200];
    int rc = 0;

    while (!rc && !br_worker_connected(comm->worker))
        rc = turn(comm, until);
    if (rc == -ETIMEDOUT) {
        br_worker_missing(comm->worker, missing, sizeof missing);
        return br_error(ETIMEDOUT, "rank %d: not connected in time: %s", comm->rank, missing);
    }
    return rc;
}

static int share_board(struct braid_comm *comm, uint64_t until)
{
    int rc;

    while ((rc = br_local_share(comm)) == -EAGAIN) {
        rc = turn(comm, until);
        if (rc == -ETIMEDOUT)
            return br_error(ETIMEDOUT, "rank %d: rank 0 did not share its board in time", comm->rank);
        if (rc)
            return rc;
    }
    return rc;
}

static uint64_t deadline(const struct braid_comm *comm)
{
    return br_clock_now() + comm->settings.environment.init_timeout;
}

int br_rendezvous(struct braid_comm *comm)
{
    struct record *all = calloc((size_t)comm->size, sizeof *all);
    struct local local = {0};
    uint64_t until = deadline(comm);
    int rc;

    if (!all)
        return br_error(ENOMEM, "rank %d: no memory for %d addresses", comm->rank, comm->size);
    rc = open_devices(comm, &local);
    if (!rc)
        rc = br_store_open(&comm->settings.environment, &comm->settings.secret, &comm->store);
    if (!rc)
        rc = br_store_gather(comm->store, "addresses", &local.record, sizeof local.record, all, until);
    for (int r = 0; r < comm->size && !rc; r++)
        if (r != comm->rank)
            rc = set_peer(comm, &local, r, &all[r]);
    if (!rc)
        rc = connect_all(comm, until);
    if (!rc)
        rc = share_board(comm, until);
    free(all);
    if (rc)
        br_rendezvous_end(comm);
    return rc;
}

/* With the own thread running: the last frames of our handshakes still have to leave while we wait for the others. */
int br_rendezvous_meet(struct braid_comm *comm)
{
    int rc = br_store_barrier(comm->store, "connected", deadline(comm));

    br_store_close(comm->store);
    comm->store = NULL;
    return rc;
}

void br_rendezvous_end(struct braid_comm *comm)
{
    br_store_close(comm->store);
    comm->store = NULL;
    br_local_destroy(comm);
}
