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
#include "braid/braid.h"
#include "collectives/tuning/calibration.h"
#include "tests/says.h"

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
    written.model.levels[0] =
        (struct br_cost_level){.alpha = 1.0 / 3e5, .overhead = 1e-6 / 7, .beta = 0.8e-9 / 3};
    written.model.levels[1] =
        (struct br_cost_level){.alpha = 2.0 / 3e5, .beta = 1e-9 / 7, .one_way = 1e-9 / 13};
    written.model.gammas[BR_COST_4_BYTES] = written.model.gamma = 0.1e-9 / 3;
    written.model.gammas[BR_COST_2_BYTES] = 0.7e-9;
    written.model.copy = 0.2e-9 / 3;
    written.model.relay = 1e-5 / 3;
    written.model.machine = (struct br_cost_machine){1e-6 / 3, 1e-9 / 7, 2e-6 / 3, 3e-9 / 7};
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
    assert_memory_equal(&got.model.machine, &written.model.machine, sizeof got.model.machine);
}

static struct br_cost_measured ring_of_4(void)
{
    struct br_cost_measured m = {.collective = BR_ALLREDUCE,
                                 .ranks = 4,
                                 .config.algorithm = BR_RING,
                                 .fit = {.start = 1e-5, .slope = 1e-9 / 3},
                                 .n_points = 3,
                                 .bytes = {1024, 4096, 16384},
                                 .seconds = {1e-5, 2e-5 / 3, 7e-5}};
    struct br_topology topology;

    br_topology_flat(&topology, 4);
    assert_int_equal(br_algorithm_config_parse(&topology, "ring", &m.config), 0);
    return m;
}

static void br_calibration_write__keeps_what_was_measured_besides_the_model(void **state)
{
    struct br_calibration_link link = {
        .from = 1, .to = 2, .n_trips = 2, .trip_bytes = {8, 16}, .trip_seconds = {1e-6, 2e-6}};
    struct br_calibration written = {.topology = "flat:4",
                                     .version = "0.1.0",
                                     .date = "now",
                                     .system = "Linux",
                                     .devices = "tcp:eth0",
                                     .links = &link,
                                     .n_links = 1,
                                     .n_measured = 1,
                                     .measured = {ring_of_4()}},
                          got;

    (void)state;
    written.model.n_levels = 1;
    written.model.levels[0].beta = 1e-9;
    written.types[BRAID_BFLOAT16] = 1e-10 / 3;
    written.congestion[0] = (struct br_calibration_congestion){1e-9, 2e-9 / 3, 3e-9};
    assert_int_equal(br_calibration_write(path, &written), 0);
    if (br_calibration_read(path, &got))
        fail_msg("%s", br_error_message());
    assert_string_equal(got.system, "Linux");
    assert_string_equal(got.devices, "tcp:eth0");
    assert_true(got.types[BRAID_BFLOAT16] == 1e-10 / 3 && got.types[BRAID_FLOAT32] == 0);
    assert_true(got.congestion[0].level == 2e-9 / 3 && got.congestion[0].levels == 3e-9);
    assert_int_equal(got.n_measured, 1);
    assert_true(br_algorithm_config_equal(&got.measured[0].config, &written.measured[0].config));
    assert_int_equal(got.measured[0].ranks, 4);
    assert_true(got.measured[0].fit.slope == 1e-9 / 3);
    assert_memory_equal(got.measured[0].seconds, written.measured[0].seconds,
                        sizeof got.measured[0].seconds);
    assert_null(got.links);
}

static void br_calibration_stale__says_what_has_changed(void **state)
{
    struct br_calibration c = {.topology = "flat:4", .devices = "tcp:eth0"};
    struct br_topology four, eight;
    char text[BR_CALIBRATION_STALE_TEXT];

    (void)state;
    br_topology_flat(&four, 4);
    br_topology_flat(&eight, 8);
    strcpy(c.version, braid_version());
    assert_false(br_calibration_stale(&c, &four, "tcp:eth0", NULL, text));
    assert_false(br_calibration_stale(&c, &four, "", NULL, text));
    assert_true(br_calibration_stale(&c, &eight, "tcp:eth0", NULL, text));
    assert_says(text, "on flat:4|now flat:8");
    assert_true(br_calibration_stale(&c, &eight, "shm:shm0", NULL, text));
    assert_says(text, "over tcp:eth0|now shm:shm0");
    strcpy(c.version, "0.0.0");
    assert_true(br_calibration_stale(&c, &four, "tcp:eth0", NULL, text));
    assert_says(text, "0.0.0");
}

