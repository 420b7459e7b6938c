/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/report.h"

#include <errno.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "base/error.h"
#include "tools/common/output.h"

#define RAILS 64

struct br_perf_report {
    const struct br_perf_settings *settings;
    double cycles;
    FILE *file;
    cJSON *root, *info, *results;
};

static const char *perf_report_unit(const struct br_perf_settings *s, double cycles)
{
    if (s->test->latency)
        return cycles > 0 ? "cycles" : "usec";
    return s->gbits ? "Gb/sec" : "MiB/sec";
}

static void perf_report_describe(struct br_perf_report *r, const struct br_table_facts *facts)
{
    const struct br_perf_settings *s = r->settings;
    char title[64];

    snprintf(title, sizeof title, "%s_%s%s_Test", s->test->title,
             s->bidirectional ? "Bidirectional_" : "", s->test->latency ? "Latency" : "BW");
    cJSON_AddStringToObject(r->info, "test", title);
    cJSON_AddStringToObject(r->info, "command", s->test->name);
    cJSON_AddStringToObject(r->info, "version", braid_version());
    cJSON_AddStringToObject(r->info, "side", s->server ? "client" : "server");
    cJSON_AddStringToObject(r->info, "Transport_type", facts->backend);
    cJSON_AddStringToObject(r->info, "Device", facts->devices);
    cJSON_AddNumberToObject(r->info, "Number_of_qps", facts->rails);
    cJSON_AddStringToObject(r->info, "Connection_type", "RC");
    cJSON_AddNumberToObject(r->info, "TX_depth", (double)s->depth);
    cJSON_AddNumberToObject(r->info, "RX_depth", (double)s->rx_depth);
    cJSON_AddNumberToObject(r->info, "CQ_Moderation", (double)s->moderation);
    cJSON_AddNumberToObject(r->info, "iterations", s->duration ? 0 : (double)s->iterations);
    cJSON_AddNumberToObject(r->info, "duration", (double)s->duration);
    cJSON_AddNumberToObject(r->info, "margin", (double)s->margin);
    cJSON_AddNumberToObject(r->info, "priority", (double)s->priority);
    cJSON_AddBoolToObject(r->info, "bidirectional", s->bidirectional);
    cJSON_AddStringToObject(r->info, "unit", perf_report_unit(s, r->cycles));
}

struct br_perf_report *br_perf_report_new(const struct br_perf_settings *settings,
                                          const struct br_table_facts *facts, double cycles)
{
    struct br_perf_report *r = calloc(1, sizeof *r);
    int rc;

    if (r)
        r->root = cJSON_CreateObject();
    if (!r || !r->root) {
        free(r);
        br_error(ENOMEM, "no memory for the report");
        return NULL;
    }
    r->settings = settings;
    r->cycles = cycles;
    r->file = br_output_open(settings->json, true, &rc);
    if (!r->file) {
        cJSON_Delete(r->root);
        free(r);
        return NULL;
    }
    r->info = cJSON_AddObjectToObject(r->root, "test_info");
    r->results = cJSON_AddArrayToObject(r->root, "results");
    perf_report_describe(r, facts);
    return r;
}

static void add_cost(cJSON *object, const struct br_packet_cost *cost)
{
    double packets = (double)cost->packets;

    cJSON_AddNumberToObject(object, "packets", packets);
    if (!cost->packets)
        return;
    cJSON_AddNumberToObject(object, "cpu_ns_per_packet", (double)cost->cpu_ns / packets);
    if (cost->cycles >= 0)
        cJSON_AddNumberToObject(object, "cycles_per_packet", cost->cycles / packets);
    if (cost->instructions >= 0)
        cJSON_AddNumberToObject(object, "instructions_per_packet", cost->instructions / packets);
}

