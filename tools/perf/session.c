/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/output.h"
#include "tools/common/interrupt.h"
#include "tools/perf/report.h"
#include "tools/perf/run.h"
#include "tools/perf/table.h"

#define RAILS   64
#define WARM_UP 100 /* messages */

struct session {
    const struct br_perf_settings *settings;
    double cycles;
    struct br_pair pair;
    struct br_live live;
    struct br_perf_report *report;
    struct br_perf_run run;
    struct br_histogram *all; /* of all sizes, for --hdr */
    char devices[256], backend[32];
    struct br_packet_cost_counters counters; /* with --packet_cost */
    bool quiet;                              /* the table is not wanted */
    bool over, failed;
};

/* ---- what is read before and after a run ----------------------------------------------------- */

/* How busy all cores of this machine are, as perftest counts it: ticks since the machine started;
 * zeros: unknown. */
struct cpu_usage {
    unsigned long long all, idle;
};

static struct cpu_usage cpu_usage_read(void)
{
    /* user nice system idle iowait irq softirq steal */
    unsigned long long ticks[8] = {0};
    struct cpu_usage p = {0};
    FILE *file = fopen("/proc/stat", "r");

    if (!file)
        return p;
    if (fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2],
               &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) > 3)
        p.idle = ticks[3] + ticks[4];
    for (int i = 0; i < 8; i++)
        p.all += ticks[i];
    fclose(file);
    return p;
}

/* Per cent of the time between the two readings that was not idle; below 0: unknown. */
static double cpu_usage_busy(struct cpu_usage before, struct cpu_usage after)
{
    if (after.all <= before.all || after.idle < before.idle)
        return -1;
    return 100 - 100.0 * (double)(after.idle - before.idle) / (double)(after.all - before.all);
}

/* Bytes that each rail carried, in both directions, since the communicator began. */
struct rail_bytes {
    int n;
    uint64_t bytes[RAILS];
    char devices[RAILS][sizeof((struct braid_rail_stats *)0)->device];
};

