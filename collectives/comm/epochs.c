/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/epochs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "bcube/address.h"
#include "bcube/disjoint_trees.h"
#include "bcube/failures.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/type.h"
#include "collectives/tuning/plan_cache.h"
#include "collectives/tuning/topology.h"
#include "protocol/message.h"
#include "protocol/worker.h"

_Static_assert(BR_EPOCHS_MAX_ROUNDS > BR_BACKLOG_AT_ONCE + 1,
               "an operation may make a round due, and wait for the one before");

/* ---- failures -------------------------------------------------------------------------------- */

static uint32_t bit_of(const struct br_bcube *cube, uint32_t host, uint32_t level,
                       uint32_t neighbour)
{
    uint32_t i = 0;

    while (br_bcube_neighbour(cube, host, level, i) != neighbour)
        i++;
    return level * (cube->n - 1) + i;
}

/* A link is broken when either end says so. */
static bool is_broken(const struct br_bcube *cube, const uint64_t *broken, uint32_t a, uint32_t b,
                      uint32_t level)
{
    return (broken[a] >> bit_of(cube, a, level, b) & 1) ||
           (broken[b] >> bit_of(cube, b, level, a) & 1);
}

/* Links of a NIC that are broken and that nothing in the set explains. */
static uint32_t epochs_unexplained(const struct br_bcube *cube, const uint64_t *broken,
                                   const struct br_failures *failures, uint32_t host,
                                   uint32_t level)
{
    uint32_t n = 0;

    if (br_failures_has(failures, BR_FAILURE_NIC, host, level))
        return 0;
    for (uint32_t i = 0; i < cube->n - 1; i++) {
        uint32_t other = br_bcube_neighbour(cube, host, level, i);

        n += other < cube->hosts && !br_failures_has(failures, BR_FAILURE_NIC, other, level) &&
             is_broken(cube, broken, host, other, level);
    }
    return n;
}

int br_epochs_failures(const struct br_bcube *cube, const uint64_t *broken,
                       struct br_failures *failures)
{
    for (;;) {
        uint32_t most = 0, host = 0, level = 0;
        int rc;

        for (uint32_t h = 0; h < cube->hosts; h++)
            for (uint32_t l = 0; l < cube->k; l++) {
                uint32_t n = epochs_unexplained(cube, broken, failures, h, l);

                if (n <= most)
                    continue;
                most = n;
                host = h;
                level = l;
            }
        if (!most)
            return 0;
        rc = br_failures_add(failures, BR_FAILURE_NIC, host, level);
        if (rc)
            return rc;
    }
}

/* ---- disjoint trees -------------------------------------------------------------------------- */

static int epochs_keep(struct br_epochs *epochs, struct br_disjoint_trees *trees)
{
    struct br_disjoint_trees **more =
        realloc(epochs->disjoint_trees,
                (epochs->n_disjoint_trees + 1) * sizeof(struct br_disjoint_trees *));

    if (!more) {
        br_disjoint_trees_free(trees);
        return br_error(ENOMEM, "no memory for another epoch of the network");
    }
    epochs->disjoint_trees = more;
    epochs->disjoint_trees[epochs->n_disjoint_trees++] = trees;
    return 0;
}

