/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a context: braid_init() as a table of phases, and its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/process.h"
#include "base/ring.h"
#include "collectives/comm/bootstrap.h"
#include "collectives/comm/call_group.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/epochs.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/meeting.h"
#include "collectives/comm/memory.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/comm/settings.h"
#include "collectives/comm/split.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/engine/reduce.h"
#include "collectives/engine/staging.h"
#include "collectives/gpu/onesided_target.h"
#include "collectives/stats/algorithm_report.h"
#include "collectives/stats/stats_server.h"
#include "collectives/stats/tracing.h"
#include "collectives/tuning/calibration.h"
#include "collectives/tuning/cost.h"
#include "collectives/tuning/network.h"
#include "collectives/tuning/topology.h"
#include "gpu/pointer.h"
#include "protocol/bootstrap/id.h"
#include "protocol/bootstrap/launcher.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/message.h"
#include "protocol/worker.h"

#define LEAVE_TIMEOUT (5 * BR_SEC) /* for all peers to say that they leave, too */

static int init_locks(struct br_context *context)
{
    /* if the wall clock is set back, a wait by it would not end */
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&context->pool_lock, NULL);
    pthread_mutex_init(&context->trace_opening, NULL);
    pthread_mutex_init(&context->ended_lock, NULL);
    sem_init(&context->unpark, 0, 0);
    pthread_cond_init(&context->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return 0;
}

static void destroy_locks(struct br_context *context)
{
    pthread_cond_destroy(&context->ended);
    pthread_mutex_destroy(&context->ended_lock);
    sem_destroy(&context->unpark);
    pthread_mutex_destroy(&context->trace_opening);
    pthread_mutex_destroy(&context->pool_lock);
}

static int init_operations(struct br_context *context)
{
    int rc;

    context->ends_fd = -1;
    br_list_init(&context->untold);
    br_list_init(&context->backlogs);
    br_backlog_init(&context->accesses);
    rc = br_posted_create(context);
    if (!rc && (rc = br_comm_create_operations(context)))
        br_posted_destroy(context);
    return rc;
}

static void destroy_operations(struct br_context *context)
{
    if (context->ends_fd >= 0)
        close(context->ends_fd);
    br_posted_destroy(context);
    br_ring_destroy(&context->submissions);
    br_operation_arrays_free(context);
    br_growing_pool_destroy(&context->operations);
}

/* Of so few ranks each pair gets its links at the start, where a first use is not late. */
#define FEW_RANKS 32

static bool links_on_demand(const struct br_context *context)
{
    const struct br_settings *s = &context->settings;

    return !s->cube.n && (s->links == BR_LINKS_DEMAND ||
                          (s->links == BR_LINKS_AUTO && context->size > FEW_RANKS));
}

static int init_worker(struct br_context *context)
{
    const struct br_settings *s = &context->settings;
    struct br_worker_config config = {
        .rank = context->rank,
        .size = context->size,
        .eager_bytes = (uint32_t)s->eager_bytes,
        .slice_bytes = (uint32_t)s->slice_bytes,
        .peer_timeout = s->peer_timeout,
        .starvation = s->starvation,
        .connect_timeout = 5 * BR_SEC,
        .sleep_max = BR_SLEEP_MAX,
        .cube = s->cube,
        .neighbours = (int)(s->cube.k * (s->cube.n - 1)), /* mesh: 0, which means all */
        /* Not where ranks of one host reach each other over its own addresses: such frames never
         * pass the NIC. */
        .own_nic_only = s->cube.n && s->environment.local_size == 1,
        .max_slots = BR_SLOTS_MAX,
        .on_demand = links_on_demand(context),
        .link_idle = s->link_idle,
        .max_transfers = 16384,
        .region_find = br_region_find,
        .region_done = br_region_done,
        .region_copy = context->gpu->region_copy,
        .region_context = context,
        .target = br_target_hooks,
        .trace = context->trace,
    };

    br_secret_subkey(&s->secret, BR_SECRET_LINKS, config.key);
    config.check = br_secret_number(&s->secret, BR_SECRET_REGIONS);
    return br_worker_create(&config, &context->worker);
}

