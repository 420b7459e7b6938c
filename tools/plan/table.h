/* SPDX-License-Identifier: BSD-3-Clause */
/* What `braid plan` prints and writes: a block of rows a size, one row a candidate. */
#ifndef BR_TOOLS_PLAN_TABLE_H
#define BR_TOOLS_PLAN_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "collectives/tuning/tuning.h"

struct br_plan_table;

/* One candidate for one size. Times in seconds; 0: none. The error is that of the exact time where
 * there is one. */
struct br_plan_row {
    size_t bytes;
    const char *algorithm; /* borrowed for the call */
    double predicted, exact, measured;
    uint32_t fragments;
    bool chosen;
    const char *why; /* of the predicted time */
};

/* json: file that br_plan_table_finish writes, or NULL. exact, measured: these columns are there.
 * NULL with a message. */
struct br_plan_table *br_plan_table_new(const char *collective, const struct br_cost_model *model,
                                        const char *figures, const char *json, bool exact,
                                        bool measured);
void br_plan_table_add(struct br_plan_table *table, const struct br_plan_row *row);
/* The median error of the predictions where there are measured times; writes the JSON. 0, -errno
 * with a message. */
int br_plan_table_finish(struct br_plan_table *table);
void br_plan_table_free(struct br_plan_table *table); /* NULL allowed */

#endif
