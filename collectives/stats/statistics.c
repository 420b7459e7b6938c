/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters for the user: braid_stats(), braid_rail_stats(), braid_peer_stats(), braid_algorithm()
 * (doc/stats.md). */
#include "collectives/stats/statistics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/list.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/schedule.h"
#include "collectives/shm/executor.h"
#include "collectives/comm/gpu_ops.h"
#include "protocol/peer.h"
#include "protocol/transfer.h"
#include "protocol/worker.h"

static void add_devices(const struct br_worker *w, struct braid_stats *s)
{
    for (int d = 0; d < w->n_devices; d++) {
        const struct br_device_counters *c = &w->devices[d]->counters;

        s->copied_bytes += c->tx_copied_bytes + c->rx_copied_bytes;
        s->dropped_frames += c->bad_frames;
        s->invalid_packets += c->invalid_packets;
        s->failed_handshakes += c->refused_links;
        s->system_calls += c->system_calls;
        s->tx_packets += c->tx_packets;
        s->rx_packets += c->rx_packets;
        s->registrations += c->registrations;
        s->pinned_bytes += c->pinned_bytes;
        s->nic_from_gpu_bytes += c->tx_gpu_bytes;
        s->nic_to_gpu_bytes += c->rx_gpu_bytes;
    }
}

static void stats_statistics_add_rails(const struct br_worker *w, struct braid_stats *s)
{
    for (int r = 0; r < w->config.size; r++)
        /* alternate routes run over these */
        for (int i = 0; i < w->peers[r].n_rails - w->peers[r].n_alternates; i++) {
            s->tx_bytes += w->peers[r].rails[i].total_tx;
            s->rx_bytes += w->peers[r].rails[i].total_rx;
        }
}

static void add_worker(const struct br_worker *w, struct braid_stats *s)
{
    s->copied_bytes += w->counters.copied_bytes;
    s->direct_bytes = w->counters.direct_bytes;
    s->mapped_bytes = w->counters.mapped_bytes;
    s->relayed_frames = w->counters.relayed_frames;
    s->relayed_bytes = w->counters.relayed_bytes;
    s->relay_stalls = w->counters.relay_stalls;
    s->unreachable = w->counters.unreachable;
    s->slot_stalls = w->counters.slot_stalls;
    for (int k = 0; k < BR_SLOTLESS; k++)
        br_list_for_each (node, &w->slotless[k])
            s->slots_waiting++;
    s->failed_handshakes += w->counters.failed_handshakes;
    s->dropped_frames += w->counters.dropped_messages + w->slots.stale_frames + w->slots.bad_frames;
    s->skipped_rails = w->counters.skipped_rails;
}

#define ADD_DOWNGRADE(name, kind, help) out->name = atomic_load(&br_downgrades.name);

static uint64_t grown_operations(struct br_context *context)
{
    uint64_t grown;

    pthread_mutex_lock(&context->pool_lock);
    grown = context->operations.grown;
    pthread_mutex_unlock(&context->pool_lock);
    return grown;
}

/* Under the lock, as all below up to the next comment. */
static void take_stats(struct braid_comm *comm, struct braid_stats *out)
{
    struct br_context *context = comm->context;
    const struct br_gpu_counters gpu = context->gpu->counters(context);

    *out = (struct braid_stats){
        .operations = comm->operations,
        .failed_operations = comm->failed_operations,
        .shm_operations = comm->shm ? comm->shm->operations : 0,
        .outstanding = (uint64_t)atomic_load(&comm->outstanding),
        .gpu_to_host_bytes = gpu.to_host_bytes,
        .host_to_gpu_bytes = gpu.to_gpu_bytes,
        .gpu_reduced_bytes = gpu.reduced_bytes,
        .gpu_peer_bytes = gpu.peer_bytes,
        .late_allocations = br_engine_late_allocations(context->engine, comm->group) +
                            context->worker->late_allocations + context->worker->unexpected.grown +
                            context->worker->services.grown + grown_operations(context),
        .unregistered = context->unregistered,
        .progress_calls = context->progress.calls,
        .busy_ns = context->progress.busy,
        .idle_ns = context->progress.idle,
        .asleep_ns = context->progress.asleep,
        .process_cpu_ns = br_clock_process(),
    };
    BRAID_DOWNGRADES(ADD_DOWNGRADE)
    add_worker(context->worker, out);
    add_devices(context->worker, out);
    stats_statistics_add_rails(context->worker, out);
}

