/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/collectives/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"

static int region_find(void *context, uint32_t id, uint64_t offset, uint64_t bytes, void **memory,
                       struct br_region **region)
{
    struct job_rank *rank = context;
    struct br_region *own = &rank->exposed.region;

    if (id != 1 || !own->base || offset > own->bytes || bytes > own->bytes - offset)
        return -EACCES;
    rank->exposed.uses++;
    *memory = (uint8_t *)own->base + offset;
    *region = own;
    return rank->exposed.gpu;
}

static void region_done(void *context, struct br_region *region)
{
    struct job_rank *rank = context;

    assert_ptr_equal(region, &rank->exposed.region);
    rank->exposed.uses--;
}

/* Memory of a GPU, which no device knows. */
static bool target_begin(void *context, struct br_target *target)
{
    return br_staging_target_begin(((struct job_rank *)context)->engine, target);
}

static bool target_store(void *context, struct br_target *target)
{
    br_staging_target_store(((struct job_rank *)context)->engine, target);
    return false;
}

static void target_done(void *context, struct br_target *target)
{
    br_staging_target_done(((struct job_rank *)context)->engine, target);
}

static void open_rank(struct job *job, int rank, const struct job_options *options)
{
    struct job_rank *r = &job->ranks[rank];
    struct br_engine_config engine = options->engine;
    struct br_worker_config config = {
        .rank = rank,
        .size = job->n,
        .eager_bytes = options->eager_bytes ? options->eager_bytes : 1024,
        .slice_bytes = 64 << 10,
        .peer_timeout = BR_SEC,
        /* small buffers: two round trips are all the queue there may be */
        .target_delay = 10 * BR_US,
        .starvation = 100 * BR_MS,
        .connect_timeout = BR_SEC,
        .max_slots = options->max_slots ? options->max_slots : 1024,
        .max_transfers = 8192,
        .check = 77,
        .seed = 1,
        .region_find = region_find,
        .region_done = region_done,
        .region_context = r,
        .target = {target_begin, target_store, target_done},
    };

    assert_int_equal(br_worker_create(&config, &r->worker), 0);
    for (int i = 0; i < options->rails; i++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(job->sim, rank, i, &device);
        assert_int_equal(br_worker_open_device(r->worker, br_transport_get("sim"), device.name,
                                               device.simulation, &index),
                         0);
    }
    engine.rank = rank;
    engine.size = job->n;
    engine.ended = &r->ended;
    br_list_init(&r->ended);
    br_backlog_init(&r->backlog);
    if (br_engine_create(r->worker, &engine, &r->engine))
        fail_msg("%s", br_error_message());
}

static void set_peers(struct job *job, int rank, int n_rails)
{
    struct br_rail_config rails[BR_MAX_RAILS];

    for (int peer = 0; peer < job->n; peer++) {
        if (peer == rank)
            continue;
        for (int i = 0; i < n_rails; i++) {
            struct br_device *device = job->ranks[peer].worker->devices[i];

            rails[i].device = rails[i].level = i;
            rails[i].address = device->address;
        }
        assert_int_equal(br_worker_set_peer(job->ranks[rank].worker, peer, rails, n_rails), 0);
    }
}

static bool connected(const struct job *job)
{
    for (int i = 0; i < job->n; i++)
        if (!br_worker_connected(job->ranks[i].worker))
            return false;
    return true;
}

void job_create(struct job *job, const struct job_options *options)
{
    memset(job, 0, sizeof *job);
    job->n = options->n;
    job->sim = br_sim_create(&options->network);
    assert_non_null(job->sim);
    assert_int_equal(br_sim_add_rails(job->sim, job->n, options->rails), 0);
    job->ranks = calloc((size_t)job->n, sizeof *job->ranks);
    for (int i = 0; i < job->n; i++)
        open_rank(job, i, options);
    for (int i = 0; i < job->n; i++)
        set_peers(job, i, options->rails);
    while (!connected(job)) {
        assert_true(br_sim_now(job->sim) < 20 * BR_SEC);
        assert_true(job_step(job));
    }
}

