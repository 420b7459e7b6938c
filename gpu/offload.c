/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/offload.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/copier.h"
#include "gpu/driver.h"
#include "gpu/pointer.h"
#include "gpu/reduce.h"

#define ARENA     (16u << 20)
#define ALIGNMENT 256u
#define TRIAL     (1u << 20) /* bytes of an array */
#define LEAST     (64u << 10)
#define TRIES     3
#define PATIENCE  1000u /* ms: how long a trial may take */

struct lane {
    atomic_bool open;
    struct br_reducer *reducer;
    struct CUctx_st *context;
    br_cuda_pointer arena;    /* ARENA bytes, and TRIAL for the trial */
    uint64_t head, tail;      /* positions in the ring, which only grow: [tail, head) is taken */
    struct CUevent_st *event; /* of the trial */
    /* pinned host memory, kept: freeing it would wait (stream_op.h, note 7) */
    void *check;
    struct br_offload_cost cost;
};

struct br_offload {
    struct br_copier *copier;
    const struct br_gpu_image *image;
    const struct br_cuda *_Atomic cuda; /* who opens a GPU sets it, beside reductions on others */
    struct lane lanes[BR_GPUS];
};

/* What one reduction needs. */
struct task {
    enum braid_type type;
    enum braid_reduction reduction;
    void *dst;
    const struct br_offload_source *src;
    int n_src, divisor;
    size_t bytes;
};

int br_offload_create(struct br_copier *copier, const struct br_gpu_image *image,
                      struct br_offload **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for reductions on GPUs");
    (*out)->copier = copier;
    (*out)->image = image;
    return 0;
}

static void offload_close_lane(struct br_offload *offload, int gpu)
{
    const struct lane *lane = &offload->lanes[gpu - 1];
    bool lost = br_copier_is_lost(offload->copier, gpu); /* freeing would wait for ever */

    if (br_cuda_enter(offload->cuda, lane->context)) {
        br_reducer_abandon(lane->reducer);
        return;
    }
    if (lane->event)
        offload->cuda->event_destroy(lane->event);
    if (lane->arena && !lost)
        offload->cuda->memory_free(lane->arena);
    if (lane->check && !lost)
        offload->cuda->host_free(lane->check);
    br_cuda_leave(offload->cuda);
    if (lost)
        br_reducer_abandon(lane->reducer);
    else
        br_reducer_destroy(lane->reducer);
}

void br_offload_destroy(struct br_offload *offload)
{
    if (!offload)
        return;
    for (int gpu = 1; gpu <= BR_GPUS; gpu++)
        if (offload->lanes[gpu - 1].reducer)
            offload_close_lane(offload, gpu);
    free(offload);
}

/* ---- a reduction ----------------------------------------------------------------------------- */

