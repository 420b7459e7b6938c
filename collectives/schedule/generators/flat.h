/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flat allreduce: every rank sends its whole input to all others and adds everything up in the
 * order of the ranks: one message's latency, n - 1 times the bytes. For few ranks and small sizes.
 * Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_FLAT_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_FLAT_H

#include "collectives/schedule/builder.h"

/* Generates the steps of the builder's rank. -ENOMEM. */
int br_generate_flat(struct br_builder *builder);

#endif
