/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes through a BCube: lists of hosts, each a neighbour of the one before (BCube source
 * routing).
 *
 * Nothing blocks; only the last resort of br_route_around() allocates. Any thread may call any
 * function. Hosts and levels that do not exist are -EINVAL with a message. failures: NULL means
 * that nothing has failed.
 */
#ifndef BR_BCUBE_ROUTE_H
#define BR_BCUBE_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bcube/address.h"
#include "bcube/failures.h"

/* The longest of k disjoint routes: in BCube(2,16), between two hosts that differ in 15 digits. */
#define BR_ROUTE_HOPS 17

struct br_route {
    uint8_t hops;                  /* entries of hosts[]; 0: no route */
    uint16_t hosts[BR_ROUTE_HOPS]; /* those after the source; the last one is the destination */
};

/* Returns whether every link of the route joins neighbours and works, and the route visits no host
 * twice. */
bool br_route_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t a,
                    const struct br_route *route);

/*
 * Makes k routes that share no host but a and b, and no switch (BuildPathSet of the BCube paper):
 * routes[i] leaves a on level i. Where digit i of a and b differs, it has as many hops as digits
 * differ, otherwise two more. a != b. Takes O(k^2).
 */
int br_route_disjoint(const struct br_bcube *cube, uint32_t a, uint32_t b,
                      struct br_route routes[]);

/*
 * Makes a route from a to b that avoids the failures.
 *
 * Tried in this order: the shortest routes of the k rotations of the levels; for each of the k(n-1)
 * first hops the one that ends on the level it began with, shortest first. So far the cost is O(k^2
 * n log failures), whatever N is, and the route is at most two hops longer than without failures.
 * The last resort is a search (A*, so what it finds is as short as possible) that gives up after
 * BR_ROUTE_SEARCH_HOSTS hosts or BR_ROUTE_SEARCH_LINKS links: cubes within both are searched whole.
 *
 * Returns 0, or with a message -ENOMEM, or -EHOSTUNREACH: there is no route, or the search gave up
 * (the message says which), or every route has more than BR_ROUTE_HOPS hops. a == b is a route of
 * no hops, whatever has failed.
 */
#define BR_ROUTE_SEARCH_HOSTS 4096u
#define BR_ROUTE_SEARCH_LINKS 262144u
int br_route_around(const struct br_bcube *cube, uint32_t a, uint32_t b,
                    const struct br_failures *failures, struct br_route *route);

#endif
