/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/error.h"
#include "tools/common/options.h"
#include "tools/perf/option_table.h"
#include "transport/transport.h"

static const struct br_perf_test tests[] = {
    {"write_bw", "RDMA_Write", BR_PERF_WRITE, false},
    {"write_lat", "RDMA_Write", BR_PERF_WRITE, true},
    {"read_bw", "RDMA_Read", BR_PERF_READ, false},
    {"read_lat", "RDMA_Read", BR_PERF_READ, true},
    {"send_bw", "Send", BR_PERF_SEND, false},
    {"send_lat", "Send", BR_PERF_SEND, true},
    {"atomic_lat", "Atomic", BR_PERF_ATOMIC, true},
};

double br_perf_trip_fraction(const struct br_perf_test *test)
{
    return test->verb == BR_PERF_READ || test->verb == BR_PERF_ATOMIC ? 1 : 0.5;
}

const struct br_perf_test *br_perf_test_find(const char *name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (!strcmp(name, tests[i].name))
            return &tests[i];
    return NULL;
}

/* ---- what goes with what --------------------------------------------------------------------- */

static int perf_settings_only(bool given, bool fits, const char *option, const char *where)
{
    return given && !fits ? br_error(EINVAL, "%s is for %s only; leave it out", option, where) : 0;
}

static int check_test(const struct br_perf_settings *s)
{
    const char *bw = "write_bw, read_bw and send_bw",
               *lat = "write_lat, read_lat, send_lat and atomic_lat";
    bool latency = s->test->latency, atomic = s->test->verb == BR_PERF_ATOMIC;
    int rc;

    if (atomic && (s->all || (s->size >= 0 && s->size != 8)))
        return br_error(EINVAL, "atomic_lat always uses 8 bytes; leave out %s",
                        s->all ? "-a" : "-s");
    if ((rc = perf_settings_only(s->bidirectional, !latency, "-b (--bidirectional)", bw)) ||
        (rc = perf_settings_only(s->no_peak, !latency, "-N (--noPeak)", bw)) ||
        (rc = perf_settings_only(s->depth >= 0, !latency, "-t (--tx-depth)", bw)) ||
        (rc = perf_settings_only(s->post_list >= 0, !latency, "-l (--post_list)", bw)) ||
        (rc = perf_settings_only(s->moderation >= 0, !latency, "-Q (--cq-mod)", bw)) ||
        (rc = perf_settings_only(s->limit_bandwidth > 0, !latency, "-w (--limit_bw)", bw)) ||
        (rc = perf_settings_only(s->limit_rate > 0, !latency, "-y (--limit_msgrate)", bw)) ||
        (rc = perf_settings_only(s->gbits, !latency, "--report_gbits", bw)) ||
        (rc = perf_settings_only(s->forever, !latency, "--run_infinitely", bw)) ||
        (rc = perf_settings_only(s->validates, !latency, "--data_validation", bw)) ||
        (rc = perf_settings_only(s->report_both, s->bidirectional, "--report-both", "-b")) ||
        (rc = perf_settings_only(s->report_per_port, !latency, "--report-per-port", bw)) ||
        (rc = perf_settings_only(s->cycles, latency, "-C (--report-cycles)", lat)) ||
        (rc = perf_settings_only(s->histogram || s->unsorted, latency,
                                 "-H (--report-histogram), also -U,", lat)) ||
        (rc = perf_settings_only(s->hdr != NULL, latency, "--hdr", lat)) ||
        (rc = perf_settings_only(s->rx_depth >= 0, s->test->verb == BR_PERF_SEND, "-r (--rx-depth)",
                                 "send_bw and send_lat")))
        return rc;
    return perf_settings_only(s->events, s->test->verb != BR_PERF_WRITE, "-e (--events)",
                              "read, send and atomic tests");
}

