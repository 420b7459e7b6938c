/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of `braid calibrate` that measure, and its table. Collective where there is a
 * communicator; errors: braid's, with a message. */
#ifndef BR_TOOLS_CALIBRATE_CALIBRATE_H
#define BR_TOOLS_CALIBRATE_CALIBRATE_H

#include <stdio.h>

#include <braid/braid.h>

#include "collectives/tuning/calibration.h"
#include "tools/common/coll_table.h"

#define BR_CALIBRATE_ROUNDS 15 /* at most, of both functions that measure */

/* Every link that joins two ranks directly, one at a time: `rounds` times all sizes, of which each
 * counts with its median. More links than BR_CALIBRATE_LINKS: only those from each rank to the next
 * one of a level. *links is the caller's to free, on rank 0 alone; others get NULL. */
#define BR_CALIBRATE_LINKS 256
int br_calibrate_links(struct braid_comm *comm, int rounds, struct br_calibration_link **links,
                       uint32_t *n);

/* The least squares through what was measured; false: too few sizes were. */
bool br_calibrate_fit(struct br_calibration_link *link, const double *trips, const double *streams);

/* Every algorithm of a collective; adds to c->measured what has a line. Sizes from 1 KiB to `most`,
 * each four times the one before, as long as a call should take less than a quarter of a second. */
int br_calibrate_algorithms(struct braid_comm *comm, const struct br_coll *coll,
                            enum br_collective collective, size_t most, int rounds,
                            struct br_calibration *c);

/* Is the next size to be measured, too? By the last two; nothing measured: yes. */
bool br_calibrate_is_short(const struct br_cost_measured *measured);

void br_calibrate_print(const struct br_calibration *c, FILE *out);

#endif
