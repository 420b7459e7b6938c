/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/coll/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "tools/common/output.h"

#define RAILS 1024

struct br_report {
    const char *json;
    FILE *file;
    cJSON *root, *rows;
    double bus_sum;
    int halves, failures;
};

struct br_report *br_report_new(const char *collective, const char *json)
{
    struct br_report *report = calloc(1, sizeof *report);
    int rc;

    if (!report || !(report->root = cJSON_CreateObject())) {
        free(report);
        br_error(ENOMEM, "no memory for the report");
        return NULL;
    }
    report->json = json;
    if (json && !(report->file = br_output_open(json, true, &rc))) {
        br_report_free(report);
        return NULL;
    }
    cJSON_AddStringToObject(report->root, "collective", collective);
    cJSON_AddStringToObject(report->root, "version", braid_version());
    return report;
}

void br_report_text(struct br_report *report, const char *name, const char *value)
{
    cJSON_AddStringToObject(report->root, name, value);
}

void br_report_number(struct br_report *report, const char *name, double value)
{
    cJSON_AddNumberToObject(report->root, name, value);
}

void br_report_header(void)
{
    printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place      "
           "    \n",
           "", "", "", "", "");
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s %6s  %7s  %6s  %6s %6s\n", "size", "count",
           "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
           "#wrong");
    printf("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
           "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
           "");
}

static void print_half(const struct br_report_half *half)
{
    if (!half->valid) {
        printf("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    int decimals = half->us >= 10000 ? 0 : half->us >= 100 ? 1 : 2;
    printf("  %7.*f  %6.2f  %6.2f", decimals, half->us, half->algorithm, half->bus);
    if (half->wrong < 0)
        printf("  %5s", "N/A");
    else
        printf("  %5ld", half->wrong);
}

static void add_half(struct br_report *report, cJSON *row, const char *name,
                     const struct br_report_half *half)
{
    if (!half->valid) {
        cJSON_AddNullToObject(row, name);
        return;
    }
    cJSON *object = cJSON_AddObjectToObject(row, name);
    cJSON_AddNumberToObject(object, "time_us", half->us);
    cJSON_AddNumberToObject(object, "algbw", half->algorithm);
    cJSON_AddNumberToObject(object, "busbw", half->bus);
    if (half->wrong < 0)
        cJSON_AddNullToObject(object, "wrong");
    else
        cJSON_AddNumberToObject(object, "wrong", (double)half->wrong);
    report->bus_sum += half->bus;
    report->halves++;
    report->failures += half->wrong > 0;
}

void br_report_add(struct br_report *report, const struct br_report_row *row)
{
    printf("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, row->type, row->reduction,
           row->root);
    print_half(&row->out_of_place);
    print_half(&row->in_place);
    printf("\n");
    fflush(stdout);
    if (!report->rows)
        report->rows = cJSON_AddArrayToObject(report->root, "results");
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "size", (double)row->bytes);
    cJSON_AddNumberToObject(object, "count", (double)row->count);
    cJSON_AddStringToObject(object, "type", row->type);
    cJSON_AddStringToObject(object, "redop", row->reduction);
    cJSON_AddNumberToObject(object, "root", row->root);
    if (row->algorithm)
        cJSON_AddStringToObject(object, "algorithm", row->algorithm);
    add_half(report, object, "out_of_place", &row->out_of_place);
    add_half(report, object, "in_place", &row->in_place);
    cJSON_AddItemToArray(report->rows, object);
}

void br_report_rails(struct br_report *report, struct braid_comm *comm)
{
    struct braid_rail_stats *rails = calloc(RAILS, sizeof *rails);
    int count = rails ? braid_rail_stats(comm, rails, RAILS) : 0;
    cJSON *array = cJSON_AddArrayToObject(report->root, "rails");
    for (int i = 0; i < count && i < RAILS; i++) {
        cJSON *rail = cJSON_CreateObject();
        cJSON_AddNumberToObject(rail, "peer", rails[i].peer);
        cJSON_AddNumberToObject(rail, "level", rails[i].level);
        cJSON_AddStringToObject(rail, "device", rails[i].device);
        cJSON_AddBoolToObject(rail, "up", rails[i].up != 0);
        cJSON_AddNumberToObject(rail, "tx_bytes", (double)rails[i].tx_bytes);
        cJSON_AddNumberToObject(rail, "rx_bytes", (double)rails[i].rx_bytes);
        cJSON_AddNumberToObject(rail, "window_bytes", (double)rails[i].window_bytes);
        cJSON_AddNumberToObject(rail, "bytes_per_second", (double)rails[i].bytes_per_second);
        cJSON_AddNumberToObject(rail, "min_rtt_ns", (double)rails[i].min_rtt_ns);
        cJSON_AddNumberToObject(rail, "failures", (double)rails[i].failures);
        cJSON_AddItemToArray(array, rail);
    }
    free(rails);
}

static int coll_report_write_json(struct br_report *report)
{
    int rc =
        br_output_close(report->file, report->json, br_output_json(report->file, report->root));

    report->file = NULL;
    return rc;
}

int br_report_finish(struct br_report *report)
{
    double average = report->halves ? report->bus_sum / report->halves : 0;
    printf("# Out of bounds values : %d %s\n", report->failures,
           report->failures ? "FAILED" : "OK");
    printf("# Avg bus bandwidth    : %g \n#\n", average);
    fflush(stdout);
    cJSON_AddNumberToObject(report->root, "out_of_bounds", report->failures);
    cJSON_AddNumberToObject(report->root, "avg_busbw", average);
    return report->file ? coll_report_write_json(report) : 0;
}

int br_report_failures(const struct br_report *report)
{
    return report->failures;
}

void br_report_free(struct br_report *report)
{
    if (!report)
        return;
    if (report->file)
        br_output_close(report->file, report->json, -ECANCELED);
    cJSON_Delete(report->root);
    free(report);
}
