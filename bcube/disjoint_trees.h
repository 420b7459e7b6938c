/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spanning trees of a cube over the links that work, which together load its NICs as evenly as
 * possible. An all-reduce cuts its buffer into a piece for each tree, reduces towards the root and
 * sends the result back: for each edge of a tree at a NIC, the NIC sends and receives one piece.
 * All hosts that are given the same failures make the same trees to the bit.
 *
 * The trees never change after br_disjoint_trees_new(); any number of threads may read them.
 */
#ifndef BR_BCUBE_DISJOINT_TREES_H
#define BR_BCUBE_DISJOINT_TREES_H

#include "bcube/failures.h"

/* Hosts of the largest cube; making its trees takes a tenth of a second. */
#define BR_DISJOINT_TREES_HOSTS 256u
#define BR_DISJOINT_TREES_MAX   64u

struct br_disjoint_trees {
    struct br_bcube cube;
    uint32_t hosts, trees; /* hosts: those that there are */
    bool broken;           /* there were failures besides missing hosts */
    /* edges at the NIC that has the most; an all-reduce takes busiest / trees of T_F */
    uint32_t busiest;
    uint32_t depth;     /* edges from the root of the deepest tree to its lowest leaf */
    uint64_t digest;    /* differs where cubes or failures do */
    uint16_t parents[]; /* [trees * hosts]: the root is its own */
};

/*
 * Makes the trees. Missing hosts (failures->missing_from) are left out; failed hosts are not
 * allowed for. Returns 0 and the trees, which the caller frees; or with a message -ENOMEM; -EINVAL:
 * the cube is too large; -EHOSTUNREACH: the links that work do not join all hosts.
 */
int br_disjoint_trees_new(const struct br_bcube *cube, const struct br_failures *failures,
                          struct br_disjoint_trees **trees);
void br_disjoint_trees_free(struct br_disjoint_trees *trees); /* NULL allowed */

static inline uint32_t br_disjoint_trees_parent(const struct br_disjoint_trees *trees,
                                                uint32_t tree, uint32_t host)
{
    return trees->parents[tree * trees->hosts + host];
}

/* Edges from the root to the host, and from the host to its lowest leaf. */
uint32_t br_disjoint_trees_depth(const struct br_disjoint_trees *trees, uint32_t tree,
                                 uint32_t host);
uint32_t br_disjoint_trees_height(const struct br_disjoint_trees *trees, uint32_t tree,
                                  uint32_t host);

#endif
