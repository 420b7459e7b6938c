/* SPDX-License-Identifier: BSD-3-Clause */
/* The last resort of br_route_around (bcube/route.h, which states its bounds): the shortest route
 * by A*. Allocates. */
#ifndef BR_BCUBE_SEARCH_H
#define BR_BCUBE_SEARCH_H

#include "bcube/route.h"

/* 0, -ENOMEM, -EHOSTUNREACH with a message. Both hosts exist; a != b. */
int br_route_search(const struct br_bcube *cube, uint32_t a, uint32_t b,
                    const struct br_failures *failures, struct br_route *route);

#endif
