/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/transport/gpudirect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/fake_cuda/fresh.h"

void gpudirect_open(struct gpudirect *trial)
{
    fake_fresh_gpu();
    assert_int_equal(br_copier_create(&trial->copier), 0);
    assert_int_equal(br_copier_open(trial->copier, 1), 1);
    assert_int_equal(br_gpudirect_check_create(trial->copier, 1, &trial->check), 0);
}

void gpudirect_close(struct gpudirect *trial)
{
    br_gpudirect_check_destroy(trial->check);
    br_copier_destroy(trial->copier);
    fake_leave_gpu(0);
}
