/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The public calls between two ranks, messages and one-sided accesses: what can end within its call
 * does, the rest becomes an operation of the engine.
 *
 * What goes before the engine is compiled once for each public call (POINT_INLINE). So a call pays
 * for the checks only that its kind needs, and its arguments stay in registers: a struct
 * br_api_point is written to memory only for the engine, which takes it by value. For a put of 8
 * bytes that saves one instruction in seven.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/process.h"
#include "base/sized.h"
#include "collectives/comm/access.h"
#include "collectives/comm/api.h"
#include "collectives/comm/call_group.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/gpu_ops.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/message.h"
#include "collectives/comm/operation_memory.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"

#define POINT_INLINE static inline __attribute__((always_inline))

POINT_INLINE int point_check(struct braid_comm *comm, const char *name,
                             const struct br_api_point *p)
{
    bool access = p->kind >= BR_OPERATION_PUT && p->kind != BR_OPERATION_FLUSH;
    int peer = access ? (p->key ? (int)p->key->rank : 0) : p->peer;
    int ranks = p->key ? comm->context->size : comm->size; /* a key is of the job */

    if (access && !p->key)
        return br_error(EINVAL, "%s: no key", name);
    if (peer < (p->learns ? BRAID_ANY_SOURCE : 0) || peer >= ranks)
        return br_error(EINVAL, "%s: peer is %d, ranks are 0 to %d", name, peer, ranks - 1);
    if (p->bytes && !p->send && !p->recv)
        return br_error(EINVAL, "%s: memory is NULL", name);
    if (p->key && (p->offset > p->key->bytes || p->bytes > p->key->bytes - p->offset))
        return br_error(EACCES, "%s: [%llu, +%zu) is not in a region of %llu bytes", name,
                        (unsigned long long)p->offset, p->bytes, (unsigned long long)p->key->bytes);
    return 0;
}

/* May a call end before it becomes an operation? Not if it has a `done`, which is called by who
 * drives, nor in a group, whose calls go together, nor with a timeline, which shows operations, nor
 * with memory of a GPU, which is the engine's. */
POINT_INLINE bool point_may_be_at_once(const struct br_context *context,
                                       const struct br_api_point *p,
                                       const struct braid_options *options)
{
    return (context->shares_host || p->kind == BR_OPERATION_SEND || p->kind == BR_OPERATION_PUT) &&
           !(options && options->done) && !br_call_group_is_open() &&
           !atomic_load_explicit(&context->trace, memory_order_relaxed) &&
           !(context->gpus && context->gpu->gpu_of(p->send ? p->send : p->recv));
}

/* *p for a function that takes it by value. It is copied field by field, and only where it is
 * needed: else gcc keeps *p itself in memory, and every call begins with clearing it. */
POINT_INLINE struct br_api_point point_written(const struct br_api_point *p)
{
    return (struct br_api_point){.kind = p->kind,
                                 .send = p->send,
                                 .recv = p->recv,
                                 .bytes = p->bytes,
                                 .peer = p->peer,
                                 .key = p->key,
                                 .offset = p->offset,
                                 .operands = {p->operands.value, p->operands.compare},
                                 .learns = p->learns,
                                 .received = p->received,
                                 .claimed = p->claimed,
                                 .notify = p->notify};
}

/* What of a message or an access the engine still has to do. */
struct point_left {
    bool only_value; /* of a put: its bytes stand */
    bool awaited;    /* a receive that has taken `number` already (message.h) */
    uint64_t number;
};

/* A handle in the pool for what has ended, as none was free elsewhere. 0 or -ENOMEM. */
__attribute__((noinline)) static int point_handle(struct braid_comm *comm, struct br_api_point p,
                                                  const struct braid_options *options,
                                                  struct braid_op **handle)
{
    *handle = br_handle_in_pool(comm, &p, options);
    if (!*handle && !p.key)
        br_message_lost(comm);
    return *handle ? 0 : -ENOMEM;
}

/* Messages all of which is known. true: the call needs no operation. *ended: it has ended. */
POINT_INLINE bool point_message(struct braid_comm *comm, const struct br_api_point *p,
                                const struct braid_options *options, struct braid_op **handle,
                                struct point_left *left, bool *ended)
{
    enum br_message_left message = BR_MESSAGE_ALL;

