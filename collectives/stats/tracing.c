/* SPDX-License-Identifier: BSD-3-Clause */
/* BRAID_TRACE: the timeline of a job (base/trace.h, doc/trace.md), and its operations. Steps are
 * engine/fragment.c's, slices protocol/tracing.c's. */
#include "collectives/stats/tracing.h"

#include "base/trace.h"
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