void br_perf_report_add(struct br_perf_report *r, const struct br_perf_row *row)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddNumberToObject(object, "MsgSize", (double)row->bytes);
    cJSON_AddNumberToObject(object, "n_iterations", (double)row->iterations);
    if (r->settings->test->latency) {
        cJSON_AddNumberToObject(object, "t_min", br_table_time(row->min, r->cycles));
        cJSON_AddNumberToObject(object, "t_max", br_table_time(row->max, r->cycles));
        cJSON_AddNumberToObject(object, "t_typical", br_table_time(row->median, r->cycles));
        cJSON_AddNumberToObject(object, "t_avg", br_table_time(row->mean, r->cycles));
        cJSON_AddNumberToObject(object, "t_stdev", br_table_time(row->stddev, r->cycles));
        cJSON_AddNumberToObject(object, "percentile_99", br_table_time(row->p99, r->cycles));
        cJSON_AddNumberToObject(object, "percentile_99.9", br_table_time(row->p999, r->cycles));
        cJSON_AddNumberToObject(object, "tps", row->rate);
    } else {
        if (row->peak > 0)
            cJSON_AddNumberToObject(object, "BW_peak", br_table_bandwidth(r->settings, row->peak));
        else
            cJSON_AddNullToObject(object, "BW_peak");
        cJSON_AddNumberToObject(object, "BW_average",
                                br_table_bandwidth(r->settings, row->average));
        cJSON_AddNumberToObject(object, "MsgRate", row->rate / 1e6);
    }
    if (r->settings->cpu_util && row->cpu >= 0)
        cJSON_AddNumberToObject(object, "CPU_util", row->cpu);
    if (r->settings->packet_cost)
        add_cost(object, &row->cost);
    cJSON_AddItemToArray(r->results, object);
}

static void add_rails(struct br_perf_report *r, struct braid_comm *comm)
{
    struct braid_rail_stats rails[RAILS] = {0};
    int n = braid_rail_stats(comm, rails, RAILS);
    cJSON *array = cJSON_AddArrayToObject(r->root, "rails");

    for (int i = 0; i < n && i < RAILS; i++) {
        cJSON *rail = cJSON_CreateObject();

        cJSON_AddStringToObject(rail, "device", rails[i].device);
        cJSON_AddBoolToObject(rail, "up", rails[i].up != 0);
        cJSON_AddNumberToObject(rail, "tx_bytes", (double)rails[i].tx_bytes);
        cJSON_AddNumberToObject(rail, "rx_bytes", (double)rails[i].rx_bytes);
        cJSON_AddNumberToObject(rail, "bytes_per_second", (double)rails[i].bytes_per_second);
        cJSON_AddNumberToObject(rail, "min_rtt_ns", (double)rails[i].min_rtt_ns);
        cJSON_AddItemToArray(array, rail);
    }
}

/* Which way its bytes went. */
static void perf_report_add_gpu(struct br_perf_report *r, struct braid_comm *comm)
{
    cJSON *gpu = cJSON_AddObjectToObject(r->root, "gpu");
    struct braid_stats stats = {0};

    braid_stats(comm, &stats);
    cJSON_AddNumberToObject(gpu, "device", (double)r->settings->gpu);
    cJSON_AddNumberToObject(gpu, "gpu_to_host_bytes", (double)stats.gpu_to_host_bytes);
    cJSON_AddNumberToObject(gpu, "host_to_gpu_bytes", (double)stats.host_to_gpu_bytes);
    cJSON_AddNumberToObject(gpu, "nic_from_gpu_bytes", (double)stats.nic_from_gpu_bytes);
    cJSON_AddNumberToObject(gpu, "nic_to_gpu_bytes", (double)stats.nic_to_gpu_bytes);
}

int br_perf_report_finish(struct br_perf_report *r, struct braid_comm *comm, bool complete)
{
    int rc;

    cJSON_AddBoolToObject(r->root, "complete", complete);
    add_rails(r, comm);
    if (r->settings->gpu >= 0)
        perf_report_add_gpu(r, comm);
    rc = br_output_close(r->file, r->settings->json, br_output_json(r->file, r->root));
    cJSON_Delete(r->root);
    free(r);
    return rc;
}