static void rail_bytes_read(struct rail_bytes *rails, struct braid_comm *comm)
{
    struct braid_rail_stats stats[RAILS] = {0};
    int n = braid_rail_stats(comm, stats, RAILS);

    rails->n = n < 0 ? 0 : n < RAILS ? n : RAILS;
    for (int i = 0; i < rails->n; i++) {
        rails->bytes[i] = stats[i].tx_bytes + stats[i].rx_bytes;
        snprintf(rails->devices[i], sizeof rails->devices[i], "%s", stats[i].device);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

/* "tcp:eth0" and "tcp:eth1": the back end, and "eth0,eth1". Returns how many rails there are. */
static int perf_session_describe(struct session *s)
{
    struct braid_rail_stats rails[RAILS] = {0};
    int n = braid_rail_stats(s->pair.comm, rails, RAILS), up = 0;
    size_t used = 0;

    snprintf(s->backend, sizeof s->backend, "none");
    for (int i = 0; i < n && i < RAILS; i++) {
        const char *colon = strchr(rails[i].device, ':'),
                   *name = colon ? colon + 1 : rails[i].device;

        up += rails[i].up != 0;
        snprintf(s->backend, sizeof s->backend, "%.*s",
                 (int)(colon ? colon - rails[i].device : (long)strlen(rails[i].device)),
                 rails[i].device);
        if (!strstr(s->devices, name) && used < sizeof s->devices)
            used += (size_t)snprintf(s->devices + used, sizeof s->devices - used, "%s%s",
                                     used ? "," : "", name);
    }
    return up;
}

static int start_output(struct session *s)
{
    struct br_table_facts facts = {.devices = s->devices, .backend = s->backend};

    facts.rails = perf_session_describe(s);
    if (facts.rails < (int)s->settings->rails)
        fprintf(stderr,
                "braid perf %s: %d rail%s in place of the %" PRId64 " of -q; -n counts for %" PRId64
                " all the same\n",
                s->settings->test->name, facts.rails, facts.rails == 1 ? "" : "s",
                s->settings->rails, s->settings->rails);
    s->quiet = s->settings->output || (s->settings->json && !strcmp(s->settings->json, "-"));
    if (s->settings->json) {
        s->report = br_perf_report_new(s->settings, &facts, s->cycles);
        if (!s->report)
            return -EIO;
    }
    br_live_start(&s->live, s->pair.comm, s->settings->gbits);
    s->live.on &= !s->quiet;
    if (!s->quiet)
        br_table_head(s->settings, &facts, s->cycles, stdout);
    fflush(stdout);
    return 0;
}

static void perf_session_print_row(void *context, const struct br_perf_row *row)
{
    struct session *s = context;

    if (s->settings->output)
        br_table_figure(s->settings, row, stdout);
    else if (!s->quiet)
        br_table_row(s->settings, row, s->cycles, stdout);
    if (s->settings->packet_cost && !s->quiet)
        br_packet_cost_print(&s->counters, &row->cost, stdout);
    if (s->report)
        br_perf_report_add(s->report, row);
    if (s->settings->limit_bandwidth > 0 &&
        br_table_bandwidth(s->settings, row->average) < s->settings->limit_bandwidth) {
        fprintf(stderr, "Error: BW result is below bw limit\n");
        s->failed = true;
    }
    if (s->settings->limit_rate > 0 && row->rate / 1e6 < s->settings->limit_rate) {
        fprintf(stderr, "Error: Msg rate is below msg_rate limit\n");
        s->failed = true;
    }
}

/* --report-per-port: each rail's share of the row's average, by the bytes that it carried since
 * `before`. Rails are numbered as in the JSON report. */
static void print_rails(const struct session *s, const struct rail_bytes *before,
                        const struct br_perf_row *row)
{
    struct rail_bytes after;
    double all = 0, share;

    if (s->quiet)
        return;
    rail_bytes_read(&after, s->pair.comm);
    for (int i = 0; i < after.n; i++)
        all += (double)(after.bytes[i] - before->bytes[i]);
    for (int i = 0; i < after.n && all > 0; i++) {
        share = (double)(after.bytes[i] - before->bytes[i]) / all;
        printf(" #rail %d %s: %.2f %s/sec\n", i, after.devices[i],
               br_table_bandwidth(s->settings, row->average * share),
               s->settings->gbits ? "Gb" : "MB");
    }
}

static void print_samples(struct session *s, const struct br_perf_row *row)
{
    double scale = br_perf_trip_fraction(s->settings->test);

    if (s->settings->histogram && s->pair.client && !s->quiet)
        br_table_samples(s->settings,
                         s->run.samples + (s->settings->unsorted ? 0 : s->run.messages),
                         row->iterations, scale, s->cycles, stdout);
}

static int write_histogram(const struct session *s)
{
    double scale = br_perf_trip_fraction(s->settings->test) * 1e-3;
    FILE *out;
    int rc;

    if (!s->all || !s->pair.client)
        return 0;
    out = br_output_open(s->settings->hdr, true, &rc);
    if (!out)
        return rc;
    br_histogram_print(s->all, scale, out);
    return br_output_close(out, s->settings->hdr, 0);
}

/* ---- a size ---------------------------------------------------------------------------------- */

/* With -b the server's figures come to the client, and the sum goes back; else the client's go to
 * the server. */
static int perf_session_rail_share(struct session *s, struct br_perf_row *row)
{
    struct br_perf_row other;
    int rc = 0;

    if (s->settings->bidirectional && s->pair.client) {
        rc = br_pair_receive_row(&s->pair, &other);
        if (rc)
            return rc;
        if (s->settings->report_both && !s->quiet) {
            printf(" #client\n #");
            br_table_row(s->settings, row, s->cycles, stdout);
            printf(" #server\n #");
            br_table_row(s->settings, &other, s->cycles, stdout);
        }
        row->peak = row->peak > 0 && other.peak > 0 ? row->peak + other.peak : 0;
        row->average += other.average;
        row->rate += other.rate;
    } else if (s->settings->bidirectional) {
        rc = br_pair_send_row(&s->pair, row);
    }
    if (rc)
        return rc;
    return s->pair.client ? br_pair_send_row(&s->pair, row) : br_pair_receive_row(&s->pair, row);
}

static int perf_session_run_once(struct session *s, struct br_perf_row *row)
{
    return s->settings->test->latency ? br_perf_run_latency(&s->run, row, &s->over)
                                      : br_perf_run_bandwidth(&s->run, row, &s->over);
}

static int perf_session_warm_up(struct session *s)
{
    struct br_perf_run kept = s->run;
    struct br_histogram unused;
    struct br_perf_row row;
    uint64_t messages = (uint64_t)s->settings->messages;
    int rc;

    br_histogram_init(&unused);
    s->run.messages = messages < WARM_UP ? messages : WARM_UP;
    s->run.duration = s->run.period = 0;
    s->run.samples = NULL;
    s->run.histogram = &unused;
    rc = perf_session_run_once(s, &row);
    s->run = kept;
    return rc;
}

/* Does this side get messages that can be looked at? */
static bool perf_session_receives(const struct session *s)
{
    const struct br_perf_settings *settings = s->settings;

    return settings->bidirectional || s->pair.client == (settings->test->verb == BR_PERF_READ);
}

static int perf_session_one_size(struct session *s, size_t bytes)
{
    struct cpu_usage before = {0};
    struct br_packet_cost cost = {0};
    struct rail_bytes carried = {0};
    struct br_perf_row row = {0};
    int rc;

    s->run.bytes = bytes;
    rc = s->settings->warm_up ? perf_session_warm_up(s) : 0;
    if (s->settings->cpu_util)
        before = cpu_usage_read();
    if (s->settings->packet_cost)
        cost = br_packet_cost_read(&s->counters, s->pair.comm);
    if (s->settings->report_per_port)
        rail_bytes_read(&carried, s->pair.comm);
    if (!rc && !s->over)
        rc = perf_session_run_once(s, &row);
    if (s->settings->packet_cost)
        cost = br_packet_cost_between(cost, br_packet_cost_read(&s->counters, s->pair.comm));
    if (!rc)
        print_samples(s, &row);
    if (!rc && !s->settings->forever)
        rc = perf_session_rail_share(s, &row);
    row.cost = cost;
    row.cpu = s->settings->cpu_util ? cpu_usage_busy(before, cpu_usage_read()) : -1;
    if (!rc && s->settings->validates && row.iterations && perf_session_receives(s))
        rc = br_pair_validate(&s->pair, bytes);
    if (row.iterations && !s->settings->forever)
        perf_session_print_row(s, &row); /* also when it failed: what was measured so far */
    if (row.iterations && s->settings->report_per_port)
        print_rails(s, &carried, &row);
    return rc;
}

static int perf_session_all_sizes(struct session *s)
{
    int rc = 0;

    for (int64_t bytes = br_perf_first_size(s->settings); bytes && !rc && !s->over;
         bytes = br_perf_next_size(s->settings, bytes))
        rc = perf_session_one_size(s, (size_t)bytes);
    return rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int perf_session_prepare(struct session *s)
{
    const struct br_perf_settings *settings = s->settings;
    bool counted = !settings->duration;

    s->run = (struct br_perf_run){.pair = &s->pair, .live = &s->live, .context = s};
    s->run.messages = counted ? (uint64_t)settings->messages : UINT64_MAX;
    if (settings->forever) {
        s->run.period = (uint64_t)settings->duration * BR_SEC;
        s->run.report = perf_session_print_row;
    } else {
        s->run.duration = (uint64_t)settings->duration * BR_SEC;
        s->run.margin = (uint64_t)settings->margin * BR_SEC;
    }
    if (counted && (settings->test->latency || !settings->no_peak)) {
        s->run.samples = calloc(2 * s->run.messages, sizeof *s->run.samples);
        if (!s->run.samples)
            return br_error(ENOMEM, "no memory for the times of %llu messages: lower -n, or use -D",
                            (unsigned long long)s->run.messages);
    }
    if (settings->test->latency && (!counted || settings->hdr)) {
        s->all = malloc(sizeof *s->all);
        if (!s->all)
            return br_error(ENOMEM, "no memory for the histogram");
        br_histogram_init(s->all);
        s->run.histogram = s->all;
    }
    return 0;
}

static void perf_session_complain(struct session *s)
{
    fprintf(stderr, "braid perf %s: %s\n", s->settings->test->name, br_error_message());
    s->failed = true; /* also of what is no business of the other side */
}

static int perf_session_measure(struct session *s)
{
    int rc = perf_session_prepare(s), left = 0;

    if (!rc)
        rc = start_output(s);
    if (!rc)
        rc = perf_session_all_sizes(s);
    if (!s->quiet)
        br_table_end(stdout);
    if (rc)
        perf_session_complain(s);
    if (br_output_close(stdout, "standard output", 0))
        perf_session_complain(s);
    if (s->report)
        left = br_perf_report_finish(s->report, s->pair.comm, !rc && !s->over);
    if (!left && s->settings->hdr && !rc)
        left = write_histogram(s);
    if (left)
        perf_session_complain(s);
    return rc;
}

int br_perf_session_run(const struct br_perf_settings *settings, const struct br_exchange *where,
                        double cycles)
{
    struct session *s = calloc(1, sizeof *s);
    int rc, left;

    if (!s)
        return br_error(ENOMEM, "no memory");
    s->settings = settings;
    s->cycles = cycles;
    s->counters = (struct br_packet_cost_counters){.cycles_fd = -1, .instructions_fd = -1};
    if (settings->packet_cost)
        br_packet_cost_open(&s->counters);
    rc = br_pair_open(&s->pair, settings, where);
    if (rc) {
        fprintf(stderr, "braid perf %s: %s\n", settings->test->name, br_error_message());
        br_packet_cost_close(&s->counters);
        free(s);
        return rc;
    }
    /* before, there is nothing to end in good order, and joining looks at no signal */
    br_interrupt_catch();
    rc = perf_session_measure(s);
    left = br_pair_close(&s->pair, rc < 0);
    if (!rc && left)
        fprintf(stderr, "braid perf %s: %s\n", settings->test->name, br_error_message());
    if (!rc)
        rc = left ? left : s->over && !settings->forever ? -EINTR : s->failed;
    br_packet_cost_close(&s->counters);
    free(s->run.samples);
    free(s->all);
    free(s);
    return rc;
}
