/* SPDX-License-Identifier: BSD-3-Clause */
/* BRAID_TRACE: the timeline of a job (base/trace.h, doc/trace.md), and its operations. Steps are
 * engine/fragment.c's, slices protocol/tracing.c's. */
#include "collectives/stats/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/process.h"
#include "base/trace.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/schedule.h"
#include "protocol/worker.h"

int br_tracing_open(struct br_context *context)
{
    const struct br_settings *s = &context->settings;
    char path[BR_TRACE_PATH];
    int rc;

    if (!s->trace[0])
        return 0;
    rc = br_trace_path(s->trace, context->rank, context->size, path);
    return rc ? rc
              : br_trace_open(path, context->rank, s->trace_bytes, s->trace_details,
                              &context->trace);
}

void br_tracing_close(struct br_context *context)
{
    br_trace_close(context->trace);
    context->trace = NULL;
}

/* The rank's file by a pattern, as a running job opens it. */
static int tracing_open_late(struct br_context *context, const char *pattern)
{
    char path[BR_TRACE_PATH];
    struct br_trace *trace;
    int rc = br_trace_path(pattern, context->rank, context->size, path);

    if (!rc)
        rc = br_trace_open(path, context->rank, context->settings.trace_bytes,
                           context->settings.trace_details, &trace);
    if (rc)
        return rc;
    br_progress_lock(context);
    if (!context->trace) {
        context->trace = context->worker->config.trace = trace;
        snprintf(context->settings.trace, sizeof context->settings.trace, "%s", pattern);
        br_tracing_name(context->worker);
        trace = NULL;
    }
    br_progress_unlock(context);
    br_trace_close(trace); /* another thread was faster */
    return 0;
}

int braid_trace_start(struct braid_comm *comm, const char *file, char *path, size_t bytes)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_trace_start");
    struct br_context *context;
    char own[BR_TRACE_PATH];
    bool opened;

    if (rc)
        return rc;
    if (!file || !file[0] || !path)
        return br_error(EINVAL, "braid_trace_start: file or path is missing");
    context = comm->context;
    if (strlen(file) >= sizeof context->settings.trace)
        return br_error(ENAMETOOLONG, "braid_trace_start: the name of the file is too long");
    br_progress_lock(context);
    opened = context->trace;
    br_progress_unlock(context);
    if (!opened)
        rc = tracing_open_late(context, file);
    if (!rc)
        rc = br_trace_path(context->settings.trace, context->rank, context->size, own);
    if (rc)
        return rc;
    if (strlen(own) >= bytes)
        return br_error(ENAMETOOLONG, "braid_trace_start: the path takes %zu bytes",
                        strlen(own) + 1);
    strcpy(path, own);
    br_progress_lock(context);
    context->late_trace |= !opened;
    br_trace_pause(context->trace, false);
    br_progress_unlock(context);
    return 0;
}

int braid_trace_stop(struct braid_comm *comm)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_trace_stop");
    struct br_context *context;
    struct br_trace *trace;

    if (rc)
        return rc;
    context = comm->context;
    br_progress_lock(context);
    trace = context->trace;
    if (trace && context->late_trace)
        br_trace_pause(trace, true);
    br_progress_unlock(context);
    if (trace)
        br_trace_flush(trace);
    return 0;
}

int br_tracing_rails(struct br_context *context)
{
    br_progress_lock(context);
    if (context->trace)
        br_tracing_name(context->worker);
    br_progress_unlock(context);
    return 0;
}

void br_tracing_begin(struct br_trace *trace, struct br_operation *op, uint64_t now)
{
    if (!trace)
        return;
    op->traced = br_trace_in_detail(trace, now);
    br_trace_begin(trace, BR_TRACE_OPERATIONS, now, &op->span);
}

void br_tracing_end(struct br_trace *trace, struct br_operation *op, uint64_t now)
{
    static const struct br_trace_kind kind = {
        .category = "operation",
        .label = "algorithm",
        .args = {"order", "number", "bytes", "priority", "status"}};
    static const char *const names[] = {[BR_OPERATION_SEND] = "send", [BR_OPERATION_RECV] = "recv"};
    size_t bytes = op->send_bytes > op->recv_bytes ? op->send_bytes : op->recv_bytes;
    bool collective = op->kind == BR_OPERATION_COLLECTIVE;
    struct br_trace_event event = {
        .kind = &kind,
        .name = op->title                      ? op->title
                : collective                   ? br_collective_name(op->collective)
                : op->kind >= BR_OPERATION_PUT ? br_onesided_name(op)
                                               : names[op->kind],
        .label = collective && op->algorithm_config
                     ? br_algorithm_name(op->algorithm_config->algorithm)
                     : NULL,
        .args = {(int64_t)op->order, collective ? (int64_t)op->sequence : -1, (int64_t)bytes,
                 op->priority, op->status},
    };

    br_trace_end(trace, &op->span, now, &event);
}
