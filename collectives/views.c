/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/views.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/type.h"

_Static_assert(BR_VIEWS_MOST > BR_MAX_OPERATIONS + 1,
               "an operation may make a round due, and wait for the one before");

/* ---- failures ---------------------------------------------------------------------------------------------- */

static uint32_t bit_of(const struct br_bcube *cube, uint32_t host, uint32_t level, uint32_t neighbour)
{
    uint32_t i = 0;

    while (br_bcube_neighbour(cube, host, level, i) != neighbour)
        i++;
    return level * (cube->n - 1) + i;
}

/* Either end says so. */
static bool is_broken(const struct br_bcube *cube, const uint64_t *broken, uint32_t a, uint32_t b,
                      uint32_t level)
{
    return (broken[a] >> bit_of(cube, a, level, b) & 1) || (broken[b] >> bit_of(cube, b, level, a) & 1);
}

/* Links of a NIC that are broken and that nothing in the set explains. */
static uint32_t unexplained(const struct br_bcube *cube, const uint64_t *broken,
                            const struct br_failures *failures, uint32_t host, uint32_t level)
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

int br_views_failures(const struct br_bcube *cube, const uint64_t *broken, struct br_failures *failures)
{
    for (;;) {
        uint32_t most = 0, host = 0, level = 0;
        int rc;

        for (uint32_t h = 0; h < cube->hosts; h++)
            for (uint32_t l = 0; l < cube->k; l++) {
                uint32_t n = unexplained(cube, broken, failures, h, l);

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

/* ---- views ------------------------------------------------------------------------------------------------- */

static int keep(struct br_views *views, struct br_forest *forest)
{
    struct br_forest **more = realloc(views->forests, (views->n_forests + 1) * sizeof(struct br_forest *));

    if (!more) {
        br_forest_free(forest);
        return br_error(ENOMEM, "no memory for another view of the network");
    }
    views->forests = more;
    views->forests[views->n_forests++] = forest;
    return 0;
}

/* The one of these failures: known already, or new. */
static int forest_of(struct br_views *views, const struct br_bcube *cube, const struct br_failures *failures,
                     const struct br_forest **out)
{
    struct br_forest *forest;
    int rc = br_forest_new(cube, failures, &forest);

    if (rc ==
        -EHOSTUNREACH) { /* in parts for now, or hosts are reached by chance: as if whole, and relayed */
        *out = views->forests[0];
        return 0;
    }
    if (rc)
        return rc;
    for (uint32_t i = 0; i < views->n_forests; i++)
        if (views->forests[i]->digest == forest->digest) {
            br_forest_free(forest);
            *out = views->forests[i];
            return 0;
        }
    *out = forest;
    return keep(views, forest);
}

static int view_of(struct br_family *family, const struct br_forest **out)
{
    struct br_failures failures = {0};
    int rc = br_views_failures(&family->settings.cube, family->views->all, &failures);

    if (!rc)
        rc = forest_of(family->views, &family->settings.cube, &failures, out);
    br_failures_destroy(&failures);
    return rc;
}

/* ---- rounds ------------------------------------------------------------------------------------------------ */

static void begin(struct br_family *family, uint64_t now)
{
    struct br_views *views = family->views;
    struct br_operation *op = &views->op;
    uint64_t round = views->begun++;

    if (round % (BR_OPERATIONS / 4) == 0)
        br_worker_forget_before(family->worker, BR_VIEWS_GROUP, round);
    views->mine = br_worker_broken_links(family->worker);
    *op = (struct br_operation){
        .kind = BR_OPERATION_COLLECTIVE,
        .collective = BR_ALLGATHER,
        .send = &views->mine,
        .recv = views->all,
        .count = 1,
        .type = BRAID_UINT64,
        .priority = INT32_MAX,
        .timeout = UINT64_MAX, /* what waits for it has a deadline, perhaps a longer one than others */
        .deadline = UINT64_MAX,
        .sequence = round,
        .surveys = true,
        .order = views->orders[round % BR_VIEWS_MOST],
        .group = &views->group,
        .comm = family->first};
    atomic_fetch_add(&family->first->outstanding, 1);
    if (br_engine_submit(family->engine, op, now))
        atomic_fetch_sub(&family->first->outstanding, 1); /* the worker has failed */
}

/* May it be planned by a forest, by any rank's account? */
static bool counts(const struct br_operation *op)
{
    return op->collective == BR_ALLREDUCE && !op->algorithm[0] &&
           op->count * br_type_size(op->type) >= BR_FOREST_LEAST;
}

void br_views_pass(struct br_family *family, struct br_operation *op, uint64_t now)
{
    struct br_views *views = family->views;

    if (!views || op->comm != family->first || op->kind != BR_OPERATION_COLLECTIVE ||
        op->collective != BR_ALLREDUCE)
        return;
    if (counts(op))
        views->bytes += op->count * br_type_size(op->type);
    if (views->bytes >= BR_VIEWS_BYTES) {
        views->bytes = 0;
        views->orders[views->due++ % BR_VIEWS_MOST] = op->order + 1;
        if (views->begun == op->group->known)
            begin(family, now);
    }
    op->view = views->due ? views->due - 1 : 0;
}

void br_views_ended(struct br_family *family, uint64_t now)
{
    struct br_views *views = family->views;
    struct br_group *group = family->first->group;
    const struct br_forest *view, *before = group->views[group->known % 2];
    int rc;

    if (views->op.status)
        return; /* so has everything else */
    rc = view_of(family, &view);
    if (rc) {
        br_worker_fail(family->worker, -rc, br_error_words());
        return;
    }
    if (view != before)
        br_log_info("rank %d: all-reduces go %s from now on", family->rank,
                    view->broken ? "around broken links" : "over all links again");
    br_engine_learn(family->engine, group, view);
    if (views->begun < views->due)
        begin(family, now);
}

/* ---- the job ----------------------------------------------------------------------------------------------- */

int br_views_create(struct br_family *family)
{
    const struct br_topology *topology = &family->network.topology;
    const struct br_bcube *cube = &family->settings.cube;
    struct br_group *group = br_engine_all(family->engine);
    struct br_forest *whole;
    int rc;

    if (topology->kind != BR_TOPOLOGY_BCUBE || family->size < 2 || cube->hosts > BR_FOREST_HOSTS ||
        !br_topology_is_whole_cube(topology) || cube->k * (cube->n - 1) > 64)
        return 0;
    family->views = calloc(1, sizeof *family->views);
    if (!family->views)
        return br_error(ENOMEM, "rank %d: no memory for the views", family->rank);
    family->views->all = calloc((size_t)family->size, sizeof *family->views->all);
    rc = family->views->all ? 0 : br_error(ENOMEM, "rank %d: no memory for the views", family->rank);
    if (!rc)
        rc = br_group_init(&family->views->group, BR_VIEWS_GROUP, family->rank, family->size, NULL,
                           &family->network.model);
    if (!rc)
        rc = br_forest_new(cube, NULL, &whole);
    if (!rc)
        rc = keep(family->views, whole);
    if (rc) {
        br_views_destroy(family);
        return rc;
    }
    group->views[0] = whole;
    family->numbers[BR_VIEWS_GROUP / 64] |= 1ull << BR_VIEWS_GROUP % 64;
    return 0;
}

void br_views_destroy(struct br_family *family)
{
    struct br_views *views = family->views;

    if (!views)
        return;
    for (uint32_t i = 0; i < views->n_forests; i++)
        br_forest_free(views->forests[i]);
    free(views->forests);
    br_group_destroy(&views->group);
    free(views->all);
    free(views);
    family->views = NULL;
}
