/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a calibration still predicts what operations take. A window of operations says that it
 * does not when all of them are off by more than the bound, to the same side: so one that waited
 * for others, or was lucky, decides nothing. Pure; under the context's lock.
 */
#ifndef BR_COLLECTIVES_TUNING_CALIBRATION_DRIFT_H
#define BR_COLLECTIVES_TUNING_CALIBRATION_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

#define BR_CALIBRATION_DRIFT_WINDOW 32

struct br_calibration_drift {
    double bound;       /* a factor; 0: nothing is watched, nor after it was told once */
    uint32_t n;         /* operations in the window */
    double least, most; /* measured / predicted, of these */
};

/* An operation took so many seconds. 0; or by how much all of a window were off, once: above 1 when
 * they took longer than predicted, below 1 when they took less. */
double br_calibration_drift_add(struct br_calibration_drift *drift, double predicted,
                                double measured);

#endif
