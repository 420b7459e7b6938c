/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "bcube/route.h"
#include "tests/says.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t small[][2] = {{2, 1}, {5, 1}, {2, 2}, {3, 2}, {4, 2},
                                    {2, 3}, {3, 3}, {2, 4}, {2, 5}, {4, 3}};
static const uint32_t large[][2] = {{2, 16}, {16, 4}, {256, 2}, {4, 8}, {40, 3}, {65536, 1}};

#define COUNT(array) (sizeof array / sizeof *array)

static struct br_bcube cube_of(const uint32_t shape[2])
{
    struct br_bcube cube;

    assert_int_equal(br_bcube_init(&cube, shape[0], shape[1]), 0);
    return cube;
}

static uint32_t any_host(const struct br_bcube *cube, struct br_random *random)
{
    return (uint32_t)br_random_below(random, cube->hosts);
}

static void check_end(const struct br_route *route, uint32_t a, uint32_t b)
{
    assert_int_equal(route->hops ? route->hosts[route->hops - 1] : a, b);
}

/* distance[h]: hops of the shortest working route from `from`, by breadth-first search; UINT32_MAX:
 * there is none. */
static void exhaustive_distances(const struct br_bcube *cube, const struct br_failures *failures,
                                 uint32_t from, uint32_t *distance)
{
    uint32_t *queue = calloc(cube->hosts, sizeof *queue), head = 0, tail = 0;
    memset(distance, 0xff, cube->hosts * sizeof *distance);
    if (!queue)
        abort();
    if (br_host_works(failures, from)) {
        distance[from] = 0;
        queue[tail++] = from;
    }
    while (head < tail) {
        uint32_t host = queue[head++];
        for (uint32_t other = 0; other < cube->hosts; other++) {
            int level = br_bcube_level(cube, host, other);
            if (level < 0 || distance[other] != UINT32_MAX ||
                !br_link_works(cube, failures, host, other, (uint32_t)level))
                continue;
            distance[other] = distance[host] + 1;
            queue[tail++] = other;
        }
    }
    free(queue);
}

/* Adds so many random NICs, hosts and switches. */
static void random_failures(const struct br_bcube *cube, struct br_random *random, uint32_t count,
                            struct br_failures *failures)
{
    while (count--) {
        enum br_failure kind = (enum br_failure)br_random_below(random, 3);
        uint32_t limit =
            kind == BR_FAILURE_SWITCH ? br_bcube_power(cube, cube->k - 1) : cube->hosts;
        uint32_t level = kind == BR_FAILURE_HOST ? 0 : (uint32_t)br_random_below(random, cube->k);
        if (br_failures_add(failures, kind, (uint32_t)br_random_below(random, limit), level))
            abort();
    }
}

/* k routes of the promised lengths; no two use the same host in between, nor the same switch. */
static void check_disjoint(const struct br_bcube *cube, uint32_t a, uint32_t b)
{
    struct br_route routes[BR_BCUBE_LEVELS_MAX];
    uint32_t hosts[BR_BCUBE_LEVELS_MAX * BR_ROUTE_HOPS],
        switches[BR_BCUBE_LEVELS_MAX * BR_ROUTE_HOPS];
    uint32_t n_hosts = 0, n_switches = 0, distance = br_bcube_distance(cube, a, b);

    assert_int_equal(br_route_disjoint(cube, a, b, routes), 0);
    for (uint32_t i = 0; i < cube->k; i++) {
        bool differs = br_bcube_digit(cube, a, i) != br_bcube_digit(cube, b, i);

        assert_true(br_route_works(cube, NULL, a, &routes[i]));
        check_end(&routes[i], a, b);
        assert_int_equal(routes[i].hops, distance + (differs ? 0 : 2));
        assert_int_equal(br_bcube_level(cube, a, routes[i].hosts[0]), i);
        for (uint32_t h = 0, from = a; h < routes[i].hops; from = routes[i].hosts[h++]) {
            uint32_t level = (uint32_t)br_bcube_level(cube, from, routes[i].hosts[h]);

            switches[n_switches++] = level << 16 | br_bcube_switch(cube, from, level);
            if (h < routes[i].hops - 1u)
                hosts[n_hosts++] = routes[i].hosts[h];
        }
    }
    for (uint32_t i = 0; i < n_hosts; i++) {
        assert_true(hosts[i] != a && hosts[i] != b);
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(hosts[i], hosts[j]);
    }
    for (uint32_t i = 0; i < n_switches; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(switches[i], switches[j]);
}

static void route_disjoint__all_pairs_of_small_cubes(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(small); s++) {
        struct br_bcube cube = cube_of(small[s]);

        for (uint32_t a = 0; a < cube.hosts; a++)
            for (uint32_t b = 0; b < cube.hosts; b++)
                if (a != b)
                    check_disjoint(&cube, a, b);
    }
}

