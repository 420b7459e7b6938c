/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `braid perf` prints: perftest's lines, with its widths and units, so that what parses those
 * reads these. MB/sec in the header means MiB, as there. Pure but for the output.
 */
#ifndef BR_TOOLS_PERF_TABLE_H
#define BR_TOOLS_PERF_TABLE_H

#include <stdint.h>
#include <stdio.h>

#include "tools/perf/samples.h"
#include "tools/perf/settings.h"

/* What stands above the table. */
struct br_table_facts {
    const char *backend, *devices; /* "tcp", "eth0,eth1" */
    int rails;
};

/* Bytes/s in MiB/s or, with --report_gbits, Gb/s. */
double br_table_bandwidth(const struct br_perf_settings *settings, double bytes_per_second);
/* ns in us or, with cycles > 0 (of them in a ns), cycles. */
double br_table_time(double ns, double cycles);

void br_table_head(const struct br_perf_settings *settings, const struct br_table_facts *facts,
                   double cycles, FILE *out);
void br_table_row(const struct br_perf_settings *settings, const struct br_perf_row *row,
                  double cycles, FILE *out);
/* All results, for -H and -U: a line each, then the header again. n samples, ns, each times
 * `scale`. */
void br_table_samples(const struct br_perf_settings *settings, const uint64_t *samples, uint64_t n,
                      double scale, double cycles, FILE *out);
void br_table_end(FILE *out);
/* The one figure of --output. */
void br_table_figure(const struct br_perf_settings *settings, const struct br_perf_row *row,
                     FILE *out);

#endif
