/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/stream_peers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "gpu/driver.h"
#include "gpu/kernels.h"
#include "gpu/reduce.h"
#include "gpu/stream_op.h"

struct br_stream_peers {
    const struct br_cuda *cuda;
    struct CUctx_st *context;
    const struct br_reducer *kernels;
    int gpu;
    uint32_t n, rank;
    size_t bytes, slot_bytes;
    /* The slot of the next chunk, and for each slot the event after which no rank uses what the
     * last chunk has in it. */
    uint32_t next;
    struct br_stream_mark free[BR_STREAM_PEERS_SLOTS];
    /* The memory of each rank, and what the driver has mapped for it; 0: nothing yet. */
    br_cuda_pointer memory[BR_GPU_SOURCES], mapped[BR_GPU_SOURCES];
};

/* What is being put into a stream. */
struct task {
    struct br_stream_peers *peers;
    const struct br_stream_allreduce *allreduce;
    struct br_stream_op *op;
    struct CUstream_st *stream;
    size_t chunk; /* elements */
    uint32_t chunks;
    bool pieces; /* each rank combines a piece, and copies those of the others (note 10) */
    bool begun;  /* something may stand in the stream */
};

/* Calls of the driver that one operation makes at most: the queue of a stream has room for about
 * 1,000, and a call that finds none blocks (note 16). */
#define MOST_CALLS 256u

/* ---- memory ---------------------------------------------------------------------------------- */

int br_stream_peers_create(int gpu, struct CUctx_st *context, const struct br_reducer *kernels,
                           uint32_t n, uint32_t rank, size_t bytes, struct br_stream_peers **out)
{
    struct br_stream_peers *peers = calloc(1, sizeof *peers);
    br_cuda_result result;
    int rc;

    if (!peers)
        return br_error(ENOMEM, "no memory for all-reduces in streams");
    *peers = (struct br_stream_peers){.context = context,
                                      .kernels = kernels,
                                      .gpu = gpu,
                                      .n = n,
                                      .rank = rank,
                                      .bytes = bytes,
                                      .slot_bytes = bytes / BR_STREAM_PEERS_SLOTS};
    rc = n <= BR_GPU_SOURCES ? br_cuda_driver(&peers->cuda)
                             : br_error(EOPNOTSUPP, "%u ranks; kernels take %d", n, BR_GPU_SOURCES);
    if (!rc)
        rc = br_cuda_enter(peers->cuda, context);
    if (!rc) {
        result = peers->cuda->memory_alloc(&peers->memory[rank], bytes);
        br_cuda_leave(peers->cuda);
        if (result != BR_CUDA_SUCCESS)
            rc = br_cuda_error(peers->cuda, result, "%zu bytes of GPU %d", bytes, gpu - 1);
    }
    if (rc)
        free(peers);
    else
        *out = peers;
    return rc;
}

void br_stream_peers_destroy(struct br_stream_peers *peers, bool lost)
{
    if (!peers)
        return;
    if (!lost && !br_cuda_enter(peers->cuda, peers->context)) {
        for (uint32_t r = 0; r < peers->n; r++)
            if (peers->mapped[r])
                peers->cuda->ipc_memory_close(peers->mapped[r]);
        peers->cuda->memory_free(peers->memory[peers->rank]);
        br_cuda_leave(peers->cuda);
    }
    free(peers);
}

int br_stream_peers_note(const struct br_stream_peers *peers, struct br_ipc_note *out)
{
    return br_ipc_note(NULL, peers->gpu, (void *)(uintptr_t)peers->memory[peers->rank],
                       peers->bytes, out, NULL);
}

int br_stream_peers_map(struct br_stream_peers *peers, uint32_t of, const struct br_ipc_note *note)
{
    br_cuda_result result;
    int rc;

    if (note->offset > note->bytes || note->bytes - note->offset < peers->bytes)
        return br_error(EPROTO, "%zu bytes do not lie in an allocation of %llu bytes", peers->bytes,
                        (unsigned long long)note->bytes);
    rc = br_cuda_enter(peers->cuda, peers->context);
    if (rc)
        return rc;
    result =
        peers->cuda->ipc_memory_open(&peers->mapped[of], note->handle, BR_CUDA_IPC_PEER_ACCESS);
    br_cuda_leave(peers->cuda);
    if (result != BR_CUDA_SUCCESS) {
        peers->mapped[of] = 0;
        return br_cuda_error(peers->cuda, result, "memory of another process on GPU %d",
                             peers->gpu - 1);
    }
    peers->memory[of] = peers->mapped[of] + note->offset;
    return 0;
}

int br_stream_peers_gpu(const struct br_stream_peers *peers)
{
    return peers->gpu;
}

/* ---- what stands in the stream --------------------------------------------------------------- */

/* The first element of a rank's piece, of `count` elements. */
static size_t piece_at(const struct task *task, size_t count, uint32_t rank)
{
    return count / task->peers->n * rank + count % task->peers->n * rank / task->peers->n;
}

static size_t chunk_count(const struct task *task, uint32_t chunk)
{
    size_t left = task->allreduce->count - chunk * task->chunk;

    return left < task->chunk ? left : task->chunk;
}

static uint32_t slot_of(const struct task *task, uint32_t chunk)
{
    return (task->peers->next + chunk) % BR_STREAM_PEERS_SLOTS;
}

/* A rank's values of a chunk, in its slot, from an element on. */
static br_cuda_pointer in_slot(const struct task *task, uint32_t rank, uint32_t chunk, size_t from)
{
    return task->peers->memory[rank] + slot_of(task, chunk) * task->peers->slot_bytes +
           from * task->allreduce->size;
}