    if (p->kind == BR_OPERATION_SEND)
        message = br_message_send(comm, p->send, p->bytes, p->peer, options, handle);
    else if (p->kind == BR_OPERATION_RECV && !p->learns && !p->claimed)
        message =
            br_message_receive(comm, p->recv, p->bytes, p->peer, options, handle, &left->number);
    left->awaited = message == BR_MESSAGE_AWAITED;
    *ended = message == BR_MESSAGE_ENDED;
    return *ended || message == BR_MESSAGE_POSTED;
}

/* true: the access needs no operation. *ended: it has ended. */
POINT_INLINE bool point_access(struct braid_comm *comm, const struct br_api_point *p,
                               const struct braid_options *options, struct braid_op **handle,
                               struct point_left *left, bool *ended)
{
    enum br_access_left access =
        !comm->context->shares_host ? BR_ACCESS_ALL
        : p->kind == BR_OPERATION_PUT || p->kind == BR_OPERATION_GET
            ? br_access_move(comm, p->key, p->offset, p->send, p->recv, p->bytes, p->notify, handle)
            : br_access_atomic(comm, p->key, p->offset,
                               p->kind == BR_OPERATION_ADD ? BR_ATOMIC_ADD : BR_ATOMIC_SWAP,
                               p->operands, p->recv, handle);

    left->only_value = access == BR_ACCESS_VALUE;
    *ended = access == BR_ACCESS_ENDED;
    return *ended || (p->kind == BR_OPERATION_PUT && access == BR_ACCESS_ALL && handle &&
                      !p->notify && p->bytes && p->bytes <= BR_SMALL_PUT &&
                      br_access_post(comm, p->key, p->offset, p->send, p->bytes, options, handle));
}

/* What ends within its call needs no operation, nor does what is posted (posted.h). true:
 * there is none, with *rc. */
POINT_INLINE bool point_at_once(struct braid_comm *comm, const struct br_api_point *p,
                                const struct braid_options *options, struct braid_op **out,
                                struct point_left *left, int *rc)
{
    struct braid_op **handle = out && !(options && options->wait_ms) ? out : NULL;
    bool ended = true;

    if (!point_may_be_at_once(comm->context, p, options) ||
        !(p->key ? point_access(comm, p, options, handle, left, &ended)
                 : point_message(comm, p, options, handle, left, &ended)))
        return false;
    *rc = ended && handle && !*handle ? point_handle(comm, point_written(p), options, handle) : 0;
    if (ended && atomic_load_explicit(&comm->context->ends_fd, memory_order_relaxed) >= 0)
        br_completion_show_one(comm->context);
    return true;
}

void br_api_fill_point(const struct braid_comm *comm, const struct br_api_point *p,
                       const struct braid_options *options, struct br_operation *op)
{
    br_api_apply_options(comm, options, op);
    op->kind = p->kind;
    op->peer = p->key ? (int)p->key->rank : p->peer;
    op->count = p->bytes;
    op->send = p->send;
    op->recv = p->recv;
    op->send_bytes = p->send ? p->bytes : 0;
    op->recv_bytes = p->recv ? p->bytes : 0;
    op->operands = p->operands;
    if (p->notify) {
        op->notifies = true;
        op->notify = *p->notify;
    }
    op->learns = p->learns;
    op->received = p->received;
    if (p->learns && options)
        op->tag_ignore = options->tag_ignore;
    if (p->claimed) {
        op->claimed = true;
        op->claim = p->claimed->message;
        op->tag = p->claimed->tag;
    }
    if (p->key) {
        op->key = *p->key;
        op->offset = p->offset;
    }
}

__attribute__((noinline)) static int point_submit(struct braid_comm *comm, const char *name,
                                                  struct br_api_point p, struct point_left left,
                                                  const struct braid_options *options,
                                                  struct braid_op **out)
{
    BR_DISABLE_CANCELLATION;
    struct br_operation *op;
    int rc;

    if (comm->context->gpus && point_at_once(comm, &p, options, out, &left, &rc))
        return rc;
    op = br_comm_get_operation(comm);
    if (!op && left.awaited)
        br_message_lost(comm);
    if (!op)
        return -ENOMEM;
    br_api_fill_point(comm, &p, options, op);
    if (left.only_value)
        op->count = op->send_bytes = 0;
    if (left.awaited) {
        op->awaited = op->claimed = true;
        op->claim = left.number;
    }
    rc = br_comm_probe_memory(name, op);
    if (rc) {
        br_comm_put_operation(op);
        return rc;
    }
    return br_api_submit(op, out);
}

