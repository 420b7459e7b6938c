/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim/job.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define LIMIT (3600 * BR_SEC) /* of virtual time */

/* Most of what a rank has room for it never uses. Memory that comes from the system is zero without
 * being touched; what free() has kept is not. */
#define FRESH_BYTES (128 << 10)

#define SLICE_BYTES (64u << 10)
#define EAGER_BYTES (16u << 10)

/* ---- opening and closing --------------------------------------------------------------------- */

static int devices_of(const struct br_sim_job *job)
{
    const struct br_topology *t = job->config.topology;

    return (int)(t->kind == BR_TOPOLOGY_BCUBE ? t->cube.k : job->config.rails);
}

static int open_rank(struct br_sim_job *job, uint32_t rank)
{
    const struct br_sim_job_config *c = &job->config;
    struct br_sim_job_rank *r = &job->ranks[rank];
    bool cube = c->topology->kind == BR_TOPOLOGY_BCUBE;
    struct br_worker_config worker = {
        .rank = (int)rank,
        .size = (int)job->n,
        .neighbours = cube ? (int)(c->topology->cube.k * (c->topology->cube.n - 1)) : 0,
        .cube = c->topology->cube,
        .eager_bytes = c->eager_bytes ? c->eager_bytes : EAGER_BYTES,
        .slice_bytes = c->slice_bytes ? c->slice_bytes : SLICE_BYTES,
        .peer_timeout = 10 * BR_SEC,
        .starvation = BR_SEC,
        .connect_timeout = 5 * BR_SEC,
        .max_slots = c->max_slots ? c->max_slots : 2048,
        .max_transfers = 1024,
        .check = 77,
        .seed = c->network.seed + 1,
    };
    struct br_engine_config engine = {.rank = (int)rank,
                                      .size = (int)job->n,
                                      .chunk_bytes = c->chunk_bytes,
                                      .model = c->model,
                                      .hollow = c->network.hollow};
    int rc = br_worker_create(&worker, &r->worker);

    for (int i = 0; i < devices_of(job) && !rc; i++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(job->sim, (int)rank, i, &device);
        rc = br_worker_open_device(r->worker, br_transport_get("sim"), device.name,
                                   device.simulation, &index);
    }
    br_list_init(&r->ended);
    engine.ended = &r->ended;
    if (!rc)
        rc = br_engine_create(r->worker, &engine, &r->engine);
    if (!rc) {
        br_engine_all(r->engine)->epochs[0] = c->trees;
        br_engine_all(r->engine)->plan_cache.shared_with =
            rank ? &br_engine_all(job->ranks[0].engine)->plan_cache : NULL;
    }
    br_sim_job_wake(job, rank);
    return rc;
}

/* Rails to a neighbour over one device, or to anybody over all of them. */
static int set_peer(struct br_sim_job *job, uint32_t rank, uint32_t peer, int first, int n)
{
    struct br_rail_config rails[BR_MAX_RAILS];

    for (int i = 0; i < n; i++) {
        rails[i] = (struct br_rail_config){
            .device = first + i,
            .level = first + i,
            .address = job->ranks[peer].worker->devices[first + i]->address};
    }
    return br_worker_set_peer(job->ranks[rank].worker, (int)peer, rails, n);
}

/* Both ways, unless they have been linked before. */
static int link_ranks(struct br_sim_job *job, uint32_t a, uint32_t b, int first, int n)
{
    int rc = 0;

    if (a == b || job->ranks[a].worker->peers[b].n_rails)
        return 0;
    if (!(rc = set_peer(job, a, b, first, n)) && !(rc = set_peer(job, b, a, first, n))) {
        br_sim_job_wake(job, a);
        br_sim_job_wake(job, b);
    }
    return rc;
}

static int link_neighbours(struct br_sim_job *job, uint32_t rank)
{
    const struct br_bcube *cube = &job->config.topology->cube;
    int rc = 0;

    for (uint32_t level = 0; level < cube->k; level++)
        for (uint32_t i = 0; i < cube->n - 1 && !rc; i++)
            rc = link_ranks(job, rank, br_bcube_neighbour(cube, rank, level, i), (int)level, 1);
    return rc;
}

static int link_all(struct br_sim_job *job, uint32_t rank)
{
    int rc = 0;

    for (uint32_t peer = 0; peer < job->n && !rc; peer++)
        rc = link_ranks(job, rank, peer, 0, devices_of(job));
    return rc;
}

