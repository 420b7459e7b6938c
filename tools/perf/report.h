/* SPDX-License-Identifier: BSD-3-Clause */
/* The JSON report of `braid perf`: perftest's names, but valid, and with every size.
 * doc/perf.schema.json is its schema. One thread. */
#ifndef BR_TOOLS_PERF_REPORT_H
#define BR_TOOLS_PERF_REPORT_H

#include <stdbool.h>

#include <braid/braid.h>

#include "tools/perf/samples.h"
#include "tools/perf/settings.h"
#include "tools/perf/table.h"

struct br_perf_report;

/* Opens the file at once. NULL with a message when it cannot be written, or without memory. */
struct br_perf_report *br_perf_report_new(const struct br_perf_settings *settings,
                                          const struct br_table_facts *facts, double cycles);
void br_perf_report_add(struct br_perf_report *report, const struct br_perf_row *row);
/* Writes and frees. complete: all sizes were measured to their ends. comm: for the rails. 0, or a
 * negative errno with a message. */
int br_perf_report_finish(struct br_perf_report *report, struct braid_comm *comm, bool complete);

#endif
