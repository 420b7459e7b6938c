/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "braid/braid.h"
#include "protocol/bootstrap/environment.h"
#include "tests/says.h"

static const char *const names[] = {
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "BRAID_RANK",
    "BRAID_WORLD_SIZE",
    "BRAID_LOCAL_RANK",
    "BRAID_LOCAL_WORLD_SIZE",
    "BRAID_MASTER_ADDR",
    "BRAID_PORT",
    "BRAID_INIT_TIMEOUT",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "PMIX_RANK",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_PROCID",
    "FLUX_JOB_SIZE",
    "BRAID_LAUNCHER",
};

/* Each case starts with a job of four on this host. */
static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "4", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", "29500", 1);
    return 0;
}

static void refused(const char *text)
{
    struct br_environment e;

    assert_int_equal(br_environment_read(NULL, &e), -EINVAL);
    if (!says_all(br_error_message(), text))
        fail_msg("\"%s\" does not say \"%s\"", br_error_message(), text);
}

static void environment_read__torchrun_names(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("LOCAL_RANK", "1", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.rank, 2);
    assert_int_equal(e.size, 4);
    assert_true(e.local_known);
    assert_int_equal(e.local_rank, 1);
    assert_int_equal(e.local_size, 2);
    assert_string_equal(e.address, "localhost");
    assert_int_equal(e.port, 29500);
    assert_int_equal(e.init_timeout, 60 * BR_SEC);
    assert_false(e.torchrun);
}

static void environment_read__own_names_override(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("BRAID_RANK", "7", 1);
    setenv("BRAID_WORLD_SIZE", "8", 1);
    setenv("BRAID_MASTER_ADDR", "::1", 1);
    setenv("BRAID_PORT", "4000", 1);
    setenv("BRAID_INIT_TIMEOUT", "5", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.rank, 7);
    assert_int_equal(e.size, 8);
    assert_string_equal(e.address, "::1");
    assert_int_equal(e.port, 4000);
    assert_int_equal(e.init_timeout, 5 * BR_SEC);
}

static void environment_read__config_overrides_all(void **state)
{
    struct braid_config config = {.size = 3,
                                  .rank = 1,
                                  .master_addr = "10.0.0.1",
                                  .master_port = 77,
                                  .init_timeout_ms = 1500};
    struct br_environment e;

    (void)state;
    setenv("BRAID_RANK", "7", 1);
    assert_int_equal(br_environment_read(&config, &e), 0);
    assert_int_equal(e.rank, 1);
    assert_int_equal(e.size, 3);
    assert_string_equal(e.address, "10.0.0.1");
    assert_int_equal(e.port, 77);
    assert_int_equal(e.init_timeout, 1500 * BR_MS);
    config.rank = 3;
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
    assert_says(br_error_message(), "rank=3|size=3");
    unsetenv("MASTER_ADDR");
    config = (struct braid_config){.size = 2};
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
    assert_says(br_error_message(), "MASTER_ADDR|braid_config|braid_id_create");
    config = (struct braid_config){.size = -1};
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
    config = (struct braid_config){.master_port = 65536};
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
}

static void environment_read__one_deadline_for_all(void **state)
{
    static const uint64_t after[][2] = {{1000, 125}, {8000, 1000}, {60000, 2000}}; /* ms */
    struct br_environment e;

    (void)state;
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        uint64_t before = br_clock_now(), timeout = after[i][0] * BR_MS;
        struct braid_config config = {.init_timeout_ms = (int)after[i][0]};

        assert_int_equal(br_environment_read(&config, &e), 0);
        assert_in_range(e.init_deadline, before + timeout, br_clock_now() + timeout);
        assert_int_equal(e.init_deadline - e.launcher_deadline, after[i][1] * BR_MS);
    }
}

static void environment_read__a_single_process_needs_nothing(void **state)
{
    struct br_environment e;

    (void)state;
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.size, 1);
    assert_int_equal(e.rank, 0);
    assert_int_equal(e.port, 0);
}