/* Cancellation is disabled from where the call goes on to the engine (base/process.h, note 5), and
 * where the driver of GPUs may be asked about memory. */
POINT_INLINE int point_go(struct braid_comm *comm, const char *name, const struct br_api_point *p,
                          const struct braid_options *options, struct braid_op **out)
{
    struct point_left left = {0};
    int rc = point_check(comm, name, p);

    if (!rc && br_api_blocks(options, out))
        rc = br_completion_may_block(name);
    if (rc || (!comm->context->gpus && point_at_once(comm, p, options, out, &left, &rc)))
        return rc;
    return point_submit(comm, name, point_written(p), left, options, out);
}

/* With options, which may have to be read into a copy. */
__attribute__((noinline)) static int point_call_with(struct braid_comm *comm, const char *name,
                                                     struct br_api_point p,
                                                     const struct braid_options *options,
                                                     struct braid_op **out)
{
    struct braid_options copy;
    int rc = br_api_check_options(name, &options, &copy);

    return rc ? rc : point_go(comm, name, &p, options, out);
}

POINT_INLINE int point_call(struct braid_comm *comm, const char *name, const struct br_api_point *p,
                            const struct braid_options *options, struct braid_op **out)
{
    int rc = br_comm_check(comm, name);

    if (out)
        *out = NULL;
    if (rc)
        return rc;
    return options ? point_call_with(comm, name, point_written(p), options, out)
                   : point_go(comm, name, p, NULL, out);
}

int braid_send(struct braid_comm *comm, const void *memory, size_t bytes, int peer,
               const struct braid_options *options, struct braid_op **op)
{
    return point_call(comm, "braid_send",
                      &(struct br_api_point){
                          .kind = BR_OPERATION_SEND, .send = memory, .bytes = bytes, .peer = peer},
                      options, op);
}

int braid_recv(struct braid_comm *comm, void *memory, size_t bytes, int peer,
               const struct braid_options *options, struct braid_op **op)
{
    return point_call(comm, "braid_recv",
                      &(struct br_api_point){
                          .kind = BR_OPERATION_RECV, .recv = memory, .bytes = bytes, .peer = peer},
                      options, op);
}

int braid_recv_any(struct braid_comm *comm, void *memory, size_t capacity, int peer,
                   const struct braid_options *options, struct braid_received *received,
                   struct braid_op **op)
{
    size_t room;
    int rc = received ? br_sized_room("braid_recv_any", "braid_received", received,
                                      sizeof *received, &room)
                      : 0;

    if (op)
        *op = NULL;
    return rc ? rc
              : point_call(comm, "braid_recv_any",
                           &(struct br_api_point){.kind = BR_OPERATION_RECV,
                                                  .recv = memory,
                                                  .bytes = capacity,
                                                  .peer = peer,
                                                  .learns = true,
                                                  .received = received},
                           options, op);
}

int braid_recv_claimed(struct braid_comm *comm, void *memory, const struct braid_received *received,
                       const struct braid_options *options, struct braid_op **op)
{
    const char *name = "braid_recv_claimed";
    struct braid_received claimed;
    int rc = received ? br_sized_read(name, "braid_received", received, sizeof claimed,
                                      sizeof claimed, &claimed)
                      : br_error(EINVAL, "%s: received is NULL", name);

    if (op)
        *op = NULL;
    return rc ? rc
              : point_call(comm, name,
                           &(struct br_api_point){.kind = BR_OPERATION_RECV,
                                                  .recv = memory,
                                                  .bytes = claimed.bytes,
                                                  .peer = claimed.peer,
                                                  .claimed = &claimed},
                           options, op);
}

POINT_INLINE int point_put(struct braid_comm *comm, const char *name, const void *memory,
                           size_t bytes, const struct braid_key *key, uint64_t offset,
                           const struct br_notify *notify, const struct braid_options *options,
                           struct braid_op **op)
{
    return point_call(comm, name,
                      &(struct br_api_point){.kind = BR_OPERATION_PUT,
                                             .send = memory,
                                             .bytes = bytes,
                                             .peer = -1,
                                             .key = key,
                                             .offset = offset,
                                             .notify = notify},
                      options, op);
}

