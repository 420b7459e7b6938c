/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/sim/training.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/trace.h"
#include "collectives/engine/operation.h"
#include "collectives/stats/tracing.h"
#include "protocol/worker.h"
#include "training/session/group.h"

/* Of an iteration: frames of a group that are closer than this are one span of a drawing, which has
 * no more pixels. */
#define SAME_SPAN (1. / 500)

struct rank {
    struct br_operation *ops; /* by group */
    bool *ended;              /* by group, in this iteration */
    bool forward, computing, done;
    uint32_t layer;          /* computing, or the next to be */
    uint64_t until;          /* it computes */
    uint64_t since;          /* it waits */
    uint64_t began;          /* the iteration */
    uint32_t iteration;      /* from 0 */
    double seconds, exposed; /* of iterations that count */
};

struct run {
    struct br_sim_job *job;
    const struct br_sim_training *training;
    struct br_timeline *line;
    struct br_gradient *gradients;
    struct br_layer_group *groups;
    uint32_t n_groups, done; /* ranks that are through */
    struct rank *ranks;
    void *memory;
    int failed;
    /* what rank 0 sends */
    struct br_trace *trace;
    uint32_t *by_order, submitted; /* groups of this iteration in the order of their submission */
    uint32_t *last;                /* by group: its last span, and 1; 0: it has none */
    uint32_t capacity;             /* of line->spans */
    double together;               /* s: SAME_SPAN of the iteration before */
};

static struct br_operation training_allreduce(const char *algorithm, void *memory, size_t count,
                                              int32_t priority)
{
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE,
                              .collective = BR_ALLREDUCE,
                              .send = memory,
                              .recv = memory,
                              .send_bytes = count * sizeof(float),
                              .recv_bytes = count * sizeof(float),
                              .count = count,
                              .type = BRAID_FLOAT32,
                              .reduction = BRAID_SUM,
                              .priority = priority};

    if (algorithm)
        snprintf(op.algorithm, sizeof op.algorithm, "%s", algorithm);
    return op;
}

/* The links that it takes are up before its time counts. */
static int training_prepare(struct br_sim_job *job, const char *algorithm, void *memory,
                            size_t count)
{
    struct br_operation op = training_allreduce(algorithm, memory, count, 0);

    return br_sim_job_connect_for(job, &op);
}

static uint64_t training_ns(double seconds)
{
    return (uint64_t)llround(seconds * 1e9);
}

/* ---- what rank 0's time line shows ----------------------------------------------------------- */

static void show_pass(struct run *run, const struct rank *r, uint64_t now)
{
    struct br_timeline_layer *layer = &run->line->layers[r->layer];
    double start = (double)(now - r->began) / 1e9, end = (double)(r->until - r->began) / 1e9;

    layer->group = run->gradients[r->layer].group;
    if (r->forward) {
        layer->forward = start;
        layer->forward_end = end;
    } else {
        layer->backward = start;
        layer->backward_end = end;
    }
}

static void show_ready(struct run *run, uint32_t g, double now)
{
    const struct br_layer_group *group = &run->groups[g];

    run->line->groups[g] =
        (struct br_timeline_group){.first = group->first,
                                   .last = group->last,
                                   .bytes = (double)(group->count * sizeof(float)),
                                   .ready = now};
}

static void add_span(struct run *run, uint32_t g, double start, double end)
{
    struct br_timeline *line = run->line;

    if (line->n_spans == run->capacity) {
        struct br_timeline_span *more =
            realloc(line->spans, 2 * (size_t)run->capacity * sizeof *more);

        if (!more) {
            run->failed =
                br_error(ENOMEM, "no memory for the spans of %u all-reduces", run->n_groups);
            return;
        }
        line->spans = more;
        run->capacity *= 2;
    }
    line->spans[line->n_spans++] = (struct br_timeline_span){g, start, end};
    run->last[g] = line->n_spans;
}

/* A frame that rank 0 has sent: it goes on with the group's last span, unless others had the link
 * for long in between. */
