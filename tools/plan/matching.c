/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plan/matching.h"

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
