/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a communicator, and what the other files ask about one. */
#include "collectives/comm/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/process.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/comm/reductions.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/shm/executor.h"
#include "collectives/tuning/calibration.h"
#include "protocol/worker.h"

#define STRINGIFY(x) #x
#define STRING(x)    STRINGIFY(x)

const char *braid_version(void)
{
    return STRING(BRAID_VERSION_MAJOR) "." STRING(BRAID_VERSION_MINOR) "." STRING(
        BRAID_VERSION_PATCH);
}

const char *braid_last_error(void)
{
    return br_error_message();
}

int br_comm_refuse(const struct braid_comm *comm, const char *name)
{
    if (!comm)
        return br_error(EINVAL, "%s: no communicator", name);
    if (!comm->group)
        return br_error(EINVAL, "%s: the communicator has been finalized", name);
    if (comm->context->forks != br_process_forks)
        return br_error(
            EPERM,
            "%s: this process is a fork of rank %d, whose communicator only that process can use; "
            "braid_init() makes one of its own here",
            name, comm->context->rank);
    return br_error(EDEADLK, "%s: the function of a reduction must not call braid", name);
}

uint32_t br_comm_slots(const struct braid_comm *comm)
{
    return comm->context->worker->slots.count;
}

uint32_t br_comm_eager_bytes(const struct braid_comm *comm)
{
    return comm->context->worker->config.eager_bytes;
}

uint64_t br_comm_now(const struct braid_comm *comm)
{
    (void)comm; /* all of them live in real time */
    return br_clock_now();
}

int braid_rank(const struct braid_comm *comm)
{
    int rc = br_comm_check(comm, "braid_rank");

    return rc ? rc : comm->rank;
}

int braid_size(const struct braid_comm *comm)
{
    int rc = br_comm_check(comm, "braid_size");

    return rc ? rc : comm->size;
}

bool br_comm_one_host(const struct br_context *context, const int *ranks, int size)
{
    for (int i = 0; i < size; i++) {
        int r = ranks ? ranks[i] : i;

        if (r != context->rank && !br_comm_maps(context, r))
            return false;
    }
    return true;
}

void br_comm_name_devices(const struct br_context *context, char text[BR_CALIBRATION_TEXT])
{
    size_t used = 0;

    text[0] = 0;
    for (int d = 0; d < context->worker->n_devices && used < BR_CALIBRATION_TEXT; d++)
        used += (size_t)snprintf(text + used, BR_CALIBRATION_TEXT - used, "%s%s:%s",
                                 used ? "," : "", context->worker->devices[d]->ops->name,
                                 context->worker->devices[d]->name);
}

int braid_comm_abort(struct braid_comm *comm, const char *reason)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_comm_abort");
    struct br_context *context;
    char text[200], name[80];

    if (rc)
        return rc;
    context = comm->context;
    snprintf(text, sizeof text, "aborted by %s: %s",
             br_group_name_rank(comm->group, comm->rank, name, sizeof name),
             reason ? reason : "no reason given");
    br_progress_lock(context);
    br_worker_fail(context->worker, ECANCELED, text);
    br_progress_once(context, br_clock_now());
    br_progress_unlock(context);
    br_progress_wake(context);
    return 0;
}

int braid_comm_error(struct braid_comm *comm)
{
    BR_DISABLE_CANCELLATION;
    int rc = br_comm_check(comm, "braid_comm_error");

    if (rc)
        return rc;
    br_progress_lock(comm->context);
    rc = comm->context->worker->failed;
    if (rc)
        br_error(-rc, "%s", comm->context->worker->message);
    br_progress_unlock(comm->context);
    return rc;
}

/* Communicators that have been finalized with their job. The program may still hold their
 * addresses, so each is kept until KEPT others have been finalized after it. */
#define KEPT 64
static struct {          /* under br_process_lock() */
    struct br_list list; /* the oldest first; by `node` */
    int n;
} retired = {.list = {&retired.list, &retired.list}};

void br_comm_retire(struct braid_comm *comm)
{
    br_process_lock();
    br_list_push_back(&retired.list, &comm->node);
    retired.n++;
    br_process_unlock();
}

static struct braid_comm *make_comm(void)
{
    struct braid_comm *comm = NULL;

    br_process_lock();
    if (retired.n > KEPT) {
        comm = br_container_of(retired.list.next, struct braid_comm, node);
        br_list_remove(&comm->node);
        retired.n--;
    }
    br_process_unlock();
    return comm ? comm : calloc(1, sizeof *comm);
}

/* The progress thread may already be running. */
static int comm_share_shm(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    /* the first one is made in braid_init() */
    uint64_t until = comm->group->number
                         ? br_clock_now() + context->settings.environment.init_timeout
                         : context->init_deadline;
    struct timespec nap = {0, 50000};
    char name[80];
    int rc;

    for (;;) {
        uint64_t now = br_clock_now();
        int n = 0;

        br_progress_lock(context);
        rc = context->worker->failed
                 ? br_error(-context->worker->failed, "%s", context->worker->message)
                 : br_shm_executor_create(comm);
        if (rc == -EAGAIN) {
            n = br_progress_once(context, now);
            br_completion_tell(context, false);
        }
        if (rc == -EAGAIN && now > until)
            rc = br_error(ETIMEDOUT, "rank %d: %s did not share its memory in time", context->rank,
                          br_group_name_rank(comm->group, 0, name, sizeof name));
        br_progress_unlock(context);
        if (rc != -EAGAIN)
            return rc;
        if (!n)
            nanosleep(&nap, NULL);
    }
}

int br_comm_create(struct br_context *context, struct br_group *group, struct braid_comm **out)
{
    struct braid_comm **place = &context->comms[group->number], *comm = *place;
    int rc;

    if (!comm)
        comm = *place = make_comm();
    if (!comm)
        return br_error(ENOMEM, "rank %d: no memory for a communicator", context->rank);
    *comm = (struct braid_comm){
        .context = context, .rank = group->rank, .size = group->size, .group = group};
    br_list_init(&comm->node);
    br_list_init(&comm->deferred);
    br_backlog_init(&comm->backlog);
    rc = comm_share_shm(comm);
    comm->executors = comm->shm ? &comm->shm->executor : &context->engine_executor;
    if (!rc)
        rc = context->gpu->add_executors(comm);
    if (!rc) {
        *out = comm;
        return 0;
    }
    br_progress_lock(context); /* a pass may be going through its executors */
    br_comm_destroy(comm);
    br_progress_unlock(context);
    return rc;
}

void br_comm_destroy(struct braid_comm *comm)
{
    comm->context->gpu->remove_executors(comm);
    br_shm_executor_destroy(comm);
    br_reductions_close(comm);
    comm->group = NULL;
}
