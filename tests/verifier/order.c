/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of steps: conflicts within a rank, deadlock between ranks. */
#include "tests/verifier/internal.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

/* ---- conflicts ------------------------------------------------------------------------------- */

struct access {
    uint32_t step;
    uint32_t next; /* the access to the same chunk before this one, + 1; 0: none */
    bool write;
};

struct state {
    const struct br_schedule *schedule;
    uint64_t *before; /* bit set of each step: the steps that end before it starts */
    size_t words;     /* of one set */
    struct access *accesses;
    uint32_t n_accesses;
    uint32_t *heads[BR_BUFFERS]; /* of each chunk: its last access + 1 */
};

static bool ordered(const struct state *s, uint32_t first, uint32_t last)
{
    return s->before[last * s->words + first / 64] >> (first % 64) & 1;
}

/* The transitive closure of the edges; steps are numbered in a legal order. */
static void close_edges(struct state *s)
{
    for (uint32_t i = 0; i < s->schedule->n_steps; i++) {
        const struct br_step *step = &s->schedule->steps[i];
        uint64_t *own = &s->before[i * s->words];

        for (uint32_t j = 0; j < step->n_successors; j++) {
            uint64_t *next =
                &s->before[s->schedule->successors[step->first_successor + j] * s->words];

            for (size_t w = 0; w < s->words; w++)
                next[w] |= own[w];
            next[i / 64] |= (uint64_t)1 << (i % 64);
        }
    }
}

/* Notes what a step does with a span, and checks it against all that came before. */
static int use(struct state *s, uint32_t step, struct br_span span, bool write)
{
    static const char *const names[BR_BUFFERS] = {"INPUT", "OUTPUT", "SCRATCH"};

    for (uint32_t c = span.first; c < span.first + span.count; c++) {
        struct br_span one = {span.buffer, c, 1};
        uint32_t *head;

        if (one.buffer == BR_INPUT && span.count > 1)
            one = br_span_alias(s->schedule, one);
        head = &s->heads[one.buffer][one.first];

        for (uint32_t at = *head; at != 0; at = s->accesses[at - 1].next) {
            const struct access *other = &s->accesses[at - 1];

            if ((write || other->write) && other->step != step && !ordered(s, other->step, step))
                return br_error(EINVAL,
                                "rank %u: steps %u and %u both use chunk %u of %s, in no order",
                                s->schedule->rank, other->step, step, c, names[span.buffer]);
        }
        s->accesses[s->n_accesses] = (struct access){step, *head, write};
        *head = ++s->n_accesses;
    }
    return 0;
}

static int use_all(struct state *s)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < s->schedule->n_steps; i++) {
        const struct br_step *step = &s->schedule->steps[i];

        for (uint32_t j = 0; rc == 0 && j < step->n_sources; j++)
            rc = use(s, i, s->schedule->sources[step->first_source + j].span, false);
        if (rc == 0)
            rc = use(s, i, step->span, step->kind != BR_STEP_SEND);
    }
    return rc;
}

int br_verify_order(const struct br_schedule *schedule)
{
    struct state s = {.schedule = schedule, .words = schedule->n_steps / 64 + 1};
    size_t n_accesses = 1;
    int rc;

    for (uint32_t i = 0; i < schedule->n_steps; i++)
        n_accesses += (size_t)schedule->steps[i].span.count * (schedule->steps[i].n_sources + 1);
    s.before = calloc(schedule->n_steps + (size_t)1, s.words * sizeof *s.before);
    s.accesses = calloc(n_accesses, sizeof *s.accesses);
    for (uint32_t b = 0; b < BR_BUFFERS; b++) {
        size_t chunks = b == BR_SCRATCH
                            ? schedule->n_scratch
                            : (size_t)schedule->pieces *
                                  br_collective_blocks(schedule->collective, schedule->n, b);

        s.heads[b] = calloc(chunks + 1, sizeof *s.heads[b]);
    }
    if (!s.before || !s.accesses || !s.heads[BR_INPUT] || !s.heads[BR_OUTPUT] ||
        !s.heads[BR_SCRATCH]) {
        rc = br_error(ENOMEM, "no memory to verify the schedule of rank %u", schedule->rank);
    } else {
        close_edges(&s);
        rc = use_all(&s);
    }
    for (uint32_t b = 0; b < BR_BUFFERS; b++)
        free(s.heads[b]);
    free(s.accesses);
    free(s.before);
    return rc;
}

/* ---- deadlock -------------------------------------------------------------------------------- */

/* Events: 2 * number is the start of a step, 2 * number + 1 its end. */
struct events {
    const struct br_matching *m;
    uint32_t *waits; /* of each event: how many others must come before it */
    uint32_t *queue; /* events that have come */
    uint32_t n_queue;
    int change; /* 1: edges are being counted; -1: they are being removed */
};

static void add_edge(struct events *e, uint32_t to)
{
    e->waits[to] += (uint32_t)e->change;
    if (e->change < 0 && e->waits[to] == 0)
        e->queue[e->n_queue++] = to;
}

/* Walks the edges that leave one event. */
static void leave_event(struct events *e, uint32_t event)
{
    const struct br_matching *m = e->m;
    uint32_t number = event / 2, rank = m->rank[number];
    const struct br_schedule *schedule = m->schedules[rank];
    const struct br_step *step = br_matching_step(m, number);

    if (event % 2 == 0) {
        add_edge(e, event + 1);
        if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV)
            add_edge(e, 2 * m->partner[number] + 1);
        return;
    }
    for (uint32_t i = 0; i < step->n_successors; i++)
        add_edge(e, 2 * (m->base[rank] + schedule->successors[step->first_successor + i]));
    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = schedule->sources[step->first_source + i].recv;

        if (recv >= 0)
            add_edge(e, 2 * m->partner[m->base[rank] + (uint32_t)recv] + 1);
    }
}

static int stuck(const struct events *e)
{
    const struct br_matching *m = e->m;
    uint32_t event = 0, number;

    while (e->waits[event] == 0)
        event++;
    number = event / 2;
    return br_error(EINVAL, "deadlock: rank %u step %u never %s", m->rank[number],
                    number - m->base[m->rank[number]], event % 2 == 0 ? "starts" : "ends");
}

int br_verify_progress(const struct br_matching *m)
{
    struct events e = {.m = m, .change = 1};
    uint32_t n = 2 * m->n_steps;
    int rc = 0;

    e.waits = calloc((size_t)n + 1, sizeof *e.waits);
    e.queue = calloc((size_t)n + 1, sizeof *e.queue);
    if (!e.waits || !e.queue) {
        rc = br_error(ENOMEM, "no memory to verify the schedules of %u ranks", m->n);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        leave_event(&e, i);
    e.change = -1;
    for (uint32_t i = 0; i < n; i += 2) {
        if (e.waits[i] == 0)
            e.queue[e.n_queue++] = i;
    }
    for (uint32_t at = 0; at < e.n_queue; at++)
        leave_event(&e, e.queue[at]);
    if (e.n_queue < n)
        rc = stuck(&e);
out:
    free(e.queue);
    free(e.waits);
    return rc;
}
