/* SPDX-License-Identifier: BSD-3-Clause */
/* With what a side of `braid perf` joins the job of two. */
#ifndef BR_TOOLS_PERF_JOIN_H
#define BR_TOOLS_PERF_JOIN_H

#include <braid/braid.h>

#include "tools/perf/exchange.h"
#include "tools/perf/settings.h"

/* For braid_init(); points into both. */
struct braid_config br_join_config(const struct br_perf_settings *settings,
                                   const struct br_exchange *where);

/* Whatever of the options and the environment would keep this side from joining: to be asked before
 * the other side waits for it. Negative errno with a message. */
int br_join_check(const struct br_perf_settings *settings);

#endif
