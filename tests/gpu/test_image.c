/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/image.h"
#include "tests/fake_cuda/kernels_on_host.h"

/* A fat binary begins with a magic number, a version, the size of this head and that of all behind
 * it. */
static void br_gpu_image__is_a_whole_fat_binary(void **state)
{
    uint32_t magic;
    uint16_t head;
    uint64_t rest;

    (void)state;
    if (!br_gpu_image.bytes) {
        assert_non_null(strstr(br_gpu_image.architectures, "nvcc")); /* how to get it */
        skip();
    }
    memcpy(&magic, br_gpu_image.bytes, sizeof magic);
    memcpy(&head, br_gpu_image.bytes + 6, sizeof head);
    memcpy(&rest, br_gpu_image.bytes + 8, sizeof rest);
    assert_int_equal(magic, 0xba55ed50);
    assert_int_equal(head + rest, br_gpu_image.end - br_gpu_image.bytes);
    assert_non_null(strstr(br_gpu_image.architectures, "PTX"));
}

/* Every type with every reduction, once, in the order of the enums. */
static void br_gpu_kernels__name_all(void **state)
{
    (void)state;
    for (int i = 0; i < BR_HOST_KERNELS; i++) {
        assert_int_equal(br_host_kernels[i].type, i / BRAID_REDUCTIONS);
        assert_int_equal(br_host_kernels[i].reduction, i % BRAID_REDUCTIONS);
        assert_ptr_equal(br_host_kernel_find(br_host_kernels[i].name), br_host_kernels[i].run);
    }
    assert_string_equal(br_host_kernels[BR_HOST_KERNELS - 1].name, "braid_reduce_uint64_avg");
    assert_null(br_host_kernel_find("braid_reduce_float8_sum"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_gpu_image__is_a_whole_fat_binary),
        cmocka_unit_test(br_gpu_kernels__name_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
