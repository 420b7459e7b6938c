/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is really connected: what the NICs of all hosts have heard of each other, compared with the
 * cube. Pure: the same sightings give the same findings on every rank. One thread at a time for one
 * structure.
 *
 * The numbered notes are in doc/design/bcube.md.
 */
#ifndef BR_BCUBE_WIRING_H
#define BR_BCUBE_WIRING_H

#include <stdbool.h>

#include "bcube/address.h"

#define BR_WIRING_NICS     16 /* of one host */
#define BR_WIRING_FINDINGS 32 /* that are kept as text */
#define BR_WIRING_TEXT     240

struct br_wiring_nic {
    char name[16];
    int level; /* that it is meant for, -1: to be found out; br_wiring_analyse() fills it in */
    bool up;
    bool found;         /* level comes from br_wiring_analyse() */
    bool cannot_listen; /* could not listen and speak: nothing can be said of it */
};

struct br_wiring_host {
    char name[64]; /* "" or what people call it */
    uint32_t n_nics;
    struct br_wiring_nic nics[BR_WIRING_NICS];
};

struct br_wiring {
    struct br_bcube cube;
    uint32_t n_hosts; /* <= cube.hosts; the last ones of a partial cube are missing */
    /* [n_hosts], filled by the caller before br_wiring_add_neighbour() */
    struct br_wiring_host *hosts;
    /* base/union_find.h, by port (host * BR_WIRING_NICS + nic): the same order of segments
     * everywhere */
    uint32_t *parent;
    uint32_t *ports; /* those that take part, segment after segment */
    struct br_wiring_segment *segments;
    uint32_t n_segments;
    uint32_t *segment_of; /* by port */
    uint32_t n_findings;  /* may be more than are kept */
    char (*findings)[BR_WIRING_TEXT];
};

/* Starts an analysis of the first n_hosts hosts of a cube. Returns 0, or -ENOMEM with a message. */
int br_wiring_init(struct br_wiring *wiring, const struct br_bcube *cube, uint32_t n_hosts);
void br_wiring_destroy(struct br_wiring *wiring);

/* Adds that NIC `nic` of `host` has heard NIC `other_nic` of `other`. Numbers that do not exist are
 * ignored. */
void br_wiring_add_neighbour(struct br_wiring *wiring, uint32_t host, uint32_t nic, uint32_t other,
                             uint32_t other_nic);

/* After all that was heard: levels for NICs that have none, and what is wrong, as text. May be
 * called again after more has been heard; it starts over. Returns the number of findings;
 * -ENOMEM. */
int br_wiring_analyse(struct br_wiring *wiring);

/* After br_wiring_analyse(): the NIC of a host on a level; -1: none. */
int br_wiring_nic_on(const struct br_wiring *wiring, uint32_t host, uint32_t level);

#endif