static void show_frame(void *with, const struct br_trace_event *event)
{
    struct run *run = with;
    struct rank *r = &run->ranks[0];
    uint64_t base = run->submitted ? r->ops[run->by_order[0]].order : 0,
             order = (uint64_t)event->args[0];
    double start = (double)(event->begin - r->began) / 1e9,
           end = (double)(event->end - r->began) / 1e9;
    struct br_timeline_span *span;
    uint32_t g;

    if (event->row < BR_TRACE_OWN_ROWS || event->begin == event->end || event->begin < r->began ||
        order < base || order - base >= run->submitted)
        return; /* a step, an arrival, or of the iteration before */
    g = run->by_order[order - base];
    span = run->last[g] ? &run->line->spans[run->last[g] - 1] : NULL;
    if (!span)
        run->line->groups[g].start = start;
    if (span && (run->last[g] == run->line->n_spans || start - span->end <= run->together))
        span->end = fmax(span->end, end);
    else
        add_span(run, g, start, end);
}

/* Of one that had nothing to send the whole time from ready to end is shown. */
static void training_show_end(struct run *run, uint32_t g, double now)
{
    struct br_timeline_group *group = &run->line->groups[g];

    if (!run->last[g]) {
        group->start = group->ready;
        add_span(run, g, group->start, now);
    }
    group->end = now;
    run->line->reduced = now;
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static void training_submit(struct run *run, uint32_t rank, uint32_t g, uint64_t now)
{
    const struct br_layer_group *group = &run->groups[g];
    struct rank *r = &run->ranks[rank];
    int rc;

    r->ended[g] = false;
    r->ops[g] =
        training_allreduce(run->training->algorithm, group->memory, group->count, group->priority);
    if (run->training->traces)
        br_tracing_begin(run->training->traces[rank], &r->ops[g], now);
    else
        r->ops[g].traced = rank == 0;
    if (rank == 0) {
        show_ready(run, g, (double)(now - r->began) / 1e9);
        run->by_order[run->submitted++] = g;
    }
    rc = br_sim_job_submit(run->job, rank, &r->ops[g]);
    run->failed = run->failed ? run->failed : rc;
}

static void training_begin_iteration(struct run *run, struct rank *r, uint64_t now)
{
    r->began = now;
    r->forward = false;
    r->layer = run->training->work->n - 1;
    if (r == run->ranks) {
        run->line->reduced = 0;
        run->line->n_spans = run->submitted = 0;
        memset(run->last, 0, run->n_groups * sizeof *run->last);
    }
}

static void end_iteration(struct run *run, struct rank *r, uint64_t now)
{
    if (r->iteration > 0)
        r->seconds += (double)(now - r->began) / 1e9;
    if (r == run->ranks)
        run->together = SAME_SPAN * (double)(now - r->began) / 1e9;
    if (++r->iteration == run->training->iterations) {
        r->done = true;
        run->done++;
        return;
    }
    training_begin_iteration(run, r, now);
}

/* The layer's pass is over. */
static void finish_layer(struct run *run, uint32_t rank, uint64_t now)
{
    struct rank *r = &run->ranks[rank];
    uint32_t g = run->gradients[r->layer].group;

    r->computing = false;
    r->since = now;
    if (r->forward) {
        if (++r->layer == run->training->work->n)
            end_iteration(run, r, now);
        return;
    }
    if (run->groups[g].first == r->layer)
        training_submit(run, rank, g, now);
    if (r->layer == 0)
        r->forward = true;
    else
        r->layer--;
}

/* false: it waits for a gradient, or is through. */
static bool begin_layer(struct run *run, uint32_t rank, uint64_t now)
{
    const struct br_layer *layer;
    struct rank *r = &run->ranks[rank];

    if (r->done || (r->forward && !r->ended[run->gradients[r->layer].group]))
        return false;
    layer = &run->training->work->layers[r->layer];
    if (r->forward && r->iteration > 0)
        r->exposed += (double)(now - r->since) / 1e9;
    r->computing = true;
    r->until = now + training_ns(r->forward ? layer->forward : layer->backward);
    if (rank == 0)
        show_pass(run, r, now);
    return true;
}

static uint64_t training_progress(void *with, uint32_t rank, uint64_t now)
{
    struct run *run = with;
    struct rank *r = &run->ranks[rank];

    while (!run->failed && (r->computing || begin_layer(run, rank, now))) {
        if (now < r->until)
            return r->until;
        finish_layer(run, rank, now);
    }
    return UINT64_MAX;
}

static void training_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    struct run *run = with;
    struct rank *r = &run->ranks[rank];
    uint32_t g = (uint32_t)(op - r->ops);

    r->ended[g] = true;
    if (run->training->traces)
        br_tracing_end(run->training->traces[rank], op, now);
    if (rank == 0)
        training_show_end(run, g, (double)(now - r->began) / 1e9);
    if (op->status && !run->failed)
        run->failed = br_error(-op->status, "rank %u: %s", rank, op->message);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int training_lay_out(struct run *run)
{
    const struct br_workload *work = run->training->work;
    double bytes = 0;
    uint8_t *at;

    if (!work->n)
        return br_error(EINVAL, "a model without layers");
    for (uint32_t l = 0; l < work->n; l++)
        bytes += work->layers[l].bytes;
    run->gradients = calloc(work->n, sizeof *run->gradients);
    run->groups = calloc(work->n, sizeof *run->groups);
    run->memory = calloc(1, (size_t)bytes + sizeof(float));
    if (!run->gradients || !run->groups || !run->memory)
        return br_error(ENOMEM, "no memory for %.0f bytes of gradients", bytes);
    at = run->memory;
    for (uint32_t l = 0; l < work->n; l++) {
        run->gradients[l].memory = at;
        run->gradients[l].count = (size_t)work->layers[l].bytes / sizeof(float);
        at += run->gradients[l].count * sizeof(float);
    }
    run->n_groups = br_groups_lay_out(run->gradients, work->n, sizeof(float), run->training->joins,
                                      run->training->urgent, NULL, run->groups);
    run->line->n_layers = work->n;
    run->line->n_groups = run->n_groups;
    return 0;
}

static int open_ranks(struct run *run)
{
    if (!run->n_groups)
        return br_error(EINVAL, "a plan without groups");
    run->ranks = calloc(run->job->n, sizeof *run->ranks);
    run->by_order = calloc(run->n_groups, sizeof *run->by_order);
    run->last = calloc(run->n_groups, sizeof *run->last);
    if (!run->ranks || !run->by_order || !run->last)
        return br_error(ENOMEM, "no memory for %u ranks", run->job->n);
    run->capacity = 2 * run->line->n_layers; /* br_timeline_open() */
    if (br_trace_open_sink(show_frame, run, &run->trace))
        return -ENOMEM;
    run->job->ranks[0].worker->config.trace = run->trace;
    for (uint32_t r = 0; r < run->job->n; r++) {
        struct rank *rank = &run->ranks[r];

        if (run->training->traces) {
            run->job->ranks[r].worker->config.trace = run->training->traces[r];
            br_tracing_name(run->job->ranks[r].worker);
        }
        rank->ops = calloc(run->n_groups, sizeof *rank->ops);
        rank->ended = calloc(run->n_groups, sizeof *rank->ended);
        if (!rank->ops || !rank->ended)
            return br_error(ENOMEM, "no memory for %u operations of %u ranks", run->n_groups,
                            run->job->n);
        training_begin_iteration(run, rank, br_sim_host_now(run->job->sim, (int)r));
        br_sim_job_wake(run->job, r);
    }
    return 0;
}

static void close_run(struct run *run)
{
    run->job->program = (struct br_sim_job_program){0};
    for (uint32_t r = 0; r < run->job->n; r++)
        run->job->ranks[r].worker->config.trace = NULL;
    br_trace_close(run->trace);
    free(run->by_order);
    free(run->last);
    for (uint32_t r = 0; run->ranks && r < run->job->n; r++) {
        free(run->ranks[r].ops);
        free(run->ranks[r].ended);
    }
    free(run->ranks);
    free(run->gradients);
    free(run->groups);
    free(run->memory);
}

static void sum_up(struct run *run)
{
    uint32_t counted = run->training->iterations - 1;

    run->line->iteration = run->line->exposed = 0;
    for (uint32_t r = 0; r < run->job->n; r++) {
        run->line->iteration = fmax(run->line->iteration, run->ranks[r].seconds / counted);
        run->line->exposed = fmax(run->line->exposed, run->ranks[r].exposed / counted);
    }
    run->line->delay = run->line->layers[0].forward - run->line->layers[0].backward_end;
}

int br_sim_training_run(struct br_sim_job *job, const struct br_sim_training *training,
                        struct br_timeline *line)
{
    struct run run = {.job = job, .training = training, .line = line};
    int rc = training_lay_out(&run);

    for (uint32_t g = 0; g < run.n_groups && !rc; g++)
        rc = training_prepare(job, training->algorithm, run.groups[g].memory, run.groups[g].count);
    if (!rc)
        rc = open_ranks(&run);
    job->program = (struct br_sim_job_program){
        .with = &run, .ended = training_ended, .progress = training_progress};
    while (!rc && run.done < job->n) {
        rc = br_sim_job_advance(job);
        rc = rc ? rc : run.failed;
    }
    if (!rc)
        sum_up(&run);
    close_run(&run);
    return rc;
}

/* ---- one size -------------------------------------------------------------------------------- */

struct burst {
    uint32_t ended;
    int failed;
    uint64_t end;
};

static void burst_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    struct burst *burst = with;

    (void)rank;
    burst->ended++;
    burst->end = now > burst->end ? now : burst->end;
    burst->failed = burst->failed ? burst->failed : op->status;
}

