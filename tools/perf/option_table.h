/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of options of `braid perf`: those it serves, and those of perftest that it refuses with
 * the reason. */
#ifndef BR_TOOLS_PERF_OPTION_TABLE_H
#define BR_TOOLS_PERF_OPTION_TABLE_H

#include "tools/common/options.h"
#include "tools/perf/settings.h"

#define BR_PERF_OPTION_TABLE 112 /* room in a table, the end included */
#define BR_PERF_REFUSED      60

/* What needs more than a range. */
struct br_perf_texts {
    const char *connection, *atomic;
    int64_t queue_pairs; /* -1: not given */
    bool json, frequency, version;
    struct {
        bool flag;
        const char *text;
    } refused[BR_PERF_REFUSED]; /* by the place in the table of refused letters */
};

/* Initializes *texts; `options` then fills both. Only what settings->test has is listed in the
 * help. */
void br_perf_option_table(struct br_perf_settings *settings, struct br_perf_texts *texts,
                          struct br_option options[BR_PERF_OPTION_TABLE]);

/* -EINVAL with a message if one was given that braid cannot serve. */
int br_perf_option_table_refuse(const struct br_perf_texts *texts);

#endif
