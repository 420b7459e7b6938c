/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual memory management: an allocation is a memfd, whose name says the device and whether it
 * may leave the process. What is mapped of one is a span of its own within a RESERVED one; numbers
 * of handles come again as soon as nothing has them any more. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"

#define HANDLES 2048u
#define NAME    "fake_cuda_vmm:%d:%d"

static struct handle {
    int fd;
    unsigned references, spans; /* both 0: free */
    int device;
    int exported;   /* may be */
} handles[HANDLES]; /* handle - 1; under fake_lock */

static bool refused(void)
{
    return fake_cuda()->no_vmm;
}

static struct handle *of(unsigned long long number)
{
    struct handle *handle = number && number <= HANDLES ? &handles[number - 1] : NULL;

    return handle && (handle->references || handle->spans) ? handle : NULL;
}

static void drop_if_unused(struct handle *handle)
{
    if (!handle->references && !handle->spans)
        close(handle->fd);
}

/* fd, which it takes over, becomes a handle. */
static br_cuda_result handle_of(int fd, unsigned long long *out)
{
    br_cuda_result result = BR_CUDA_OUT_OF_MEMORY;
    char path[64], name[64] = "";
    struct handle made = {.fd = fd, .references = 1};

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || readlink(path, name, sizeof name - 1) < 0 ||
        sscanf(name, "/memfd:" NAME, &made.device, &made.exported) != 2) {
        if (fd >= 0)
            close(fd);
        return BR_CUDA_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    for (unsigned i = 0; i < HANDLES && result; i++)
        if (!handles[i].references && !handles[i].spans) {
            handles[i] = made;
            fake_objects++;
            *out = i + 1;
            result = BR_CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&fake_lock);
    if (result)
        close(fd);
    return result;
}

br_cuda_result cuMemGetAllocationGranularity(size_t *out,
                                             const struct CUmemAllocationProp_st *properties,
                                             unsigned int option)
{
    ENTER(cuMemGetAllocationGranularity, DRIVER);
    (void)properties;
    (void)option;
    *out = FAKE_CUDA_GRAIN;
    return refused() ? BR_CUDA_NOT_SUPPORTED : BR_CUDA_SUCCESS;
}

br_cuda_result cuMemCreate(unsigned long long *out, size_t bytes,
                           const struct CUmemAllocationProp_st *properties,
                           unsigned long long flags)
{
    char name[64];
    int fd;

    ENTER(cuMemCreate, DRIVER);
    if (refused())
        return BR_CUDA_NOT_SUPPORTED;
    if (!bytes || bytes % FAKE_CUDA_GRAIN || flags || properties->type != BR_CUDA_ALLOCATION_PINNED)
        return BR_CUDA_INVALID_VALUE;
    if (bytes > fake_cuda()->bytes)
        return BR_CUDA_OUT_OF_MEMORY;
    snprintf(name, sizeof name, NAME, properties->location.id,
             properties->requestedHandleTypes & BR_CUDA_HANDLE_FD ? 1 : 0);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        fd = -1;
    }
    return handle_of(fd, out);
}