static size_t offload_room(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* In one piece. false: there is none now. */
static bool offload_take(struct lane *lane, size_t bytes, br_cuda_pointer *at)
{
    uint64_t from;

    if (lane->head == lane->tail) /* empty: from the start, as all of it may be wanted */
        lane->head = lane->tail = (lane->head + ARENA - 1) / ARENA * ARENA;
    from = lane->head;
    if (from % ARENA + bytes > ARENA)
        from += ARENA - from % ARENA;
    if (from + bytes - lane->tail > ARENA)
        return false;
    *at = lane->arena + from % ARENA;
    lane->head = from + bytes;
    return true;
}

static int count_host(const struct br_offload_source *src, int n_src)
{
    int n = 0;

    for (int s = 0; s < n_src; s++)
        n += !src[s].on_gpu;
    return n;
}

static int offload_refused(const struct br_offload *offload, br_cuda_result result,
                           const struct task *task)
{
    return br_cuda_error(offload->cuda, result, "copies of %zu bytes for a reduction", task->bytes);
}

/* The sources that are in host memory go up to `next`; *arrays names where all of them are then.
 * The first that is refused ends it. *begun: one is under way. */
static br_cuda_result put_sources(const struct br_offload *offload, const struct task *task,
                                  struct CUstream_st *stream, br_cuda_pointer next,
                                  struct br_gpu_reduction *arrays, bool *begun)
{
    br_cuda_result result = BR_CUDA_SUCCESS;

    for (int s = 0; s < task->n_src && result == BR_CUDA_SUCCESS; s++) {
        arrays->src[s] = task->src[s].at;
        if (task->src[s].on_gpu)
            continue;
        result = offload->cuda->copy_async(next, (uintptr_t)task->src[s].at, task->bytes, stream);
        *begun |= result == BR_CUDA_SUCCESS;
        arrays->src[s] = (const char *)(uintptr_t)next;
        next += offload_room(task->bytes);
    }
    return result;
}

/* Puts it into the stream; the context is current. `at` is room for the sources in host memory, and
 * one at least. *begun: part of it is there, also where the rest is refused. */
static int offload_put(struct br_offload *offload, int gpu, const struct task *task,
                       br_cuda_pointer at, bool *begun)
{
    const struct lane *lane = &offload->lanes[gpu - 1];
    struct CUstream_st *stream = br_copier_reductions(offload->copier, gpu);
    struct br_gpu_reduction arrays = {.dst = (char *)(uintptr_t)at,
                                      .bytes = task->bytes,
                                      .n_src = task->n_src,
                                      .divisor = task->divisor};
    br_cuda_result result;
    int rc;

    *begun = false;
    result = put_sources(offload, task, stream, at, &arrays, begun);
    if (result != BR_CUDA_SUCCESS)
        return offload_refused(offload, result, task);
    rc = br_reducer_submit(lane->reducer, stream, task->type, task->reduction, &arrays);
    if (rc)
        return rc;
    *begun = true;
    result = offload->cuda->copy_async((uintptr_t)task->dst, at, task->bytes, stream);
    return result == BR_CUDA_SUCCESS ? 0 : offload_refused(offload, result, task);
}

static int take_and_put(struct br_offload *offload, int gpu, const struct task *task, bool *begun)
{
    int n_host = count_host(task->src, task->n_src);
    br_cuda_pointer at;

    *begun = false;
    if (!offload_take(&offload->lanes[gpu - 1],
                      (size_t)(n_host ? n_host : 1) * offload_room(task->bytes), &at))
        return -EAGAIN;
    return offload_put(offload, gpu, task, at, begun);
}

int br_offload_reduce(struct br_offload *offload, int gpu, enum braid_type type,
                      enum braid_reduction reduction, void *dst,
                      const struct br_offload_source *src, int n_src, size_t bytes, int divisor,
                      uint64_t *mark)
{
    const struct task task = {type, reduction, dst, src, n_src, divisor, bytes};
    struct lane *lane = &offload->lanes[gpu - 1];
    int rc = br_copier_enter(offload->copier, gpu);
    bool begun = false;

    if (!rc) {
        rc = take_and_put(offload, gpu, &task, &begun);
        br_cuda_leave(offload->cuda);
    }
    *mark = lane->head;
    if (!rc) {
        br_copier_count(offload->copier, BR_COPY_TO_GPU,
                        (size_t)count_host(task.src, task.n_src) * task.bytes);
        br_copier_count(offload->copier, BR_COPY_TO_HOST, task.bytes);
        br_copier_count(offload->copier, BR_COPY_REDUCTION, task.bytes);
    } else if (rc != -EAGAIN) {
        atomic_store(&lane->open, false);
        br_downgrade(gpu_reduction);
        br_log_warn("GPU %d: reductions go to the CPU from now on: %s", gpu - 1,
                    br_error_message());
    }
    return rc && begun ? 1 : rc;
}

void br_offload_end(struct br_offload *offload, int gpu, uint64_t mark)
{
    struct lane *lane = &offload->lanes[gpu - 1];

    if (mark > lane->tail)
        lane->tail = mark;
}

int br_offload_combine(struct br_offload *offload, int gpu, enum braid_type type,
                       enum braid_reduction reduction, void *dst, const void *const *src, int n_src,
                       size_t bytes, int divisor)
{
    struct br_gpu_reduction arrays = {
        .dst = dst, .bytes = bytes, .n_src = n_src, .divisor = divisor};
    int rc = br_copier_enter(offload->copier, gpu);

    if (rc)
        return rc;
    for (int s = 0; s < n_src; s++)
        arrays.src[s] = src[s];
    rc = br_reducer_submit(offload->lanes[gpu - 1].reducer,
                           br_copier_reductions(offload->copier, gpu), type, reduction, &arrays);
    br_cuda_leave(offload->cuda);
    if (!rc)
        br_copier_count(offload->copier, BR_COPY_REDUCTION, bytes);
    return rc;
}

int br_offload_fetch(struct br_offload *offload, int gpu, void *to, const void *from, size_t bytes)
{
    br_cuda_result result;
    int rc = bytes ? br_copier_enter(offload->copier, gpu) : 0;

    if (rc || !bytes)
        return rc;
    result = offload->cuda->copy_async((uintptr_t)to, (uintptr_t)from, bytes,
                                       br_copier_reductions(offload->copier, gpu));
    br_cuda_leave(offload->cuda);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(offload->cuda, result,
                             "GPU %d: a copy of %zu bytes of another process", gpu - 1, bytes);
    br_copier_count(offload->copier, BR_COPY_SHARED, bytes);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Until the stream is through, but not for ever: kernels need multiprocessors, and one of the
 * program's may have them all and wait for what the program does after this very call. Then all
 * stays as it is, for the GPU may write there yet. */
static int offload_wait_for(const struct br_offload *offload, const struct lane *lane,
                            struct CUstream_st *stream)
{
    uint64_t until = br_clock_now() + PATIENCE * 1000000ull;
    br_cuda_result result = offload->cuda->event_record(lane->event, stream);

    if (result == BR_CUDA_SUCCESS)
        while ((result = offload->cuda->event_query(lane->event)) == BR_CUDA_NOT_READY &&
               br_clock_now() < until)
            sched_yield();
    if (result == BR_CUDA_NOT_READY)
        return br_error(
            ETIMEDOUT,
            "the trial reduction has not ended in %u ms: kernels of the program's have the GPU",
            PATIENCE);
    return result == BR_CUDA_SUCCESS ? 0
                                     : br_cuda_error(offload->cuda, result, "the trial reduction");
}

/* One reduction of two arrays, one of them on the GPU, of which every element is its index. */
static int offload_try(struct br_offload *offload, int gpu, size_t bytes, double *seconds)
{
    struct lane *lane = &offload->lanes[gpu - 1];
    struct CUstream_st *stream = br_copier_reductions(offload->copier, gpu);
    const struct br_offload_source src[] = {{lane->check, false},
                                            {(void *)(uintptr_t)(lane->arena + ARENA), true}};
    const struct task task = {BRAID_UINT32, BRAID_SUM, lane->check, src, 2, 0, bytes};
    uint32_t *host = lane->check;
    br_cuda_result result;
    uint64_t began;
    bool begun;
    int rc;

    for (uint32_t i = 0; i < bytes / sizeof *host; i++)
        host[i] = i;
    result = offload->cuda->copy_async(lane->arena + ARENA, (uintptr_t)host, bytes, stream);
    rc = result == BR_CUDA_SUCCESS ? offload_wait_for(offload, lane, stream)
                                   : offload_refused(offload, result, &task);
    if (rc)
        return rc;
    began = br_clock_now();
    rc = take_and_put(offload, gpu, &task, &begun);
    if (!rc)
        rc = offload_wait_for(offload, lane, stream);
    if (rc)
        return rc;
    *seconds = (double)(br_clock_now() - began) * 1e-9;
    br_offload_end(offload, gpu, lane->head);
    for (uint32_t i = 0; i < bytes / sizeof *host; i++)
        if (host[i] != 2 * i)
            return br_error(EIO, "the trial reduction gave %u for %u + %u", host[i], i, i);
    return 0;
}

/* The least of several: what comes in between only adds. */
static int offload_measure(struct br_offload *offload, int gpu, size_t bytes, double *least)
{
    double seconds = 0;
    int rc = 0;

    for (int i = 0; i < TRIES && !rc; i++) {
        rc = offload_try(offload, gpu, bytes, &seconds);
        if (!rc && (!i || seconds < *least))
            *least = seconds;
    }
    return rc;
}

static int measure_both(struct br_offload *offload, int gpu, struct br_offload_cost *cost)
{
    double small = 0, large = 0;
    int rc = offload_measure(offload, gpu, LEAST, &small);

    if (!rc)
        rc = offload_measure(offload, gpu, TRIAL, &large);
    if (rc)
        return rc;
    cost->per_byte = large > small ? (large - small) / (2.0 * (TRIAL - LEAST)) : 0;
    cost->start = small - cost->per_byte * 2.0 * LEAST;
    if (cost->start < 0)
        cost->start = 0;
    return 0;
}

static int offload_allocate(struct br_offload *offload, struct lane *lane)
{
    br_cuda_result result = offload->cuda->memory_alloc(&lane->arena, ARENA + TRIAL);

    if (result == BR_CUDA_SUCCESS)
        result = offload->cuda->host_alloc(&lane->check, TRIAL, BR_CUDA_HOST_PORTABLE);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(offload->cuda, result, "%u bytes for reductions",
                             lane->arena ? TRIAL : ARENA + TRIAL);
    result = offload->cuda->event_create(&lane->event, BR_CUDA_EVENT_NO_TIMING);
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(offload->cuda, result, "an event for the trial reduction");
}

int br_offload_open(struct br_offload *offload, int gpu, struct br_offload_cost *cost)
{
    struct lane *lane = &offload->lanes[gpu - 1];
    const struct br_cuda *cuda;
    int rc = br_cuda_driver(&cuda);

    if (rc)
        return rc;
    atomic_store(&offload->cuda, cuda);
    rc = br_cuda_context(gpu - 1, &lane->context);
    if (!rc)
        rc = br_reducer_create(gpu - 1, offload->image, &lane->reducer);
    if (!rc)
        rc = br_cuda_enter(cuda, lane->context);
    if (rc)
        return rc;
    rc = offload_allocate(offload, lane);
    if (!rc)
        rc = measure_both(offload, gpu, cost);
    br_cuda_leave(cuda);
    return rc;
}

/* ---- the choice ------------------------------------------------------------------------------ */

void br_offload_set(struct br_offload *offload, int gpu, const struct br_offload_cost *cost)
{
    struct lane *lane = &offload->lanes[gpu - 1];

    lane->cost = *cost;
    atomic_store_explicit(&lane->open, true, memory_order_release);
}

bool br_offload_reaches(const struct br_offload *offload, int gpu, const void *memory)
{
    const struct lane *lane = &offload->lanes[gpu - 1];

    return atomic_load_explicit(&lane->open, memory_order_acquire) &&
           br_gpu_is_in(memory, lane->context);
}

const struct br_reducer *br_offload_kernels(const struct br_offload *offload, int gpu,
                                            struct CUctx_st **context)
{
    const struct lane *lane = &offload->lanes[gpu - 1];

    if (!atomic_load_explicit(&lane->open, memory_order_acquire))
        return NULL;
    *context = lane->context;
    return lane->reducer;
}

bool br_offload_is_faster(const struct br_offload *offload, int gpu, enum braid_type type,
                          size_t bytes, int n_src, int n_host)
{
    const struct lane *lane = &offload->lanes[gpu - 1];

    if (!atomic_load_explicit(&lane->open, memory_order_acquire) || n_src > BR_GPU_SOURCES ||
        (size_t)(n_host + 1) * offload_room(bytes) > ARENA)
        return false;
    return lane->cost.start + lane->cost.per_byte * (double)bytes * (n_host + 1) <
           lane->cost.cpu_per_byte[type] * (double)bytes * (n_src + 1);
}
