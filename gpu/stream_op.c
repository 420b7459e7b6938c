/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/stream_op.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gpu/driver.h"

#define LEAST_BYTES (64u << 10)

/* Shared with the GPU; a cache line each. */
struct words {
    _Alignas(64) _Atomic uint32_t ready;
    _Atomic uint32_t done, idle;
    _Atomic uint32_t probe; /* stays 0 */
};

struct br_stream_op {
    const struct br_cuda *cuda;
    struct words *words;
    /* What `ready` counted before the use that is under way or was the last one, and will have
     * counted after it; events that have been put into the stream. */
    uint32_t first, sequence, put;
    void *memory; /* of one of the blocks; NULL: has none yet */
    size_t bytes; /* of it */
};

/* Pinned host memory. Those that have become too small for their passage are kept, too (note 7). */
struct block {
    struct block *next;
    void *memory;
    struct CUctx_st *context; /* that knows it */
};

/* Passages, and their words. */
struct chunk {
    struct chunk *next;
    struct words *words;      /* [BR_STREAM_OPS_CHUNK] */
    struct CUctx_st *context; /* that they were allocated in */
    int n;                    /* passages that have been used */
    struct br_stream_op ops[BR_STREAM_OPS_CHUNK];
};

struct br_stream_ops {
    struct br_stream_op_memory source;
    const struct br_cuda *cuda;
    struct chunk *chunks; /* the last first; NULL: no stream has been seen yet */
    struct block *blocks;
    bool tried; /* a stream has taken a wait */
};

int br_stream_ops_create(const struct br_stream_op_memory *memory, struct br_stream_ops **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for passages of streams");
    (*out)->source = *memory;
    return 0;
}

static bool is_idle(const struct br_stream_op *op)
{
    return atomic_load_explicit(&op->words->idle, memory_order_acquire) == op->sequence &&
           atomic_load_explicit(&op->words->done, memory_order_acquire) == op->sequence;
}

bool br_stream_ops_idle(const struct br_stream_ops *ops)
{
    for (const struct chunk *chunk = ops->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < chunk->n; i++)
            if (!is_idle(&chunk->ops[i]))
                return false;
    return true;
}

/* words: free them, too; else a GPU may still write them. */
static void free_chunks(struct br_stream_ops *ops, bool words)
{
    struct chunk *chunk;

    while ((chunk = ops->chunks)) {
        ops->chunks = chunk->next;
        if (words && !br_cuda_enter(ops->cuda, chunk->context)) {
            ops->cuda->host_free(chunk->words);
            br_cuda_leave(ops->cuda);
        }
        free(chunk);
    }
}

void br_stream_ops_destroy(struct br_stream_ops *ops)
{
    struct block *block;
    bool idle;

    if (!ops)
        return;
    idle = br_stream_ops_idle(ops);
    while ((block = ops->blocks)) {
        ops->blocks = block->next;
        if (idle && !br_cuda_enter(ops->cuda, block->context)) {
            ops->cuda->host_unregister(block->memory);
            br_cuda_leave(ops->cuda);
        }
        free(block);
    }
    free_chunks(ops, idle);
    free(ops);
}

/* ---- the stream ------------------------------------------------------------------------------ */

static int check_driver(const struct br_cuda *cuda)
{
    if (cuda->stream_wait_32 && cuda->stream_write_32 && cuda->stream_capturing &&
        cuda->stream_context && cuda->context_device && cuda->host_device_pointer)
        return 0;
    return br_error(EOPNOTSUPP,
                    "the CUDA driver cannot let a stream wait for host memory "
                    "(cuStreamWaitValue32, CUDA 11.7): "
                    "install a later one, or synchronise the stream and give no stream");
}

static int stream_error(const struct br_cuda *cuda, br_cuda_result result)
{
    if (result == BR_CUDA_INVALID_CONTEXT)
        return br_error(
            EINVAL, "a default stream is that of the current context, and this thread has none: "
                    "cudaSetDevice() first");
    return br_cuda_error(cuda, result, "the stream");
}

static int check_capture(const struct br_cuda *cuda, struct CUstream_st *stream)
{
    unsigned int status = BR_CUDA_CAPTURE_NONE;
    br_cuda_result result = cuda->stream_capturing(stream, &status);

    if (result == BR_CUDA_CAPTURE_IMPLICIT ||
        (result == BR_CUDA_SUCCESS && status != BR_CUDA_CAPTURE_NONE))
        return br_error(EOPNOTSUPP, "the stream is being captured into a graph, and an operation "
                                    "cannot be part of one: end the "
                                    "capture before the call, and begin another behind it");
    return result == BR_CUDA_SUCCESS ? 0 : stream_error(cuda, result);
}

