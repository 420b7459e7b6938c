/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/rails.h"

#include "tools/perf/table.h"

void br_perf_rails_read(struct br_perf_rails *rails, struct braid_comm *comm)
{
    struct braid_rail_stats stats[BR_PERF_RAILS];
    int n = braid_rail_stats(comm, stats, BR_PERF_RAILS);

    rails->n = n < 0 ? 0 : n < BR_PERF_RAILS ? n : BR_PERF_RAILS;
    for (int i = 0; i < rails->n; i++) {
        rails->bytes[i] = stats[i].tx_bytes + stats[i].rx_bytes;
        snprintf(rails->devices[i], sizeof rails->devices[i], "%s", stats[i].device);
    }
}

void br_perf_rails_print(const struct br_perf_settings *settings,
                         const struct br_perf_rails *before, const struct br_perf_rails *after,
                         const struct br_perf_row *row, FILE *out)
{
    double all = 0;

    for (int i = 0; i < after->n; i++)
        all += (double)(after->bytes[i] - before->bytes[i]);
    for (int i = 0; i < after->n && all > 0; i++)
        fprintf(out, " #rail %d %s: %.2f %s/sec\n", i, after->devices[i],
                br_table_bandwidth(
                    settings, row->average * (double)(after->bytes[i] - before->bytes[i]) / all),
                settings->gbits ? "Gb" : "MB");
}
