/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_init() and braid_finalize() as a table of phases, and the life of an operation between call and engine. */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numa.h"
#include "collectives/local.h"
#include "collectives/reduce.h"

#define STRINGIFY(x)  #x
#define STRING(x)     STRINGIFY(x)
#define LEAVE_TIMEOUT (5 * BR_SEC) /* for all peers to say that they leave, too */

const char *braid_version(void)
{
    return STRING(BRAID_VERSION_MAJOR) "." STRING(BRAID_VERSION_MINOR) "." STRING(BRAID_VERSION_PATCH);
}

const char *braid_last_error(void)
{
    return br_error_words();
}

int braid_rank(const struct braid_comm *comm)
{
    return comm ? comm->rank : br_error(EINVAL, "braid_rank: no communicator");
}

int braid_size(const struct braid_comm *comm)
{
    return comm ? comm->size : br_error(EINVAL, "braid_size: no communicator");
}

/* ---- start and end ----------------------------------------------------------------------------------------- */

static int init_locks(struct braid_comm *comm)
{
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->pool_lock, NULL);
    pthread_mutex_init(&comm->end_lock, NULL);
    pthread_cond_init(&comm->ended, NULL);
    return 0;
}

static void destroy_locks(struct braid_comm *comm)
{
    pthread_cond_destroy(&comm->ended);
    pthread_mutex_destroy(&comm->end_lock);
    pthread_mutex_destroy(&comm->pool_lock);
    pthread_mutex_destroy(&comm->lock);
}

static int init_operations(struct braid_comm *comm)
{
    int rc = br_pool_init(&comm->operations, sizeof(struct br_operation), BR_MAX_OPERATIONS);

    if (!rc)
        rc = br_ring_init(&comm->submissions, BR_MAX_OPERATIONS);
    return rc;
}

static void destroy_operations(struct braid_comm *comm)
{
    br_ring_destroy(&comm->submissions);
    br_pool_destroy(&comm->operations);
}

static int init_worker(struct braid_comm *comm)
{
    const struct br_settings *s = &comm->settings;
    struct br_worker_config config = {
        .rank = comm->rank,
        .size = comm->size,
        .eager_bytes = (uint32_t)s->eager_bytes,
        .slice_bytes = (uint32_t)s->slice_bytes,
        .peer_timeout = s->peer_timeout,
        .starvation = s->starvation,
        .target_delay = s->oversubscribed ? 5 * BR_MS : 0, /* the time to get a core is no queue of ours */
        .connect_timeout = 5 * BR_SEC,
        .neighbours = (int)(s->cube.k * (s->cube.n - 1)), /* mesh: 0, which means all */
        /* Not where ranks of one host talk to each other over its own addresses: such frames never see the NIC. */
        .own_nic_only = s->cube.n && s->environment.local_size == 1,
        .max_slots = 4096,
        .max_transfers = 16384,
        .region_find = br_region_find,
        .region_done = br_region_done,
        .region_context = comm,
    };

    memcpy(config.key, s->secret.key, sizeof config.key);
    memcpy(&config.check, s->secret.key, sizeof config.check);
    config.check = config.check * 0x9e3779b97f4a7c15ull >> 1; /* shows nothing of the key */
    return br_worker_create(&config, &comm->worker);
}

static void destroy_worker(struct braid_comm *comm)
{
    br_worker_destroy(comm->worker);
}

bool br_comm_one_host(const struct braid_comm *comm)
{
    const struct br_peer *peers = comm->worker->peers;

    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && (!peers[r].n_rails || strcmp(peers[r].rails[0].device->ops->name, "shm") != 0))
            return false;
    return true;
}

/* The most rails that this rank has to any peer. */
static uint32_t most_rails(const struct braid_comm *comm)
{
    int most = 1;

    for (int r = 0; r < comm->size; r++)
        if (comm->worker->peers[r].n_rails > most)
            most = comm->worker->peers[r].n_rails;
    return (uint32_t)most;
}

static int init_engine(struct braid_comm *comm)
{
    struct br_engine_config config = {
        .rank = comm->rank,
        .size = comm->size,
        .chunk_bytes = (uint32_t)comm->settings.chunk_bytes,
        .scratch_alloc = br_scratch_alloc,
        .scratch_free = br_scratch_free,
        .scratch_context = comm,
    };

    br_cost_model_default(&config.model, br_comm_one_host(comm) ? BR_COST_HOST : BR_COST_NETWORK,
                          most_rails(comm));
    return br_engine_create(comm->worker, &config, &comm->engine);
}

static void destroy_engine(struct braid_comm *comm)
{
    br_engine_destroy(comm->engine);
}

static int init_rendezvous(struct braid_comm *comm)
{
    return comm->size > 1 ? br_rendezvous(comm) : 0;
}

static int init_meeting(struct braid_comm *comm)
{
    return comm->size > 1 ? br_rendezvous_meet(comm) : 0;
}

static void leave(struct braid_comm *comm)
{
    uint64_t deadline = br_clock_now() + LEAVE_TIMEOUT;

    while (comm->worker->fail_due)
        br_progress_turn(comm, br_clock_now());
    if (comm->worker->failed)
        return;
    br_worker_leave(comm->worker);
    while (!br_worker_left(comm->worker) && br_clock_now() < deadline)
        br_progress_turn(comm, br_clock_now());
}

