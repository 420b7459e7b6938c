/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Recorded are handles, not operations: a communicator may be finalized by another thread while the
 * group is open, and takes its operations along. Handles of what is gone are recognised.
 */
#include "collectives/comm/call_group.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <braid/braid.h>

#include "base/error.h"
#include "base/process.h"
#include "base/thread.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/engine/operation.h"

#define AT_ONCE 64u /* operations of one lock turn */
#define FEW     64u /* calls of a group in memory that the thread keeps */

_Thread_local __attribute__((tls_model("initial-exec"))) int br_call_group_depth;

struct br_recorded {
    struct braid_op *handle;
    bool waits; /* the end of the group waits for it */
};

static struct br_thread_block few = {.bytes = FEW * sizeof(struct br_recorded)};

/* The thread's few, if no outer group has them, or from malloc() until the end of the group. */
static _Thread_local struct br_recorded *calls;
static _Thread_local bool few_are_taken;
static _Thread_local uint32_t n_calls, room;

static void call_group_free(void)
{
    if (!calls)
        return;
    if (calls == br_thread_block(&few))
        few_are_taken = false;
    else
        free(calls);
    calls = NULL;
}

static int call_group_grow(void)
{
    uint32_t more = room ? 2 * room : FEW;
    const bool is_few = !room && !few_are_taken;
    struct br_recorded *grown = is_few ? br_thread_block(&few) : malloc(more * sizeof *grown);

    if (!grown)
        return br_error(ENOMEM, "no memory for a group of %u calls", more);
    if (n_calls)
        memcpy(grown, calls, n_calls * sizeof *grown);
    call_group_free();
    few_are_taken = few_are_taken || is_few;
    calls = grown;
    room = more;
    return 0;
}

int br_call_group_add(struct br_operation *op, struct braid_op **out)
{
    struct braid_op *handle;
    int rc = n_calls == room ? call_group_grow() : 0;

    if (rc) {
        br_comm_put_operation(op);
        return rc;
    }
    handle = br_operation_handle(op);
    calls[n_calls++] = (struct br_recorded){handle, !out && !op->done};
    op->released = !out && op->done;
    if (out)
        *out = handle;
    return 0;
}

int br_call_group_refuse(const char *name)
{
    return br_call_group_is_open()
               ? br_error(EINVAL, "%s: not between braid_group_start() and braid_group_end()", name)
               : 0;
}

/* Submits what has been recorded, in this order; operations of one job under one lock. -EINVAL with
 * a message: some are gone; -EPERM: they are the parent's of this fork. */
static int call_group_submit(void)
{
    struct br_operation *ops[AT_ONCE];
    uint32_t gone = 0;
    int rc = 0;

    for (uint32_t i = 0, n; i < n_calls; i += n) {
        uint32_t found = 0;

        for (n = 0; i + n < n_calls && found < AT_ONCE; n++) {
            struct br_operation *op = br_operation_of(calls[i + n].handle);

            if (op && found && op->comm->context != ops[0]->comm->context)
                break;
            rc = op && !rc ? br_comm_check(op->comm, "braid_group_end") : rc;
            if (op && !rc)
                ops[found++] = op;
            gone += !op;
        }
        br_progress_submit_all(ops, found);
    }
    if (rc) /* a fork has the group of its parent */
        return rc;
    return gone ? br_error(EINVAL,
                           "braid_group_end: %u of %u operations are gone: freed, or their "
                           "communicator was finalized, before the group ended",
                           gone, n_calls)
                : 0;
}

int braid_group_start(void)
{
    br_call_group_depth++;
    return 0;
}

int braid_group_end(void)
{
    BR_DISABLE_CANCELLATION;
    char text[BR_ERROR_BYTES];
    int first;

    if (!br_call_group_is_open())
        return br_error(EINVAL, "braid_group_end: this thread has no group open");
    if (br_call_group_depth > 1) {
        br_call_group_depth--;
        return 0;
    }
    br_call_group_depth = 0;
    first = call_group_submit();
    snprintf(text, sizeof text, "%s", br_error_message());
    for (uint32_t i = 0; i < n_calls; i++) {
        int rc = calls[i].waits ? braid_wait(calls[i].handle, -1) : 0;

        if (!rc || first)
            continue;
        first = rc;
        snprintf(text, sizeof text, "%s", br_error_message());
    }
    call_group_free();
    n_calls = room = 0;
    return first ? br_error(-first, "%s", text) : 0;
}

/* ---- within a `done` ------------------------------------------------------------------------- */

void br_call_group_set_aside(struct br_call_group *group)
{
    *group = (struct br_call_group){calls, n_calls, room, br_call_group_depth};
    calls = NULL;
    n_calls = room = 0;
    br_call_group_depth = 0;
}

void br_call_group_restore(const struct br_call_group *group)
{
    if (br_call_group_is_open()) {
        br_call_group_depth = 1;
        braid_group_end();
    }
    calls = group->calls;
    n_calls = group->n;
    room = group->room;
    br_call_group_depth = group->depth;
}
