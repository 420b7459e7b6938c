/* SPDX-License-Identifier: BSD-3-Clause */
/* On the fake driver, and a back end that does what the test says. */
#include "transport/gpudirect_check.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "mirror.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/transport/gpudirect.h"

static struct gpudirect trial;

static const struct br_device_config config = {.name = "nic0"};

static int setup(void **state)
{
    (void)state;
    mirror_reset();
    gpudirect_open(&trial);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gpudirect_close(&trial);
    return 0;
}

static void run__says_which_way(void **state)
{
    (void)state;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 0);
    assert_true(mirror.dmabuf >= 0);
    assert_int_equal(br_copier_counters(trial.copier).to_gpu_bytes, 0); /* no payload */
    assert_int_equal(br_copier_counters(trial.copier).to_host_bytes, 0);
    mirror.no_dmabuf = "the driver is old";
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 1);
    fake_cuda()->no_dmabuf = true;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 1);
    assert_int_equal(mirror.dmabuf, -1);
}

static void run__in_the_words_of_the_back_end(void **state)
{
    (void)state;
    mirror.refuses = EFAULT;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), -EFAULT);
    assert_string_equal(br_error_message(), "no way");
}

/* A device that says it has written and has not, also when an earlier one had; and one whose bytes
 * go astray. */
static void run__looks_at_every_byte(void **state)
{
    (void)state;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 0);
    mirror.moves = false;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), -EIO);
    mirror.moves = true;
    mirror.spoils = 65536;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), -EIO);
    assert_non_null(strstr(br_error_message(), "byte 65535"));
    mirror.spoils = 0;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 0);
}

static void run__flushes_where_it_must(void **state)
{
    (void)state;
    fake_cuda()->unordered = true;
    assert_int_equal(br_gpudirect_check_run(trial.check, &mirror_ops, &config), 0);
    assert_int_equal(fake_cuda_counters().flushes, 1);
}

static void create__no_memory(void **state)
{
    struct br_gpudirect_check *none = NULL;

    (void)state;
    strcpy(fake_cuda()->fail, "cuMemAlloc_v2");
    fake_cuda()->fail_result = BR_CUDA_OUT_OF_MEMORY;
    assert_int_equal(br_gpudirect_check_create(trial.copier, 1, &none), -ENOMEM);
    fake_cuda()->fail[0] = 0;
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup_teardown(run__says_which_way, setup, teardown),
        cmocka_unit_test_setup_teardown(run__in_the_words_of_the_back_end, setup, teardown),
        cmocka_unit_test_setup_teardown(run__looks_at_every_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(run__flushes_where_it_must, setup, teardown),
        cmocka_unit_test_setup_teardown(create__no_memory, setup, teardown),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
