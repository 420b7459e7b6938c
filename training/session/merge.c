/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Merge plans. doc/design/replan.md, section 6, says why one pass is enough for Algorithm 1 and how
 * the optimal plan is found.
 */
#include "training/session/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void br_merge_layerwise(const struct br_workload *work, uint8_t *joins)
{
    memset(joins, 0, work->n);
}

void br_merge_single(const struct br_workload *work, uint8_t *joins)
{
    memset(joins, 1, work->n);
    joins[0] = 0;
}

void br_merge_bucket(const struct br_workload *work, double bytes, uint8_t *joins)
{
    double filled = 0;

    for (uint32_t l = work->n; l-- > 0;) {
        filled += work->layers[l].bytes;
        joins[l] = filled < bytes && l > 0;
        if (!joins[l])
            filled = 0;
    }
}

void br_merge_greedy(const struct br_workload *work, uint8_t *joins)
{
    double ready = 0;   /* when the backward pass has done layer l */
    double free_at = 0; /* when the groups above have ended: tau_c(l+1) + t_c(l+1) */
    double bytes = 0;   /* of the group that layer l is in, down to l */

    for (uint32_t l = work->n; l-- > 0;) {
        double start;

        ready += work->layers[l].backward;
        start = free_at > ready ? free_at : ready;
        bytes += work->layers[l].bytes;
        joins[l] = l > 0 && ready + work->layers[l - 1].backward - start < work->cost.a;
        if (joins[l]) {
            free_at = start; /* merged: t_c(l) = 0 */
        } else {
            free_at = start + br_cost_line_seconds(&work->cost, bytes);
            bytes = 0;
        }
    }
}

int br_merge_optimal(const struct br_workload *work, uint8_t *joins)
{
    uint32_t n = work->n;
    double *end = calloc(n + 1, sizeof *end), ready = 0;
    uint32_t *above = calloc(n + 1, sizeof *above); /* where the next group begins */

    if (!end || !above) {
        free(end);
        free(above);
        return br_error(ENOMEM, "no memory to plan %u layers", n);
    }
    for (uint32_t l = n; l-- > 0;) {
        double bytes = 0, best = -1;

        ready += work->layers[l].backward;
        for (uint32_t h = l + 1; h <= n; h++) {
            double start = end[h] > ready ? end[h] : ready, ends;

            bytes += work->layers[h - 1].bytes;
            ends = start + br_cost_line_seconds(&work->cost, bytes);
            if (best < 0 || ends < best) {
                best = ends;
                above[l] = h;
            }
        }
        end[l] = best;
    }
    memset(joins, 1, n);
    for (uint32_t l = 0; l < n; l = above[l])
        joins[l] = 0;
    free(end);
    free(above);
    return 0;
}
