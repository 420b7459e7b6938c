/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for one or all of many operations, of any communicators and jobs.
 *
 * 1. While nothing ends, a turn of the progress loop costs nothing for each of the n: who waits for
 *    one of them looks at all again only when an operation of their contexts has ended (the event
 *    count, progress.h). Who waits for all waits for one after the other.
 * 2. A thread can drive and sleep in one context at a time. Where the operations are of several it
 *    takes turns of SLICE; their own progress threads go on meanwhile.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/progress.h"
#include "collectives/engine/operation.h"

#define SLICE (100 * BR_US)

/* The contexts of operations that have not ended. */
struct contexts {
    struct br_context *at[BR_MAX_CONTEXTS];
    uint64_t seen[BR_MAX_CONTEXTS]; /* their event counts */
    int n;
};

/* true: it is a new one, of whose events since now none is missed. */
static bool contexts_add(struct contexts *contexts, struct br_context *context)
{
    for (int i = 0; i < contexts->n; i++)
        if (contexts->at[i] == context)
            return false;
    contexts->seen[contexts->n] = br_progress_event_count(context);
    contexts->at[contexts->n++] = context;
    return true;
}

/* The first that has ended: *index; n: none has. The contexts of those that run. -EINVAL, -EPERM
 * with a message. */
static int find_ended(struct braid_op **ops, size_t n, const char *name, struct contexts *contexts,
                      size_t *index)
{
    struct br_context *context;
    enum br_handle_state state;
    size_t i = 0;

    *index = n;
    contexts->n = 0;
    while (i < n) {
        int rc = ops[i] ? br_handle_look(ops[i], name, &context, &state) : 0;

        if (rc)
            return br_error_prefix(rc, "entry %zu: ", i);
        if (ops[i] && state == BR_HANDLE_ENDED) {
            *index = i;
            return 0;
        }
        /* the first of a context is looked at again, as it may have ended before the count */
        if (!ops[i] || state == BR_HANDLE_IDLE || !contexts_add(contexts, context))
            i++;
    }
    return 0;
}

static int check_array(struct braid_op **ops, size_t n, const void *index, const char *name)
{
    if (n && !ops)
        return br_error(EINVAL, "%s: no array of operations", name);
    return index ? 0 : br_error(EINVAL, "%s: nowhere to store the index", name);
}

/* Takes the result of one that has ended; its entry is NULL then, unless it is persistent. */
static int take_entry(struct braid_op **op, const char *name)
{
    struct braid_op *handle = *op;
    bool stays;
    int rc = br_handle_take(handle, name, &stays);

    if (!stays)
        *op = NULL;
    return rc;
}

/* Until something ends in one of them, or `most` ns have passed. */
static void wait_for_event(const struct contexts *contexts, uint64_t most)
{
    uint64_t slice = contexts->n > 1 && most > SLICE ? SLICE : most;

    for (int i = 0; i < contexts->n; i++) {
        br_progress_wait_event(contexts->at[i], contexts->seen[i], slice);
        if (br_progress_event_count(contexts->at[i]) != contexts->seen[i])
            return;
    }
}

static uint64_t until_of(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : br_clock_now() + (uint64_t)timeout_ms * BR_MS;
}

static uint64_t left_until(uint64_t until)
{
    uint64_t now = until == UINT64_MAX ? 0 : br_clock_now();

    return until == UINT64_MAX ? UINT64_MAX : until > now ? until - now : 0;
}

int braid_wait_any(struct braid_op **ops, size_t n, size_t *index, int timeout_ms)
{
    BR_DISABLE_CANCELLATION;
    static const char name[] = "braid_wait_any";
    struct contexts contexts;
    int rc = check_array(ops, n, index, name);
    uint64_t until, left;

    if (rc)
        return rc;
    until = until_of(timeout_ms);
    for (;;) {
        rc = find_ended(ops, n, name, &contexts, index);
        if (rc || (*index == n && !contexts.n))
            return rc;
        if (*index < n)
            return take_entry(&ops[*index], name);
        rc = br_completion_may_block(name);
        if (rc)
            return rc;
        left = left_until(until);
        if (!left)
            return br_error(ETIMEDOUT, "%s: all still running after %d ms", name, timeout_ms);
        wait_for_event(&contexts, left);
    }
}

int braid_test_any(struct braid_op **ops, size_t n, size_t *index)
{
    BR_DISABLE_CANCELLATION;
    static const char name[] = "braid_test_any";
    struct contexts contexts;
    int rc = check_array(ops, n, index, name);

    if (!rc)
        rc = find_ended(ops, n, name, &contexts, index);
    if (!rc && *index == n && contexts.n) {
        for (int i = 0; i < contexts.n; i++)
            br_progress_try_once(contexts.at[i]);
        rc = find_ended(ops, n, name, &contexts, index);
    }
    return rc || *index == n ? rc : take_entry(&ops[*index], name);
}

int braid_wait_all(struct braid_op **ops, size_t n, int timeout_ms)
{
    BR_DISABLE_CANCELLATION;
    static const char name[] = "braid_wait_all";
    char first[BR_ERROR_BYTES] = "";
    struct br_context *context;
    enum br_handle_state state;
    size_t running = 0;
    uint64_t until = until_of(timeout_ms);
    int rc = check_array(ops, n, name, name), failed = 0;

    for (size_t i = 0; i < n && !rc; i++) {
        rc = ops[i] ? br_handle_look(ops[i], name, &context, &state) : 0;
        if (rc)
            rc = br_error_prefix(rc, "entry %zu: ", i);
        else if (ops[i] && state == BR_HANDLE_RUNS)
            running++;
    }
    if (!rc && running)
        rc = br_completion_may_block(name);
    running = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        int one;

        if (!ops[i] || br_handle_look(ops[i], name, &context, &state) || state == BR_HANDLE_IDLE)
            continue;
        if (state == BR_HANDLE_RUNS && /* after one that took too long only a look */
            (running || !br_handle_wait(ops[i], context, left_until(until)))) {
            running++;
            continue;
        }
        one = take_entry(&ops[i], name);
        if (!one || failed)
            continue;
        failed = one;
        snprintf(first, sizeof first, "entry %zu: %.*s", i, BR_ERROR_BYTES - 40,
                 br_error_message());
    }
    if (rc)
        return rc;
    if (failed)
        return br_error(-failed, "%s", first);
    return running ? br_error(ETIMEDOUT, "%s: %zu of %zu operations still running after %d ms",
                              name, running, n, timeout_ms)
                   : 0;
}