static br_cuda_pointer in_result(const struct task *task, uint32_t chunk, size_t from)
{
    return (uintptr_t)task->allreduce->recv + (chunk * task->chunk + from) * task->allreduce->size;
}

static int put_copy(const struct task *task, br_cuda_pointer to, br_cuda_pointer from, size_t count)
{
    const struct br_cuda *cuda = task->peers->cuda;
    br_cuda_result result = BR_CUDA_SUCCESS;

    if (count)
        result = cuda->copy_async(to, from, count * task->allreduce->size, task->stream);
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(cuda, result, "a copy of an all-reduce in the stream");
}

/* A chunk of the input goes to its slot, when that is free. */
static int put_input(struct task *task, uint32_t chunk)
{
    struct br_stream_mark *free = &task->peers->free[slot_of(task, chunk)];
    br_cuda_pointer input =
        (uintptr_t)task->allreduce->send + (uintptr_t)chunk * task->chunk * task->allreduce->size;
    int rc = 0;

    if (free->op && free->op != task->op) /* else the stream has waited for it (note 9) */
        rc = br_stream_op_put_wait_for(free, task->stream);
    *free = br_stream_op_mark(task->op, chunk + (task->pieces ? 3 : 2));
    return rc ? rc
              : put_copy(task, in_slot(task, task->peers->rank, chunk, 0), input,
                         chunk_count(task, chunk));
}

/* A kernel combines what all ranks have of a chunk: all of it into the result, or this rank's piece
 * into its slot. */
static int put_combine(const struct task *task, uint32_t chunk)
{
    const struct br_stream_peers *peers = task->peers;
    const struct br_stream_allreduce *allreduce = task->allreduce;
    size_t count = chunk_count(task, chunk);
    size_t from = task->pieces ? piece_at(task, count, peers->rank) : 0;
    size_t to = task->pieces ? piece_at(task, count, peers->rank + 1) : count;
    struct br_gpu_reduction arrays = {.bytes = (to - from) * allreduce->size,
                                      .n_src = (int32_t)peers->n,
                                      .divisor = (int32_t)peers->n};

    for (uint32_t r = 0; r < peers->n; r++)
        arrays.src[r] = (const char *)(uintptr_t)in_slot(task, r, chunk, from);
    arrays.dst = (char *)(uintptr_t)(task->pieces ? in_slot(task, peers->rank, chunk, from)
                                                  : in_result(task, chunk, from));
    return br_reducer_submit(peers->kernels, task->stream, allreduce->type, allreduce->reduction,
                             &arrays);
}

/* The pieces of a chunk go from their ranks' slots to the result. */
static int put_fetch(const struct task *task, uint32_t chunk)
{
    const struct br_stream_peers *peers = task->peers;
    size_t count = chunk_count(task, chunk);
    int rc = 0;

    for (uint32_t i = 0; i < peers->n && !rc; i++) { /* not all from the same one first */
        uint32_t r = (peers->rank + i) % peers->n;
        size_t from = piece_at(task, count, r), to = piece_at(task, count, r + 1);

        rc = put_copy(task, in_result(task, chunk, from), in_slot(task, r, chunk, from), to - from);
    }
    return rc;
}

/* Note 9. */
static int put_all(struct br_stream_op *op, void *stream, void *context)
{
    struct task *task = context;
    uint32_t steps = br_stream_op_events(op);
    int rc = 0;

    task->begun = true;
    task->op = op;
    task->stream = stream;
    for (uint32_t step = 0; step < steps && !rc; step++) {
        if (step < task->chunks)
            rc = put_input(task, step);
        if (!rc && step)
            rc = br_stream_op_put_wait(op, stream, step);
        if (!rc && step && step <= task->chunks)
            rc = put_combine(task, step - 1);
        if (!rc && step > 1 && task->pieces)
            rc = put_fetch(task, step - 2);
        if (!rc)
            rc = br_stream_op_put_event(op, stream);
    }
    task->peers->next += task->chunks;
    return rc;
}

static bool in_pieces(const struct br_stream_peers *peers,
                      const struct br_stream_allreduce *allreduce)
{
    return peers->n > 2 && allreduce->count * allreduce->size > BR_STREAM_PEERS_WHOLE_BYTES;
}

bool br_stream_peers_fits(const struct br_stream_peers *peers,
                          const struct br_stream_allreduce *allreduce)
{
    size_t chunk = peers->slot_bytes / allreduce->size;
    /* input and the wait for its slot, wait, kernel, event, and the pieces of all ranks */
    size_t of_chunk = 5 + (in_pieces(peers, allreduce) ? peers->n : 0);

    return ((allreduce->count + chunk - 1) / chunk + 2) * of_chunk <= MOST_CALLS;
}

size_t br_stream_peers_read(const struct br_stream_peers *peers,
                            const struct br_stream_allreduce *allreduce)
{
    size_t bytes = allreduce->count * allreduce->size, others = (peers->n - 1) * bytes;

    return in_pieces(peers, allreduce) ? 2 * others / peers->n : others;
}

int br_stream_peers_begin(struct br_stream_peers *peers, struct br_stream_ops *ops, void *stream,
                          const struct br_stream_allreduce *allreduce, struct br_stream_op **out,
                          bool *broken)
{
    struct task task = {.peers = peers,
                        .allreduce = allreduce,
                        .chunk = peers->slot_bytes / allreduce->size,
                        .pieces = in_pieces(peers, allreduce)};
    struct br_stream_op_plan plan = {
        .stream = stream, .put = put_all, .context = &task, .owner = peers->context};
    int rc;

    task.chunks = (uint32_t)((allreduce->count + task.chunk - 1) / task.chunk);
    plan.events = task.chunks + (task.pieces ? 2 : 1);
    rc = br_stream_op_begin(ops, &plan, out);
    *broken = rc && task.begun;
    return rc;
}
