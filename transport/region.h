/* SPDX-License-Identifier: BSD-3-Clause */
/* A region's keys of several devices. Under the worker's lock, and not on the data path: pinning
 * takes its time. */
#ifndef BR_TRANSPORT_REGION_H
#define BR_TRANSPORT_REGION_H

#include "transport/transport.h"

/* With all devices or with none: the error is that of the first which cannot, its message names the
 * device. */
int br_region_register(struct br_device *const *devices, int n, struct br_region *region);
/* As region_release of each. */
void br_region_release(struct br_device *const *devices, int n, struct br_region *region);

#endif
