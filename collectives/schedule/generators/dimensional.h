/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dimensional generator: ring, direct exchange, recursive halving and doubling, BlueConnect and
 * BML are one algorithm in different shapes. Collectives: all but the barrier. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DIMENSIONAL_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DIMENSIONAL_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/shape.h"

/* Generates the steps of the builder's rank. The shape has passed br_shape_check. packed: a
 * reduce_scatter or an allgather packs its messages (packed.h); br_shape_packed() has said that it
 * can. -ENOMEM. */
int br_generate_dimensional(struct br_builder *builder, const struct br_shape *shape, bool packed);

#endif
