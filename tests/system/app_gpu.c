/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/app_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/fake_cuda/fake_cuda.h"

static const struct br_cuda *cuda;
/* Of a real GPU, whose memory the CPU does not see: a copy of each allocation. */
static struct {
    uintptr_t at;
    size_t bytes;
    uint8_t *copy;
} copies[4];
#define COPIES (int)(sizeof copies / sizeof *copies)

bool own_gpu_is_real(void)
{
    const char *library = getenv("BRAID_CUDA_LIBRARY");

    return library && strcmp(library, FAKE_CUDA_LIBRARY) != 0;
}

const struct br_cuda *own_gpu(void)
{
    struct CUctx_st *context;

    if (cuda)
        return cuda;
    if (br_cuda_driver(&cuda) || br_cuda_context(0, &context) || br_cuda_enter(cuda, context)) {
        fprintf(stderr, "no GPU, fake or not: %s\n", br_error_message());
        exit(1);
    }
    return cuda;
}

static void must(br_cuda_result result, const char *what)
{
    if (result == BR_CUDA_SUCCESS)
        return;
    fprintf(stderr, "GPU: %s: %u\n", what, result);
    exit(1);
}

/* The allocation that an address lies in; -1: none. */
static int copied(const void *memory)
{
    for (int i = 0; i < COPIES; i++)
        if (copies[i].copy && (uintptr_t)memory - copies[i].at < copies[i].bytes)
            return i;
    return -1;
}

void *own_gpu_alloc(size_t bytes)
{
    br_cuda_pointer memory;
    int i = 0;

    must(own_gpu()->memory_alloc(&memory, bytes), "cuMemAlloc");
    if (own_gpu_is_real()) {
        while (i < COPIES && copies[i].copy)
            i++;
        if (i == COPIES || !(copies[i].copy = calloc(1, bytes))) {
            fprintf(stderr, "no place for a copy of the GPU's memory\n");
            exit(1);
        }
        copies[i].at = (uintptr_t)memory;
        copies[i].bytes = bytes;
    }
    return (void *)(uintptr_t)memory;
}

void own_gpu_free(void *memory)
{
    int i = copied(memory);

    must(own_gpu()->memory_free((uintptr_t)memory), "cuMemFree");
    if (i >= 0) {
        free(copies[i].copy);
        copies[i].copy = NULL;
    }
}

void own_gpu_written(const void *memory)
{
    int i = copied(memory);

    if (i >= 0)
        must(cuda->copy(copies[i].at, (uintptr_t)copies[i].copy, copies[i].bytes), "cuMemcpy");
}

void own_gpu_read(const void *memory)
{
    int i = copied(memory);

    if (i >= 0)
        must(cuda->copy((uintptr_t)copies[i].copy, copies[i].at, copies[i].bytes), "cuMemcpy");
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
    int i = copied(memory);

    if (i >= 0)
        return copies[i].copy + ((uintptr_t)memory - copies[i].at);
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
