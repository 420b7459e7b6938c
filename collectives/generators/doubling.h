/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recursive doubling allreduce: in round r each rank exchanges its whole sum with the one whose number differs
 * in bit r. lg n messages one after the other, lg n times the bytes: for small sizes. Ranks beyond the largest
 * power of two give their input to another one before and get the result after. Pure.
 */
#ifndef BR_COLLECTIVES_GENERATORS_DOUBLING_H
#define BR_COLLECTIVES_GENERATORS_DOUBLING_H

#include "collectives/builder.h"

/* Generates the steps of the builder's rank. */
void br_generate_doubling(struct br_builder *builder);

#endif
