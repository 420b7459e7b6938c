/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid allreduce` and its sisters: nccl-tests for braid.
 *
 * 1. As there: warm-up with the largest and the smallest size; then for each size, out of place and
 *    in place,
 * one call that is not timed, the timed calls, and calls on fresh data whose result is compared on
 * every rank.
 * 2. Timed calls follow each other without a barrier (--blocking 1 sets one); --async N keeps N
 *    under way,
 * each with buffers of its own, because two calls that write one buffer would race.
 * 3. Any rank's error ends that rank with a message on stderr; the others follow with their
 *    communicator.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/schedule/type.h"
#include "tools/common/job.h"
#include "tools/common/host.h"
#include "tools/coll/report.h"
#include "tools/coll/settings.h"
#include "tools/common/tool.h"

struct bench {
    const struct br_coll_settings *settings;
    struct braid_comm *comm;
    struct br_report *report; /* rank 0 only */
    struct braid_options options;
    char *send, *recv; /* depth buffers of `bytes` each */
    bool malloced;     /* they are ours; else they go with the communicator */
    size_t bytes;
    uint64_t checks; /* so far: each gets fresh data */
};

/* nccl-tests' names where they differ from ours. */
static const char *type_name(enum braid_type type)
{
    static const char *const names[] = {"float", "double", "half"};
    return type < sizeof names / sizeof *names ? names[type] : br_type_name(type);
}

static bool is_rank0(const struct bench *bench)
{
    return braid_rank(bench->comm) == 0;
}

/* The k-th pair of buffers for one call. */
static void coll_buffers(const struct bench *bench, const struct br_coll_call *call, bool in_place,
                         size_t k, char **send, char **recv)
{
    size_t element = br_type_size(call->data.type), rank = (size_t)braid_rank(bench->comm);
    *recv = bench->recv + k * bench->bytes;
    *send = bench->send + k * bench->bytes;
    if (in_place) {
        *send = *recv + call->shape.send_offset * rank * element;
        *recv += call->shape.recv_offset * rank * element;
    }
}

static int coll_submit(const struct bench *bench, const struct br_coll_call *call, bool in_place,
                       size_t k, struct braid_op **ops)
{
    char *send, *recv;
    coll_buffers(bench, call, in_place, k, &send, &recv);
    return br_coll_submit(bench->comm, call, send, recv, ops);
}

static int coll_repeat(const struct bench *bench, const struct br_coll_call *call, bool in_place,
                       int64_t iterations)
{
    struct braid_op *ops[64][2] = {{NULL}};
    size_t depth = (size_t)bench->settings->depth;
    int rc = 0;
    for (int64_t i = 0; i < iterations && !rc; i++) {
        size_t k = (size_t)i % depth;
        if (depth > 1)
            rc = br_coll_wait(ops[k]);
        if (!rc)
            rc = coll_submit(bench, call, in_place, k, depth > 1 ? ops[k] : NULL);
        if (!rc && bench->settings->barrier)
            rc = braid_barrier(bench->comm, NULL, NULL);
    }
    for (size_t k = 0; k < depth; k++) {
        int ended = br_coll_wait(ops[k]);
        rc = rc ? rc : ended;
    }
    return rc;
}

/* One number of all ranks, as the user wants it: --average. */
static int average_time(const struct bench *bench, double *seconds)
{
    static const enum braid_reduction reductions[] = {BRAID_SUM, BRAID_AVG, BRAID_MIN, BRAID_MAX};
    int64_t average = bench->settings->average;
    if (average == BR_AVERAGE_RANK0 && !is_rank0(bench))
        *seconds = 0;
    return braid_allreduce(bench->comm, seconds, seconds, 1, BRAID_FLOAT64, reductions[average],
                           NULL, NULL);
}

static int coll_check(struct bench *bench, struct br_coll_call call, bool in_place, int64_t *wrong)
{
    char *send, *recv;
    int64_t mine = 0;
    for (int64_t i = 0; i < bench->settings->checks; i++) {
        call.data.seed = (uint64_t)bench->settings->seed + 0x10001 * ++bench->checks;
        coll_buffers(bench, &call, in_place, 0, &send, &recv);
        if (!in_place)
            memset(recv, 0xff, call.shape.recv * br_type_size(call.data.type));
        if (call.coll->id != BR_COLL_BROADCAST || braid_rank(bench->comm) == call.root || !in_place)
            br_coll_fill(bench->comm, &call, send);
        int rc = braid_barrier(bench->comm, NULL,
                               NULL); /* nobody is late: a result that is used too early shows */
        if (!rc)
            rc = coll_submit(bench, &call, in_place, 0, NULL);
        if (rc)
            return rc;
        mine += (int64_t)br_coll_wrong(bench->comm, &call, recv);
    }
    if (mine)
        fprintf(stderr, "braid %s: rank %d: %" PRId64 " wrong elements (%s, %zu of %s, %s)\n",
                call.coll->name, braid_rank(bench->comm), mine,
                in_place ? "in place" : "out of place", call.shape.count, type_name(call.data.type),
                br_reduction_name(call.data.reduction));
    *wrong = mine;
    return braid_allreduce(bench->comm, wrong, wrong, 1, BRAID_INT64, BRAID_SUM, NULL, NULL);
}

static int coll_measure(struct bench *bench, const struct br_coll_call *call, bool in_place,
                        struct br_report_half *half)
{
    const struct br_coll_settings *s = bench->settings;
    int64_t wrong = -1;
    int rc = coll_repeat(bench, call, in_place, 1);
    if (!rc)
        rc = braid_barrier(bench->comm, NULL, NULL);
    uint64_t start = br_clock_now();
    if (!rc)
        rc = coll_repeat(bench, call, in_place, s->iterations);
    double seconds = (double)(br_clock_now() - start) / 1e9 / (double)s->iterations;
    if (!rc)
        rc = average_time(bench, &seconds);
    if (!rc && s->checks)
        rc = coll_check(bench, *call, in_place, &wrong);
    *half = (struct br_report_half){.valid = true, .us = seconds * 1e6, .wrong = (long)wrong};
    br_coll_bandwidth(call, braid_size(bench->comm), seconds, &half->algorithm, &half->bus);
    return rc;
}

static int coll_one_size(struct bench *bench, struct br_coll_call call, size_t bytes)
{
    const struct br_coll *coll = call.coll;
    size_t element = br_type_size(call.data.type);
    call.shape = br_coll_shape(coll, bytes, call.data.type, braid_size(bench->comm));
    size_t most = call.shape.send > call.shape.recv ? call.shape.send : call.shape.recv;
    struct br_report_row row = {
        .bytes = most * element,
        .count = call.shape.count,
        .type = type_name(call.data.type),
        .reduction = coll->reduces ? br_reduction_name(call.data.reduction) : "none",
        .root = coll->rooted ? call.root : -1,
    };
    int rc = coll_measure(bench, &call, false, &row.out_of_place);
    if (!rc && coll->in_place)
        rc = coll_measure(bench, &call, true, &row.in_place);
    if (!rc && bench->report) {
        row.algorithm = braid_algorithm(bench->comm, coll->name, call.shape.count, call.data.type);
        br_report_add(bench->report, &row);
    }
    return rc;
}

static int coll_warm_up(struct bench *bench, struct br_coll_call call)
{
    const struct br_coll_settings *s = bench->settings;
    int64_t sizes[2] = {s->max_bytes, s->min_bytes};
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++) {
        call.shape =
            br_coll_shape(call.coll, (size_t)sizes[i], call.data.type, braid_size(bench->comm));
        rc = coll_repeat(bench, &call, false, s->warmup);
    }
    return rc;
}

static int coll_all_sizes(struct bench *bench, const struct br_coll_call *call)
{
    const struct br_coll_settings *s = bench->settings;
    int rc = coll_warm_up(bench, *call);
    if (s->kind->id == BR_COLL_BARRIER)
        return rc ? rc : coll_one_size(bench, *call, 0);
    for (int64_t bytes = s->min_bytes; bytes <= s->max_bytes && !rc;
         bytes = s->step_factor > 1 ? bytes * s->step_factor : bytes + s->step_bytes)
        rc = coll_one_size(bench, *call, (size_t)bytes);
    return rc;
}

static int all_kinds(struct bench *bench)
{
    const struct br_coll_settings *s = bench->settings;
    bool all_roots = s->kind->rooted && s->root < 0;
    bool scans = s->kind->id == BR_COLL_SCAN || s->kind->id == BR_COLL_EXSCAN; /* no averages */
    int last = all_roots ? braid_size(bench->comm) - 1 : s->kind->rooted ? s->root : 0, rc = 0;
    bool list = s->type_count > 1 || s->reduction_count > 1; /* of those that go together */
    for (int t = 0; t < s->type_count && !rc; t++)
        for (int o = 0; o < s->reduction_count && !rc; o++)
            for (int root = all_roots ? 0 : last; root <= last && !rc; root++) {
                if (list && s->kind->reduces &&
                    (!br_type_has_reduction(s->types[t], s->reductions[o]) ||
                     (scans && s->reductions[o] == BRAID_AVG)))
                    continue;
                struct br_coll_call call = {
                    .coll = s->kind,
                    .data = {.type = s->types[t], .reduction = s->reductions[o]},
                    .root = root,
                    .options = &bench->options,
                };
                rc = coll_all_sizes(bench, &call);
            }
    return rc;
}

static int coll_get_buffers(struct bench *bench)
{
    const struct br_coll_settings *s = bench->settings;
    bench->bytes = ((size_t)s->max_bytes + 4095) & ~(size_t)4095;
    size_t total = bench->bytes * (size_t)s->depth + 4096;
    uint64_t ranks = bench->comm->context->settings.environment.local_size,
             available = br_host_memory_available();
    if (available && total > available / 2 / ranks)
        return br_error(ENOMEM,
                        "%" PRIu64
                        " ranks of this host need 2 buffers of %zu MiB each, but only %" PRIu64
                        " MiB are free: lower --maxbytes or --async",
                        ranks, total >> 20, available >> 20);
    if (!strcmp(s->memory, "alloc")) {
        bench->send = braid_alloc(bench->comm, total);
        bench->recv = bench->send ? braid_alloc(bench->comm, total) : NULL;
        return bench->recv ? 0 : -ENOMEM;
    }
    bench->malloced = true;
    bench->send = calloc(1, total);
    bench->recv = calloc(1, total);
    return bench->send && bench->recv
               ? 0
               : br_error(ENOMEM, "no memory for 2 buffers of %zu MiB", total >> 20);
}

static void put_buffers(struct bench *bench)
{
    if (bench->malloced) {
        free(bench->send);
        free(bench->recv);
    }
}

static int start_report(struct bench *bench)
{
    const struct br_coll_settings *s = bench->settings;
    int ranks = braid_size(bench->comm);
    bool barrier = s->kind->id == BR_COLL_BARRIER;
    if (!is_rank0(bench))
        return 0;
    bench->report = br_report_new(s->kind->name, s->json);
    if (!bench->report)
        return -EIO;
    printf("# nThread 1 nGpus 0 minBytes %" PRId64 " maxBytes %" PRId64 " step: %" PRId64
           "(%s) warmup iters: %" PRId64 " iters: %" PRId64 " agg iters: 1 validation: %" PRId64
           " graph: 0\n#\n",
           barrier ? 0 : s->min_bytes, barrier ? 0 : s->max_bytes,
           s->step_factor > 1 ? s->step_factor : s->step_bytes,
           s->step_factor > 1 ? "factor" : "bytes", s->warmup, s->iterations, s->checks);
    printf("# braid %s %s, %d rank%s, back end %s, algorithm %s, memory %s, seed %" PRId64 "\n#\n",
           braid_version(), s->kind->name, ranks, ranks == 1 ? "" : "s",
           s->backend ? s->backend : "auto", s->algorithm ? s->algorithm : "auto", s->memory,
           s->seed);
    br_report_number(bench->report, "ranks", ranks);
    br_report_number(bench->report, "iterations", (double)s->iterations);
    br_report_number(bench->report, "async", (double)s->depth);
    br_report_number(bench->report, "priority", (double)s->priority);
    br_report_number(bench->report, "seed", (double)s->seed);
    br_report_text(bench->report, "memory", s->memory);
    if (s->backend)
        br_report_text(bench->report, "backend", s->backend);
    br_report_header();
    fflush(stdout);
    return 0;
}

static int coll_fail(const char *name, const char *text)
{
    int rank = br_job_rank();
    if (rank >= 0)
        fprintf(stderr, "braid %s: rank %d: %s\n", name, rank, text);
    else
        fprintf(stderr, "braid %s: %s\n", name, text);
    return 1;
}

/* 0: all is right; 1: something was wrong, already told; -errno with a message. All ranks return
 * alike. */
static int coll_run(struct bench *bench)
{
    const struct br_coll_settings *s = bench->settings;
    int ranks = braid_size(bench->comm);
    if (s->kind->rooted && s->root >= ranks)
        return br_error(EINVAL, "--root %d: the ranks are 0 to %d", s->root, ranks - 1);
    if (s->kind->id == BR_COLL_SENDRECV && ranks == 1)
        return br_error(EINVAL, "needs 2 ranks: start it with `braid run -n 2 -- braid sendrecv`");
    int rc = coll_get_buffers(bench);
    if (!rc)
        rc = start_report(bench);
    if (!rc)
        rc = all_kinds(bench);
    if (rc)
        return rc;
    int64_t bad = 0;
    if (bench->report) {
        br_report_rails(bench->report, bench->comm);
        bad = br_report_finish(bench->report) ? coll_fail(s->kind->name, br_error_message())
                                              : br_report_failures(bench->report);
    }
    rc = braid_allreduce(bench->comm, &bad, &bad, 1, BRAID_INT64, BRAID_SUM, NULL, NULL);
    return rc ? rc : bad != 0;
}

int br_tool_collective(int argc, char **argv)
{
    struct br_coll_settings settings;
    int rc = br_coll_settings_parse(&settings, argc, argv);
    if (rc) {
        if (rc < 0 && br_job_rank() <= 0) /* all ranks have the same arguments: one complains */
            coll_fail(argv[0], br_error_message());
        return rc < 0 ? 2 : 0;
    }
    struct braid_config config = {
        .backend = settings.backend,
        .rails = (int)settings.rails,
        .slice_bytes = (uint32_t)settings.slice_bytes,
    };
    struct bench bench = {
        .settings = &settings,
        .options = {.priority = (int32_t)settings.priority,
                    .algorithm = settings.algorithm,
                    .timeout_ms = (int)settings.timeout * 1000},
    };
    if (braid_init(&config, &bench.comm))
        return coll_fail(argv[0], braid_last_error());
    rc = coll_run(&bench);
    if (rc < 0) {
        coll_fail(argv[0], braid_last_error());
        braid_comm_abort(bench.comm, "a rank of the benchmark failed");
    }
    br_report_free(bench.report);
    int left = braid_finalize(bench.comm);
    put_buffers(&bench);
    if (left && !rc)
        return coll_fail(argv[0], braid_last_error());
    return rc != 0;
}
