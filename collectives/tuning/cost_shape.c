/* SPDX-License-Identifier: BSD-3-Clause */
/* The formulas of the algorithms of a shape (generators/shape.h), which go through the factors of
 * the rank count: a stage each, before and after which ranks beyond the core are folded. */

#include "collectives/tuning/cost_internal.h"

/* Not of a reduce-scatter of two ranks a core: what goes to another core less often is summed up in
 * two passes and not in one, which costs as much from 1 MiB on (doc/design/cost_model.md,
 * section 3). */
static bool counts_cores(const struct br_cost_problem *p)
{
    return p->request->collective != BR_REDUCE_SCATTER ||
           p->request->n > 2 * (uint64_t)p->topology->cores;
}

/* One stage of all threads. */
static void add_stage(struct br_cost_problem *p, const struct br_stages *stages, uint32_t threads,
                      uint32_t w, bool reduces)
{
    bool blocks = br_collective_by_blocks(p->request->collective);
    double share = p->bytes / threads, cpu = 0;
    struct br_port_load round;

    br_port_load_init(&round, p->model, p->topology);
    for (uint32_t i = 0; i < threads; i++) {
        const struct br_stage *stage = &stages[i].stages[w];
        double per_number =
            (double)p->request->n / stages[i].core; /* blocks: of each number, folded ones too */
        double run = blocks ? stage->weight * per_number : 1; /* blocks that travel together */
        double messages = p->request->packed ? 1 : run;
        double bytes = blocks ? share * run / messages : share * stage->weight / stages[i].core;
        struct br_exchange exchange = {.peer = br_cost_peer_in_stage,
                                       .context = stage,
                                       .peers = stage->ring ? 1 : stage->size - 1,
                                       .ranks = stages[i].core,
                                       .sender = BR_PORT_LOAD_ALL,
                                       .level = stage->level,
                                       .messages = messages,
                                       .bytes = bytes};

        exchange.ready = blocks;
        exchange.by_core = blocks && counts_cores(p);
        exchange.together = blocks ? exchange.peers * messages : 0;
        br_port_load_add(&round, p->model, p->topology, &exchange,
                         stage->ring ? stage->size - 1 : 1);
        cpu += reduces ? (stage->size - 1) * messages * bytes * p->model->gamma : 0;
    }
    br_cost_end_rounds(p, &round, cpu);
}

/* Where ranks take turns on few cores, those of the core have waited asleep for what was folded,
 * and each is woken up for what comes next. Measured with 6 and 7 ranks on 2 cores, TCP on
 * loopback: packed `halving` took 1.5 times as long as `direct`. */
static void add_packed_fold(struct br_cost_problem *p, uint32_t core, double bytes, double sums)
{
    uint32_t context[2] = {core, p->request->n};

    br_cost_add_fold(p, core, 1, bytes, sums);
    if (p->topology->cores)
        br_cost_add_exchange(p, br_cost_peer_at_distance, context, core, false, 1, 0, 0);
}

/* Bytes that a rank copies for the sake of packed messages: all blocks into or from the order in
 * which they travel, where the user's buffer has another. In memory what is passed on counts as
 * well: with 16 ranks on 2 cores and blocks of 256 KiB `halving` took 1.1 (allgather) and 1.5 times
 * (reduce_scatter) as long as `direct`, though as many bytes travel. */
static double packed_copies(const struct br_cost_problem *p, const struct br_stages *stages,
                            uint32_t threads)
{
    double blocks = 0;

    if (threads > 1 || stages->core < p->request->n || !br_stages_in_order(stages))
        blocks += p->request->n;
    for (uint32_t w = 0; p->model->in_memory && w + 1 < stages->n_stages; w++)
        blocks += stages->stages[w].weight;
    return blocks * p->bytes;
}

/* A reduce-scatter or an allgather of packed messages: what happens besides its stages. */
static void add_packed_ends(struct br_cost_problem *p, const struct br_stages *stages,
                            uint32_t threads)
{
    bool reduces = p->request->collective == BR_REDUCE_SCATTER;
    double all = p->request->n * p->bytes;

    if (stages->core < p->request->n) {
        add_packed_fold(p, stages->core, reduces ? all : p->bytes, reduces);
        add_packed_fold(p, stages->core, reduces ? p->bytes : all, 0);
    }
    br_cost_add_copies_in_turn(p, packed_copies(p, stages, threads));
}

/* What happens before and after the stages. */
static void add_ends(struct br_cost_problem *p, uint32_t core)
{
    double n = p->request->n, b = p->bytes;
    bool folds = core < p->request->n;

    switch (p->request->collective) {
    case BR_ALLREDUCE:
        if (folds) {
            br_cost_add_fold(p, core, 1, b, 1);
            br_cost_add_fold(p, core, 1, b, 0);
        }
        break;
    case BR_REDUCE_SCATTER:
        if (folds) {
            br_cost_add_fold(p, core, n, b, n);
            br_cost_add_fold(p, core, 1, b, 0);
        }
        break;
    case BR_ALLGATHER:
        if (folds) {
            br_cost_add_fold(p, core, 1, b, 0);
            br_cost_add_fold(p, core, n - 1, b, 0);
        }
        break;
    default: /* scatter by or gathering to the root */
        br_cost_add_all(p, p->request->root, core - 1, b / core, 0);
        if (folds)
            br_cost_add_fold(p, core, 1, b, 0);
        break;
    }
}

void br_cost_add_shape(struct br_cost_problem *p, const struct br_shape *shape)
{
    enum br_collective collective = p->request->collective;
    bool reduces =
        collective == BR_ALLREDUCE || collective == BR_REDUCE || collective == BR_REDUCE_SCATTER;
    bool gathers =
        collective == BR_ALLREDUCE || collective == BR_ALLGATHER || collective == BR_BROADCAST;
    struct br_stages stages[BR_DIMENSIONS_MAX];
    uint32_t thread = 0;

    do
        br_shape_stages(shape, thread, &stages[thread]);
    while (++thread < shape->threads);
    if (p->request->packed)
        add_packed_ends(p, stages, shape->threads);
    else
        add_ends(p, stages[0].core);
    for (uint32_t w = 0; w < stages[0].n_stages; w++) {
        if (reduces)
            add_stage(p, stages, shape->threads, w, br_cost_of_sums(p));
        if (gathers)
            add_stage(p, stages, shape->threads, w, false);
    }
}
