/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/workload.h"

#include <errno.h>
#include <math.h>

#include "base/error.h"

static bool session_workload_usable(double figure)
{
    return isfinite(figure) && figure >= 0;
}

int br_workload_check(const struct br_workload *work)
{
    if (!work->n || work->n > BR_TRAINING_LAYERS)
        return br_error(EINVAL, "%u layers: there must be 1 to %d", work->n, BR_TRAINING_LAYERS);
    if (!session_workload_usable(work->cost.a) || !session_workload_usable(work->cost.b))
        return br_error(
            EINVAL,
            "an all-reduce of a + b M: a %g s, b %g s/byte must be numbers that are not negative",
            work->cost.a, work->cost.b);
    if (!session_workload_usable(work->slice_bytes) || !session_workload_usable(work->bucket_bytes))
        return br_error(
            EINVAL,
            "slices of %g bytes, buckets of %g bytes: must be numbers that are not negative",
            work->slice_bytes, work->bucket_bytes);
    if (!session_workload_usable(work->overtake))
        return br_error(EINVAL, "%g s behind others: must be a number that is not negative",
                        work->overtake);
    for (uint32_t l = 0; l < work->n; l++) {
        const struct br_layer *layer = &work->layers[l];

        if (!session_workload_usable(layer->bytes) || !session_workload_usable(layer->forward) ||
            !session_workload_usable(layer->backward))
            return br_error(EINVAL,
                            "layer %u: %g bytes, %g s forward, %g s backward: must be numbers that "
                            "are not negative",
                            l + 1, layer->bytes, layer->forward, layer->backward);
    }
    return 0;
}

double br_workload_compute(const struct br_workload *work)
{
    double seconds = 0;

    for (uint32_t l = 0; l < work->n; l++)
        seconds += work->layers[l].forward + work->layers[l].backward;
    return seconds;
}
