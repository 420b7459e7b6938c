/* SPDX-License-Identifier: BSD-3-Clause */
/* The variables of a step of Slurm's. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "braid/braid.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"
#include "protocol/bootstrap/secret.h"
#include "tests/says.h"

/* Task 5 of 7 on three nodes. */
static int setup(void **state)
{
    static const char *const values[][2] = {
        {"SLURM_JOB_ID", "77"},
        {"SLURM_STEP_ID", "3"},
        {"SLURM_PROCID", "5"},
        {"SLURM_STEP_NUM_TASKS", "7"},
        {"SLURM_LOCALID", "2"},
        {"SLURM_NODEID", "1"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"},
        {"SLURM_STEP_NODELIST", "node[03-05]"},
        {"SLURM_DISTRIBUTION", "block"},
        {"MASTER_ADDR", "torchs.own"},
        {"MASTER_PORT", "29500"},
    };

    (void)state;
    clearenv();
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        setenv(values[i][0], values[i][1], 1);
    return 0;
}

static void slurm_fill__a_step(void **state)
{
    struct br_environment e, other;

    (void)state;
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_ptr_equal(e.launcher, &br_launcher_slurm);
    assert_string_equal(e.sign, "SLURM_STEP_ID");
    assert_int_equal(e.rank, 5);
    assert_int_equal(e.size, 7);
    assert_true(e.local_known);
    assert_int_equal(e.local_rank, 2);
    assert_int_equal(e.local_size, 3);
    assert_string_equal(e.address, "node03");
    assert_in_range(e.port, 15000, 30999);
    setenv("SLURM_STEP_ID", "4", 1);
    assert_int_equal(br_environment_read(NULL, &other), 0);
    assert_int_not_equal(other.port, e.port);
}

static void slurm_fill__ours_override(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("BRAID_MASTER_ADDR", "10.0.0.9", 1);
    setenv("BRAID_PORT", "4000", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_string_equal(e.address, "10.0.0.9");
    assert_int_equal(e.port, 4000);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_ptr_equal(e.launcher, &br_launcher_env);
}

static void slurm_fill__one_node_needs_no_name(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("SLURM_NODEID", "0", 1);
    setenv("SLURM_STEP_TASKS_PER_NODE", "7", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_string_equal(e.address, "127.0.0.1");
}

/* Then nobody knows where rank 0 is. */
static void slurm_fill__arbitrary(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("SLURM_DISTRIBUTION", "arbitrary", 1);
    assert_int_equal(br_environment_read(NULL, &e), -EINVAL); /* MASTER_ADDR is not ours */
    assert_says(br_error_message(), "slurm|BRAID_MASTER_ADDR|arbitrary");
    setenv("BRAID_MASTER_ADDR", "node04", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
}

static void slurm_detect__a_batch_script_is_one_process(void **state)
{
    struct br_environment e;

    (void)state;
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_STEP_ID");
    setenv("SLURM_NTASKS", "7", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.size, 1);
    assert_null(e.launcher);
    setenv("SLURM_STEP_ID", "4294967290", 1); /* an interactive step, of salloc */
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_null(e.launcher);
    setenv("BRAID_LAUNCHER", "slurm", 1);
    assert_int_equal(br_environment_read(NULL, &e), -EINVAL);
    assert_says(br_error_message(), "BRAID_LAUNCHER|SLURM_STEP_ID|srun");
}

static void slurm_fill__what_makes_no_sense(void **state)
{
    static const char *const bad[][3] = {
        {"SLURM_PROCID", "7"},
        {"SLURM_PROCID", "x"},
        {"SLURM_STEP_NUM_TASKS", "0"},
        {"SLURM_STEP_TASKS_PER_NODE", "3(y2)"},
        {"SLURM_NODEID", "9", "SLURM_STEP_TASKS_PER_NODE"},
        {"SLURM_STEP_NODELIST", "node["},
    };
    struct br_environment e;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setup(state);
        setenv(bad[i][0], bad[i][1], 1);
        assert_int_equal(br_environment_read(NULL, &e), -EINVAL);
        assert_says(br_error_message(), bad[i][2] ? bad[i][2] : bad[i][0]);
    }
}

static void secret_read__names_the_step(void **state)
{
    struct br_secret one, same, other;
    struct br_environment e;

    (void)state;
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(br_secret_read(&e, NULL, &one), 0);
    assert_int_equal(br_secret_read(&e, NULL, &same), 0);
    assert_memory_equal(&one, &same, sizeof one);
    setenv("SLURM_JOB_ID", "78", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(br_secret_read(&e, NULL, &other), 0);
    assert_memory_not_equal(&one, &other, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(slurm_fill__a_step, setup),
        cmocka_unit_test_setup(slurm_fill__ours_override, setup),
        cmocka_unit_test_setup(slurm_fill__one_node_needs_no_name, setup),
        cmocka_unit_test_setup(slurm_fill__arbitrary, setup),
        cmocka_unit_test_setup(slurm_detect__a_batch_script_is_one_process, setup),
        cmocka_unit_test_setup(slurm_fill__what_makes_no_sense, setup),
        cmocka_unit_test_setup(secret_read__names_the_step, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