static int check_time(const struct br_perf_settings *s)
{
    int rc = perf_settings_only(s->margin >= 0, s->duration > 0 && !s->forever, "-f (--margin)",
                                "runs with -D");

    if (!rc)
        rc = perf_settings_only(s->report_per_port, !s->forever, "--report-per-port",
                                "runs that end");
    if (!rc)
        rc = perf_settings_only(s->cpu_util, s->duration > 0 && !s->forever, "--cpu_util",
                                "runs with -D");
    if (!rc)
        rc = perf_settings_only(s->packet_cost, !s->forever, "--packet_cost", "runs that end");
    if (rc)
        return rc;
    if (s->duration > 0 && s->iterations >= 0)
        return br_error(EINVAL, "-n counts messages and -D seconds: give one of them");
    if (s->forever && s->iterations >= 0)
        return br_error(EINVAL,
                        "--run_infinitely ends with Ctrl-C, not after -n messages; leave one out");
    if ((s->duration > 0 || s->forever) && s->all)
        return br_error(
            EINVAL,
            "-a runs each size for -n messages; it cannot be combined with -D or --run_infinitely");
    if (s->duration > 0 && s->margin > 0 && 2 * s->margin >= s->duration)
        return br_error(EINVAL,
                        "-f %" PRId64 " twice leaves nothing of -D %" PRId64
                        ": the margin is cut off at both ends",
                        s->margin, s->duration);
    if ((s->histogram || s->unsorted) && s->duration > 0)
        return br_error(EINVAL,
                        "-H and -U print every result of -n messages; with -D use --hdr FILE");
    return 0;
}

static int check_gpu(const struct br_perf_settings *s)
{
    return perf_settings_only(s->gpu >= 0, br_perf_test_on_gpu(s->test), "--use_cuda",
                              "write_bw, read_bw, send_bw, read_lat and send_lat");
}

static int perf_settings_check_backend(const struct br_perf_settings *s)
{
    const char *backend = s->backend ? s->backend : getenv("BRAID_BACKEND");
    bool absent = backend && br_transport_known(backend) && !br_transport_get(backend);
    bool verbs = absent || br_transport_traits(backend).rdma; /* an absent one is refused later */
    bool packets = br_transport_traits(backend).packets;
    int rc;

    if ((rc = perf_settings_only(s->packet_cost, packets, "--packet_cost",
                                 "--backend udp or dpdk")) ||
        (rc =
             perf_settings_only(s->gid_index >= 0, verbs, "-x (--gid-index)", "--backend verbs")) ||
        (rc = perf_settings_only(s->service_level >= 0, verbs, "-S (--sl)", "--backend verbs")) ||
        (rc = perf_settings_only(s->rdma_cm, verbs, "-R (--rdma_cm)", "--backend verbs")) ||
        (rc = perf_settings_only(s->ib_port >= 0, verbs, "-i (--ib-port)", "--backend verbs")))
        return rc;
    return perf_settings_only(s->traffic_class >= 0, verbs, "-T (--tos) or --tclass",
                              "--backend verbs");
}

/* -i: "mlx5_0,mlx5_1" becomes "mlx5_0:2,mlx5_1:2". */
static int name_ports(struct br_perf_settings *s)
{
    size_t used = 0;

    if (s->ib_port < 0)
        return 0;
    if (!s->devices)
        return br_error(EINVAL, "-i %" PRId64 " is a port of the devices of -d; name them",
                        s->ib_port);
    for (const char *name = s->devices; *name;) {
        size_t n = strcspn(name, ",");

        if (memchr(name, ':', n))
            return br_error(EINVAL,
                            "-i %" PRId64 " and -d %s: both say which port; give one of them",
                            s->ib_port, s->devices);
        used += (size_t)snprintf(s->ports + used, sizeof s->ports - used, "%s%.*s:%" PRId64,
                                 used ? "," : "", (int)n, name, s->ib_port);
        if (used >= sizeof s->ports)
            return br_error(EINVAL, "-d: too many names");
        name += n + (name[n] == ',');
    }
    s->devices = s->ports;
    return 0;
}

