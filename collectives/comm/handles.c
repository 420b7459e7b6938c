/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the program holds of operations and regions, and the calls with an operation that was
 * submitted, or made to be started.
 *
 * 1. A handle (struct braid_op *, struct braid_region *) is no address but three numbers: a serial
 *    number of 34 bits, the operation's place in the pool, the place of its context in `contexts`.
 *    So a handle that was given back, or whose job has ended, is recognised without a look at
 * memory that may be another's by now. It comes again only when the process has made exactly 2^34
 * other handles since, and the next one happens to be for the same place.
 * 2. Rejected: addresses, with a mark in the object. Its place in the pool is used again at once,
 *    and the second braid_wait() of a program would then be for an operation that it knows nothing
 *    of.
 * 3. An operation that has ended within its call (access.c) takes no place in the pool. Its handle
 *    stands in `ended_handles` of the context, where its serial number puts it, until its result is
 *    taken or its communicator finalized. Where another one still stands, it is one of the pool as
 *    all others. Only who has the context's lock makes such handles, from serial numbers that the
 *    context takes many at a time, and any thread takes one out by an exchange: so the two together
 *    cost a small access one atomic instruction.
 */
#include "collectives/comm/handles.h"

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/growing_pool.h"
#include "base/process.h"
#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"

#define BR_CONTEXT_BITS 8  /* jobs of a process at a time */
#define OPERATION_BITS  22 /* what is left are serial numbers */

/* of those of note 3; a place of the pool as well, whose handles have other serial numbers */
#define ENDED_PLACE ((1u << OPERATION_BITS) - 1)

_Static_assert(1 << OPERATION_BITS == BR_MAX_OPERATIONS, "a place for each operation");
_Static_assert(sizeof(uintptr_t) == sizeof(uint64_t), "a handle has 64 bits");

static struct br_context *_Atomic contexts[1 << BR_CONTEXT_BITS];
static _Atomic uint64_t serials;

int br_handles_open(struct br_context *context)
{
    for (uint32_t i = 0; i < 1u << BR_CONTEXT_BITS; i++) {
        struct br_context *none = NULL;

        if (atomic_compare_exchange_strong(&contexts[i], &none, context)) {
            context->index = i;
            return 0;
        }
    }
    return br_error(ENFILE,
                    "braid_init: this process is in %d jobs already; end one by braid_finalize()",
                    1 << BR_CONTEXT_BITS);
}

void br_handles_close(struct br_context *context)
{
    atomic_store(&contexts[context->index], NULL);
}

static uint64_t handle_number(const struct br_context *context, uint64_t serial, uint32_t place)
{
    return serial << (OPERATION_BITS + BR_CONTEXT_BITS) | (uint64_t)place << BR_CONTEXT_BITS |
           context->index;
}

uint64_t br_handle_new(const struct br_context *context, uint32_t place)
{
    return handle_number(context, atomic_fetch_add(&serials, 1) + 1, place);
}

struct br_context *br_handle_context(uint64_t handle)
{
    return handle ? atomic_load(&contexts[handle & ((1u << BR_CONTEXT_BITS) - 1)]) : NULL;
}

struct braid_op *br_operation_handle(struct br_operation *op)
{
    struct br_context *context = op->comm->context;
    uint64_t handle = br_handle_new(context, op->place);

    atomic_store(&op->handle, handle);
    return (struct braid_op *)(uintptr_t)handle;
}

struct br_operation *br_operation_of(struct braid_op *handle)
{
    uint64_t number = (uintptr_t)handle;
    struct br_context *context = br_handle_context(number);
    struct br_operation *op;

    if (!context)
        return NULL;
    op = br_growing_pool_at(&context->operations,
                            number >> BR_CONTEXT_BITS & ((1u << OPERATION_BITS) - 1));
    return op && atomic_load(&op->handle) == number ? op : NULL;
}

/* Where a handle stands if it is one of note 3; NULL: it is not. */
static struct br_ended_handle *ended_handle(uint64_t handle)
{
    uint64_t place = handle >> BR_CONTEXT_BITS & ((1u << OPERATION_BITS) - 1);
    struct br_context *context = place == ENDED_PLACE ? br_handle_context(handle) : NULL;
    uint64_t serial = handle >> (OPERATION_BITS + BR_CONTEXT_BITS);

