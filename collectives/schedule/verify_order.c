/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/verify_order.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

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

static bool verify_order_ordered(const struct state *s, uint32_t first, uint32_t last)
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
static int verify_order_use(struct state *s, uint32_t step, struct br_span span, bool write)
{
    static const char *const names[BR_BUFFERS] = {"INPUT", "OUTPUT", "SCRATCH"};

    for (uint32_t c = span.first; c < span.first + span.count; c++) {
        uint32_t *head = &s->heads[span.buffer][c];

        for (uint32_t at = *head; at != 0; at = s->accesses[at - 1].next) {
            const struct access *other = &s->accesses[at - 1];

            if ((write || other->write) && other->step != step &&
                !verify_order_ordered(s, other->step, step))
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
            rc = verify_order_use(s, i, s->schedule->sources[step->first_source + j].span, false);
        if (rc == 0)
            rc = verify_order_use(s, i, step->span, step->kind != BR_STEP_SEND);
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