static void describe_rail(const struct br_worker *w, const struct br_rail *rail, int peer,
                          struct braid_rail_stats *out)
{
    *out = (struct braid_rail_stats){
        .peer = peer,
        .rail = rail->index,
        .level = rail->level,
        .up = rail->state == BR_RAIL_UP,
        .tx_bytes = rail->total_tx,
        .rx_bytes = rail->total_rx,
        .tx_frames = rail->tx_frames,
        .rx_frames = rail->rx_frames,
        .tx_messages = rail->tx_messages,
        .rx_messages = rail->rx_messages,
        .resent_slices = rail->resent_slices,
        .resent_packets = rail->resent_packets,
        .stalled_window_ns = br_stall_time(rail, BR_STALL_WINDOW, w->now),
        .stalled_full_ns = br_stall_time(rail, BR_STALL_FULL, w->now),
        .stalled_credit_ns = br_stall_time(rail, BR_STALL_CREDIT, w->now),
        .failures = rail->failures,
        .reconnects = rail->reconnects,
        .in_flight_bytes = rail->device->caps.maps ? 0 : rail->tx_bytes - rail->acked_bytes,
        .window_bytes = rail->window,
        .bytes_per_second = rail->rate,
        .min_rtt_ns = rail->min_rtt,
    };
    if (rail->link)
        out->resent_packets += rail->link->facts.resent_packets;
    snprintf(out->device, sizeof out->device, "%s:%.40s", rail->device->ops->name,
             rail->device->name);
}

static void count_queued(const struct br_queue *queue, bool data, struct braid_peer_stats *out)
{
    br_list_for_each (node, &queue->entries) {
        const struct br_queued *item = br_container_of(node, struct br_queued, node);
        const struct br_transfer *t = br_container_of(item, struct br_transfer, queued);

        out->queued_high += item->priority > 0;
        out->queued_normal += item->priority == 0;
        out->queued_low += item->priority < 0;
        if (t->is_send)
            out->queued_bytes += data ? br_transfer_left(t) : t->length;
    }
}

static void describe_peer(const struct br_peer *peer, int rank, struct braid_peer_stats *out)
{
    *out = (struct braid_peer_stats){
        .peer = rank, .ready_messages = peer->ready_messages, .ready_wait_ns = peer->ready_wait};
    for (int k = 0; peer->n_rails && k < BR_QUEUES; k++) /* else nothing was ever queued */
        if (k != BR_QUEUE_RELAY)                         /* of others */
            count_queued(&peer->queues[k], k == BR_QUEUE_DATA, out);
}

static const struct br_peer *peer_at(struct braid_comm *comm, int rank)
{
    return &comm->context->worker->peers[br_group_in_job(comm->group, rank)];
}

/* The structs of out[0..max) are `stride` bytes each: the caller's header may be of another
 * version.
 */
static int take_rails(struct braid_comm *comm, void *out, size_t stride, int max)
{
    struct braid_rail_stats rail;
    int n = 0;

    for (int r = 0; r < comm->size; r++)
        for (int i = 0; i < peer_at(comm, r)->n_rails; i++, n++)
            if (n < max) {
                describe_rail(comm->context->worker, &peer_at(comm, r)->rails[i], r, &rail);
                br_sized_write((char *)out + (size_t)n * stride, stride, &rail, sizeof rail);
            }
    return n;
}

