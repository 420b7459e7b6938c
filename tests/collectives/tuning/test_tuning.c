/* SPDX-License-Identifier: BSD-3-Clause */
/* Formulas and choices on networks that are not flat; the exact timing is the oracle. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/tuning/tuning.h"
#include "tools/plan/timing.h"
#include "tests/collectives/schedules.h"
#include "tests/says.h"

struct network {
    struct br_topology topology;
    struct br_cost_model model;
};

static void open_network(struct network *network, const char *text)
{
    assert_int_equal(br_topology_parse(&network->topology, text), 0);
    br_cost_model_on(&network->model, &network->topology, BR_COST_NETWORK, 1);
}

static void close_network(struct network *network)
{
    br_topology_destroy(&network->topology);
}

static double timed(const struct network *network, const struct br_algorithm_config *config,
                    double bytes, uint32_t fragments)
{
    struct br_schedule_request request = {
        .algorithm = config->algorithm, .n = network->topology.n, .shape = config->shape};
    struct schedules schedules;
    double seconds = 0;

    schedules_build(&schedules, request, IN_PLACE_ALL);
    if (br_timing_run(&network->model, (const struct br_schedule *const *)schedules.of, bytes,
                      fragments, &seconds))
        fail_msg("%s", br_error_message());
    schedules_free(&schedules);
    return seconds;
}

/* More ranks than cores on the one machine of all. */
static void open_crowd(struct network *network, const char *text, enum br_cost_locality place,
                       uint32_t cores)
{
    assert_int_equal(br_topology_parse(&network->topology, text), 0);
    network->topology.cores = cores;
    br_cost_model_on(&network->model, &network->topology, place, 1);
}

static void price(const struct network *network, const char *name, double bytes,
                  struct br_tuning *tuning)
{
    struct br_algorithm_config config;

    if (br_algorithm_config_parse(&network->topology, name, &config) ||
        br_tuning_choose_methods(&network->model, BR_ALLREDUCE, network->topology.n, bytes, &config,
                                 tuning))
        fail_msg("%s: %s", name, br_error_message());
}

/* The topology's port rules are the same in the formulas and in the simulation of the schedules. */
static void br_cost_estimate__agrees_with_the_timing_on_any_network(void **state)
{
    static const char *const networks[] = {"bcube:2,2", "bcube:3,2", "bcube:2,3",       "bcube:4,2",
                                           "hosts:2x4", "hosts:4x3", "hosts:4x3 cyclic"};
    static const char *const names[] = {"ring", "blueconnect", "halving",     "direct",
                                        "bml",  "doubling",    "binary_tree", "double_tree"};

    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct network network;

        open_network(&network, networks[i]);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            bool folds =
                strcmp(names[k], "halving") == 0 && (network.topology.n & (network.topology.n - 1));
            struct br_tuning tuning;
            double ratio;

            if (folds ||
                (network.topology.kind != BR_TOPOLOGY_BCUBE && strcmp(names[k], "bml") == 0))
                continue;
            price(&network, names[k], 64e6, &tuning);
            ratio = timed(&network, &tuning.config, 64e6, tuning.fragments) / tuning.seconds;
            if (ratio < 0.7 || ratio > 1.3)
                fail_msg("%s, %s, %u fragments: %g times the estimate", networks[i], names[k],
                         tuning.fragments, ratio);
        }
        close_network(&network);
    }
}

static void br_tuning_choose__takes_bml_for_large_buffers_in_a_bcube(void **state)
{
    static const char *const cubes[] = {"bcube:3,2", "bcube:2,2", "bcube:2,3", "bcube:4,2"};

    (void)state;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct network network;
        struct br_tuning tuning;
        double n, k, one_link;

        open_network(&network, cubes[i]);
        n = network.topology.n;
        k = network.topology.cube.k;
        one_link = 256e6 * network.model.levels[0].beta;
        assert_int_equal(
            br_tuning_choose(&network.model, BR_ALLREDUCE, network.topology.n, 256e6, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_BML);
        assert_true(tuning.seconds > 2 * (n - 1) / (k * n) * one_link);
        assert_true(tuning.seconds < 1.1 * 2 * (n - 1) / (k * n) * one_link);
        close_network(&network);
    }
}

