/* SPDX-License-Identifier: BSD-3-Clause */
/* What a schedule is while it is built, for builder*.c. */
#ifndef BR_COLLECTIVES_SCHEDULE_BUILDER_INTERNAL_H
#define BR_COLLECTIVES_SCHEDULE_BUILDER_INTERNAL_H

#include "collectives/schedule/builder.h"

#define BR_BUILDER_NONE (-1)

struct br_builder_array {
    void *data;
    uint32_t n, capacity;
};

struct br_builder_work {
    struct br_step step;
    uint32_t first_need, n_needs; /* in needs[] */
    /* step number + 1 that has already listed this one as a dependency */
    uint32_t mark;
    bool reduced, unmappable; /* RECV into scratch: who reads it */
};

struct br_builder {
    struct br_schedule head;
    int error;
    struct br_builder_array works, sources, needs,
        /* of br_builder_work, br_source, uint32_t, reader */
        readers;
    struct br_builder_array chunks[BR_BUFFERS]; /* of chunk */
    uint32_t *sends, *recvs;                    /* messages to and from each rank */
};

static inline struct br_builder_work *br_builder_work_at(const struct br_builder *b, uint32_t i)
{
    return (struct br_builder_work *)b->works.data + i;
}

/* builder_compact.c: the schedule, in one allocation; NULL: no memory. */
struct br_schedule *br_builder_compact(const struct br_builder *b);

#endif