static void destroy_worker(struct br_context *context)
{
    br_worker_destroy(context->worker);
}

/* The most rails that this rank has to any peer. */
static uint32_t most_rails(const struct br_context *context)
{
    int most = 1;

    for (int r = 0; r < context->size; r++) {
        const struct br_peer *peer = &context->worker->peers[r];

        if (peer->n_rails - peer->n_alternates > most)
            most = peer->n_rails - peer->n_alternates;
    }
    return (uint32_t)most;
}

static enum br_cost_locality locality_of(const struct br_context *context)
{
    if (br_comm_one_host(context, NULL, context->size))
        return BR_COST_HOST;
    return context->settings.one_machine ? BR_COST_MACHINE : BR_COST_NETWORK;
}

static int init_network(struct br_context *context)
{
    struct br_network *network = &context->network;
    char devices[BR_CALIBRATION_TEXT];
    int rc;

    br_comm_name_devices(context, devices);
    if (!network->topology.n)
        br_topology_flat(&network->topology, (uint32_t)context->size);
    network->oversubscribed = context->settings.cores > 0;
    /* emulated ones have slow links, as real ones have */
    if (network->topology.kind != BR_TOPOLOGY_BCUBE)
        network->topology.cores = context->settings.cores;
    network->topology.emulated =
        network->topology.kind == BR_TOPOLOGY_FLAT && context->settings.environment.local_size == 1;
    rc = br_network_init(network, context->rank, locality_of(context), most_rails(context),
                         context->settings.calibration, devices, context->store,
                         context->init_deadline);
    if (!rc && network->model.eager_bytes)
        network->model.eager_bytes = context->settings.eager_bytes;
    if (!rc && context->rank == 0 && network->measured)
        context->calibration_drift.bound = (double)context->settings.calibration_bound;
    return rc;
}

/* Only rank 0 reports: all ranks run the same operations. */
static int init_report(struct br_context *context)
{
    if (context->rank != 0 || !context->settings.report[0] ||
        strcmp(context->settings.report, "0") == 0)
        return 0;
    context->report = calloc(1, sizeof *context->report);
    return context->report ? 0 : br_error(ENOMEM, "rank 0: no memory for the report");
}

static void destroy_report(struct br_context *context)
{
    free(context->report);
    context->report = NULL;
}

static void destroy_network(struct br_context *context)
{
    br_network_destroy(&context->network);
}

static int init_engine(struct br_context *context)
{
    struct br_engine_config config = {
        .rank = context->rank,
        .size = context->size,
        .chunk_bytes = (uint32_t)context->settings.chunk_bytes,
        .cache_share = br_copy_cache_share(context->settings.environment.local_size),
        .scratch_alloc = br_memory_alloc_scratch,
        .scratch_free = br_memory_free_scratch,
        .scratch_context = context,
        .gpu_memory = context->gpu_memory,
        .ended = &context->engine_executor.ended,
    };

    context->network.model.chunk_bytes = context->settings.chunk_bytes;
    config.model = context->network.model;
    return br_engine_create(context->worker, &config, &context->engine);
}

static void destroy_engine(struct br_context *context)
{
    br_engine_destroy(context->engine);
}

static int init_first(struct br_context *context)
{
    br_engine_executor_init(context);
    context->group_numbers[0] = 1;
    context->first_to_split = BR_MAX_GROUPS;
    return br_comm_create(context, br_engine_all(context->engine), &context->world);
}

static void destroy_comms(struct br_context *context)
{
    for (uint32_t i = 0; i < BR_MAX_GROUPS; i++) {
        struct br_group *group = context->comms[i] ? context->comms[i]->group : NULL;

        if (group)
            br_comm_destroy(context->comms[i]);
        if (group && i) /* 0: the engine's */
            br_split_free(group);
        if (context->comms[i])
            br_comm_retire(context->comms[i]);
    }
}