br_cuda_result cuMemRelease(unsigned long long number)
{
    struct handle *handle;

    ENTER(cuMemRelease, DRIVER);
    pthread_mutex_lock(&fake_lock);
    handle = of(number);
    if (handle && !handle->references)
        handle = NULL;
    if (handle) {
        handle->references--;
        fake_objects--;
        drop_if_unused(handle);
    }
    pthread_mutex_unlock(&fake_lock);
    return handle ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

/* Addresses without bytes behind them, where the device's are and where the CPU finds them. */
static bool reserve(struct fake_memory *memory)
{
    memory->mapped = memory->bytes + FAKE_CUDA_GRAIN;
    for (int i = 0; i < 2; i++) {
        memory->mapping[i] = mmap(NULL, memory->mapped, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory->mapping[i] != MAP_FAILED)
            continue;
        if (i)
            munmap(memory->mapping[0], memory->mapped);
        return false;
    }
    memory->at =
        memory->mapping[0] + (FAKE_CUDA_GRAIN - (uintptr_t)memory->mapping[0] % FAKE_CUDA_GRAIN);
    return true;
}

br_cuda_result cuMemAddressReserve(br_cuda_pointer *out, size_t bytes, size_t alignment,
                                   br_cuda_pointer at, unsigned long long flags)
{
    struct fake_memory *memory;

    ENTER(cuMemAddressReserve, DRIVER);
    (void)at;
    if (refused())
        return BR_CUDA_NOT_SUPPORTED;
    if (flags || !bytes || bytes % FAKE_CUDA_GRAIN || alignment > FAKE_CUDA_GRAIN)
        return BR_CUDA_INVALID_VALUE;
    memory = calloc(1, sizeof *memory);
    if (!memory)
        return BR_CUDA_OUT_OF_MEMORY;
    *memory = (struct fake_memory){.kind = RESERVED, .bytes = bytes, .fd = -1};
    if (!reserve(memory)) {
        free(memory);
        return BR_CUDA_OUT_OF_MEMORY;
    }
    pthread_mutex_lock(&fake_lock);
    fake_add(memory);
    pthread_mutex_unlock(&fake_lock);
    *out = (uintptr_t)memory->at;
    return BR_CUDA_SUCCESS;
}

/* Is all of it RESERVED, in one, and nothing mapped there? */
static struct fake_memory *empty(br_cuda_pointer at, size_t bytes)
{
    struct fake_memory *memory = fake_find(at);

    for (size_t i = 0; i < bytes && memory; i += FAKE_CUDA_GRAIN)
        if (fake_find(at + i) != memory)
            memory = NULL;
    return memory && memory->kind == RESERVED ? memory : NULL;
}

br_cuda_result cuMemAddressFree(br_cuda_pointer at, size_t bytes)
{
    struct fake_memory *memory;

    ENTER(cuMemAddressFree, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = bytes % FAKE_CUDA_GRAIN ? NULL : empty(at, bytes);
    if (memory && ((uintptr_t)memory->at != at || memory->bytes != bytes))
        memory = NULL;
    if (memory)
        fake_unmap(memory);
    pthread_mutex_unlock(&fake_lock);
    return memory ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

static char *real_of(const struct fake_memory *reserved, br_cuda_pointer at)
{
    return reserved->mapping[1] + ((char *)(uintptr_t)at - reserved->mapping[0]);
}

/* handle: into a part of `reserved`. */
static br_cuda_result add_span(const struct fake_memory *reserved, br_cuda_pointer at, size_t bytes,
                               struct handle *handle)
{
    struct fake_memory *span = calloc(1, sizeof *span);

    if (!span)
        return BR_CUDA_OUT_OF_MEMORY;
    if (mmap(real_of(reserved, at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd, 0) ==
        MAP_FAILED) {
        free(span);
        return BR_CUDA_OUT_OF_MEMORY;
    }
    *span = (struct fake_memory){.kind = DEVICE,
                                 .at = (char *)(uintptr_t)at,
                                 .real = real_of(reserved, at),
                                 .bytes = bytes,
                                 .fd = -1,
                                 .device = handle->device,
                                 .created = true,
                                 .handle = (unsigned)(handle - handles) + 1};
    handle->spans++;
    fake_add(span);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuMemMap(br_cuda_pointer at, size_t bytes, size_t offset, unsigned long long number,
                        unsigned long long flags)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct fake_memory *reserved;
    struct handle *handle;
    struct stat file;

    ENTER(cuMemMap, DRIVER);
    pthread_mutex_lock(&fake_lock);
    reserved = at % FAKE_CUDA_GRAIN || bytes % FAKE_CUDA_GRAIN || !bytes ? NULL : empty(at, bytes);
    handle = of(number);
    if (reserved && handle && !offset && !flags && fstat(handle->fd, &file) == 0 &&
        (off_t)bytes <= file.st_size)
        result = add_span(reserved, at, bytes, handle);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemUnmap(br_cuda_pointer at, size_t bytes)
{
    struct fake_memory *span;

    ENTER(cuMemUnmap, DRIVER);
    fake_wait_for_all("cuMemUnmap");
    pthread_mutex_lock(&fake_lock);
    span = fake_find(at);
    if (span && (!span->created || (uintptr_t)span->at != at || span->bytes != bytes))
        span = NULL;
    if (span) {
        mmap(span->real, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0);
        handles[span->handle - 1].spans--;
        drop_if_unused(&handles[span->handle - 1]);
        fake_remove(span);
        free(span);
    }
    pthread_mutex_unlock(&fake_lock);
    return span ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuMemSetAccess(br_cuda_pointer at, size_t bytes,
                              const struct CUmemAccessDesc_st *access, size_t n)
{
    br_cuda_result result =
        n && access[0].flags == BR_CUDA_ACCESS_READ_WRITE ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
    struct fake_memory *span;

    ENTER(cuMemSetAccess, DRIVER);
    fake_wait_for_all("cuMemSetAccess");
    pthread_mutex_lock(&fake_lock);
    /* whole ones, without a hole */
    for (size_t done = 0; done < bytes && !result; done += span->bytes) {
        span = fake_find(at + done);
        if (!span || !span->created || (uintptr_t)span->at != at + done ||
            span->bytes > bytes - done ||
            mprotect(span->real, span->bytes, PROT_READ | PROT_WRITE)) {
            result = BR_CUDA_INVALID_VALUE;
            break;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemExportToShareableHandle(void *out, unsigned long long number, unsigned int type,
                                            unsigned long long flags)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct handle *handle;

    ENTER(cuMemExportToShareableHandle, DRIVER);
    if (type != BR_CUDA_HANDLE_FD || flags)
        return BR_CUDA_NOT_SUPPORTED;
    pthread_mutex_lock(&fake_lock);
    handle = of(number);
    if (handle && handle->exported) {
        *(int *)out = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
        result = *(int *)out < 0 ? BR_CUDA_OPERATING_SYSTEM : BR_CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemImportFromShareableHandle(unsigned long long *out, void *os_handle,
                                              unsigned int type)
{
    ENTER(cuMemImportFromShareableHandle, DRIVER);
    if (type != BR_CUDA_HANDLE_FD)
        return BR_CUDA_NOT_SUPPORTED;
    return handle_of(fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0), out);
}

/* The number that was mapped there. */
br_cuda_result cuMemRetainAllocationHandle(unsigned long long *out, void *address)
{
    const struct fake_memory *span;

    ENTER(cuMemRetainAllocationHandle, DRIVER);
    pthread_mutex_lock(&fake_lock);
    span = fake_find((uintptr_t)address);
    if (span && !span->created)
        span = NULL;
    if (span) {
        handles[span->handle - 1].references++;
        fake_objects++;
        *out = span->handle;
    }
    pthread_mutex_unlock(&fake_lock);
    return span ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result fake_cuda_create(br_cuda_pointer at, size_t bytes, bool exportable)
{
    const struct CUmemLocation_st location = {BR_CUDA_LOCATION_DEVICE, 0};
    const struct CUmemAllocationProp_st properties = {.type = BR_CUDA_ALLOCATION_PINNED,
                                                      .requestedHandleTypes =
                                                          exportable ? BR_CUDA_HANDLE_FD : 0,
                                                      .location = location};
    const struct CUmemAccessDesc_st access = {location, BR_CUDA_ACCESS_READ_WRITE};
    unsigned long long handle;
    br_cuda_result result = cuMemCreate(&handle, bytes, &properties, 0);

    if (result)
        return result;
    result = cuMemMap(at, bytes, 0, handle, 0);
    if (!result)
        result = cuMemSetAccess(at, bytes, &access, 1);
    cuMemRelease(handle);
    return result;
}
