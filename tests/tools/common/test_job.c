/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "tools/common/job.h"

static int setup(void **state)
{
    (void)state;
    clearenv();
    br_error(EINVAL, "the words before");
    return 0;
}

static void job_launched__by_any_launcher(void **state)
{
    (void)state;
    assert_false(br_job_launched());
    setenv("PMI_FD", "7", 1);
    setenv("PMI_SIZE", "2", 1);
    assert_true(br_job_launched());
    setenv("BRAID_LAUNCHER", "none", 1);
    assert_false(br_job_launched());
    unsetenv("BRAID_LAUNCHER");
    unsetenv("PMI_FD"); /* a launcher that braid does not know: braid_init() will say so */
    assert_true(br_job_launched());
}

static void job_rank__keeps_the_message(void **state)
{
    (void)state;
    assert_int_equal(br_job_rank(), -1);
    setenv("RANK", "3", 1);
    assert_int_equal(br_job_rank(), -1); /* of how many? */
    setenv("WORLD_SIZE", "4", 1);
    setenv("MASTER_ADDR", "node1", 1);
    setenv("MASTER_PORT", "4000", 1);
    assert_int_equal(br_job_rank(), 3);
    assert_string_equal(br_error_message(), "the words before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(job_launched__by_any_launcher, setup),
        cmocka_unit_test_setup(job_rank__keeps_the_message, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
