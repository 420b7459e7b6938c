/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/calibration.h"

static char path[] = "/tmp/braid_calibration_XXXXXX";

static int make_path(void **state)
{
    int fd;

    (void)state;
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static void put(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void br_calibration_write__is_read_again_to_the_bit(void **state)
{
    struct br_calibration written = {.topology = "bcube:3,2",
                                     .version = "0.1.0",
                                     .date = "2026-11-21T15:04:05Z"},
                          got;

    (void)state;
    written.model.n_levels = 2;
    written.model.levels[0] = (struct br_cost_level){1.0 / 3e5, 1e-6 / 7, 0.8e-9 / 3};
    written.model.levels[1] = (struct br_cost_level){2.0 / 3e5, 0, 1e-9 / 7};
    written.model.gammas[BR_COST_4_BYTES] = written.model.gamma = 0.1e-9 / 3;
    written.model.gammas[BR_COST_2_BYTES] = 0.7e-9;
    written.model.copy = 0.2e-9 / 3;
    written.model.relay = 1e-5 / 3;
    assert_int_equal(br_calibration_write(path, &written), 0);
    assert_int_equal(br_calibration_read(path, &got), 0);
    assert_string_equal(got.topology, written.topology);
    assert_string_equal(got.date, written.date);
    assert_int_equal(got.model.n_levels, 2);
    assert_memory_equal(got.model.levels, written.model.levels, sizeof got.model.levels);
    assert_true(got.model.gamma == written.model.gamma);
    assert_true(got.model.gammas[BR_COST_2_BYTES] == 0.7e-9);
    assert_true(got.model.gammas[BR_COST_8_BYTES] == written.model.gamma);
    assert_true(got.model.copy == written.model.copy);
    assert_true(got.model.relay == written.model.relay);
}

#define HEAD "{\"format\": 1, \"braid\": \"0.1.0\", \"date\": \"now\", \"topology\": \"flat:4\", "
#define GAMMA                                                                                                \
    "\"gamma\": {\"4 bytes\": 1e-10, \"8 bytes\": 1e-10, \"2 bytes\": 1e-10, \"1 byte\": 1e-10}, "           \
    "\"relay\": 0, \"copy\": "                                                                               \
    "0, "
#define LEVELS "\"levels\": [{\"alpha\": 1e-6, \"overhead\": 0, \"beta\": 1e-9}]}"

static void br_calibration_read__says_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "empty"},
        {"alpha: 3", "not JSON"},
        {"{}", "\"format\""},
        {"{\"format\": 2}", "measure again"},
        {"{\"format\": 1, \"topology\": 3}", "\"topology\""},
        {HEAD GAMMA "\"levels\": 3}", "list of 1 to"},
        {HEAD GAMMA "\"levels\": []}", "list of 1 to"},
        {HEAD GAMMA "\"levels\": [7]}", "\"alpha\""},
        {HEAD GAMMA "\"levels\": [{\"alpha\": 1, \"overhead\": 0, \"beta\": 0}]}", "beta of level 0"},
        {HEAD GAMMA "\"levels\": [{\"alpha\": -1, \"overhead\": 0, \"beta\": 1}]}", "\"alpha\""},
        {HEAD GAMMA "\"levels\": [{\"alpha\": 1e999, \"overhead\": 0, \"beta\": 1}]}", "\"alpha\""},
        {HEAD "\"copy\": 0, \"relay\": 0, " LEVELS, "\"4 bytes\""},
    };
    struct br_calibration calibration;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(bad[i].text);
        assert_int_equal(br_calibration_read(path, &calibration), -EINVAL);
        if (!strstr(br_error_words(), bad[i].words) || !strstr(br_error_words(), path))
            fail_msg("%s: %s", bad[i].text, br_error_words());
    }
    put(HEAD GAMMA LEVELS);
    assert_int_equal(br_calibration_read(path, &calibration), 0);
    assert_int_equal(br_calibration_read("/nowhere/at/all", &calibration), -ENOENT);
}

static void br_calibration_check__asks_for_the_same_network(void **state)
{
    static const struct {
        const char *measured, *here;
        uint32_t levels;
        bool fits;
    } cases[] = {
        {"flat:4", "flat:8", 1, true},        {"flat:4", "flat:8", 3, true},
        {"flat:4", "hosts:2x4", 1, false},    {"hosts:2x4", "hosts:3x2", 2, true},
        {"bcube:3,2", "bcube:4,2", 2, true},  {"bcube:3,2", "bcube:2,3", 2, false},
        {"bcube:3,2", "hosts:2x4", 2, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_calibration calibration = {.model.n_levels = cases[i].levels};
        struct br_topology t;

        strcpy(calibration.topology, cases[i].measured);
        assert_int_equal(br_topology_parse(&t, cases[i].here), 0);
        assert_int_equal(br_calibration_check(&calibration, &t), cases[i].fits ? 0 : -EINVAL);
        br_topology_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(br_calibration_write__is_read_again_to_the_bit, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(br_calibration_read__says_what_is_wrong, make_path, remove_path),
        cmocka_unit_test(br_calibration_check__asks_for_the_same_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
