/* SPDX-License-Identifier: BSD-3-Clause */
/* The line that a terminal shows while a test runs: rate so far, and of each rail. Nothing where
 * standard output is none. */
#ifndef BR_TOOLS_PERF_LIVE_H
#define BR_TOOLS_PERF_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <braid/braid.h>

#define BR_LIVE_RAILS 16

struct br_live {
    struct braid_comm *comm;
    bool on, gbits, shown;
    uint64_t next, since; /* ns: of the next line, and of the last one */
    uint64_t messages;    /* then */
    int rails;
    uint64_t rail_bytes[BR_LIVE_RAILS]; /* then, both directions */
};

void br_live_start(struct br_live *live, struct braid_comm *comm, bool gbits);
/* Called often; twice a second it prints. trips: messages are round trips, whose number says more
 * than their bytes. */
void br_live_tick(struct br_live *live, uint64_t now, uint64_t bytes, uint64_t messages,
                  bool trips);
void br_live_clear(struct br_live *live); /* before other output, and at the end */

#endif
