/* SPDX-License-Identifier: BSD-3-Clause */
#include "bml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bcube/address.h"
#include "tools/sim/job.h"

struct host {
    struct br_operation ops[BML_LAYERS];
    float *numbers;
};

struct world {
    const struct bml_plan *plan;
    struct bml_result *result;
    struct br_bcube cube;
    struct br_topology topology;
    struct br_sim_job job;
    struct host *hosts;
    uint32_t ended; /* operations, of all hosts */
    uint32_t count; /* float32 of all layers */
    uint64_t end;   /* virtual time of the last end */
};

/* ---- opening and closing --------------------------------------------------------------------- */

static void ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    struct world *w = with;

    w->ended++;
    w->end = now > w->end ? now : w->end;
    if (op->status)
        exact_wrong(w->result->wrong, "rank %u: %s", rank, op->message);
}

static bool open_world(struct world *w)
{
    struct br_sim_job_config config = {.topology = &w->topology,
                                       .network = {.seed = 1,
                                                   .bits_per_second = w->plan->bits_per_second,
                                                   .max_frame = 64 << 10,
                                                   .forward_bytes = 1500},
                                       .chunk_bytes = w->plan->chunk_bytes,
                                       .eager_bytes = w->plan->eager_bytes,
                                       .trees = w->plan->trees};

    br_topology_bcube(&w->topology, &w->cube);
    br_cost_model_on(&config.model, &w->topology, BR_COST_NETWORK, 1);
    if (br_sim_job_open(&w->job, &config))
        return exact_wrong(w->result->wrong, "%s", br_error_message());
    w->job.program = (struct br_sim_job_program){.with = w, .ended = ended};
    w->hosts = calloc(w->cube.hosts, sizeof *w->hosts);
    for (uint32_t r = 0; w->hosts && r < w->cube.hosts; r++) {
        w->hosts[r].numbers = malloc(w->count * sizeof *w->hosts[r].numbers);
        if (!w->hosts[r].numbers)
            return exact_wrong(w->result->wrong, "no memory for host %u", r);
        for (uint32_t i = 0; i < w->count; i++)
            w->hosts[r].numbers[i] = exact_number(r, i);
    }
    return w->hosts || exact_wrong(w->result->wrong, "no memory for %u hosts", w->cube.hosts);
}

static void close_world(struct world *w)
{
    br_sim_job_close(&w->job);
    for (uint32_t r = 0; w->hosts && r < w->cube.hosts; r++)
        free(w->hosts[r].numbers);
    free(w->hosts);
}

/* ---- the operation --------------------------------------------------------------------------- */

static bool submit_layer(struct world *w, uint32_t rank, uint32_t layer, float *numbers)
{
    const struct bml_plan *plan = w->plan;
    struct br_operation *op = &w->hosts[rank].ops[layer];
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
                                .priority = (int32_t)(plan->n_layers - layer)};
    snprintf(op->algorithm, sizeof op->algorithm, "%s", plan->algorithm);
    return !br_sim_job_submit(&w->job, rank, op) ||
           exact_wrong(w->result->wrong, "rank %u: %s", rank, br_error_message());
}

static bool submit(struct world *w, uint32_t rank)
{
    float *numbers = w->hosts[rank].numbers + w->count;

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
            sum += exact_number(r, i);
        for (uint32_t r = 0; r < w->cube.hosts; r++)
            if (w->hosts[r].numbers[i] != sum) {
                exact_wrong(w->result->wrong, "rank %u: number %u is %g, not %g", r, i,
                            (double)w->hosts[r].numbers[i], (double)sum);
                return;
            }
    }
}

static void run(struct world *w)
{
    struct bml_result *result = w->result;
    double hosts = w->cube.hosts;
    uint64_t start;

    if (br_sim_job_connect(&w->job)) {
        exact_wrong(w->result->wrong, "%s", br_error_message());
        return;
    }
    start = br_sim_now(w->job.sim);
    for (uint32_t r = 0; r < w->cube.hosts; r++)
        if (!submit(w, r))
            return;
    while (w->ended < w->cube.hosts * w->plan->n_layers)
        if (br_sim_job_advance(&w->job) || w->result->wrong[0]) {
            exact_wrong(w->result->wrong, "%s", br_error_message());
            return;
        }
    result->seconds = (double)(w->end - start) / 1e9;
    result->one_link = w->count * 32.0 / (double)w->plan->bits_per_second;
    result->theory = 2 * (hosts - 1) / (w->cube.k * hosts) * result->one_link;
    result->frames = br_sim_counters(w->job.sim)->frames;
    check(w);
}

void bml_run(const struct bml_plan *plan, struct bml_result *result)
{
    struct world w = {.plan = plan, .result = result};

    memset(result, 0, sizeof *result);
    for (uint32_t layer = 0; layer < plan->n_layers; layer++)
        w.count += plan->layers[layer];
    if (br_bcube_init(&w.cube, plan->n, plan->k))
        exact_wrong(w.result->wrong, "%s", br_error_message());
    else if (open_world(&w))
        run(&w);
    close_world(&w);
}