static int check_output(const struct br_perf_settings *s)
{
    if (s->json && s->hdr && !strcmp(s->json, s->hdr))
        return br_error(
            EINVAL, "--out_json_file and --hdr both write %s; name another file for one of them",
            strcmp(s->hdr, "-") ? s->hdr : "standard output");
    if (s->json && s->output && !strcmp(s->json, "-"))
        return br_error(
            EINVAL,
            "--output and --out_json_file - both write standard output; name a file for the JSON");
    if (!s->output)
        return 0;
    if (s->test->latency
            ? strcmp(s->output, "latency") != 0
            : strcmp(s->output, "bandwidth") != 0 && strcmp(s->output, "message_rate") != 0)
        return br_error(EINVAL, "--output %s: must be %s for %s", s->output,
                        s->test->latency ? "latency" : "bandwidth or message_rate", s->test->name);
    if (s->report_both || s->report_per_port)
        return br_error(EINVAL,
                        "--output prints one figure, --report-both and --report-per-port print "
                        "several; leave one out");
    return 0;
}

/* ---- defaults -------------------------------------------------------------------------------- */

static void perf_settings_fill(int64_t *value, int64_t otherwise)
{
    if (*value < 0)
        *value = otherwise;
}

static int64_t perf_settings_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int fill_in(struct br_perf_settings *s)
{
    bool latency = s->test->latency, counted = s->duration <= 0 && !s->forever;
    int64_t rails = s->rails > 0 ? s->rails : 1, most = BR_PERF_MAX_DEPTH / 2 / rails;

    perf_settings_fill(&s->rails, 0);
    perf_settings_fill(&s->size, s->test->verb == BR_PERF_ATOMIC ? 8 : latency ? 2 : 65536);
    perf_settings_fill(&s->duration, s->forever ? 5 : 0);
    perf_settings_fill(&s->margin, s->forever ? 0 : perf_settings_min(2, s->duration / 4));
    perf_settings_fill(&s->iterations, s->test->verb == BR_PERF_WRITE && !latency ? 5000 : 1000);
    if (s->depth > most)
        return br_error(EINVAL,
                        "-t %" PRId64 ": %" PRId64 " rails leave at most %" PRId64 " for each",
                        s->depth, rails, most);
    perf_settings_fill(&s->depth, latency ? 1 : perf_settings_min(128, most));
    perf_settings_fill(&s->rx_depth, latency ? 1 : BR_PERF_MAX_RX_WINDOW / rails);
    s->rx_depth = perf_settings_min(s->rx_depth, BR_PERF_MAX_RX_WINDOW / rails);
    if (counted) {
        s->depth = perf_settings_min(s->depth, s->iterations);
        s->rx_depth = perf_settings_min(s->rx_depth, s->iterations);
    }
    s->messages = s->iterations * rails;
    s->window = s->depth * rails;
    s->rx_window = s->rx_depth * rails;
    if (s->post_list > s->window || s->moderation > s->window)
        return br_error(EINVAL,
                        "-%c %" PRId64 " is more than the %" PRId64
                        " messages under way (-t, or -n where that is less)",
                        s->post_list > s->window ? 'l' : 'Q',
                        s->post_list > s->window ? s->post_list : s->moderation, s->window);
    perf_settings_fill(&s->post_list, 1);
    perf_settings_fill(&s->moderation, perf_settings_min(100, s->window));
    if (!counted || s->messages > BR_PERF_PEAK_MAX)
        s->no_peak = true;
    if (s->unsorted)
        s->histogram = true;
    return 0;
}

/* ---- parsing --------------------------------------------------------------------------------- */

