/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the schedules of all ranks on symbols. The value of a chunk is the set of ranks whose inputs
 * it holds, so any sum that lacks one or has one twice is seen, and any step on the wrong chunk.
 *
 * 1. A chunk has an identity: its number in the larger user buffer, where the blocks of all ranks
 *    stand; in an alltoall its number among the inputs of all ranks. Inputs of different ranks with
 *    one identity may be added, others not; identity % pieces tells the size, unless all have one
 *    (br_schedule.uncut).
 * 2. A SEND takes its message when it runs, a RECV delivers it: any delay between the two is among
 *    the orders. That a SEND may read later than it runs here is the business of the conflict
 *    check.
 */
#include "tests/verifier/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"

#define UNDEFINED UINT32_MAX

struct value {
    uint32_t identity; /* UNDEFINED: nothing has been written */
    int32_t writer;    /* step of this rank, -1: the user */
    bool final;
};

struct state {
    const struct br_matching *m;
    size_t words;               /* of one set of ranks */
    uint32_t n_values;          /* of all ranks and buffers, then of all messages */
    uint32_t *base[BR_BUFFERS]; /* of each rank: first value of the buffer */
    uint32_t *message;          /* of each step number: first value of its message, for a SEND */
    struct value *values;
    uint64_t *sets;    /* of each value: the ranks whose inputs are in it */
    uint32_t *waits;   /* of each step number */
    uint32_t *enabled; /* step numbers that may run now */
    uint32_t n_enabled;
};

static uint64_t *set_of(const struct state *s, uint32_t value)
{
    return &s->sets[value * s->words];
}

static uint32_t value_of(const struct state *s, uint32_t rank, struct br_span span, uint32_t i)
{
    struct br_span one = {span.buffer, span.first + i, 1};

    if (one.buffer == BR_INPUT && span.count > 1)
        one = br_span_alias(s->m->schedules[rank], one);
    return s->base[one.buffer][rank] + one.first;
}

static uint32_t chunks_of(const struct br_schedule *schedule, uint32_t buffer)
{
    if (buffer == BR_SCRATCH)
        return schedule->n_scratch;
    return br_collective_blocks(schedule->collective, schedule->n, buffer) * schedule->pieces;
}

/* The identity of a chunk of a user buffer. */
static uint32_t identity_of(const struct br_schedule *schedule, uint32_t buffer, uint32_t chunk)
{
    uint32_t other = buffer == BR_INPUT ? BR_OUTPUT : BR_INPUT, pieces = schedule->pieces;
    uint32_t blocks = br_collective_blocks(schedule->collective, schedule->n, buffer);
    uint32_t most = br_collective_blocks(schedule->collective, schedule->n, other);

    if (schedule->collective != BR_ALLTOALL)
        return blocks < most ? schedule->rank * pieces + chunk : chunk;
    if (buffer == BR_INPUT)
        return schedule->rank * schedule->n * pieces + chunk;
    return (chunk / pieces * schedule->n + schedule->rank) * pieces + chunk % pieces;
}

static int wrong(const struct state *s, uint32_t number, const char *what)
{
    uint32_t rank = s->m->rank[number];

    return br_error(EINVAL, "rank %u step %u %s", rank, number - s->m->base[rank], what);
}