/* The stream's context, and the primary one of its GPU. */
static int look_at_stream(const struct br_cuda *cuda, struct CUstream_st *stream,
                          struct CUctx_st **context, struct CUctx_st **primary)
{
    br_cuda_result result = cuda->stream_context(stream, context);
    br_cuda_device device = 0;
    int rc;

    if (result != BR_CUDA_SUCCESS)
        return stream_error(cuda, result);
    rc = br_cuda_enter(cuda, *context);
    if (rc)
        return rc;
    result = cuda->context_device(&device);
    br_cuda_leave(cuda);
    return result == BR_CUDA_SUCCESS ? br_cuda_context(device, primary)
                                     : br_cuda_error(cuda, result, "the stream's GPU");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Passages without memory, and their words. *out: NULL where it fails. */
static int make_chunk(struct br_stream_ops *ops, struct CUctx_st *primary, struct chunk **out)
{
    size_t bytes = BR_STREAM_OPS_CHUNK * sizeof(struct words);
    struct chunk *chunk = calloc(1, sizeof *chunk);
    br_cuda_result result;
    void *memory = NULL;

    *out = NULL;
    if (!chunk)
        return br_error(ENOMEM, "no memory for passages of streams");
    result = ops->cuda->host_alloc(&memory, bytes, BR_CUDA_HOST_PORTABLE | BR_CUDA_HOST_MAPPED);
    if (result != BR_CUDA_SUCCESS) {
        free(chunk);
        return br_cuda_error(ops->cuda, result, "%zu bytes of pinned host memory", bytes);
    }
    memset(memory, 0, bytes);
    *chunk = (struct chunk){.next = ops->chunks, .words = memory, .context = primary};
    *out = ops->chunks = chunk;
    return 0;
}

/* Pinned, and in the list of blocks. */
static int make_block(struct br_stream_ops *ops, struct CUctx_st *primary, size_t bytes,
                      void **memory)
{
    struct block *block = malloc(sizeof *block);
    br_cuda_result result;

    if (!block)
        return br_error(ENOMEM, "no memory for passages of streams");
    block->memory = ops->source.take(ops->source.context, bytes);
    if (!block->memory) {
        free(block);
        return -ENOMEM;
    }
    result = ops->cuda->host_register(block->memory, bytes, BR_CUDA_REGISTER_PORTABLE);
    if (result != BR_CUDA_SUCCESS) {
        ops->source.give_back(ops->source.context, block->memory);
        free(block);
        return br_cuda_error(
            ops->cuda, result,
            "%zu bytes cannot be pinned for the copies of a stream; `ulimit -l unlimited` "
            "before the job may help",
            bytes);
    }
    block->context = primary;
    block->next = ops->blocks;
    ops->blocks = block;
    *memory = block->memory;
    return 0;
}

/* What it had stays in the list, as unpinning would wait (note 7); sizes double, so all that is
 * outgrown is less than what took its place. */
static int make_memory(struct br_stream_ops *ops, struct br_stream_op *op, struct CUctx_st *primary,
                       size_t bytes)
{
    size_t room = LEAST_BYTES;
    int rc;

    if (op->bytes >= bytes)
        return 0;
    if (bytes > SIZE_MAX / 2)
        return br_error(ENOMEM, "%zu bytes for the copies of a stream: so much memory there is not",
                        bytes);
    while (room < bytes)
        room *= 2;
    rc = make_block(ops, primary, room, &op->memory);
    if (!rc)
        op->bytes = room;
    return rc;
}

/* A free one: the smallest that is large enough, else the largest, which will grow; NULL: all are
 * under way. */
static struct br_stream_op *stream_op_choose(struct br_stream_ops *ops, size_t bytes)
{
    struct br_stream_op *best = NULL;

