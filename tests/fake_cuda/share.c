/* SPDX-License-Identifier: BSD-3-Clause */
/* What leaves the process: dma-bufs (a memfd goes for one), IPC handles, virtual memory with
 * descriptors; and events, which may. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"
#include "tests/fake_cuda/stream.h"

/* What stands in an IPC handle. */
struct note {
    uint64_t magic;
    int32_t pid, fd, device;
    uint64_t bytes;
    uint64_t id; /* of the allocation: no other has had it in this process */
};
#define MAGIC 0x42524149442d4641ull

/* A descriptor of our own of what the note names; -1: refused. */
static int open_note(const struct note *note)
{
    char path[64];

    if (note->magic != MAGIC || (note->pid == getpid() && !fake_cuda()->ipc_in_process))
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", note->pid, note->fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

br_cuda_result cuMemGetHandleForAddressRange(void *out, br_cuda_pointer at, size_t bytes,
                                             unsigned int type, unsigned long long flags)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct fake_memory *memory;

    (void)flags;
    ENTER(cuMemGetHandleForAddressRange, CONTEXT);
    if (fake_cuda()->no_dmabuf)
        return BR_CUDA_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    if (!memory) /* whole pages around memory that begins inside one */
        memory = fake_find(at + 4095);
    if (memory && memory->fd >= 0 && type == BR_CUDA_RANGE_DMABUF && at % 4096 == 0 &&
        bytes % 4096 == 0 && (char *)(uintptr_t)at == memory->mapping[0] &&
        bytes <= memory->mapped) {
        *(int *)out = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
        result = *(int *)out < 0 ? BR_CUDA_OPERATING_SYSTEM : BR_CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuFlushGPUDirectRDMAWrites(unsigned int target, unsigned int scope)
{
    ENTER(cuFlushGPUDirectRDMAWrites, CONTEXT);
    pthread_mutex_lock(&fake_lock);
    fake_counted.flushes++;
    pthread_mutex_unlock(&fake_lock);
    return target == BR_CUDA_FLUSH_CURRENT_CONTEXT && scope >= BR_CUDA_FLUSH_TO_OWNER
               ? BR_CUDA_SUCCESS
               : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuIpcGetMemHandle(struct CUipcMemHandle_st *out, br_cuda_pointer at)
{
    struct fake_memory *memory;
    bool has;

    ENTER(cuIpcGetMemHandle, CONTEXT);
    if (fake_cuda()->no_ipc)
        return BR_CUDA_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    has = memory && memory->kind == DEVICE && !memory->created;
    if (has) {
        struct note note = {MAGIC, getpid(), memory->fd, memory->device, memory->bytes, memory->id};
        memset(out, 0, sizeof *out);
        memcpy(out->reserved, &note, sizeof note);
    }
    pthread_mutex_unlock(&fake_lock);
    return has ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuIpcOpenMemHandle_v2(br_cuda_pointer *out, struct CUipcMemHandle_st handle,
                                     unsigned int flags)
{
    struct fake_memory *memory;
    br_cuda_result result;
    struct note note;
    int fd;

    (void)flags;
    ENTER(cuIpcOpenMemHandle_v2, CONTEXT);
    if (fake_cuda()->no_ipc)
        return BR_CUDA_NOT_SUPPORTED;
    memcpy(&note, handle.reserved, sizeof note);
    fd = open_note(&note);
    if (fd < 0)
        return note.magic == MAGIC && note.pid == getpid() ? BR_CUDA_INVALID_CONTEXT
                                                           : BR_CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&fake_lock);
    result = fake_map(OPENED, fake_current()->device, note.bytes, fd, &memory);
    pthread_mutex_unlock(&fake_lock);
    if (result == BR_CUDA_SUCCESS)
        *out = (uintptr_t)memory->at;
    return result;
}

br_cuda_result cuIpcCloseMemHandle(br_cuda_pointer at)
{
    struct fake_memory *memory;
    bool ours;

    ENTER(cuIpcCloseMemHandle, CONTEXT);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    ours = memory && memory->kind == OPENED && (uintptr_t)memory->at == at;
    if (ours)
        fake_unmap(memory);
    pthread_mutex_unlock(&fake_lock);
    return ours ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

/* Takes fd over. */
static br_cuda_result make_event(struct CUevent_st **out, int fd)
{
    struct CUevent_st *event = calloc(1, sizeof *event);

    if (event) {
        event->fd = fd;
        event->uses = 1;
        event->state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (!event || event->state == MAP_FAILED) {
        free(event);
        close(fd);
        return BR_CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    fake_objects++;
    pthread_mutex_unlock(&fake_lock);
    *out = event;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuEventCreate(struct CUevent_st **out, unsigned int flags)
{
    int fd;

    ENTER(cuEventCreate, CONTEXT);
    if ((flags & BR_CUDA_EVENT_INTERPROCESS) && !(flags & BR_CUDA_EVENT_NO_TIMING))
        return BR_CUDA_INVALID_VALUE;
    fd = memfd_create("fake_cuda_event", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 4096)) {
        if (fd >= 0)
            close(fd);
        return BR_CUDA_OPERATING_SYSTEM;
    }
    return make_event(out, fd);
}

bool fake_drop_event(struct CUevent_st *event)
{
    return --event->uses == 0;
}

void fake_free_event(struct CUevent_st *event)
{
    munmap(event->state, 4096);
    close(event->fd);
    free(event);
}

/* Work that names it may still be in a stream. */
br_cuda_result cuEventDestroy_v2(struct CUevent_st *event)
{
    bool unused;

    ENTER(cuEventDestroy_v2, DRIVER);
    pthread_mutex_lock(&fake_lock);
    fake_objects--;
    unused = fake_drop_event(event);
    pthread_mutex_unlock(&fake_lock);
    if (unused)
        fake_free_event(event);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuIpcGetEventHandle(struct CUipcEventHandle_st *out, struct CUevent_st *event)
{
    struct note note = {MAGIC, getpid(), event->fd, 0, 0, 0};

    ENTER(cuIpcGetEventHandle, CONTEXT);
    if (fake_cuda()->no_ipc)
        return BR_CUDA_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    memcpy(out->reserved, &note, sizeof note);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuIpcOpenEventHandle(struct CUevent_st **out, struct CUipcEventHandle_st handle)
{
    struct note note;
    int fd;

    ENTER(cuIpcOpenEventHandle, CONTEXT);
    if (fake_cuda()->no_ipc)
        return BR_CUDA_NOT_SUPPORTED;
    memcpy(&note, handle.reserved, sizeof note);
    fd = open_note(&note);
    return fd < 0 ? BR_CUDA_INVALID_HANDLE : make_event(out, fd);
}
