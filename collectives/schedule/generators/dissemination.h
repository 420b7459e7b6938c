/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dissemination barrier: in round r each rank tells rank + 2^r what it has heard. It is written
 * as an allreduce of no elements, so that the edges come from the data as everywhere, and the
 * verifier can prove it.
 *
 * In a shape it goes dimension by dimension instead: each rank tells all whose numbers differ in
 * this digit alone, so that in a BCube nothing has to be relayed. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_DISSEMINATION_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_DISSEMINATION_H

#include "collectives/schedule/builder.h"
#include "collectives/schedule/generators/shape.h"

/* Generates the steps of the builder's rank. A shape without dimensions: none; else it has one
 * thread and all ranks. -ENOMEM. */
int br_generate_dissemination(struct br_builder *builder, const struct br_shape *shape);

#endif
