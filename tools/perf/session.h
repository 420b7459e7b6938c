/* SPDX-License-Identifier: BSD-3-Clause */
/* All sizes of a test between two sides that have found each other: runs, prints, reports. */
#ifndef BR_TOOLS_PERF_SESSION_H
#define BR_TOOLS_PERF_SESSION_H

#include "tools/perf/exchange.h"
#include "tools/perf/settings.h"

/* cycles: cycles of the time-stamp counter per ns; 0: times are printed in us. Blocks. Returns 0; 1
 * when a limit (-w, -y) was not reached, which is printed; -EINTR after Ctrl-C; else a negative
 * errno with a message. */
int br_perf_session_run(const struct br_perf_settings *settings, const struct br_exchange *where,
                        double cycles);

#endif
