/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A session measures, then plans: doc/design/replan.md, sections 1 to 5.
 */
#include "training/session/session.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/tuning/tuning.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/engine/group.h"

#define AT_ONCE     4
#define LEAST_BYTES (4u << 10)
#define MOST_BYTES  (1u << 20)
#define SIZES       5    /* each four times the one before */
#define ROUNDS      3    /* after one that is not timed; the fastest counts */
#define LONG_ENOUGH 0.05 /* s for all at once: larger sizes are not measured */
#define LONGEST     0.2  /* the same, of those that something more urgent overtakes */
#define GAIN        0.01
#define DRIFT       0.1
#define WORTH       1.5 /* times what `auto` is predicted to take: a plan beyond is not tried */

/* What rank 0 tells. */
struct decision {
    double policies[BRAID_SESSION_POLICIES];
    double iteration, exposed; /* of the present plan */
    uint8_t failed;
    /* Last, as what is behind the plans of our layers is not told. Without plans: the present one
     * stays. */
    struct br_autotune autotune;
};

/* ---- a and b --------------------------------------------------------------------------------- */

static int replan_start_all(struct braid_session *s, uint8_t *memory, size_t bytes,
                            struct braid_op *ops[AT_ONCE])
{
    struct braid_options options = {.algorithm = s->algorithm, .order = s->options.order};
    int rc = 0;

    for (size_t i = 0; i < AT_ONCE && !rc; i++)
        rc = braid_allreduce(s->comm, memory + i * bytes, memory + i * bytes, bytes / sizeof(float),
                             BRAID_FLOAT32, BRAID_SUM, &options, &ops[i]);
    return rc;
}

