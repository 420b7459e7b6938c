/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `braid top`: what has changed between two snapshots of each rank. Pure. */
#ifndef BR_TOOLS_TOP_TABLE_H
#define BR_TOOLS_TOP_TABLE_H

#include "collectives/stats/snapshot.h"

/* before[n_before] may lack ranks, and have others: their rates are left out. rows: lines that the
 * table may have, 0: any number. */
void br_top_print(const struct br_snapshot *before, int n_before, const struct br_snapshot *now,
                  int n, int rows, FILE *out);

#endif
