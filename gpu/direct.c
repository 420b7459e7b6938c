/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu/direct.h"

#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "gpu/driver.h"

static br_cuda_result direct_ask(const struct br_cuda *cuda, const void *memory,
                                 struct br_direct_memory *out, struct CUctx_st **context)
{
    unsigned int attributes[] = {BR_CUDA_POINTER_BUFFER, BR_CUDA_POINTER_START,
                                 BR_CUDA_POINTER_BYTES, BR_CUDA_POINTER_DEVICE,
                                 BR_CUDA_POINTER_CONTEXT};
    unsigned long long number = 0;
    br_cuda_pointer base = 0;
    int device = -1;
    void *values[] = {&number, &base, &out->bytes, &device, context};
    br_cuda_result result = cuda->pointer_attributes(5, attributes, values, (uintptr_t)memory);

    out->base = (void *)(uintptr_t)base;
    out->number = number;
    out->gpu = device + 1;
    return result;
}

int br_direct_find(const void *memory, size_t bytes, struct br_direct_memory *out)
{
    struct CUctx_st *context = NULL, *primary;
    const struct br_cuda *cuda;
    br_cuda_result result;
    size_t offset;
    int rc = br_cuda_driver(&cuda);

    if (rc)
        return rc;
    *out = (struct br_direct_memory){0};
    result = direct_ask(cuda, memory, out, &context);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "the allocation that %p lies in", memory);
    offset = (size_t)((uintptr_t)memory - (uintptr_t)out->base);
    if (!out->number || !out->base || out->gpu < 1 || offset > out->bytes ||
        bytes > out->bytes - offset)
        return br_error(EOPNOTSUPP, "%zu bytes at %p do not lie in one allocation of a GPU", bytes,
                        memory);
    rc = br_cuda_context(out->gpu - 1, &primary);
    if (!rc && context && context != primary)
        rc = br_error(EOPNOTSUPP, "%p is memory of a context that the program has made itself",
                      memory);
    return rc;
}

bool br_direct_is_valid(const struct br_direct_memory *memory)
{
    struct br_direct_memory now = {0};
    struct CUctx_st *context = NULL;
    const struct br_cuda *cuda;

    return !br_cuda_driver(&cuda) &&
           direct_ask(cuda, memory->base, &now, &context) == BR_CUDA_SUCCESS &&
           now.number == memory->number;
}

/* The context of the GPU is current after 0, until br_cuda_leave(). */
static int direct_enter(int gpu, const struct br_cuda **cuda)
{
    struct CUctx_st *context;
    int rc = br_cuda_driver(cuda);

    if (!rc)
        rc = br_cuda_context(gpu - 1, &context);
    return rc ? rc : br_cuda_enter(*cuda, context);
}

/* The whole pages that it lies in. */
static br_cuda_result export_pages(const struct br_cuda *cuda,
                                   const struct br_direct_memory *memory, int *dmabuf,
                                   uint64_t *offset)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
              start = (uintptr_t)memory->base & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory->base + memory->bytes + page - 1) & ~(page - 1);

    *offset = (uintptr_t)memory->base - start;
    return cuda->range_handle(dmabuf, start, end - start, BR_CUDA_RANGE_DMABUF, 0);
}

static int export_now(const struct br_cuda *cuda, const struct br_direct_memory *memory,
                      int *dmabuf, uint64_t *offset)
{
    const unsigned int on = 1;
    br_cuda_result result;

    *dmabuf = -1;
    *offset = 0;
    if (!cuda->pointer_set)
        return br_error(ENOSYS, "the driver has no cuPointerSetAttribute()");
    result = cuda->pointer_set(&on, BR_CUDA_POINTER_SYNC_MEMOPS, (uintptr_t)memory->base);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS for %zu bytes at %p",
                             memory->bytes, memory->base);
    if (cuda->range_handle && export_pages(cuda, memory, dmabuf, offset) != BR_CUDA_SUCCESS)
        *dmabuf = -1;
    return 0;
}

int br_direct_export(const struct br_direct_memory *memory, int *dmabuf, uint64_t *offset)
{
    const struct br_cuda *cuda;
    int rc = direct_enter(memory->gpu, &cuda);

    if (rc)
        return rc;
    rc = export_now(cuda, memory, dmabuf, offset);
    br_cuda_leave(cuda);
    return rc;
}

int br_direct_allocate(int gpu, size_t bytes, struct br_direct_memory *out)
{
    const struct br_cuda *cuda;
    br_cuda_pointer memory = 0;
    br_cuda_result result;
    int rc = direct_enter(gpu, &cuda);

    if (rc)
        return rc;
    result = cuda->memory_alloc(&memory, bytes);
    br_cuda_leave(cuda);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "%zu bytes of GPU %d for NICs", bytes, gpu - 1);
    *out = (struct br_direct_memory){.base = (void *)(uintptr_t)memory, .bytes = bytes, .gpu = gpu};
    rc = br_direct_find(out->base, bytes, out);
    if (rc) {
        br_direct_free(&(struct br_direct_memory){.base = (void *)(uintptr_t)memory, .gpu = gpu});
        *out = (struct br_direct_memory){0};
    }
    return rc;
}

void br_direct_free(const struct br_direct_memory *memory)
{
    const struct br_cuda *cuda;

    if (direct_enter(memory->gpu, &cuda))
        return;
    cuda->memory_free((uintptr_t)memory->base);
    br_cuda_leave(cuda);
}

static int direct_attribute(const struct br_cuda *cuda, unsigned int which, int gpu)
{
    int value = 0;

    return cuda->device_attribute(&value, which, gpu - 1) == BR_CUDA_SUCCESS ? value : 0;
}

/* An older driver knows no such attribute, and promises nothing. */
static bool is_ordered(const struct br_cuda *cuda, int gpu)
{
    return direct_attribute(cuda, BR_CUDA_RDMA_ORDERING, gpu) >= BR_CUDA_RDMA_ORDERED_FOR_OWNER;
}

int br_direct_can_flush(int gpu)
{
    const struct br_cuda *cuda;
    int rc = br_cuda_driver(&cuda);

    if (rc || is_ordered(cuda, gpu))
        return rc;
    if (cuda->flush_rdma &&
        direct_attribute(cuda, BR_CUDA_RDMA_FLUSH, gpu) & BR_CUDA_RDMA_FLUSH_BY_HOST)
        return 0;
    return br_error(EOPNOTSUPP,
                    "GPU %d promises no order of what a NIC writes, and the driver cannot flush "
                    "it: one of CUDA "
                    "11.3 or later may",
                    gpu - 1);
}

int br_direct_flush(int gpu)
{
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc = br_cuda_driver(&cuda);

    if (rc || is_ordered(cuda, gpu))
        return rc;
    rc = direct_enter(gpu, &cuda);
    if (rc)
        return rc;
    result = cuda->flush_rdma(BR_CUDA_FLUSH_CURRENT_CONTEXT, BR_CUDA_FLUSH_TO_OWNER);
    if (result != BR_CUDA_SUCCESS)
        rc = br_cuda_error(cuda, result, "the flush of what a NIC has written to GPU %d", gpu - 1);
    br_cuda_leave(cuda);
    return rc;
}
