/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/verifier/verifier.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/verifier/internal.h"

static int wrong(const struct br_schedule *schedule, uint32_t step, const char *what)
{
    return br_error(EINVAL, "rank %u step %u: %s", schedule->rank, step, what);
}

/* What is wrong with a span of a step, or NULL. */
static const char *span_fault(const struct br_schedule *schedule, const struct br_step *step,
                              struct br_span span, bool write)
{
    const char *fault = br_span_fault(schedule, span, write);

    if (fault)
        return fault;
    if (span.buffer != br_span_alias(schedule, span).buffer)
        return "a span of OUTPUT is called INPUT in place";
    if (span.buffer != BR_SCRATCH && !schedule->uncut &&
        span.first % schedule->pieces != step->piece)
        return "a span has other pieces than the step";
    if (step->piece + span.count > schedule->pieces && !schedule->uncut &&
        (span.buffer != BR_SCRATCH || schedule->pieces > 1))
        return "there are no such pieces";
    return NULL;
}

static const char *source_fault(const struct br_schedule *schedule, const struct br_step *step,
                                const struct br_source *source)
{
    const char *fault = span_fault(schedule, step, source->span, false);

    if (fault)
        return fault;
    if (source->span.count != step->span.count)
        return "a source is longer or shorter than the destination";
    if (br_span_overlap(source->span, step->span) && source->span.first != step->span.first)
        return "a source overlaps the destination in part";
    if (source->recv >= 0 &&
        (step->kind != BR_STEP_REDUCE || (uint32_t)source->recv >= schedule->n_steps))
        return "a source is said to be mapped";
    return NULL;
}

static const char *step_fault(const struct br_schedule *schedule, uint32_t index)
{
    const struct br_step *step = &schedule->steps[index];
    bool message = step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV;
    const char *fault = NULL;

    if (step->kind > BR_STEP_COPY)
        return "there is no such kind of step";
    if (message ? step->n_sources != 0 : step->n_sources < 1)
        return "a message has sources, or something else has none";
    if (step->kind == BR_STEP_COPY && step->n_sources != 1)
        return "a COPY has several sources";
    if ((uint64_t)step->first_source + step->n_sources > schedule->n_sources)
        return "there are no such sources";
    if (message && (step->peer >= schedule->n || step->peer == schedule->rank))
        return "there is no such peer";
    if ((step->flags & BR_STEP_MAY_MAP) &&
        (step->kind != BR_STEP_RECV || step->span.buffer != BR_SCRATCH))
        return "only a RECV into scratch can be mapped";
    if (message && br_schedule_even(schedule) && step->span.count > schedule->packed)
        return "a message holds more blocks than announced";
    if ((step->flags & BR_STEP_FINAL) && step->kind != BR_STEP_REDUCE)
        return "only a REDUCE can be final";
    fault = span_fault(schedule, step, step->span, step->kind != BR_STEP_SEND);
    for (uint32_t i = 0; i < step->n_sources && !fault; i++)
        fault = source_fault(schedule, step, &schedule->sources[step->first_source + i]);
    return fault;
}

/* Edges lead forward and are counted right; ready steps are those without any. waits: room for
 * n_steps. */
static int check_edges(const struct br_schedule *schedule, uint32_t *waits)
{
    uint32_t ready = 0;

    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct br_step *step = &schedule->steps[i];

        if ((uint64_t)step->first_successor + step->n_successors > schedule->n_successors)
            return wrong(schedule, i, "there are no such successors");
        for (uint32_t j = 0; j < step->n_successors; j++) {
            uint32_t next = schedule->successors[step->first_successor + j];

            if (next <= i || next >= schedule->n_steps)
                return wrong(schedule, i, "an edge leads backwards or nowhere");
            waits[next]++;
        }
    }
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        if (waits[i] != schedule->steps[i].n_dependencies)
            return wrong(schedule, i, "waits for more or fewer edges than lead to it");
        if (waits[i] == 0 && (ready >= schedule->n_ready || schedule->ready[ready++] != i))
            return wrong(schedule, i, "is ready, but not listed so");
    }
    if (ready != schedule->n_ready)
        return wrong(schedule, schedule->ready[ready], "is listed as ready, but waits");
    return 0;
}

static int check_counts(const struct br_schedule *schedule)
{
    uint32_t sends = 0, recvs = 0, max_span = 0, max_sources = 0;

    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct br_step *step = &schedule->steps[i];

        sends += step->kind == BR_STEP_SEND;
        recvs += step->kind == BR_STEP_RECV;
        max_span = step->span.count > max_span ? step->span.count : max_span;
        max_sources = step->n_sources > max_sources ? step->n_sources : max_sources;
    }
    if (sends != schedule->n_sends || recvs != schedule->n_recvs ||
        max_span != schedule->max_span || max_sources != schedule->max_sources)
        return br_error(EINVAL, "rank %u: the head counts other steps than there are",
                        schedule->rank);
    return 0;
}

static int check_form(const struct br_schedule *schedule, const struct br_schedule *first,
                      uint32_t rank)
{
    uint32_t *waits;
    int rc;

    if (schedule->rank != rank || schedule->n != first->n ||
        schedule->collective != first->collective || schedule->root != first->root ||
        schedule->pieces != first->pieces || schedule->pieces == 0 ||
        schedule->packed != first->packed || schedule->uncut != first->uncut)
        return br_error(EINVAL, "rank %u: the head is that of another collective or rank", rank);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const char *fault = step_fault(schedule, i);

        if (fault)
            return wrong(schedule, i, fault);
    }
    waits = calloc((size_t)schedule->n_steps + 1, sizeof *waits);
    if (!waits)
        return br_error(ENOMEM, "no memory to verify the schedule of rank %u", rank);
    rc = check_edges(schedule, waits);
    free(waits);
    return rc != 0 ? rc : check_counts(schedule);
}

int br_verify(const struct br_schedule *const *schedules, uint32_t orders, uint64_t seed)
{
    struct br_matching matching;
    struct br_random random;
    int rc = 0;

    for (uint32_t r = 0; rc == 0 && r < schedules[0]->n; r++) {
        rc = check_form(schedules[r], schedules[0], r);
        if (rc == 0)
            rc = br_verify_order(schedules[r]);
    }
    if (rc != 0)
        return rc;
    br_random_seed(&random, seed);
    rc = br_matching_init(&matching, schedules);
    if (rc == 0)
        rc = br_verify_progress(&matching);
    for (uint32_t i = 0; rc == 0 && i < orders; i++)
        rc = br_verify_values(&matching, br_random_next(&random));
    br_matching_destroy(&matching);
    return rc;
}
