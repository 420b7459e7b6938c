/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and events: queues of work that runs when somebody looks (fake_cuda.h, note 2). */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"
#include "tests/fake_cuda/stream.h"

#define PATIENCE 100 /* looks in vain, before work counts as waiting for the host */

/* The NULL stream, and the list of all. */
static struct CUstream_st legacy;
static struct CUstream_st *streams = &legacy;
static pthread_t thread;
static atomic_bool stopping;
static bool running;

/* The handles of default streams: NULL and 1, the legacy one; 2, that of the thread. */
static bool is_default(const struct CUstream_st *stream)
{
    return (uintptr_t)stream <= 2;
}

static struct CUstream_st *stream_of(struct CUstream_st *stream)
{
    return is_default(stream) ? &legacy : stream;
}

static bool value_there(const struct fake_work *work)
{
    const void *at = fake_cuda_bytes(work->to);
    bool wide = work->bytes == 8;
    uint64_t is = wide ? atomic_load((const _Atomic uint64_t *)at)
                       : atomic_load((const _Atomic uint32_t *)at);
    int64_t ahead =
        wide ? (int64_t)(is - work->value) : (int32_t)((uint32_t)is - (uint32_t)work->value);

    return (work->flags & 3) == BR_CUDA_WAIT_EQ ? is == work->value : ahead >= 0;
}

static bool may_run(const struct fake_work *work)
{
    if (work->kind == WAIT_EVENT)
        return atomic_load(&work->event->state->done) >= work->value;
    return work->kind != WAIT_VALUE || value_there(work);
}

static void run(struct fake_work *work)
{
    switch (work->kind) {
    case COPY:
        fake_copy(work->to, work->from, work->bytes);
        break;
    case SET:
        memset(fake_cuda_bytes(work->to), (int)work->value, work->bytes);
        break;
    case LAUNCH:
        work->kernel(&work->launch);
        break;
    case CALL:
        work->call(work->argument);
        break;
    case RECORD:
        atomic_store(&work->event->state->done, work->value);
        break;
    case WRITE_VALUE:
        if (work->bytes == 8)
            atomic_store((_Atomic uint64_t *)fake_cuda_bytes(work->to), work->value);
        else
            atomic_store((_Atomic uint32_t *)fake_cuda_bytes(work->to), (uint32_t)work->value);
        break;
    case WAIT_EVENT:
    case WAIT_VALUE:
        break;
    }
}

/* A stream whose first work can run, marked busy so that nobody else runs it; NULL: none. */
static struct CUstream_st *claim(struct fake_work **out)
{
    for (struct CUstream_st *stream = streams; stream; stream = stream->next) {
        struct fake_work *work = stream->first;

        if (!work || stream->busy)
            continue;
        stream->busy = true;
        pthread_mutex_unlock(&fake_lock); /* may_run() looks addresses up */
        if (may_run(work)) {
            *out = work;
            return stream;
        }
        pthread_mutex_lock(&fake_lock);
        stream->busy = false;
    }
    return NULL;
}

bool fake_pump(void)
{
    struct CUevent_st *unused;
    struct CUstream_st *stream;
    struct fake_work *work;

    pthread_mutex_lock(&fake_lock);
    stream = claim(&work);
    if (!stream) {
        pthread_mutex_unlock(&fake_lock);
        return false;
    }
    run(work); /* claim() has let the lock go: a host function may call anything */
    pthread_mutex_lock(&fake_lock);
    stream->first = work->next;
    if (!stream->first)
        stream->last = NULL;
    fake_counted.launches += work->kind == LAUNCH;
    stream->late = fake_cuda()->late;
    stream->busy = false;
    unused = work->event && fake_drop_event(work->event) ? work->event : NULL;
    pthread_mutex_unlock(&fake_lock);
    if (unused)
        fake_free_event(unused);
    free(work);
    return true;
}

static void pump_all(void)
{
    if (!running)
        while (fake_pump())
            ;
}

static void *pump_for_ever(void *unused)
{
    while (!atomic_load(&stopping))
        if (!fake_pump())
            usleep(20);
    return unused;
}

/* Is there work, and does no thread run or look at any of it? */
static void look(bool *any, bool *busy)
{
    *any = *busy = false;
    pthread_mutex_lock(&fake_lock);
    for (const struct CUstream_st *stream = streams; stream; stream = stream->next) {
        *any |= stream->first != NULL;
        *busy |= stream->busy;
    }
    pthread_mutex_unlock(&fake_lock);
}

void fake_wait_for_all(const char *symbol)
{
    bool any, busy;

    for (int in_vain = 0; in_vain < PATIENCE; in_vain++) {
        while (fake_pump())
            in_vain = 0;
        look(&any, &busy);
        if (!any)
            return;
        if (busy)
            in_vain = 0;
        sched_yield();
    }
    fprintf(stderr, "FAKE_CUDA: %s waits for work in a stream that waits for the host\n", symbol);
    abort();
}

void fake_start_thread(void)
{
    if (running)
        return;
    atomic_store(&stopping, false);
    running = pthread_create(&thread, NULL, pump_for_ever, NULL) == 0;
}

