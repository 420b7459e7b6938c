/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_init() as a table of phases and its end, the life of a communicator, and that of an operation between call and
 * engine. */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numa.h"
#include "collectives/local.h"
#include "collectives/reduce.h"
#include "collectives/type.h"
#include "collectives/views.h"

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

int br_comm_check(const struct braid_comm *comm, const char *name)
{
    if (!comm)
        return br_error(EINVAL, "%s: no communicator", name);
    if (!comm->group)
        return br_error(EINVAL, "%s: the communicator has been finalized", name);
    return 0;
}

uint64_t br_comm_now(const struct braid_comm *comm)
{
    (void)comm; /* all of them live in real time */
    return br_clock_now();
}

int braid_rank(const struct braid_comm *comm)
{
    int rc = br_comm_check(comm, "braid_rank");

    return rc ? rc : comm->rank;
}

int braid_size(const struct braid_comm *comm)
{
    int rc = br_comm_check(comm, "braid_size");

    return rc ? rc : comm->size;
}

/* ---- start and end ----------------------------------------------------------------------------------------- */

static int init_locks(struct br_family *family)
{
    pthread_mutex_init(&family->lock, NULL);
    pthread_mutex_init(&family->pool_lock, NULL);
    pthread_mutex_init(&family->end_lock, NULL);
    pthread_cond_init(&family->ended, NULL);
    return 0;
}

static void destroy_locks(struct br_family *family)
{
    pthread_cond_destroy(&family->ended);
    pthread_mutex_destroy(&family->end_lock);
    pthread_mutex_destroy(&family->pool_lock);
    pthread_mutex_destroy(&family->lock);
}

static int init_operations(struct br_family *family)
{
    int rc = br_pool_init(&family->operations, sizeof(struct br_operation), BR_MAX_OPERATIONS);

    if (!rc)
        rc = br_ring_init(&family->submissions, BR_MAX_OPERATIONS);
    return rc;
}

static void destroy_operations(struct br_family *family)
{
    br_ring_destroy(&family->submissions);
    br_pool_destroy(&family->operations);
}

static int init_worker(struct br_family *family)
{
    const struct br_settings *s = &family->settings;
    struct br_worker_config config = {
        .rank = family->rank,
        .size = family->size,
        .eager_bytes = (uint32_t)s->eager_bytes,
        .slice_bytes = (uint32_t)s->slice_bytes,
        .peer_timeout = s->peer_timeout,
        .starvation = s->starvation,
        .connect_timeout = 5 * BR_SEC,
        .cube = s->cube,
        .neighbours = (int)(s->cube.k * (s->cube.n - 1)), /* mesh: 0, which means all */
        /* Not where ranks of one host talk to each other over its own addresses: such frames never see the NIC. */
        .own_nic_only = s->cube.n && s->environment.local_size == 1,
        .max_slots = 4096,
        .max_transfers = 16384,
        .region_find = br_region_find,
        .region_done = br_region_done,
        .region_context = family,
        .trace = family->trace,
    };

    memcpy(config.key, s->secret.key, sizeof config.key);
    memcpy(&config.check, s->secret.key, sizeof config.check);
    config.check = config.check * 0x9e3779b97f4a7c15ull >> 1; /* shows nothing of the key */
    return br_worker_create(&config, &family->worker);
}

static void destroy_worker(struct br_family *family)
{
    br_worker_destroy(family->worker);
}

bool br_comm_one_host(const struct br_family *family, const int *ranks, int size)
{
    for (int i = 0; i < size; i++) {
        int r = ranks ? ranks[i] : i;
        const struct br_peer *peer = &family->worker->peers[r];

        if (r != family->rank && (!peer->n_rails || strcmp(peer->rails[0].device->ops->name, "shm") != 0))
            return false;
    }
    return true;
}

/* The most rails that this rank has to any peer. */
static uint32_t most_rails(const struct br_family *family)
{
    int most = 1;

    for (int r = 0; r < family->size; r++) {
        const struct br_peer *peer = &family->worker->peers[r];

        if (peer->n_rails - peer->n_detours > most)
            most = peer->n_rails - peer->n_detours;
    }
    return (uint32_t)most;
}

static uint64_t start_deadline(const struct br_family *family)
{
    return br_clock_now() + family->settings.environment.init_timeout;
}

void br_comm_name_devices(const struct br_family *family, char text[BR_CALIBRATION_TEXT])
{
    size_t used = 0;

    text[0] = 0;
    for (int d = 0; d < family->worker->n_devices && used < BR_CALIBRATION_TEXT; d++)
        used += (size_t)snprintf(text + used, BR_CALIBRATION_TEXT - used, "%s%s:%s", used ? "," : "",
                                 family->worker->devices[d]->ops->name, family->worker->devices[d]->name);
}