int br_sim_training_time(struct br_sim_job *job, const char *algorithm, uint64_t bytes,
                         uint32_t at_once, double *seconds)
{
    size_t count = bytes / sizeof(float);
    struct br_operation *ops = calloc((size_t)job->n * at_once, sizeof *ops);
    float *memory = calloc(at_once, count * sizeof *memory);
    struct burst burst = {0};
    uint64_t start;
    int rc = ops && memory
                 ? 0
                 : br_error(ENOMEM, "no memory for %u all-reduces of %zu elements", at_once, count);

    if (!rc)
        rc = training_prepare(job, algorithm, memory, count);
    start = br_sim_now(job->sim);
    job->program = (struct br_sim_job_program){.with = &burst, .ended = burst_ended};
    for (uint32_t i = 0; i < job->n * at_once && !rc; i++) {
        ops[i] = training_allreduce(algorithm, memory + i % at_once * count, count, 0);
        rc = br_sim_job_submit(job, i / at_once, &ops[i]);
    }
    while (!rc && burst.ended < job->n * at_once) {
        rc = br_sim_job_advance(job);
        rc = rc ? rc : burst.failed;
    }
    *seconds = (double)(burst.end - start) / 1e9 / at_once;
    job->program = (struct br_sim_job_program){0};
    free(memory);
    free(ops);
    return rc;
}

