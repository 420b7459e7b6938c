/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which algorithm ran for which size, how often, how long, and why: what BRAID_REPORT prints when a job ends. Under the
 * family's lock. Recording costs a short search and touches no other memory.
 */
#ifndef BR_COLLECTIVES_USAGE_H
#define BR_COLLECTIVES_USAGE_H

#include <stdio.h>

#include "collectives/choice.h"
#include "collectives/network.h"
#include "collectives/operation.h"

#define BR_USAGES 256

struct br_usage {
    enum br_collective collective;
    size_t bytes; /* of a block */
    uint32_t ranks;
    bool asked; /* by name, not chosen */
    struct br_choice choice;
    uint64_t count, ns;
};

struct br_usages {
    struct br_usage entries[BR_USAGES];
    uint32_t n;
    uint64_t unlisted; /* operations beyond them */
};

/* An operation of `ranks` ranks that began at `began` has ended well. */
void br_usages_add(struct br_usages *usages, const struct br_operation *op, uint32_t ranks, uint64_t began,
                   uint64_t now);

/* One line an entry. model: of the job; says why where the ranks are those of the job. */
void br_usages_print(const struct br_usages *usages, const struct br_cost_model *model, FILE *stream);

/* The same with a line of what the network is and `more` below, to stderr for "1", else into the file of this name. A warning when that cannot
 * be written. */
void br_usages_report(const struct br_usages *usages, const struct br_network *network, const char *more,
                      const char *path);

#endif