static void route_disjoint__large_cubes(void **state)
{
    struct br_random random;

    (void)state;
    br_random_seed(&random, 2);
    for (size_t s = 0; s < COUNT(large); s++) {
        struct br_bcube cube = cube_of(large[s]);

        for (int i = 0; i < 200; i++) {
            uint32_t a = any_host(&cube, &random), b = any_host(&cube, &random);

            if (a != b)
                check_disjoint(&cube, a, b);
        }
    }
    /* The longest there are: 15 digits of BCube(2,16) differ. */
    check_disjoint(&(struct br_bcube){2, 16, 65536}, 0, 0xfffe);
    check_disjoint(&(struct br_bcube){2, 16, 65536}, 0, 0xffff);
}

static void route_disjoint__bad(void **state)
{
    struct br_bcube cube = cube_of((const uint32_t[]){3, 2});
    struct br_route routes[2];

    (void)state;
    assert_int_equal(br_route_disjoint(&cube, 4, 4, routes), -EINVAL);
    assert_non_null(strstr(br_error_message(), "itself"));
    assert_int_equal(br_route_disjoint(&cube, 4, 9, routes), -EINVAL);
}

/* One random set of failures: from every host to every host there is a route exactly when there is
 * one at all. */
static void check_failures(const struct br_bcube *cube, const struct br_failures *failures)
{
    uint32_t distance[64];

    for (uint32_t a = 0; a < cube->hosts; a++) {
        exhaustive_distances(cube, failures, a, distance);
        for (uint32_t b = 0; b < cube->hosts; b++) {
            bool exists = a == b || distance[b] <= BR_ROUTE_HOPS;
            struct br_route route;
            int rc = br_route_around(cube, a, b, failures, &route);

            assert_int_equal(rc, exists ? 0 : -EHOSTUNREACH);
            if (rc)
                continue;
            assert_true(br_route_works(cube, failures, a, &route));
            check_end(&route, a, b);
            if (a == b)
                continue;
            assert_true(route.hops >= distance[b]);
            assert_true(route.hops == distance[b] ||
                        route.hops <= br_bcube_distance(cube, a, b) + 2);
        }
    }
}

static void route_around__exists_when_search_finds_one(void **state)
{
    struct br_random random;

    (void)state;
    br_random_seed(&random, 3);
    for (size_t s = 0; s < COUNT(small); s++) {
        struct br_bcube cube = cube_of(small[s]);

        for (uint32_t round = 0; round < (cube.hosts > 30 ? 12u : 60u); round++) {
            struct br_failures failures = {0};

            random_failures(&cube, &random, round % (cube.hosts * cube.k), &failures);
            if (round % 4 == 3)
                failures.missing_from = 1 + any_host(&cube, &random);
            check_failures(&cube, &failures);
            br_failures_destroy(&failures);
        }
    }
}

/* Hosts 0..M-1 of a cube reach each other, whatever M is: to correct digits to smaller ones first
 * leaves no host out. */
static void route_around__partial_cubes_are_connected(void **state)
{
    (void)state;
    for (size_t s = 0; s < COUNT(small); s++) {
        struct br_bcube cube = cube_of(small[s]);

        for (uint32_t m = 2; m < cube.hosts; m++) {
            struct br_failures failures = {.missing_from = m};
            struct br_route route;

            for (uint32_t a = 0; a < m; a++) {
                assert_int_equal(br_route_around(&cube, a, m - 1 - a, &failures, &route), 0);
                assert_true(br_route_works(&cube, &failures, a, &route));
            }
            assert_int_equal(br_route_around(&cube, 0, m, &failures, &route), -EHOSTUNREACH);
        }
    }
}

/* k - 1 hosts, or switches, or NICs of the source: fewer than divide the cube, so a route short of
 * the search's exists. */
static void route_around__large_cubes(void **state)
{
    struct br_random random;

    (void)state;
    br_random_seed(&random, 4);
    for (size_t s = 0; s < COUNT(large); s++) {
        struct br_bcube cube = cube_of(large[s]);

        for (int i = 0; i < 300; i++) {
            uint32_t a = any_host(&cube, &random), b = any_host(&cube, &random);
            struct br_failures failures = {0};
            struct br_route route;

            if (a == b)
                continue;
            for (uint32_t level = 1; level < cube.k; level++) {
                uint32_t at = i % 2 ? a : b, other = br_bcube_neighbour(&cube, at, level, 0);

                if (i % 3 == 0)
                    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, at, level), 0);
                else if (i % 3 == 1)
                    assert_int_equal(br_failures_add(&failures, BR_FAILURE_SWITCH,
                                                     br_bcube_switch(&cube, at, level), level),
                                     0);
                else if (other != a && other != b)
                    assert_int_equal(br_failures_add(&failures, BR_FAILURE_HOST, other, 0), 0);
            }
            assert_int_equal(br_route_around(&cube, a, b, &failures, &route), 0);
            assert_true(br_route_works(&cube, &failures, a, &route));
            check_end(&route, a, b);
            assert_true(route.hops <= br_bcube_distance(&cube, a, b) + 2);
            br_failures_destroy(&failures);
        }
    }
}

