/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formulas. For one fragment each algorithm has three times: `path`, from start to end; `port`, how long
 * its busiest port is occupied; `cpu`, how long its busiest rank computes. F fragments of 1/F of the bytes
 * follow each other at the pace of the scarcest: path + (F - 1) * max(port, cpu).
 */
#include "collectives/cost.h"

#include <errno.h>
#include <math.h>

#include "base/error.h"

#define MOST_FRAGMENTS 64

struct times {
    double path, port, cpu;
};

struct problem {
    const struct br_cost_model *model;
    const struct br_schedule_request *request;
    double bytes; /* of one block of one fragment */
};

void br_cost_model_default(struct br_cost_model *model, enum br_cost_place place, uint32_t rails)
{
    static const struct br_cost_level host = {0.6e-6, 0.4e-6, 0.1e-9}, rail = {20e-6, 2e-6, 0.85e-9};

    *model = (struct br_cost_model){.gamma = 0.1e-9, .copy = 0.1e-9};
    model->n_levels = rails < 1 ? 1 : rails > BR_COST_LEVELS ? BR_COST_LEVELS : rails;
    for (uint32_t i = 0; i < model->n_levels; i++)
        model->levels[i] = place == BR_COST_HOST ? host : rail;
}

int br_cost_model_check(const struct br_cost_model *model)
{
    bool good = model->n_levels >= 1 && model->n_levels <= BR_COST_LEVELS;

    good = good && isfinite(model->gamma) && model->gamma >= 0 && isfinite(model->copy) && model->copy >= 0;
    for (uint32_t i = 0; good && i < model->n_levels; i++) {
        const struct br_cost_level *level = &model->levels[i];

        good = isfinite(level->alpha) && level->alpha >= 0 && isfinite(level->overhead) &&
               level->overhead >= 0 && isfinite(level->beta) && level->beta > 0;
    }
    return good ? 0
                : br_error(EINVAL,
                           "a cost model has 1 to %d levels, and figures that are finite and not negative",
                           BR_COST_LEVELS);
}

struct br_cost_level br_cost_message(const struct br_cost_model *model, uint8_t level)
{
    struct br_cost_level all = {0};
    double rate = 0;

    if (level < model->n_levels)
        return model->levels[level];
    for (uint32_t i = 0; i < model->n_levels; i++) {
        all.alpha = fmax(all.alpha, model->levels[i].alpha);
        all.overhead = fmax(all.overhead, model->levels[i].overhead);
        rate += 1 / model->levels[i].beta;
    }
    all.beta = 1 / rate;
    return all;
}

/* `rounds` times, one after the other: `messages` messages of a rank of `bytes` each, then adding up `sums`
 * of them. */
static void add_rounds(struct times *t, const struct problem *p, double rounds, double messages, double bytes,
                       double sums)
{
    struct br_cost_level cost = br_cost_message(p->model, BR_LEVEL_ANY);
    double port = messages * (cost.overhead + bytes * cost.beta), cpu = sums * bytes * p->model->gamma;

    t->path += rounds * (cost.alpha + port + cpu);
    t->port += rounds * port;
    t->cpu += rounds * cpu;
}

/* One stage of all threads. */
static void add_stage(struct times *t, const struct problem *p, const struct br_stages *stages,
                      uint32_t threads, uint32_t w, bool reduces)
{
    bool blocks = p->request->collective == BR_REDUCE_SCATTER || p->request->collective == BR_ALLGATHER;
    double share = p->bytes / threads, busy[BR_COST_LEVELS] = {0}, alpha = 0, port = 0, cpu = 0;

    for (uint32_t i = 0; i < threads; i++) {
        const struct br_stage *stage = &stages[i].stages[w];
        struct br_cost_level cost = br_cost_message(p->model, stage->level);
        double per_number =
            (double)p->request->n / stages[i].core; /* blocks: of each number, folded ones too */
        double messages = blocks ? stage->weight * per_number : 1;
        double bytes = blocks ? share * messages : share * stage->weight / stages[i].core;
        double time = (stage->size - 1) * (messages * cost.overhead + bytes * cost.beta);

        for (uint32_t l = 0; l < p->model->n_levels; l++)
            busy[l] += l == stage->level || stage->level >= p->model->n_levels ? time : 0;
        alpha = fmax(alpha, cost.alpha * (stage->ring ? stage->size - 1 : 1));
        cpu += reduces ? (stage->size - 1) * bytes * p->model->gamma : 0;
    }
    for (uint32_t l = 0; l < p->model->n_levels; l++)
        port = fmax(port, busy[l]);
    t->path += alpha + port + cpu;
    t->port += port;
    t->cpu += cpu;
}

