/* SPDX-License-Identifier: BSD-3-Clause */
/* From what the builder has gathered to the immutable schedule. */
#include <stdlib.h>
#include <string.h>

#include "collectives/schedule/builder_internal.h"

/* Steps with their flags, and how many wait for each. */
static void copy_steps(const struct br_builder *b, struct br_step *steps, uint32_t *ready)
{
    const uint32_t *needs = b->needs.data;

    for (uint32_t i = 0; i < b->works.n; i++) {
        const struct br_builder_work *work = br_builder_work_at(b, i);

        steps[i] = work->step;
        steps[i].n_dependencies = work->n_needs;
        if (work->n_needs == 0)
            *ready++ = i;
        if (work->reduced && !work->unmappable)
            steps[i].flags |= BR_STEP_MAY_MAP;
        for (uint32_t j = 0; j < work->n_needs; j++)
            steps[needs[work->first_need + j]].n_successors++;
    }
}

static void link_successors(const struct br_builder *b, struct br_step *steps, uint32_t *successors)
{
    const uint32_t *needs = b->needs.data;
    uint32_t at = 0;

    for (uint32_t i = 0; i < b->works.n; i++) {
        steps[i].first_successor = at;
        at += steps[i].n_successors;
        steps[i].n_successors = 0;
    }
    for (uint32_t i = 0; i < b->works.n; i++) {
        const struct br_builder_work *work = br_builder_work_at(b, i);

        for (uint32_t j = 0; j < work->n_needs; j++) {
            struct br_step *before = &steps[needs[work->first_need + j]];

            successors[before->first_successor + before->n_successors++] = i;
        }
    }
}

static void copy_sources(const struct br_builder *b, const struct br_step *steps,
                         struct br_source *sources)
{
    if (b->sources.n > 0)
        memcpy(sources, b->sources.data, b->sources.n * sizeof *sources);
    for (uint32_t i = 0; i < b->sources.n; i++)
        if (sources[i].recv != BR_BUILDER_NONE && !(steps[sources[i].recv].flags & BR_STEP_MAY_MAP))
            sources[i].recv = BR_BUILDER_NONE;
}

static void builder_compact_count(struct br_schedule *head, const struct br_step *steps)
{
    for (uint32_t i = 0; i < head->n_steps; i++) {
        head->n_sends += steps[i].kind == BR_STEP_SEND;
        head->n_recvs += steps[i].kind == BR_STEP_RECV;
        if (steps[i].span.count > head->max_span)
            head->max_span = steps[i].span.count;
        if (steps[i].n_sources > head->max_sources)
            head->max_sources = steps[i].n_sources;
    }
}

static uint32_t count_ready(const struct br_builder *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < b->works.n; i++)
        n += br_builder_work_at(b, i)->n_needs == 0;
    return n;
}

struct br_schedule *br_builder_compact(const struct br_builder *b)
{
    uint32_t n_ready = count_ready(b);
    struct br_schedule *schedule;
    struct br_step *steps;
    struct br_source *sources;
    uint32_t *successors, *ready;

    schedule =
        malloc(sizeof *schedule + b->works.n * sizeof *steps + b->sources.n * sizeof *sources +
               ((size_t)b->needs.n + n_ready) * sizeof *successors);
    if (!schedule)
        return NULL;
    steps = (struct br_step *)(schedule + 1);
    sources = (struct br_source *)(steps + b->works.n);
    successors = (uint32_t *)(sources + b->sources.n);
    ready = successors + b->needs.n;
    copy_steps(b, steps, ready);
    link_successors(b, steps, successors);
    copy_sources(b, steps, sources);
    *schedule = b->head;
    schedule->n_steps = b->works.n;
    schedule->n_sources = b->sources.n;
    schedule->n_successors = b->needs.n;
    schedule->n_ready = n_ready;
    schedule->steps = steps;
    schedule->sources = sources;
    schedule->successors = successors;
    schedule->ready = ready;
    builder_compact_count(schedule, steps);
    return schedule;
}