/* The ranks of a host share its link: a flat ring leaves it idle most of the time. */
static void br_tuning_choose__takes_blueconnect_between_hosts(void **state)
{
    struct br_tuning tuning, ring;
    struct network network;

    (void)state;
    open_network(&network, "hosts:3x4");
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 12, 64e6, &tuning), 0);
    assert_int_equal(tuning.config.algorithm, BR_BLUECONNECT);
    price(&network, "ring", 64e6, &ring);
    assert_true(ring.seconds > 1.3 * tuning.seconds);
    close_network(&network);
}

/* What the cheapest of all factorings into up to four factors, in any order, takes. */
static double cheapest_factoring(const struct network *network, uint32_t n, double bytes,
                                 const char *before, uint32_t depth)
{
    double least = INFINITY;

    for (uint32_t f = 2; f <= n; f++) {
        char name[64];
        struct br_tuning tuning;

        if (n % f)
            continue;
        snprintf(name, sizeof name, "%s%s%u", before, depth ? "x" : ":", f);
        if (f < n && depth < 3) {
            least = fmin(least, cheapest_factoring(network, n / f, bytes, name, depth + 1));
        } else if (f == n) {
            price(network, name, bytes, &tuning);
            least = fmin(least, tuning.seconds);
        }
    }
    return least;
}

static void br_tuning_choose__takes_blueconnect_on_large_flat_networks(void **state)
{
    static const char *const networks[] = {"96", "128", "256", "100"};
    static const double sizes[] = {4096, 65536, 262144, 4 << 20};

    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct network network;
            struct br_tuning tuning;
            double least;

            open_network(&network, networks[i]);
            assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, network.topology.n,
                                              sizes[k], &tuning),
                             0);
            least = cheapest_factoring(&network, network.topology.n, sizes[k], "blueconnect", 0);
            if (tuning.seconds > 1.01 * least)
                fail_msg("%s ranks, %g bytes: %g s, factors do it in %g", networks[i], sizes[k],
                         tuning.seconds, least);
            if (sizes[k] >= 65536)
                assert_int_equal(tuning.config.algorithm, BR_BLUECONNECT);
            close_network(&network);
        }
}

/* Dealt out to the hosts in turns (mpirun --map-by node), ranks reach each other as fast as where
 * they follow each other. */
static void br_tuning_choose__does_not_mind_how_ranks_are_placed(void **state)
{
    static const double sizes[] = {65536, 1 << 20, 16 << 20};

    (void)state;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct network blocks, cyclic;
        struct br_tuning a, b;

        open_network(&blocks, "hosts:6x4");
        open_network(&cyclic, "hosts:6x4 cyclic");
        assert_int_equal(br_tuning_choose(&blocks.model, BR_ALLREDUCE, 24, sizes[k], &a), 0);
        assert_int_equal(br_tuning_choose(&cyclic.model, BR_ALLREDUCE, 24, sizes[k], &b), 0);
        if (b.seconds > 1.01 * a.seconds)
            fail_msg("%g bytes: %g s where ranks follow each other, %g where they are dealt out",
                     sizes[k], a.seconds, b.seconds);
        close_network(&blocks);
        close_network(&cyclic);
    }
}

/* Between hosts finer than the engine's own cut; not in a cube, where that makes four fragments and
 * more. */
static void br_tuning_choose__cuts_finer_where_memory_and_link_take_turns(void **state)
{
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "hosts:2x4");
    network.model.chunk_bytes = 512u << 10;
    price(&network, "blueconnect", 16 << 20, &tuning);
    assert_true(tuning.chunk_bytes < network.model.chunk_bytes && tuning.chunk_bytes >= 64u << 10);
    assert_true(tuning.fragments > 4);
    network.model.chunk_bytes = 32u << 10; /* somebody wants less */
    price(&network, "blueconnect", 16 << 20, &tuning);
    assert_int_equal(tuning.chunk_bytes, 32u << 10);
    close_network(&network);
    open_network(&network, "bcube:3,2");
    network.model.chunk_bytes = 512u << 10;
    price(&network, "bml", 16 << 20, &tuning);
    assert_int_equal(tuning.chunk_bytes, 512u << 10);
    close_network(&network);
}