/* What happens before and after the stages. */
static void add_ends(struct times *t, const struct problem *p, uint32_t core)
{
    double n = p->request->n, b = p->bytes;
    bool folds = core < p->request->n;

    switch (p->request->collective) {
    case BR_ALLREDUCE:
        if (folds) {
            add_rounds(t, p, 1, 1, b, 1);
            add_rounds(t, p, 1, 1, b, 0);
        }
        break;
    case BR_REDUCE_SCATTER:
        if (folds) {
            add_rounds(t, p, 1, n, b, n);
            add_rounds(t, p, 1, 1, b, 0);
        }
        break;
    case BR_ALLGATHER:
        if (folds) {
            add_rounds(t, p, 1, 1, b, 0);
            add_rounds(t, p, 1, n - 1, b, 0);
        }
        break;
    default: /* scatter by or gathering to the root */
        add_rounds(t, p, 1, core - 1, b / core, 0);
        if (folds)
            add_rounds(t, p, 1, 1, b, 0);
        break;
    }
}

static void add_shape(struct times *t, const struct problem *p, const struct br_shape *shape)
{
    enum br_collective collective = p->request->collective;
    bool reduces = collective == BR_ALLREDUCE || collective == BR_REDUCE || collective == BR_REDUCE_SCATTER;
    bool gathers = collective == BR_ALLREDUCE || collective == BR_ALLGATHER || collective == BR_BROADCAST;
    struct br_stages stages[BR_DIMENSIONS_MAX];
    uint32_t thread = 0;

    do
        br_shape_stages(shape, thread, &stages[thread]);
    while (++thread < shape->threads);
    add_ends(t, p, stages[0].core);
    for (uint32_t w = 0; w < stages[0].n_stages; w++) {
        if (reduces)
            add_stage(t, p, stages, shape->threads, w, true);
        if (gathers)
            add_stage(t, p, stages, shape->threads, w, false);
    }
}

/* A rank of a tree has two children; in two trees it is a leaf of one. */
static void add_binary_tree(struct times *t, const struct problem *p, uint32_t trees)
{
    bool rooted = br_collective_rooted(p->request->collective);
    double depth = rooted ? 1 + floor(log2(p->request->n - 1)) : floor(log2(p->request->n));
    double b = p->bytes / trees;
    bool up = p->request->collective != BR_BROADCAST, down = p->request->collective != BR_REDUCE;
    struct times pace = {0};

    if (up)
        add_rounds(t, p, depth, 2, b, 2);
    if (down)
        add_rounds(t, p, depth, 2, b, 0);
    add_rounds(&pace, p, 1, (trees == 1 ? 2 : 2.5) * (up + down) - (up && down) * trees, b, up * 2);
    t->port = pace.port;
    t->cpu = pace.cpu;
}

/* The messages of a subtree double from round to round. */
static void add_packed_tree(struct times *t, const struct problem *p)
{
    double others = p->request->n - 1.0;

    for (double blocks = 1; blocks <= others; blocks *= 2)
        add_rounds(t, p, 1, 1, fmin(blocks, others + 1 - blocks) * p->bytes, 0);
    t->path += others * p->bytes * p->model->copy;
    t->cpu = others * p->bytes * p->model->copy;
}

