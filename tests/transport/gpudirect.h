/* SPDX-License-Identifier: BSD-3-Clause */
/* GPU 0 of the fake driver with a copier, and the trial of NICs with it, around each case of a
 * test. */
#ifndef BR_TESTS_TRANSPORT_GPUDIRECT_H
#define BR_TESTS_TRANSPORT_GPUDIRECT_H

#include "gpu/copier.h"
#include "transport/gpudirect_check.h"

struct gpudirect {
    struct br_copier *copier;
    struct br_gpudirect_check *check;
};

void gpudirect_open(struct gpudirect *trial);
/* Fails the test if anything is left in the driver. */
void gpudirect_close(struct gpudirect *trial);

#endif
