/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dissemination barrier: in round r each rank tells rank + 2^r what it has heard. It is written as an
 * allreduce of no elements, so that the edges come from the data as everywhere, and the verifier can prove
 * it. Pure.
 */
#ifndef BR_COLLECTIVES_GENERATORS_DISSEMINATION_H
#define BR_COLLECTIVES_GENERATORS_DISSEMINATION_H

#include "collectives/builder.h"

/* Generates the steps of the builder's rank. */
void br_generate_dissemination(struct br_builder *builder);

#endif
