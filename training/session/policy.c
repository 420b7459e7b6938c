/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How AUTO searches. Without priorities the iteration ends when the last group has been reduced and
 * the forward pass after it is through, so `optimal` is the best plan and nothing is left to
 * search. With priorities the forward pass begins while groups are still being reduced. Whether a
 * border between two groups helps then depends on all other borders. Rejected: an exact search,
 * which would have to carry the whole stack of waiting groups. The search here starts from plans of
 * many shapes and is bounded in work and not in time, so that it gives the same plan everywhere.
 */
#include "training/session/policy.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define SEARCH_LAYERS 400000 /* layers of all time lines that the search may run */
#define LEAST_BUCKET  16384.0
#define BUCKETS       17 /* each twice the one before: up to 1 GiB */

static const char *const names[BR_POLICIES] = {"layerwise", "single", "bucket", "mgwfbp",
                                               "optimal",   "p3",     "auto"};

const char *br_policy_name(enum br_policy policy)
{
    return names[policy];
}

int br_policy_find(const char *name, enum br_policy *policy)
{
    for (int i = 0; i < BR_POLICIES; i++)
        if (!strcmp(name, names[i])) {
            *policy = (enum br_policy)i;
            return 0;
        }
    return br_error(
        EINVAL,
        "%s: no such policy; there are layerwise, single, bucket, mgwfbp, optimal, p3, auto", name);
}

/* ---- auto ------------------------------------------------------------------------------------ */

struct search {
    const struct br_workload *work;
    struct br_timeline line;
    uint8_t *joins;              /* of the candidate */
    struct br_policy_plan *best; /* so far */
    int64_t layers_left;         /* layers of time lines that may still be run */
};

/* Runs the candidate and keeps it if it is better. */
static bool policy_consider(struct search *s, bool urgent)
{
    br_timeline_run(&s->line, s->work, s->joins, urgent);
    s->layers_left -= s->work->n;
    if (s->best->iteration > 0 && s->line.iteration >= s->best->iteration * (1 - 1e-9))
        return false;
    s->best->iteration = s->line.iteration;
    s->best->urgent = urgent;
    memcpy(s->best->joins, s->joins, s->work->n);
    return true;
}

static void consider_both(struct search *s)
{
    policy_consider(s, false);
    policy_consider(s, true);
}

static int policy_starts(struct search *s)
{
    int rc = br_merge_optimal(s->work, s->joins);

    if (rc)
        return rc;
    consider_both(s);
    br_merge_greedy(s->work, s->joins);
    consider_both(s);
    br_merge_layerwise(s->work, s->joins);
    consider_both(s);
    br_merge_single(s->work, s->joins);
    consider_both(s);
    br_merge_bucket(s->work, s->work->bucket_bytes, s->joins);
    consider_both(s);
    for (int i = 0; i < BUCKETS; i++) {
        br_merge_bucket(s->work, ldexp(LEAST_BUCKET, i), s->joins);
        policy_consider(s, true);
    }
    return 0;
}

/* Puts a border before each layer in turn, or takes it away, or moves it up by one. */
static bool policy_sweep(struct search *s)
{
    bool better = false;

    memcpy(s->joins, s->best->joins, s->work->n);
    for (uint32_t l = 1; l < s->work->n && s->layers_left > 0; l++) {
        s->joins[l] ^= 1;
        if (policy_consider(s, true)) {
            better = true;
            continue;
        }
        if (s->joins[l] && l + 1 < s->work->n && s->joins[l + 1]) { /* it was a border */
            s->joins[l + 1] = 0;
            if (policy_consider(s, true)) {
                better = true;
                continue;
            }
            s->joins[l + 1] = 1;
        }
        s->joins[l] ^= 1;
    }
    return better;
}

static int make_auto(const struct br_workload *work, struct br_policy_plan *plan)
{
    struct search s = {.work = work, .best = plan, .layers_left = SEARCH_LAYERS};
    int rc = br_timeline_open(&s.line, work->n);

    if (rc)
        return rc;
    plan->iteration = 0;
    s.joins = malloc(work->n);
    rc = s.joins ? policy_starts(&s) : br_error(ENOMEM, "no memory to plan %u layers", work->n);
    while (!rc && s.layers_left > 0 && policy_sweep(&s))
        continue;
    free(s.joins);
    br_timeline_close(&s.line);
    return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

int br_policy_make(enum br_policy policy, const struct br_workload *work,
                   struct br_policy_plan *plan)
{
    struct br_timeline line;
    int rc = 0;

    plan->urgent = policy == BR_POLICY_P3;
    switch (policy) {
    case BR_POLICY_SINGLE:
        br_merge_single(work, plan->joins);
        break;
    case BR_POLICY_BUCKET:
        br_merge_bucket(work, work->bucket_bytes, plan->joins);
        break;
    case BR_POLICY_MGWFBP:
        br_merge_greedy(work, plan->joins);
        break;
    case BR_POLICY_OPTIMAL:
        rc = br_merge_optimal(work, plan->joins);
        break;
    case BR_POLICY_AUTO:
        return make_auto(work, plan);
    default:
        br_merge_layerwise(work, plan->joins);
    }
    if (!rc)
        rc = br_timeline_open(&line, work->n);
    if (rc)
        return rc;
    br_timeline_run(&line, work, plan->joins, plan->urgent);
    plan->iteration = line.iteration;
    br_timeline_close(&line);
    return 0;
}