    return context ? &context->ended_handles[serial % BR_ENDED_HANDLES] : NULL;
}

struct braid_op *br_handle_in_pool(struct braid_comm *comm, const struct br_api_point *point,
                                   const struct braid_options *options)
{
    struct br_operation *op = br_comm_get_operation(comm);

    if (!op)
        return NULL;
    br_api_fill_point(comm, point, options, op);
    br_progress_lock(comm->context);
    br_comm_give_order(op);
    br_progress_unlock(comm->context);
    atomic_store(&op->state, BR_OPERATION_ENDED);
    return br_operation_handle(op);
}

struct braid_op *br_handle_of_ended(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    struct br_ended_handle *ended;
    uint64_t handle;

    if (!context->ended_serials_left) {
        context->ended_serial = atomic_fetch_add(&serials, BR_ENDED_HANDLES) + 1;
        context->ended_serials_left = BR_ENDED_HANDLES;
    }
    ended = &context->ended_handles[context->ended_serial % BR_ENDED_HANDLES];
    handle = handle_number(context, context->ended_serial++, ENDED_PLACE);
    context->ended_serials_left--;
    if (atomic_load_explicit(&ended->handle, memory_order_relaxed))
        return NULL;
    atomic_store_explicit(&ended->comm, comm, memory_order_relaxed);
    atomic_store_explicit(&ended->handle, handle, memory_order_release);
    return (struct braid_op *)(uintptr_t)handle;
}

/* Others may make and take handles of other communicators meanwhile. */
int br_handles_void_ended(struct br_context *context, const struct braid_comm *comm)
{
    int n = 0;

    for (uint32_t i = 0; i < BR_ENDED_HANDLES; i++) {
        struct br_ended_handle *ended = &context->ended_handles[i];
        uint64_t handle = atomic_load(&ended->handle);

        if (handle && (!comm || atomic_load(&ended->comm) == comm) &&
            atomic_compare_exchange_strong(&ended->handle, &handle, 0))
            n++;
    }
    return n;
}

static bool is_ended_handle(uint64_t handle)
{
    const struct br_ended_handle *ended = ended_handle(handle);

    return ended && atomic_load_explicit(&ended->handle, memory_order_acquire) == handle;
}

static int not_one(const char *name)
{
    return br_error(EINVAL,
                    "%s: the operation is not there any more: it has been waited for, tested or "
                    "freed before, or its "
                    "communicator has been finalized",
                    name);
}

/* Sets *op, NULL for an ended one of note 3. Returns 0, or a negative errno with a message. */
static int handles_find(struct braid_op *handle, const char *name, struct br_operation **op)
{
    *op = handle ? br_operation_of(handle) : NULL;
    if (!handle)
        return br_error(EINVAL, "%s: no operation", name);
    return *op || is_ended_handle((uintptr_t)handle)
               ? br_comm_check(br_handle_context((uintptr_t)handle)->world, name)
               : not_one(name);
}

/* As handles_finish(), of one of note 3. */
static int handles_finish_ended(struct braid_op *handle, const char *name)
{
    uint64_t number = (uintptr_t)handle;
    struct br_ended_handle *ended = ended_handle(number);

    return ended && atomic_compare_exchange_strong(&ended->handle, &number, 0) ? 0 : not_one(name);
}

/* Takes the result of one of note 3, by calls that need to do no more: there is no cancellation
 * point here. false: the handle is another's. */
static bool handles_take_ended(struct braid_op *handle, const char *name, int *rc)
{
    uint64_t number = (uintptr_t)handle;

    if (!is_ended_handle(number))
        return false;
    *rc = br_comm_check(br_handle_context(number)->world, name);
    if (!*rc)
        *rc = handles_finish_ended(handle, name);
    return true;
}

/* As this thread may see it. */
static bool has_ended(const struct br_operation *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire) == BR_OPERATION_ENDED ||
           br_completion_is_own(op);
}

bool br_operation_has_ended(struct braid_op *handle)
{
    const struct br_operation *op = br_operation_of(handle);

    return !op || has_ended(op);
}