static int perf_settings_parse(struct br_perf_settings *s, struct br_perf_texts *texts, int argc,
                               char **argv)
{
    struct br_option options[BR_PERF_OPTION_TABLE];
    struct br_arguments arguments;
    char usage[128];
    int rc;

    snprintf(usage, sizeof usage,
             "braid perf %s [option...] [SERVER]; without SERVER: be the server, with the client's "
             "options",
             s->test->name);
    br_perf_option_table(s, texts, options);
    rc = br_arguments_parse(&arguments, options, usage, argc, argv);
    if (rc)
        return rc;
    if (texts->version) {
        printf("Version: %s\n", braid_version());
        return 1;
    }
    if (arguments.count > 1)
        return br_error(EINVAL, "'%s' is one word too many: the server's name is the only one",
                        arguments.operands[1]);
    if (arguments.command)
        return br_error(EINVAL, "'--' is followed by nothing that %s knows", s->test->name);
    s->server = arguments.operands[0];
    return br_perf_option_table_refuse(texts);
}

static int check_atomic(struct br_perf_settings *s, const char *type)
{
    if (!type)
        return 0;
    s->swaps = !strcmp(type, "CMP_AND_SWAP");
    s->atomic = true;
    if (!s->swaps && strcmp(type, "FETCH_AND_ADD") != 0)
        return br_error(EINVAL, "-A %s: must be CMP_AND_SWAP or FETCH_AND_ADD", type);
    return perf_settings_only(true, s->test->verb == BR_PERF_ATOMIC, "-A (--atomic_type)",
                              "atomic_lat");
}

static int check_texts(struct br_perf_settings *s, const struct br_perf_texts *texts)
{
    int rc = check_atomic(s, texts->atomic);

    if (rc)
        return rc;
    if (s->rails >= 0 && texts->queue_pairs >= 0 && s->rails != texts->queue_pairs)
        return br_error(EINVAL,
                        "-q %" PRId64 " and --rails %" PRId64
                        ": both say how many rails; give one of them",
                        texts->queue_pairs, s->rails);
    if (texts->queue_pairs >= 0)
        s->rails = texts->queue_pairs;
    if (s->all && s->size >= 0)
        return br_error(EINVAL,
                        "-a runs sizes from 2 to 8388608 bytes, -s one size: give one of them");
    if (texts->json && !s->json)
        s->json = "perftest_out.json";
    if (s->server && s->clients >= 0)
        return br_error(
            EINVAL, "--clients is an option of the server; leave it out where a server is named");
    perf_settings_fill(&s->clients, 1);
    return 0;
}

int br_perf_settings_read(struct br_perf_settings *s, int argc, char **argv)
{
    struct br_perf_texts texts;
    int rc;

    *s = (struct br_perf_settings){.test = br_perf_test_find(argv[0]),
                                   .port = 18515,
                                   .clients = -1,
                                   .size = -1,
                                   .iterations = -1,
                                   .duration = -1,
                                   .margin = -1,
                                   .depth = -1,
                                   .rx_depth = -1,
                                   .post_list = -1,
                                   .moderation = -1,
                                   .rails = -1,
                                   .gid_index = -1,
                                   .service_level = -1,
                                   .traffic_class = -1,
                                   .ib_port = -1,
                                   .gpu = -1};
    if (!s->test)
        return br_error(EINVAL, "there is no test '%s'", argv[0]);
    rc = perf_settings_parse(s, &texts, argc, argv);
    return rc ? rc : check_texts(s, &texts);
}

int br_perf_settings_complete(struct br_perf_settings *s)
{
    int rc;

    if ((rc = check_test(s)) || (rc = check_time(s)) || (rc = perf_settings_check_backend(s)) ||
        (rc = check_gpu(s)) || (rc = name_ports(s)) || (rc = check_output(s)))
        return rc;
    return fill_in(s);
}

int br_perf_settings_parse(struct br_perf_settings *s, int argc, char **argv)
{
    int rc = br_perf_settings_read(s, argc, argv);

    return rc ? rc : br_perf_settings_complete(s);
}

int64_t br_perf_first_size(const struct br_perf_settings *s)
{
    return s->all ? BR_PERF_ALL_MIN : s->size;
}

int64_t br_perf_next_size(const struct br_perf_settings *s, int64_t bytes)
{
    return s->all && bytes < BR_PERF_ALL_MAX ? 2 * bytes : 0;
}
