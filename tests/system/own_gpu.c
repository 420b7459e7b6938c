/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/system/own_gpu.h"

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
        fprintf(stderr, "no fake driver: %s\n", br_error_words());
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

void *own_gpu_view(const void *memory)
{
    return fake_cuda_bytes((uintptr_t)memory);
}
