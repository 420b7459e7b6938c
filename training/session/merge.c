/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. Times count from the start of the backward pass. The paper's begin with the forward pass
 *    before it; only differences matter.
 * 2. Algorithm 1 recomputes all start times after each merge, O(L^2). Going from the last layer to
 *    the first, a merge of layer l into l-1 changes no start time but those of l-1 and below, which
 *    have not been looked at: one pass gives the same plan. A test compares it with the algorithm
 *    as printed.
 * 3. The exact minimum: end[l] is the earliest time at which everything from layer l up can have
 *    been reduced when a group begins with layer l. The group [l, h) starts when the one above has
 *    ended and its own gradients are there, so end[l] = min over h of max(end[h], ready[l]) + a + b
 *    bytes[l, h). An earlier end above never makes a later one below; therefore the best of each
 *    part is in the best of the whole.
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