/* Pieces of 64 KiB would be one fragment, but a message has several pieces: 300 KiB in the mean. */
static void br_tuning_choose__cuts_by_the_mean_message_in_a_cube(void **state)
{
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "bcube:8,2");
    network.model.chunk_bytes = 512u << 10;
    price(&network, "bml", 8 << 20, &tuning);
    assert_int_equal(tuning.fragments, 4);
    assert_int_equal(br_fragment_count(2 << 20, 4, 2 * 64, tuning.chunk_bytes, false), 4);
    price(&network, "bml", 4 << 20, &tuning);
    assert_int_equal(tuning.fragments, 1);
    network.model.chunk_bytes = 64u << 10; /* somebody wants less */
    price(&network, "bml", 8 << 20, &tuning);
    assert_int_equal(tuning.chunk_bytes, 64u << 10);
    close_network(&network);
}

/* Only all-reduces by levels, and only in a cube. */
static void br_tuning_choose__cuts_nothing_else_so(void **state)
{
    struct br_algorithm_config config;
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "bcube:8,2");
    network.model.chunk_bytes = 512u << 10;
    price(&network, "doubling", 64 << 10, &tuning);
    assert_int_equal(tuning.fragments, 1);
    assert_int_equal(br_algorithm_config_parse(&network.topology, "bml", &config), 0);
    assert_int_equal(
        br_tuning_choose_methods(&network.model, BR_BROADCAST, 64, 8 << 20, &config, &tuning), 0);
    assert_int_equal(tuning.fragments, 1);
    close_network(&network);
    open_network(&network, "flat:64");
    network.model.chunk_bytes = 512u << 10;
    price(&network, "blueconnect:8d,8d", 4 << 20, &tuning);
    assert_int_equal(tuning.fragments, 1);
    close_network(&network);
}

/* With few cores four fragments are dearer, by the model, which does not see what they gain. */
static void br_tuning_choose__compares_without_the_cut_for_a_cube(void **state)
{
    struct network network;
    struct br_tuning tuning;
    double uncut;

    (void)state;
    open_crowd(&network, "bcube:3,2", BR_COST_NETWORK, 1);
    network.model.chunk_bytes = 512u << 10;
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 9, 2 << 20, &tuning), 0);
    assert_int_equal(tuning.config.algorithm, BR_BML);
    assert_int_equal(tuning.fragments, 4);
    assert_int_equal(br_cost_estimate(&network.model,
                                      &(struct br_schedule_request){.algorithm = BR_BML,
                                                                    .n = 9,
                                                                    .shape = tuning.config.shape},
                                      2 << 20, 1, &uncut),
                     0);
    assert_true(tuning.seconds == uncut);
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 9, 1 << 20, &tuning), 0);
    assert_int_equal(tuning.config.algorithm, BR_BLUECONNECT);
    close_network(&network);
}

/* The way that is chosen for small buffers needs no rank in between. */
static void br_cost_estimate__counts_every_link_of_a_relayed_message(void **state)
{
    struct br_tuning direct, blueconnect;
    struct network network;

    (void)state;
    open_network(&network, "bcube:4,3");
    price(&network, "direct", 640e6, &direct);
    price(&network, "blueconnect", 640e6, &blueconnect);
    /* A rank sends 63/64 of its buffer to others. Of 64 parts 9 go over 1 link, 27 over 2, 2 or
     * 4 links, a third each, 27 over 3: 54 for each of 3 levels at once. Digit by digit 63/64 in
     * all. */
    assert_true(fabs(direct.seconds / (2 * 54.0 / 64 * 640e6 * network.model.levels[0].beta) - 1) <
                0.1);
    assert_true(blueconnect.seconds < direct.seconds);
    close_network(&network);
}

/* Every collective still has a way where hosts are missing. */
static void br_tuning_choose__serves_a_cube_with_missing_hosts(void **state)
{
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "bcube:3,2");
    network.topology.n = network.topology.cube.hosts = 7;
    for (int c = 0; c < BR_COLLECTIVES; c++)
        for (double bytes = 1; bytes < 1e9; bytes *= 1e4)
            if (br_tuning_choose(&network.model, (enum br_collective)c, 7, bytes, &tuning))
                fail_msg("%s, %g bytes: %s", br_collective_name((enum br_collective)c), bytes,
                         br_error_message());
    price(&network, "ring", 1e6, &tuning);
    assert_true(fabs(timed(&network, &tuning.config, 1e6, tuning.fragments) / tuning.seconds - 1) <
                0.5);
    close_network(&network);
}

