/* SPDX-License-Identifier: BSD-3-Clause */
/* The generators of scan and exscan, by the rules of builder.h: no checks, errors stick. What lower
 * ranks give always stands before what higher ranks give. */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_SCAN_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_SCAN_H

#include "collectives/schedule/builder.h"

/* From rank to rank, each adding its own: n - 1 messages one after the other, and each rank sends
 * and receives the buffer once, so that fragments fill the links. */
void br_generate_scan_chain(struct br_builder *builder);

/* lg n rounds in which each rank sends what it has summed up twice as far (Hillis, Steele: Data
 * parallel algorithms, Communications of the ACM 29, 1986). */
void br_generate_scan_doubling(struct br_builder *builder);

#endif