/* With those that its schedule exchanges messages with. */
static int link_partners(struct br_sim_job *job, uint32_t rank, const struct br_operation *op)
{
    struct br_engine *engine = job->ranks[rank].engine;
    struct br_operation own = *op;
    const struct br_schedule *schedule;
    int rc = br_engine_reserve(engine, &own);

    if (rc)
        return rc;
    schedule = own.fragments.plan->schedule;
    for (uint32_t i = 0; i < schedule->n_steps && !rc; i++)
        if (schedule->steps[i].kind <= BR_STEP_RECV)
            rc = link_ranks(job, rank, schedule->steps[i].peer, 0, devices_of(job));
    br_engine_unreserve(engine, &own);
    return rc;
}

/* What the worker looks at when something of the link is reported: whole cache lines, by where its
 * and the rail's fields stand. When these move, the simulation gets slower and nothing else. */
static void fetch_rank(void *context, int host, const struct br_link *link)
{
    const struct br_sim_job *job = context;
    const struct br_worker *w = job->ranks[host].worker;
    const struct br_rail *rail = link->authenticated ? link->owner : NULL;

    br_sim_fetch(&w->devices, 1);
    br_sim_fetch(&w->n_devices, 128);
    br_sim_fetch(&w->done, 256);
    br_sim_fetch(&w->newest, 128);
    if (rail) {
        br_sim_fetch(&rail->tx_bytes, 256);
        br_sim_fetch(&rail->probe_head, 384);
        br_sim_fetch(rail->peer, 256);
        br_sim_fetch(&rail->peer->dones, 192);
    }
}

static int open_network(struct br_sim_job *job)
{
    const struct br_topology *t = job->config.topology;

    for (job->leaves = 1; job->leaves < job->n;)
        job->leaves *= 2;
    job->config.network.soon = fetch_rank;
    job->config.network.soon_context = job;
    job->sim = br_sim_create(&job->config.network);
    job->ranks = calloc(job->n, sizeof *job->ranks);
    job->wake = malloc(2 * (size_t)job->leaves * sizeof *job->wake);
    for (uint32_t i = 0; job->wake && i < 2 * job->leaves; i++)
        job->wake[i] = BR_SIM_NEVER;
    if (!job->sim || !job->ranks || !job->wake ||
        (t->kind == BR_TOPOLOGY_BCUBE
             ? br_sim_add_bcube(job->sim, &t->cube)
             : br_sim_add_rails(job->sim, (int)job->n, (int)job->config.rails)))
        return br_error(ENOMEM, "no memory for a simulated network of %u hosts", job->n);
    return 0;
}

int br_sim_job_open(struct br_sim_job *job, const struct br_sim_job_config *config)
{
    int rc;

    mallopt(M_MMAP_THRESHOLD, FRESH_BYTES);
    mallopt(M_MMAP_MAX, INT_MAX);
    *job = (struct br_sim_job){.config = *config, .n = config->topology->n};
    if (config->topology->kind == BR_TOPOLOGY_HOSTS ||
        (config->topology->kind == BR_TOPOLOGY_BCUBE &&
         !br_topology_is_whole_cube(config->topology)) ||
        (config->topology->kind == BR_TOPOLOGY_FLAT &&
         (config->rails < 1 || config->rails > BR_MAX_RAILS)))
        return br_error(
            EINVAL,
            "what can be simulated: hosts with 1 to %d rails and one rank each, or a whole BCube",
            BR_MAX_RAILS);
    rc = open_network(job);
    for (uint32_t r = 0; r < job->n && !rc; r++)
        rc = open_rank(job, r);
    if (rc)
        br_sim_job_close(job);
    return rc;
}

void br_sim_job_close(struct br_sim_job *job)
{
    for (uint32_t r = 0; job->ranks && r < job->n; r++) {
        br_worker_destroy(job->ranks[r].worker);
        br_engine_destroy(job->ranks[r].engine);
    }
    free(job->wake);
    free(job->ranks);
    br_sim_destroy(job->sim);
    *job = (struct br_sim_job){0};
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Until the rank has nothing more to do. false: it had nothing at all. wish: when the program wants
 * its next turn. */
static bool job_progress(struct br_sim_job *job, uint32_t rank, uint64_t now, uint64_t *wish)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    const struct br_sim_job_program *program = &job->program;
    uint64_t submitted;
    bool any = false, more;
    int n;

    *wish = UINT64_MAX;
    do {
        submitted = r->submitted;
        n = br_engine_progress(r->engine, now);
        for (struct br_operation *op; (op = br_operation_pop(&r->ended)); n++)
            if (program->ended)
                program->ended(program->with, rank, op, now);
        if (program->progress)
            *wish = program->progress(program->with, rank, now);
        more = n || r->submitted != submitted;
        any = any || more;
    } while (more);
    return any;
}