static void br_tuning_choose_methods__decides_what_is_open(void **state)
{
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "12");
    price(&network, "blueconnect:4x3r", 1e3, &tuning);
    assert_int_equal(tuning.config.undecided, 0);
    assert_int_equal(tuning.config.shape.dimensions[0].method, BR_METHOD_DIRECT); /* one latency */
    /* as it was asked for */
    assert_int_equal(tuning.config.shape.dimensions[1].method, BR_METHOD_RING);
    close_network(&network);
}

static void br_tuning_explain__names_what_is_scarce(void **state)
{
    char text[BR_TUNING_TEXT];
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "hosts:2x4");
    price(&network, "ring", 8, &tuning);
    assert_int_equal(br_tuning_explain(&network.model, BR_ALLREDUCE, 8, 8, &tuning, text), 0);
    assert_says(text, "latency");
    price(&network, "ring", 64e6, &tuning);
    assert_int_equal(br_tuning_explain(&network.model, BR_ALLREDUCE, 8, 64e6, &tuning, text), 0);
    if (!says_all(text, "bandwidth|level 1"))
        fail_msg("%s", text);
    network.model.gamma = 1e-6;
    price(&network, "ring", 64e6, &tuning);
    assert_int_equal(br_tuning_explain(&network.model, BR_ALLREDUCE, 8, 64e6, &tuning, text), 0);
    assert_says(text, "reduction");
    close_network(&network);
}

static void takes_for(const struct network *network, enum br_collective collective, double bytes,
                      const char *name)
{
    struct br_tuning tuning;
    char text[BR_ALGORITHM_TEXT];

    assert_int_equal(
        br_tuning_choose(&network->model, collective, network->topology.n, bytes, &tuning), 0);
    assert_string_equal(br_algorithm_config_name(&tuning.config, text), name);
}

static void takes(const struct network *network, double bytes, const char *name)
{
    takes_for(network, BR_ALLREDUCE, bytes, name);
}

/* Everybody's messages take turns on the cores: few of them win, where each rank would send to all
 * others at once if it could. */
static void br_tuning_choose__takes_few_messages_where_cores_are_scarce(void **state)
{
    struct network network;

    (void)state;
    open_network(&network, "flat:4");
    takes(&network, 8, "flat");
    close_network(&network);
    open_crowd(&network, "flat:4", BR_COST_NETWORK, 2);
    takes(&network, 8, "core_tree:2d,2d");
    takes(&network, 512 << 10, "core_tree:2d,2d");
    takes_for(&network, BR_BARRIER, 0, "core_tree:2d,2d");
    takes_for(&network, BR_BROADCAST, 8, "tree");
    takes_for(&network, BR_BROADCAST, 2 << 20, "tree");
    takes_for(&network, BR_REDUCE, 8, "flat");
    takes_for(&network, BR_SCATTER, 8, "tree");
    takes_for(&network, BR_ALLTOALL, 4 << 10, "direct");
    takes_for(&network, BR_ALLGATHER, 64 << 10, "core_tree:2d,2d");
    takes_for(&network, BR_REDUCE_SCATTER, 64 << 10, "core_tree:2d,2d");
    /* more than the caches hold */
    takes(&network, 2 << 20, "halving");
    takes_for(&network, BR_ALLGATHER, 512 << 10, "halving");
    takes_for(&network, BR_REDUCE_SCATTER, 512 << 10, "halving");
    takes_for(&network, BR_REDUCE_SCATTER, 2 << 20, "direct"); /* sums in one pass */
    close_network(&network);
    open_crowd(&network, "flat:8", BR_COST_NETWORK, 2);
    takes(&network, 8, "core_tree:4d,2d");
    takes(&network, 256 << 10, "core_tree:4d,2d");
    takes_for(&network, BR_ALLGATHER, 64 << 10, "core_tree:4d,2d");
    /* first among the ranks of a core, with most of the bytes */
    takes_for(&network, BR_ALLGATHER, 256 << 10, "blueconnect:4d,2d");
    takes_for(&network, BR_REDUCE_SCATTER, 64 << 10, "core_tree:4d,2d");
    takes_for(&network, BR_REDUCE_SCATTER, 256 << 10, "blueconnect:4d,2d");
    takes_for(&network, BR_REDUCE_SCATTER, 8 << 20, "blueconnect:4d,2d");
    takes_for(&network, BR_ALLTOALL, 512, "tree");
    takes_for(&network, BR_ALLTOALL, 2 << 10, "bruck");
    takes_for(&network, BR_ALLTOALL, 8 << 10, "direct");
    close_network(&network);
    /* not as many ranks on each core */
    open_crowd(&network, "flat:7", BR_COST_NETWORK, 2);
    takes(&network, 8, "binary_tree");
    takes_for(&network, BR_BARRIER, 0, "flat");
    takes_for(&network, BR_ALLGATHER, 8, "tree");
    takes_for(&network, BR_REDUCE_SCATTER, 8, "tree");
    takes_for(&network, BR_REDUCE_SCATTER, 32 << 10, "direct");
    close_network(&network);
    open_crowd(&network, "flat:16", BR_COST_NETWORK, 2);
    takes_for(&network, BR_SCATTER, 8, "flat"); /* nobody waits for a turn to pass blocks on */
    takes_for(&network, BR_REDUCE_SCATTER, 32 << 10, "tree");
    takes_for(&network, BR_REDUCE_SCATTER, 256 << 10, "blueconnect:8d,2d");
    takes_for(&network, BR_ALLGATHER, 64 << 10, "halving");
    close_network(&network);
    open_crowd(&network, "flat:32", BR_COST_NETWORK, 2);
    takes_for(&network, BR_ALLTOALL, 8, "tree");
    takes_for(&network, BR_ALLTOALL, 4 << 10, "bruck:8d,4d");
    takes_for(&network, BR_ALLTOALL, 32 << 10, "direct");
    close_network(&network);
    open_crowd(&network, "flat:4", BR_COST_HOST, 2);
    takes(&network, 8 << 10, "doubling");
    close_network(&network);
    open_crowd(&network, "hosts:2x2", BR_COST_NETWORK, 2);
    takes(&network, 8, "host_tree");
    takes(&network, 32 << 10, "host_tree");
    close_network(&network);
}

