/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int br_pace_open(struct br_pace *pace, uint32_t n)
{
    memset(pace, 0, sizeof *pace);
    pace->n = n;
    pace->sums = calloc(n, sizeof *pace->sums);
    pace->forwards = calloc(n, sizeof *pace->forwards);
    pace->backwards = calloc(n, sizeof *pace->backwards);
    if (pace->sums && pace->forwards && pace->backwards)
        return 0;
    br_pace_close(pace);
    return br_error(ENOMEM, "no memory for the times of %u layers", n);
}

void br_pace_close(struct br_pace *pace)
{
    free(pace->sums);
    free(pace->forwards);
    free(pace->backwards);
    memset(pace, 0, sizeof *pace);
}

void br_pace_reset(struct br_pace *pace)
{
    memset(pace->sums, 0, pace->n * sizeof *pace->sums);
    memset(pace->forwards, 0, pace->n * sizeof *pace->forwards);
    memset(pace->backwards, 0, pace->n * sizeof *pace->backwards);
    pace->call = BR_PACE_NONE;
    pace->began = 0;
    pace->ready = 0;
    pace->iterations = 0;
    pace->seconds = pace->exposed = pace->waited = 0;
}

static void add_forward(struct br_pace *pace, uint32_t layer, double seconds)
{
    pace->sums[layer].forward += seconds;
    pace->forwards[layer]++;
}

static void add_backward(struct br_pace *pace, uint32_t layer, double seconds)
{
    pace->sums[layer].backward += seconds;
    pace->backwards[layer]++;
}

/* The time since the last call is that of a pass if the two calls are the ones around it. */
static void attribute(struct br_pace *pace, enum br_pace_call call, uint32_t layer, double seconds)
{
    bool other_waits = call == BR_PACE_WAIT && layer != pace->layer;

    if (pace->call == BR_PACE_WAIT && (other_waits || call == BR_PACE_STEP))
        add_forward(pace, pace->layer, seconds);
    else if (call == BR_PACE_READY && (pace->call == BR_PACE_READY || pace->call == BR_PACE_STEP))
        add_backward(pace, layer, seconds);
}

void br_pace_enter(struct br_pace *pace, enum br_pace_call call, uint32_t layer, uint64_t now)
{
    if (pace->call != BR_PACE_NONE)
        attribute(pace, call, layer, (double)(now - pace->left) / 1e9);
    if (call == BR_PACE_READY && !pace->ready) {
        if (pace->began) {
            pace->seconds += (double)(now - pace->began) / 1e9;
            pace->exposed += pace->waited;
            pace->iterations++;
        }
        pace->began = now;
        pace->waited = 0;
    }
    if (call == BR_PACE_READY)
        pace->ready = (pace->ready + 1) % pace->n;
    pace->call = call;
    pace->layer = layer;
    pace->entered = now;
}

void br_pace_leave(struct br_pace *pace, uint64_t now)
{
    if (pace->call == BR_PACE_WAIT || pace->call == BR_PACE_STEP)
        pace->waited += (double)(now - pace->entered) / 1e9;
    pace->left = now;
}

void br_pace_times(const struct br_pace *pace, struct br_layer *layers)
{
    for (uint32_t l = 0; l < pace->n; l++) {
        layers[l].forward = pace->forwards[l] ? pace->sums[l].forward / pace->forwards[l] : 0;
        layers[l].backward = pace->backwards[l] ? pace->sums[l].backward / pace->backwards[l] : 0;
    }
}

double br_pace_iteration(const struct br_pace *pace, double *exposed)
{
    double n = (double)pace->iterations;

    *exposed = n > 0 ? pace->exposed / n : 0;
    return n > 0 ? pace->seconds / n : 0;
}
