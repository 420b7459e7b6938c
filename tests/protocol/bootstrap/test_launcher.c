/* SPDX-License-Identifier: BSD-3-Clause */
/* Which launcher is asked. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"
#include "tests/says.h"

static int setup(void **state)
{
    (void)state;
    clearenv();
    return 0;
}

/* The name of the launcher that is found, "" for none. */
static const char *found(const char *sign)
{
    const struct br_launcher *launcher = NULL;
    const char *shown = NULL;

    assert_int_equal(br_launcher_find(&launcher, &shown), 0);
    assert_string_equal(shown, sign);
    return launcher ? launcher->name : "";
}

static void launcher_find__nothing_is_one_process(void **state)
{
    (void)state;
    assert_string_equal(found(""), "");
}

static void launcher_find__by_its_variables(void **state)
{
    (void)state;
    setenv("RANK", "1", 1);
    assert_string_equal(found("RANK"), "env");
    setenv("BRAID_WORLD_SIZE", "2", 1);
    assert_string_equal(found("BRAID_WORLD_SIZE"), "env");
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    assert_string_equal(found("TORCHELASTIC_RUN_ID"), "torchrun");
}

/* torchrun under mpiexec under srun: the innermost counts. */
static void launcher_find__the_innermost(void **state)
{
    (void)state;
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    assert_string_equal(found("SLURM_STEP_ID"), "slurm");
    setenv("PMI_PORT", "node1:4000", 1);
    setenv("PMI_ID", "0", 1);
    assert_string_equal(found("PMI_PORT"), "pmi1");
    setenv("PMI_FD", "7", 1);
    setenv("PMI_SIZE", "2", 1);
    assert_string_equal(found("PMI_FD"), "pmi1");
    setenv("RANK", "1", 1);
    assert_string_equal(found("RANK"), "env");
}

static void launcher_find__the_user_chooses(void **state)
{
    (void)state;
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    setenv("WORLD_SIZE", "2", 1);
    setenv("BRAID_LAUNCHER", "env", 1);
    assert_string_equal(found("WORLD_SIZE"), "env");
    setenv("BRAID_LAUNCHER", "none", 1);
    assert_string_equal(found("BRAID_LAUNCHER"), "");
    unsetenv("WORLD_SIZE");
    setenv("BRAID_LAUNCHER", "torchrun", 1);
    assert_string_equal(found("BRAID_LAUNCHER"), "torchrun");
}

static void launcher_find__an_unknown_word(void **state)
{
    const struct br_launcher *launcher;
    const char *sign;

    (void)state;
    setenv("BRAID_LAUNCHER", "mpirun", 1);
    assert_int_equal(br_launcher_find(&launcher, &sign), -EINVAL);
    assert_null(launcher);
    for (int i = 0; br_launcher_at(i); i++)
        assert_says(br_error_message(), br_launcher_at(i)->name);
    assert_says(br_error_message(), "BRAID_LAUNCHER|mpirun|auto|none");
}

static void launcher_find__none_overrides_a_refusal(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("FLUX_JOB_SIZE", "3", 1);
    assert_int_equal(br_environment_read(NULL, &e), -EINVAL);
    assert_says(br_error_message(), "FLUX_JOB_SIZE=3|flux|BRAID_LAUNCHER=none");
    setenv("BRAID_LAUNCHER", "none", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.size, 1);
    assert_null(e.launcher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launcher_find__nothing_is_one_process, setup),
        cmocka_unit_test_setup(launcher_find__by_its_variables, setup),
        cmocka_unit_test_setup(launcher_find__the_innermost, setup),
        cmocka_unit_test_setup(launcher_find__the_user_chooses, setup),
        cmocka_unit_test_setup(launcher_find__an_unknown_word, setup),
        cmocka_unit_test_setup(launcher_find__none_overrides_a_refusal, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