/* Of several threads one takes the operation, whose handle is then void unless it is persistent. */
static int handles_finish(struct br_operation *op, struct braid_op *handle, const char *name)
{
    uint64_t number = (uintptr_t)handle;

    if (!atomic_compare_exchange_strong(&op->handle, &number, op->persistent ? number : 0))
        return not_one(name);
    return br_comm_finish_operation(op);
}

int br_handle_look(struct braid_op *handle, const char *name, struct br_context **context,
                   enum br_handle_state *state)
{
    struct br_operation *op;
    int rc = handles_find(handle, name, &op);

    if (rc)
        return rc;
    *context = br_handle_context((uintptr_t)handle);
    *state = BR_HANDLE_ENDED;
    if (!op)
        return 0;
    if (atomic_load(&op->state) == BR_OPERATION_IDLE && !op->persistent)
        return br_error(EINVAL, "%s: the operation has not been started: its group is open", name);
    *state = has_ended(op)                                  ? BR_HANDLE_ENDED
             : atomic_load(&op->state) == BR_OPERATION_IDLE ? BR_HANDLE_IDLE
                                                            : BR_HANDLE_RUNS;
    return 0;
}

bool br_handle_wait(struct braid_op *handle, struct br_context *context, uint64_t most)
{
    struct br_operation *op = br_operation_of(handle);

    return !op || br_progress_wait(context, op, (uintptr_t)handle, most);
}

int br_handle_take(struct braid_op *handle, const char *name, bool *persistent)
{
    struct br_operation *op = br_operation_of(handle);

    *persistent = op && op->persistent;
    return op ? handles_finish(op, handle, name) : handles_finish_ended(handle, name);
}

static int wait_for_operation(struct braid_op *handle, int timeout_ms)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc = handles_find(handle, "braid_wait", &op);

    if (rc)
        return rc;
    if (!op)
        return handles_finish_ended(handle, "braid_wait");
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_wait: the operation has not been started");
    if (!has_ended(op)) {
        rc = br_completion_may_block("braid_wait");
        if (rc)
            return rc;
        if (!br_progress_wait(br_handle_context((uintptr_t)handle), op, (uintptr_t)handle,
                              timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * BR_MS))
            return br_error(ETIMEDOUT, "still running after %d ms", timeout_ms);
    }
    return handles_finish(op, handle, "braid_wait");
}

int braid_wait(struct braid_op *handle, int timeout_ms)
{
    int rc;

    return handles_take_ended(handle, "braid_wait", &rc) ? rc
                                                         : wait_for_operation(handle, timeout_ms);
}

int braid_test(struct braid_op *handle, int *done)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc = handles_find(handle, "braid_test", &op);

    if (rc)
        return rc;
    if (!done)
        return br_error(EINVAL, "braid_test: done is NULL");
    if (!op) {
        *done = 1;
        return handles_finish_ended(handle, "braid_test");
    }
    if (atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_test: the operation has not been started");
    br_progress_try_once(op->comm->context);
    *done = has_ended(op);
    return *done ? handles_finish(op, handle, "braid_test") : 0;
}

int braid_start(struct braid_op *handle)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc = handles_find(handle, "braid_start", &op);

    if (rc)
        return rc;
    if (!op || !op->persistent)
        return br_error(EINVAL, "braid_start: not a persistent operation");
    if (atomic_load(&op->state) != BR_OPERATION_IDLE)
        return br_error(EBUSY, "braid_start: the operation runs; wait for it first");
    br_progress_submit(op);
    return 0;
}

int braid_op_free(struct braid_op *handle)
{
    BR_DISABLE_CANCELLATION;
    uint64_t number = (uintptr_t)handle;
    struct br_context *context;
    struct br_operation *op;
    int state;
    int rc = handle ? handles_find(handle, "braid_op_free", &op) : 0;

    if (rc || !handle)
        return rc;
    if (!op)
        return handles_finish_ended(handle, "braid_op_free");
    context = op->comm->context;
    br_progress_lock(context);
    if (!atomic_compare_exchange_strong(&op->handle, &number, 0)) {
        br_progress_unlock(context);
        return not_one("braid_op_free");
    }
    state = atomic_load(&op->state);
    if (state == BR_OPERATION_IDLE || state == BR_OPERATION_ENDED)
        br_comm_release_operation(op);
    else
        op->released = true; /* br_progress_let_go() does the rest */
    br_progress_unlock(context);
    return 0;
}