static void add_bruck(struct times *t, const struct problem *p)
{
    double n = p->request->n, rounds = ceil(log2(n)), copied = (rounds * n / 2 + n) * p->bytes;

    add_rounds(t, p, rounds, 1, floor(n / 2) * p->bytes, 0);
    t->path += copied * p->model->copy;
    t->cpu = copied * p->model->copy;
}

static void add_doubling(struct times *t, const struct problem *p)
{
    double rounds = floor(log2(p->request->n));

    add_rounds(t, p, rounds, 1, p->bytes, 1);
    if (exp2(rounds) < p->request->n) {
        add_rounds(t, p, 1, 1, p->bytes, 1);
        add_rounds(t, p, 1, 1, p->bytes, 0);
    }
}

static void add_algorithm(struct times *t, const struct problem *p)
{
    const struct br_schedule_request *request = p->request;
    double others = request->n - 1.0, depth = ceil(log2(request->n));
    double sum = request->collective == BR_ALLREDUCE || request->collective == BR_REDUCE ? 1 : 0;
    bool packed = request->collective == BR_GATHER || request->collective == BR_SCATTER;
    struct br_shape shape;

    if (request->n == 1) {
        t->path = t->cpu = p->bytes * p->model->copy;
    } else if (br_algorithm_shape(request, &shape)) {
        add_shape(t, p, &shape);
    } else if (request->algorithm == BR_BINARY_TREE || request->algorithm == BR_DOUBLE_TREE) {
        add_binary_tree(t, p, request->algorithm == BR_BINARY_TREE ? 1 : 2);
    } else if (request->algorithm == BR_DOUBLING) {
        add_doubling(t, p);
    } else if (request->algorithm == BR_BRUCK) {
        add_bruck(t, p);
    } else if (request->algorithm == BR_TREE && packed) {
        add_packed_tree(t, p);
    } else if (request->algorithm == BR_FLAT || request->algorithm == BR_DIRECT) {
        add_rounds(t, p, 1, others, p->bytes, sum * others);
    } else if (request->algorithm == BR_CHAIN) {
        add_rounds(t, p, others, 1, p->bytes, sum);
        t->port /= others; /* each rank has one message of them */
        t->cpu /= others;
    } else if (request->algorithm == BR_TREE) {
        add_rounds(t, p, depth, 1, p->bytes, sum * (depth + 1) / 2); /* a rank adds up its children at once */
        t->cpu /= (depth + 1) / 2;
    } else {
        add_rounds(t, p, depth, 1, 0, 0);
    }
}

int br_cost_estimate(const struct br_cost_model *model, const struct br_schedule_request *request,
                     double bytes, uint32_t fragments, double *seconds)
{
    struct problem problem = {model, request, bytes / (fragments < 1 ? 1 : fragments)};
    struct times t = {0};
    int rc = br_algorithm_check(request);

    if (rc == 0)
        rc = br_cost_model_check(model);
    if (rc != 0)
        return rc;
    add_algorithm(&t, &problem);
    *seconds = t.path + (fragments > 1 ? fragments - 1 : 0) * fmax(t.port, t.cpu);
    return 0;
}

int br_choose(const struct br_cost_model *model, enum br_collective collective, uint32_t n, double bytes,
              struct br_choice *choice)
{
    struct br_schedule_request request = {.collective = collective, .n = n};
    struct br_choice best = {.seconds = INFINITY};

    for (int a = 0; a < BR_ALGORITHMS; a++) {
        request.algorithm = (enum br_algorithm)a;
        for (uint32_t f = 1; f <= MOST_FRAGMENTS && a != BR_DIMENSIONAL; f *= 2) {
            double seconds;

            if (br_cost_estimate(model, &request, bytes, f, &seconds) != 0)
                break;
            if (seconds < best.seconds)
                best = (struct br_choice){request.algorithm, f, seconds};
        }
    }
    if (best.fragments == 0)
        return br_cost_model_check(model) != 0
                   ? -EINVAL
                   : br_error(EINVAL, "no algorithm does collective %d on %u ranks", (int)collective, n);
    *choice = best;
    return 0;
}
