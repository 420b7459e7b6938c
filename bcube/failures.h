/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The set of what does not work in a cube: NICs, hosts, switches. It is a sorted array: a look-up
 * takes logarithmic time, an addition linear time. In a partial cube the missing hosts and switches
 * are failures.
 *
 * Any number of threads may read a set that nobody changes. Where a set is only read, NULL stands
 * for one without failures.
 */
#ifndef BR_BCUBE_FAILURES_H
#define BR_BCUBE_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "bcube/address.h"

/* All zero is the empty set. */
struct br_failures {
    uint32_t *keys; /* owned by the set; br_failures_destroy frees it */
    uint32_t count, capacity;
    /* hosts from this number on do not exist; 0: all do. The caller may set it */
    uint32_t missing_from;
};

enum br_failure {
    BR_FAILURE_NIC,    /* number: the host */
    BR_FAILURE_HOST,   /* number: the host; level: 0 */
    BR_FAILURE_SWITCH, /* number: the index within the level */
};

void br_failures_destroy(struct br_failures *failures); /* all zero again */

/* Adds a failure. Returns 0, also when it is in the set already; or with a message -ENOMEM, or
 * -EINVAL: a number or level that no cube has. */
int br_failures_add(struct br_failures *failures, enum br_failure kind, uint32_t number,
                    uint32_t level);
bool br_failures_has(const struct br_failures *failures, enum br_failure kind, uint32_t number,
                     uint32_t level);

/* Returns whether the host exists and has not failed, whatever the state of its NICs. */
bool br_host_works(const struct br_failures *failures, uint32_t host);

/* Returns whether the host, its NIC of the level and the switch work. */
bool br_nic_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t host,
                  uint32_t level);

/* Returns whether a and b, neighbours of that level, reach each other: both NICs work. */
bool br_link_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t a,
                   uint32_t b, uint32_t level);

#endif
