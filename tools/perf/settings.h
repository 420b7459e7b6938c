/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the user asked of `braid perf`: perftest's letters with perftest's meanings and defaults,
 * and braid's own. doc/perf.md has the table.
 *
 * 1. Letters that perftest has and braid cannot serve are known too: they are refused with the
 *    reason and what to use instead, and are not in the help.
 * 2. What an option means only for some tests, or only on some back ends, is refused elsewhere,
 *    never ignored.
 */
#ifndef BR_TOOLS_PERF_SETTINGS_H
#define BR_TOOLS_PERF_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define BR_PERF_MAX_BYTES      (1ll << 30)
#define BR_PERF_MAX_DEPTH      1000 /* operations under way */
#define BR_PERF_MAX_RX_WINDOW  500  /* receives posted ahead, all rails together */
#define BR_PERF_MIN_ITERATIONS 5
#define BR_PERF_MAX_ITERATIONS 1000000000
#define BR_PERF_MAX_SECONDS    86400
#define BR_PERF_MAX_LIMIT      1000000000  /* of -w and -y */
#define BR_PERF_MAX_QUEUES     8           /* of -q: rails between the two sides */
#define BR_PERF_ALL_MIN        2           /* bytes, of --all */
#define BR_PERF_ALL_MAX        (8ll << 20) /* bytes, of --all */
#define BR_PERF_PEAK_MAX       20000       /* messages of which the peak is looked for */

enum br_perf_verb { BR_PERF_WRITE, BR_PERF_READ, BR_PERF_SEND, BR_PERF_ATOMIC };

struct br_perf_test {
    const char *name;  /* "write_bw" */
    const char *title; /* "RDMA_Write" */
    enum br_perf_verb verb;
    bool latency;
};

struct br_perf_settings {
    const struct br_perf_test *test;
    const char *server; /* its name or address; NULL: this side is it */
    const char *backend, *devices;
    const char *json; /* file; NULL: none */
    const char *hdr;  /* file of the histogram; NULL: none */
    /* "bandwidth", "message_rate", "latency": print this figure alone; NULL: the table */
    const char *output;
    int64_t port, clients;
    int64_t size, iterations;      /* bytes; messages a rail */
    int64_t duration, margin;      /* s; duration 0: iterations count */
    int64_t depth, rx_depth;       /* messages under way a rail; receives posted ahead a rail */
    int64_t post_list, moderation; /* messages posted, and completions taken, at once */
    int64_t rails;                 /* 0: one a device */
    int64_t priority;
    int64_t messages, window, rx_window; /* iterations, depth and rx_depth of all rails together */
    int64_t gid_index, service_level, traffic_class, ib_port; /* verbs alone; -1: not given */
    /* whose memory the buffers are; -1: none */
    int64_t gpu;
    char ports[256];                    /* the devices with their port, for `devices`; -i */
    char adopted[80];                   /* the client's back end, for `backend`; the server */
    double limit_bandwidth, limit_rate; /* in the unit that is printed, and Mpps; 0: none */
    bool all, bidirectional, no_peak, gbits, events, histogram, unsorted, cycles, warm_up,
        report_both, forever, cpu_util, packet_cost, validates, rdma_cm, report_per_port;
    bool swaps;  /* atomics: compare-and-swap */
    bool atomic; /* -A was given */
};

/* What of a trip there and back is the message's time: all of a read and an atomic, else half. */
double br_perf_trip_fraction(const struct br_perf_test *test);

/* May its buffers be memory of a GPU? As in perftest: not where a side looks into its memory while
 * a put arrives there, nor an atomic's value. */
static inline bool br_perf_test_on_gpu(const struct br_perf_test *test)
{
    return !test->latency || test->verb == BR_PERF_READ || test->verb == BR_PERF_SEND;
}

/* NULL: there is no such test. */
const struct br_perf_test *br_perf_test_find(const char *name);

/* argv[0] is the test's name. What was not given is -1, NULL or false. 0; 1: help or the version
 * was wanted and is printed to stdout; -EINVAL with a message. */
int br_perf_settings_read(struct br_perf_settings *asked, int argc, char **argv);

/* Checks what goes with what, and fills in the defaults. -EINVAL with a message. Afterwards
 * pointers may lead into *settings: it is not copied any more. */
int br_perf_settings_complete(struct br_perf_settings *settings);

/* Both. */
int br_perf_settings_parse(struct br_perf_settings *settings, int argc, char **argv);

/* The sizes of a run: the first, and the one after `bytes`; 0: that was the last. */
int64_t br_perf_first_size(const struct br_perf_settings *settings);
int64_t br_perf_next_size(const struct br_perf_settings *settings, int64_t bytes);

#endif