static int init_bootstrap(struct br_context *context)
{
    return context->size > 1 ? br_bootstrap_join(context) : 0;
}

static int init_links(struct br_context *context)
{
    return context->size > 1 ? br_bootstrap_connect(context) : 0;
}

static int init_meeting(struct br_context *context)
{
    return context->size > 1 ? br_bootstrap_meet(context) : 0;
}

static void say_goodbye(struct br_context *context)
{
    uint64_t deadline = br_clock_now() + LEAVE_TIMEOUT;
    const struct timespec nap = {0, BR_MS};
    struct br_worker *w = context->worker;

    if (!w->failed)
        br_worker_leave(w);
    while (!w->failed && !br_worker_left(w) && br_clock_now() < deadline)
        if (!br_progress_once(context, br_clock_now()) && context->settings.oversubscribed)
            nanosleep(&nap, NULL); /* the others need the core to say that they leave, too */
    /* copies for a peer that is gone, or that has not left and then receives the error */
    if (br_staging_busy(context->engine))
        br_worker_fail(w, EIO, "copies of a GPU for another rank do not end");
    while (w->fail_due || br_staging_busy(context->engine))
        br_progress_once(context, br_clock_now());
}

static int probe_gpus(struct br_context *context)
{
    (void)context->gpu->probe();
    context->gpus = br_gpu_found(); /* and the others' are added (bootstrap.c) */
    return 0;
}

static int init_gpus(struct br_context *context)
{
    return context->gpu->open(context);
}

static void destroy_gpus(struct br_context *context)
{
    context->gpu->close(context);
}

static int init_streams(struct br_context *context)
{
    return context->gpu->open_streams(context);
}

static void destroy_streams(struct br_context *context)
{
    context->gpu->close_streams(context);
}

static int init_hosts(struct br_context *context)
{
    return context->gpu->open_hosts(context);
}

static void destroy_hosts(struct br_context *context)
{
    context->gpu->close_hosts(context);
}

static const struct phase {
    const char *name;
    int (*begin)(struct br_context *context);
    void (*end)(struct br_context *context);
} phases[] = {
    {"locks", init_locks, destroy_locks},
    {"operations", init_operations, destroy_operations},
    {"handles", br_handles_open, br_handles_close},
    {"timeline", br_tracing_open, br_tracing_close},
    {"worker", init_worker, destroy_worker},
    {"regions", NULL, br_regions_free},
    {"GPU driver", probe_gpus, NULL},
    {"rendezvous", init_bootstrap, br_bootstrap_end},
    {"memory", br_memory_open, br_memory_close},
    {"network", init_network, destroy_network},
    {"report", init_report, destroy_report},
    {"links", init_links, NULL},
    {"GPUs", init_gpus, destroy_gpus},
    {"engine", init_engine, destroy_engine},
    {"streams", init_streams, destroy_streams},
    {"communicator", init_first, destroy_comms},
    {"epochs", br_epochs_create, br_epochs_destroy},
    {"meetings", br_meeting_open, br_meeting_close},
    {"thread", br_progress_start, br_progress_stop},
    {"meeting", init_meeting, NULL},
    {"hosts", init_hosts, destroy_hosts},
    {"rows of the timeline", br_tracing_rails, NULL},
    {"counters", br_stats_server_open, br_stats_server_close},
};
#define N_PHASES ((int)(sizeof phases / sizeof phases[0]))

/* An id starts one job, whatever becomes of it. */
static void free_settings(struct br_context *context)
{
    struct br_environment *environment = &context->settings.environment;

    if (environment->rank == 0)
        br_id_close(&environment->id);
    br_secret_wipe(&environment->id.secret);
    br_secret_wipe(&context->settings.secret);
}

static void unwind(struct br_context *context, int n)
{
    while (n-- > 0)
        if (phases[n].end)
            phases[n].end(context);
    free_settings(context);
    free(context);
}

