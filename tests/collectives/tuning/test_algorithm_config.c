/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/tuning/algorithm_config.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

static void parse(const char *topology, const char *text, struct br_algorithm_config *config)
{
    struct br_topology t;

    assert_int_equal(br_topology_parse(&t, topology), 0);
    if (br_algorithm_config_parse(&t, text, config) != 0)
        fail_msg("%s on %s: %s", text, topology, br_error_message());
    br_topology_destroy(&t);
}

static void br_algorithm_config_parse__bml_is_the_papers_shape(void **state)
{
    struct br_algorithm_config config, written;

    (void)state;
    parse("bcube:3,2", "bml", &config);
    assert_int_equal(config.algorithm, BR_BML);
    assert_int_equal(config.shape.threads, 2);
    assert_int_equal(config.shape.n_dimensions, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(config.shape.dimensions[i].size, 3);
        assert_int_equal(config.shape.dimensions[i].level, i);
        assert_int_equal(config.shape.dimensions[i].method, BR_METHOD_DIRECT);
    }
    parse("9", "bml:3,2", &written);
    assert_true(br_algorithm_config_equal(&config, &written));
}

static void br_algorithm_config_parse__blueconnect_takes_factors_methods_and_levels(void **state)
{
    struct br_algorithm_config config;

    (void)state;
    parse("hosts:2x4", "blueconnect", &config);
    assert_int_equal(config.shape.n_dimensions, 2);
    assert_int_equal(config.shape.threads, 1);
    assert_int_equal(config.shape.dimensions[0].size, 4);
    assert_int_equal(config.shape.dimensions[0].level, 0);
    assert_int_equal(config.shape.dimensions[1].level, 1);
    assert_int_equal(config.undecided, 3);
    parse("96", "blueconnect:16h,6r", &config);
    assert_int_equal(config.shape.dimensions[0].method, BR_METHOD_HALVING);
    assert_int_equal(config.shape.dimensions[1].method, BR_METHOD_RING);
    assert_int_equal(config.shape.dimensions[1].level, BR_LEVEL_ANY);
    assert_int_equal(config.undecided, 0);
    parse("24", "blueconnect:4x3dx2", &config);
    assert_int_equal(config.shape.n_dimensions, 3);
    assert_int_equal(config.undecided, 5);
    parse("bcube:4,3", "blueconnect", &config);
    assert_int_equal(config.shape.n_dimensions, 3);
    assert_int_equal(config.shape.dimensions[2].level, 2);
    parse("12", "blueconnect", &config);
    assert_int_equal(config.shape.dimensions[0].size, 4);
    assert_int_equal(config.shape.dimensions[1].size, 3);
}

/* Rounds of twice the distance each, the levels of a cube, or a stage for each factor that is
 * named; two are compared. */
static void br_algorithm_config_parse__bruck_takes_direct_factors(void **state)
{
    static struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS];
    struct br_algorithm_config config;
    char name[BR_ALGORITHM_TEXT];
    struct br_topology t;
    uint32_t n, listed = 0;

    (void)state;
    parse("32", "bruck", &config);
    assert_int_equal(config.shape.n_dimensions, 0);
    assert_string_equal(br_algorithm_config_name(&config, name), "bruck");
    parse("bcube:3,2", "bruck", &config);
    assert_int_equal(config.shape.n_dimensions, 2);
    assert_string_equal(br_algorithm_config_name(&config, name), "bruck");
    parse("32", "bruck:8x4", &config);
    assert_int_equal(config.shape.dimensions[0].size, 8);
    assert_int_equal(config.shape.dimensions[1].size, 4);
    assert_int_equal(config.undecided, 0);
    assert_string_equal(br_algorithm_config_name(&config, name), "bruck:8d,4d");
    assert_int_equal(schedules_prove(BR_BRUCK, &config.shape, 32), 3);
    assert_int_equal(br_topology_parse(&t, "32"), 0);
    n = br_algorithm_config_list(&t, configs);
    for (uint32_t w = 0; w < n; w++)
        listed += br_algorithm_config_equal(&configs[w], &config);
    assert_int_equal(listed, 1);
    br_topology_destroy(&t);
}

static void br_algorithm_config_parse__host_tree_is_of_the_hosts(void **state)
{
    struct br_algorithm_config config;

    (void)state;
    parse("hosts:3x4", "host_tree", &config);
    assert_int_equal(config.shape.dimensions[0].size, 4);
    assert_int_equal(config.shape.dimensions[1].size, 3);
    assert_int_equal(config.undecided, 0);
}

