/* SPDX-License-Identifier: BSD-3-Clause */
#include "bml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "bcube/address.h"
#include "collectives/engine.h"
#include "transport/sim/sim.h"

#define LIMIT (3600 * BR_SEC) /* of virtual time */

struct host {
    struct br_worker *worker;
    struct br_engine *engine;
    struct br_operation ops[BML_LAYERS];
    float *numbers;
    uint64_t wake;
    bool due;
};

struct world {
    const struct bml_plan *plan;
    struct bml_result *result;
    struct br_bcube cube;
    struct br_topology topology;
    struct br_sim *sim;
    struct host *hosts;
    uint32_t ended; /* operations, of all hosts */
    uint32_t count; /* float32 of all layers */
    uint64_t end;   /* virtual time of the last end */
};

static bool wrong(struct world *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!w->result->wrong[0])
        vsnprintf(w->result->wrong, sizeof w->result->wrong, format, args);
    va_end(args);
    return false;
}

/* Whole numbers, small enough that the sum of all ranks is exact. */
static float number(uint32_t rank, uint32_t i)
{
    return (float)((rank * 7 + i) % 13);
}

/* ---- opening and closing -------------------------------------------------------------------- */

static bool open_host(struct world *w, uint32_t rank)
{
    const struct bml_plan *plan = w->plan;
    struct host *h = &w->hosts[rank];
    struct br_worker_config worker = {
        .rank = (int)rank,
        .size = (int)w->cube.hosts,
        .neighbours = (int)(w->cube.k * (w->cube.n - 1)),
        .eager_bytes = plan->eager_bytes,
        .slice_bytes = 64 << 10,
        .peer_timeout = 10 * BR_SEC,
        .starvation = BR_SEC,
        .connect_timeout = 5 * BR_SEC,
        .max_slots = 2048,
        .max_transfers = 8192,
        .check = 77,
        .seed = 1,
    };
    struct br_engine_config engine = {
        .rank = (int)rank, .size = (int)w->cube.hosts, .chunk_bytes = plan->chunk_bytes};

    br_cost_model_on(&engine.model, &w->topology, BR_COST_NETWORK, 1);
    if (br_worker_create(&worker, &h->worker))
        return wrong(w, "%s", br_error_words());
    for (int level = 0; level < (int)w->cube.k; level++) {
        struct br_device_config device = {0};
        int index;

        br_sim_device_config(w->sim, (int)rank, level, &device);
        if (br_worker_open_device(h->worker, br_transport_get("sim"), device.name, device.simulation, &index))
            return wrong(w, "%s", br_error_words());
    }
    h->due = true;
    h->numbers = malloc(w->count * sizeof *h->numbers);
    if (!h->numbers || br_engine_create(h->worker, &engine, &h->engine))
        return wrong(w, "no memory for host %u", rank);
    br_engine_all(h->engine)->views[0] = plan->forest;
    for (uint32_t i = 0; i < w->count; i++)
        h->numbers[i] = number(rank, i);
    return true;
}

static bool set_neighbours(struct world *w, uint32_t rank)
{
    for (uint32_t level = 0; level < w->cube.k; level++)
        for (uint32_t digit = 0; digit < w->cube.n; digit++) {
            uint32_t peer = br_bcube_with_digit(&w->cube, rank, level, digit);
            struct br_device *device = w->hosts[peer].worker->devices[level];
            struct br_rail_config rail = {.device = (int)level, .level = (int)level};

            if (peer == rank)
                continue;
            device->ops->device_address(device, &rail.address);
            if (br_worker_set_peer(w->hosts[rank].worker, (int)peer, &rail, 1))
                return wrong(w, "%s", br_error_words());
        }
    return true;
}

static bool open_world(struct world *w)
{
    const struct br_sim_config network = {
        .seed = 1, .bits_per_second = w->plan->bits_per_second, .max_frame = 64 << 10, .forward_bytes = 1500};

    br_topology_bcube(&w->topology, &w->cube);
    w->sim = br_sim_create(&network);
    w->hosts = calloc(w->cube.hosts, sizeof *w->hosts);
    if (!w->sim || !w->hosts || br_sim_add_bcube(w->sim, &w->cube))
        return wrong(w, "no memory for the network");
    for (uint32_t r = 0; r < w->cube.hosts; r++)
        if (!open_host(w, r))
            return false;
    for (uint32_t r = 0; r < w->cube.hosts; r++)
        if (!set_neighbours(w, r))
            return false;
    return true;
}