static void br_cost_estimate__agrees_with_the_timing_where_cores_are_scarce(void **state)
{
    static const char *const networks[] = {"flat:4", "hosts:2x2", "flat:7"};
    static const char *const names[] = {"ring",        "direct",      "flat",     "doubling",
                                        "binary_tree", "double_tree", "host_tree"};

    (void)state; /* not core_tree: the timing does not know who shares a core */
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        struct network network;

        open_crowd(&network, networks[i], BR_COST_NETWORK, 2);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            struct br_tuning tuning;
            double ratio;

            if (network.topology.kind != BR_TOPOLOGY_HOSTS && strcmp(names[k], "host_tree") == 0)
                continue;
            price(&network, names[k], 64e3, &tuning);
            ratio = timed(&network, &tuning.config, 64e3, tuning.fragments) / tuning.seconds;
            if (ratio < 0.7 || ratio > 1.3)
                fail_msg("%s, %s, %u fragments: %g times the estimate", networks[i], names[k],
                         tuning.fragments, ratio);
        }
        close_network(&network);
    }
}

/* Small blocks go packed; large ones each for itself, where a copy of them costs more than
 * messages, or what is added up should not wait for all that travels together. */
static void br_tuning_choose_methods__packs_small_blocks(void **state)
{
    struct br_cost_model model = {.n_levels = 1,
                                  .levels = {{.alpha = 20e-6, .overhead = 2e-6, .beta = 0.85e-9}},
                                  .gamma = 0.1e-9,
                                  .copy = 0.1e-9,
                                  .chunk_bytes = 512 << 10};
    static const char *const names[] = {"halving", "blueconnect:4h,6r", "bml:5,2"};
    static const uint32_t ranks[] = {64, 24, 25};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        enum br_collective collective = i < 3 ? BR_ALLGATHER : BR_REDUCE_SCATTER;
        struct br_algorithm_config config;
        struct br_topology flat;
        struct br_tuning tuning;
        bool packed = true;

        br_topology_flat(&flat, ranks[i % 3]);
        assert_int_equal(br_algorithm_config_parse(&flat, names[i % 3], &config), 0);
        for (double bytes = 4; bytes < 64 << 20; bytes *= 4) {
            assert_int_equal(
                br_tuning_choose_methods(&model, collective, flat.n, bytes, &config, &tuning), 0);
            assert_true(packed || !tuning.packed);
            packed = tuning.packed;
            assert_int_equal(tuning.chunk_bytes, model.chunk_bytes);
            if (packed)
                assert_int_equal(tuning.fragments, 1);
            assert_true(packed || bytes > 4096);
        }
        assert_false(packed);
    }
}