void fake_stop_thread(void)
{
    if (!running)
        return;
    atomic_store(&stopping, true);
    pthread_join(thread, NULL);
    running = false;
}

/* Appends a copy of work. */
static br_cuda_result submit(struct CUstream_st *on, const struct fake_work *work)
{
    struct CUstream_st *stream = stream_of(on);
    struct fake_work *copy = malloc(sizeof *copy);

    if (!copy)
        return BR_CUDA_OUT_OF_MEMORY;
    if (is_default(on))
        fake_finish_late_copy();
    *copy = *work;
    for (int i = 0; i < FAKE_ARGUMENTS; i++) /* the arguments of a launch are in the copy, too */
        copy->pointers[i] = copy->arguments + copy->offsets[i];
    copy->launch.arguments = copy->pointers;
    copy->next = NULL;
    pthread_mutex_lock(&fake_lock);
    if (stream->last)
        stream->last->next = copy;
    else
        stream->first = copy;
    stream->last = copy;
    if (copy->event)
        copy->event->uses++;
    pthread_mutex_unlock(&fake_lock);
    return BR_CUDA_SUCCESS;
}

br_cuda_result fake_submit(struct CUstream_st *stream, const struct fake_work *work)
{
    return submit(stream, work);
}

br_cuda_result cuMemcpyAsync(br_cuda_pointer to, br_cuda_pointer from, size_t bytes,
                             struct CUstream_st *stream)
{
    ENTER(cuMemcpyAsync, CONTEXT);
    return submit(stream,
                  &(struct fake_work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

br_cuda_result cuMemcpyDtoHAsync_v2(void *to, br_cuda_pointer from, size_t bytes,
                                    struct CUstream_st *stream)
{
    ENTER(cuMemcpyDtoHAsync_v2, CONTEXT);
    return submit(stream, &(struct fake_work){
                              .kind = COPY, .to = (uintptr_t)to, .from = from, .bytes = bytes});
}

br_cuda_result cuMemcpyHtoDAsync_v2(br_cuda_pointer to, const void *from, size_t bytes,
                                    struct CUstream_st *stream)
{
    ENTER(cuMemcpyHtoDAsync_v2, CONTEXT);
    return submit(stream, &(struct fake_work){
                              .kind = COPY, .to = to, .from = (uintptr_t)from, .bytes = bytes});
}

br_cuda_result cuMemsetD8Async(br_cuda_pointer to, unsigned char value, size_t bytes,
                               struct CUstream_st *stream)
{
    ENTER(cuMemsetD8Async, CONTEXT);
    return submit(stream,
                  &(struct fake_work){.kind = SET, .to = to, .value = value, .bytes = bytes});
}

br_cuda_result cuLaunchHostFunc(struct CUstream_st *stream, void (*fn)(void *), void *argument)
{
    ENTER(cuLaunchHostFunc, CONTEXT);
    return submit(stream, &(struct fake_work){.kind = CALL, .call = fn, .argument = argument});
}

static br_cuda_result memory_operation(struct CUstream_st *stream, const struct fake_work *work)
{
    if (fake_cuda()->no_memory_operations)
        return BR_CUDA_NOT_SUPPORTED;
    return work->to % work->bytes ? BR_CUDA_INVALID_VALUE : submit(stream, work);
}

#define MEMORY_OPERATION(symbol, what, width)                                                      \
    br_cuda_result symbol(struct CUstream_st *stream, br_cuda_pointer at, uint##width##_t value,   \
                          unsigned int flags)                                                      \
    {                                                                                              \
        ENTER(symbol, CONTEXT);                                                                    \
        return memory_operation(                                                                   \
            stream,                                                                                \
            &(struct fake_work){                                                                   \
                .kind = what, .to = at, .value = value, .bytes = width / 8, .flags = flags});      \
    }
MEMORY_OPERATION(cuStreamWaitValue32_v2, WAIT_VALUE, 32)
MEMORY_OPERATION(cuStreamWaitValue64_v2, WAIT_VALUE, 64)
MEMORY_OPERATION(cuStreamWriteValue32_v2, WRITE_VALUE, 32)
MEMORY_OPERATION(cuStreamWriteValue64_v2, WRITE_VALUE, 64)

br_cuda_result cuStreamCreateWithPriority(struct CUstream_st **out, unsigned int flags,
                                          int priority)
{
    struct CUstream_st *stream;

    (void)priority;
    (void)flags;
    ENTER(cuStreamCreateWithPriority, CONTEXT);
    stream = calloc(1, sizeof *stream);
    if (!stream)
        return BR_CUDA_OUT_OF_MEMORY;
    stream->context = fake_current();
    pthread_mutex_lock(&fake_lock);
    stream->next = legacy.next;
    legacy.next = stream;
    fake_objects++;
    pthread_mutex_unlock(&fake_lock);
    *out = stream;
    return BR_CUDA_SUCCESS;
}

static bool empty(struct CUstream_st *stream)
{
    bool none;

    pthread_mutex_lock(&fake_lock);
    none = !stream->first;
    pthread_mutex_unlock(&fake_lock);
    return none;
}

static void wait_for(struct CUstream_st *stream)
{
    while (!empty(stream)) {
        pump_all();
        sched_yield();
    }
}

br_cuda_result cuStreamSynchronize(struct CUstream_st *stream)
{
    ENTER(cuStreamSynchronize, DRIVER);
    if (is_default(stream))
        fake_finish_late_copy();
    if (stream_of(stream)->capture)
        return BR_CUDA_CAPTURE_UNSUPPORTED;
    wait_for(stream_of(stream));
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuStreamDestroy_v2(struct CUstream_st *stream)
{
    struct CUstream_st *at = &legacy;

    ENTER(cuStreamDestroy_v2, DRIVER);
    wait_for(stream);
    pthread_mutex_lock(&fake_lock);
    while (at && at->next != stream)
        at = at->next;
    if (at)
        at->next = stream->next;
    fake_objects -= at != NULL;
    pthread_mutex_unlock(&fake_lock);
    if (!at)
        return BR_CUDA_INVALID_HANDLE;
    free(stream);
    return BR_CUDA_SUCCESS;
}

/* Counts down what is late. */
static br_cuda_result ready(unsigned *late)
{
    br_cuda_result result;

    pthread_mutex_lock(&fake_lock);
    result = *late || fake_cuda()->held ? BR_CUDA_NOT_READY : BR_CUDA_SUCCESS;
    *late -= *late > 0;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

void fake_cuda_hold(bool held)
{
    pthread_mutex_lock(&fake_lock);
    fake_cuda()->held = held;
    pthread_mutex_unlock(&fake_lock);
}

br_cuda_result cuStreamQuery(struct CUstream_st *on)
{
    struct CUstream_st *stream = stream_of(on);

    ENTER(cuStreamQuery, DRIVER);
    if (stream->capture)
        return BR_CUDA_CAPTURE_UNSUPPORTED;
    pump_all();
    return empty(stream) ? ready(&stream->late) : BR_CUDA_NOT_READY;
}

br_cuda_result cuStreamGetCtx(struct CUstream_st *stream, struct CUctx_st **out)
{
    ENTER(cuStreamGetCtx, DRIVER);
    *out = is_default(stream) ? fake_current() : stream->context;
    return *out ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_CONTEXT;
}

void fake_cuda_capture(struct CUstream_st *stream, unsigned status)
{
    unsigned before = stream_of(stream)->capture;

    stream_of(stream)->capture = status;
    atomic_fetch_add(&fake_captures,
                     (status != BR_CUDA_CAPTURE_NONE) - (before != BR_CUDA_CAPTURE_NONE));
}

br_cuda_result cuStreamIsCapturing(struct CUstream_st *stream, unsigned int *out)
{
    ENTER(cuStreamIsCapturing, DRIVER);
    if (is_default(stream) && !fake_current())
        return BR_CUDA_INVALID_CONTEXT;
    *out = stream_of(stream)->capture;
    return is_default(stream) && atomic_load(&fake_captures) ? BR_CUDA_CAPTURE_IMPLICIT
                                                             : BR_CUDA_SUCCESS;
}

br_cuda_result cuThreadExchangeStreamCaptureMode(unsigned int *mode)
{
    unsigned int before = fake_capture_mode;

    ENTER(cuThreadExchangeStreamCaptureMode, DRIVER);
    fake_capture_mode = *mode;
    *mode = before;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuStreamWaitEvent(struct CUstream_st *stream, struct CUevent_st *event,
                                 unsigned int flags)
{
    ENTER(cuStreamWaitEvent, CONTEXT);
    return submit(stream, &(struct fake_work){.kind = WAIT_EVENT,
                                              .event = event,
                                              .flags = flags,
                                              .value = atomic_load(&event->state->recorded)});
}

br_cuda_result cuEventRecord(struct CUevent_st *event, struct CUstream_st *stream)
{
    ENTER(cuEventRecord, CONTEXT);
    event->late = fake_cuda()->late;
    return submit(stream,
                  &(struct fake_work){.kind = RECORD,
                                      .event = event,
                                      .value = atomic_fetch_add(&event->state->recorded, 1) + 1});
}

static bool complete(struct CUevent_st *event)
{
    return atomic_load(&event->state->done) == atomic_load(&event->state->recorded);
}

br_cuda_result cuEventQuery(struct CUevent_st *event)
{
    ENTER(cuEventQuery, DRIVER);
    pump_all();
    return complete(event) ? ready(&event->late) : BR_CUDA_NOT_READY;
}

br_cuda_result cuEventSynchronize(struct CUevent_st *event)
{
    ENTER(cuEventSynchronize, DRIVER);
    while (!complete(event)) {
        pump_all();
        sched_yield();
    }
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuEventElapsedTime(float *ms, struct CUevent_st *from, struct CUevent_st *to)
{
    ENTER(cuEventElapsedTime, DRIVER);
    *ms = 1;
    return complete(from) && complete(to) ? BR_CUDA_SUCCESS : BR_CUDA_NOT_READY;
}
