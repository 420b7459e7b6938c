/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. A job is a step in one fragment; job = fragment * steps of all ranks + number of the step. So of the
 *    jobs of a rank the smallest is the one to do first.
 * 2. Ports are named by rank, direction and level; which of them a message holds is the topology's matter (topology.h):
 *    both ends of each link of its route, all levels of a FLAT message that may use any, the shared ports of a host.
 * 3. A job that may start but has to wait for a port or the processor stands in a list of its rank: SENDs
 *    among `out`, RECVs among `in` (only when their SEND may start too), others among `cpu`. Whenever
 *    something happened to a rank, its lists are gone through; where ranks share ports, those of all ranks. All events of one moment are taken first, so
 *    that nothing starts that should have come second.
 */
#include "collectives/timing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/list.h"
#include "collectives/matching.h"

enum { OUT, IN, CPU, LISTS };

struct job {
    struct br_list node; /* in a list of its rank while it waits for a port or the processor */
    uint32_t waits;
};

struct rank {
    struct br_list lists[LISTS];
    bool busy[LISTS][BR_COST_LEVELS]; /* CPU uses the first */
    bool touched;                     /* something happened to it at this moment */
};

struct event {
    double time;
    uint32_t job;
    bool freed; /* a SEND's ports are free; otherwise the job has ended */
};

struct state {
    const struct br_cost_model *model;
    const struct br_topology *topology;
    struct br_topology flat; /* where the model has none */
    struct br_matching m;
    double piece; /* bytes of one piece in one fragment */
    uint32_t n_jobs;
    struct job *jobs;
    struct rank *ranks;
    struct event *heap;
    uint32_t n_heap, *touched, n_touched;
    double now;
};

static const struct br_step *step_of(const struct state *s, uint32_t job)
{
    return br_matching_step(&s->m, job % s->m.n_steps);
}

static uint32_t rank_of(const struct state *s, uint32_t job)
{
    return s->m.rank[job % s->m.n_steps];
}

static uint32_t partner_of(const struct state *s, uint32_t job)
{
    uint32_t number = job % s->m.n_steps;

    return job - number + s->m.partner[number];
}

static bool before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->job < b->job;
}