/* Seconds of one of AT_ONCE all-reduces of `bytes` bytes; the same on all ranks. */
static int time_size(struct braid_session *s, uint8_t *memory, size_t bytes, double *seconds)
{
    int rc = 0;

    *seconds = INFINITY;
    for (int round = -1; round < ROUNDS && !rc; round++) {
        struct braid_op *ops[AT_ONCE] = {0};
        uint64_t start;

        rc = braid_barrier(s->comm, NULL, NULL);
        start = br_comm_now(s->comm);
        if (!rc)
            rc = replan_start_all(s, memory, bytes, ops);
        for (int i = 0; i < AT_ONCE; i++) {
            int failed = ops[i] ? braid_wait(ops[i], -1) : 0;

            rc = rc ? rc : failed;
        }
        if (round >= 0)
            *seconds = fmin(*seconds, (double)(br_comm_now(s->comm) - start) / 1e9 / AT_ONCE);
    }
    *seconds = fmax(*seconds, 1e-9); /* however coarse the clock: no time would be no sample */
    return rc ? rc
              : braid_allreduce(s->comm, seconds, seconds, 1, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
}

static int cost_of_calibration(struct braid_session *s)
{
    struct br_cost_line_sample samples[SIZES];
    uint32_t n = 0;
    int rc = 0;

    for (size_t bytes = LEAST_BYTES; bytes <= MOST_BYTES && !rc; bytes *= 4) {
        struct br_tuning tuning;

        rc = br_tuning_choose(&s->comm->group->model, BR_ALLREDUCE, (uint32_t)s->comm->size,
                              (double)bytes, &tuning);
        samples[n++] = (struct br_cost_line_sample){(double)bytes, tuning.seconds};
    }
    return rc ? rc : br_cost_line_measure(samples, n, &s->work.cost);
}

static int measure_cost(struct braid_session *s)
{
    uint8_t *memory = braid_alloc(s->comm, (size_t)AT_ONCE * MOST_BYTES);
    struct br_cost_line_sample samples[SIZES];
    uint32_t n = 0;
    int rc = memory ? 0 : -ENOMEM;

    for (size_t bytes = LEAST_BYTES; bytes <= MOST_BYTES && !rc; bytes *= 4) {
        samples[n].bytes = (double)bytes;
        rc = time_size(s, memory, bytes, &samples[n].seconds);
        if (samples[n++].seconds * AT_ONCE > LONG_ENOUGH)
            break;
    }
    if (memory)
        braid_free(s->comm, memory);
    return rc ? rc : br_cost_line_measure(samples, n, &s->work.cost);
}

/* Seconds of an urgent all-reduce of half of `bytes` among larger ones; of the slowest rank when
 * nothing disturbs. */
static int time_overtaking(struct braid_session *s, uint8_t *memory, size_t bytes, double *seconds)
{
    struct braid_options urgent = {
        .priority = 1, .algorithm = s->algorithm, .order = s->options.order};
    int rc = 0;

    *seconds = INFINITY;
    for (int round = -1; round < ROUNDS && !rc; round++) {
        struct braid_op *ops[AT_ONCE] = {0};
        uint64_t start;

        rc = braid_barrier(s->comm, NULL, NULL);
        if (!rc)
            rc = replan_start_all(s, memory, bytes, ops);
        for (int i = 0; i < AT_ONCE; i++) {
            int failed = ops[i] ? braid_wait(ops[i], -1) : 0;

            rc = rc ? rc : failed;
            if (i || rc)
                continue;
            start = br_comm_now(s->comm);
            rc =
                braid_allreduce(s->comm, memory + AT_ONCE * bytes, memory + AT_ONCE * bytes,
                                bytes / 2 / sizeof(float), BRAID_FLOAT32, BRAID_SUM, &urgent, NULL);
            if (round >= 0)
                *seconds = fmin(*seconds, (double)(br_comm_now(s->comm) - start) / 1e9);
        }
    }
    return rc ? rc
              : braid_allreduce(s->comm, seconds, seconds, 1, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
}

static int measure_overtaking(struct braid_session *s)
{
    const struct br_cost_line *cost = &s->work.cost;
    uint64_t bytes = MOST_BYTES;
    uint8_t *memory;
    double seconds;
    int rc;

    while (bytes > LEAST_BYTES && AT_ONCE * br_cost_line_seconds(cost, (double)bytes) > LONGEST)
        bytes /= 4;
    rc = braid_broadcast(s->comm, &bytes, &bytes, 1, BRAID_UINT64, 0, NULL, NULL); /* section 1 */
    if (rc)
        return rc;
    memory = braid_alloc(s->comm, (AT_ONCE + 1) * bytes);
    if (!memory)
        return -ENOMEM;
    rc = time_overtaking(s, memory, bytes, &seconds);
    braid_free(s->comm, memory);
    if (!rc)
        s->work.overtake = fmax(seconds - br_cost_line_seconds(cost, (double)bytes / 2), 0);
    return rc;
}

static int replan_measure(struct braid_session *s)
{
    bool calibrated = s->comm->context->network.measured && s->comm->size > 1 && !s->algorithm[0];
    int rc = 0;

    if (!s->has_cost)
        rc = calibrated ? cost_of_calibration(s) : measure_cost(s);
    s->has_cost = !rc;
    if (!rc && s->comm->size > 1)
        rc = measure_overtaking(s);
    s->is_measured = !rc;
    return rc;
}

/* ---- times ----------------------------------------------------------------------------------- */

/* The largest of all ranks; *iteration is what one took on this rank, 0: not known. */
static int gather_times(struct braid_session *s, double *iteration)
{
    size_t n = 2 * (size_t)s->n;
    double *times = calloc(n + 1, sizeof *times);
    int rc;

    if (!times)
        return br_error(ENOMEM, "no memory for the times of %u layers", s->n);
    br_profiler_times(&s->profiler, s->layers);
    for (size_t l = 0; l < s->n; l++) {
        times[2 * l] = s->layers[l].forward;
        times[2 * l + 1] = s->layers[l].backward;
    }
    times[n] = *iteration;
    rc = braid_allreduce(s->comm, times, times, n + 1, BRAID_FLOAT64, BRAID_MAX, NULL, NULL);
    for (size_t l = 0; l < s->n && !rc; l++) {
        s->layers[l].forward = times[2 * l];
        s->layers[l].backward = times[2 * l + 1];
    }
    *iteration = times[n];
    free(times);
    return rc;
}

/* Has an iteration's time changed since the first look after the last autotune? */
static bool replan_has_changed(struct braid_session *s, double iteration)
{
    if (s->tuned_seconds <= 0)
        s->tuned_seconds = iteration;
    return fabs(iteration - s->tuned_seconds) > DRIFT * s->tuned_seconds;
}

/* ---- the plan -------------------------------------------------------------------------------- */

static bool replan_is_autotuned(const struct braid_session *s)
{
    return s->policy == BR_POLICY_AUTO && s->comm->size > 1;
}

/* Is the policy's plan to be taken, or tried? */
static bool replan_is_wanted(const struct braid_session *s, const struct decision *d,
                             enum br_policy policy, bool drifted)
{
    if (replan_is_autotuned(s))
        return (!s->has_plan || drifted) &&
               d->policies[policy] <= d->policies[BR_POLICY_AUTO] * WORTH;
    return policy == s->policy && (!s->has_plan || d->policies[policy] < d->iteration * (1 - GAIN));
}

static int replan_decide(struct braid_session *s, struct decision *d, bool drifted)
{
    static const enum br_policy order[BR_POLICIES] = {
        BR_POLICY_AUTO,   BR_POLICY_P3,        BR_POLICY_OPTIMAL, BR_POLICY_MGWFBP,
        BR_POLICY_BUCKET, BR_POLICY_LAYERWISE, BR_POLICY_SINGLE};
    uint8_t joins[BRAID_SESSION_LAYERS];
    struct br_policy_plan plan = {.joins = joins};
    struct br_timeline line;
    int rc = br_timeline_open(&line, s->n);

    if (rc)
        return rc;
    br_timeline_run(&line, &s->work, s->joins, s->urgent);
    d->iteration = line.iteration;
    d->exposed = line.exposed;
    for (int i = 0; i < BR_POLICIES && !rc; i++) {
        rc = br_policy_make(order[i], &s->work, &plan);
        d->policies[order[i]] = plan.iteration;
        if (rc || !replan_is_wanted(s, d, order[i], drifted))
            continue;
        br_timeline_run(&line, &s->work, joins, plan.urgent);
        br_autotune_add(&d->autotune, order[i], &plan, line.exposed);
    }
    br_timeline_close(&line);
    return rc;
}

static int replan_take(struct braid_session *s, const struct br_autotune_plan *plan)
{
    s->report.predicted_iteration = plan->iteration;
    s->report.predicted_exposed = plan->exposed;
    return br_session_lay_out(s, br_autotune_joins(&s->autotune, plan), plan->urgent);
}

static int replan_follow(struct braid_session *s, const struct decision *d)
{
    if (d->failed)
        return br_error(ENOMEM, "rank 0 could not plan");
    memcpy(s->report.policies, d->policies, sizeof d->policies);
    s->report.predicted_iteration = d->iteration;
    s->report.predicted_exposed = d->exposed;
    s->has_plan = true;
    memcpy(&s->autotune, &d->autotune, br_autotune_bytes(&d->autotune));
    if (!s->autotune.n)
        return 0;
    s->report.plans++;
    s->tuned_seconds = 0;
    return replan_take(s, br_autotune_next(&s->autotune));
}

static void replan_restart_window(struct braid_session *s)
{
    s->planned_at = s->report.iterations;
    br_profiler_reset(&s->profiler);
    s->shortest = 0;
}

int br_session_replan(struct braid_session *s)
{
    double shortest = s->shortest;
    struct decision *d;
    bool drifted;
    int rc = s->is_measured ? 0 : replan_measure(s);

    s->report.iteration = br_profiler_iteration(&s->profiler, &s->report.exposed);
    if (!rc)
        rc = gather_times(s, &shortest);
    if (rc)
        return rc;
    drifted = s->has_plan && replan_has_changed(s, shortest);
    d = calloc(1, sizeof *d);
    if (!d)
        return br_error(ENOMEM, "no memory to plan");
    d->autotune.layers = s->n;
    if (braid_rank(s->comm) == 0)
        d->failed = replan_decide(s, d, drifted) != 0;
    rc = braid_broadcast(s->comm, d, d,
                         offsetof(struct decision, autotune) + br_autotune_bytes(&d->autotune),
                         BRAID_UINT8, 0, NULL, NULL);
    if (!rc)
        rc = replan_follow(s, d);
    free(d);
    replan_restart_window(s);
    return rc;
}

/* ---- autotuning ------------------------------------------------------------------------------ */

/* The slowest rank's times count, and rank 0 tells which plan stays (section 1). */
static int replan_use_fastest(struct braid_session *s)
{
    struct br_autotune *autotune = &s->autotune;
    uint32_t fastest;
    int rc = braid_allreduce(s->comm, autotune->seconds, autotune->seconds, autotune->done,
                             BRAID_FLOAT64, BRAID_MAX, NULL, NULL);

    if (rc)
        return rc;
    fastest = br_autotune_fastest(autotune);
    rc = braid_broadcast(s->comm, &fastest, &fastest, 1, BRAID_UINT32, 0, NULL, NULL);
    if (rc)
        return rc;
    memset(s->report.tried, 0, sizeof s->report.tried);
    for (uint32_t p = 0; p < autotune->n; p++)
        for (int policy = 0; policy < BR_POLICIES; policy++)
            if (autotune->plans[p].policies & 1u << policy)
                s->report.tried[policy] = br_autotune_seconds(autotune, p);
    s->report.iteration = br_autotune_seconds(autotune, fastest);
    s->report.exposed = 0;
    replan_restart_window(s);
    return replan_take(s, &autotune->plans[fastest]);
}

int br_session_try(struct braid_session *s, double seconds)
{
    br_autotune_note(&s->autotune, seconds);
    return br_autotune_left(&s->autotune) ? replan_take(s, br_autotune_next(&s->autotune))
                                          : replan_use_fastest(s);
}