/* A reduce of 2 ranks sends each rank's half both ways, or all of it one way: as it is faster. */
static void br_tuning_choose__reduces_one_way_where_both_cost_more(void **state)
{
    struct br_cost_model model = {.n_levels = 1,
                                  .levels = {{.alpha = 5e-6, .beta = 0.7e-9}},
                                  .gamma = 0.05e-9,
                                  .serial = true,
                                  .shared = true,
                                  .chunk_bytes = 512 << 10};
    struct br_tuning tuning;

    (void)state;
    for (double bytes = 1 << 20; bytes <= 16 << 20; bytes *= 2) {
        model.levels[0].one_way = 0; /* each direction has a link of its own */
        assert_int_equal(br_tuning_choose(&model, BR_REDUCE, 2, bytes, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_DIRECT);
        model.levels[0].one_way = 0.5e-9;
        assert_int_equal(br_tuning_choose(&model, BR_REDUCE, 2, bytes, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_FLAT);
    }
}

/* Small messages of ranks with a core each: who sends to all is busy for longer than who receives
 * from all, so a tree goes down sooner than up. */
static void br_tuning_choose__small_messages_from_and_to_a_root(void **state)
{
    static const enum br_collective down[] = {BR_BROADCAST, BR_SCATTER},
                                    up[] = {BR_REDUCE, BR_GATHER};
    struct br_cost_model model;
    struct br_topology topology;
    struct br_tuning tuning;

    (void)state;
    br_topology_flat(&topology, 8);
    br_cost_model_on(&model, &topology, BR_COST_MACHINE, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(br_tuning_choose(&model, down[i], 8, 8, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_TREE);
        assert_int_equal(br_tuning_choose(&model, up[i], 8, 8, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_FLAT);
        model.received = 1; /* both ends are busy for as long */
        assert_int_equal(br_tuning_choose(&model, up[i], 8, 8, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_TREE);
        model.received = 0.4;
    }
}

/* One message of all, or two steps with messages of half of it: as they need not wait for READY. */
static void br_tuning_choose__sends_eagerly_where_ready_costs_more(void **state)
{
    static const struct {
        double bytes;
        bool whole; /* `flat` and `doubling` are the same of 2 ranks; else in halves */
    } choices[] = {
        {32 << 10, true}, {(32 << 10) + 4, false}, {64 << 10, false}, {(64 << 10) + 8, true}};
    struct br_cost_model model;
    struct br_topology flat;
    struct br_tuning tuning;

    (void)state;
    br_topology_flat(&flat, 2);
    br_cost_model_on(&model, &flat, BR_COST_MACHINE, 1);
    model.chunk_bytes = 512 << 10;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 2, choices[i].bytes, &tuning), 0);
        assert_int_equal(tuning.config.algorithm == BR_FLAT ||
                             tuning.config.algorithm == BR_DOUBLING,
                         choices[i].whole);
    }
    br_cost_model_on(&model, &flat, BR_COST_HOST, 1);
    assert_int_equal(model.eager_bytes, 0);
}

/* In memory the root of two ranks reads all and sums as it reads; of three each sums a part. */
static void br_tuning_choose__reduces_of_two_ranks(void **state)
{
    struct br_cost_model model;
    struct br_topology flat;
    struct br_tuning tuning;

    (void)state;
    br_topology_flat(&flat, 2);
    for (double bytes = 32 << 10; bytes < 64 << 20; bytes *= 4) {
        br_cost_model_on(&model, &flat, BR_COST_HOST, 1);
        model.chunk_bytes = 512 << 10;
        assert_int_equal(br_tuning_choose(&model, BR_REDUCE, 2, bytes, &tuning), 0);
        assert_int_equal(tuning.config.algorithm, BR_FLAT);
    }
    br_topology_flat(&flat, 3);
    br_cost_model_on(&model, &flat, BR_COST_HOST, 1);
    model.chunk_bytes = 512 << 10;
    assert_int_equal(br_tuning_choose(&model, BR_REDUCE, 3, 16 << 20, &tuning), 0);
    assert_int_not_equal(tuning.config.algorithm, BR_FLAT);
}

/* 2 points of each: up to the last the measured times decide, beyond it the formulas. */
static void br_tuning_choose__believes_what_was_measured(void **state)
{
    struct br_cost_measured measured[BR_ALGORITHM_CONFIGS] = {{.ranks = 0}};
    struct br_tuning all[BR_ALGORITHM_CONFIGS], before, after;
    struct br_cost_model model;
    struct br_topology topology;
    char text[BR_TUNING_TEXT];
    int n;

    (void)state;
    br_topology_flat(&topology, 4);
    br_cost_model_on(&model, &topology, BR_COST_NETWORK, 1);
    n = br_tuning_choose_all(&model, BR_ALLREDUCE, 4, 65536, all);
    assert_true(n > 2);
    before = all[0];
    for (int i = 0; i < n; i++) /* the last one was the fastest */
        measured[i] = (struct br_cost_measured){.collective = BR_ALLREDUCE,
                                                .ranks = 4,
                                                .config = all[i].config,
                                                .n_points = 2,
                                                .bytes = {1024, 1 << 20},
                                                .seconds = {(n - i) * 1e-6, (n - i) * 1e-4}};
    model.measured = measured;
    model.n_measured = (uint32_t)n;
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, 65536, &after), 0);
    assert_true(br_algorithm_config_equal(&after.config, &all[n - 1].config));
    /* on the line of the logarithms */
    assert_true(after.seconds > 1.5e-5 && after.seconds < 1.7e-5);
    assert_int_equal(br_tuning_explain(&model, BR_ALLREDUCE, 4, 65536, &after, text), 0);
    assert_says(text, "as measured");
    for (double bytes = 8; bytes <= 1024; bytes *= 128) {
        assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, bytes, &after), 0);
        assert_true(after.seconds == 1e-6);
    }
    model.n_measured = 0;
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, 2 << 20, &before), 0);
    model.n_measured = (uint32_t)n;
    assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, 2 << 20, &after), 0);
    assert_true(after.seconds == before.seconds);
}