static const struct phase {
    const char *name;
    int (*begin)(struct braid_comm *comm);
    void (*end)(struct braid_comm *comm);
} phases[] = {
    {"locks", init_locks, destroy_locks},
    {"operations", init_operations, destroy_operations},
    {"worker", init_worker, destroy_worker},
    {"regions", NULL, br_regions_free},
    {"rendezvous", init_rendezvous, br_rendezvous_end},
    {"engine", init_engine, destroy_engine},
    {"thread", br_progress_start, br_progress_stop},
    {"meeting", init_meeting, NULL},
};
#define N_PHASES ((int)(sizeof phases / sizeof phases[0]))

static void undo(struct braid_comm *comm, int n)
{
    while (n-- > 0)
        if (phases[n].end)
            phases[n].end(comm);
    br_secret_wipe(&comm->settings.secret);
    free(comm);
}

int braid_init(const struct braid_config *config, struct braid_comm **out)
{
    struct braid_comm *comm;
    int rc;

    if (!out)
        return br_error(EINVAL, "braid_init: nowhere to store the communicator");
    comm = calloc(1, sizeof *comm);
    if (!comm)
        return br_error(ENOMEM, "braid_init: no memory");
    comm->wake_fd = -1;
    rc = br_settings_read(config, &comm->settings);
    if (!rc)
        rc = br_reduce_select(NULL);
    if (rc) {
        free(comm);
        return rc;
    }
    comm->rank = (int)comm->settings.environment.rank;
    comm->size = (int)comm->settings.environment.size;
    br_log_set_rank(comm->rank);
    for (int i = 0; i < N_PHASES; i++) {
        rc = phases[i].begin ? phases[i].begin(comm) : 0;
        if (rc) {
            br_log_debug("rank %d: braid_init failed in phase %s", comm->rank, phases[i].name);
            undo(comm, i);
            return rc;
        }
    }
    *out = comm;
    return 0;
}

int braid_finalize(struct braid_comm *comm)
{
    if (!comm)
        return 0;
    br_progress_drain(comm);
    br_progress_stop(comm);
    leave(comm);
    undo(comm, N_PHASES);
    return 0;
}

int braid_comm_abort(struct braid_comm *comm, const char *reason)
{
    char words[200];

    if (!comm)
        return br_error(EINVAL, "braid_comm_abort: no communicator");
    snprintf(words, sizeof words, "aborted by rank %d: %s", comm->rank, reason ? reason : "no reason given");
    br_progress_lock(comm);
    br_worker_fail(comm->worker, ECANCELED, words);
    br_progress_turn(comm, br_clock_now());
    br_progress_unlock(comm);
    br_progress_wake(comm);
    return 0;
}

/* ---- operations -------------------------------------------------------------------------------------------- */

struct br_operation *br_comm_get_operation(struct braid_comm *comm)
{
    struct br_operation *op;

    pthread_mutex_lock(&comm->pool_lock);
    op = br_pool_get(&comm->operations);
    pthread_mutex_unlock(&comm->pool_lock);
    if (!op) {
        br_error(EAGAIN, "rank %d: %d operations are outstanding; wait for some of them", comm->rank,
                 BR_MAX_OPERATIONS);
        return NULL;
    }
    memset(op, 0, sizeof *op);
    op->comm = comm;
    return op;
}

void br_comm_put_operation(struct braid_comm *comm, struct br_operation *op)
{
    pthread_mutex_lock(&comm->pool_lock);
    br_pool_put(&comm->operations, op);
    pthread_mutex_unlock(&comm->pool_lock);
}

static struct br_region *use(struct braid_comm *comm, const void *memory, size_t bytes)
{
    struct braid_region *region = bytes ? br_region_containing(comm, memory, bytes) : NULL;

    if (!region)
        return NULL;
    atomic_fetch_add(&region->uses, 1);
    return &region->region;
}

static void unuse(struct braid_comm *comm, struct br_region *region)
{
    if (region)
        br_region_done(comm, region);
}

void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op)
{
    op->send_region = use(comm, op->send, op->send_bytes);
    op->recv_region = use(comm, op->recv, op->recv_bytes);
}

void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op)
{
    unuse(comm, op->send_region);
    unuse(comm, op->recv_region);
    op->send_region = op->recv_region = NULL;
}

void br_comm_start_operation(struct braid_comm *comm, struct br_operation *op, uint64_t now)
{
    int rc;

    op->order = comm->next_order++;
    op->deadline = now + op->timeout;
    op->status = 0;
    br_comm_use_memory(comm, op);
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = comm->next_sequence++;
    if (comm->local && br_local_takes(comm->local, op)) {
        br_local_submit(comm->local, op);
        return;
    }
    rc = br_engine_submit(comm->engine, op, now);
    if (rc) {
        op->status = rc;
        snprintf(op->words, sizeof op->words, "%s", br_error_words());
        br_progress_end(comm, op);
    }
}

void br_comm_operation_ended(struct braid_comm *comm, struct br_operation *op)
{
    br_comm_unuse_memory(comm, op);
    if (op->status)
        comm->stats.failed_operations++;
    else
        comm->stats.operations++;
}
