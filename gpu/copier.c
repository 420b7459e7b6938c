/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/copier.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "gpu/driver.h"

#define EVENTS 128 /* of a GPU: marks at once; more are made when more are wanted */
#define TRIAL  4096

struct lane {
    atomic_bool open, lost; /* lost: copies did not end (br_copier_forget()) */
    struct CUctx_st *context;
    struct CUstream_st *streams[BR_COPY_DIRECTIONS];
    struct CUevent_st *events[EVENTS];
    int n_events;
    /* memory of the trial, which is kept: freeing it would wait (stream_op.h, note 7) */
    br_cuda_pointer check;
    void *check_host;
};

struct br_copier {
    const struct br_cuda *cuda; /* NULL: no GPU has been opened */
    pthread_mutex_t lock;       /* of opening */
    struct lane lanes[BR_GPUS];
    _Atomic uint64_t bytes[BR_COPY_COUNTERS]; /* copied, combined, read of others */
    bool logged_pageable;
};

int br_copier_create(struct br_copier **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "no memory for copies from GPUs");
    pthread_mutex_init(&(*out)->lock, NULL);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int make_event(struct br_copier *copier, struct lane *lane)
{
    br_cuda_result result =
        copier->cuda->event_create(&lane->events[lane->n_events], BR_CUDA_EVENT_NO_TIMING);

    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(copier->cuda, result, "an event");
    lane->n_events++;
    return 0;
}

static int make_streams(struct br_copier *copier, struct lane *lane)
{
    const struct br_cuda *cuda = copier->cuda;
    int least, greatest, rc = 0;
    br_cuda_result result = cuda->priority_range(&least, &greatest);

    for (int i = 0; i < BR_COPY_DIRECTIONS && result == BR_CUDA_SUCCESS; i++)
        result = cuda->stream_create(&lane->streams[i], BR_CUDA_STREAM_NON_BLOCKING, greatest);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "a stream for copies");
    while (!rc && lane->n_events < EVENTS / 2)
        rc = make_event(copier, lane);
    return rc;
}

static void copier_close_lane(struct br_copier *copier, struct lane *lane)
{
    const struct br_cuda *cuda = copier->cuda;
    bool lost = atomic_load(&lane->lost);

    if (!lane->context || br_cuda_enter(cuda, lane->context))
        return;
    for (int i = 0; i < BR_COPY_DIRECTIONS; i++)
        if (lane->streams[i]) {
            if (!lost) /* for ever, else; destroying one that works does not wait */
                cuda->stream_synchronize(lane->streams[i]);
            cuda->stream_destroy(lane->streams[i]);
        }
    if (lane->check && !lost)
        cuda->memory_free(lane->check);
    if (lane->check_host && !lost)
        cuda->host_free(lane->check_host);
    while (lane->n_events)
        cuda->event_destroy(lane->events[--lane->n_events]);
    br_cuda_leave(cuda);
    memset(lane->streams, 0, sizeof lane->streams);
    lane->check = 0;
    lane->check_host = NULL;
}

/* There and back, over the streams that will carry everything. */
static int copier_try_copies(struct br_copier *copier, struct lane *lane)
{
    const struct br_cuda *cuda = copier->cuda;
    br_cuda_pointer memory = lane->check;
    uint8_t *host = lane->check_host;
    br_cuda_result result;

    for (size_t i = 0; i < TRIAL; i++)
        host[i] = (uint8_t)(i * 7 + 1);
    result = cuda->copy_to_device(memory, host, TRIAL, lane->streams[BR_COPY_TO_GPU]);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_synchronize(lane->streams[BR_COPY_TO_GPU]);
    memset(host, 0, TRIAL);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->copy_to_host(host, memory, TRIAL, lane->streams[BR_COPY_TO_HOST]);
    if (result == BR_CUDA_SUCCESS)
        result = cuda->stream_synchronize(lane->streams[BR_COPY_TO_HOST]);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "the trial copy");
    for (size_t i = 0; i < TRIAL; i++)
        if (host[i] != (uint8_t)(i * 7 + 1))
            return br_error(EIO,
                            "the trial copy came back changed at byte %zu: look for Xid lines in "
                            "the kernel's log",
                            i);
    return 0;
}

