/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fake_cuda/fresh.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/fake_cuda/fake_cuda.h"

static const struct br_cuda *cuda;
static unsigned left_before; /* by tests that leave something */

void fake_fresh(void)
{
    fake_cuda_reset();
    left_before = fake_cuda_left();
    setenv("BRAID_CUDA_LIBRARY", FAKE_CUDA_LIBRARY, 1);
    br_cuda_forget();
}

const struct br_cuda *fake_fresh_gpu(void)
{
    struct CUctx_st *context;

    fake_fresh();
    assert_int_equal(br_cuda_driver(&cuda), 0);
    assert_int_equal(br_cuda_context(0, &context), 0);
    assert_int_equal(br_cuda_enter(cuda, context), 0);
    return cuda;
}

uint8_t *fake_allocate(size_t bytes)
{
    br_cuda_pointer memory;

    assert_int_equal(cuda->memory_alloc(&memory, bytes), 0);
    return (uint8_t *)(uintptr_t)memory;
}

void fake_release(const void *memory)
{
    assert_int_equal(cuda->memory_free((uintptr_t)memory), 0);
}

void fake_leave_gpu(unsigned stays)
{
    br_cuda_leave(cuda);
    assert_int_equal(fake_cuda_left(), left_before + stays);
}