/* A calibration hides who shares cores, but not what it has measured of a core_tree, in memory
 * either. */
static void br_tuning_choose__takes_a_measured_core_tree(void **state)
{
    struct br_cost_measured measured = {.collective = BR_ALLREDUCE,
                                        .ranks = 8,
                                        .n_points = 2,
                                        .bytes = {64, 4 << 20},
                                        .seconds = {1e-9, 1e-9}};
    struct br_tuning other;
    struct network network;

    (void)state;
    open_network(&network, "flat:8");
    assert_int_equal(
        br_algorithm_config_parse(&network.topology, "core_tree:4x2", &measured.config), 0);
    network.model.measured = &measured;
    network.model.n_measured = 1;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        network.model.in_memory = in_memory;
        takes(&network, 8, "core_tree:4d,2d");
        takes(&network, 4 << 20, "core_tree:4d,2d");
        assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 8, (4 << 20) + 1, &other),
                         0);
        assert_int_not_equal(other.config.algorithm, BR_CORE_TREE);
        assert_int_equal(br_tuning_choose(&network.model, BR_ALLGATHER, 8, 8, &other), 0);
        assert_int_not_equal(other.config.algorithm, BR_CORE_TREE);
    }
    measured.ranks = 4;
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 8, 8, &other), 0);
    assert_int_not_equal(other.config.algorithm, BR_CORE_TREE);
    close_network(&network);
}

/* Where the machine is slower than its links, a single fragment waits for it, too. */
static void br_cost_estimate__counts_the_machine_of_disjoint_trees(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DISJOINT_TREES, .n = 9};
    struct br_failures failures = {0};
    struct br_disjoint_trees *trees;
    struct network network;
    struct schedules schedules;
    double bytes = 64e6, exact = 0, seconds;

    (void)state;
    open_network(&network, "bcube:3,2");
    network.model.machine.beta = network.model.machine.relayed_beta = network.model.levels[0].beta;
    assert_int_equal(br_disjoint_trees_new(&network.topology.cube, &failures, &trees), 0);
    request.disjoint_trees = trees;
    assert_int_equal(br_cost_estimate(&network.model, &request, bytes, 1, &seconds), 0);
    schedules_build(&schedules, request, IN_PLACE_ALL);
    assert_int_equal(br_timing_run(&network.model, (const struct br_schedule *const *)schedules.of,
                                   bytes, 1, &exact),
                     0);
    if (fabs(seconds / exact - 1) > 0.3)
        fail_msg("%g s instead of %g", seconds, exact);
    schedules_free(&schedules);
    br_disjoint_trees_free(trees);
    close_network(&network);
}

