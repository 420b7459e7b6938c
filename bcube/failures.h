/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a cube does not work: NICs, hosts, switches. A sorted array: asked in log time, changed
 * in linear time. A partial cube is one whose missing hosts and switches are failures.
 *
 * A set that nobody changes may be read by any number of threads. NULL stands for a set without
 * failures wherever the set is only asked.
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

/* Adding what is there already, and removing what is not, is 0. -ENOMEM; -EINVAL: a number or level
 * that no cube has. */
int br_failures_add(struct br_failures *failures, enum br_failure kind, uint32_t number,
                    uint32_t level);
bool br_failures_has(const struct br_failures *failures, enum br_failure kind, uint32_t number,
                     uint32_t level);

/* The host exists and has not failed; what its NICs do does not matter. */
bool br_host_works(const struct br_failures *failures, uint32_t host);

/* The host, its NIC of the level and the switch work. */
bool br_nic_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t host,
                  uint32_t level);

/* Can a and b, neighbours of that level, talk to each other: both NICs work. */
bool br_link_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t a,
                   uint32_t b, uint32_t level);

#endif
