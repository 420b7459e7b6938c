/* SPDX-License-Identifier: BSD-3-Clause */
/* All sizes of a test between two sides that have found each other: runs, prints, reports. */
#ifndef BR_TOOLS_PERF_SESSION_H
#define BR_TOOLS_PERF_SESSION_H

#include "tools/perf/exchange.h"
#include "tools/perf/settings.h"

/* cycles: as br_cycles_per_ns() has it, 0: print times in us. Blocks. 0; 1: a limit (-w, -y) was
 * not reached, told; -EINTR: Ctrl-C; else a negative errno with a message. */
int br_perf_session_run(const struct br_perf_settings *settings, const struct br_exchange *where,
                        double cycles);

#endif
