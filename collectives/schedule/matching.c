/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/matching.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct end {
    uint32_t from, to, match;
    uint32_t number; /* of the step */
};

static int matching_compare(const void *left, const void *right)
{
    const struct end *a = left, *b = right;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return a->match < b->match ? -1 : a->match > b->match;
}

/* The ends of one kind of all ranks, sorted. Returns how many. */
static uint32_t matching_collect(const struct br_matching *m, enum br_step_kind kind,
                                 struct end *ends)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_steps; i++) {
        const struct br_step *step = br_matching_step(m, i);

        if (step->kind == kind)
            ends[n++] = kind == BR_STEP_SEND ? (struct end){m->rank[i], step->peer, step->match, i}
                                             : (struct end){step->peer, m->rank[i], step->match, i};
    }
    if (n > 0)
        qsort(ends, n, sizeof *ends, matching_compare);
    return n;
}

static int matching_alone(const struct br_matching *m, const struct end *end, const char *what,
                          const char *other)
{
    uint32_t rank = m->rank[end->number];

    return br_error(EINVAL, "rank %u step %u: %s number %u of %u to %u has no %s of its own", rank,
                    end->number - m->base[rank], what, end->match, end->from, end->to, other);
}

static int matching_pair(struct br_matching *m, const struct end *sends, uint32_t n_sends,
                         const struct end *recvs, uint32_t n_recvs)
{
    for (uint32_t i = 0; i < n_sends || i < n_recvs; i++) {
        int order = i >= n_sends ? 1 : i >= n_recvs ? -1 : matching_compare(&sends[i], &recvs[i]);
        const struct br_step *send, *recv;

        if (order < 0)
            return matching_alone(m, &sends[i], "SEND", "RECV");
        if (order > 0)
            return matching_alone(m, &recvs[i], "RECV", "SEND");
        if (i > 0 && matching_compare(&sends[i - 1], &sends[i]) == 0)
            return matching_alone(m, &sends[i], "SEND", "number");
        send = br_matching_step(m, sends[i].number);
        recv = br_matching_step(m, recvs[i].number);
        if (send->piece != recv->piece || send->span.count != recv->span.count)
            return br_error(
                EINVAL, "rank %u step %u sends pieces %u+%u, but rank %u step %u receives %u+%u",
                sends[i].from, sends[i].number - m->base[sends[i].from], send->piece,
                send->span.count, recvs[i].to, recvs[i].number - m->base[recvs[i].to], recv->piece,
                recv->span.count);
        m->partner[sends[i].number] = recvs[i].number;
        m->partner[recvs[i].number] = sends[i].number;
    }
    return 0;
}

int br_matching_init(struct br_matching *m, const struct br_schedule *const *schedules)
{
    struct end *sends = NULL, *recvs = NULL;
    int rc = -ENOMEM;

    *m = (struct br_matching){.schedules = schedules, .n = schedules[0]->n};
    m->base = calloc((size_t)m->n + 1, sizeof *m->base);
    for (uint32_t r = 0; m->base && r < m->n; r++)
        m->base[r + 1] = m->n_steps = m->base[r] + schedules[r]->n_steps;
    m->rank = calloc((size_t)m->n_steps + 1, sizeof *m->rank);
    m->partner = calloc((size_t)m->n_steps + 1, sizeof *m->partner);
    sends = calloc((size_t)m->n_steps + 1, sizeof *sends);
    recvs = calloc((size_t)m->n_steps + 1, sizeof *recvs);
    if (m->base && m->rank && m->partner && sends && recvs) {
        for (uint32_t r = 0; r < m->n; r++) {
            for (uint32_t i = m->base[r]; i < m->base[r + 1]; i++)
                m->rank[i] = r;
        }
        rc = matching_pair(m, sends, matching_collect(m, BR_STEP_SEND, sends), recvs,
                           matching_collect(m, BR_STEP_RECV, recvs));
    } else {
        br_error(ENOMEM, "no memory to match the messages of %u ranks", m->n);
    }
    free(recvs);
    free(sends);
    return rc;
}

void br_matching_destroy(struct br_matching *m)
{
    free(m->partner);
    free(m->rank);
    free(m->base);
    *m = (struct br_matching){0};
}

/* Events: 2 * number is the start of a step, 2 * number + 1 its end. */
struct events {
    const struct br_matching *m;
    uint32_t *waits; /* of each event: how many others must come before it */
    uint32_t *queue; /* events that have come */
    uint32_t n_queue;
    int change; /* 1: edges are being counted; -1: they are being removed */
};

static void matching_edge(struct events *e, uint32_t to)
{
    e->waits[to] += (uint32_t)e->change;
    if (e->change < 0 && e->waits[to] == 0)
        e->queue[e->n_queue++] = to;
}

/* Walks the edges that leave one event. */
static void matching_leave(struct events *e, uint32_t event)
{
    const struct br_matching *m = e->m;
    uint32_t number = event / 2, rank = m->rank[number];
    const struct br_schedule *schedule = m->schedules[rank];
    const struct br_step *step = br_matching_step(m, number);

    if (event % 2 == 0) {
        matching_edge(e, event + 1);
        if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV)
            matching_edge(e, 2 * m->partner[number] + 1);
        return;
    }
    for (uint32_t i = 0; i < step->n_successors; i++)
        matching_edge(e, 2 * (m->base[rank] + schedule->successors[step->first_successor + i]));
    for (uint32_t i = 0; i < step->n_sources; i++) {
        int32_t recv = schedule->sources[step->first_source + i].recv;

        if (recv >= 0)
            matching_edge(e, 2 * m->partner[m->base[rank] + (uint32_t)recv] + 1);
    }
}

static int matching_stuck(const struct events *e)
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
        matching_leave(&e, i);
    e.change = -1;
    for (uint32_t i = 0; i < n; i += 2) {
        if (e.waits[i] == 0)
            e.queue[e.n_queue++] = i;
    }
    for (uint32_t at = 0; at < e.n_queue; at++)
        matching_leave(&e, e.queue[at]);
    if (e.n_queue < n)
        rc = matching_stuck(&e);
out:
    free(e.queue);
    free(e.waits);
    return rc;
}
