/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/ways.h"

/* Bursts between two looks at other ways: at first, and at most. Twice as many after each look
 * that has changed nothing. */
#define PAUSE_LEAST 4u
#define PAUSE_MOST  256u
#define MEASURED    4u /* one of so many bursts is measured that do not begin behind others */
/* The other way is taken when it costs at most this part: where both cost the same, a change would
 * only mean that the two ends of a link go different ways for a while, which is slower than either.
 */
#define LESS 0.9

/* The way that is tried next: of all but the one that is taken, each has its turn. */
static enum br_way ways_look(const struct br_ways *ways, struct br_ways_class *class)
{
    for (int i = 0; i < BR_WAYS; i++) {
        class->looked = (class->looked + 1) % BR_WAYS;
        if (class->looked != class->way && !ways->closed[class->looked])
            return class->looked;
    }
    return class->way;
}

/* A way for the next burst, and whether it is measured: a clock is read six times for that. */
static enum br_way ways_choose(const struct br_ways *ways, struct br_ways_class *class,
                               bool *measured)
{
    if (ways->closed[class->way])
        class->way = BR_WAY_PIPE;
    *measured = class->until_look % MEASURED == 0;
    if (class->until_look) {
        class->until_look--;
        return class->way;
    }
    class->pause = class->pause < PAUSE_LEAST  ? PAUSE_LEAST
                   : class->pause < PAUSE_MOST ? 2 * class->pause
                                               : PAUSE_MOST;
    class->until_look = class->pause;
    return ways_look(ways, class);
}

/* A burst has returned. What other programs take of the time makes single bursts look expensive,
 * never cheap. So a cost follows at once where it falls, and slowly where it rises. */
static void ways_learn(struct br_ways *ways, const struct br_ways_burst *burst)
{
    struct br_ways_class *class = &ways->classes[burst->class];
    enum br_way best = class->way;
    uint64_t took = burst->end - burst->start;
    double *known = &class->cost[burst->way], cost, most = *known * 2;

    if (!burst->bytes)
        return;
    took = burst->worked < took ? burst->worked : took;
    cost = (double)took / (double)burst->bytes;
    if (*known <= 0 || cost < *known)
        *known = cost;
    else
        *known += ((cost < most ? cost : most) - *known) / 4;
    for (int way = 0; way < BR_WAYS; way++)
        if (class->cost[way] > 0 && !ways->closed[way] && class->cost[way] < class->cost[best])
            best = (enum br_way)way;
    if (best == class->way || class->cost[best] > LESS * class->cost[class->way])
        return;
    class->way = best;
    class->pause = class->until_look = PAUSE_LEAST;
}

struct br_ways_frame br_ways_post(struct br_ways *ways, uint32_t length)
{
    uint32_t class = 31 - (uint32_t)__builtin_clz(length) - BR_WAYS_LEAST_BITS;
    struct br_ways_frame *burst = &ways->posting;

    class = class < BR_WAYS_CLASSES ? class : BR_WAYS_CLASSES - 1;
    if (!ways->under_way || class != burst->class || ways->posted == BR_WAYS_BURST) {
        ways->posted = 0;
        burst->burst++;
        burst->class = class;
        burst->way = ways_choose(ways, &ways->classes[class], &burst->measured);
        /* when the ones before it have returned is known only of those that are measured */
        burst->measured = burst->measured || ways->under_way;
    }
    ways->posted++;
    ways->under_way++;
    return *burst;
}

void br_ways_returned(struct br_ways *ways, const struct br_ways_frame *frame, uint32_t length,
                      uint64_t now)
{
    struct br_ways_burst *burst = &ways->returning;

    if (burst->number != frame->burst) {
        ways_learn(ways, burst);
        *burst = (struct br_ways_burst){.number = frame->burst,
                                        .class = frame->class,
                                        .way = frame->way,
                                        /* behind others it has begun when they were done */
                                        .start = frame->posted > burst->end ? frame->posted
                                                                            : burst->end};
    }
    burst->bytes += frame->measured ? length : 0;
    burst->worked += length ? frame->worked : 0;
    burst->end = now;
    if (--ways->under_way)
        return;
    ways_learn(ways, burst);
    burst->bytes = 0;
}
