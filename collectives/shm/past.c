/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/past.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/copy.h"

#define TRIALS 4
/* Copies from one that is measured to the next: at first, and when the choice has changed, EVERY;
 * then twice as many, and so on up to PAUSE. */
#define EVERY 4u
#define PAUSE 256u

/* NULL: it has none. */
static struct br_shm_past_class *past_class(struct br_shm_past *past, size_t bytes)
{
    uint32_t index;

    if ((!past->told && past->trip <= 0) || bytes < BR_SHM_PAST_LEAST)
        return NULL;
    index = 63u - (uint32_t)__builtin_clzll(bytes) - BR_SHM_PAST_LEAST_BITS;
    return &past->classes[index < BR_SHM_PAST_CLASSES ? index : BR_SHM_PAST_CLASSES - 1];
}

enum br_shm_past_way br_shm_past_next(struct br_shm_past *past, size_t bytes, bool *measured)
{
    struct br_shm_past_class *class = past_class(past, bytes);

    *measured = class && !class->until && !past->asked.bytes;
    if (!class)
        return BR_SHM_INTO_CACHES;
    if (*measured)
        return class->looks;
    class->until -= class->until > 0;
    return class->way;
}

void br_shm_past_took(struct br_shm_past *past, size_t bytes, enum br_shm_past_way way, uint64_t ns)
{
    struct br_shm_past_class *class = past_class(past, bytes);
    double cost = (double)ns / (double)bytes, most, *known;
    enum br_shm_past_way best;

    if (!class)
        return;
    /* It falls at once and rises slowly: a copy during which another program had the core looks
     * dear, and nothing makes one look cheap. */
    known = &class->cost[way];
    most = *known > 0 ? *known * 1.25 : cost;
    *known = cost < most ? cost : most;
    if (past->told)
        class->looks = way == BR_SHM_INTO_CACHES ? BR_SHM_PAST_CACHES : BR_SHM_INTO_CACHES;
    else
        class->cost[BR_SHM_PAST_CACHES] = past->trip;
    known = class->cost;
    best = known[BR_SHM_PAST_CACHES] > 0 && known[BR_SHM_PAST_CACHES] < known[BR_SHM_INTO_CACHES]
               ? BR_SHM_PAST_CACHES
               : BR_SHM_INTO_CACHES;
    /* Copies that go into the caches in any case cost nothing to look at. */
    if (best != class->way || !class->pause || (!past->told && best == BR_SHM_INTO_CACHES))
        class->pause = EVERY;
    else if (class->pause < PAUSE)
        class->pause *= 2;
    class->way = best;
    class->until = class->pause;
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
    bool measured;
    enum br_shm_past_way way = br_shm_past_next(past, bytes, &measured);
    uint64_t start = measured ? br_clock_now() : 0;

    if (way == BR_SHM_PAST_CACHES)
        br_copy_uncached(to, from, bytes);
    else
        br_copy(to, from, bytes);
    if (!measured)
        return;
    if (!past->told) {
        br_shm_past_took(past, bytes, way, br_clock_now() - start);
        return;
    }
    atomic_thread_fence(memory_order_seq_cst); /* lines that are still being fetched count */
    past->asked.bytes = bytes;
    past->asked.way = way;
    past->asked.ns = br_clock_now() - start;
}

void br_shm_past_hear(struct br_shm_past *past, uint64_t ns)
{
    /* In one call they follow each other, in many the longer one decides: so it counts twice. */
    uint64_t longer = ns > past->asked.ns ? ns : past->asked.ns;

    br_shm_past_took(past, past->asked.bytes, past->asked.way, past->asked.ns + ns + longer);
    past->asked.bytes = 0;
}