static int copier_verify(struct br_copier *copier, struct lane *lane)
{
    const struct br_cuda *cuda = copier->cuda;
    br_cuda_result result = cuda->memory_alloc(&lane->check, TRIAL);

    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "%d bytes for a trial copy", TRIAL);
    result = cuda->host_alloc(&lane->check_host, TRIAL, BR_CUDA_HOST_PORTABLE);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "%d bytes of pinned host memory for a trial copy",
                             TRIAL);
    return copier_try_copies(copier, lane);
}

static int open_lane(struct br_copier *copier, int gpu, struct lane *lane)
{
    const struct br_cuda *cuda;
    int rc = br_cuda_driver(&cuda);

    if (!rc && !copier->cuda)
        copier->cuda = cuda;
    if (!rc)
        rc = br_cuda_context(gpu - 1, &lane->context);
    if (!rc)
        rc = br_cuda_enter(copier->cuda, lane->context);
    if (rc)
        return rc;
    rc = make_streams(copier, lane);
    if (!rc)
        rc = copier_verify(copier, lane);
    br_cuda_leave(copier->cuda);
    if (rc)
        copier_close_lane(copier, lane);
    return rc;
}

int br_copier_open(struct br_copier *copier, int gpu)
{
    struct lane *lane;
    int rc = 0;
    bool opens;

    if (gpu < 1 || gpu > BR_GPUS)
        return br_error(ENODEV, "GPU %d: braid counts GPUs from 0 to %d", gpu - 1, BR_GPUS - 1);
    lane = &copier->lanes[gpu - 1];
    if (atomic_load_explicit(&lane->open, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&copier->lock);
    opens = !atomic_load(&lane->open);
    if (opens) {
        rc = open_lane(copier, gpu, lane);
        atomic_store(&lane->open, !rc);
    }
    pthread_mutex_unlock(&copier->lock);
    return rc ? br_error_prefix(rc, "GPU %d: ", gpu - 1) : opens;
}

void br_copier_destroy(struct br_copier *copier)
{
    if (!copier)
        return;
    for (int i = 0; i < BR_GPUS; i++)
        if (atomic_load(&copier->lanes[i].open))
            copier_close_lane(copier, &copier->lanes[i]);
    pthread_mutex_destroy(&copier->lock);
    free(copier);
}

/* ---- host memory ----------------------------------------------------------------------------- */

bool br_copier_pin(struct br_copier *copier, int gpu, void *memory, size_t bytes)
{
    const struct br_cuda *cuda = copier->cuda;
    br_cuda_result result = BR_CUDA_UNKNOWN;

    if (br_cuda_enter(cuda, copier->lanes[gpu - 1].context) == 0) {
        result = cuda->host_register(memory, bytes, BR_CUDA_REGISTER_PORTABLE);
        br_cuda_leave(cuda);
    }
    if (result == BR_CUDA_SUCCESS)
        return true;
    br_downgrade(gpu_pinning);
    if (!copier->logged_pageable) {
        br_cuda_error(cuda, result, "%zu bytes", bytes);
        br_log_warn(
            "GPU %d: host memory cannot be pinned, copies block and are slow: %s; `ulimit -l "
            "unlimited` before the "
            "job may help",
            gpu - 1, br_error_message());
    }
    copier->logged_pageable = true;
    return false;
}

bool br_copier_unpin(struct br_copier *copier, int gpu, void *memory)
{
    const struct lane *lane = &copier->lanes[gpu - 1];
    br_cuda_result result;

    if (atomic_load(&lane->lost) || br_cuda_enter(copier->cuda, lane->context))
        return false;
    result = copier->cuda->host_unregister(memory);
    br_cuda_leave(copier->cuda);
    return result == BR_CUDA_SUCCESS;
}

/* ---- copies ---------------------------------------------------------------------------------- */

void br_copier_count(struct br_copier *copier, enum br_copy_direction direction, size_t bytes)
{
    atomic_fetch_add_explicit(&copier->bytes[direction], bytes, memory_order_relaxed);
}

/* In the GPU's context. */
static int ask_uncounted(const struct br_copier *copier, int gpu, enum br_copy_direction direction,
                         void *to, const void *from, size_t bytes, const char *whither)
{
    const struct lane *lane = &copier->lanes[gpu - 1];
    br_cuda_result result =
        copier->cuda->copy_async((uintptr_t)to, (uintptr_t)from, bytes, lane->streams[direction]);

    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(copier->cuda, result, "GPU %d: a copy of %zu bytes %s", gpu - 1,
                               bytes, whither);
}

static int copier_ask(struct br_copier *copier, int gpu, enum br_copy_direction direction, void *to,
                      const void *from, size_t bytes)
{
    int rc = ask_uncounted(copier, gpu, direction, to, from, bytes,
                           direction == BR_COPY_TO_HOST ? "to the host" : "from the host");

    if (!rc)
        br_copier_count(copier, direction, bytes);
    return rc;
}

static int enter_lane(struct br_copier *copier, int gpu)
{
    const struct lane *lane = &copier->lanes[gpu - 1];

    if (atomic_load(&lane->lost))
        return br_error(EIO, "GPU %d is lost: copies of before did not end", gpu - 1);
    return br_cuda_enter(copier->cuda, lane->context);
}

/* With an event: what is asked for could not be marked else. */
int br_copier_enter(struct br_copier *copier, int gpu)
{
    struct lane *lane = &copier->lanes[gpu - 1];
    int rc = enter_lane(copier, gpu);

    if (rc || lane->n_events)
        return rc;
    rc = make_event(copier, lane);
    if (rc)
        br_cuda_leave(copier->cuda);
    return rc;
}

struct CUstream_st *br_copier_reductions(const struct br_copier *copier, int gpu)
{
    return copier->lanes[gpu - 1].streams[BR_COPY_REDUCTION];
}

int br_copier_copy(struct br_copier *copier, int gpu, enum br_copy_direction direction, void *to,
                   const void *from, size_t bytes)
{
    int rc = bytes ? br_copier_enter(copier, gpu) : 0;

    if (rc || !bytes)
        return rc;
    rc = copier_ask(copier, gpu, direction, to, from, bytes);
    br_cuda_leave(copier->cuda);
    return rc;
}

int br_copier_move(struct br_copier *copier, int gpu, void *to, const void *from, size_t bytes)
{
    int rc = br_copier_enter(copier, gpu);

    if (rc)
        return rc;
    rc = ask_uncounted(copier, gpu, BR_COPY_TO_GPU, to, from, bytes, "within its memory");
    br_cuda_leave(copier->cuda);
    return rc;
}

int br_copier_copy_now(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                       void *to, const void *from, size_t bytes)
{
    br_cuda_result result = BR_CUDA_SUCCESS;
    int rc = enter_lane(copier, gpu);

    if (rc)
        return rc;
    if (bytes)
        rc = copier_ask(copier, gpu, direction, to, from, bytes);
    if (!rc)
        result = copier->cuda->stream_synchronize(copier->lanes[gpu - 1].streams[direction]);
    br_cuda_leave(copier->cuda);
    return result == BR_CUDA_SUCCESS
               ? rc
               : br_cuda_error(copier->cuda, result, "GPU %d: a copy of %zu bytes", gpu - 1, bytes);
}

int br_copier_mark(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                   struct br_copy *copy)
{
    struct lane *lane = &copier->lanes[gpu - 1];
    const struct br_cuda *cuda = copier->cuda;
    br_cuda_result result;
    int rc = br_cuda_enter(cuda, lane->context);

    if (rc)
        return rc;
    if (!lane->n_events)
        rc = make_event(copier, lane);
    if (!rc) {
        copy->event = lane->events[--lane->n_events];
        copy->gpu = gpu;
        result = cuda->event_record(copy->event, lane->streams[direction]);
        if (result != BR_CUDA_SUCCESS) {
            lane->events[lane->n_events++] = copy->event;
            copy->event = NULL;
            rc = br_cuda_error(cuda, result, "GPU %d: an event", gpu - 1);
        }
    }
    br_cuda_leave(cuda);
    return rc;
}

static void destroy_event(struct br_copier *copier, struct br_copy *copy)
{
    if (!br_cuda_enter(copier->cuda, copier->lanes[copy->gpu - 1].context)) {
        copier->cuda->event_destroy(copy->event); /* does not wait for it */
        br_cuda_leave(copier->cuda);
    }
    copy->event = NULL;
}

void br_copier_forget(struct br_copier *copier, struct br_copy *copy)
{
    if (!copy->event)
        return;
    atomic_store(&copier->lanes[copy->gpu - 1].lost, true);
    destroy_event(copier, copy);
}

void br_copier_set_all_lost(struct br_copier *copier)
{
    for (int i = 0; i < BR_GPUS; i++)
        atomic_store(&copier->lanes[i].lost, true);
}

bool br_copier_is_lost(const struct br_copier *copier, int gpu)
{
    return atomic_load(&copier->lanes[gpu - 1].lost);
}

bool br_copier_has_lost(const struct br_copier *copier)
{
    bool lost = false;

    for (int i = 0; i < BR_GPUS; i++)
        lost |= atomic_load(&copier->lanes[i].lost);
    return lost;
}

static void copier_give_back(struct br_copier *copier, struct br_copy *copy)
{
    struct lane *lane = &copier->lanes[copy->gpu - 1];

    if (lane->n_events == EVENTS) {
        destroy_event(copier, copy);
        return;
    }
    lane->events[lane->n_events++] = copy->event;
    copy->event = NULL;
}

int br_copier_done(struct br_copier *copier, struct br_copy *copy)
{
    br_cuda_result result;
    int rc;

    if (!copy->event)
        return 1;
    rc = br_cuda_enter(copier->cuda, copier->lanes[copy->gpu - 1].context);
    if (rc) {
        copier_give_back(copier, copy);
        return rc;
    }
    result = copier->cuda->event_query(copy->event);
    br_cuda_leave(copier->cuda);
    if (result == BR_CUDA_NOT_READY)
        return 0;
    copier_give_back(copier, copy);
    return result == BR_CUDA_SUCCESS
               ? 1
               : br_cuda_error(copier->cuda, result, "GPU %d: copies that were under way",
                               copy->gpu - 1);
}

int br_copier_copy_within(struct br_copier *copier, int gpu, enum br_copy_direction direction,
                          void *to, const void *from, size_t bytes, uint64_t most)
{
    struct br_copy copy = {0};
    uint64_t start = br_clock_now();
    int rc = br_copier_copy(copier, gpu, direction, to, from, bytes);

    if (!rc && bytes)
        rc = br_copier_mark(copier, gpu, direction, &copy);
    if (rc)
        return rc;
    while ((rc = br_copier_done(copier, &copy)) == 0)
        if (br_clock_now() - start > most) {
            br_copier_forget(copier, &copy);
            return br_error(ETIMEDOUT, "GPU %d: a copy of %zu bytes does not end", gpu - 1, bytes);
        }
    return rc < 0 ? rc : 0;
}

struct br_copier_counters br_copier_counters(const struct br_copier *copier)
{
    return (struct br_copier_counters){
        .to_host_bytes = atomic_load(&copier->bytes[BR_COPY_TO_HOST]),
        .to_gpu_bytes = atomic_load(&copier->bytes[BR_COPY_TO_GPU]),
        .reduced_bytes = atomic_load(&copier->bytes[BR_COPY_REDUCTION]),
        .shared_bytes = atomic_load(&copier->bytes[BR_COPY_SHARED])};
}
