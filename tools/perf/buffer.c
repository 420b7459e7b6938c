/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/buffer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "gpu/driver.h"

/* In the GPU's context, until br_cuda_leave(). */
static int buffer_enter(int gpu, const struct br_cuda **cuda)
{
    struct CUctx_st *context;
    int rc = br_cuda_driver(cuda);

    if (!rc)
        rc = br_cuda_context(gpu, &context);
    return rc ? rc : br_cuda_enter(*cuda, context);
}

int br_buffer_check_gpu(int gpu)
{
    const struct br_cuda *cuda;
    int n = 0, rc = br_cuda_driver(&cuda);

    if (!rc && (cuda->device_count(&n) != BR_CUDA_SUCCESS || gpu >= n))
        rc = br_error(ENODEV, "there is no such GPU, the last one is %d (see `braid info`)", n - 1);
    if (!rc)
        rc = buffer_enter(gpu, &cuda);
    if (rc)
        return br_error_prefix(rc, "--use_cuda %d: ", gpu);
    br_cuda_leave(cuda);
    return 0;
}

static int get_of_gpu(struct br_buffer *buffer, size_t bytes)
{
    const struct br_cuda *cuda;
    br_cuda_pointer memory;
    br_cuda_result result;
    int rc = buffer_enter(buffer->gpu, &cuda);

    if (rc)
        return rc;
    result = cuda->memory_alloc(&memory, bytes);
    br_cuda_leave(cuda);
    if (result != BR_CUDA_SUCCESS)
        return br_cuda_error(cuda, result, "%zu bytes of GPU %d", bytes, buffer->gpu);
    buffer->memory = (uint8_t *)(uintptr_t)memory;
    buffer->host = calloc(1, bytes);
    return buffer->host ? 0 : br_error(ENOMEM, "no memory for a buffer of %zu bytes", bytes);
}

int br_buffer_get(struct br_buffer *buffer, struct braid_comm *comm, size_t bytes, int gpu)
{
    int rc;

    *buffer = (struct br_buffer){.gpu = gpu};
    if (gpu < 0) {
        buffer->memory = buffer->host = braid_alloc(comm, bytes);
        return buffer->memory ? 0 : -ENOMEM;
    }
    rc = get_of_gpu(buffer, bytes);
    if (rc)
        br_buffer_put(buffer);
    return rc;
}

void br_buffer_put(struct br_buffer *buffer)
{
    const struct br_cuda *cuda;

    if (buffer->gpu >= 0 && buffer->memory && !buffer_enter(buffer->gpu, &cuda)) {
        cuda->memory_free((uintptr_t)buffer->memory);
        br_cuda_leave(cuda);
    }
    if (buffer->gpu >= 0)
        free(buffer->host);
    *buffer = (struct br_buffer){.gpu = -1};
}

static int buffer_copy(const struct br_buffer *buffer, void *to, const void *from, size_t bytes)
{
    const struct br_cuda *cuda;
    br_cuda_result result;
    int rc;

    if (to == from || !bytes)
        return 0;
    rc = buffer_enter(buffer->gpu, &cuda);
    if (rc)
        return rc;
    result = cuda->copy((uintptr_t)to, (uintptr_t)from, bytes);
    br_cuda_leave(cuda);
    return result == BR_CUDA_SUCCESS
               ? 0
               : br_cuda_error(cuda, result, "a copy of %zu bytes of GPU %d", bytes, buffer->gpu);
}

int br_buffer_to_gpu(const struct br_buffer *buffer, size_t bytes)
{
    return buffer_copy(buffer, buffer->memory, buffer->host, bytes);
}

int br_buffer_from_gpu(const struct br_buffer *buffer, size_t bytes)
{
    return buffer_copy(buffer, buffer->host, buffer->memory, bytes);
}
