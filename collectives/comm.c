/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_init() as a table of phases and its end, and the life of a communicator. */
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
#include "base/process.h"
#include "collectives/across.h"
#include "collectives/local.h"
#include "collectives/reach.h"
#include "collectives/reduce.h"
#include "collectives/target.h"
#include "collectives/views.h"
#include "gpu/passage.h"

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
    if (comm->family->forks != br_process_forks)
        return br_error(
            EPERM,
            "%s: this process is a fork of rank %d, whose communicator only that process can use; "
            "braid_init() makes one of its own here",
            name, comm->family->rank);
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
    /* a clock that is set back would stop who waits, and with it all that a caller drives */
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&family->lock, NULL);
    pthread_mutex_init(&family->pool_lock, NULL);
    pthread_mutex_init(&family->end_lock, NULL);
    pthread_cond_init(&family->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
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
        .region_copy = br_reach_copy,
        .region_context = family,
        .target = br_target_hooks,
        .trace = family->trace,
    };

    br_secret_subkey(&s->secret, BR_SECRET_LINKS, config.key);
    config.check = br_secret_number(&s->secret, BR_SECRET_REGIONS);
    return br_worker_create(&config, &family->worker);
}

static void destroy_worker(struct br_family *family)
{
    br_worker_destroy(family->worker);
}

bool br_comm_maps(const struct br_family *family, int rank)
{
    const struct br_peer *peer = &family->worker->peers[rank];

    return peer->n_rails && peer->rails[0].device->caps.maps; /* then it is the only rail */
}