static void push(struct state *s, double delay, uint32_t job, bool freed)
{
    struct event event = {s->now + delay, job, freed};
    uint32_t at = s->n_heap++;

    for (; at > 0 && before(&event, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = event;
}

static struct event pop(struct state *s)
{
    struct event top = s->heap[0], last = s->heap[--s->n_heap];
    uint32_t at = 0, child;

    for (; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!before(&s->heap[child], &last))
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

static void touch(struct state *s, uint32_t rank)
{
    if (!s->ranks[rank].touched)
        s->touched[s->n_touched++] = rank;
    s->ranks[rank].touched = true;
}

/* A job may start: it waits in the list of its rank; messages when the other end may, too. */
static void enlist(struct state *s, uint32_t job)
{
    uint32_t rank = rank_of(s, job), partner;
    const struct br_step *step = step_of(s, job);

    touch(s, rank);
    if (step->kind != BR_STEP_SEND && step->kind != BR_STEP_RECV) {
        br_list_push_back(&s->ranks[rank].lists[CPU], &s->jobs[job].node);
        return;
    }
    partner = partner_of(s, job);
    if (s->jobs[partner].waits > 0)
        return;
    touch(s, rank_of(s, partner));
    br_list_push_back(&s->ranks[rank].lists[step->kind == BR_STEP_SEND ? OUT : IN], &s->jobs[job].node);
    br_list_push_back(&s->ranks[rank_of(s, partner)].lists[step->kind == BR_STEP_SEND ? IN : OUT],
                      &s->jobs[partner].node);
}

static void release(struct state *s, uint32_t job)
{
    if (--s->jobs[job].waits == 0)
        enlist(s, job);
}

static void finish(struct state *s, uint32_t job)
{
    const struct br_step *step = step_of(s, job);
    uint32_t number = job % s->m.n_steps, rank = rank_of(s, job);
    const struct br_schedule *schedule = s->m.schedules[rank];

    for (uint32_t i = 0; i < step->n_successors; i++)
        release(s, job - number + s->m.base[rank] + schedule->successors[step->first_successor + i]);
}

/* One end of a link: takes or gives back its ports; only asks whether they are idle when `take` is NULL. */
static bool ports(struct state *s, uint32_t rank, int list, uint8_t level, const bool *take)
{
    bool idle = true;

    if (list == IN && br_topology_is_memory(s->topology, level))
        return true;
    rank = br_topology_port(s->topology, rank, level);
    for (uint32_t l = 0; l < s->model->n_levels; l++) {
        if (level < s->model->n_levels && l != level)
            continue;
        idle &= !s->ranks[rank].busy[list][l];
        if (take)
            s->ranks[rank].busy[list][l] = *take;
    }
    return idle;
}

/* All ports of a message. The level is the sender's choice; both ends may differ only by mistake, and then cost the same. */
static bool all_ports(struct state *s, uint32_t send, const bool *take)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    uint32_t n = br_topology_route(s->topology, rank_of(s, send), rank_of(s, partner_of(s, send)),
                                   step_of(s, send)->level, hops);
    bool idle = true;

    for (uint32_t i = 0; i < n; i++) {
        idle &= ports(s, hops[i].from, OUT, hops[i].level, take);
        idle &= ports(s, hops[i].to, IN, hops[i].level, take);
    }
    return idle;
}

/* Seconds for which a message holds its ports, those of the slowest link, and its latency. */
static double message_time(struct state *s, uint32_t send, double bytes, double *alpha)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    uint32_t n = br_topology_route(s->topology, rank_of(s, send), rank_of(s, partner_of(s, send)),
                                   step_of(s, send)->level, hops);
    double slowest = 0;

    *alpha = n > 1 ? (n - 1) * s->model->relay : 0;
    for (uint32_t i = 0; i < n; i++) {
        struct br_cost_level cost = br_cost_message(s->model, hops[i].level);

        *alpha += cost.alpha;
        slowest = fmax(slowest, cost.overhead + bytes * cost.beta);
    }
    return slowest;
}

static bool may_start(struct state *s, uint32_t job, int list)
{
    if (list == CPU)
        return !s->ranks[rank_of(s, job)].busy[CPU][0];
    return all_ports(s, list == IN ? partner_of(s, job) : job, NULL);
}

static void start(struct state *s, uint32_t job, int list)
{
    const struct br_step *step = step_of(s, job);
    double bytes = step->span.count * s->piece;

    br_list_remove(&s->jobs[job].node);
    if (list == CPU) {
        s->ranks[rank_of(s, job)].busy[CPU][0] = true;
        push(s,
             step->kind == BR_STEP_COPY ? bytes * s->model->copy
                                        : bytes * s->model->gamma * (step->n_sources - 1),
             job, false);
    } else {
        uint32_t send = list == IN ? partner_of(s, job) : job;
        double alpha, held = message_time(s, send, bytes, &alpha);

        br_list_remove(&s->jobs[partner_of(s, job)].node);
        all_ports(s, send, &(bool){true});
        push(s, held, send, true);
        push(s, held + alpha, partner_of(s, send), false);
    }
}

/* Whether the receiver of a message could start one of an earlier fragment. It is then asked what it takes. */
static bool is_outranked(struct state *s, uint32_t send)
{
    uint32_t receiver = rank_of(s, partner_of(s, send)), fragment = send / s->m.n_steps;

    br_list_for_each (node, &s->ranks[receiver].lists[IN]) {
        uint32_t job = (uint32_t)(br_container_of(node, struct job, node) - s->jobs);

        if (job / s->m.n_steps < fragment && may_start(s, job, IN)) {
            touch(s, receiver);
            return true;
        }
    }
    return false;
}

/* Starts what stands in a list of a rank and can start, the first first. At one moment first all ranks choose what they
 * send, then what they receive: so nobody draws the messages of a sender out of their order, nor pushes a later fragment
 * before an earlier one of somebody else. */
static void serve(struct state *s, uint32_t rank, int list)
{
    for (;;) {
        uint32_t best = UINT32_MAX;

        br_list_for_each (node, &s->ranks[rank].lists[list]) {
            uint32_t job = (uint32_t)(br_container_of(node, struct job, node) - s->jobs);

            if (job < best && may_start(s, job, list) && (list != OUT || !is_outranked(s, job)))
                best = job;
        }
        if (best == UINT32_MAX)
            break;
        start(s, best, list);
    }
}

/* Who may be waiting for the ports of a message that has left. */
static void touch_ends(struct state *s, uint32_t send)
{
    touch(s, rank_of(s, partner_of(s, send)));
    for (uint32_t r = 0; s->topology->kind != BR_TOPOLOGY_FLAT && r < s->m.n; r++)
        if (!br_list_empty(&s->ranks[r].lists[OUT]))
            touch(s, r);
}

static int run(struct state *s, double *seconds)
{
    uint32_t done = 0;

    for (uint32_t j = 0; j < s->n_jobs; j++)
        s->jobs[j].waits = step_of(s, j)->n_dependencies + 1;
    for (uint32_t j = 0; j < s->n_jobs; j++)
        release(s, j);
    for (;;) {
        for (int list = 0; list < LISTS; list++) {
            for (uint32_t i = 0; i < s->n_touched; i++)
                serve(s, s->touched[i], list);
        }
        for (uint32_t i = 0; i < s->n_touched; i++)
            s->ranks[s->touched[i]].touched = false;
        s->n_touched = 0;
        if (s->n_heap == 0)
            break;
        s->now = s->heap[0].time;
        while (s->n_heap > 0 && s->heap[0].time <= s->now * (1 + 1e-12)) {
            struct event event = pop(s);

            touch(s, rank_of(s, event.job));
            if (event.freed) {
                all_ports(s, event.job, &(bool){false});
                touch_ends(s, event.job);
            } else if (step_of(s, event.job)->kind != BR_STEP_RECV) {
                s->ranks[rank_of(s, event.job)].busy[CPU][0] = false;
            }
            finish(s, event.job);
            done++;
        }
    }
    *seconds = s->now;
    return done == s->n_jobs ? 0 : br_error(EINVAL, "only %u of %u steps ran", done, s->n_jobs);
}

static bool allocate(struct state *s, uint32_t n)
{
    s->jobs = calloc((size_t)s->n_jobs + 1, sizeof *s->jobs);
    s->ranks = calloc(n, sizeof *s->ranks);
    s->heap = calloc((size_t)s->n_jobs + 1, sizeof *s->heap);
    s->touched = calloc(n, sizeof *s->touched);
    for (uint32_t r = 0; s->ranks && r < n; r++) {
        for (int list = 0; list < LISTS; list++)
            br_list_init(&s->ranks[r].lists[list]);
    }
    for (uint32_t j = 0; s->jobs && j < s->n_jobs; j++)
        br_list_init(&s->jobs[j].node);
    return s->jobs && s->ranks && s->heap && s->touched;
}

int br_timing_run(const struct br_cost_model *model, const struct br_schedule *const *schedules, double bytes,
                  uint32_t fragments, double *seconds)
{
    struct state s = {.model = model, .topology = model->topology};
    int rc = br_cost_model_check(model);

    if (rc != 0)
        return rc;
    if (!s.topology) {
        br_topology_flat(&s.flat, schedules[0]->n);
        s.topology = &s.flat;
    }
    if (s.topology->n != schedules[0]->n)
        return br_error(EINVAL, "the topology has %u ranks, the schedules %u", s.topology->n,
                        schedules[0]->n);
    if (schedules[0]->collective != BR_BARRIER)
        s.piece = bytes / fragments / schedules[0]->pieces;
    rc = br_matching_init(&s.m, schedules);
    s.n_jobs = s.m.n_steps * fragments;
    if (rc == 0 && (uint64_t)s.m.n_steps * fragments > INT32_MAX)
        rc = br_error(EINVAL, "%u steps in %u fragments are too many to simulate", s.m.n_steps, fragments);
    if (rc == 0 && !allocate(&s, s.m.n))
        rc = br_error(ENOMEM, "no memory to time the schedules of %u ranks", s.m.n);
    if (rc == 0)
        rc = run(&s, seconds);
    free(s.touched);
    free(s.heap);
    free(s.ranks);
    free(s.jobs);
    br_matching_destroy(&s.m);
    return rc;
}
