/* SPDX-License-Identifier: BSD-3-Clause */
/* The timeline of a job (base/trace.h, doc/trace.md), and its operations. Steps are
 * engine/fragment.c's, slices protocol/tracing.c's. */
#include "collectives/stats/tracing.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
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

/* ---- the file -------------------------------------------------------------------------------- */

/*
 * A process may have several jobs, one after the other or at once (PyTorch: one for each group), of
 * which each has its file. Those that are given the same name are numbered, so that none replaces
 * the one before; and all of a process have the rank of its first job in their names, as two
 * processes may have the same rank in their second jobs.
 */
struct name {
    struct name *next;
    unsigned forks; /* a forked child's own begin anew (base/process.h) */
    unsigned jobs;  /* that have it */
    int rank, size; /* of the first of them */
    char pattern[];
};

static struct name *names; /* under the lock of the process */

/* What a job's file is called. */
struct named {
    struct name *name;
    unsigned number; /* of the job, from 1 on */
    int rank;        /* of the process in its first job */
    char path[BR_TRACE_PATH];
};

static int name_file(const struct br_context *context, const char *pattern, struct named *named)
{
    struct name *spare = malloc(sizeof *spare + strlen(pattern) + 1), *name;
    char first[BR_TRACE_PATH];
    int rc, size;

    if (!spare)
        return br_error(ENOMEM, "no memory for the name of a timeline");
    br_process_lock();
    for (name = names; name; name = name->next)
        if (name->forks == br_process_forks && !strcmp(name->pattern, pattern))
            break;
    if (!name) {
        name = spare;
        spare = NULL;
        *name = (struct name){.next = names, .forks = br_process_forks};
        strcpy(name->pattern, pattern);
        names = name;
    }
    if (!name->jobs++) {
        name->rank = context->rank;
        name->size = context->size;
    }
    *named = (struct named){.name = name, .number = name->jobs, .rank = name->rank};
    size = name->size;
    br_process_unlock();
    free(spare);
    rc = br_trace_path(pattern, named->rank, size, named->number > 1 ? first : named->path);
    return rc || named->number == 1 ? rc : br_trace_path(first, (int)named->number, 2, named->path);
}

/* The file has not been opened. */
static void unname_file(const struct named *named)
{
    if (!named->name)
        return;
    br_process_lock();
    if (named->name->jobs == named->number)
        named->name->jobs--;
    br_process_unlock();
}

/* room: of the path, as the caller wants it. `who` begins the messages about the name. */
static int tracing_create(struct br_context *context, const char *pattern, size_t room,
                          const char *who, struct br_trace **trace)
{
    struct named named = {0};
    int rc = name_file(context, pattern, &named);

    if (!rc && strlen(named.path) >= room)
        rc = br_error(ENAMETOOLONG, "the path takes %zu bytes", strlen(named.path) + 1);
    if (rc)
        br_error_prefix(rc, "%s", who);
    else
        rc = br_trace_open(named.path, named.rank, context->settings.trace_bytes,
                           context->settings.trace_details, trace);
    if (rc)
        unname_file(&named);
    else
        strcpy(context->trace_path, named.path);
    return rc;
}

int br_tracing_open(struct br_context *context)
{
    struct br_trace *trace;
    int rc;

    if (!context->settings.trace[0])
        return 0;
    rc = tracing_create(context, context->settings.trace, BR_TRACE_PATH, "BRAID_TRACE=", &trace);
    if (!rc)
        atomic_store(&context->trace, trace);
    return rc;
}

void br_tracing_close(struct br_context *context)
{
    br_trace_close(atomic_exchange(&context->trace, NULL));
}

/* ---- the program's calls --------------------------------------------------------------------- */

/* Under trace_opening: the file is there, and `path` has its name. */
static int tracing_begin_late(struct br_context *context, const char *file, char *path,
                              size_t bytes)
{
    struct br_trace *trace;
    int rc;

    if (!atomic_load(&context->trace)) {
        rc = tracing_create(context, file, bytes, "braid_trace_start: ", &trace);
        if (rc)
            return rc;
        br_progress_lock(context);
        context->worker->config.trace = trace;
        context->late_trace = true;
        br_tracing_name(context->worker);
        atomic_store_explicit(&context->trace, trace, memory_order_release);
        br_progress_unlock(context);
    } else if (strlen(context->trace_path) >= bytes)
        return br_error(ENAMETOOLONG, "braid_trace_start: the path takes %zu bytes",
                        strlen(context->trace_path) + 1);
    strcpy(path, context->trace_path);
    return 0;
}

int braid_trace_start(struct braid_comm *comm, const char *file, char *path, size_t bytes)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_trace_start");
    struct br_context *context;

    if (rc)
        return rc;
    if (!file || !file[0] || !path)
        return br_error(EINVAL, "braid_trace_start: file or path is missing");
    context = comm->context;
    pthread_mutex_lock(&context->trace_opening);
    rc = tracing_begin_late(context, file, path, bytes);
    pthread_mutex_unlock(&context->trace_opening);
    if (rc)
        return rc;
    br_progress_lock(context);
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
    trace = atomic_load_explicit(&context->trace, memory_order_relaxed);
    if (trace && context->late_trace)
        br_trace_pause(trace, true);
    br_progress_unlock(context);
    if (trace)
        br_trace_flush(trace);
    return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

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
    op->traced = br_trace_in_detail(trace, now);
    br_trace_begin(trace, BR_TRACE_OPERATIONS, now, &op->span);
}

void br_tracing_end(struct br_trace *trace, struct br_operation *op, uint64_t now)
{
    static const struct br_trace_kind kind = {
        .category = "operation",
        .label = "algorithm",
        .args = {"order", "number", "bytes", "priority", "status"}};
    static const char *const kinds[] = {[BR_OPERATION_SEND] = "send", [BR_OPERATION_RECV] = "recv"};
    size_t bytes = op->send_bytes > op->recv_bytes ? op->send_bytes : op->recv_bytes;
    bool collective = op->kind == BR_OPERATION_COLLECTIVE;
    const char *shared = collective && !op->status ? "shm" : NULL; /* what has no schedule */
    struct br_trace_event event = {
        .kind = &kind,
        .name = op->title                      ? op->title
                : collective                   ? br_collective_name(op->collective)
                : op->kind >= BR_OPERATION_PUT ? br_onesided_name(op)
                                               : kinds[op->kind],
        .label = collective && op->algorithm_config
                     ? br_algorithm_name(op->algorithm_config->algorithm)
                     : shared,
        .args = {(int64_t)op->order, collective ? (int64_t)op->sequence : -1, (int64_t)bytes,
                 op->priority, op->status},
    };

    br_trace_end(trace, &op->span, now, &event);
}
