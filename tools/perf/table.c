/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/table.h"

#include <inttypes.h>
#include <string.h>

#include "transport/transport.h"

double br_table_bandwidth(const struct br_perf_settings *s, double bytes)
{
    return s->gbits ? bytes * 8 / 1e9 : bytes / (1 << 20);
}

double br_table_time(double ns, double cycles)
{
    return cycles > 0 ? ns * cycles : ns / 1e3;
}

void br_table_end(FILE *out)
{
    fputs(
        "---------------------------------------------------------------------------------------\n",
        out);
}

static void perf_table_columns(const struct br_perf_settings *s, double cycles, FILE *out)
{
    const char *unit = cycles > 0 ? "cycles" : "usec";

    if (!s->test->latency)
        fprintf(
            out,
            " #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]%s\n",
            s->gbits ? "Gb" : "MB", s->gbits ? "Gb" : "MB", s->cpu_util ? "    CPU_Util[%]" : "");
    else if (s->duration)
        fprintf(out, " #bytes        #iterations       t_avg[%s]    tps average%s\n", unit,
                s->cpu_util ? "    CPU_Util[%]" : "");
    else
        fprintf(out,
                " #bytes #iterations    t_min[%s]    t_max[%s]  t_typical[%s]    t_avg[%s]    "
                "t_stdev[%s]   99%% "
                "percentile[%s]   99.9%% percentile[%s] \n",
                unit, unit, unit, unit, unit, unit, unit);
}

void br_table_head(const struct br_perf_settings *s, const struct br_table_facts *facts,
                   double cycles, FILE *out)
{
    bool send = s->test->verb == BR_PERF_SEND;

    br_table_end(out);
    fprintf(out, "                    %s %s%s Test\n", s->test->title,
            s->bidirectional ? "Bidirectional " : "", s->test->latency ? "Latency" : "BW");
    fprintf(out, " Device          : %s\n", facts->devices);
    fprintf(out, " Number of qps   : %d\t\tTransport type : %s\n", facts->rails, facts->backend);
    fprintf(out, " Connection type : RC\n");
    if (s->gpu >= 0)
        fprintf(out, " CUDA device     : %" PRId64 ", %sstaged through host memory\n", s->gpu,
                br_transport_traits(facts->backend).rdma
                    ? "by the NIC where it reaches the GPU, else "
                    : "");
    if (s->server || s->bidirectional)
        fprintf(out, " TX depth        : %" PRId64 "\n", s->depth);
    if (send)
        fprintf(out, " RX depth        : %" PRId64 "\n", s->rx_depth);
    if (!s->test->latency)
        fprintf(out, " CQ Moderation   : %" PRId64 "\n", s->moderation);
    fprintf(out, " Data ex. method : TCP\n");
    br_table_end(out);
    perf_table_columns(s, cycles, out);
}

static void latency_row(const struct br_perf_row *r, double cycles, FILE *out)
{
    fprintf(out,
            " %-7" PRIu64 " %" PRIu64 "          %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f "
            "    \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n",
            r->bytes, r->iterations, br_table_time(r->min, cycles), br_table_time(r->max, cycles),
            br_table_time(r->median, cycles), br_table_time(r->mean, cycles),
            br_table_time(r->stddev, cycles), br_table_time(r->p99, cycles),
            br_table_time(r->p999, cycles));
}

void br_table_row(const struct br_perf_settings *s, const struct br_perf_row *r, double cycles,
                  FILE *out)
{
    char cpu[24] = "";

    if (s->cpu_util)
        snprintf(cpu, sizeof cpu, "\t    %-7.2f", r->cpu);
    if (!s->test->latency)
        fprintf(out,
                " %-7" PRIu64 "    %-10" PRIu64 "       %-7.2f            %-7.2f\t\t   %-7.6f%s\n",
                r->bytes, r->iterations, br_table_bandwidth(s, r->peak),
                br_table_bandwidth(s, r->average), r->rate / 1e6, cpu);
    else if (s->duration)
        fprintf(out, " %-7" PRIu64 "       %" PRIu64 "            %-7.2f        %-7.2f%s\n",
                r->bytes, r->iterations, br_table_time(r->mean, cycles), r->rate, cpu);
    else
        latency_row(r, cycles, out);
    fflush(out);
}

void br_table_samples(const struct br_perf_settings *s, const uint64_t *samples, uint64_t n,
                      double scale, double cycles, FILE *out)
{
    fprintf(out, "#, %s\n", cycles > 0 ? "cycles" : "usec");
    for (uint64_t i = 0; i < n; i++)
        fprintf(out, "%" PRIu64 ", %g\n", i + 1, br_table_time((double)samples[i] * scale, cycles));
    br_table_end(out);
    perf_table_columns(s, cycles, out);
}

void br_table_figure(const struct br_perf_settings *s, const struct br_perf_row *r, FILE *out)
{
    double value = s->test->latency                  ? r->mean / 1e3
                   : !strcmp(s->output, "bandwidth") ? br_table_bandwidth(s, r->average)
                                                     : r->rate / 1e6;

    fprintf(out, "%.6f\n", value);
    fflush(out);
}
