/* SPDX-License-Identifier: BSD-3-Clause */
/* Downgrades of this process (braid/stats.h has the list): counted where the decision is made, next
 * to the line in the log. Not for the data path; any thread. */
#ifndef BR_BASE_DOWNGRADE_H
#define BR_BASE_DOWNGRADE_H

#include <stdatomic.h>
#include <stdint.h>

#include <braid/stats.h>

#define BR_DOWNGRADE_FIELD(name, kind, help) _Atomic uint64_t name;

extern struct br_downgrades {
    BRAID_DOWNGRADES(BR_DOWNGRADE_FIELD)
} br_downgrades;

/* what: the name in the list without its prefix: br_downgrade(gso). */
#define br_downgrade(what) ((void)atomic_fetch_add(&br_downgrades.downgrade_##what, 1))

#endif