static void close_world(struct world *w)
{
    for (uint32_t r = 0; w->hosts && r < w->cube.hosts; r++) {
        br_worker_destroy(w->hosts[r].worker);
        br_engine_destroy(w->hosts[r].engine);
        free(w->hosts[r].numbers);
    }
    free(w->hosts);
    br_sim_destroy(w->sim);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void take_turns(struct world *w, uint32_t rank)
{
    struct host *h = &w->hosts[rank];
    uint64_t now = br_sim_host_now(w->sim, (int)rank), timer, deadline;
    int n;

    h->due = false;
    do {
        n = br_worker_poll(h->worker, now);
        n += br_engine_step(h->engine, now);
        n += br_worker_pump(h->worker, now);
    } while (n);
    for (struct br_operation *op; (op = br_engine_ended(h->engine)); w->end = now) {
        w->ended++;
        if (op->status)
            wrong(w, "rank %u: %s", rank, op->words);
    }
    timer = br_worker_next_timer(h->worker);
    deadline = br_engine_next_deadline(h->engine);
    timer = deadline < timer ? deadline : timer;
    h->wake = timer == UINT64_MAX ? BR_SIM_NEVER : br_sim_time_of(w->sim, (int)rank, timer);
}

static bool advance(struct world *w)
{
    uint64_t now = br_sim_now(w->sim), next = br_sim_next(w->sim);
    int host;

    while ((host = br_sim_take_ready(w->sim)) >= 0)
        w->hosts[host].due = true;
    for (uint32_t r = 0; r < w->cube.hosts; r++) {
        if (w->hosts[r].due || w->hosts[r].wake <= now)
            take_turns(w, r);
        if (w->hosts[r].wake < next)
            next = w->hosts[r].wake;
    }
    if (br_sim_next(w->sim) < next)
        next = br_sim_next(w->sim);
    if (next > LIMIT)
        return wrong(w, "no end is in sight");
    br_sim_advance_to(w->sim, next <= now ? now + 1 : next);
    return !w->result->wrong[0];
}

static bool connect_all(struct world *w)
{
    for (uint32_t r = 0; r < w->cube.hosts; r++)
        while (!br_worker_connected(w->hosts[r].worker))
            if (!advance(w))
                return false;
    return true;
}

/* ---- the operation -------------------------------------------------------------------------- */

static bool submit_layer(struct world *w, uint32_t rank, uint32_t layer, float *numbers)
{
    const struct bml_plan *plan = w->plan;
    struct host *h = &w->hosts[rank];
    struct br_operation *op = &h->ops[layer];
    uint64_t now = br_sim_host_now(w->sim, (int)rank);
    size_t bytes = plan->layers[layer] * sizeof *numbers;

    *op = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                .collective = BR_ALLREDUCE,
                                .send = numbers,
                                .recv = numbers,
                                .send_bytes = bytes,
                                .recv_bytes = bytes,
                                .count = plan->layers[layer],
                                .type = BRAID_FLOAT32,
                                .reduction = BRAID_SUM,
                                .priority = (int32_t)(plan->n_layers - layer),
                                .sequence = plan->n_layers - layer,
                                .order = plan->n_layers - layer,
                                .deadline = now + LIMIT};
    snprintf(op->algorithm, sizeof op->algorithm, "%s", plan->algorithm);
    return !br_engine_submit(h->engine, op, now) || wrong(w, "rank %u: %s", rank, br_error_words());
}

static bool submit(struct world *w, uint32_t rank)
{
    float *numbers = w->hosts[rank].numbers + w->count;

    w->hosts[rank].due = true;
    for (uint32_t layer = w->plan->n_layers; layer-- > 0;) {
        numbers -= w->plan->layers[layer];
        if (!submit_layer(w, rank, layer, numbers))
            return false;
    }
    return true;
}

static void check(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        float sum = 0;

        for (uint32_t r = 0; r < w->cube.hosts; r++)
            sum += number(r, i);
        for (uint32_t r = 0; r < w->cube.hosts; r++)
            if (w->hosts[r].numbers[i] != sum) {
                wrong(w, "rank %u: number %u is %g, not %g", r, i, (double)w->hosts[r].numbers[i],
                      (double)sum);
                return;
            }
    }
}

static void run(struct world *w)
{
    struct bml_result *result = w->result;
    double hosts = w->cube.hosts;
    uint64_t start;

    if (!connect_all(w))
        return;
    start = br_sim_now(w->sim);
    for (uint32_t r = 0; r < w->cube.hosts; r++)
        if (!submit(w, r))
            return;
    while (w->ended < w->cube.hosts * w->plan->n_layers)
        if (!advance(w))
            return;
    result->seconds = (double)(w->end - start) / 1e9;
    result->one_link = w->count * 32.0 / (double)w->plan->bits_per_second;
    result->theory = 2 * (hosts - 1) / (w->cube.k * hosts) * result->one_link;
    result->frames = br_sim_counters(w->sim)->frames;
    check(w);
}

void bml_run(const struct bml_plan *plan, struct bml_result *result)
{
    struct world w = {.plan = plan, .result = result};

    memset(result, 0, sizeof *result);
    for (uint32_t layer = 0; layer < plan->n_layers; layer++)
        w.count += plan->layers[layer];
    if (br_bcube_init(&w.cube, plan->n, plan->k))
        wrong(&w, "%s", br_error_words());
    else if (open_world(&w))
        run(&w);
    close_world(&w);
}
