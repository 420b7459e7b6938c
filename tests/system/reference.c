/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/reference.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/schedule.h"
#include "collectives/shm/executor.h"
#include "tools/plan/matching.h"
#include "collectives/tuning/plan_cache.h"

struct replay {
    struct br_schedule **schedules; /* of each rank */
    struct br_matching matching;
    float *const *memory; /* of each rank, from the fragment's first element on */
    float **scratch;      /* of each rank */
    float **messages;     /* of each step's number: what a SEND has sent; NULL: nothing yet */
    uint32_t *next;       /* of each rank: the step that is its turn */
    size_t elements;      /* of the fragment */
};

/* ---- one fragment ---------------------------------------------------------------------------- */

static float *place(const struct replay *r, uint32_t rank, struct br_span span)
{
    uint32_t pieces = r->schedules[rank]->pieces;

    if (span.buffer == BR_SCRATCH)
        return r->scratch[rank] + span.first * br_piece_max(r->elements, pieces);
    return r->memory[rank] + br_piece_offset(r->elements, pieces, span.first);
}

static size_t elements_of(const struct replay *r, const struct br_step *step, uint32_t pieces)
{
    return br_piece_offset(r->elements, pieces, step->piece + step->span.count) -
           br_piece_offset(r->elements, pieces, step->piece);
}

static void reduce(const struct replay *r, uint32_t rank, const struct br_step *step, size_t n)
{
    const struct br_source *sources = &r->schedules[rank]->sources[step->first_source];
    float *to = place(r, rank, step->span);

    for (size_t i = 0; i < n; i++) {
        float sum = place(r, rank, sources[0].span)[i];

        for (uint32_t s = 1; s < step->n_sources; s++)
            sum = sum + place(r, rank, sources[s].span)[i];
        to[i] = sum;
    }
}

/* The next step of a rank. false: it waits for a message. */
static bool step_of(struct replay *r, uint32_t rank)
{
    const struct br_schedule *s = r->schedules[rank];
    uint32_t number = r->matching.base[rank] + r->next[rank];
    const struct br_step *step = &s->steps[r->next[rank]];
    size_t n = elements_of(r, step, s->pieces);
    float *memory = place(r, rank, step->span), *from;

    if (step->kind == BR_STEP_RECV) {
        from = r->messages[r->matching.partner[number]];
        if (!from)
            return false;
        memcpy(memory, from, n * sizeof(float));
    } else if (step->kind == BR_STEP_SEND) {
        from = calloc(n + 1, sizeof(float));
        if (!from)
            abort();
        r->messages[number] = memcpy(from, memory, n * sizeof(float));
    } else if (step->kind == BR_STEP_REDUCE) {
        reduce(r, rank, step, n);
    } else {
        memmove(memory, place(r, rank, s->sources[step->first_source].span), n * sizeof(float));
    }
    r->next[rank]++;
    return true;
}