    for (struct chunk *chunk = ops->chunks; chunk; chunk = chunk->next)
        for (int i = 0; i < chunk->n; i++) {
            struct br_stream_op *one = &chunk->ops[i];
            bool better =
                !best || (best->bytes >= bytes ? one->bytes >= bytes && one->bytes < best->bytes
                                               : one->bytes > best->bytes);

            if (better && is_idle(one))
                best = one;
        }
    return best;
}

/* One that has not been used yet; NULL: *rc says why. */
static struct br_stream_op *stream_op_add(struct br_stream_ops *ops, struct CUctx_st *primary,
                                          int *rc)
{
    struct chunk *chunk = ops->chunks;
    struct br_stream_op *op;

    if (!chunk || chunk->n == BR_STREAM_OPS_CHUNK)
        *rc = make_chunk(ops, primary, &chunk);
    if (!chunk)
        return NULL;
    op = &chunk->ops[chunk->n];
    op->cuda = ops->cuda;
    op->words = &chunk->words[chunk->n++];
    return op;
}

/* One with so much memory; NULL: *rc says why. */
static struct br_stream_op *stream_op_take(struct br_stream_ops *ops, struct CUctx_st *primary,
                                           size_t bytes, int *rc)
{
    struct br_stream_op *op;

    *rc = br_cuda_enter(ops->cuda, primary);
    if (*rc)
        return NULL;
    op = stream_op_choose(ops, bytes);
    if (!op)
        op = stream_op_add(ops, primary, rc);
    if (op)
        *rc = make_memory(ops, op, primary, bytes);
    br_cuda_leave(ops->cuda);
    return *rc ? NULL : op;
}

/* ---- passages -------------------------------------------------------------------------------- */

/* From here on under the stream's context. Where the GPU finds a word. */
static br_cuda_result stream_op_find(const struct br_cuda *cuda, const _Atomic uint32_t *word,
                                     br_cuda_pointer *out)
{
    return cuda->host_device_pointer(out, (void *)(uintptr_t)word, 0);
}

/* Once, before anything hangs on it: does this driver do what check_driver() has found? */
static br_cuda_result try_waiting(struct br_stream_ops *ops, struct CUstream_st *stream)
{
    br_cuda_pointer probe;
    br_cuda_result result = ops->tried
                                ? BR_CUDA_SUCCESS
                                : stream_op_find(ops->cuda, &ops->chunks->words->probe, &probe);

    if (ops->tried || result != BR_CUDA_SUCCESS)
        return result;
    result = ops->cuda->stream_wait_32(stream, probe, 0, BR_CUDA_WAIT_GEQ);
    ops->tried = result == BR_CUDA_SUCCESS;
    return result;
}

/* The copies, and the wait between them. *taken: the stream has some of it. */
static br_cuda_result stream_op_put_copies(const struct br_cuda *cuda,
                                           const struct br_stream_op *op,
                                           const struct br_stream_op_plan *plan, bool *taken)
{
    br_cuda_pointer memory = (uintptr_t)op->memory, ready, done;
    struct CUstream_st *stream = plan->stream;
    br_cuda_result result = stream_op_find(cuda, &op->words->ready, &ready);

    if (result == BR_CUDA_SUCCESS)
        result = stream_op_find(cuda, &op->words->done, &done);
    if (result == BR_CUDA_SUCCESS && plan->send) {
        result = cuda->copy_async(memory, (uintptr_t)plan->send, plan->send_bytes, stream);
        *taken = result == BR_CUDA_SUCCESS;
    }
    if (result == BR_CUDA_SUCCESS && plan->recv && plan->recv_kept) {
        result = cuda->copy_async(memory + plan->recv_at, (uintptr_t)plan->recv, plan->recv_bytes,
                                  stream);
        *taken = *taken || result == BR_CUDA_SUCCESS;
    }
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_write_32(stream, ready, op->sequence, 0);
    *taken = *taken || result == BR_CUDA_SUCCESS;
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_wait_32(stream, done, op->sequence, BR_CUDA_WAIT_GEQ);
    if (result == BR_CUDA_SUCCESS && plan->recv)
        result = cuda->copy_async((uintptr_t)plan->recv, memory + plan->recv_at, plan->recv_bytes,
                                  stream);
    return result;
}

/* As if all events had happened. */
static void stream_op_end(const struct br_cuda *cuda, const struct br_stream_op *op, void *stream)
{
    br_cuda_pointer ready, idle;

    if (stream_op_find(cuda, &op->words->ready, &ready) == BR_CUDA_SUCCESS &&
        stream_op_find(cuda, &op->words->idle, &idle) == BR_CUDA_SUCCESS &&
        cuda->stream_write_32(stream, ready, op->sequence, 0) == BR_CUDA_SUCCESS)
        cuda->stream_write_32(stream, idle, op->sequence, 0);
}

/* 0, or a negative errno with a message. */
static int stream_op_put(const struct br_cuda *cuda, struct br_stream_op *op,
                         const struct br_stream_op_plan *plan, bool *taken)
{
    br_cuda_pointer idle;
    br_cuda_result result = stream_op_find(cuda, &op->words->idle, &idle);
    int rc;

    if (result == BR_CUDA_SUCCESS && plan->put) {
        *taken = true; /* what it has put when it fails is not known */
        rc = plan->put(op, plan->stream, plan->context);
        if (rc) { /* what it has put runs, and then the operation is idle */
            stream_op_end(cuda, op, plan->stream);
            return rc;
        }
    } else if (result == BR_CUDA_SUCCESS) {
        result = stream_op_put_copies(cuda, op, plan, taken);
    }
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_write_32(plan->stream, idle, op->sequence, 0);
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(cuda, result, "what an operation puts into the stream");
}

static int stream_op_begin(struct br_stream_ops *ops, const struct br_stream_op_plan *plan,
                           struct CUctx_st *context, struct br_stream_op *op)
{
    const struct br_cuda *cuda = ops->cuda;
    int rc = br_cuda_enter(cuda, context);
    br_cuda_result result;
    bool taken = false;