/* A group of neighbouring ranks for each core that all ranks of a host share, as many on each. */
static void br_algorithm_config_parse__core_tree_is_of_the_cores(void **state)
{
    static const struct {
        const char *topology;
        uint32_t cores, ranks; /* ranks: of a core; 0: it is refused, and not compared either */
    } cases[] = {{"8", 2, 4}, {"12", 4, 3}, {"8", 0, 0},
                 {"8", 1, 0}, {"7", 2, 0},  {"hosts:2x4", 2, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct br_algorithm_config config, configs[BR_ALGORITHM_CONFIGS];
        struct br_topology t;
        uint32_t n, listed = 0;

        assert_int_equal(br_topology_parse(&t, cases[i].topology), 0);
        t.cores = cases[i].cores;
        assert_int_equal(br_algorithm_config_parse(&t, "core_tree", &config),
                         cases[i].ranks ? 0 : -EINVAL);
        if (cases[i].ranks) {
            assert_int_equal(config.shape.dimensions[0].size, cases[i].ranks);
            assert_int_equal(config.shape.dimensions[1].size, cases[i].cores);
        } else {
            assert_says(br_error_message(), "core_tree|cores");
        }
        /* by its full name wherever the numbers are right: so calibrations name it */
        if (cases[i].ranks) {
            struct br_algorithm_config again;
            char name[BR_ALGORITHM_TEXT];

            t.cores = 0;
            br_algorithm_config_name(&config, name);
            assert_int_equal(br_algorithm_config_parse(&t, name, &again), 0);
            assert_true(br_algorithm_config_equal(&again, &config));
            t.cores = cases[i].cores;
        }
        n = br_algorithm_config_list(&t, configs);
        for (uint32_t w = 0; w < n; w++)
            listed += configs[w].algorithm == BR_CORE_TREE;
        assert_int_equal(listed, cases[i].ranks > 0);
        br_topology_destroy(&t);
    }
}

static void br_algorithm_config_parse__refuses_in_words(void **state)
{
    static const struct {
        const char *topology, *text, *message;
    } bad[] = {
        {"9", "nonsense", "flat"},
        {"9", "host_tree", "hosts"},
        {"9", "nonsense", "blueconnect"},
        {"9", "bml", "BRAID_TOPOLOGY"},
        {"9", "bml:2,2", "4 ranks"},
        {"9", "bml:3", "3"},
        {"9", "ring:3", "colon"},
        {"9", "dimensional", "bml"},
        {"9", "blueconnect:4x2", "9 ranks"},
        {"9", "bruck:4x2", "bruck|9 ranks"},
        {"9", "bruck:3x", "bruck|factors"},
        {"9", "bruck:3h,3", "bruck|halving|4x2"},
        {"9", "bruck:3,3r", "bruck|rings|4x2"},
        {"8", "core_tree:4h,2r", "core_tree:4h,2r|4x2"},
        {"8", "core_tree:8", "core_tree:8|cores|4x2"},
        {"8", "core_tree:2x2x2", "core_tree:2x2x2|cores|4x2"},
        {"8", "core_tree:8x1", "core_tree:8x1|cores|4x2"},
        {"8", "core_tree:1x8", "core_tree:1x8|cores|4x2"},
        {"8", "core_tree:4x2/2", "core_tree:4x2/2|cores|4x2"},
        {"8", "core_tree:4x3", "core_tree|8 ranks"},
        {"9", "blueconnect:", "factors"},
        {"9", "blueconnect:3x", "factors"},
        {"9", "blueconnect:3q", "factors"},
        {"9", "blueconnect:3x3/3", "factors"},
        {"9", "blueconnect:3x3/0", "factors"},
        {"9", "blueconnect:3x3/", "factors"},
        {"9", "blueconnect:3x3/1x", "factors"},
        {"hosts:2x4 cyclic", "host_tree", "host"},
        {"9", "blueconnect:-3", "factors"},
        {"9", "blueconnect:99999999999x2", "factors"},
        {"9", "blueconnect:3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3x3", "9 ranks"},
    };
    struct br_topology t;
    struct br_algorithm_config config;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_topology_parse(&t, bad[i].topology), 0);
        assert_int_equal(br_algorithm_config_parse(&t, bad[i].text, &config), -EINVAL);
        if (!says_all(br_error_message(), bad[i].message))
            fail_msg("%s: '%s' does not say '%s'", bad[i].text, br_error_message(), bad[i].message);
        br_topology_destroy(&t);
    }
}

static void br_algorithm_config_name__is_found_again(void **state)
{
    static const char *const topologies[] = {"bcube:3,2",
                                             "hosts:2x4",
                                             "12",
                                             "7",
                                             "hosts:3x4 cyclic",
                                             "hosts:4 uneven, 34 ranks",
                                             "hosts:12x5",
                                             "96",
                                             "1024",
                                             "55440",
                                             "65536"};
    static struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS];

    (void)state;
    for (size_t i = 0; i < sizeof topologies / sizeof *topologies; i++) {
        struct br_topology t;
        uint32_t n;

        assert_int_equal(br_topology_parse(&t, topologies[i]), 0);
        n = br_algorithm_config_list(&t, configs);
        assert_true(n > BR_HALVING);
        for (uint32_t w = 0; w < n; w++) {
            char name[BR_ALGORITHM_TEXT];
            struct br_algorithm_config again;

            assert_int_equal(
                br_algorithm_config_parse(&t, br_algorithm_config_name(&configs[w], name), &again),
                0);
            assert_true(br_algorithm_config_equal(&again, &configs[w]));
            for (uint32_t other = 0; other < w; other++)
                assert_false(br_algorithm_config_equal(&configs[other], &configs[w]));
        }
        br_topology_destroy(&t);
    }
}

