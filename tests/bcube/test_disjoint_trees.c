/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcube/disjoint_trees.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/says.h"

static uint32_t working_nics(const struct br_bcube *cube, const struct br_failures *failures,
                             uint32_t host)
{
    uint32_t n = 0;

    for (uint32_t level = 0; level < cube->k; level++)
        n += br_nic_works(cube, failures, host, level);
    return n;
}

/* No set of trees loads its busiest NIC less, as a part of the trees: all edges over all NICs, and
 * each host is in each tree. */
static double bound(const struct br_bcube *cube, const struct br_failures *failures, uint32_t hosts)
{
    double all = 0, most = 0;

    for (uint32_t host = 0; host < hosts; host++) {
        uint32_t n = working_nics(cube, failures, host);

        all += n;
        most = 1.0 / n > most ? 1.0 / n : most;
    }
    return 2.0 * (hosts - 1) / all > most ? 2.0 * (hosts - 1) / all : most;
}

/* From every host of every tree links that work lead to its root; depths and loads are as said. */
static void check(const struct br_disjoint_trees *trees, const struct br_failures *failures)
{
    uint32_t *load = calloc((size_t)trees->hosts * trees->cube.k, sizeof *load), busiest = 0,
             deepest = 0;

    for (uint32_t tree = 0; tree < trees->trees; tree++)
        for (uint32_t host = 0; host < trees->hosts; host++) {
            uint32_t parent = br_disjoint_trees_parent(trees, tree, host),
                     depth = br_disjoint_trees_depth(trees, tree, host);
            int level = br_bcube_level(&trees->cube, host, parent);

            deepest = depth > deepest ? depth : deepest;
            if (parent == host)
                continue;
            assert_true(level >= 0);
            assert_true(br_link_works(&trees->cube, failures, host, parent, (uint32_t)level));
            assert_int_equal(br_disjoint_trees_depth(trees, tree, parent), depth - 1);
            assert_true(br_disjoint_trees_height(trees, tree, parent) >
                        br_disjoint_trees_height(trees, tree, host));
            load[host * trees->cube.k + (uint32_t)level]++;
            load[parent * trees->cube.k + (uint32_t)level]++;
        }
    for (uint32_t i = 0; i < trees->hosts * trees->cube.k; i++)
        busiest = load[i] > busiest ? load[i] : busiest;
    assert_int_equal(trees->busiest, busiest);
    assert_int_equal(trees->depth, deepest);
    free(load);
}

static void one(const struct br_bcube *cube, const struct br_failures *failures, double most)
{
    struct br_disjoint_trees *trees, *again;
    double loaded;

    assert_int_equal(br_disjoint_trees_new(cube, failures, &trees), 0);
    check(trees, failures);
    loaded = (double)trees->busiest / trees->trees / bound(cube, failures, trees->hosts);
    if (loaded > most)
        fail_msg("BCube(%u,%u), %u failures: %g times the bound", cube->n, cube->k, failures->count,
                 loaded);
    assert_int_equal(br_disjoint_trees_new(cube, failures, &again), 0);
    assert_int_equal(trees->digest, again->digest);
    assert_memory_equal(trees->parents, again->parents,
                        (size_t)trees->trees * trees->hosts * sizeof *trees->parents);
    br_disjoint_trees_free(again);
    br_disjoint_trees_free(trees);
}

static void br_disjoint_trees_new__loads_nics_evenly(void **state)
{
    static const uint32_t shapes[][2] = {{2, 1}, {5, 1}, {2, 2}, {3, 2}, {2, 3},
                                         {4, 2}, {3, 3}, {6, 2}, {2, 5}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int fault = 0; fault < 3; fault++) {
            struct br_failures failures = {0};
            struct br_bcube cube;

            assert_int_equal(br_bcube_init(&cube, shapes[i][0], shapes[i][1]), 0);
            if (fault && cube.k == 1)
                continue;
            if (fault)
                assert_int_equal(br_failures_add(&failures,
                                                 fault == 1 ? BR_FAILURE_NIC : BR_FAILURE_SWITCH, 1,
                                                 0),
                                 0);
            one(&cube, &failures, 1.1);
            br_failures_destroy(&failures);
        }
}

static void br_disjoint_trees_new__of_random_failures(void **state)
{
    struct br_random random;
    uint32_t made = 0;

    (void)state;
    br_random_seed(&random, 7);
    for (int i = 0; i < 80; i++) {
        struct br_failures failures = {.missing_from = i % 2 ? 0 : 20};
        struct br_disjoint_trees *trees;
        struct br_bcube cube;
        int rc;

        assert_int_equal(br_bcube_init(&cube, 3, 3), 0);
        for (uint64_t n = br_random_below(&random, 12); n > 0; n--)
            br_failures_add(&failures, BR_FAILURE_NIC, (uint32_t)br_random_below(&random, 27),
                            (uint32_t)br_random_below(&random, 3));
        rc = br_disjoint_trees_new(&cube, &failures, &trees);
        assert_true(rc == 0 || rc == -EHOSTUNREACH);
        if (rc == 0) {
            check(trees, &failures);
            br_disjoint_trees_free(trees);
            made++;
        }
        br_failures_destroy(&failures);
    }
    assert_true(made > 40);
}

static void br_disjoint_trees_new__says_what_cannot_be(void **state)
{
    struct br_failures failures = {0};
    struct br_disjoint_trees *trees;
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 2, 2), 0);
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 1, 0), 0);
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 2, 1), 0);
    /* host 0 has nobody */
    assert_int_equal(br_disjoint_trees_new(&cube, &failures, &trees), -EHOSTUNREACH);
    assert_says(br_error_message(), "BCube(2,2)");
    br_failures_destroy(&failures);
    assert_int_equal(br_bcube_init(&cube, 2, 9), 0);
    assert_int_equal(br_disjoint_trees_new(&cube, NULL, &trees), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_disjoint_trees_new__loads_nics_evenly),
        cmocka_unit_test(br_disjoint_trees_new__of_random_failures),
        cmocka_unit_test(br_disjoint_trees_new__says_what_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
