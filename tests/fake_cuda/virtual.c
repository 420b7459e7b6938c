/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual memory management: an allocation is a memfd, its handle the descriptor + 1. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fake_cuda/inside.h"

#define GRANULARITY (2ul << 20)

static bool refused(void)
{
    return fake_cuda()->no_vmm;
}

static int fd_of(unsigned long long handle)
{
    return (int)handle - 1;
}

/* fd, which it takes over, becomes a handle. */
static br_cuda_result handle_of(int fd, unsigned long long *out)
{
    if (fd < 0)
        return BR_CUDA_OPERATING_SYSTEM;
    pthread_mutex_lock(&fake_lock);
    fake_objects++;
    pthread_mutex_unlock(&fake_lock);
    *out = (unsigned long long)fd + 1;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuMemGetAllocationGranularity(size_t *out, const struct CUmemAllocationProp_st *properties,
                                             unsigned int option)
{
    ENTER(cuMemGetAllocationGranularity, DRIVER);
    (void)properties;
    (void)option;
    *out = GRANULARITY;
    return refused() ? BR_CUDA_NOT_SUPPORTED : BR_CUDA_SUCCESS;
}

br_cuda_result cuMemCreate(unsigned long long *out, size_t bytes,
                           const struct CUmemAllocationProp_st *properties, unsigned long long flags)
{
    int fd;

    ENTER(cuMemCreate, DRIVER);
    if (refused())
        return BR_CUDA_NOT_SUPPORTED;
    if (!bytes || bytes % GRANULARITY || flags || properties->type != BR_CUDA_ALLOCATION_PINNED)
        return BR_CUDA_INVALID_VALUE;
    if (bytes > fake_cuda()->bytes)
        return BR_CUDA_OUT_OF_MEMORY;
    fd = memfd_create("fake_cuda_vmm", MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)bytes)) {
        close(fd);
        fd = -1;
    }
    return handle_of(fd, out);
}

br_cuda_result cuMemRelease(unsigned long long handle)
{
    ENTER(cuMemRelease, DRIVER);
    if (close(fd_of(handle)))
        return BR_CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    fake_objects--;
    pthread_mutex_unlock(&fake_lock);
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuMemAddressReserve(br_cuda_pointer *out, size_t bytes, size_t alignment, br_cuda_pointer at,
                                   unsigned long long flags)
{
    struct fake_memory *memory;
    br_cuda_result result;

    ENTER(cuMemAddressReserve, DRIVER);
    (void)alignment;
    (void)at;
    if (refused())
        return BR_CUDA_NOT_SUPPORTED;
    if (flags || !bytes || bytes % GRANULARITY)
        return BR_CUDA_INVALID_VALUE;
    pthread_mutex_lock(&fake_lock);
    result = fake_map(RESERVED, 0, bytes, -1, &memory);
    if (result == BR_CUDA_SUCCESS)
        *out = (uintptr_t)memory->at;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemAddressFree(br_cuda_pointer at, size_t bytes)
{
    struct fake_memory *memory;

    ENTER(cuMemAddressFree, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    if (memory && (memory->kind != RESERVED || memory->bytes != bytes))
        memory = NULL;
    if (memory)
        fake_unmap(memory);
    pthread_mutex_unlock(&fake_lock);
    return memory ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

/* One allocation fills the whole reservation. */
br_cuda_result cuMemMap(br_cuda_pointer at, size_t bytes, size_t offset, unsigned long long handle,
                        unsigned long long flags)
{
    br_cuda_result result = BR_CUDA_INVALID_VALUE;
    struct fake_memory *memory;

    ENTER(cuMemMap, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    if (memory && memory->kind == RESERVED && (uintptr_t)memory->at == at && memory->bytes == bytes &&
        !offset && !flags) {
        int fd = fcntl(fd_of(handle), F_DUPFD_CLOEXEC, 0);

        if (fd >= 0 && mmap(memory->mapping[1], bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                            0) == memory->mapping[1]) {
            close(memory->fd);
            memory->fd = fd;
            memory->kind = DEVICE;
            memory->created = true;
            result = BR_CUDA_SUCCESS;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

br_cuda_result cuMemUnmap(br_cuda_pointer at, size_t bytes)
{
    struct fake_memory *memory;
    bool ours;

    ENTER(cuMemUnmap, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    ours = memory && memory->kind == DEVICE && (uintptr_t)memory->at == at && memory->bytes == bytes;
    if (ours)
        memory->kind = RESERVED;
    pthread_mutex_unlock(&fake_lock);
    return ours ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuMemSetAccess(br_cuda_pointer at, size_t bytes, const struct CUmemAccessDesc_st *access,
                              size_t n)
{
    struct fake_memory *memory;

    ENTER(cuMemSetAccess, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find(at);
    if (memory)
        memory->device = access[0].location.id;
    pthread_mutex_unlock(&fake_lock);
    return memory && n && bytes <= memory->bytes ? BR_CUDA_SUCCESS : BR_CUDA_INVALID_VALUE;
}

br_cuda_result cuMemExportToShareableHandle(void *out, unsigned long long handle, unsigned int type,
                                            unsigned long long flags)
{
    int fd;

    ENTER(cuMemExportToShareableHandle, DRIVER);
    if (type != BR_CUDA_HANDLE_FD || flags)
        return BR_CUDA_NOT_SUPPORTED;
    fd = fcntl(fd_of(handle), F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return BR_CUDA_INVALID_VALUE;
    *(int *)out = fd;
    return BR_CUDA_SUCCESS;
}

br_cuda_result cuMemImportFromShareableHandle(unsigned long long *out, void *os_handle, unsigned int type)
{
    ENTER(cuMemImportFromShareableHandle, DRIVER);
    if (type != BR_CUDA_HANDLE_FD)
        return BR_CUDA_NOT_SUPPORTED;
    return handle_of(fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0), out);
}

/* The handle that was mapped there, once more. */
br_cuda_result cuMemRetainAllocationHandle(unsigned long long *out, void *address)
{
    struct fake_memory *memory;
    int fd = -1;

    ENTER(cuMemRetainAllocationHandle, DRIVER);
    pthread_mutex_lock(&fake_lock);
    memory = fake_find((uintptr_t)address);
    if (memory && memory->kind == DEVICE)
        fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&fake_lock);
    return fd < 0 ? BR_CUDA_INVALID_VALUE : handle_of(fd, out);
}