/* All steps of all ranks; each rank's in the order in which they stand, which is a legal one. */
static int run(struct replay *r)
{
    uint32_t done = 0;

    for (bool moves = true; moves;) {
        moves = false;
        for (uint32_t rank = 0; rank < r->matching.n; rank++)
            while (r->next[rank] < r->schedules[rank]->n_steps && step_of(r, rank)) {
                moves = true;
                done++;
            }
    }
    return done == r->matching.n_steps
               ? 0
               : br_error(EPROTO, "only %u steps of all ranks could run", done);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void destroy(struct replay *r, uint32_t n)
{
    for (uint32_t i = 0; r->messages && i < r->matching.n_steps; i++)
        free(r->messages[i]);
    for (uint32_t rank = 0; r->schedules && r->scratch && rank < n; rank++) {
        br_schedule_free(r->schedules[rank]);
        free(r->scratch[rank]);
    }
    br_matching_destroy(&r->matching);
    free(r->schedules);
    free(r->scratch);
    free(r->messages);
    free(r->next);
}

static int build(struct replay *r, const struct br_algorithm_config *config, uint32_t n)
{
    struct br_schedule_request request = {.collective = BR_ALLREDUCE,
                                          .algorithm = config->algorithm,
                                          .n = n,
                                          .in_place = true,
                                          .shape = config->shape,
                                          .disjoint_trees = config->disjoint_trees};
    int rc = 0;

    r->schedules = calloc(n, sizeof *r->schedules);
    r->scratch = calloc(n, sizeof *r->scratch);
    r->next = calloc(n, sizeof *r->next);
    if (!r->schedules || !r->scratch || !r->next)
        return -ENOMEM;
    for (; request.rank < n && !rc; request.rank++)
        rc = br_algorithm_build(&request, &r->schedules[request.rank]);
    if (!rc)
        rc = br_matching_init(&r->matching, (const struct br_schedule *const *)r->schedules);
    if (!rc && !(r->messages = calloc(r->matching.n_steps, sizeof *r->messages)))
        rc = -ENOMEM;
    return rc;
}

static int run_fragment(const struct br_algorithm_config *config, uint32_t n, float *const *memory,
                        size_t elements)
{
    struct replay r = {.memory = memory, .elements = elements};
    int rc = build(&r, config, n);

    for (uint32_t rank = 0; rank < n && !rc; rank++) {
        const struct br_schedule *s = r.schedules[rank];

        r.scratch[rank] =
            calloc(s->n_scratch * br_piece_max(elements, s->pieces) + 1, sizeof(float));
        rc = r.scratch[rank] ? 0 : -ENOMEM;
    }
    if (!rc)
        rc = run(&r);
    destroy(&r, n);
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

static void in_order_of_ranks(float *const *memory, uint32_t n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = memory[0][i];

        for (uint32_t r = 1; r < n; r++)
            sum = sum + memory[r][i];
        for (uint32_t r = 0; r < n; r++)
            memory[r][i] = sum;
    }
}

static bool on_shm_coll(const struct braid_comm *comm, const char *algorithm, size_t count)
{
    struct br_operation op;

    memset(&op, 0, sizeof op);
    op.collective = BR_ALLREDUCE;
    op.count = count;
    op.type = BRAID_FLOAT32;
    return comm->shm && !algorithm && br_shm_executor_takes(comm->shm, &op);
}

/* What the engine would do with it. */
static int choose(struct braid_comm *comm, const char *algorithm, size_t count,
                  struct br_algorithm_config *config, uint32_t *fragments)
{
    struct br_plan_cache *cache = &comm->group->plan_cache;
    const struct br_plan_tuning *tuning;
    struct br_schedule_request request = {.collective = BR_ALLREDUCE, .n = (uint32_t)comm->size};
    int rc;

    br_progress_lock(comm->context);
    rc = br_plan_cache_choose(cache, BR_ALLREDUCE, BR_COST_4_BYTES, algorithm ? algorithm : "",
                              count * sizeof(float), &tuning);
    if (!rc) {
        *config = tuning->config->config;
        request.algorithm = config->algorithm;
        request.shape = config->shape;
        request.disjoint_trees = config->disjoint_trees;
        *fragments = br_fragment_count(count, sizeof(float), br_algorithm_pieces(&request),
                                       tuning->chunk_bytes, cache->model->serial);
    }
    br_progress_unlock(comm->context);
    return rc;
}

int reference_allreduce(struct braid_comm *comm, const char *algorithm, float *const *memory,
                        size_t count)
{
    uint32_t n = (uint32_t)comm->size, fragments = 0;
    float **from = calloc(n, sizeof *from);
    struct br_algorithm_config config = {0};
    int rc = from ? 0 : -ENOMEM;

    if (n == 1 || rc || on_shm_coll(comm, algorithm, count)) {
        in_order_of_ranks(memory, rc ? 0 : n, count);
        free(from);
        return rc;
    }
    rc = choose(comm, algorithm, count, &config, &fragments);
    for (uint32_t f = 0; !rc && f < fragments; f++) {
        size_t first = br_piece_offset(count, fragments, f);

        for (uint32_t r = 0; r < n; r++)
            from[r] = memory[r] + first;
        rc = run_fragment(&config, n, from, br_piece_offset(count, fragments, f + 1) - first);
    }
    free(from);
    return rc;
}
