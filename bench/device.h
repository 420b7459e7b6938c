/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that trains a network of data/models/, replayed: the rank sleeps where it would compute.
 *
 * A sleep ends late. A device does not: its next pass begins when the one before should have ended,
 * or when what it waited for came.
 */
#ifndef BR_BENCH_DEVICE_H
#define BR_BENCH_DEVICE_H

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/model.h"

#define DEVICE_BLOCKED (200 * BR_US)

struct device {
    struct br_model model;
    uint64_t *forward; /* ns, by layer; twice that backwards */
    uint64_t at;       /* it is done with what it has */
};

/* compute_ms: of an iteration, a third of it forwards, layers by their multiply-adds. */
static int device_open(struct device *d, const char *model, double compute_ms)
{
    double all = 0;
    int rc = br_model_load(model, &d->model);

    if (rc)
        return rc;
    d->forward = calloc((size_t)d->model.count, sizeof *d->forward);
    if (!d->forward)
        return br_error(ENOMEM, "no memory for %d layers", d->model.count);
    for (int l = 0; l < d->model.count; l++)
        all += (double)d->model.layers[l].multiply_adds;
    for (int l = 0; l < d->model.count; l++)
        d->forward[l] =
            (uint64_t)(compute_ms * 1e6 / 3 * (double)d->model.layers[l].multiply_adds / all);
    return 0;
}

static void device_close(struct device *d)
{
    free(d->forward);
    br_model_free(&d->model);
}

/* Elements of a layer's gradient of which a share is sent. */
static size_t device_count(const struct device *d, int layer, double percent)
{
    return 1 + (size_t)((double)d->model.layers[layer].parameters * percent / 100);
}

static void device_compute(struct device *d, uint64_t ns)
{
    struct timespec until;

    d->at += ns;
    until = (struct timespec){(time_t)(d->at / BR_SEC), (long)(d->at % BR_SEC)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* A call since `start`: if it has blocked, the device goes on from here. */
static void device_catch_up(struct device *d, uint64_t start)
{
    uint64_t end = br_clock_now();

    if (end - start > DEVICE_BLOCKED && end > d->at)
        d->at = end;
}

#endif