/* Finds the disjoint trees of these failures, or makes them. */
static int disjoint_trees_of(struct br_epochs *epochs, const struct br_bcube *cube,
                             const struct br_failures *failures,
                             const struct br_disjoint_trees **out)
{
    struct br_disjoint_trees *trees;
    int rc = br_disjoint_trees_new(cube, failures, &trees);

    if (rc == -EHOSTUNREACH) { /* the cube is in parts: planned as if whole, and relayed */
        *out = epochs->disjoint_trees[0];
        return 0;
    }
    if (rc)
        return rc;
    for (uint32_t i = 0; i < epochs->n_disjoint_trees; i++)
        if (epochs->disjoint_trees[i]->digest == trees->digest) {
            br_disjoint_trees_free(trees);
            *out = epochs->disjoint_trees[i];
            return 0;
        }
    *out = trees;
    return epochs_keep(epochs, trees);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void epochs_begin(struct br_context *context, uint64_t now)
{
    struct br_epochs *epochs = context->epochs;
    struct br_operation *op = &epochs->op;
    uint64_t round = epochs->begun_rounds++;

    if (round % (BR_OPERATIONS / 4) == 0)
        br_worker_forget_before(context->worker, BR_EPOCHS_GROUP, round);
    epochs->local_links = br_worker_broken_links(context->worker);
    *op = (struct br_operation){
        .kind = BR_OPERATION_COLLECTIVE,
        .collective = BR_ALLGATHER,
        .send = &epochs->local_links,
        .recv = epochs->all_links,
        .count = 1,
        .type = BRAID_UINT64,
        .priority = INT32_MAX,
        /* what waits for it has a deadline, perhaps a longer one than others */
        .timeout = UINT64_MAX,
        .deadline = UINT64_MAX,
        .sequence = round,
        .is_epoch_round = true,
        .order = epochs->orders[round % BR_EPOCHS_MAX_ROUNDS],
        .group = &epochs->group,
        .comm = context->world};
    atomic_fetch_add(&context->world->outstanding, 1);
    if (br_engine_submit(context->engine, op, now))
        atomic_fetch_sub(&context->world->outstanding, 1); /* the worker has failed */
}

void br_epochs_assign(struct br_context *context, struct br_operation *op, uint64_t now)
{
    struct br_epochs *epochs = context->epochs;
    size_t bytes = op->count * br_type_size(op->type);

    if (op->comm != context->world || op->kind != BR_OPERATION_COLLECTIVE ||
        op->collective != BR_ALLREDUCE)
        return;
    /* all ranks count what any of them may plan by disjoint trees */
    if (!op->algorithm[0] && bytes >= BR_DISJOINT_TREES_MIN_BYTES)
        epochs->bytes += bytes;
    if (epochs->bytes >= BR_EPOCHS_BYTES) {
        epochs->bytes = 0;
        epochs->orders[epochs->due_rounds++ % BR_EPOCHS_MAX_ROUNDS] = op->order + 1;
        if (epochs->begun_rounds == op->group->epoch)
            epochs_begin(context, now);
    }
    op->epoch = epochs->due_rounds ? epochs->due_rounds - 1 : 0;
}

void br_epochs_round_ended(struct br_context *context, uint64_t now)
{
    struct br_epochs *epochs = context->epochs;
    struct br_group *group = context->world->group;
    const struct br_disjoint_trees *trees, *before = group->epochs[group->epoch % 2];
    struct br_failures failures = {0};
    int rc;

    if (epochs->op.status)
        return; /* everything else has failed as well */
    rc = br_epochs_failures(&context->settings.cube, epochs->all_links, &failures);
    if (!rc)
        rc = disjoint_trees_of(epochs, &context->settings.cube, &failures, &trees);
    br_failures_destroy(&failures);
    if (rc) {
        br_worker_fail(context->worker, -rc, br_error_message());
        return;
    }
    if (trees != before)
        br_log_info("rank %d: all-reduces go %s from now on", context->rank,
                    trees->broken ? "around broken links" : "over all links again");
    br_engine_set_epoch(context->engine, group, trees);
    if (epochs->begun_rounds < epochs->due_rounds)
        epochs_begin(context, now);
}

/* ---- the job --------------------------------------------------------------------------------- */

int br_epochs_create(struct br_context *context)
{
    const struct br_topology *topology = &context->network.topology;
    const struct br_bcube *cube = &context->settings.cube;
    struct br_group *group = br_engine_all(context->engine);
    struct br_disjoint_trees *whole;
    int rc;

    if (topology->kind != BR_TOPOLOGY_BCUBE || context->size < 2 ||
        cube->hosts > BR_DISJOINT_TREES_HOSTS || !br_topology_is_whole_cube(topology) ||
        cube->k * (cube->n - 1) > 64)
        return 0;
    context->epochs = calloc(1, sizeof *context->epochs);
    if (!context->epochs)
        return br_error(ENOMEM, "rank %d: no memory for the epochs", context->rank);
    context->epochs->all_links = calloc((size_t)context->size, sizeof *context->epochs->all_links);
    rc = context->epochs->all_links
             ? 0
             : br_error(ENOMEM, "rank %d: no memory for the epochs", context->rank);
    if (!rc)
        rc = br_group_init(&context->epochs->group, BR_EPOCHS_GROUP, context->rank, context->size,
                           NULL, &context->network.model);
    if (!rc)
        rc = br_disjoint_trees_new(cube, NULL, &whole);
    if (!rc)
        rc = epochs_keep(context->epochs, whole);
    if (rc) {
        br_epochs_destroy(context);
        return rc;
    }
    group->epochs[0] = whole;
    context->group_numbers[BR_EPOCHS_GROUP / 64] |= 1ull << BR_EPOCHS_GROUP % 64;
    return 0;
}

void br_epochs_destroy(struct br_context *context)
{
    struct br_epochs *epochs = context->epochs;

    if (!epochs)
        return;
    for (uint32_t i = 0; i < epochs->n_disjoint_trees; i++)
        br_disjoint_trees_free(epochs->disjoint_trees[i]);
    free(epochs->disjoint_trees);
    br_group_destroy(&epochs->group);
    free(epochs->all_links);
    free(epochs);
    context->epochs = NULL;
}
