/* SPDX-License-Identifier: BSD-3-Clause */
/* What wiring.c (which finds the segments) and wiring_findings.c (which writes the messages) share.
 */
#ifndef BR_BCUBE_WIRING_INTERNAL_H
#define BR_BCUBE_WIRING_INTERNAL_H

#include "bcube/wiring.h"

#define BR_WIRING_JOINED 8 /* switches of one segment that are named */

struct br_wiring_switch {
    uint32_t level, index;
};

struct br_wiring_segment {
    uint32_t first, n; /* wiring->ports[first .. first + n) */
    uint32_t score;    /* how well it fits its switch */
    uint32_t n_is;     /* 0: nobody can tell which switch it is; more than one: they are joined */
    struct br_wiring_switch is[BR_WIRING_JOINED];
    bool out_of_band; /* another network that all hosts are on: ignored */
};

static inline uint32_t br_wiring_host_of(uint32_t port)
{
    return port / BR_WIRING_NICS;
}

/* Returns how many hosts of a partial cube are on a switch. */
uint32_t br_wiring_expected(const struct br_wiring *wiring, struct br_wiring_switch at);

/* Returns whether this is the switch that the host belongs to on that level. */
static inline bool br_wiring_belongs(const struct br_wiring *wiring, uint32_t host,
                                     struct br_wiring_switch at)
{
    return br_bcube_switch(&wiring->cube, host, at.level) == at.index;
}

/* Returns whether the segment is this switch, or one of several that are joined. */
bool br_wiring_segment_is(const struct br_wiring_segment *segment, struct br_wiring_switch at);

/* Returns the segment of a NIC; NULL: it takes no part. */
const struct br_wiring_segment *br_wiring_segment_of(const struct br_wiring *wiring, uint32_t host,
                                                     uint32_t nic);

/* Writes the findings. */
void br_wiring_find(struct br_wiring *wiring);

#endif