/* The verifier proves BML in every BCube up to 64 ranks. */
static void br_algorithm_config_parse__bml_is_proved(void **state)
{
    static const char *const cubes[] = {"bcube:2,1", "bcube:2,2", "bcube:3,2", "bcube:2,3",
                                        "bcube:4,2", "bcube:5,2", "bcube:3,3", "bcube:2,5",
                                        "bcube:8,2", "bcube:4,3"};

    (void)state;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct br_topology t;
        struct br_algorithm_config config;

        assert_int_equal(br_topology_parse(&t, cubes[i]), 0);
        assert_int_equal(br_algorithm_config_parse(&t, "bml", &config), 0);
        if (t.n <= 16) {
            assert_true(schedules_prove(BR_BML, &config.shape, t.n) > 0);
        } else {
            struct br_schedule_request request = {
                .algorithm = BR_BML, .n = t.n, .shape = config.shape};
            struct schedules schedules;

            schedules_build(&schedules, request, IN_PLACE_SOME);
            if (schedules_verify(&schedules, 1) != 0)
                fail_msg("%s: %s", cubes[i], br_error_message());
            schedules_free(&schedules);
        }
        br_topology_destroy(&t);
    }
}

/* Ranks 0, 4, 8 are on one host: its memory first, then the network, as where they follow each
 * other. */
static void
br_algorithm_config_parse__blueconnect_begins_in_the_host_where_ranks_are_dealt_out(void **state)
{
    struct br_algorithm_config config, dealt;
    struct br_stages stages;

    (void)state;
    parse("hosts:4x3 cyclic", "blueconnect", &dealt);
    parse("12", "blueconnect:4x3/2", &config);
    assert_true(br_algorithm_config_equal(&config, &dealt));
    br_shape_stages(&config.shape, 0, &stages);
    assert_int_equal(stages.stages[0].size, 3);
    assert_int_equal(stages.stages[0].stride, 4);
    assert_int_equal(stages.stages[1].size, 4);
    assert_int_equal(stages.stages[1].stride, 1);
    assert_true(schedules_prove(BR_BLUECONNECT, &config.shape, 12) > 0);
    parse("12", "blueconnect:2d,2h,3r/3", &config);
    assert_true(schedules_prove(BR_BLUECONNECT, &config.shape, 12) > 0);
    parse("12", "blueconnect:4x3", &config);
    assert_false(br_algorithm_config_equal(&config, &dealt));
    assert_true(br_algorithm_config_digest(&config) != br_algorithm_config_digest(&dealt));
    /* Uneven hosts: any two factors. */
    parse("hosts:3 uneven, 8 ranks", "blueconnect", &config);
    assert_int_equal(config.shape.dimensions[0].size * config.shape.dimensions[1].size, 8);
}

/* What is listed for networks of many ranks, or with hosts of any kind, does what it should. */
static void br_algorithm_config_list__shapes_are_proved(void **state)
{
    static const char *const networks[] = {"96", "hosts:12x2", "hosts:12x2 cyclic",
                                           "hosts:5 uneven, 24 ranks"};
    static struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS];

    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct br_topology t;
        uint32_t shapes = 0;

        assert_int_equal(br_topology_parse(&t, networks[i]), 0);
        for (uint32_t w = 0, n = br_algorithm_config_list(&t, configs); w < n; w++) {
            struct br_schedule_request request = {
                .algorithm = configs[w].algorithm, .n = t.n, .shape = configs[w].shape};
            struct schedules schedules;
            char name[BR_ALGORITHM_TEXT];

            if (configs[w].algorithm != BR_BLUECONNECT || t.n > schedules_most_ranks() + 32)
                continue;
            schedules_build(&schedules, request, IN_PLACE_SOME);
            if (schedules_verify(&schedules, 1) != 0)
                fail_msg("%s on %s: %s", br_algorithm_config_name(&configs[w], name), networks[i],
                         br_error_message());
            schedules_free(&schedules);
            shapes++;
        }
        assert_true(shapes >= 3 || t.n > schedules_most_ranks() + 32);
        br_topology_destroy(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_algorithm_config_parse__bml_is_the_papers_shape),
        cmocka_unit_test(br_algorithm_config_parse__blueconnect_takes_factors_methods_and_levels),
        cmocka_unit_test(br_algorithm_config_parse__bruck_takes_direct_factors),
        cmocka_unit_test(br_algorithm_config_parse__host_tree_is_of_the_hosts),
        cmocka_unit_test(br_algorithm_config_parse__core_tree_is_of_the_cores),
        cmocka_unit_test(br_algorithm_config_parse__refuses_in_words),
        cmocka_unit_test(br_algorithm_config_name__is_found_again),
        cmocka_unit_test(br_algorithm_config_parse__bml_is_proved),
        cmocka_unit_test(
            br_algorithm_config_parse__blueconnect_begins_in_the_host_where_ranks_are_dealt_out),
        cmocka_unit_test(br_algorithm_config_list__shapes_are_proved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