/* Every step may read only what the user or one earlier step put there in this span. */
static int check_read(const struct state *s, uint32_t number, struct br_span span, int32_t recv)
{
    uint32_t rank = s->m->rank[number];
    const struct br_schedule *schedule = s->m->schedules[rank];
    const struct br_step *step = br_matching_step(s->m, number), *writer = NULL;
    int32_t first = s->values[value_of(s, rank, span, 0)].writer;

    if (span.buffer == BR_SCRATCH && first >= 0)
        writer = &schedule->steps[first];
    for (uint32_t i = 0; i < span.count; i++) {
        const struct value *value = &s->values[value_of(s, rank, span, i)];

        if (value->identity == UNDEFINED)
            return wrong(s, number, "reads what nobody has written");
        if (!schedule->uncut &&
            value->identity % schedule->pieces != (step->piece + i) % schedule->pieces)
            return wrong(s, number, "reads other pieces than it says");
        if (writer && value->writer != first &&
            (!br_schedule_even(schedule) ||
             (schedule->steps[value->writer].flags & BR_STEP_MAY_MAP)))
            return wrong(s, number, "reads scratch that several steps have written");
    }
    if (writer && (writer->span.first != span.first || writer->span.count != span.count) &&
        (!br_schedule_even(schedule) || (writer->flags & BR_STEP_MAY_MAP)))
        return wrong(s, number, "reads scratch by another span than it was written");
    if ((writer && (writer->flags & BR_STEP_MAY_MAP) ? first : -1) != recv)
        return wrong(s, number, "reads a mapped message that it does not know of, or none");
    return 0;
}

/* After a step: what it has moved must be of the block that it names, whose size it has. In place
 * OUTPUT may stand for INPUT, with the same sizes. */
static int check_block(const struct state *s, uint32_t number)
{
    const struct br_schedule *schedule = s->m->schedules[s->m->rank[number]];
    const struct br_step *step = br_matching_step(s->m, number);
    uint32_t identity = s->values[value_of(s, schedule->rank, step->span, 0)].identity,
             chunk = step->block * schedule->pieces + step->piece;

    if (!schedule->by_block || identity == identity_of(schedule, step->sized_by, chunk) ||
        (schedule->in_place && identity == identity_of(schedule, BR_INPUT, chunk)))
        return 0;
    return wrong(s, number, "says that it holds another block");
}

static void copy_value(struct state *s, uint32_t to, uint32_t from, int32_t writer)
{
    s->values[to] = s->values[from];
    s->values[to].writer = writer;
    memcpy(set_of(s, to), set_of(s, from), s->words * sizeof *s->sets);
}

/* Adds one source to a sum. */
static const char *add(struct state *s, struct value *sum, uint64_t *set, uint32_t from)
{
    const struct value *value = &s->values[from];
    const uint64_t *more = set_of(s, from);
    bool twice = s->m->schedules[0]->collective == BR_BARRIER; /* hearing of a rank twice is fine */

    if (sum->identity != UNDEFINED && sum->identity != value->identity)
        return "adds chunks of different places";
    if (value->final)
        return "adds to a value that was final";
    if (s->m->schedules[0]->collective == BR_SCAN || s->m->schedules[0]->collective == BR_EXSCAN)
        for (uint32_t r = 0, most = 0; r < s->m->n; r++) {
            most |= (uint32_t)(more[r / 64] >> (r % 64) & 1);
            if (most && set[r / 64] >> (r % 64) & 1)
                return "adds higher ranks before lower ones";
        }
    sum->identity = value->identity;
    for (size_t w = 0; w < s->words; w++) {
        if ((set[w] & more[w]) != 0 && !twice)
            return "adds the input of one rank twice";
        set[w] |= more[w];
    }
    return NULL;
}

static bool full(const struct state *s, const uint64_t *set)
{
    for (uint32_t r = 0; r < s->m->n; r++) {
        if (!(set[r / 64] >> (r % 64) & 1))
            return false;
    }
    return true;
}

static int run_reduce(struct state *s, uint32_t number, uint64_t *set)
{
    uint32_t rank = s->m->rank[number];
    const struct br_step *step = br_matching_step(s->m, number);
    const struct br_source *sources = &s->m->schedules[rank]->sources[step->first_source];
    int32_t writer = (int32_t)(number - s->m->base[rank]);
    const char *fault = NULL;

    for (uint32_t c = 0; c < step->span.count; c++) {
        struct value sum = {
            .identity = UNDEFINED, .writer = writer, .final = step->flags & BR_STEP_FINAL};
        uint32_t to = value_of(s, rank, step->span, c);

        memset(set, 0, s->words * sizeof *set);
        for (uint32_t i = 0; i < step->n_sources && !fault; i++)
            fault = add(s, &sum, set, value_of(s, rank, sources[i].span, c));
        if (!fault && sum.final != full(s, set))
            fault = sum.final ? "is final, but lacks ranks" : "has all ranks, but is not final";
        if (fault)
            return wrong(s, number, fault);
        s->values[to] = sum;
        memcpy(set_of(s, to), set, s->words * sizeof *set);
    }
    return 0;
}