/* ---- one that overtakes another -------------------------------------------------------------- */

struct overtake {
    struct br_sim_job *job;
    struct br_operation *ops; /* a rank's less urgent one, and its urgent one */
    bool *started;
    uint64_t begin; /* of the urgent ones */
    uint32_t ended;
    int failed;
    uint64_t end;
};

static void overtake_ended(void *with, uint32_t rank, struct br_operation *op, uint64_t now)
{
    struct overtake *o = with;

    o->ended++;
    if (op == &o->ops[2 * rank + 1])
        o->end = now > o->end ? now : o->end;
    o->failed = o->failed ? o->failed : op->status;
}

static uint64_t overtake_progress(void *with, uint32_t rank, uint64_t now)
{
    struct overtake *o = with;
    int rc;

    if (o->started[rank])
        return UINT64_MAX;
    if (now < o->begin)
        return o->begin;
    o->started[rank] = true;
    rc = br_sim_job_submit(o->job, rank, &o->ops[2 * rank + 1]);
    o->failed = o->failed ? o->failed : rc;
    return UINT64_MAX;
}

int br_sim_training_overtake(struct br_sim_job *job, const char *algorithm, uint64_t bytes,
                             uint64_t others, double after, double *seconds)
{
    size_t count = bytes / sizeof(float), large = others / sizeof(float);
    struct overtake o = {.job = job};
    float *memory = calloc(count + large, sizeof *memory);
    int rc;

    o.ops = calloc(2 * (size_t)job->n, sizeof *o.ops);
    o.started = calloc(job->n, sizeof *o.started);
    rc = o.ops && o.started && memory
             ? 0
             : br_error(ENOMEM, "no memory for %zu elements", count + large);
    if (!rc)
        rc = training_prepare(job, algorithm, memory + count, large);
    if (!rc)
        rc = training_prepare(job, algorithm, memory, count);
    o.begin = br_sim_now(job->sim) + training_ns(after);
    job->program = (struct br_sim_job_program){
        .with = &o, .ended = overtake_ended, .progress = overtake_progress};
    for (uint32_t r = 0; r < job->n && !rc; r++) {
        struct br_operation *ops = &o.ops[2 * (size_t)r];

        ops[0] = training_allreduce(algorithm, memory + count, large, 0);
        ops[1] = training_allreduce(algorithm, memory, count, 1);
        rc = br_sim_job_submit(job, r, &ops[0]);
    }
    while (!rc && o.ended < 2 * job->n) {
        rc = br_sim_job_advance(job);
        rc = rc ? rc : o.failed;
    }
    *seconds = (double)(o.end - o.begin) / 1e9;
    job->program = (struct br_sim_job_program){0};
    free(memory);
    free(o.ops);
    free(o.started);
    return rc;
}