int braid_put(struct braid_comm *comm, const void *memory, size_t bytes,
              const struct braid_key *key, uint64_t offset, const struct braid_options *options,
              struct braid_op **op)
{
    return point_put(comm, "braid_put", memory, bytes, key, offset, NULL, options, op);
}

int braid_put_notify(struct braid_comm *comm, const void *memory, size_t bytes,
                     const struct braid_key *key, uint64_t offset, uint64_t value,
                     const struct braid_options *options, struct braid_op **op)
{
    const char *name = "braid_put_notify";
    int rc = br_comm_check(comm, name);
    struct br_notify notify = {.value = value};

    if (op)
        *op = NULL;
    if (!rc && key && br_group_rank_of(comm->group, (int)key->rank) < 0)
        rc = br_error(EINVAL, "%s: rank %u of the job is no member of the communicator", name,
                      key->rank);
    if (rc)
        return rc;
    notify.group = comm->group->number;
    return point_put(comm, name, memory, bytes, key, offset, &notify, options, op);
}

int braid_put_signal(struct braid_comm *comm, const void *memory, size_t bytes,
                     const struct braid_key *key, uint64_t offset, const struct braid_key *signal,
                     uint64_t signal_offset, enum braid_signal how, uint64_t value,
                     const struct braid_options *options, struct braid_op **op)
{
    const char *name = "braid_put_signal";
    struct br_notify notify = {.value = value,
                               .offset = signal_offset,
                               .operation =
                                   how == BRAID_SIGNAL_SET ? BR_ATOMIC_SET : BR_ATOMIC_ADD};
    int rc = 0;

    if (op)
        *op = NULL;
    if (!key || !signal)
        rc = br_error(EINVAL, "%s: no key", name);
    else if (key->rank != signal->rank)
        rc = br_error(EINVAL, "%s: the bytes are for rank %u and the number is of rank %u", name,
                      key->rank, signal->rank);
    else if ((unsigned)how > BRAID_SIGNAL_SET)
        rc = br_error(EINVAL, "%s: there is no way %d to change a number", name, (int)how);
    else if (signal_offset > signal->bytes || sizeof value > signal->bytes - signal_offset)
        rc = br_error(EACCES, "%s: [%llu, +8) is not in a region of %llu bytes", name,
                      (unsigned long long)signal_offset, (unsigned long long)signal->bytes);
    else if (signal->check != key->check)
        rc = br_error(EACCES, "%s: the keys are of different jobs", name);
    if (rc)
        return rc;
    notify.region = signal->id;
    return point_put(comm, name, memory, bytes, key, offset, &notify, options, op);
}

int braid_flush(struct braid_comm *comm, int peer, const struct braid_options *options,
                struct braid_op **op)
{
    return point_call(
        comm, "braid_flush",
        &(struct br_api_point){.kind = BR_OPERATION_FLUSH, .peer = peer, .learns = true}, options,
        op);
}

int braid_get(struct braid_comm *comm, void *memory, size_t bytes, const struct braid_key *key,
              uint64_t offset, const struct braid_options *options, struct braid_op **op)
{
    return point_call(comm, "braid_get",
                      &(struct br_api_point){.kind = BR_OPERATION_GET,
                                             .recv = memory,
                                             .bytes = bytes,
                                             .peer = -1,
                                             .key = key,
                                             .offset = offset},
                      options, op);
}

int braid_fetch_add(struct braid_comm *comm, uint64_t *before, uint64_t value,
                    const struct braid_key *key, uint64_t offset,
                    const struct braid_options *options, struct braid_op **op)
{
    return point_call(comm, "braid_fetch_add",
                      &(struct br_api_point){.kind = BR_OPERATION_ADD,
                                             .recv = before,
                                             .bytes = sizeof *before,
                                             .peer = -1,
                                             .key = key,
                                             .offset = offset,
                                             .operands = {.value = value}},
                      options, op);
}

int braid_compare_swap(struct braid_comm *comm, uint64_t *before, uint64_t compare, uint64_t value,
                       const struct braid_key *key, uint64_t offset,
                       const struct braid_options *options, struct braid_op **op)
{
    return point_call(comm, "braid_compare_swap",
                      &(struct br_api_point){.kind = BR_OPERATION_SWAP,
                                             .recv = before,
                                             .bytes = sizeof *before,
                                             .peer = -1,
                                             .key = key,
                                             .offset = offset,
                                             .operands = {value, compare}},
                      options, op);
}
