/* SPDX-License-Identifier: BSD-3-Clause */
/* What each rail carried of a run: the lines of --report-per-port. One thread. */
#ifndef BR_TOOLS_PERF_RAILS_H
#define BR_TOOLS_PERF_RAILS_H

#include <stdio.h>

#include <braid/braid.h>

#include "tools/perf/samples.h"
#include "tools/perf/settings.h"

#define BR_PERF_RAILS 64

/* Bytes, both ways, since the communicator began. */
struct br_perf_rails {
    int n;
    uint64_t bytes[BR_PERF_RAILS];
    char devices[BR_PERF_RAILS][sizeof((struct braid_rail_stats *)0)->device];
};

void br_perf_rails_read(struct br_perf_rails *rails, struct braid_comm *comm);

/* A line each: its share of the row's average, by the bytes that it carried between the two
 * looks. */
void br_perf_rails_print(const struct br_perf_settings *settings,
                         const struct br_perf_rails *before, const struct br_perf_rails *after,
                         const struct br_perf_row *row, FILE *out);

#endif
