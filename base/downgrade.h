/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of this process's downgrades: decisions for something slower or less safe than what was
 * asked for. <braid/stats.h> lists them. The code that decides counts, beside the line that it
 * writes to the log; never on the data path. From any thread. base/log.c defines the counters.
 */
#ifndef BR_BASE_DOWNGRADE_H
#define BR_BASE_DOWNGRADE_H

#include <stdatomic.h>
#include <stdint.h>

#include <braid/stats.h>

#define BR_DOWNGRADE_FIELD(name, kind, help) _Atomic uint64_t name;

extern struct br_downgrades {
    BRAID_DOWNGRADES(BR_DOWNGRADE_FIELD)
} br_downgrades;

/* what: a name of the list without its prefix, as in br_downgrade(gso). */
#define br_downgrade(what) ((void)atomic_fetch_add(&br_downgrades.downgrade_##what, 1))

#endif