static void environment_read__torchrun_owns_its_port(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_true(e.torchrun);
    assert_string_equal(e.run_id, "none");
    assert_int_equal(e.port, 29501);
    setenv("BRAID_PORT", "29500", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_int_equal(e.port, 29500);
    unsetenv("BRAID_PORT");
    setenv("MASTER_PORT", "65535", 1);
    refused("set BRAID_PORT");
}

static void environment_read__missing_values_are_named(void **state)
{
    (void)state;
    unsetenv("RANK");
    refused("RANK|not set");
    setenv("RANK", "2", 1);
    unsetenv("WORLD_SIZE");
    refused("RANK|WORLD_SIZE");
    setenv("WORLD_SIZE", "4", 1);
    unsetenv("MASTER_ADDR");
    refused("MASTER_ADDR|not set");
    setenv("MASTER_ADDR", "localhost", 1);
    unsetenv("MASTER_PORT");
    refused("MASTER_PORT|not set");
}

static void environment_read__wrong_values_are_named(void **state)
{
    static const char *const bad[][2] = {
        {"RANK", "4"},           {"RANK", "-1"},
        {"RANK", "two"},         {"WORLD_SIZE", "0"},
        {"WORLD_SIZE", "x"},     {"WORLD_SIZE", "65537"},
        {"MASTER_PORT", "0"},    {"MASTER_PORT", "65536"},
        {"MASTER_PORT", "http"}, {"BRAID_INIT_TIMEOUT", "0"},
        {"BRAID_RANK", "4x"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setup(state);
        setenv(bad[i][0], bad[i][1], 1);
        refused(bad[i][0]);
    }
    setup(state);
    setenv("LOCAL_RANK", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "2", 1);
    refused("LOCAL_RANK");
    setenv("LOCAL_WORLD_SIZE", "5", 1);
    refused("LOCAL_WORLD_SIZE");
}

static void environment_read__ranks_of_other_launchers_are_refused(void **state)
{
    static const char *const several[][2] = {
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"MV2_COMM_WORLD_SIZE", "2"},
        {"PMI_SIZE", "4"},
        {"MPI_LOCALNRANKS", "2"},
        {"SLURM_STEP_NUM_TASKS", "8"},
        {"FLUX_JOB_SIZE", "3"},
        {"PMIX_RANK", "1"},
    };

    for (size_t i = 0; i < sizeof several / sizeof *several; i++) {
        struct br_environment e;
        char text[64];

        setup(state);
        setenv(several[i][0], several[i][1], 1);
        assert_int_equal(br_environment_read(NULL, &e), 0); /* WORLD_SIZE and RANK are set */
        assert_int_equal(e.size, 4);
        unsetenv("RANK");
        unsetenv("WORLD_SIZE");
        snprintf(text, sizeof text, "%s=%s", several[i][0], several[i][1]);
        refused(text);
        refused("braid run");
        assert_int_equal(br_environment_read(&(struct braid_config){.size = 1}, &e), 0);
        assert_int_equal(br_environment_read(&(struct braid_config){.size = 3, .rank = 1}, &e), 0);
        setenv("WORLD_SIZE", "1", 1);
        setenv("RANK", "0", 1);
        assert_int_equal(br_environment_read(NULL, &e), 0);
        assert_int_equal(e.size, 1);
    }
}

static void environment_read__one_rank_of_other_launchers_is_well(void **state)
{
    static const char *const one[][2] = {
        {"OMPI_COMM_WORLD_SIZE", "1"}, {"PMI_SIZE", "1"},  {"MPI_LOCALNRANKS", "1"},
        {"SLURM_STEP_NUM_TASKS", "1"}, {"PMIX_RANK", "0"}, {"PMI_SIZE", "x4"},
        {"SLURM_NTASKS", "4"}, /* a batch script */
    };

    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        struct br_environment e;

        setup(state);
        unsetenv("RANK");
        unsetenv("WORLD_SIZE");
        setenv("SLURM_PROCID", "0", 1);
        setenv(one[i][0], one[i][1], 1);
        assert_int_equal(br_environment_read(NULL, &e), 0);
        assert_int_equal(e.size, 1);
    }
}

static void environment_read__local_ranks_of_another_job_do_not_count(void **state)
{
    struct br_environment e;

    (void)state;
    setenv("LOCAL_RANK", "2", 1);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    assert_int_equal(br_environment_read(&(struct braid_config){.size = 2, .rank = 1}, &e), 0);
    assert_false(e.local_known);
    assert_int_equal(e.local_size, 1);
    assert_int_equal(br_environment_read(&(struct braid_config){.size = 3, .rank = 2}, &e), 0);
    assert_true(e.local_known);
    assert_int_equal(e.local_rank, 2);
    assert_int_equal(e.local_size, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(environment_read__torchrun_names, setup),
        cmocka_unit_test_setup(environment_read__own_names_override, setup),
        cmocka_unit_test_setup(environment_read__config_overrides_all, setup),
        cmocka_unit_test_setup(environment_read__one_deadline_for_all, setup),
        cmocka_unit_test_setup(environment_read__a_single_process_needs_nothing, setup),
        cmocka_unit_test_setup(environment_read__torchrun_owns_its_port, setup),
        cmocka_unit_test_setup(environment_read__missing_values_are_named, setup),
        cmocka_unit_test_setup(environment_read__wrong_values_are_named, setup),
        cmocka_unit_test_setup(environment_read__ranks_of_other_launchers_are_refused, setup),
        cmocka_unit_test_setup(environment_read__one_rank_of_other_launchers_is_well, setup),
        cmocka_unit_test_setup(environment_read__local_ranks_of_another_job_do_not_count, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