    if (rc)
        return rc;
    op->first = op->sequence;
    op->sequence += plan->put ? plan->events : 1;
    op->put = 0;
    result = try_waiting(ops, plan->stream);
    rc = result == BR_CUDA_SUCCESS ? stream_op_put(cuda, op, plan, &taken)
                                   : br_cuda_error(cuda, result, "a wait in the stream");
    br_cuda_leave(cuda);
    if (rc && taken)
        br_stream_op_release(op); /* of copies it is never idle again */
    else if (rc)
        op->sequence = op->first;
    return rc;
}

int br_stream_op_begin(struct br_stream_ops *ops, const struct br_stream_op_plan *plan,
                       struct br_stream_op **out)
{
    size_t bytes = plan->send ? plan->send_bytes : 0;
    struct CUctx_st *context = NULL, *primary = NULL;
    int rc = br_cuda_driver(&ops->cuda);

    if (plan->recv && plan->recv_at + plan->recv_bytes > bytes)
        bytes = plan->recv_at + plan->recv_bytes;
    if (!rc)
        rc = check_driver(ops->cuda);
    if (!rc)
        rc = check_capture(ops->cuda, plan->stream);
    if (!rc)
        rc = look_at_stream(ops->cuda, plan->stream, &context, &primary);
    if (!rc && plan->put && context != plan->owner)
        rc = br_error(EINVAL, "the stream is not of the GPU's primary context, or of another GPU "
                              "than the memory");
    *out = rc ? NULL : stream_op_take(ops, primary, bytes, &rc);
    return *out ? stream_op_begin(ops, plan, context, *out) : rc;
}

void *br_stream_op_memory(const struct br_stream_op *op)
{
    return op->memory;
}

bool br_stream_op_arrived(const struct br_stream_op *op)
{
    return br_stream_op_happened(op) > 0;
}

uint32_t br_stream_op_happened(const struct br_stream_op *op)
{
    return atomic_load_explicit(&op->words->ready, memory_order_acquire) - op->first;
}

uint32_t br_stream_op_events(const struct br_stream_op *op)
{
    return op->sequence - op->first;
}

void br_stream_op_let(struct br_stream_op *op, uint32_t event)
{
    atomic_store_explicit(&op->words->done, op->first + event, memory_order_release);
}

void br_stream_op_release(struct br_stream_op *op)
{
    atomic_store_explicit(&op->words->done, op->sequence, memory_order_release);
}

/* ---- for plan.put ---------------------------------------------------------------------------- */

static int put_result(const struct br_cuda *cuda, br_cuda_result result)
{
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(cuda, result, "a word that an operation's stream writes or awaits");
}

int br_stream_op_put_event(struct br_stream_op *op, void *stream)
{
    br_cuda_pointer ready;
    br_cuda_result result = stream_op_find(op->cuda, &op->words->ready, &ready);

    if (result == BR_CUDA_SUCCESS)
        result = op->cuda->stream_write_32(stream, ready, op->first + ++op->put, 0);
    return put_result(op->cuda, result);
}

int br_stream_op_put_wait(const struct br_stream_op *op, void *stream, uint32_t event)
{
    const struct br_stream_mark mark = br_stream_op_mark(op, event);

    return br_stream_op_put_wait_for(&mark, stream);
}

int br_stream_op_put_wait_for(const struct br_stream_mark *mark, void *stream)
{
    const struct br_stream_op *op = mark->op;
    br_cuda_pointer done;
    br_cuda_result result = stream_op_find(op->cuda, &op->words->done, &done);

    if (result == BR_CUDA_SUCCESS)
        result = op->cuda->stream_wait_32(stream, done, mark->value, BR_CUDA_WAIT_GEQ);
    return put_result(op->cuda, result);
}

struct br_stream_mark br_stream_op_mark(const struct br_stream_op *op, uint32_t event)
{
    return (struct br_stream_mark){op, op->first + event};
}
