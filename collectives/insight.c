/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for the user: braid_stats(), braid_rail_stats(), braid_algorithm(). */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "collectives/local.h"

static void add_devices(const struct br_worker *w, struct braid_stats *s)
{
    for (int d = 0; d < w->n_devices; d++) {
        const struct br_device_counters *c = &w->devices[d]->counters;

        s->copied_bytes += c->tx_copied_bytes + c->rx_copied_bytes;
        s->dropped_frames += c->bad_frames;
        s->refused_strangers += c->refused_links;
        s->system_calls += c->system_calls;
        s->tx_packets += c->tx_packets;
        s->rx_packets += c->rx_packets;
        s->registrations += c->registrations;
        s->pinned_bytes += c->pinned_bytes;
    }
}

static void add_rails(const struct br_worker *w, struct braid_stats *s)
{
    for (int r = 0; r < w->config.size; r++)
        for (int i = 0; i < w->peers[r].n_rails - w->peers[r].n_detours; i++) { /* detours run over these */
            s->tx_bytes += w->peers[r].rails[i].total_tx;
            s->rx_bytes += w->peers[r].rails[i].total_rx;
        }
}

int braid_stats(struct braid_comm *comm, struct braid_stats *out)
{
    int rc = br_comm_check(comm, "braid_stats");
    struct br_family *family;
    const struct br_worker *w;

    if (rc)
        return rc;
    if (!out)
        return br_error(EINVAL, "braid_stats: nowhere to store the counters");
    family = comm->family;
    w = family->worker;
    br_gate_lock(family);
    *out = (struct braid_stats){.operations = comm->operations, .failed_operations = comm->failed_operations};
    out->copied_bytes = w->counters.copied_bytes;
    out->placed_bytes = w->counters.placed_bytes;
    out->mapped_bytes = w->counters.mapped_bytes;
    out->refused_strangers = w->counters.refused_strangers;
    out->dropped_frames = w->counters.dropped_messages + w->slots.stale_frames + w->slots.bad_frames;
    out->late_allocations = br_engine_late_allocations(family->engine, comm->group);
    out->board_operations = comm->local ? comm->local->operations : 0;
    out->unregistered = family->unregistered;
    add_devices(w, out);
    add_rails(w, out);
    br_gate_unlock(family);
    return 0;
}

static void describe(const struct br_rail *rail, int peer, struct braid_rail_stats *out)
{
    *out = (struct braid_rail_stats){
        .peer = peer,
        .level = rail->level,
        .up = rail->state == BR_RAIL_UP,
        .tx_bytes = rail->total_tx,
        .rx_bytes = rail->total_rx,
        .budget_bytes = rail->budget,
        .bytes_per_second = rail->rate,
        .min_rtt_ns = rail->min_rtt,
        .failures = rail->failures,
    };
    snprintf(out->device, sizeof out->device, "%s:%.40s", rail->device->ops->name, rail->device->name);
}

int braid_rail_stats(struct braid_comm *comm, struct braid_rail_stats *rails, int max)
{
    int n = 0, rc = br_comm_check(comm, "braid_rail_stats");

    if (rc)
        return rc;
    if (!rails && max > 0)
        return br_error(EINVAL, "braid_rail_stats: nowhere to store the counters");
    br_gate_lock(comm->family);
    for (int r = 0; r < comm->size; r++) {
        const struct br_peer *peer = &comm->family->worker->peers[br_group_in_job(comm->group, r)];

        for (int i = 0; i < peer->n_rails; i++, n++)
            if (n < max)
                describe(&peer->rails[i], r, &rails[n]);
    }
    br_gate_unlock(comm->family);
    return n;
}

const char *braid_algorithm(struct braid_comm *comm, const char *collective, size_t count,
                            enum braid_type type)
{
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE, .count = count, .type = type};
    const char *name;

    if (br_comm_check(comm, "braid_algorithm"))
        return NULL;
    if (!collective || (unsigned)type > BRAID_UINT64) {
        br_error(EINVAL, "braid_algorithm: an argument is missing or wrong");
        return NULL;
    }
    op.group = comm->group;
    if (br_collective_find(collective, &op.collective))
        return NULL;
    br_gate_lock(comm->family);
    if (comm->local && br_local_takes(comm->local, &op))
        name = "board";
    else
        name = br_engine_algorithm(comm->family->engine, &op);
    br_gate_unlock(comm->family);
    return name;
}
