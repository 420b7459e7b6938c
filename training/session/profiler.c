/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/profiler.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_profiler_open(struct br_profiler *pace, uint32_t n)
{
    memset(pace, 0, sizeof *pace);
    pace->n = n;
    pace->sums = calloc(n, sizeof *pace->sums);
    pace->forwards = calloc(n, sizeof *pace->forwards);
    pace->backwards = calloc(n, sizeof *pace->backwards);
    if (pace->sums && pace->forwards && pace->backwards)
        return 0;
    br_profiler_close(pace);
    return br_error(ENOMEM, "no memory for the times of %u layers", n);
}

void br_profiler_close(struct br_profiler *pace)
{
    free(pace->sums);
    free(pace->forwards);
    free(pace->backwards);
    memset(pace, 0, sizeof *pace);
}

void br_profiler_reset(struct br_profiler *pace)
{
    memset(pace->sums, 0, pace->n * sizeof *pace->sums);
    memset(pace->forwards, 0, pace->n * sizeof *pace->forwards);
    memset(pace->backwards, 0, pace->n * sizeof *pace->backwards);
    pace->call = BR_PROFILER_NONE;
    pace->began = 0;
    pace->ready = 0;
    pace->iterations = 0;
    pace->seconds = pace->exposed = pace->waited = 0;
}

static void add_forward(struct br_profiler *pace, uint32_t layer, double seconds)
{
    pace->sums[layer].forward += seconds;
    pace->forwards[layer]++;
}

static void add_backward(struct br_profiler *pace, uint32_t layer, double seconds)
{
    pace->sums[layer].backward += seconds;
    pace->backwards[layer]++;
}

/* The time since the last call is that of a pass if the two calls are the ones around it. */
static void profiler_attribute(struct br_profiler *pace, enum br_profiler_call call, uint32_t layer,
                               double seconds)
{
    bool other_waits = call == BR_PROFILER_WAIT && layer != pace->layer;

    if (pace->call == BR_PROFILER_WAIT && (other_waits || call == BR_PROFILER_STEP))
        add_forward(pace, pace->layer, seconds);
    else if (call == BR_PROFILER_READY &&
             (pace->call == BR_PROFILER_READY || pace->call == BR_PROFILER_STEP))
        add_backward(pace, layer, seconds);
}

void br_profiler_enter(struct br_profiler *pace, enum br_profiler_call call, uint32_t layer,
                       uint64_t now)
{
    if (pace->call != BR_PROFILER_NONE)
        profiler_attribute(pace, call, layer, (double)(now - pace->left) / 1e9);
    if (call == BR_PROFILER_READY && !pace->ready) {
        if (pace->began) {
            pace->seconds += (double)(now - pace->began) / 1e9;
            pace->exposed += pace->waited;
            pace->iterations++;
        }
        pace->began = now;
        pace->waited = 0;
    }
    if (call == BR_PROFILER_READY)
        pace->ready = (pace->ready + 1) % pace->n;
    pace->call = call;
    pace->layer = layer;
    pace->entered = now;
}

void br_profiler_leave(struct br_profiler *pace, uint64_t now)
{
    if (pace->call == BR_PROFILER_WAIT || pace->call == BR_PROFILER_STEP)
        pace->waited += (double)(now - pace->entered) / 1e9;
    pace->left = now;
}

void br_profiler_times(const struct br_profiler *pace, struct br_layer *layers)
{
    for (uint32_t l = 0; l < pace->n; l++) {
        layers[l].forward = pace->forwards[l] ? pace->sums[l].forward / pace->forwards[l] : 0;
        layers[l].backward = pace->backwards[l] ? pace->sums[l].backward / pace->backwards[l] : 0;
    }
}

double br_profiler_iteration(const struct br_profiler *pace, double *exposed)
{
    double n = (double)pace->iterations;

    *exposed = n > 0 ? pace->exposed / n : 0;
    return n > 0 ? pace->seconds / n : 0;
}