bool br_comm_one_host(const struct br_family *family, const int *ranks, int size)
{
    for (int i = 0; i < size; i++) {
        int r = ranks ? ranks[i] : i;

        if (r != family->rank && !br_comm_maps(family, r))
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

void br_comm_name_devices(const struct br_family *family, char text[BR_CALIBRATION_TEXT])
{
    size_t used = 0;

    text[0] = 0;
    for (int d = 0; d < family->worker->n_devices && used < BR_CALIBRATION_TEXT; d++)
        used += (size_t)snprintf(text + used, BR_CALIBRATION_TEXT - used, "%s%s:%s", used ? "," : "",
                                 family->worker->devices[d]->ops->name, family->worker->devices[d]->name);
}

static enum br_cost_place place_of(const struct br_family *family)
{
    if (br_comm_one_host(family, NULL, family->size))
        return BR_COST_HOST;
    return family->settings.one_machine ? BR_COST_MACHINE : BR_COST_NETWORK;
}

static int init_network(struct br_family *family)
{
    struct br_network *network = &family->network;
    char devices[BR_CALIBRATION_TEXT];
    int rc;

    br_comm_name_devices(family, devices);
    if (!network->topology.n)
        br_topology_flat(&network->topology, (uint32_t)family->size);
    network->crowded = family->settings.cores > 0;
    if (network->topology.kind != BR_TOPOLOGY_BCUBE) /* emulated ones have slow links, as real ones have */
        network->topology.cores = family->settings.cores;
    rc = br_network_init(network, family->rank, place_of(family), most_rails(family),
                         family->settings.calibration, devices, family->store, family->init_deadline);
    if (!rc && family->rank == 0 && network->measured)
        family->drift.bound = (double)family->settings.calibration_bound;
    return rc;
}

/* Rank 0 alone reports: the others have done the same. */
static int init_report(struct br_family *family)
{
    if (family->rank != 0 || !family->settings.report[0] || strcmp(family->settings.report, "0") == 0)
        return 0;
    family->usages = calloc(1, sizeof *family->usages);
    return family->usages ? 0 : br_error(ENOMEM, "rank 0: no memory for the report");
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

/* Every stream goes on; what GPUs copy out of our memory should be through before that goes. Before the engine ends, which unpins, too. */
static void destroy_streams(struct br_family *family)
{
    uint64_t until = br_clock_now() + BR_STAGE_PATIENCE;
    struct timespec nap = {0, 50000};

    while (!br_passages_idle(family->passages) && br_clock_now() < until)
        nanosleep(&nap, NULL);
    if (!br_passages_idle(family->passages)) {
        br_log_error(
            "rank %d: a kernel hangs before operations in streams: what is pinned for GPUs stays pinned "
            "and allocated to the end of the process",
            family->rank);
        br_copier_lose(family->copier);
    }
    br_passages_destroy(family->passages);
    pthread_mutex_destroy(&family->passage_lock);
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
        .copier = family->copier,
        .offload = family->offload,
        .workspace = br_reach_workspace(family),
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

/* Communicators that have been finalized with their job. The program may still hold their addresses: they stay what they are for
 * KEPT others. */
#define KEPT 64
static struct {          /* under br_process_lock() */
    struct br_list list; /* the oldest first; by `holding` */
    int n;
} retired = {.list = {&retired.list, &retired.list}};

static void retire(struct braid_comm *comm)
{
    br_process_lock();
    br_list_push_back(&retired.list, &comm->holding);
    retired.n++;
    br_process_unlock();
}

static struct braid_comm *make_comm(void)
{
    struct braid_comm *comm = NULL;

    br_process_lock();
    if (retired.n > KEPT) {
        comm = br_container_of(retired.list.next, struct braid_comm, holding);
        br_list_remove(&comm->holding);
        retired.n--;
    }
    br_process_unlock();
    return comm ? comm : calloc(1, sizeof *comm);
}

static void destroy_comms(struct br_family *family)
{
    for (uint32_t i = 0; i < BR_MAX_GROUPS; i++) {
        struct br_group *group = family->comms[i] ? family->comms[i]->group : NULL;

        if (group)
            br_comm_destroy(family->comms[i]);
        if (group && i) /* 0: the engine's */
            br_split_free(group);
        if (family->comms[i])
            retire(family->comms[i]);
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
    struct br_worker *w = family->worker;

    if (!w->failed)
        br_worker_leave(w);
    while (!w->failed && !br_worker_left(w) && br_clock_now() < deadline)
        br_progress_turn(family, br_clock_now());
    if (br_stage_busy(family->engine)) /* for a peer that is gone, or has not left and hears why */
        br_worker_fail(w, EIO, "copies of a GPU for another rank do not end");
    while (w->fail_due || br_stage_busy(family->engine))
        br_progress_turn(family, br_clock_now());
}

static const struct phase {
    const char *name;
    int (*begin)(struct br_family *family);
    void (*end)(struct br_family *family);
} phases[] = {
    {"locks", init_locks, destroy_locks},
    {"operations", init_operations, destroy_operations},
    {"handles", br_handles_open, br_handles_close},
    {"timeline", br_tracing_open, br_tracing_close},
    {"worker", init_worker, destroy_worker},
    {"regions", NULL, br_regions_free},
    {"GPU driver", br_gpus_look, NULL},
    {"rendezvous", init_rendezvous, br_rendezvous_end},
    {"memory", br_memory_open, br_memory_close},
    {"network", init_network, destroy_network},
    {"report", init_report, destroy_report},
    {"GPUs", br_gpus_create, br_gpus_destroy},
    {"engine", init_engine, destroy_engine},
    {"streams", br_streams_create, destroy_streams},
    {"communicator", init_first, destroy_comms},
    {"views", br_views_create, br_views_destroy},
    {"thread", br_progress_start, br_progress_stop},
    {"meeting", init_meeting, NULL},
    {"levels", br_levels_create, br_levels_destroy},
    {"rows of the timeline", br_tracing_rails, NULL},
    {"counters", br_observe_open, br_observe_close},
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

/* In a child of fork(), where braid's threads are not, and sockets, rings and segments are the parent's as well: closing them in
 * good order would tell peers that the parent leaves. Only what is the child's own is freed, and that only if no thread was
 * changing it at the time of the fork. The rest ends with the child. */
static void abandon(struct br_family *family)
{
    if (!pthread_mutex_trylock(&family->lock)) {
        br_regions_abandon(family);
        pthread_mutex_unlock(&family->lock);
    }
    for (uint32_t i = 0; i < BR_MAX_GROUPS; i++)
        if (family->comms[i])
            family->comms[i]->group = NULL;
    br_secret_wipe(&family->settings.secret);
}

int braid_init(const struct braid_config *config, struct braid_comm **out)
{
    BR_HOLD_CANCELLATION;
    struct br_family *family;
    int rc;

    if (!out)
        return br_error(EINVAL, "braid_init: nowhere to store the communicator");
    *out = NULL;
    family = calloc(1, sizeof *family);
    if (!family)
        return br_error(ENOMEM, "braid_init: no memory");
    family->wake_fd = -1;
    rc = br_process_watch();
    family->forks = br_process_forks;
    if (!rc)
        rc = br_settings_read(config, &family->settings);
    if (!rc)
        rc = br_reduce_select(NULL);
    if (rc) {
        free(family);
        return rc;
    }
    family->rank = (int)family->settings.environment.rank;
    family->size = (int)family->settings.environment.size;
    family->init_deadline = br_clock_now() + family->settings.environment.init_timeout;
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
    BR_HOLD_CANCELLATION;
    char memory[BR_MEMORY_TEXT], words[BR_ERROR_WORDS];
    struct br_family *family;
    int rc;

    if (!comm)
        return 0;
    rc = br_comm_check(comm, "braid_finalize");
    if (rc == -EPERM) {
        if (comm == comm->family->first)
            abandon(comm->family);
        else
            comm->group = NULL;
        return 0;
    }
    if (rc)
        return rc;
    family = comm->family;
    if (comm != family->first)
        return br_comm_leave(comm);
    for (int i = 0; i < (int)BR_MAX_GROUPS; i++)
        if (family->comms[i])
            br_progress_settle(family, &family->comms[i]->outstanding, UINT64_MAX);
    rc = br_comm_take_results(comm, "braid_finalize");
    snprintf(words, sizeof words, "%s", br_error_words());
    br_progress_stop(family);
    br_observe_close(family); /* from here on the worker is driven without the lock */
    leave(family);
    if (family->usages)
        br_usages_report(family->usages, &family->network, br_memory_text(family, memory),
                         family->settings.report);
    undo(family, N_PHASES);
    return rc ? br_error(-rc, "%s", words) : 0;
}

int braid_comm_abort(struct braid_comm *comm, const char *reason)
{
    BR_HOLD_CANCELLATION;
    int rc = br_comm_check(comm, "braid_comm_abort");
    struct br_family *family;
    char words[200], name[80];

    if (rc)
        return rc;
    family = comm->family;
    snprintf(words, sizeof words, "aborted by %s: %s",
             br_group_name_rank(comm->group, comm->rank, name, sizeof name),
             reason ? reason : "no reason given");
    br_gate_lock(family);
    br_worker_fail(family->worker, ECANCELED, words);
    br_progress_turn(family, br_clock_now());
    br_gate_unlock(family);
    br_gate_wake(family);
    return 0;
}

int braid_comm_error(struct braid_comm *comm)
{
    BR_HOLD_CANCELLATION;
    int rc = br_comm_check(comm, "braid_comm_error");

    if (rc)
        return rc;
    br_gate_lock(comm->family);
    rc = comm->family->worker->failed;
    if (rc)
        br_error(-rc, "%s", comm->family->worker->words);
    br_gate_unlock(comm->family);
    return rc;
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

        br_gate_lock(family);
        rc = family->worker->failed ? br_error(-family->worker->failed, "%s", family->worker->words)
                                    : br_local_share(comm);
        if (rc == -EAGAIN)
            n = br_progress_turn(family, now);
        if (rc == -EAGAIN && now > until)
            rc = br_error(ETIMEDOUT, "rank %d: %s did not share its board in time", family->rank,
                          br_group_name_rank(comm->group, 0, name, sizeof name));
        br_gate_unlock(family);
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
        comm = *place = make_comm();
    if (!comm)
        return br_error(ENOMEM, "rank %d: no memory for a communicator", family->rank);
    *comm = (struct braid_comm){.family = family, .rank = group->rank, .size = group->size, .group = group};
    br_list_init(&comm->held);
    br_list_init(&comm->holding);
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
