/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/profiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_profiler_open(struct br_profiler *profiler, uint32_t n)
{
    memset(profiler, 0, sizeof *profiler);
    profiler->n = n;
    profiler->sums = calloc(n, sizeof *profiler->sums);
    profiler->forwards = calloc(n, sizeof *profiler->forwards);
    profiler->backwards = calloc(n, sizeof *profiler->backwards);
    profiler->last = calloc(n, sizeof *profiler->last);
    profiler->turn = 1;
    if (profiler->sums && profiler->forwards && profiler->backwards && profiler->last)
        return 0;
    br_profiler_close(profiler);
    return br_error(ENOMEM, "no memory for the times of %u layers", n);
}

void br_profiler_close(struct br_profiler *profiler)
{
    free(profiler->sums);
    free(profiler->forwards);
    free(profiler->backwards);
    free(profiler->last);
    memset(profiler, 0, sizeof *profiler);
}

void br_profiler_reset(struct br_profiler *profiler)
{
    memset(profiler->sums, 0, profiler->n * sizeof *profiler->sums);
    memset(profiler->forwards, 0, profiler->n * sizeof *profiler->forwards);
    memset(profiler->backwards, 0, profiler->n * sizeof *profiler->backwards);
    memset(profiler->last, 0, profiler->n * sizeof *profiler->last);
    profiler->call = BR_PROFILER_NONE;
    profiler->began = 0;
    profiler->ready = 0;
    profiler->iterations = 0;
    profiler->seconds = profiler->exposed = profiler->waited = 0;
}

/* The time since the last call is that of a pass if the two calls are the ones around it. */
static void profiler_attribute(struct br_profiler *profiler, enum br_profiler_call call,
                               uint32_t layer, double seconds)
{
    bool other_waits = call == BR_PROFILER_WAIT && layer != profiler->layer;

    if (profiler->call == BR_PROFILER_WAIT && (other_waits || call == BR_PROFILER_STEP)) {
        profiler->sums[profiler->layer].forward += seconds;
        profiler->forwards[profiler->layer] += profiler->last[profiler->layer] != profiler->turn;
        profiler->last[profiler->layer] = profiler->turn;
    } else if (call == BR_PROFILER_READY &&
               (profiler->call == BR_PROFILER_READY || profiler->call == BR_PROFILER_STEP)) {
        profiler->sums[layer].backward += seconds;
        profiler->backwards[layer]++;
    }
}

void br_profiler_enter(struct br_profiler *profiler, enum br_profiler_call call, uint32_t layer,
                       uint64_t now)
{
    if (profiler->call != BR_PROFILER_NONE)
        profiler_attribute(profiler, call, layer, (double)(now - profiler->left) / 1e9);
    if (call == BR_PROFILER_READY && !profiler->ready) {
        if (profiler->began) {
            profiler->seconds += (double)(now - profiler->began) / 1e9;
            profiler->exposed += profiler->waited;
            profiler->iterations++;
        }
        profiler->began = now;
        profiler->waited = 0;
        profiler->turn++;
    }
    if (call == BR_PROFILER_READY)
        profiler->ready = (profiler->ready + 1) % profiler->n;
    profiler->call = call;
    profiler->layer = layer;
    profiler->entered = now;
}

void br_profiler_leave(struct br_profiler *profiler, uint64_t now)
{
    if (profiler->call == BR_PROFILER_WAIT || profiler->call == BR_PROFILER_STEP)
        profiler->waited += (double)(now - profiler->entered) / 1e9;
    profiler->left = now;
}

void br_profiler_times(const struct br_profiler *profiler, struct br_layer *layers)
{
    for (uint32_t l = 0; l < profiler->n; l++) {
        layers[l].forward =
            profiler->forwards[l] ? profiler->sums[l].forward / profiler->forwards[l] : 0;
        layers[l].backward =
            profiler->backwards[l] ? profiler->sums[l].backward / profiler->backwards[l] : 0;
    }
}

double br_profiler_iteration(const struct br_profiler *profiler, double *exposed)
{
    double n = (double)profiler->iterations;

    *exposed = n > 0 ? profiler->exposed / n : 0;
    return n > 0 ? profiler->seconds / n : 0;
}
