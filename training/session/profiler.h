/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long the passes of a program take, told from when it calls the session. Pure; the caller
 * brings the time (ns). One thread.
 *
 * The time between two calls is a layer's: between wait(l) and the wait of another layer, or the
 * step, it is the forward pass of l; between the ready of another layer, or the step, and ready(l)
 * it is the backward pass of l, in whatever order the layers come. Any other time is not counted.
 * A layer may be waited for several times in an iteration, as where all layers that have travelled
 * together are: its times are added up.
 * Time inside wait and step is exposed communication. In an iteration each layer is ready once.
 */
#ifndef BR_TRAINING_SESSION_PROFILER_H
#define BR_TRAINING_SESSION_PROFILER_H

#include "training/session/workload.h"

enum br_profiler_call { BR_PROFILER_NONE, BR_PROFILER_READY, BR_PROFILER_WAIT, BR_PROFILER_STEP };

struct br_profiler {
    uint32_t n;
    struct br_layer *sums;          /* [n] seconds since the reset; bytes are not used */
    uint32_t *forwards, *backwards; /* [n] iterations that had them */
    uint64_t *last;                 /* [n] the iteration of the last forward pass; from 1 */
    uint64_t turn;                  /* this iteration */
    enum br_profiler_call call;     /* the last one, and its layer */
    uint32_t layer;
    uint64_t entered, left;          /* ns: the last call */
    uint64_t began;                  /* ns: this iteration's first ready; 0: none yet */
    uint32_t ready;                  /* layers in this iteration */
    uint64_t iterations;             /* complete ones since the reset */
    double seconds, exposed, waited; /* of these iterations; exposed so far in this one */
};

int br_profiler_open(struct br_profiler *profiler, uint32_t n); /* -ENOMEM with a message */
void br_profiler_close(struct br_profiler *profiler);

/* A call begins, and ends. layer: of READY and WAIT. */
void br_profiler_enter(struct br_profiler *profiler, enum br_profiler_call call, uint32_t layer,
                       uint64_t now);
void br_profiler_leave(struct br_profiler *profiler, uint64_t now);

/* Forgets all times, as after a pause: the next call has nothing before it. */
void br_profiler_reset(struct br_profiler *profiler);

/* Mean seconds of each layer's passes into layers[0..n); 0 where nothing was seen. */
void br_profiler_times(const struct br_profiler *profiler, struct br_layer *layers);

/* Mean seconds of an iteration, from first ready to first ready, and of what was exposed in it; 0:
 * none is complete. */
double br_profiler_iteration(const struct br_profiler *profiler, double *exposed);

#endif
