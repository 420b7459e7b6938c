/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/coll_time.h"

#include "base/clock.h"

#define LONG 5 /* times `enough`: what a first call has to prepare is little beside it */

int br_coll_time(const struct br_coll_timing *c, double *seconds)
{
    struct braid_options options = {.algorithm = c->algorithm};
    struct br_coll_call call = {
        .coll = c->coll,
        .data = {.type = BRAID_FLOAT32, .reduction = BRAID_SUM},
        .shape = br_coll_shape(c->coll, c->bytes, BRAID_FLOAT32, braid_size(c->comm)),
        .options = &options};
    int64_t calls = 1;
    uint64_t start;
    int rc = 0;

    for (int phase = 0; phase < 2 && calls > 0 && !rc; phase++) {
        rc = braid_barrier(c->comm, NULL, NULL);
        start = br_clock_now();
        for (int64_t i = 0; i < calls && !rc; i++)
            rc = br_coll_submit(c->comm, &call, c->send, c->recv, NULL);
        *seconds = (double)(br_clock_now() - start) / 1e9 / (double)calls;
        if (!rc && phase == 0) {
            double most = (double)c->min_ns / 1e9 / (*seconds > 1e-7 ? *seconds : 1e-7);

            calls = c->once && most * LONG < 1 ? 0
                    : most < 2                 ? 2
                    : most > c->max_calls      ? c->max_calls
                                               : (int64_t)most;
            rc = braid_allreduce(c->comm, &calls, &calls, 1, BRAID_INT64, BRAID_MIN, NULL, NULL);
        }
    }
    return rc ? rc
              : braid_allreduce(c->comm, seconds, seconds, 1, BRAID_FLOAT64, BRAID_AVG, NULL, NULL);
}
