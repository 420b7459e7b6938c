/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/past.h"

#include "base/clock.h"
#include "base/copy.h"

#define TRIALS 4
/* While copies go into the caches, one of so many is measured; while they go past them, one is made
 * into them after as many, then twice as many, and so on up to PAUSE. */
#define EVERY 4u
#define PAUSE 256u

/* 0: it has none. */
static struct br_shm_past_class *past_class(struct br_shm_past *past, size_t bytes)
{
    uint32_t index;

    if (past->trip <= 0 || bytes < (size_t)1 << BR_SHM_PAST_LEAST_BITS)
        return NULL;
    index = 63u - (uint32_t)__builtin_clzll(bytes) - BR_SHM_PAST_LEAST_BITS;
    return &past->classes[index < BR_SHM_PAST_CLASSES ? index : BR_SHM_PAST_CLASSES - 1];
}

enum br_shm_past_way br_shm_past_next(struct br_shm_past *past, size_t bytes)
{
    struct br_shm_past_class *class = past_class(past, bytes);

    if (!class)
        return BR_SHM_INTO_CACHES;
    if (!class->until)
        return BR_SHM_INTO_CACHES_MEASURED;
    class->until--;
    return class->cost > past->trip ? BR_SHM_PAST_CACHES : BR_SHM_INTO_CACHES;
}

void br_shm_past_took(struct br_shm_past *past, size_t bytes, uint64_t ns)
{
    struct br_shm_past_class *class = past_class(past, bytes);
    double cost = (double)ns / (double)bytes, most;

    if (!class)
        return;
    /* It falls at once and rises slowly: a copy during which another program had the core looks
     * dear, and nothing makes one look cheap. */
    most = class->cost > 0 ? class->cost * 1.25 : cost;
    if (cost <= past->trip)
        class->pause = 0;
    class->cost = cost < most ? cost : most;
    if (class->cost <= past->trip)
        class->until = EVERY - 1;
    else
        class->until = class->pause = class->pause ? class->pause * 2 : EVERY;
    if (class->until > PAUSE)
        class->until = class->pause = PAUSE;
}

void br_shm_past_measure_trip(struct br_shm_past *past, uint8_t *memory, size_t bytes)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < TRIALS; i++) {
        uint64_t start = br_clock_now(), took;

        br_copy_uncached(memory + bytes, memory, bytes);
        br_copy(memory, memory + bytes, bytes);
        took = br_clock_now() - start;
        least = took < least ? took : least;
    }
    past->trip = (double)least / (double)bytes;
}

void br_shm_past_copy(struct br_shm_past *past, void *to, const void *from, size_t bytes)
{
    enum br_shm_past_way way = br_shm_past_next(past, bytes);
    uint64_t start;

    if (way == BR_SHM_PAST_CACHES) {
        br_copy_uncached(to, from, bytes);
        return;
    }
    start = way == BR_SHM_INTO_CACHES_MEASURED ? br_clock_now() : 0;
    br_copy(to, from, bytes);
    if (way == BR_SHM_INTO_CACHES_MEASURED)
        br_shm_past_took(past, bytes, br_clock_now() - start);
}