static void br_calibration_stale__sees_that_cores_are_scarce_or_no_more(void **state)
{
    const bool crowded = true, roomy = false;
    struct br_calibration c = {.topology = "flat:4"};
    char text[BR_CALIBRATION_STALE_TEXT];
    struct br_topology four;

    (void)state;
    br_topology_flat(&four, 4);
    assert_false(br_calibration_stale(&c, &four, "", &roomy, text));
    assert_true(br_calibration_stale(&c, &four, "", &crowded, text));
    assert_string_equal(text, "where all ranks did not share few cores, now they do");
    c.model.machine.beta = 1e-9;
    assert_false(br_calibration_stale(&c, &four, "", &crowded, text));
    assert_false(br_calibration_stale(&c, &four, "", NULL, text));
    assert_true(br_calibration_stale(&c, &four, "", &roomy, text));
    assert_string_equal(text, "where all ranks shared few cores, now they do not");
}

#define HEAD "{\"format\": 1, \"braid\": \"0.1.0\", \"date\": \"now\", \"topology\": \"flat:4\", "
#define GAMMA                                                                                      \
    "\"gamma\": {\"4 bytes\": 1e-10, \"8 bytes\": 1e-10, \"2 bytes\": 1e-10, \"1 byte\": 1e-10}, " \
    "\"relay\": 0, \"copy\": "                                                                     \
    "0, "
#define LEVELS "\"levels\": [{\"alpha\": 1e-6, \"overhead\": 0, \"beta\": 1e-9}]}"

#define CONGESTION "{\"alone\": 1, \"level\": 1, \"levels\": 1}"
#define POINTS     "[[8, 1], [16, 2]]"
#define ALGORITHM(collective, name, ranks, points)                                                 \
    "\"algorithms\": [{\"collective\": \"" collective "\", \"algorithm\": \"" name                 \
    "\", \"ranks\": " ranks ", \"a\": 1, \"b\": 1, \"points\": " points "}], "

static void br_calibration_read__says_what_is_wrong(void **state)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "empty"},
        {"alpha: 3", "JSON"},
        {HEAD GAMMA LEVELS " and more", "JSON"},
        {HEAD GAMMA LEVELS "{}", "JSON"},
        {HEAD GAMMA "\"algorithms\": \"x\", " LEVELS, "\"algorithms\"|list"},
        {HEAD GAMMA "\"algorithms\": {}, " LEVELS, "\"algorithms\"|list"},
        {HEAD GAMMA "\"congestion\": 3, " LEVELS, "\"congestion\"|list"},
        {HEAD GAMMA "\"types\": [1], " LEVELS, "\"types\"|object"},
        {HEAD GAMMA "\"types\": {\"\\u001b[1m\": 1}, " LEVELS, "\"types\"|control"},
        {HEAD GAMMA "\"system\": 3, " LEVELS, "\"system\""},
        {HEAD GAMMA "\"devices\": \"\\u009b1m\", " LEVELS, "\"devices\"|control"},
        {"{\"format\": 1, \"topology\": \"flat:4\\u001b[31m\"}", "\"topology\"|control"},
        {"{}", "\"format\""},
        {"{\"format\": 2}", "measure again"},
        {"{\"format\": 1, \"topology\": 3}", "\"topology\""},
        {HEAD GAMMA "\"levels\": 3}", "list|1"},
        {HEAD GAMMA "\"levels\": []}", "list|1"},
        {HEAD GAMMA "\"levels\": [7]}", "\"alpha\""},
        {HEAD GAMMA "\"levels\": [{\"alpha\": 1, \"overhead\": 0, \"beta\": 0}]}", "beta|level 0"},
        {HEAD GAMMA "\"levels\": [{\"alpha\": -1, \"overhead\": 0, \"beta\": 1}]}", "\"alpha\""},
        {HEAD GAMMA "\"levels\": [{\"alpha\": 1e999, \"overhead\": 0, \"beta\": 1}]}", "\"alpha\""},
        {HEAD GAMMA "\"levels\": [{\"alpha\": 1e308, \"overhead\": 0, \"beta\": 1}]}", "0|1e+09"},
        {HEAD "\"copy\": 0, \"relay\": 0, " LEVELS, "\"4 bytes\""},
        {HEAD GAMMA "\"machine\": {}, " LEVELS, "\"overhead\""},
        {HEAD GAMMA "\"machine\": {\"overhead\": 1e308}, " LEVELS, "\"overhead\"|0"},
        {HEAD GAMMA "\"machine\": {\"overhead\": 1, \"beta\": 1e10}, " LEVELS, "\"beta\""},
        {HEAD GAMMA "\"types\": {\"float3\": 1}, " LEVELS, "\"types\""},
        {HEAD GAMMA "\"types\": {\"float32\": -1}, " LEVELS, "\"float32\""},
        {HEAD GAMMA "\"congestion\": [{}], " LEVELS, "\"alone\""},
        {HEAD GAMMA "\"congestion\": [" CONGESTION ", " CONGESTION "], " LEVELS, "1 levels"},
        {HEAD GAMMA "\"algorithms\": [{}], " LEVELS, "\"collective\""},
        {HEAD GAMMA ALGORITHM("nothing", "ring", "4", POINTS) LEVELS, "\"algorithms\""},
        {HEAD GAMMA ALGORITHM("allreduce", "rong", "4", POINTS) LEVELS, "\"algorithms\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "5", POINTS) LEVELS, "5 ranks"},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "3") LEVELS, "\"points\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "[[8, 1]]") LEVELS, "\"points\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "[[8, 1], [8, 2]]") LEVELS, "\"points\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "[[8, 1], [9, 0]]") LEVELS, "\"points\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "[[8, 1], [9, 1e10]]") LEVELS,
         "\"points\""},
        {HEAD GAMMA ALGORITHM("allreduce", "ring", "4", "[[8, 1], 7]") LEVELS, "\"points\""},
    };
    struct br_calibration calibration;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put(bad[i].text);
        assert_int_equal(br_calibration_read(path, &calibration), -EINVAL);
        if (!says_all(br_error_message(), bad[i].message) || !says_all(br_error_message(), path))
            fail_msg("%s: %s", bad[i].text, br_error_message());
    }
    put(HEAD GAMMA LEVELS "\n \n");
    assert_int_equal(br_calibration_read(path, &calibration), 0);
    assert_int_equal(br_calibration_read("/nowhere/at/all", &calibration), -ENOENT);
}

