/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/rate.h"

#include <string.h>

#include "base/clock.h"
#include "collectives/engine/reduce.h"

#define TIMES   4
#define SOURCES 8u
#define BYTES   (32u << 10) /* of a source: all of them exceed a first-level cache */

/* Behind what this rank gives itself. */
static void *rate_out(struct br_shm_coll *coll)
{
    return br_shm_coll_area(coll, coll->rank)->payload + BYTES;
}

static uint64_t reduce_once(struct br_shm_coll *coll, const void *const *in, uint32_t n)
{
    uint64_t start = br_clock_now();

    br_reduce(BRAID_FLOAT32, BRAID_SUM, rate_out(coll), in, (int)n, BYTES / sizeof(float), 1);
    return br_clock_now() - start;
}

static uint64_t copy_once(struct br_shm_coll *coll, const void *in)
{
    uint64_t start = br_clock_now();

    memcpy(rate_out(coll), in, BYTES);
    return br_clock_now() - start;
}

struct br_shm_rate br_shm_rate_measure(struct br_shm_coll *coll)
{
    uint64_t reduce = UINT64_MAX, copy = UINT64_MAX;
    uint32_t n = coll->ranks < SOURCES ? coll->ranks : SOURCES;
    const void *in[SOURCES];

    for (uint32_t r = 0; r < n; r++)
        in[r] = br_shm_coll_area(coll, r)->payload;
    for (int i = 0; i < TIMES; i++) {
        uint64_t took = reduce_once(coll, in, n);

        reduce = took < reduce ? took : reduce;
        took = copy_once(coll, in[0]);
        copy = took < copy ? took : copy;
    }
    return (struct br_shm_rate){.reduce = (double)reduce * 1e-9 / BYTES / (n > 1 ? n - 1 : 1),
                                .copy = (double)copy * 1e-9 / BYTES};
}
