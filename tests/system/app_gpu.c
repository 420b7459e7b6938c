/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/app_gpu.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"

static const struct br_cuda *cuda;

const struct br_cuda *own_gpu(void)
{
    struct CUctx_st *context;

    if (cuda)
        return cuda;
    if (br_cuda_driver(&cuda) || br_cuda_context(0, &context) || br_cuda_enter(cuda, context)) {
        fprintf(stderr, "no fake driver: %s\n", br_error_message());
        exit(1);
    }
    return cuda;
}

void *own_gpu_alloc(size_t bytes)
{
    br_cuda_pointer memory;

    if (own_gpu()->memory_alloc(&memory, bytes) != BR_CUDA_SUCCESS) {
        fprintf(stderr, "no memory on the fake GPU: %zu bytes\n", bytes);
        exit(1);
    }
    return (void *)(uintptr_t)memory;
}

void own_gpu_free(void *memory)
{
    own_gpu()->memory_free((uintptr_t)memory);
}

static void must(br_cuda_result result, const char *what)
{
    if (result == BR_CUDA_SUCCESS)
        return;
    fprintf(stderr, "fake GPU: %s: %u\n", what, result);
    exit(1);
}

char *own_gpu_reserve(size_t bytes)
{
    br_cuda_pointer at;

    must(own_gpu()->vmm_reserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
    return (char *)(uintptr_t)at;
}

void own_gpu_unreserve(void *at, size_t bytes)
{
    must(own_gpu()->vmm_unreserve((uintptr_t)at, bytes), "cuMemAddressFree");
}

void own_gpu_map(void *at, size_t bytes, bool exportable)
{
    must(fake_cuda_create((uintptr_t)at, bytes, exportable),
         "cuMemCreate, cuMemMap, cuMemSetAccess");
}

void own_gpu_unmap(void *at, size_t bytes)
{
    must(own_gpu()->vmm_unmap((uintptr_t)at, bytes), "cuMemUnmap");
}

void *own_gpu_view(const void *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}

static uint8_t byte(size_t at, uint32_t seed)
{
    return (uint8_t)(at * 31 + at / 4093 + seed);
}

void own_gpu_fill(const void *memory, size_t bytes, uint32_t seed)
{
    uint8_t *view = own_gpu_view(memory);

    for (size_t at = 0; at < bytes; at++)
        view[at] = byte(at, seed);
}

size_t own_gpu_wrong(const void *memory, size_t bytes, uint32_t seed)
{
    const uint8_t *view = own_gpu_view(memory);
    size_t at = 0;

    while (at < bytes && view[at] == byte(at, seed))
        at++;
    return at;
}
