/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid perf`: perftest's tests of a link, over every back end. */
#include "tools/common/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/output.h"
#include "tools/perf/buffer.h"
#include "tools/perf/exchange.h"
#include "tools/common/interrupt.h"
#include "tools/perf/mesh.h"
#include "tools/perf/session.h"
#include "tools/perf/settings.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static int perf_usage(FILE *out, int code)
{
    fprintf(
        out,
        "Usage: braid perf TEST [option...]           the server\n"
        "       braid perf TEST [option...] SERVER    the client\n\n"
        "  write_bw, read_bw, send_bw       bandwidth of put, get, send\n"
        "  write_lat, read_lat, send_lat    their latency\n"
        "  atomic_lat                       latency of fetch-and-add and compare-and-swap\n"
        "  mesh                             all pairs of a job, one at a time and all at once: "
        "braid run -n N "
        "-- braid perf mesh\n\n"
        "Options, columns and units are perftest's; braid perf TEST --help lists them. The server "
        "takes the\n"
        "client's options; what it is given itself must be the same.\n");
    return code;
}

static int perf_complain(const struct br_perf_settings *s)
{
    fprintf(stderr, "braid perf %s: %s\n", s->test->name, br_error_message());
    return 1;
}

static void perf_set_number(const char *variable, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    if (value >= 0)
        setenv(variable, text, 1);
}

static int perf_code_of(int rc)
{
    return rc == -EINTR ? 130 : rc != 0;
}

static int run_client(const struct br_perf_settings *s, double cycles)
{
    struct br_exchange where;

    if (br_exchange_connect(s, &where))
        return perf_complain(s);
    return perf_code_of(br_perf_session_run(s, &where, cycles));
}

static void print_waiting(const struct br_perf_settings *s)
{
    if (s->output || (s->json && !strcmp(s->json, "-")))
        return;
    printf("\n************************************\n* Waiting for client to connect... *\n"
           "************************************\n");
    fflush(stdout);
}

/* How verbs rails connect is a matter of each client; otherwise it is as the environment has it. */
static void set_connect(bool rdma_cm, const char *otherwise)
{
    if (rdma_cm)
        setenv("BRAID_VERBS_CONNECT", "cm", 1);
    else if (otherwise)
        setenv("BRAID_VERBS_CONNECT", otherwise, 1);
    else
        unsetenv("BRAID_VERBS_CONNECT");
}

/* Serves until as many clients were there as wanted. The exit code is the last client's. */
static int run_server(const struct br_perf_settings *s, double cycles)
{
    const char *variable = getenv("BRAID_VERBS_CONNECT");
    char *connect = variable ? strdup(variable) : NULL;
    int listener, code = 0;

    if (br_exchange_listen(s, &listener)) {
        free(connect);
        return perf_complain(s);
    }
    print_waiting(s);
    for (int64_t served = 0; (!s->clients || served < s->clients) && !br_interrupted();) {
        struct br_perf_settings agreed;
        struct br_exchange where;
        int rc = br_exchange_accept(listener, s, &agreed, &where);

        if (rc == -EINTR)
            continue;
        if (rc)
            perf_complain(s);
        if (rc == -EPROTO)
            continue; /* an unauthenticated peer */
        if (rc == 0)
            set_connect(agreed.rdma_cm, connect);
        code = rc ? 1 : perf_code_of(br_perf_session_run(&agreed, &where, cycles));
        if (rc == 0)
            close(where.reserved);
        served++;
        if ((!s->clients || served < s->clients) && !br_interrupted())
            print_waiting(s);
    }
    close(listener);
    free(connect);
    return br_interrupted() ? 130 : code;
}

/* Cycles of the time-stamp counter per ns, measured for 20 ms; 0: this processor has no counter
 * that braid reads. */
#if defined(__x86_64__)
static double perf_cycles_per_ns(void)
{
    uint64_t start = br_clock_now(), first = __rdtsc(), now, last;

    do {
        now = br_clock_now();
        last = __rdtsc();
    } while (now - start < 20 * BR_MS);
    return (double)(last - first) / (double)(now - start);
}
#else
static double perf_cycles_per_ns(void)
{
    return 0;
}
#endif

int br_tool_perf(int argc, char **argv)
{
    struct br_perf_settings settings, asked;
    double cycles = 0;
    int rc;

    if (argc < 2)
        return perf_usage(stderr, 2);
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return perf_usage(stdout, 0);
    if (!strcmp(argv[1], "mesh"))
        return br_perf_mesh(argc - 1, argv + 1);
    if (!br_perf_test_find(argv[1])) {
        fprintf(stderr,
                "braid perf: there is no test '%s'; there are write_bw, write_lat, read_bw, "
                "read_lat, send_bw, "
                "send_lat, atomic_lat, mesh\n",
                argv[1]);
        return 2;
    }
    rc = br_perf_settings_read(&asked, argc - 1, argv + 1);
    if (rc > 0)
        return 0;
    settings = asked;
    if (rc == 0)
        rc = br_perf_settings_complete(&settings);
    if (rc < 0) {
        perf_complain(&settings);
        return 2;
    }
    if (settings.cycles && (cycles = perf_cycles_per_ns()) <= 0) {
        fprintf(
            stderr,
            "braid perf: -C: this processor has no cycle counter that braid reads; leave it out\n");
        return 2;
    }
    if ((settings.gpu >= 0 && br_buffer_check_gpu((int)settings.gpu)) ||
        (settings.json && br_output_may_write(settings.json)) ||
        (settings.hdr && br_output_may_write(settings.hdr)))
        return perf_complain(&settings);
    if (br_exchange_check(&settings)) {
        perf_complain(&settings);
        return 2;
    }
    perf_set_number("BRAID_GID_INDEX", settings.gid_index);
    perf_set_number("BRAID_SERVICE_LEVEL", settings.service_level);
    perf_set_number("BRAID_TRAFFIC_CLASS", settings.traffic_class);
    if (!settings.server)
        return run_server(&asked, cycles);
    if (settings.rdma_cm)
        setenv("BRAID_VERBS_CONNECT", "cm", 1);
    return run_client(&settings, cycles);
}