static int take_peers(struct braid_comm *comm, void *out, size_t stride, int max)
{
    struct braid_peer_stats peer;
    int n = 0;

    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && n++ < max) {
            describe_peer(peer_at(comm, r), r, &peer);
            br_sized_write((char *)out + (size_t)(n - 1) * stride, stride, &peer, sizeof peer);
        }
    return n;
}

/* Rails that have come since there was room for them wait for the next snapshot. */
static int stats_statistics_least(int a, int b)
{
    return a < b ? a : b;
}

void br_statistics_take(struct braid_comm *comm, struct br_snapshot *s)
{
    take_stats(comm, &s->stats);
    s->n_peers = stats_statistics_least(take_peers(comm, s->peers, sizeof *s->peers, s->n_peers),
                                        s->n_peers);
    s->n_rails = stats_statistics_least(take_rails(comm, s->rails, sizeof *s->rails, s->n_rails),
                                        s->n_rails);
}

/* ---- the public calls ------------------------------------------------------------------------ */

/* *bytes: of the struct, or of each of an array of them; `known` of ours. */
static int stats_statistics_check(struct braid_comm *comm, const void *out, int max,
                                  const char *name, size_t known, size_t *bytes)
{
    int rc = br_comm_check(comm, name);

    if (rc || max <= 0)
        return rc;
    if (!out)
        return br_error(EINVAL, "%s: nowhere to store the counters", name);
    return br_sized_room(name, "the counters", out, known, bytes);
}

int braid_stats(struct braid_comm *comm, struct braid_stats *out)
{
    BR_DISABLE_CANCELLATION;
    struct braid_stats stats;
    size_t bytes;
    int rc = stats_statistics_check(comm, out, 1, "braid_stats", sizeof stats, &bytes);

    if (rc)
        return rc;
    br_progress_lock(comm->context);
    take_stats(comm, &stats);
    br_progress_unlock(comm->context);
    br_sized_write(out, bytes, &stats, sizeof stats);
    return 0;
}

int braid_rail_stats(struct braid_comm *comm, struct braid_rail_stats *out, int max)
{
    BR_DISABLE_CANCELLATION;
    size_t stride = 0;
    int n = stats_statistics_check(comm, out, max, "braid_rail_stats", sizeof *out, &stride);

    if (n)
        return n;
    br_progress_lock(comm->context);
    n = take_rails(comm, out, stride, max);
    br_progress_unlock(comm->context);
    return n;
}

int braid_peer_stats(struct braid_comm *comm, struct braid_peer_stats *out, int max)
{
    BR_DISABLE_CANCELLATION;
    size_t stride = 0;
    int n = stats_statistics_check(comm, out, max, "braid_peer_stats", sizeof *out, &stride);

    if (n)
        return n;
    br_progress_lock(comm->context);
    n = take_peers(comm, out, stride, max);
    br_progress_unlock(comm->context);
    return n;
}

const char *braid_algorithm(struct braid_comm *comm, const char *collective, size_t count,
                            enum braid_type type)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE, .count = count, .type = type};
    const char *name;

    if (br_comm_check(comm, "braid_algorithm"))
        return NULL;
    if (!collective || (unsigned)type >= BRAID_TYPES || count > SIZE_MAX / 8 / (size_t)comm->size) {
        br_error(EINVAL, "braid_algorithm: an argument is missing or wrong");
        return NULL;
    }
    op.group = comm->group;
    op.by_rank = comm->context->settings.order == BRAID_ORDER_RANKS;
    if (br_collective_find(collective, &op.collective))
        return NULL;
    br_progress_lock(comm->context);
    if (comm->shm && br_shm_executor_takes(comm->shm, &op))
        name = "shm";
    else
        name = br_engine_algorithm(comm->context->engine, &op);
    br_progress_unlock(comm->context);
    return name;
}
