/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/stats/algorithm_report.h"

#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "collectives/schedule/type.h"

static struct br_algorithm_report_entry *algorithm_report_find(struct br_algorithm_report *report,
                                                               const struct br_operation *op,
                                                               size_t bytes, uint32_t ranks)
{
    struct br_algorithm_report_entry *entry = report->entries, *end = entry + report->n;
    bool asked = op->algorithm[0] && strcmp(op->algorithm, "auto") != 0;

    for (; entry < end; entry++)
        if (entry->bytes == bytes && entry->collective == op->collective && entry->ranks == ranks &&
            entry->by_name == asked &&
            br_algorithm_config_equal(&entry->tuning.config, op->algorithm_config))
            return entry;
    if (report->n == BR_ALGORITHM_REPORT_ENTRIES)
        return NULL;
    report->n++;
    *entry = (struct br_algorithm_report_entry){
        .collective = op->collective, .bytes = bytes, .ranks = ranks, .by_name = asked};
    entry->tuning = (struct br_tuning){.config = *op->algorithm_config,
                                       .fragments = op->fragments.count,
                                       .packed = op->packed,
                                       .seconds = op->predicted};
    return entry;
}

void br_algorithm_report_add(struct br_algorithm_report *report, const struct br_operation *op,
                             uint32_t ranks, uint64_t began, uint64_t now)
{
    struct br_algorithm_report_entry *entry =
        algorithm_report_find(report, op, op->count * br_type_size(op->type), ranks);

    if (!entry) {
        report->overflowed++;
        return;
    }
    entry->count++;
    entry->ns += now - began;
}

void br_algorithm_report_print(const struct br_algorithm_report *report,
                               const struct br_cost_model *model, FILE *stream)
{
    fprintf(stream, "# %-14s %12s %6s  %-24s %8s %13s %12s  %s\n", "collective", "block (B)",
            "ranks", "algorithm", "times", "predicted us", "measured us", "why");
    for (uint32_t i = 0; i < report->n; i++) {
        const struct br_algorithm_report_entry *e = &report->entries[i];
        char name[BR_ALGORITHM_TEXT], why[BR_TUNING_TEXT] = "";

        if (model->topology && model->topology->n == e->ranks)
            br_tuning_explain(model, e->collective, e->ranks, (double)e->bytes, &e->tuning, why);
        fprintf(stream, "  %-14s %12zu %6u  %-24s %8llu %13.1f %12.1f  %s%s\n",
                br_collective_name(e->collective), e->bytes, e->ranks,
                br_algorithm_config_name(&e->tuning.config, name), (unsigned long long)e->count,
                e->tuning.seconds * 1e6, (double)e->ns / 1e3 / (double)e->count,
                e->by_name ? "as asked for; " : "cheapest; ", why);
    }
    if (report->overflowed)
        fprintf(stream, "# and %llu operations of other sizes\n",
                (unsigned long long)report->overflowed);
}

void br_algorithm_report_write(const struct br_algorithm_report *report,
                               const struct br_network *network, const char *more, const char *path)
{
    char text[BR_TOPOLOGY_TEXT];
    struct br_file file = {0};
    FILE *stream = stderr;

    if (strcmp(path, "1") != 0) {
        if (br_file_open(&file, "BRAID_REPORT", path, false)) {
            br_log_warn("%s", br_error_message());
            return;
        }
        stream = file.stream;
    }
    fprintf(
        stream,
        "# braid report of rank 0, %s, %s figures; means of the time from the call to its end\n",
        br_topology_text(&network->topology, text), network->measured ? "measured" : "default");
    br_algorithm_report_print(report, &network->model, stream);
    fputs(more, stream);
    if (br_file_close(&file, "BRAID_REPORT", 0))
        br_log_warn("%s", br_error_message());
}