static void br_calibration_read__says_which_fault_a_file_has(void **state)
{
    struct br_calibration calibration;

    (void)state;
    put("");
    assert_int_equal(br_calibration_read(path, &calibration), -EINVAL);
    assert_says(br_error_message(), "empty");
    assert_int_equal(br_calibration_read("/tmp", &calibration), -EINVAL);
    assert_says(br_error_message(), "Is a directory");
    assert_int_equal(br_calibration_read("/dev/zero", &calibration), -EINVAL);
    assert_says(br_error_message(), "1 MiB");
    put(HEAD GAMMA LEVELS);
    assert_int_equal(truncate(path, 4096), 0); /* zero bytes behind it */
    assert_int_equal(br_calibration_read(path, &calibration), -EINVAL);
    assert_says(br_error_message(), "JSON");
}

static const char *content(char text[8192])
{
    FILE *file = fopen(path, "r");

    assert_non_null(file);
    text[fread(text, 1, 8191, file)] = 0;
    fclose(file);
    return text;
}

static void br_calibration_write__has_no_interval_of_two_points(void **state)
{
    struct br_calibration written = {.topology = "flat:4",
                                     .version = "0.1.0",
                                     .date = "now",
                                     .model = {.n_levels = 1, .levels = {{.beta = 1e-9}}},
                                     .n_measured = 1,
                                     .measured = {ring_of_4()}},
                          got;
    char text[8192];

    (void)state;
    for (uint32_t n = 2; n <= 3; n++) {
        struct br_cost_measured *m = &written.measured[0];

        m->n_points = n;
        assert_true(br_cost_fit_line(m->bytes, (const double[]){1e-5, 2e-5, 6e-5}, n, &m->fit));
        assert_int_equal(br_calibration_write(path, &written), 0);
        assert_int_equal(strstr(content(text), "\"a_interval\"") != NULL, n == 3);
        assert_int_equal(strstr(text, "\"b_interval\"") != NULL, n == 3);
        if (br_calibration_read(path, &got))
            fail_msg("%s", br_error_message());
        assert_int_equal(got.n_measured, 1);
    }
}

static void br_calibration_check__asks_for_the_same_network(void **state)
{
    static const struct {
        const char *measured, *here;
        uint32_t levels;
        bool fits;
    } cases[] = {
        {"flat:4", "flat:8", 1, true},        {"flat:4", "flat:8", 3, false},
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
        cmocka_unit_test_setup_teardown(
            br_calibration_write__keeps_what_was_measured_besides_the_model, make_path,
            remove_path),
        cmocka_unit_test(br_calibration_stale__says_what_has_changed),
        cmocka_unit_test(br_calibration_stale__sees_that_cores_are_scarce_or_no_more),
        cmocka_unit_test_setup_teardown(br_calibration_read__says_what_is_wrong, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(br_calibration_read__says_which_fault_a_file_has, make_path,
                                        remove_path),
        cmocka_unit_test_setup_teardown(br_calibration_write__has_no_interval_of_two_points,
                                        make_path, remove_path),
        cmocka_unit_test(br_calibration_check__asks_for_the_same_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