/* The least of the pair goes up. */
static void set_wake(struct br_sim_job *job, uint32_t rank, uint64_t at)
{
    uint64_t *wake = job->wake;
    uint32_t i = job->leaves + rank;

    for (wake[i] = at; i > 1; i /= 2)
        wake[i / 2] = wake[i] < wake[i ^ 1] ? wake[i] : wake[i ^ 1];
}

void br_sim_job_wake(struct br_sim_job *job, uint32_t rank)
{
    set_wake(job, rank, 0);
}

/* The first rank from `first` on that wants a turn by `now`; job->n: there is none. */
static uint32_t next_due(const struct br_sim_job *job, uint32_t first, uint64_t now)
{
    uint32_t i = job->leaves + first;

    if (first >= job->n)
        return job->n;
    while (job->wake[i] > now) {
        while (i % 2 && i > 1) /* a right half: nothing behind it here */
            i /= 2;
        if (i <= 1)
            return job->n;
        i++;
    }
    while (i < job->leaves)
        i = 2 * i + (job->wake[2 * (size_t)i] > now);
    return i - job->leaves;
}

static void job_step_rank(struct br_sim_job *job, uint32_t rank)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    uint64_t next, other;

    /* The exact time of the next timer is a look at all rails: only for who has become quiet. */
    if (job_progress(job, rank, br_sim_host_now(job->sim, (int)rank), &next))
        other = br_worker_no_timer_before(r->worker);
    else
        other = br_worker_next_timer(r->worker);
    next = other < next ? other : next;
    other = br_engine_next_deadline(r->engine);
    next = other < next ? other : next;
    set_wake(job, rank,
             next == UINT64_MAX ? BR_SIM_NEVER : br_sim_time_of(job->sim, (int)rank, next));
}

int br_sim_job_advance(struct br_sim_job *job)
{
    uint64_t now = br_sim_now(job->sim), next, event;
    bool served = false;
    int host;

    while ((host = br_sim_take_ready(job->sim)) >= 0)
        br_sim_job_wake(job, (uint32_t)host);
    for (uint32_t r = 0; (r = next_due(job, r, now)) < job->n; r++) {
        job_step_rank(job, r);
        served = true;
    }
    next = job->wake[1];
    event = br_sim_next(job->sim);
    next = event < next ? event : next;
    if (next > LIMIT && served)
        /* the caller may have what it waits for; else the next call finds nobody to serve */
        return 0;
    if (next > LIMIT)
        return br_error(
            ETIMEDOUT,
            "the simulation has no end: nothing more happens within an hour of its time");
    br_sim_advance_to(job->sim, next <= now ? now + 1 : next);
    return 0;
}

static int wait_for_links(struct br_sim_job *job)
{
    int rc = 0;

    for (uint32_t r = 0; r < job->n; r++)
        while (!rc && !br_worker_connected(job->ranks[r].worker))
            rc = br_sim_job_advance(job);
    return rc;
}

int br_sim_job_connect(struct br_sim_job *job)
{
    bool cube = job->config.topology->kind == BR_TOPOLOGY_BCUBE;
    int rc = 0;

    for (uint32_t r = 0; r < job->n && !rc; r++)
        rc = cube ? link_neighbours(job, r) : link_all(job, r);
    return rc ? rc : wait_for_links(job);
}

int br_sim_job_connect_for(struct br_sim_job *job, const struct br_operation *op)
{
    int rc = 0;

    if (job->config.topology->kind == BR_TOPOLOGY_BCUBE)
        return br_sim_job_connect(job);
    for (uint32_t r = 0; r < job->n && !rc; r++)
        rc = link_partners(job, r, op);
    return rc ? rc : wait_for_links(job);
}

/* ---- operations ------------------------------------------------------------------------------ */

int br_sim_job_submit(struct br_sim_job *job, uint32_t rank, struct br_operation *op)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    uint64_t now = br_sim_host_now(job->sim, (int)rank);

    op->order = op->sequence = r->submitted++;
    op->timeout = LIMIT;
    op->deadline = now + LIMIT;
    br_sim_job_wake(job, rank);
    return br_engine_submit(r->engine, op, now);
}
