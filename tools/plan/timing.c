/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. A job is a step in one fragment; job = fragment * steps of all ranks + number of the step. So
 *    of the jobs of a rank the smallest is the one to do first.
 * 2. Messages from one rank to another, and the local work of a rank, stand in queues. The first of
 *    each queue is under way: a flow. Earlier fragments and steps overtake, as the protocol's
 *    queues let them: the flow keeps what it has done.
 * 3. A flow holds resources, each for a part of its time: the ports of all links of its route, or
 *    the processor of its rank. Which ports is the topology's matter (topology.h): both ends of
 *    each link, all levels of a FLAT message that may use any, the shared ports of a host. Flows
 *    share a resource as connections share a link: all go equally fast, none faster than alone, and
 *    what one of them cannot use is for the others (max-min fairness, by filling up: the scarcest
 *    resource first says how fast its flows are, the next one divides what these leave over).
 * 4. Between two events all speeds are constant, so a run jumps from event to event: a flow that
 *    ends, a message that arrives alpha after its flow has ended, READY that arrives alpha after
 *    the receiver of a long message has been ready.
 *
 * Rejected: messages that hold their ports alone, and start only when all of them are idle. A rank
 * that hears from several is then blind to all but one, and a message over several links keeps all
 * of them waiting for one; trees, direct exchange and relayed messages took up to twice the
 * measured time.
 */
#include "tools/plan/timing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "tools/plan/matching.h"

#define NONE  UINT32_MAX
#define PORTS 3    /* of a rank on a level: out, in, both directions */
#define CLOSE 1e-9 /* times that differ by this part are the same moment */

/* Each hop has two ends; a message on any level of a FLAT network has two on each level. An end
 * uses its direction of a port and what moves the bytes of both. */
enum {
    MOST_USES = 4 * (BR_TOPOLOGY_HOPS > BR_COST_LEVELS ? BR_TOPOLOGY_HOPS : BR_COST_LEVELS) + 1
}; /* 1: the machine */

struct use {
    uint32_t resource;
    double part; /* of the flow's time alone */
};

struct job {
    uint32_t waits; /* SEND and RECV of a message wait for each other too */
    bool unready;   /* a SEND that waits for its receiver's READY, which counts in `waits` */
    uint32_t next;  /* in its queue */
    uint32_t flow;  /* NONE: none yet */
    double left;    /* seconds of its time alone, once it has been a flow */
};

struct flow {
    uint32_t job, queue, n_uses;
    double alpha, speed; /* speed: 1 when nobody else is there */
    bool open, bound;    /* while speeds are set: not yet known; bound by the scarcest resource */
    struct use uses[MOST_USES];
};

struct resource {
    double taken, wanted; /* by flows whose speed is known; by the others at speed 1 */
};

struct event {
    double time;
    uint32_t job;
};

struct state {
    const struct br_cost_model *model;
    const struct br_topology *topology;
    struct br_topology flat; /* where the model has none */
    struct br_matching m;
    double piece; /* bytes of one piece in one fragment */
    uint32_t n_jobs, n_resources, n_flows, room, n_heap, done;
    struct job *jobs;
    uint32_t *queues; /* by from, to, level; then by rank, for local work: the first job, NONE */
    struct flow *flows;
    /* by rank and level: out, in, both directions; then processors by rank; then the machine */
    struct resource *resources;
    struct event *heap;
    bool changed; /* flows have come or gone */
    bool failed;  /* no memory */
    double now;
};

static const struct br_step *step_of(const struct state *s, uint32_t job)
{
    return br_matching_step(&s->m, job % s->m.n_steps);
}

static uint32_t timing_rank_of(const struct state *s, uint32_t job)
{
    return s->m.rank[job % s->m.n_steps];
}