/* set: room for one set. */
static int run_step(struct state *s, uint32_t number, uint64_t *set)
{
    uint32_t rank = s->m->rank[number];
    const struct br_step *step = br_matching_step(s->m, number);
    const struct br_source *sources = &s->m->schedules[rank]->sources[step->first_source];
    int32_t writer = (int32_t)(number - s->m->base[rank]);
    int rc = step->kind == BR_STEP_SEND ? check_read(s, number, step->span, -1) : 0;

    for (uint32_t i = 0; i < step->n_sources && rc == 0; i++)
        rc = check_read(s, number, sources[i].span, sources[i].recv);
    if (rc != 0)
        return rc;
    if (step->kind == BR_STEP_REDUCE)
        rc = run_reduce(s, number, set);
    for (uint32_t i = 0; step->kind != BR_STEP_REDUCE && i < step->span.count; i++) {
        uint32_t own = value_of(s, rank, step->span, i);

        if (step->kind == BR_STEP_SEND)
            copy_value(s, s->message[number] + i, own, -1);
        else if (step->kind == BR_STEP_RECV)
            copy_value(s, own, s->message[s->m->partner[number]] + i, writer);
        else
            copy_value(s, own, value_of(s, rank, sources[0].span, i), writer);
    }
    return rc != 0 ? rc : check_block(s, number);
}

static void release(struct state *s, uint32_t number)
{
    if (--s->waits[number] == 0)
        s->enabled[s->n_enabled++] = number;
}

/* A RECV waits for its SEND too. */
static int run_all(struct state *s, uint64_t seed, uint64_t *set)
{
    struct br_random random;
    uint32_t done = 0;

    br_random_seed(&random, seed);
    for (uint32_t i = 0; i < s->m->n_steps; i++) {
        const struct br_step *step = br_matching_step(s->m, i);

        s->waits[i] = step->n_dependencies + (step->kind == BR_STEP_RECV) + 1;
        release(s, i);
    }
    for (; s->n_enabled > 0; done++) {
        uint32_t at = (uint32_t)br_random_below(&random, s->n_enabled), number = s->enabled[at];
        const struct br_step *step = br_matching_step(s->m, number);
        const struct br_schedule *schedule = s->m->schedules[s->m->rank[number]];
        int rc;

        s->enabled[at] = s->enabled[--s->n_enabled];
        rc = run_step(s, number, set);
        if (rc != 0)
            return rc;
        if (step->kind == BR_STEP_SEND)
            release(s, s->m->partner[number]);
        for (uint32_t i = 0; i < step->n_successors; i++)
            release(s,
                    s->m->base[schedule->rank] + schedule->successors[step->first_successor + i]);
    }
    return done == s->m->n_steps ? 0
                                 : br_error(EINVAL, "only %u of %u steps ran", done, s->m->n_steps);
}

/* Whether the final value of a chunk of OUTPUT should hold the input of a rank. */
static bool expected(const struct br_schedule *schedule, uint32_t identity, uint32_t rank)
{
    if (schedule->collective == BR_ALLGATHER || schedule->collective == BR_GATHER)
        return rank == identity / schedule->pieces;
    if (schedule->collective == BR_ALLTOALL)
        return rank == identity / schedule->pieces / schedule->n;
    if (schedule->collective == BR_SCAN)
        return rank <= schedule->rank;
    if (schedule->collective == BR_EXSCAN)
        return rank < schedule->rank;
    return !br_collective_from_root(schedule->collective) || rank == schedule->root;
}

