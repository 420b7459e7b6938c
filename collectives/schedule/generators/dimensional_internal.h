/* SPDX-License-Identifier: BSD-3-Clause */
/* What a schedule of the dimensional generator is while it is written, for dimensional.c and
 * packed.c. */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DIMENSIONAL_INTERNAL_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DIMENSIONAL_INTERNAL_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/shape.h"

/* Chunks of the larger user buffer, in its order; packed: in the order of packed.h. */
struct br_chunk_range {
    uint32_t first, count;
};

struct br_dimensional {
    struct br_builder *b;
    const struct br_schedule *head;
    uint32_t threads, core;
    /* folded: the rank that serves this one; served: the folded rank; else the rank itself */
    uint32_t partner;
    bool blocks;                   /* a number stands for the block of its rank */
    struct br_stages *stages;      /* of each thread */
    struct br_span *place;         /* of each chunk: where its present value lies; count is 1 */
    struct br_chunk_range *ranges; /* room for the ranges of one run */
    struct br_span *sources;       /* room for what one stage receives */
    struct br_span area;           /* where complete chunks are received; count does not matter */
    bool packed;
    uint32_t *chunks; /* packed: which chunk of the larger user buffer each one is */
    uint32_t *firsts; /* packed: the first block of each number, and behind the last one */
};

static inline bool br_dimensional_folded(const struct br_dimensional *p)
{
    return p->head->rank >= p->core;
}

/* The span where a range lies; it lies in one. */
struct br_span br_dimensional_located(const struct br_dimensional *p, struct br_chunk_range range);

/* From now on a range lies in this span. */
void br_dimensional_put(struct br_dimensional *p, struct br_chunk_range range, struct br_span span);

/* The stages of the reduction, those of the gathering. */
void br_dimensional_reduce_all(struct br_dimensional *p);
void br_dimensional_gather_all(struct br_dimensional *p);

#endif