static int init_network(struct br_family *family)
{
    struct br_network *network = &family->network;
    bool one_host = br_comm_one_host(family, NULL, family->size);
    char devices[BR_CALIBRATION_TEXT];

    br_comm_name_devices(family, devices);
    if (!network->topology.n)
        br_topology_flat(&network->topology, (uint32_t)family->size);
    if (network->topology.kind != BR_TOPOLOGY_BCUBE) /* emulated ones have slow links, as real ones have */
        network->topology.cores = family->settings.cores;
    return br_network_init(network, family->rank, one_host ? BR_COST_HOST : BR_COST_NETWORK,
                           most_rails(family), family->settings.calibration, devices, family->store,
                           start_deadline(family));
}

/* Rank 0 alone reports: the others have done the same. */
static int init_report(struct br_family *family)
{
    if (family->rank != 0 || !family->settings.report[0] || strcmp(family->settings.report, "0") == 0)
        return 0;
    family->usages = calloc(1, sizeof *family->usages);
    return family->usages ? 0 : br_error(ENOMEM, "rank 0: no memory for the report");
}

static int init_drift(struct br_family *family)
{
    bool watches = family->rank == 0 && family->network.measured;

    family->drift.bound = watches ? (double)family->settings.calibration_bound : 0;
    return 0;
}

static void destroy_report(struct br_family *family)
{
    free(family->usages);
    family->usages = NULL;
}

static void destroy_network(struct br_family *family)
{
    br_network_destroy(&family->network);
}

static int init_engine(struct br_family *family)
{
    struct br_engine_config config = {
        .rank = family->rank,
        .size = family->size,
        .chunk_bytes = (uint32_t)family->settings.chunk_bytes,
        .scratch_alloc = br_scratch_alloc,
        .scratch_free = br_scratch_free,
        .scratch_context = family,
    };

    family->network.model.chunk_bytes = family->settings.chunk_bytes;
    config.model = family->network.model;
    return br_engine_create(family->worker, &config, &family->engine);
}

static void destroy_engine(struct br_family *family)
{
    br_engine_destroy(family->engine);
}

static int init_first(struct br_family *family)
{
    br_list_init(&family->boards);
    family->numbers[0] = 1;
    family->first_to_split = BR_MAX_GROUPS;
    return br_comm_create(family, br_engine_all(family->engine), &family->first);
}

static void destroy_comms(struct br_family *family)
{
    for (uint32_t i = 0; i < BR_MAX_GROUPS; i++) {
        struct br_group *group = family->comms[i] ? family->comms[i]->group : NULL;

        if (group)
            br_comm_destroy(family->comms[i]);
        if (group && i) /* 0: the engine's */
            br_split_free(group);
        free(family->comms[i]);
    }
}

static int init_rendezvous(struct br_family *family)
{
    return family->size > 1 ? br_rendezvous(family) : 0;
}

static int init_meeting(struct br_family *family)
{
    return family->size > 1 ? br_rendezvous_meet(family) : 0;
}

static void leave(struct br_family *family)
{
    uint64_t deadline = br_clock_now() + LEAVE_TIMEOUT;

    while (family->worker->fail_due)
        br_progress_turn(family, br_clock_now());
    if (family->worker->failed)
        return;
    br_worker_leave(family->worker);
    while (!br_worker_left(family->worker) && br_clock_now() < deadline)
        br_progress_turn(family, br_clock_now());
}

static const struct phase {
    const char *name;
    int (*begin)(struct br_family *family);
    void (*end)(struct br_family *family);
} phases[] = {
    {"locks", init_locks, destroy_locks},
    {"operations", init_operations, destroy_operations},
    {"timeline", br_tracing_open, br_tracing_close},
    {"worker", init_worker, destroy_worker},
    {"regions", NULL, br_regions_free},
    {"rendezvous", init_rendezvous, br_rendezvous_end},
    {"memory", br_memory_open, br_memory_close},
    {"network", init_network, destroy_network},
    {"drift", init_drift, NULL},
    {"report", init_report, destroy_report},
    {"engine", init_engine, destroy_engine},
    {"communicator", init_first, destroy_comms},
    {"views", br_views_create, br_views_destroy},
    {"thread", br_progress_start, br_progress_stop},
    {"meeting", init_meeting, NULL},
    {"rows of the timeline", br_tracing_rails, NULL},
};
#define N_PHASES ((int)(sizeof phases / sizeof phases[0]))

