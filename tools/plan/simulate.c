/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/comm/settings.h"
#include "tools/common/workload.h"

#define FORWARD_BYTES 1500u /* as switches with packets of this size; our frames are longer */
#define LEAST_BYTES   4096.0
#define STEP          4.0
#define PART          8.0 /* of the gradients: what overtakes all of them */

static int simulate_parse(const char *option, const char *text, double least, double most,
                          double *value)
{
    if (!text || (br_tool_numbers(text, 1, value) == 0 && *value >= least && *value <= most))
        return 0;
    return br_error(EINVAL, "%s %s: must be a number from %g to %g", option, text, least, most);
}

int br_plan_simulation_open(struct br_plan_simulation *s, const struct br_plan_settings *set,
                            const struct br_cost_model *model)
{
    const struct br_topology *topology = model->topology;
    uint32_t rails = set->rails ? (uint32_t)set->rails : 1;
    struct br_cost_model *figures = &s->config.model;
    double gbit = 10, latency = 20;
    struct br_algorithm_config config;
    int rc = simulate_parse("--gbit", set->gbit, 1e-3, 1e4, &gbit);

    if (!rc)
        rc = simulate_parse("--latency", set->latency, 0.01, 1e6, &latency);
    if (rc)
        return rc;
    if (set->algorithm && strcmp(set->algorithm, "auto") != 0 &&
        (rc = br_algorithm_config_parse(topology, set->algorithm, &config)) != 0)
        return br_error_prefix(rc, "--algorithm: ");
    *s = (struct br_plan_simulation){
        .config = {.topology = topology,
                   .rails = rails,
                   .network = {.seed = set->seed ? (uint64_t)set->seed : 1,
                               .bits_per_second = (uint64_t)(gbit * 1e9),
                               /* of a cable; a path has two */
                               .latency_ns = (uint64_t)(latency * 1e3 / 2),
                               .forward_bytes = FORWARD_BYTES,
                               .hollow = true}},
        .algorithm = set->algorithm,
        .iterations = set->iterations ? (uint32_t)set->iterations : 3};
    br_cost_model_on(figures, topology, BR_COST_NETWORK, rails);
    figures->chunk_bytes = model->chunk_bytes;
    s->config.chunk_bytes = (uint32_t)model->chunk_bytes;
    figures->gamma = figures->copy = 0; /* simulated hosts add up in no time */
    for (uint32_t i = 0; i < figures->n_levels; i++)
        figures->levels[i] = (struct br_cost_level){.alpha = latency * 1e-6, .beta = 8e-9 / gbit};
    return 0;
}

int br_plan_simulation_cost(const struct br_plan_simulation *s, const struct br_workload *work,
                            struct br_cost_line *cost)
{
    double all = 0, bytes = INFINITY;
    struct br_cost_line_sample samples[BR_COST_FIT_POINTS];
    struct br_sim_job job;
    uint32_t n = 0;
    int rc;

    for (uint32_t l = 0; l < work->n; l++) {
        all += work->layers[l].bytes;
        bytes = fmin(bytes, work->layers[l].bytes);
    }
    rc = br_sim_job_open(&job, &s->config);
    if (rc)
        return rc;
    for (bytes = fmin(fmax(bytes, LEAST_BYTES), all); !rc; bytes = fmin(STEP * bytes, all)) {
        struct br_cost_line_sample *sample = &samples[n++];

        sample->bytes = bytes;
        rc = br_sim_training_time(&job, s->algorithm, (uint64_t)bytes, 1, &sample->seconds);
        if (bytes >= all || n == BR_COST_FIT_POINTS)
            break;
    }
    br_sim_job_close(&job);
    return rc ? rc : br_cost_line_measure(samples, n, cost);
}

int br_plan_simulation_overtake(const struct br_plan_simulation *s, const struct br_workload *work,
                                double *behind)
{
    double all = 0, alone = 0, taken = 0, bytes;
    struct br_sim_job job;
    int rc = br_sim_job_open(&job, &s->config);

    if (rc)
        return rc;
    for (uint32_t l = 0; l < work->n; l++)
        all += work->layers[l].bytes;
    all = fmax(all, PART * LEAST_BYTES);
    bytes = all / PART;
    rc = br_sim_training_time(&job, s->algorithm, (uint64_t)bytes, 1, &alone);
    /* when the other is well under way; the second time, as the first urgent one finds the longer
     * windows of rails that nothing urgent has shared */
    for (int i = 0; i < 2 && !rc; i++)
        rc = br_sim_training_overtake(&job, s->algorithm, (uint64_t)bytes, (uint64_t)all,
                                      br_cost_line_seconds(&work->cost, all) / 4, &taken);
    br_sim_job_close(&job);
    *behind = fmax(taken - alone, 0);
    return rc;
}

int br_plan_simulation_open_traces(struct br_plan_simulation *s)
{
    static struct br_settings wanted;
    uint32_t n = s->config.topology->n;
    char path[BR_TRACE_PATH];
    int rc = br_settings_read_trace(&wanted, INT64_MAX / 2);

    if (rc || !wanted.trace[0])
        return rc;
    s->traces = calloc(n, sizeof(struct br_trace *));
    if (!s->traces)
        return br_error(ENOMEM, "BRAID_TRACE: no memory for the files of %u ranks", n);
    for (uint32_t r = 0; r < n && !rc; r++) {
        rc = br_trace_path(wanted.trace, (int)r, (int)n, path);
        if (rc)
            br_error_prefix(rc, "BRAID_TRACE=");
        else
            rc = br_trace_open_virtual(path, (int)r, wanted.trace_bytes, wanted.trace_details,
                                       &s->traces[r]);
    }
    if (rc == -EMFILE)
        br_error(EMFILE,
                 "BRAID_TRACE: %u ranks have a file each, and fewer may be open; raise `ulimit -n`",
                 n);
    return rc ? br_plan_simulation_close_traces(s, rc) : 0;
}

int br_plan_simulation_close_traces(struct br_plan_simulation *s, int rc)
{
    for (uint32_t r = 0; s->traces && r < s->config.topology->n; r++)
        rc = br_trace_close_virtual(s->traces[r], rc);
    free(s->traces);
    s->traces = NULL;
    return rc;
}

int br_plan_simulation_run(const struct br_plan_simulation *s, const struct br_workload *work,
                           const struct br_policy_plan *plan, bool traces, struct br_timeline *line)
{
    struct br_sim_training training = {.work = work,
                                       .joins = plan->joins,
                                       .urgent = plan->urgent,
                                       .algorithm = s->algorithm,
                                       .iterations = s->iterations,
                                       .traces = traces ? s->traces : NULL};
    struct br_sim_job job;
    int rc = br_sim_job_open(&job, &s->config);

    if (rc)
        return rc;
    rc = br_sim_training_run(&job, &training, line);
    br_sim_job_close(&job);
    return rc;
}
