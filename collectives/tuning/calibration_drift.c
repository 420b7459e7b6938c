/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/tuning/calibration_drift.h"

#include <math.h>

double br_calibration_drift_add(struct br_calibration_drift *d, double predicted, double measured)
{
    double off = 0, ratio = measured / predicted;

    if (d->bound <= 0 || predicted <= 0 || measured <= 0)
        return 0;
    d->least = d->n ? fmin(d->least, ratio) : ratio;
    d->most = d->n ? fmax(d->most, ratio) : ratio;
    if (++d->n < BR_CALIBRATION_DRIFT_WINDOW)
        return 0;
    if (d->least > d->bound)
        off = d->least;
    else if (d->most < 1 / d->bound)
        off = d->most;
    d->n = 0;
    if (off > 0)
        d->bound = 0;
    return off;
}
