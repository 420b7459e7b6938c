/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#define LIMIT (3600 * BR_SEC) /* of virtual time */

#define SLICE_BYTES (64u << 10)
#define EAGER_BYTES (16u << 10)

/* ---- opening and closing -------------------------------------------------------------------- */

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
        .max_slots = 2048,
        .max_transfers = 8192,
        .check = 77,
        .seed = c->network.seed + 1,
    };
    struct br_engine_config engine = {
        .rank = (int)rank, .size = (int)job->n, .chunk_bytes = c->chunk_bytes, .model = c->model};
    int rc = br_worker_create(&worker, &r->worker);

    for (int i = 0; i < devices_of(job) && !rc; i++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(job->sim, (int)rank, i, &device);
        rc =
            br_worker_open_device(r->worker, br_transport_get("sim"), device.name, device.simulation, &index);
    }
    if (!rc)
        rc = br_engine_create(r->worker, &engine, &r->engine);
    if (!rc)
        br_engine_all(r->engine)->views[0] = c->forest;
    r->due = true;
    return rc;
}

static void address_of(const struct br_sim_job *job, uint32_t rank, int device, struct br_address *address)
{
    struct br_device *d = job->ranks[rank].worker->devices[device];

    d->ops->device_address(d, address);
}

/* Rails to a neighbour over one device, or to anybody over all of them. */
static int set_peer(struct br_sim_job *job, uint32_t rank, uint32_t peer, int first, int n)
{
    struct br_rail_config rails[BR_MAX_RAILS];

    for (int i = 0; i < n; i++) {
        rails[i] = (struct br_rail_config){.device = first + i, .level = first + i};
        address_of(job, peer, first + i, &rails[i].address);
    }
    return br_worker_set_peer(job->ranks[rank].worker, (int)peer, rails, n);
}

static int set_peers(struct br_sim_job *job, uint32_t rank)
{
    const struct br_topology *t = job->config.topology;
    int rc = 0;

    if (t->kind != BR_TOPOLOGY_BCUBE) {
        for (uint32_t peer = 0; peer < job->n && !rc; peer++)
            if (peer != rank)
                rc = set_peer(job, rank, peer, 0, devices_of(job));
        return rc;
    }
    for (uint32_t level = 0; level < t->cube.k; level++)
        for (uint32_t i = 0; i < t->cube.n - 1 && !rc; i++)
            rc = set_peer(job, rank, br_bcube_neighbour(&t->cube, rank, level, i), (int)level, 1);
    return rc;
}

static int open_network(struct br_sim_job *job)
{
    const struct br_topology *t = job->config.topology;

    job->sim = br_sim_create(&job->config.network);
    job->ranks = calloc(job->n, sizeof *job->ranks);
    if (!job->sim || !job->ranks ||
        (t->kind == BR_TOPOLOGY_BCUBE ? br_sim_add_bcube(job->sim, &t->cube)
                                      : br_sim_add_rails(job->sim, (int)job->n, (int)job->config.rails)))
        return br_error(ENOMEM, "no memory for a simulated network of %u hosts", job->n);
    return 0;
}

int br_sim_job_open(struct br_sim_job *job, const struct br_sim_job_config *config)
{
    int rc;

    *job = (struct br_sim_job){.config = *config, .n = config->topology->n};
    if (config->topology->kind == BR_TOPOLOGY_HOSTS ||
        (config->topology->kind == BR_TOPOLOGY_BCUBE && !br_topology_is_whole_cube(config->topology)) ||
        (config->topology->kind == BR_TOPOLOGY_FLAT && (config->rails < 1 || config->rails > BR_MAX_RAILS)))
        return br_error(EINVAL,
                        "what can be simulated: hosts with 1 to %d rails and one rank each, or a whole BCube",
                        BR_MAX_RAILS);
    rc = open_network(job);
    for (uint32_t r = 0; r < job->n && !rc; r++)
        rc = open_rank(job, r);
    for (uint32_t r = 0; r < job->n && !rc; r++)
        rc = set_peers(job, r);
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
    free(job->ranks);
    br_sim_destroy(job->sim);
    *job = (struct br_sim_job){0};
}

/* ---- time ----------------------------------------------------------------------------------- */

/* Until the rank has nothing more to do. */
static uint64_t take_turns(struct br_sim_job *job, uint32_t rank, uint64_t now)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    const struct br_sim_job_program *program = &job->program;
    uint64_t wish = UINT64_MAX, submitted;
    int n;

    do {
        submitted = r->submitted;
        n = br_engine_turn(r->engine, now);
        for (struct br_operation *op; (op = br_engine_ended(r->engine)); n++)
            if (program->ended)
                program->ended(program->with, rank, op, now);
        if (program->turn)
            wish = program->turn(program->with, rank, now);
    } while (n || r->submitted != submitted);
    return wish;
}

static void serve(struct br_sim_job *job, uint32_t rank)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    uint64_t next, other;

    r->due = false;
    next = take_turns(job, rank, br_sim_host_now(job->sim, (int)rank));
    other = br_worker_next_timer(r->worker);
    next = other < next ? other : next;
    other = br_engine_next_deadline(r->engine);
    next = other < next ? other : next;
    r->wake = next == UINT64_MAX ? BR_SIM_NEVER : br_sim_time_of(job->sim, (int)rank, next);
}

int br_sim_job_advance(struct br_sim_job *job)
{
    uint64_t now = br_sim_now(job->sim), next = BR_SIM_NEVER, event;
    int host;

    while ((host = br_sim_take_ready(job->sim)) >= 0)
        job->ranks[host].due = true;
    for (uint32_t r = 0; r < job->n; r++) {
        if (job->ranks[r].due || job->ranks[r].wake <= now)
            serve(job, r);
        if (job->ranks[r].wake < next)
            next = job->ranks[r].wake;
    }
    event = br_sim_next(job->sim);
    next = event < next ? event : next;
    if (next > LIMIT)
        return br_error(ETIMEDOUT,
                        "the simulation has no end: nothing more happens within an hour of its time");
    br_sim_advance_to(job->sim, next <= now ? now + 1 : next);
    return 0;
}

int br_sim_job_connect(struct br_sim_job *job)
{
    int rc = 0;

    for (uint32_t r = 0; r < job->n; r++)
        while (!rc && !br_worker_connected(job->ranks[r].worker))
            rc = br_sim_job_advance(job);
    return rc;
}

/* ---- operations ----------------------------------------------------------------------------- */

int br_sim_job_submit(struct br_sim_job *job, uint32_t rank, struct br_operation *op)
{
    struct br_sim_job_rank *r = &job->ranks[rank];
    uint64_t now = br_sim_host_now(job->sim, (int)rank);

    op->order = op->sequence = r->submitted++;
    op->timeout = LIMIT;
    op->deadline = now + LIMIT;
    r->due = true;
    return br_engine_submit(r->engine, op, now);
}