static void undo(struct br_family *family, int n)
{
    while (n-- > 0)
        if (phases[n].end)
            phases[n].end(family);
    br_secret_wipe(&family->settings.secret);
    free(family);
}

int braid_init(const struct braid_config *config, struct braid_comm **out)
{
    struct br_family *family;
    int rc;

    if (!out)
        return br_error(EINVAL, "braid_init: nowhere to store the communicator");
    family = calloc(1, sizeof *family);
    if (!family)
        return br_error(ENOMEM, "braid_init: no memory");
    family->wake_fd = -1;
    rc = br_settings_read(config, &family->settings);
    if (!rc)
        rc = br_reduce_select(NULL);
    if (rc) {
        free(family);
        return rc;
    }
    family->rank = (int)family->settings.environment.rank;
    family->size = (int)family->settings.environment.size;
    br_log_set_rank(family->rank);
    for (int i = 0; i < N_PHASES; i++) {
        rc = phases[i].begin ? phases[i].begin(family) : 0;
        if (rc) {
            br_log_debug("rank %d: braid_init failed in phase %s", family->rank, phases[i].name);
            undo(family, i);
            return rc;
        }
    }
    *out = family->first;
    return 0;
}

int braid_finalize(struct braid_comm *comm)
{
    char memory[BR_MEMORY_TEXT];
    struct br_family *family;
    int rc;

    if (!comm)
        return 0;
    if ((rc = br_comm_check(comm, "braid_finalize")))
        return rc;
    family = comm->family;
    if (comm != family->first)
        return br_comm_leave(comm);
    for (int i = 0; i < (int)BR_MAX_GROUPS; i++)
        if (family->comms[i])
            br_progress_drain(family->comms[i]);
    br_progress_stop(family);
    leave(family);
    if (family->usages)
        br_usages_report(family->usages, &family->network, br_memory_text(family, memory),
                         family->settings.report);
    undo(family, N_PHASES);
    return 0;
}

int braid_comm_abort(struct braid_comm *comm, const char *reason)
{
    int rc = br_comm_check(comm, "braid_comm_abort");
    struct br_family *family;
    char words[200], name[80];

    if (rc)
        return rc;
    family = comm->family;
    snprintf(words, sizeof words, "aborted by %s: %s",
             br_group_name_rank(comm->group, comm->rank, name, sizeof name),
             reason ? reason : "no reason given");
    br_progress_lock(family);
    br_worker_fail(family->worker, ECANCELED, words);
    br_progress_turn(family, br_clock_now());
    br_progress_unlock(family);
    br_progress_wake(family);
    return 0;
}

/* ---- a communicator ---------------------------------------------------------------------------------------- */

/* The own thread may be running or not be there yet. */
static int share_board(struct braid_comm *comm)
{
    struct br_family *family = comm->family;
    uint64_t until = br_clock_now() + family->settings.environment.init_timeout;
    struct timespec nap = {0, 50000};
    char name[80];
    int rc;

    for (;;) {
        uint64_t now = br_clock_now();
        int n = 0;

        br_progress_lock(family);
        rc = family->worker->failed ? br_error(-family->worker->failed, "%s", family->worker->words)
                                    : br_local_share(comm);
        if (rc == -EAGAIN)
            n = br_progress_turn(family, now);
        if (rc == -EAGAIN && now > until)
            rc = br_error(ETIMEDOUT, "rank %d: %s did not share its board in time", family->rank,
                          br_group_name_rank(comm->group, 0, name, sizeof name));
        br_progress_unlock(family);
        if (rc != -EAGAIN)
            return rc;
        if (!n)
            nanosleep(&nap, NULL);
    }
}

int br_comm_create(struct br_family *family, struct br_group *group, struct braid_comm **out)
{
    struct braid_comm **place = &family->comms[group->number], *comm = *place;
    int rc;

    if (!comm)
        comm = *place = calloc(1, sizeof *comm);
    if (!comm)
        return br_error(ENOMEM, "rank %d: no memory for a communicator", family->rank);
    *comm = (struct braid_comm){.family = family, .rank = group->rank, .size = group->size, .group = group};
    rc = share_board(comm);
    if (rc)
        comm->group = NULL;
    else
        *out = comm;
    return rc;
}

void br_comm_destroy(struct braid_comm *comm)
{
    br_local_destroy(comm);
    comm->group = NULL;
}

/* ---- operations -------------------------------------------------------------------------------------------- */

struct br_operation *br_comm_get_operation(struct braid_comm *comm)
{
    struct br_family *family = comm->family;
    struct br_operation *op;

