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
 *    stands in `handle_places` of the context, where its serial number puts it, until its result is
 *    taken or its communicator finalized. Where another one still stands, it is one of the pool as
 *    all others. Only who has the context's lock makes such handles, from serial numbers that the
 *    context takes many at a time, and any thread takes one out by an exchange: so the two together
 *    cost a small access one atomic instruction.
 * 4. So does the handle of a receive that waits without an operation (posted.c). If it becomes one,
 *    the handle stays where it is, and its place says which one. Who frees the place only clears
 *    the handle; the rest is written when the place is used again, as a handle that is not there
 *    any more must not look like one that has ended.
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
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/operation.h"

#define OPERATION_BITS 22 /* what is left are serial numbers */

/* of those of note 3; a place of the pool as well, whose handles have other serial numbers */
#define OTHER_PLACE ((1u << OPERATION_BITS) - 1)

/* In br_handle_place.of. */
#define PLACE_POSTED    1u
#define PLACE_OPERATION 2u

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

/* Where a handle stands if it is one of note 3; NULL: it is not, or not any more. */
static inline struct br_handle_place *place_of(uint64_t handle)
{
    uint64_t number = handle >> BR_CONTEXT_BITS & ((1u << OPERATION_BITS) - 1);
    struct br_context *context = number == OTHER_PLACE ? br_handle_context(handle) : NULL;
    uint64_t serial = handle >> (OPERATION_BITS + BR_CONTEXT_BITS);
    struct br_handle_place *place =
        context ? &context->handle_places[serial % BR_HANDLE_PLACES] : NULL;

    return place && atomic_load_explicit(&place->handle, memory_order_acquire) == handle ? place
                                                                                         : NULL;
}

static uintptr_t place_content(const struct br_handle_place *place)
{
    return atomic_load_explicit(&place->of, memory_order_acquire);
}

/* Does it stand for a call that has ended without an operation? */
static bool place_has_ended(const struct br_handle_place *place)
{
    return !(place_content(place) & (PLACE_POSTED | PLACE_OPERATION));
}

enum handle_kind {
    HANDLE_VOID,
    HANDLE_ENDED,  /* a call that has ended, without an operation (note 3) */
    HANDLE_POSTED, /* a receive that waits (note 4) */
    HANDLE_OPERATION,
};

/* *op: the operation of HANDLE_OPERATION, else NULL. */
static enum handle_kind handle_look(struct braid_op *handle, struct br_operation **op)
{
    uint64_t number = (uintptr_t)handle;
    const struct br_handle_place *place = place_of(number);
    struct br_context *context = place ? NULL : br_handle_context(number);
    uintptr_t of = place ? place_content(place) : 0;

    *op = NULL;
    if (place && !(of & PLACE_OPERATION))
        return of & PLACE_POSTED ? HANDLE_POSTED : HANDLE_ENDED;
    if (place)
        *op = (struct br_operation *)(of & ~(uintptr_t)PLACE_OPERATION);
    else if (context)
        *op = br_growing_pool_at(&context->operations,
                                 number >> BR_CONTEXT_BITS & ((1u << OPERATION_BITS) - 1));
    if (*op && atomic_load(&(*op)->handle) == number)
        return HANDLE_OPERATION;
    *op = NULL;
    return HANDLE_VOID;
}

struct br_operation *br_operation_of(struct braid_op *handle)
{
    struct br_operation *op;

    handle_look(handle, &op);
    return op;
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

static inline struct br_handle_place *place_next(struct br_context *context)
{
    struct br_handle_place *place;

    if (!context->place_serials_left) {
        context->place_serial = atomic_fetch_add(&serials, BR_HANDLE_PLACES) + 1;
        context->place_serials_left = BR_HANDLE_PLACES;
    }
    place = &context->handle_places[context->place_serial % BR_HANDLE_PLACES];
    if (!atomic_load_explicit(&place->handle, memory_order_relaxed))
        return place;
    context->place_serial++; /* the next call tries the next one */
    context->place_serials_left--;
    return NULL;
}

/* A handle in the place that place_next() has returned. */
static inline struct braid_op *place_fill(struct br_context *context, struct br_handle_place *place,
                                          uintptr_t of)
{
    uint64_t handle = handle_number(context, context->place_serial++, OTHER_PLACE);

    context->place_serials_left--;
    atomic_store_explicit(&place->of, of, memory_order_relaxed);
    atomic_store_explicit(&place->handle, handle, memory_order_release);
    return (struct braid_op *)(uintptr_t)handle;
}

struct braid_op *br_handle_of_ended(struct braid_comm *comm)
{
    struct br_handle_place *place = place_next(comm->context);