static int check_output(const struct state *s, const struct br_schedule *schedule)
{
    if (!br_collective_writes(schedule->collective, schedule->rank, schedule->root))
        return 0;
    for (uint32_t c = 0; c < chunks_of(schedule, BR_OUTPUT); c++) {
        uint32_t value = s->base[BR_OUTPUT][schedule->rank] + c,
                 want = identity_of(schedule, BR_OUTPUT, c);
        const uint64_t *set = set_of(s, value);

        if (s->values[value].identity != want)
            return br_error(EINVAL, "rank %u: chunk %u of OUTPUT ends %s", schedule->rank, c,
                            s->values[value].identity == UNDEFINED ? "without a value"
                                                                   : "as another chunk");
        for (uint32_t r = 0; r < schedule->n; r++) {
            if ((set[r / 64] >> (r % 64) & 1) != expected(schedule, want, r))
                return br_error(EINVAL, "rank %u: chunk %u of OUTPUT %s the input of rank %u",
                                schedule->rank, c,
                                expected(schedule, want, r) ? "lacks" : "should not hold", r);
        }
    }
    return 0;
}

/* What the user put into the buffers before. */
static void fill(struct state *s)
{
    for (uint32_t i = 0; i < s->n_values; i++)
        s->values[i] = (struct value){.identity = UNDEFINED, .writer = -1};
    for (uint32_t r = 0; r < s->m->n; r++) {
        const struct br_schedule *schedule = s->m->schedules[r];
        bool given = !br_collective_from_root(schedule->collective) || r == schedule->root;

        for (uint32_t c = 0; given && c < chunks_of(schedule, BR_INPUT); c++) {
            struct br_span span = br_span_alias(schedule, (struct br_span){BR_INPUT, c, 1});
            uint32_t value = value_of(s, r, span, 0);

            s->values[value].identity = identity_of(schedule, BR_INPUT, c);
            set_of(s, value)[r / 64] |= (uint64_t)1 << (r % 64);
        }
    }
}

static bool allocate(struct state *s)
{
    const struct br_matching *m = s->m;

    s->message = calloc((size_t)m->n_steps + 1, sizeof *s->message);
    s->waits = calloc((size_t)m->n_steps + 1, sizeof *s->waits);
    s->enabled = calloc((size_t)m->n_steps + 1, sizeof *s->enabled);
    for (uint32_t b = 0; b < BR_BUFFERS; b++) {
        s->base[b] = calloc(m->n, sizeof *s->base[b]);
        for (uint32_t r = 0; s->base[b] && r < m->n; r++) {
            s->base[b][r] = s->n_values;
            s->n_values += chunks_of(m->schedules[r], b);
        }
    }
    for (uint32_t i = 0; s->message && i < m->n_steps; i++) {
        s->message[i] = s->n_values;
        if (br_matching_step(m, i)->kind == BR_STEP_SEND)
            s->n_values += br_matching_step(m, i)->span.count;
    }
    s->values = calloc((size_t)s->n_values + 1, sizeof *s->values);
    s->sets = calloc((size_t)s->n_values + 1, s->words * sizeof *s->sets);
    return s->message && s->waits && s->enabled && s->base[BR_INPUT] && s->base[BR_OUTPUT] &&
           s->base[BR_SCRATCH] && s->values && s->sets;
}

int br_verify_values(const struct br_matching *matching, uint64_t seed)
{
    struct state s = {.m = matching, .words = matching->n / 64 + 1};
    uint64_t *set = calloc(s.words, sizeof *set);
    int rc = 0;

    if (!allocate(&s) || !set) {
        rc = br_error(ENOMEM, "no memory to verify the schedules of %u ranks", matching->n);
    } else {
        fill(&s);
        rc = run_all(&s, seed, set);
    }
    for (uint32_t r = 0; rc == 0 && r < matching->n; r++)
        rc = check_output(&s, matching->schedules[r]);
    for (uint32_t b = 0; b < BR_BUFFERS; b++)
        free(s.base[b]);
    free(set);
    free(s.sets);
    free(s.values);
    free(s.enabled);
    free(s.waits);
    free(s.message);
    return rc;
}
