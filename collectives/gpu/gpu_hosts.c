/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/gpu/gpu_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/shm/executor.h"
#include "collectives/gpu/gpu_local.h"
#include "collectives/schedule/type.h"

struct br_gpu_hosts {
    struct braid_comm *comm; /* the ranks with our number on every host */
    struct br_operation op;  /* the one that is under way, or was the last */
    int32_t vote;            /* of this host, then of all: 1 is yes */
};

/* ---- operations ------------------------------------------------------------------------------ */

static void gpu_hosts_start(struct br_gpu_hosts *hosts, struct br_operation *whole, void *memory,
                            size_t count, enum braid_type type, enum braid_reduction reduction,
                            int gpu, int32_t priority)
{
    struct br_operation *op = &hosts->op;

    memset(op, 0, offsetof(struct br_operation, message));
    op->comm = hosts->comm;
    op->group = hosts->comm->group;
    op->kind = BR_OPERATION_COLLECTIVE;
    op->collective = BR_ALLREDUCE;
    op->send = op->recv = memory;
    op->send_bytes = op->recv_bytes = count * br_type_size(type);
    op->send_gpu = op->recv_gpu = gpu;
    op->count = count;
    op->type = type;
    op->reduction = reduction;
    op->priority = priority;
    op->title = whole->title;
    op->timeout = whole->timeout;
    op->deadline = whole->deadline;
    op->order = whole->order; /* that of the program's calls, whenever it gets here */
    op->parent = whole;
    atomic_store(&op->state, BR_OPERATION_RUNNING);
    atomic_fetch_add(&op->comm->outstanding, 1);
    op->sequence = br_comm_next_sequence(hosts->comm);
    br_comm_use_memory(hosts->comm, op);
    op->completed = br_gpu_local_hosts_ended;
    br_executor_submit(hosts->comm->executors, op, hosts->comm->context->now);
}

void br_gpu_hosts_vote(struct br_gpu_hosts *hosts, struct br_operation *whole, bool yes)
{
    hosts->vote = yes;
    /* What stands behind `whole` waits for the answer, too, and may be more urgent. */
    gpu_hosts_start(hosts, whole, &hosts->vote, 1, BRAID_INT32, BRAID_MIN, 0, INT32_MAX);
}

bool br_gpu_hosts_agreed(const struct br_gpu_hosts *hosts)
{
    return hosts->vote == 1;
}

void br_gpu_hosts_reduce(struct br_gpu_hosts *hosts, struct br_operation *whole, size_t first,
                         size_t count)
{
    gpu_hosts_start(hosts, whole, (uint8_t *)whole->recv + first * br_type_size(whole->type), count,
                    whole->type, whole->reduction, whole->recv_gpu, whole->priority);
}

static bool gpu_hosts_has_ended(const struct br_gpu_hosts *hosts)
{
    return atomic_load(&hosts->op.state) == BR_OPERATION_ENDED;
}

int br_gpu_hosts_done(const struct br_gpu_hosts *hosts)
{
    if (!gpu_hosts_has_ended(hosts))
        return 0;
    return hosts->op.status ? br_error(-hosts->op.status, "%s", hosts->op.message) : 1;
}

bool br_gpu_hosts_ends(struct br_gpu_hosts *hosts, struct br_operation *whole)
{
    return hosts->op.parent == whole && !gpu_hosts_has_ended(hosts);
}

/* ---- levels ---------------------------------------------------------------------------------- */

static bool gpu_hosts_possible(const struct br_context *context)
{
    const struct br_topology *topology = &context->network.topology;

    return context->gpu_local_possible && context->settings.shm_collective_bytes &&
           topology->kind == BR_TOPOLOGY_HOSTS && topology->hosts > 1 && topology->per_host > 1 &&
           topology->per_host <= BR_SHM_COLL_RANKS;
}

static int gpu_hosts_create_one(struct br_context *context, struct braid_comm *comm)
{
    struct br_gpu_hosts *hosts = calloc(1, sizeof *hosts);

    if (!hosts)
        return br_error(ENOMEM, "rank %d: no memory for an operation between hosts", context->rank);
    hosts->comm = comm;
    atomic_store(&hosts->op.state, BR_OPERATION_ENDED);
    context->gpu_hosts = hosts;
    return 0;
}

/* Both are alike on all ranks, so all find the same. */
static bool gpu_hosts_can_start(const struct braid_comm *host)
{
    return host->shm && host->shm->guest;
}

/* Not in the report, which is of the program's calls. */
static int gpu_hosts_split(struct br_context *context, struct braid_comm **host,
                           struct braid_comm **others)
{
    int per_host = (int)context->network.topology.per_host, rc;
    struct br_algorithm_report *report = context->report;

    br_progress_lock(context);
    context->report = NULL;
    br_progress_unlock(context);
    rc = braid_comm_split(context->world, context->rank / per_host, context->rank, host);
    if (!rc)
        rc = braid_comm_split(context->world, context->rank % per_host, context->rank, others);
    br_progress_lock(context);
    context->report = report;
    context->world->operations = 0;
    br_progress_unlock(context);
    return rc;
}

int br_gpu_hosts_create(struct br_context *context)
{
    struct braid_comm *first = context->world, *host, *others;
    int rc;

    if (!gpu_hosts_possible(context))
        return 0;
    rc = gpu_hosts_split(context, &host, &others);
    if (!rc && gpu_hosts_can_start(host))
        rc = gpu_hosts_create_one(context, others);
    if (rc || !context->gpu_hosts)
        return rc;
    br_progress_lock(context);
    br_gpu_local_set_hosts(host->shm->guest, context->gpu_hosts);
    first->stream_order.next = host->shm->guest; /* the job has no shared segment of its own */
    host->group->internal = others->group->internal = true;
    br_progress_unlock(context);
    br_log_info("rank %d: all-reduces of GPU memory are combined within each of %u hosts first",
                context->rank, context->network.topology.hosts);
    return 0;
}

void br_gpu_hosts_destroy(struct br_context *context)
{
    free(context->gpu_hosts);
    context->gpu_hosts = NULL;
}