void job_destroy(struct job *job)
{
    uint64_t end = br_sim_now(job->sim) + 20 * BR_SEC;

    /* whoever served a get hears of its end after the one who asked */
    for (int i = 0; i < job->n; i++)
        while (job->ranks[i].exposed.uses && br_sim_now(job->sim) < end)
            assert_true(job_step(job));
    for (int i = 0; i < job->n; i++) {
        assert_int_equal(job->ranks[i].exposed.uses, 0);
        br_worker_destroy(job->ranks[i].worker);
        br_engine_destroy(job->ranks[i].engine);
    }
    free(job->ranks);
    assert_int_equal(br_sim_counters(job->sim)->payload_changed, 0);
    br_sim_destroy(job->sim);
}

static int job_begin(struct job_rank *r, struct br_operation *op, uint64_t now)
{
    if (op->kind == BR_OPERATION_COLLECTIVE)
        op->sequence = r->next_sequence++;
    return br_engine_submit(r->engine, op, now);
}

int job_try_submit(struct job *job, int rank, struct br_operation *op)
{
    struct job_rank *r = &job->ranks[rank];
    uint64_t now = br_sim_host_now(job->sim, rank);

    op->timeout = op->timeout ? op->timeout : 20 * BR_SEC;
    op->deadline = now + op->timeout;
    op->order = r->next_order++;
    op->status = 1;
    op->backlog = op->kind == BR_OPERATION_COLLECTIVE ? &r->backlog : NULL;
    return op->backlog && !br_backlog_enter(op->backlog, op) ? 0 : job_begin(r, op, now);
}

void job_submit(struct job *job, int rank, struct br_operation *op)
{
    if (job_try_submit(job, rank, op))
        fail_msg("%s", br_error_message());
}

static int turn(struct job *job, int rank)
{
    uint64_t now = br_sim_host_now(job->sim, rank);
    struct job_rank *r = &job->ranks[rank];
    struct br_operation *op;
    int n = br_engine_progress(r->engine, now);

    for (; (op = br_operation_pop(&r->ended)); job->ended++)
        if (op->backlog)
            br_backlog_left(op->backlog);
    for (; (op = br_backlog_next(&r->backlog)); n++)
        if (job_begin(r, op, now))
            fail_msg("%s", br_error_message());
    return n;
}

static uint64_t next_of_rank(struct job *job, int rank)
{
    uint64_t timer = br_worker_next_timer(job->ranks[rank].worker);
    uint64_t deadline = br_engine_next_deadline(job->ranks[rank].engine);

    if (deadline < timer)
        timer = deadline;
    return timer == UINT64_MAX ? BR_SIM_NEVER : br_sim_time_of(job->sim, rank, timer);
}

bool job_step(struct job *job)
{
    uint64_t next = BR_SIM_NEVER, event;

    for (int i = 0; i < job->n; i++) {
        uint64_t timer;

        if (br_sim_host_dead(job->sim, i))
            continue;
        for (int k = 0; turn(job, i) && k < 1000; k++)
            ;
        timer = next_of_rank(job, i);
        if (timer < next)
            next = timer;
    }
    event = br_sim_next(job->sim);
    if (event < next)
        next = event;
    if (next == BR_SIM_NEVER)
        return false;
    if (next <= br_sim_now(job->sim))
        next = br_sim_now(job->sim) + 1;
    br_sim_advance_to(job->sim, next);
    return true;
}

void job_run(struct job *job, int ended)
{
    while (job->ended < ended) {
        bool more = job_step(job);

        if (job->ended < ended && (!more || br_sim_now(job->sim) > 300 * BR_SEC))
            fail_msg("only %d of %d operations have ended at %llu ms", job->ended, ended,
                     (unsigned long long)(br_sim_now(job->sim) / BR_MS));
    }
}

uint8_t *job_expose(struct job *job, int rank, size_t bytes)
{
    uint8_t *memory = calloc(1, bytes);

    job->ranks[rank].exposed.region =
        (struct br_region){.base = memory, .bytes = bytes, .segment_fd = -1, .id = 1};
    return memory;
}

struct br_operation job_put(int rank, const uint8_t *from, size_t bytes, uint64_t offset)
{
    return (struct br_operation){.kind = BR_OPERATION_PUT,
                                 .send = from,
                                 .count = bytes,
                                 .key = {.rank = (uint32_t)rank, .id = 1, .check = 77},
                                 .offset = offset};
}

bool job_is_all(const uint8_t *memory, size_t bytes, uint8_t value)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != value)
            return false;
    return true;
}
