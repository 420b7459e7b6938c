/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all of equal blocks. Pure. */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_ALLTOALL_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_ALLTOALL_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/shape.h"

/* Generates the steps of the builder's rank: a message to each other rank, the next one first, so
 * that nobody is everybody's first. All at once; the queue of a rail keeps their order, which makes
 * it a pairwise exchange without waiting for anybody. For large blocks. */
void br_generate_exchange(struct br_builder *builder);

/*
 * Bruck's way: lg n rounds, each with one message of up to n/2 blocks that are on their way to
 * ranks further round. lg(n)/2 times the bytes, and copies: for small blocks. With a shape, whose
 * dimensions are direct and have all ranks: digit by digit, so that in a BCube nothing is relayed.
 * -ENOMEM.
 */
int br_generate_bruck(struct br_builder *builder, const struct br_shape *shape);

/* Blocks of its longest message. */
uint32_t br_bruck_packed(const struct br_shape *shape, uint32_t n);

#endif