/* Fragments of 0 bytes once ended all ranks with SIGFPE. */
static void br_tuning_choose__refuses_figures_that_make_time_infinite(void **state)
{
    struct br_cost_measured measured = {.collective = BR_ALLREDUCE,
                                        .ranks = 4,
                                        .n_points = 2,
                                        .bytes = {1024, 1 << 20},
                                        .seconds = {1e-300, 1e9}};
    struct br_tuning tuning, other;
    struct network network;

    (void)state;
    open_network(&network, "flat:4");
    network.model.chunk_bytes = 512u << 10;
    network.model.machine.overhead = 1e308;
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 4, 65536, &tuning), -EINVAL);
    assert_says(br_error_message(), "0|1e+09");
    network.model.machine = (struct br_cost_machine){0};
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 4, 65536, &tuning), 0);
    measured.config = tuning.config; /* between these points its time is infinite */
    network.model.measured = &measured;
    network.model.n_measured = 1;
    assert_int_equal(
        br_tuning_choose_methods(&network.model, BR_ALLREDUCE, 4, 65536, &measured.config, &other),
        -EINVAL);
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 4, 65536, &other), 0);
    assert_false(br_algorithm_config_equal(&other.config, &tuning.config));
    assert_true(isfinite(other.seconds));
    close_network(&network);
}

/* The largest figures that a model may have: times are finite, and their simulation ends. */
static void br_tuning_choose__takes_the_largest_figures(void **state)
{
    const double most = BR_COST_MAX;
    struct network network;
    struct br_tuning tuning;

    (void)state;
    open_network(&network, "bcube:3,2");
    network.model.chunk_bytes = 512u << 10;
    network.model.machine = (struct br_cost_machine){most, most, most, most};
    network.model.gamma = network.model.copy = network.model.relay = most;
    for (uint32_t l = 0; l < 2; l++)
        network.model.levels[l] =
            (struct br_cost_level){.alpha = most, .overhead = most, .beta = most};
    assert_int_equal(br_tuning_choose(&network.model, BR_ALLREDUCE, 9, 1e12, &tuning), 0);
    assert_true(isfinite(tuning.seconds) && tuning.chunk_bytes > 0);
    assert_true(isfinite(timed(&network, &tuning.config, 64e3, 1)));
    close_network(&network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_cost_estimate__agrees_with_the_timing_on_any_network),
        cmocka_unit_test(br_tuning_choose__takes_few_messages_where_cores_are_scarce),
        cmocka_unit_test(br_cost_estimate__agrees_with_the_timing_where_cores_are_scarce),
        cmocka_unit_test(br_tuning_choose__takes_bml_for_large_buffers_in_a_bcube),
        cmocka_unit_test(br_tuning_choose__takes_blueconnect_between_hosts),
        cmocka_unit_test(br_tuning_choose__takes_blueconnect_on_large_flat_networks),
        cmocka_unit_test(br_tuning_choose__does_not_mind_how_ranks_are_placed),
        cmocka_unit_test(br_tuning_choose__cuts_finer_where_memory_and_link_take_turns),
        cmocka_unit_test(br_tuning_choose__cuts_by_the_mean_message_in_a_cube),
        cmocka_unit_test(br_tuning_choose__cuts_nothing_else_so),
        cmocka_unit_test(br_tuning_choose__compares_without_the_cut_for_a_cube),
        cmocka_unit_test(br_cost_estimate__counts_every_link_of_a_relayed_message),
        cmocka_unit_test(br_tuning_choose__serves_a_cube_with_missing_hosts),
        cmocka_unit_test(br_tuning_choose_methods__decides_what_is_open),
        cmocka_unit_test(br_tuning_explain__names_what_is_scarce),
        cmocka_unit_test(br_tuning_choose_methods__packs_small_blocks),
        cmocka_unit_test(br_tuning_choose__reduces_one_way_where_both_cost_more),
        cmocka_unit_test(br_tuning_choose__small_messages_from_and_to_a_root),
        cmocka_unit_test(br_tuning_choose__sends_eagerly_where_ready_costs_more),
        cmocka_unit_test(br_tuning_choose__reduces_of_two_ranks),
        cmocka_unit_test(br_tuning_choose__believes_what_was_measured),
        cmocka_unit_test(br_tuning_choose__takes_a_measured_core_tree),
        cmocka_unit_test(br_cost_estimate__counts_the_machine_of_disjoint_trees),
        cmocka_unit_test(br_tuning_choose__refuses_figures_that_make_time_infinite),
        cmocka_unit_test(br_tuning_choose__takes_the_largest_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
