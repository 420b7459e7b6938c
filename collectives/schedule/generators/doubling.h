/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduces of small sizes, which exchange whole blocks.
 *
 * Recursive doubling: in round r each rank exchanges its whole sum with the one whose
 * number differs in bit r. lg n messages one after the other, lg n times the bytes: for small
 * sizes. Ranks beyond the largest power of two give their input to another one before and get the
 * result after.
 *
 * Flat: every rank sends its whole input to all others and adds everything up in the order of the
 * ranks: one message's latency, n - 1 times the bytes. For few ranks.
 *
 * Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DOUBLING_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DOUBLING_H

#include "collectives/schedule/builder.h"

/* Who exchanges: ranks first, first + stride, ..., n of them, at least 2. */
struct br_doubling {
    uint32_t first, stride, n;
};

/* The steps of the builder's rank, one of them: from what it has, a span of one piece, to the
 * result. */
void br_doubling_among(struct br_builder *builder, struct br_span have,
                       const struct br_doubling *among);

/* Generates the steps of the builder's rank. */
void br_generate_doubling(struct br_builder *builder);

/* Generates the steps of the builder's rank of a flat all-reduce. Returns 0 or -ENOMEM. */
int br_generate_flat(struct br_builder *builder);

#endif