    return place ? place_fill(comm->context, place, (uintptr_t)comm) : NULL;
}

struct br_handle_place *br_handle_next_place(struct br_context *context)
{
    return place_next(context);
}

struct braid_op *br_handle_of_posted(struct braid_comm *comm, struct br_handle_place *place)
{
    return place_fill(comm->context, place, (uintptr_t)comm | PLACE_POSTED);
}

void br_handle_ended(struct br_handle_place *place, const struct braid_comm *comm)
{
    atomic_store_explicit(&place->of, (uintptr_t)comm, memory_order_release);
}

void br_handle_goes_on(struct br_handle_place *place, struct br_operation *op)
{
    op->handle_place = place;
    atomic_store(&op->handle, atomic_load_explicit(&place->handle, memory_order_relaxed));
    atomic_store_explicit(&place->of, (uintptr_t)op | PLACE_OPERATION, memory_order_release);
}

void br_handle_place_put(struct br_handle_place *place)
{
    atomic_store_explicit(&place->handle, 0, memory_order_release);
}

/* Others may make and take handles of other communicators meanwhile. */
int br_handles_void_ended(struct br_context *context, const struct braid_comm *comm)
{
    int n = 0;

    for (uint32_t i = 0; i < BR_HANDLE_PLACES; i++) {
        struct br_handle_place *place = &context->handle_places[i];
        uint64_t handle = atomic_load(&place->handle);

        if (handle && place_has_ended(place) &&
            (!comm || place_content(place) == (uintptr_t)comm) &&
            atomic_compare_exchange_strong(&place->handle, &handle, 0))
            n++;
    }
    return n;
}

static int not_one(const char *name)
{
    return br_error(EINVAL,
                    "%s: the operation is not there any more: it has been waited for, tested or "
                    "freed before, or its "
                    "communicator has been finalized",
                    name);
}

/* What a handle stands for now. Returns 0, or a negative errno with a message. */
static int handles_find(struct braid_op *handle, const char *name, enum handle_kind *kind,
                        struct br_operation **op)
{
    *kind = handle_look(handle, op);
    if (!handle)
        return br_error(EINVAL, "%s: no operation", name);
    return *kind == HANDLE_VOID ? not_one(name)
                                : br_comm_check(br_handle_context((uintptr_t)handle)->world, name);
}

/* As handles_finish(), of one of note 3 that has ended. */
static int handles_finish_ended(struct braid_op *handle, const char *name)
{
    uint64_t number = (uintptr_t)handle;
    struct br_handle_place *place = place_of(number);

    return place && place_has_ended(place) &&
                   atomic_compare_exchange_strong(&place->handle, &number, 0)
               ? 0
               : not_one(name);
}

/* Takes the result of one of note 3, by calls that need to do no more: there is no cancellation
 * point here. false: the handle is another's. */
static bool handles_take_ended(struct braid_op *handle, const char *name, int *rc)
{
    uint64_t number = (uintptr_t)handle;
    struct br_handle_place *place = place_of(number);

    if (!place || !place_has_ended(place))
        return false;
    *rc = br_comm_check(br_handle_context(number)->world, name);
    if (!*rc && !atomic_compare_exchange_strong(&place->handle, &number, 0))
        *rc = not_one(name);
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
    struct br_operation *op;
    enum handle_kind kind = handle_look(handle, &op);

    return kind == HANDLE_OPERATION ? has_ended(op) : kind != HANDLE_POSTED;
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
    enum handle_kind kind;
    struct br_operation *op;
    int rc = handles_find(handle, name, &kind, &op);

    if (rc)
        return rc;
    *context = br_handle_context((uintptr_t)handle);
    *state = kind == HANDLE_ENDED ? BR_HANDLE_ENDED : BR_HANDLE_RUNS;
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
    return br_operation_has_ended(handle) || br_progress_wait(context, handle, most);
}

int br_handle_take(struct braid_op *handle, const char *name, bool *persistent)
{
    struct br_operation *op = br_operation_of(handle);

    *persistent = op && op->persistent;
    return op ? handles_finish(op, handle, name) : handles_finish_ended(handle, name);
}

/* Apart, so that what has ended pays for none of its registers. */
__attribute__((noinline)) static int wait_for_operation(struct braid_op *handle, int timeout_ms)
{
    BR_DISABLE_CANCELLATION;
    enum handle_kind kind;
    struct br_operation *op;
    bool stays;
    int rc = handles_find(handle, "braid_wait", &kind, &op);

    if (rc)
        return rc;
    if (op && atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_wait: the operation has not been started");
    if (!br_operation_has_ended(handle)) {
        rc = br_completion_may_block("braid_wait");
        if (rc)
            return rc;
        if (!br_progress_wait(br_handle_context((uintptr_t)handle), handle,
                              timeout_ms < 0 ? UINT64_MAX : (uint64_t)timeout_ms * BR_MS))
            return br_error(ETIMEDOUT, "still running after %d ms", timeout_ms);
    }
    return br_handle_take(handle, "braid_wait", &stays);
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
    enum handle_kind kind;
    struct br_operation *op;
    bool stays;
    int rc = handles_find(handle, "braid_test", &kind, &op);

    if (rc)
        return rc;
    if (!done)
        return br_error(EINVAL, "braid_test: done is NULL");
    if (op && atomic_load(&op->state) == BR_OPERATION_IDLE)
        return br_error(EINVAL, "braid_test: the operation has not been started");
    if (kind != HANDLE_ENDED)
        br_progress_try_once(br_handle_context((uintptr_t)handle));
    *done = br_operation_has_ended(handle);
    return *done ? br_handle_take(handle, "braid_test", &stays) : 0;
}

int braid_start(struct braid_op *handle)
{
    BR_DISABLE_CANCELLATION;
    enum handle_kind kind;
    struct br_operation *op;
    int rc = handles_find(handle, "braid_start", &kind, &op);

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
    enum handle_kind kind;
    struct br_operation *op;
    int state;
    int rc = handle ? handles_find(handle, "braid_op_free", &kind, &op) : 0;

    if (rc || !handle)
        return rc;
    context = br_handle_context(number);
    if (kind == HANDLE_POSTED) {
        br_posted_settle(context, NULL);
        op = br_operation_of(handle);
    }
    if (!op)
        return handles_finish_ended(handle, "braid_op_free");
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