    pthread_mutex_lock(&family->pool_lock);
    op = br_pool_get(&family->operations);
    if (op) {
        memset(op, 0, sizeof *op);
        op->comm = comm;
        op->group = comm->group;
    }
    pthread_mutex_unlock(&family->pool_lock);
    if (!op)
        br_error(EAGAIN, "rank %d: %d operations are outstanding; wait for some of them", family->rank,
                 BR_MAX_OPERATIONS);
    return op;
}

void br_comm_put_operation(struct br_operation *op)
{
    struct br_family *family = op->comm->family;

    pthread_mutex_lock(&family->pool_lock);
    op->comm = NULL;
    br_pool_put(&family->operations, op);
    pthread_mutex_unlock(&family->pool_lock);
}

void br_comm_put_operations(struct braid_comm *comm)
{
    struct br_family *family = comm->family;

    pthread_mutex_lock(&family->pool_lock);
    for (uint32_t i = 0; i < BR_MAX_OPERATIONS; i++) {
        struct br_operation *op = br_pool_at(&family->operations, i);

        if (op->comm == comm) {
            op->comm = NULL;
            br_pool_put(&family->operations, op);
        }
    }
    pthread_mutex_unlock(&family->pool_lock);
}

void br_comm_use_memory(struct braid_comm *comm, struct br_operation *op)
{
    op->send_region = br_memory_use(comm->family, op->send, op->send_bytes);
    op->recv_region = br_memory_use(comm->family, op->recv, op->recv_bytes);
}

void br_comm_unuse_memory(struct braid_comm *comm, struct br_operation *op)
{
    br_memory_unuse(comm->family, op->send_region);
    br_memory_unuse(comm->family, op->recv_region);
    op->send_region = op->recv_region = NULL;
}

uint64_t br_comm_next_sequence(struct braid_comm *comm)
{
    if (comm->next_sequence % (BR_OPERATIONS / 4) == 0) /* long before one that is remembered comes again */
        br_worker_forget_before(comm->family->worker, comm->group->number, comm->next_sequence);
    return comm->next_sequence++;
}

void br_comm_start_operation(struct br_operation *op, uint64_t now)
{
    struct braid_comm *comm = op->comm;
    int rc;

    op->order = comm->family->next_order++;
    op->deadline = now + op->timeout;
    op->status = 0;
    br_comm_use_memory(comm, op);
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = br_comm_next_sequence(comm);
    if (comm->local && !comm->family->worker->failed && br_local_takes(comm->local, op)) {
        br_local_submit(comm->local, op);
        return;
    }
    br_views_pass(comm->family, op, now);
    op->began = now;
    op->alone = comm->outstanding == 1;
    br_tracing_begin(op, now);
    rc = br_engine_submit(comm->family->engine, op, now);
    if (rc) {
        op->status = rc;
        snprintf(op->words, sizeof op->words, "%s", br_error_words());
        br_progress_end(op);
    }
}

/* Only operations that had the engine for themselves can be held against a prediction. */
static void watch_calibration(struct br_family *family, const struct br_operation *op)
{
    double seconds = (double)(family->now - op->began) / 1e9,
           off = op->alone ? br_drift_add(&family->drift, op->predicted, seconds) : 0;
    char name[BR_WAY_TEXT];

    if (off > 0)
        br_log_warn(
            "BRAID_CALIBRATION: %s is stale: the last %d collectives took %s than %.3g of the predicted "
            "time, waiting for other ranks included (%s by %s, %zu bytes a block: predicted %.4g us, took "
            "%.4g us); measure again with `braid calibrate`",
            family->settings.calibration, BR_DRIFT_WINDOW, off > 1 ? "more" : "less", off,
            br_collective_name(op->collective), br_way_name(op->way, name),
            op->count * br_type_size(op->type), op->predicted * 1e6, seconds * 1e6);
}

void br_comm_operation_ended(struct br_operation *op)
{
    if (op->span.row)
        br_tracing_end(op);
    br_comm_unuse_memory(op->comm, op);
    if (op->surveys) {
        br_views_ended(op->comm->family, op->comm->family->now);
        return;
    }
    if (op->status)
        op->comm->failed_operations++;
    else
        op->comm->operations++;
    if (op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status)
        watch_calibration(op->comm->family, op);
    if (op->comm->family->usages && op->kind == BR_OPERATION_COLLECTIVE && op->began && !op->status)
        br_usages_add(op->comm->family->usages, op, (uint32_t)op->comm->size, op->began,
                      op->comm->family->now);
}