/*
 * In a child of fork(), where braid's threads are not, and sockets, rings and segments are the
 * parent's as well: closing them in good order would tell peers that the parent leaves. Only what
 * is the child's own is freed, and that only if no thread was changing it at the time of the fork.
 * The rest ends with the child.
 */
static void free_in_child(struct br_context *context)
{
    if (br_mutex_trylock(&context->lock)) {
        br_regions_free_in_child(context);
        br_mutex_unlock(&context->lock);
    }
    for (uint32_t i = 0; i < BR_MAX_GROUPS; i++)
        if (context->comms[i])
            context->comms[i]->group = NULL;
    br_secret_wipe(&context->settings.secret);
    br_secret_wipe(&context->settings.environment.id.secret);
}

int braid_init(const struct braid_config *config, struct braid_comm **out)
{
    BR_DISABLE_CANCELLATION;
    struct br_context *context;
    int rc;

    if (!out)
        return br_error(EINVAL, "braid_init: nowhere to store the communicator");
    *out = NULL;
    if ((rc = br_call_group_refuse("braid_init")) || (rc = br_completion_may_block("braid_init")))
        return rc;
    context = calloc(1, sizeof *context);
    if (!context)
        return br_error(ENOMEM, "braid_init: no memory");
    context->wake_fd = -1;
    context->gpu = &br_gpu_cuda;
    rc = br_process_watch();
    context->forks = br_process_forks;
    if (!rc)
        rc = br_settings_read(config, &context->settings);
    if (!rc)
        rc = br_reduce_select(NULL);
    if (!rc)
        rc = br_launcher_meet(&context->settings.environment, &context->settings.secret);
    if (rc) {
        free_settings(context);
        free(context);
        return rc;
    }
    context->rank = (int)context->settings.environment.rank;
    context->size = (int)context->settings.environment.size;
    context->init_deadline = context->settings.environment.init_deadline;
    br_log_set_rank(context->rank);
    for (int i = 0; i < N_PHASES; i++) {
        rc = phases[i].begin ? phases[i].begin(context) : 0;
        if (rc) {
            br_log_debug("rank %d: braid_init failed in phase %s", context->rank, phases[i].name);
            unwind(context, i);
            return rc;
        }
    }
    *out = context->world;
    return 0;
}

/* Also for what `done` of an operation submits. */
static void wait_for_all(struct br_context *context)
{
    bool waited;

    do {
        waited = false;
        for (int i = 0; i < (int)BR_MAX_GROUPS; i++) {
            const struct braid_comm *comm = context->comms[i];

            if (!comm || !atomic_load(&comm->outstanding))
                continue;
            br_progress_wait_zero(context, &comm->outstanding, UINT64_MAX);
            waited = true;
        }
        waited = br_posted_settle(context, NULL) || waited;
    } while (waited);
}

int braid_finalize(struct braid_comm *comm)
{
    BR_DISABLE_CANCELLATION;
    char memory[BR_MEMORY_TEXT], text[BR_ERROR_BYTES];
    struct br_context *context;
    int rc;

    if (!comm)
        return 0;
    rc = br_comm_check(comm, "braid_finalize");
    if (!rc)
        rc = br_call_group_refuse("braid_finalize");
    if (rc == -EPERM) {
        if (comm == comm->context->world)
            free_in_child(comm->context);
        else
            comm->group = NULL;
        return 0;
    }
    if (!rc)
        rc = br_completion_may_block("braid_finalize");
    if (rc)
        return rc;
    context = comm->context;
    if (comm != context->world)
        return br_comm_leave(comm);
    wait_for_all(context);
    rc = br_comm_take_results(comm, "braid_finalize");
    snprintf(text, sizeof text, "%s", br_error_message());
    br_progress_stop(context);
    br_stats_server_close(context); /* from here on this thread alone drives the worker */
    say_goodbye(context);
    if (context->report)
        br_algorithm_report_write(context->report, &context->network,
                                  br_memory_text(context, memory), context->settings.report);
    unwind(context, N_PHASES);
    return rc ? br_error(-rc, "%s", text) : 0;
}
