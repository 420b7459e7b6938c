/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast a core reduces and copies what lies in its caches, measured when a segment is made. */
#ifndef BR_COLLECTIVES_SHM_RATE_H
#define BR_COLLECTIVES_SHM_RATE_H

#include "collectives/shm/coll.h"

struct br_shm_rate {
    double reduce; /* s for a byte of each source after the first: a sum of float32 */
    double copy;   /* s for a byte */
};

/* Measures in the areas of a segment, in which nobody has published yet. Takes some 50 us: the
 * fastest of a few times counts, so that other programs do not matter. */
struct br_shm_rate br_shm_rate_measure(struct br_shm_coll *coll);

#endif
