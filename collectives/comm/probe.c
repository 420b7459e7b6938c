/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_probe(), braid_claim() and braid_notification(): they look at what has arrived, under the
 * lock, and wait for an event in between. */
#include <errno.h>
#include <string.h>

#include <braid/braid.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "protocol/worker.h"

static int probe_check(struct braid_comm *comm, const char *name, int peer,
                       const struct braid_options *given, int *found,
                       struct braid_received *received, struct braid_options *options, size_t *room)
{
    int rc = br_comm_check(comm, name);

    if (!rc && (!found || !received))
        rc = br_error(EINVAL, "%s: nowhere to store what is found", name);
    if (!rc)
        rc = br_sized_room(name, "braid_received", received, sizeof *received, room);
    if (!rc)
        rc = br_sized_read(name, "braid_options", given, sizeof *options, sizeof *options, options);
    if (!rc && (peer < BRAID_ANY_SOURCE || peer >= comm->size))
        rc = br_error(EINVAL, "%s: peer is %d, ranks are 0 to %d", name, peer, comm->size - 1);
    return rc;
}

/* As br_engine_probe(), after one pass. */
static int probe_once(struct braid_comm *comm, int peer, const struct braid_options *options,
                      bool claim, struct braid_received *received)
{
    struct br_context *context = comm->context;
    int rc;

    br_progress_lock(context);
    br_progress_once(context, br_comm_now(comm));
    br_completion_tell(context, false);
    rc = br_engine_probe(context->engine, comm->group, peer, options->tag, options->tag_ignore,
                         claim, received);
    br_progress_unlock(context);
    return rc;
}

static int probe(struct braid_comm *comm, const char *name, int peer,
                 const struct braid_options *given, int timeout_ms, int *found,
                 struct braid_received *out, bool claim)
{
    BR_DISABLE_CANCELLATION;
    struct braid_received received = {0};
    struct br_context *context;
    struct braid_options options;
    uint64_t until = UINT64_MAX, now, seen;
    size_t room;
    int rc = probe_check(comm, name, peer, given, found, out, &options, &room);

    if (!rc && timeout_ms)
        rc = br_completion_may_block(name);
    if (rc)
        return rc;
    context = comm->context;
    now = br_comm_now(comm);
    if (timeout_ms >= 0)
        until = now + (uint64_t)timeout_ms * BR_MS;
    atomic_fetch_add(&context->probes, 1);
    do {
        seen = br_progress_event_count(context);
        rc = probe_once(comm, peer, &options, claim, &received);
        now = br_comm_now(comm);
        if (!rc && now < until)
            br_progress_wait_event(context, seen, until - now);
    } while (!rc && now < until);
    atomic_fetch_sub(&context->probes, 1);
    if (rc < 0)
        return br_error_prefix(rc, "%s: ", name);
    *found = rc;
    if (rc)
        br_sized_write(out, room, &received, sizeof received);
    return 0;
}

int braid_probe(struct braid_comm *comm, int peer, const struct braid_options *options,
                int timeout_ms, int *found, struct braid_received *received)
{
    return probe(comm, "braid_probe", peer, options, timeout_ms, found, received, false);
}

int braid_claim(struct braid_comm *comm, int peer, const struct braid_options *options,
                int timeout_ms, int *found, struct braid_received *received)
{
    return probe(comm, "braid_claim", peer, options, timeout_ms, found, received, true);
}

/* 1, 0, or a negative errno with a message: what has ended the communicator. */
static int take_notification(struct braid_comm *comm, struct braid_notification *taken)
{
    struct br_context *context = comm->context;
    const struct br_worker *w = context->worker;
    int rc;

    br_progress_lock(context);
    br_progress_once(context, br_comm_now(comm));
    br_completion_tell(context, false);
    rc = br_engine_notified(context->engine, comm->group, taken);
    if (!rc && w->failed)
        rc = br_error(-w->failed, "braid_notification: %s", w->message);
    br_progress_unlock(context);
    return rc;
}

int braid_notification(struct braid_comm *comm, int timeout_ms, int *found,
                       struct braid_notification *notification)
{
    BR_DISABLE_CANCELLATION;
    const char *name = "braid_notification";
    struct braid_notification taken = {0};
    uint64_t until, seen, now;
    size_t room;
    int rc = br_comm_check(comm, name);

    if (!rc && (!found || !notification))
        rc = br_error(EINVAL, "%s: nowhere to store what is found", name);
    if (!rc)
        rc = br_sized_room(name, "braid_notification", notification, sizeof taken, &room);
    if (!rc && timeout_ms)
        rc = br_completion_may_block(name);
    if (rc)
        return rc;
    now = br_comm_now(comm);
    until = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms * BR_MS;
    atomic_fetch_add(&comm->context->probes, 1);
    do {
        seen = br_progress_event_count(comm->context);
        rc = take_notification(comm, &taken);
        now = br_comm_now(comm);
        if (!rc && now < until)
            br_progress_wait_event(comm->context, seen, until - now);
    } while (!rc && now < until);
    atomic_fetch_sub(&comm->context->probes, 1);
    if (rc < 0)
        return rc;
    *found = rc;
    if (rc)
        br_sized_write(notification, room, &taken, sizeof taken);
    return 0;
}
