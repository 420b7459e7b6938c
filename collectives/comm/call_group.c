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
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/engine/operation.h"

#define AT_ONCE 64u /* operations of one lock turn */
#define FEW     64u /* calls of a group for which no memory is allocated */

_Thread_local __attribute__((tls_model("initial-exec"))) int br_call_group_depth;

struct recorded {
    struct braid_op *handle;
    bool waits; /* the end of the group waits for it */
};

/* few, or from malloc() until the end of the group. */
static _Thread_local struct recorded few[FEW], *calls;
static _Thread_local uint32_t n_calls, room;

static int call_group_grow(void)
{
    uint32_t more = room ? 2 * room : FEW;
    struct recorded *grown = room ? malloc(more * sizeof *grown) : few;

    if (!grown)
        return br_error(ENOMEM, "no memory for a group of %u calls", more);
    if (n_calls)
        memcpy(grown, calls, n_calls * sizeof *grown);
    if (calls != few)
        free(calls);
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
    calls[n_calls++] = (struct recorded){handle, !out && !op->done};
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
 * a message: some are gone. */
static int call_group_submit(void)
{
    struct br_operation *ops[AT_ONCE];
    uint32_t gone = 0;

    for (uint32_t i = 0, n; i < n_calls; i += n) {
        uint32_t found = 0;

        for (n = 0; i + n < n_calls && found < AT_ONCE; n++) {
            struct br_operation *op = br_operation_of(calls[i + n].handle);

            if (op && found && op->comm->context != ops[0]->comm->context)
                break;
            if (op)
                ops[found++] = op;
            gone += !op;
        }
        br_progress_submit_all(ops, found);
    }
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
    if (calls != few)
        free(calls);
    calls = NULL;
    n_calls = room = 0;
    return first ? br_error(-first, "%s", text) : 0;
}