/* One NIC left at either end, of levels that no rotation begins and ends with: the search is
 * needed, and finds. */
static void route_around__last_resort(void **state)
{
    struct br_bcube cube = cube_of((const uint32_t[]){16, 4});
    struct br_failures failures = {0};
    struct br_route route;

    (void)state;
    for (uint32_t level = 0; level < 4; level++) {
        if (level != 0)
            assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 0, level), 0);
        if (level != 2)
            assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 65535, level), 0);
    }
    assert_int_equal(br_route_around(&cube, 0, 65535, &failures, &route), 0);
    assert_int_equal(route.hops, 4);
    assert_true(br_route_works(&cube, &failures, 0, &route));
    assert_int_equal(br_bcube_level(&cube, 0, route.hosts[0]), 0);
    assert_int_equal(br_bcube_level(&cube, route.hosts[2], 65535), 2);
    br_failures_destroy(&failures);
}

/* Everybody two hops from the destination is gone: no way in, and the search ends by its bound. */
static void route_around__gives_up(void **state)
{
    struct br_bcube cube = cube_of((const uint32_t[]){2, 16});
    struct br_failures failures = {0};
    struct br_route route;

    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_equal(
                br_failures_add(&failures, BR_FAILURE_HOST, 0xffffu ^ 1u << i ^ 1u << j, 0), 0);
    assert_int_equal(br_route_around(&cube, 0, 0xffff, &failures, &route), -EHOSTUNREACH);
    assert_says(br_error_message(), "4096 hosts");
    br_failures_destroy(&failures);
}

static void route_around__words(void **state)
{
    struct br_bcube cube = cube_of((const uint32_t[]){3, 2});
    struct br_failures failures = {0};
    struct br_route route;

    (void)state;
    assert_int_equal(br_route_around(&cube, 0, 9, NULL, &route), -EINVAL);
    assert_int_equal(br_route_around(&cube, 3, 3, NULL, &route), 0);
    assert_int_equal(route.hops, 0);
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_HOST, 4, 0), 0);
    assert_int_equal(br_route_around(&cube, 0, 4, &failures, &route), -EHOSTUNREACH);
    assert_says(br_error_message(), "host 4 [1,1]");
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_NIC, 8, 0), 0);
    assert_int_equal(br_failures_add(&failures, BR_FAILURE_SWITCH, 2, 1), 0);
    assert_int_equal(br_route_around(&cube, 8, 0, &failures, &route), -EHOSTUNREACH);
    assert_says(br_error_message(), "host 8 [2,2]|level");
    br_failures_destroy(&failures);
    for (uint32_t index = 0; index < 3; index++)
        assert_int_equal(br_failures_add(&failures, BR_FAILURE_SWITCH, index, 1), 0);
    assert_int_equal(br_route_around(&cube, 0, 8, &failures, &route), -EHOSTUNREACH);
    assert_says(br_error_message(), "cube");
    br_failures_destroy(&failures);
}

static void route_works__notices(void **state)
{
    struct br_bcube cube = cube_of((const uint32_t[]){3, 2});

    (void)state;
    assert_true(br_route_works(&cube, NULL, 0, &(struct br_route){2, {3, 5}}));
    assert_false(br_route_works(&cube, NULL, 0, &(struct br_route){1, {4}}));
    assert_false(br_route_works(&cube, NULL, 0, &(struct br_route){2, {1, 0}}));
    assert_false(br_route_works(&cube, NULL, 0, &(struct br_route){3, {1, 2, 1}}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(route_disjoint__all_pairs_of_small_cubes),
        cmocka_unit_test(route_disjoint__large_cubes),
        cmocka_unit_test(route_disjoint__bad),
        cmocka_unit_test(route_around__exists_when_search_finds_one),
        cmocka_unit_test(route_around__partial_cubes_are_connected),
        cmocka_unit_test(route_around__large_cubes),
        cmocka_unit_test(route_around__last_resort),
        cmocka_unit_test(route_around__gives_up),
        cmocka_unit_test(route_around__words),
        cmocka_unit_test(route_works__notices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
