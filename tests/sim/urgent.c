/* SPDX-License-Identifier: BSD-3-Clause */
#include "urgent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/sim/job.h"

#define LARGE_MOST 8
#define START      (12 * BR_MS) /* the large ones are at full speed by then */

struct host {
    struct br_operation small[URGENT_MOST], large[LARGE_MOST];
    float *small_numbers, *large_numbers;
    uint32_t n_small, n_large; /* submitted */
};

struct world {
    const struct urgent_plan *plan;
    struct urgent_result *result;
    struct br_topology topology;
    struct br_sim_job job;
    struct host *hosts;
    uint64_t start, large_end; /* virtual time, ns */
    uint64_t small_end[URGENT_MOST];
    uint32_t ended; /* operations, of all hosts */
};

static uint64_t small_at(const struct world *w, uint32_t i)
{
    return w->start + START + i * w->plan->pace_ns;
}

/* ---- the program of a rank ------------------------------------------------------------------- */

static bool submit(struct world *w, uint32_t rank, struct br_operation *op, float *numbers,
                   uint32_t bytes, int32_t priority)
{
    *op = (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                .collective = BR_ALLREDUCE,
                                .send = numbers,
                                .recv = numbers,
                                .send_bytes = bytes,
                                .recv_bytes = bytes,
                                .count = bytes / sizeof *numbers,
                                .type = BRAID_FLOAT32,
                                .reduction = BRAID_SUM,
                                .priority = priority};
    snprintf(op->algorithm, sizeof op->algorithm, "%s", priority ? "" : w->plan->algorithm);
    return !br_sim_job_submit(&w->job, rank, op) ||
           exact_wrong(w->result->wrong, "rank %u: %s", rank, br_error_message());
}

static void ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    struct world *w = with;
    const struct host *host = &w->hosts[rank];

    w->ended++;
    if (op->status)
        exact_wrong(w->result->wrong, "rank %u: %s", rank, op->message);
    if (!op->priority)
        w->large_end = now;
    else if (now > w->small_end[op - host->small])
        w->small_end[op - host->small] = now;
}

/* The large ones at once, the urgent ones when their time has come: the same on all ranks. */
static uint64_t progress(void *with, uint32_t rank, uint64_t now)
{
    struct world *w = with;
    const struct urgent_plan *plan = w->plan;
    struct host *host = &w->hosts[rank];
    uint32_t size = plan->small / sizeof(float), count = plan->large / sizeof(float);

    for (; host->n_large < plan->n_large && w->start; host->n_large++)
        submit(w, rank, &host->large[host->n_large],
               host->large_numbers + (size_t)host->n_large * count, plan->large, 0);
    for (; w->start && host->n_small < plan->n_small && now >= small_at(w, host->n_small);
         host->n_small++)
        submit(w, rank, &host->small[host->n_small],
               host->small_numbers + (size_t)host->n_small * size, plan->small, 1);
    return w->start && host->n_small < plan->n_small ? small_at(w, host->n_small) : UINT64_MAX;
}

/* ---- opening, checking and closing ----------------------------------------------------------- */

static float *numbers_of(uint32_t rank, size_t count)
{
    float *numbers = malloc((count + 1) * sizeof *numbers);

    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = exact_number(rank, (uint32_t)i);
    return numbers;
}

static bool open_world(struct world *w)
{
    const struct urgent_plan *plan = w->plan;
    struct br_sim_job_config config = {.topology = &w->topology,
                                       .rails = 1,
                                       .network = {.seed = 1,
                                                   .bits_per_second = plan->bits_per_second,
                                                   .latency_ns = plan->latency_ns,
                                                   .early_sent = plan->early_sent,
                                                   .forward_bytes = 1500},
                                       .chunk_bytes = 512 << 10};

    br_topology_flat(&w->topology, plan->n);
    br_cost_model_on(&config.model, &w->topology, BR_COST_NETWORK, 1);
    config.model.gamma = config.model.copy = 0; /* simulated hosts add up in no time */
    config.model.levels[0] = (struct br_cost_level){.alpha = 2e-9 * (double)plan->latency_ns,
                                                    .beta = 8.0 / (double)plan->bits_per_second};
    if (br_sim_job_open(&w->job, &config))
        return exact_wrong(w->result->wrong, "%s", br_error_message());
    w->job.program = (struct br_sim_job_program){.with = w, .ended = ended, .progress = progress};
    w->hosts = calloc(plan->n, sizeof *w->hosts);
    for (uint32_t r = 0; w->hosts && r < plan->n; r++) {
        struct host *host = &w->hosts[r];

        host->small_numbers = numbers_of(r, (size_t)plan->n_small * plan->small / sizeof(float));
        host->large_numbers = numbers_of(r, (size_t)plan->n_large * plan->large / sizeof(float));
        if (!host->small_numbers || !host->large_numbers)
            return exact_wrong(w->result->wrong, "no memory for host %u", r);
    }
    return w->hosts || exact_wrong(w->result->wrong, "no memory for %u hosts", plan->n);
}

static void close_world(struct world *w)
{
    br_sim_job_close(&w->job);
    for (uint32_t r = 0; w->hosts && r < w->plan->n; r++) {
        free(w->hosts[r].small_numbers);
        free(w->hosts[r].large_numbers);
    }
    free(w->hosts);
}

static void check(struct world *w, uint32_t rank, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;

        for (uint32_t r = 0; r < w->plan->n; r++)
            sum += exact_number(r, (uint32_t)i);
        if (numbers[i] != sum) {
            exact_wrong(w->result->wrong, "rank %u: number %zu is %g, not %g", rank, i,
                        (double)numbers[i], (double)sum);
            return;
        }
    }
}

static void run(struct world *w)
{
    const struct urgent_plan *plan = w->plan;
    struct urgent_result *result = w->result;

    if (br_sim_job_connect(&w->job)) {
        exact_wrong(w->result->wrong, "%s", br_error_message());
        return;
    }
    w->start = br_sim_now(w->job.sim);
    for (uint32_t r = 0; r < plan->n; r++)
        br_sim_job_wake(&w->job, r);
    while (w->ended < plan->n * (plan->n_small + plan->n_large))
        if (br_sim_job_advance(&w->job) || result->wrong[0]) {
            exact_wrong(w->result->wrong, "%s", br_error_message());
            return;
        }
    result->n_small = plan->n_small;
    for (uint32_t i = 0; i < plan->n_small; i++)
        result->small_us[i] = (double)(w->small_end[i] - small_at(w, i)) / 1e3;
    if (plan->n_large)
        result->large_ms = (double)(w->large_end - w->start) / 1e6;
    for (uint32_t r = 0; r < plan->n; r++) {
        check(w, r, w->hosts[r].small_numbers, (size_t)plan->n_small * plan->small / sizeof(float));
        check(w, r, w->hosts[r].large_numbers, (size_t)plan->n_large * plan->large / sizeof(float));
    }
}

void urgent_run(const struct urgent_plan *plan, struct urgent_result *result)
{
    struct world w = {.plan = plan, .result = result};

    memset(result, 0, sizeof *result);
    if (open_world(&w))
        run(&w);
    close_world(&w);
}