static uint32_t timing_partner_of(const struct state *s, uint32_t job)
{
    uint32_t number = job % s->m.n_steps;

    return job - number + s->m.partner[number];
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static bool timing_before(const struct event *a, const struct event *b)
{
    return a->time != b->time ? a->time < b->time : a->job < b->job;
}

static void timing_push(struct state *s, double delay, uint32_t job)
{
    struct event event = {s->now + delay, job};
    uint32_t at = s->n_heap++;

    for (; at > 0 && timing_before(&event, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = event;
}

static struct event timing_pop(struct state *s)
{
    struct event top = s->heap[0], last = s->heap[--s->n_heap];
    uint32_t at = 0, child;

    for (; (child = 2 * at + 1) < s->n_heap; at = child) {
        if (child + 1 < s->n_heap && timing_before(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!timing_before(&s->heap[child], &last))
            break;
        s->heap[at] = s->heap[child];
    }
    s->heap[at] = last;
    return top;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static void timing_use(struct flow *flow, uint32_t resource, double part)
{
    flow->uses[flow->n_uses++] = (struct use){resource, part};
}

/* The ports of one end of a link, for this part of the message's time; both: of what moves the
 * bytes of both directions. */
static void use_ports(const struct state *s, struct flow *flow, uint32_t rank, bool in,
                      uint8_t level, double part, double both)
{
    uint32_t levels = s->model->n_levels;

    if (in && br_topology_is_memory(s->topology, level))
        return;
    rank = br_topology_port(s->topology, rank, level);
    for (uint32_t l = 0; l < levels; l++)
        if (level >= levels || l == level) {
            timing_use(flow, (rank * levels + l) * PORTS + in, part);
            if (!br_topology_is_memory(s->topology, level))
                timing_use(flow, (rank * levels + l) * PORTS + 2, both);
        }
}

/* A message of ranks that share few cores: a core at each end, and its part of all of them. */
static double open_on_cores(const struct state *s, struct flow *flow, const struct br_hop *hop,
                            double time)
{
    double sender = br_cost_of_end(s->topology, false),
           receiver = br_cost_of_end(s->topology, true);
    double slowest = fmax(1, fmax(sender, receiver));

    timing_use(flow, hop->from * s->model->n_levels * PORTS, sender / slowest);
    timing_use(flow, hop->to * s->model->n_levels * PORTS + 1, receiver / slowest);
    timing_use(flow, s->n_resources - 1, 1 / slowest);
    return time * slowest;
}

/* Seconds that a link takes for a message while nothing else is under way, at one of its ends. */
static double timing_alone(const struct state *s, const struct br_hop *hop, double bytes,
                           bool receiver)
{
    return br_topology_is_memory(s->topology, hop->level)
               ? br_cost_of_hop(s->model, hop, bytes)
               : br_cost_of_hop_one_way(s->model, hop, bytes, receiver);
}

/* As the formulas have it, READY of a long message keeps the cores busy where there is a block for
 * each rank (br_exchange.ready). */
static double time_on_cores(const struct state *s, const struct br_hop *hop, double bytes)
{
    bool ready = br_collective_by_blocks(s->m.schedules[0]->collective);

    return br_cost_of_hop(s->model, hop, bytes) +
           (ready ? br_cost_of_ready(s->model, hop, bytes) : 0);
}

/* Says what a message uses and how long it takes alone: as long as on the slowest of its links, or
 * as the machine is busy with it. */
static double open_message(const struct state *s, struct flow *flow)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    const struct br_step *step = step_of(s, flow->job);
    double bytes = step->span.count * s->piece, machine, slowest;
    uint32_t n =
        br_cost_links(s->topology, timing_rank_of(s, flow->job),
                      timing_rank_of(s, timing_partner_of(s, flow->job)), step->level, bytes, hops);

    flow->alpha = br_cost_latency(s->model, hops, n, bytes);
    if (s->topology->cores)
        return open_on_cores(s, flow, &hops[0], time_on_cores(s, &hops[0], bytes));
    slowest = machine = br_cost_of_machine(s->model, hops, n, bytes);
    for (uint32_t i = 0; i < n; i++)
        slowest = fmax(slowest, fmax(timing_alone(s, &hops[i], bytes, false),
                                     timing_alone(s, &hops[i], bytes, true)));
    for (uint32_t i = 0; i < n && slowest > 0; i++) {
        double sent = timing_alone(s, &hops[i], bytes, false),
               received = timing_alone(s, &hops[i], bytes, true),
               both = br_cost_of_hop(s->model, &hops[i], bytes) / 2;

        use_ports(s, flow, hops[i].from, false, hops[i].level, sent / slowest, both / slowest);
        use_ports(s, flow, hops[i].to, true, hops[i].level, received / slowest,
                  fmin(both, received) / slowest);
    }
    if (machine > 0)
        timing_use(flow, s->n_resources - 1, machine / slowest);
    return slowest;
}

static double timing_open_work(const struct state *s, struct flow *flow)
{
    const struct br_step *step = step_of(s, flow->job);
    double bytes = step->span.count * s->piece;

    timing_use(flow, s->m.n * s->model->n_levels * PORTS + timing_rank_of(s, flow->job), 1);
    return step->kind == BR_STEP_COPY ? bytes * s->model->copy
                                      : bytes * s->model->gamma * (step->n_sources - 1);
}

/* The first job of a queue is under way from now on, in the place of another flow or in a new
 * one. */
static void set_flow(struct state *s, uint32_t queue, uint32_t at)
{
    uint32_t job = s->queues[queue];
    struct flow *flow = &s->flows[at];
    double alone;

    *flow = (struct flow){.job = job, .queue = queue};
    alone =
        step_of(s, job)->kind == BR_STEP_SEND ? open_message(s, flow) : timing_open_work(s, flow);
    if (s->jobs[job].left < 0)
        s->jobs[job].left = alone;
    s->jobs[job].flow = at;
    s->changed = true;
}

static bool more_room(struct state *s)
{
    uint32_t room = s->room ? 2 * s->room : 256;
    struct flow *flows = realloc(s->flows, room * sizeof *flows);

    if (!flows)
        return false;
    s->flows = flows;
    s->room = room;
    return true;
}

/* A SEND whose other end may start too, or local work: into its queue. */
static void timing_enqueue(struct state *s, uint32_t job, uint32_t queue)
{
    uint32_t *at = &s->queues[queue], first = *at;

    while (*at != NONE && *at < job)
        at = &s->jobs[*at].next;
    s->jobs[job].next = *at;
    *at = job;
    if (first == NONE && s->n_flows == s->room && !more_room(s))
        s->failed = true;
    else if (first == NONE)
        set_flow(s, queue, s->n_flows++);
    else if (s->queues[queue] == job)
        set_flow(s, queue, s->jobs[first].flow);
}

/* Seconds that a message waits for what its receiver says once it is ready. */
static double timing_ready(const struct state *s, uint32_t send)
{
    struct br_hop hops[BR_TOPOLOGY_HOPS];
    const struct br_step *step = step_of(s, send);
    double bytes = step->span.count * s->piece;
    uint32_t n =
        br_cost_links(s->topology, timing_rank_of(s, send),
                      timing_rank_of(s, timing_partner_of(s, send)), step->level, bytes, hops);

    return br_cost_ready(s->model, hops, n, bytes);
}

static void timing_start(struct state *s, uint32_t job)
{
    uint32_t levels = s->model->n_levels, n = s->m.n, rank = timing_rank_of(s, job), partner;
    const struct br_step *step = step_of(s, job);

    if (step->kind != BR_STEP_SEND && step->kind != BR_STEP_RECV) {
        timing_enqueue(s, job, n * n * (levels + 1) + rank);
        return;
    }
    partner = timing_partner_of(s, job);
    if (step->kind == BR_STEP_RECV && s->jobs[partner].unready) {
        timing_push(s, timing_ready(s, partner), partner);
        return;
    }
    if (s->jobs[partner].waits > 0)
        return;
    if (step->kind == BR_STEP_RECV) {
        job = partner;
        partner = timing_partner_of(s, job);
        step = step_of(s, job);
        rank = timing_rank_of(s, job);
    }
    timing_enqueue(s, job,
                   (rank * n + timing_rank_of(s, partner)) * (levels + 1) +
                       (step->level < levels ? step->level : levels));
}

static void timing_release(struct state *s, uint32_t job)
{
    if (--s->jobs[job].waits == 0)
        timing_start(s, job);
}

static void timing_finish(struct state *s, uint32_t job)
{
    const struct br_step *step = step_of(s, job);
    uint32_t number = job % s->m.n_steps, rank = timing_rank_of(s, job);
    const struct br_schedule *schedule = s->m.schedules[rank];

    s->done++;
    for (uint32_t i = 0; i < step->n_successors; i++)
        timing_release(s, job - number + s->m.base[rank] +
                              schedule->successors[step->first_successor + i]);
}

/* What a RECV has waited for, or READY at a SEND. */
static void timing_arrive(struct state *s, uint32_t job)
{
    if (s->jobs[job].unready) {
        s->jobs[job].unready = false;
        timing_release(s, job);
    } else {
        timing_finish(s, job);
    }
}

/* The next one of its queue takes its place, or the last flow does. */
static void end_flow(struct state *s, uint32_t at)
{
    struct flow ended = s->flows[at];

    s->queues[ended.queue] = s->jobs[ended.job].next;
    s->changed = true;
    if (s->queues[ended.queue] != NONE) {
        set_flow(s, ended.queue, at);
    } else if (at != --s->n_flows) {
        s->flows[at] = s->flows[s->n_flows];
        s->jobs[s->flows[at].job].flow = at;
    }
    if (step_of(s, ended.job)->kind == BR_STEP_SEND)
        timing_push(s, ended.alpha, timing_partner_of(s, ended.job));
    timing_finish(s, ended.job);
}

/* ---- speeds ---------------------------------------------------------------------------------- */

/* The speed that the scarcest resource allows; 1 at most. */
static double timing_scarcest(const struct state *s)
{
    double speed = 1;

    for (uint32_t r = 0; r < s->n_resources; r++)
        if (s->resources[r].wanted > CLOSE)
            speed = fmin(speed, (1 - s->resources[r].taken) / s->resources[r].wanted);
    return fmax(speed, CLOSE);
}

static bool is_bound(const struct state *s, const struct flow *flow, double speed)
{
    for (uint32_t i = 0; i < flow->n_uses; i++) {
        const struct resource *r = &s->resources[flow->uses[i].resource];

        if (r->wanted > CLOSE && 1 - r->taken <= speed * r->wanted * (1 + CLOSE))
            return true;
    }
    return speed >= 1;
}

static void timing_settle(struct state *s, struct flow *flow, double speed)
{
    flow->open = false;
    flow->speed = speed;
    for (uint32_t i = 0; i < flow->n_uses; i++) {
        struct resource *r = &s->resources[flow->uses[i].resource];

        r->wanted -= flow->uses[i].part;
        r->taken += flow->uses[i].part * speed;
    }
}

/* Settles the flows that the scarcest resource binds; returns how many. All are found first, as
 * settling changes what binds. */
static uint32_t settle_bound(struct state *s)
{
    double speed = timing_scarcest(s);
    uint32_t settled = 0;

    for (uint32_t f = 0; f < s->n_flows; f++)
        s->flows[f].bound = s->flows[f].open && is_bound(s, &s->flows[f], speed);
    for (uint32_t f = 0; f < s->n_flows; f++)
        if (s->flows[f].bound) {
            timing_settle(s, &s->flows[f], speed);
            settled++;
        }
    return settled;
}

static void set_speeds(struct state *s)
{
    for (uint32_t r = 0; r < s->n_resources; r++)
        s->resources[r] = (struct resource){0, 0};
    for (uint32_t f = 0; f < s->n_flows; f++) {
        s->flows[f].open = true;
        for (uint32_t i = 0; i < s->flows[f].n_uses; i++)
            s->resources[s->flows[f].uses[i].resource].wanted += s->flows[f].uses[i].part;
    }
    for (uint32_t open = s->n_flows; open > 0;)
        open -= settle_bound(s);
    s->changed = false;
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Seconds until the next flow ends or message arrives; INFINITY: none. */
static double next_event(const struct state *s)
{
    double least = s->n_heap ? s->heap[0].time - s->now : INFINITY;

    for (uint32_t f = 0; f < s->n_flows; f++)
        least = fmin(least, s->jobs[s->flows[f].job].left / s->flows[f].speed);
    return fmax(least, 0);
}

static void timing_advance(struct state *s, double seconds)
{
    double same = (s->now + seconds) * CLOSE;

    s->now += seconds;
    for (uint32_t f = 0; f < s->n_flows; f++) {
        double *left = &s->jobs[s->flows[f].job].left;

        *left -= seconds * s->flows[f].speed;
        if (*left <= same * s->flows[f].speed)
            *left = 0;
    }
    for (uint32_t f = s->n_flows; f-- > 0;)
        if (s->jobs[s->flows[f].job].left == 0)
            end_flow(s, f);
    while (s->n_heap > 0 && s->heap[0].time <= s->now + same)
        timing_arrive(s, timing_pop(s).job);
}

static int timing_run(struct state *s, double *seconds)
{
    for (uint32_t j = 0; j < s->n_jobs; j++) {
        bool unready = step_of(s, j)->kind == BR_STEP_SEND && timing_ready(s, j) > 0;

        s->jobs[j] = (struct job){.waits = step_of(s, j)->n_dependencies + 1 + unready,
                                  .unready = unready,
                                  .next = NONE,
                                  .flow = NONE,
                                  .left = -1};
    }
    for (uint32_t j = 0; j < s->n_jobs; j++)
        timing_release(s, j);
    while ((s->n_flows > 0 || s->n_heap > 0) && !s->failed) {
        if (s->changed)
            set_speeds(s);
        timing_advance(s, next_event(s));
    }
    *seconds = s->now;
    if (s->failed)
        return br_error(ENOMEM, "no memory for the messages of %u ranks", s->m.n);
    return s->done == s->n_jobs ? 0
                                : br_error(EINVAL, "only %u of %u steps ran", s->done, s->n_jobs);
}

static bool timing_allocate(struct state *s, uint32_t n)
{
    size_t queues = (size_t)n * n * (s->model->n_levels + 1) + n;

    s->n_resources = n * s->model->n_levels * PORTS + n + 1;
    s->jobs = calloc((size_t)s->n_jobs + 1, sizeof *s->jobs);
    s->queues = calloc(queues, sizeof *s->queues);
    s->resources = calloc(s->n_resources, sizeof *s->resources);
    s->heap = calloc((size_t)s->n_jobs + 1, sizeof *s->heap);
    for (size_t q = 0; s->queues && q < queues; q++)
        s->queues[q] = NONE;
    return s->jobs && s->queues && s->resources && s->heap;
}

int br_timing_run(const struct br_cost_model *model, const struct br_schedule *const *schedules,
                  double bytes, uint32_t fragments, double *seconds)
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
        rc = br_error(EINVAL, "%u steps in %u fragments are too many to simulate", s.m.n_steps,
                      fragments);
    if (rc == 0 && !timing_allocate(&s, s.m.n))
        rc = br_error(ENOMEM, "no memory to time the schedules of %u ranks", s.m.n);
    if (rc == 0)
        rc = timing_run(&s, seconds);
    free(s.heap);
    free(s.flows);
    free(s.resources);
    free(s.queues);
    free(s.jobs);
    br_matching_destroy(&s.m);
    return rc;
}
