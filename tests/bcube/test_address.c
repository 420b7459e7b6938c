/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
#include "bcube/address.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const uint32_t shapes[][2] = {{2, 1},  {3, 1}, {2, 2}, {3, 2}, {4, 2},   {2, 3},    {3, 3},
                                     {8, 3},  {5, 4}, {2, 5}, {2, 8}, {16, 4},  {256, 2},  {40, 3},
                                     {2, 16}, {4, 8}, {9, 5}, {6, 6}, {254, 1}, {65536, 1}};

#define for_each_shape(cube)                                                                       \
    for (size_t shape_ = 0; shape_ < sizeof shapes / sizeof *shapes && shape(&(cube), shape_);     \
         shape_++)

static int shape(struct br_bcube *cube, size_t i)
{
    assert_int_equal(br_bcube_init(cube, shapes[i][0], shapes[i][1]), 0);
    return 1;
}

/* A step that visits small cubes whole and of large ones about a thousand hosts. */
static uint32_t stride(const struct br_bcube *cube)
{
    return cube->hosts > 1024 ? cube->hosts / 1021 : 1;
}

static void bcube_init__range(void **state)
{
    static const struct {
        int64_t n, k;
        const char *message;
    } bad[] = {{1, 2, "n, the ports"},  {0, 2, "n, the ports"},  {-3, 2, "n, the ports"},
               {2, 0, "k, the NICs"},   {2, -1, "k, the NICs"},  {2, 17, "65536"},
               {65537, 1, "65536"},     {257, 2, "65536"},       {INT64_MAX, 2, "65536"},
               {INT64_MAX, 1, "65536"}, {2, INT64_MAX, "65536"}, {17, 4, "65536"}};
    struct br_bcube cube = {7, 7, 7};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_bcube_init(&cube, bad[i].n, bad[i].k), -EINVAL);
        assert_non_null(strstr(br_error_message(), bad[i].message));
        assert_int_equal(cube.hosts, 7);
    }
    assert_int_equal(br_bcube_init(&cube, 2, 16), 0);
    assert_int_equal(cube.hosts, 65536);
    assert_int_equal(br_bcube_init(&cube, 65536, 1), 0);
    assert_int_equal(cube.hosts, 65536);
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_int_equal(cube.hosts, 9);
}

static void bcube_parse__good_and_bad(void **state)
{
    static const char *const bad[] = {
        "",     "3",    "3,",    ",2",  "3,2,1", "3;2",           "3, 2", " 3,2",
        "-3,2", "3,2x", "0x3,2", "1,2", "3,0",   "99999999999,2", "a,b",  "3,-2"};
    struct br_bcube cube = {0, 0, 0};

    (void)state;
    assert_int_equal(br_bcube_parse(&cube, "3,2"), 0);
    assert_int_equal(cube.n, 3);
    assert_int_equal(cube.k, 2);
    assert_int_equal(cube.hosts, 9);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_bcube_parse(&cube, bad[i]), -EINVAL);
        assert_true(strlen(br_error_message()) > 20);
    }
    assert_int_equal(br_bcube_parse(&cube, NULL), -EINVAL);
    assert_int_equal(cube.hosts, 9);
}

/* BCube(3,2), host 5 = [1,2], by hand. */
static void bcube_digit__by_hand(void **state)
{
    struct br_bcube cube;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_int_equal(br_bcube_digit(&cube, 5, 0), 2);
    assert_int_equal(br_bcube_digit(&cube, 5, 1), 1);
    assert_int_equal(br_bcube_with_digit(&cube, 5, 0, 0), 3);
    assert_int_equal(br_bcube_with_digit(&cube, 5, 1, 2), 8);
    assert_int_equal(br_bcube_level(&cube, 5, 4), 0);
    assert_int_equal(br_bcube_level(&cube, 5, 8), 1);
    assert_int_equal(br_bcube_level(&cube, 5, 6), -1);
    assert_int_equal(br_bcube_level(&cube, 5, 5), -1);
    assert_int_equal(br_bcube_switch(&cube, 5, 0), 1); /* <0, [1]> */
    assert_int_equal(br_bcube_switch(&cube, 5, 1), 2); /* <1, [2]> */
    assert_int_equal(br_bcube_neighbour(&cube, 5, 0, 0), 3);
    assert_int_equal(br_bcube_neighbour(&cube, 5, 0, 1), 4);
    assert_int_equal(br_bcube_neighbour(&cube, 5, 1, 0), 2);
    assert_int_equal(br_bcube_neighbour(&cube, 5, 1, 1), 8);
    assert_int_equal(br_bcube_distance(&cube, 5, 6), 2);
}

static void bcube_digits__and_back(void **state)
{
    struct br_bcube cube;
    uint32_t digits[BR_BCUBE_LEVELS_MAX];

    (void)state;
    for_each_shape(cube)
    {
        assert_int_equal(br_bcube_power(&cube, cube.k), cube.hosts);
        for (uint32_t host = 0; host < cube.hosts; host += stride(&cube)) {
            br_bcube_digits(&cube, host, digits);
            assert_int_equal(br_bcube_host(&cube, digits), host);
            for (uint32_t level = 0; level < cube.k; level++) {
                assert_true(digits[level] < cube.n);
                assert_int_equal(br_bcube_digit(&cube, host, level), digits[level]);
                assert_int_equal(br_bcube_with_digit(&cube, host, level, digits[level]), host);
            }
        }
    }
}

static void bcube_text__and_back(void **state)
{
    struct br_bcube cube;
    char text[BR_BCUBE_TEXT], plain[16];
    uint32_t host;

    (void)state;
    for_each_shape(cube)
    {
        for (uint32_t i = 0; i < cube.hosts; i += stride(&cube)) {
            assert_ptr_equal(br_bcube_text(&cube, i, text), text);
            assert_int_equal(br_bcube_parse_host(&cube, text, &host), 0);
            assert_int_equal(host, i);
            snprintf(plain, sizeof plain, "%u", i);
            assert_int_equal(br_bcube_parse_host(&cube, plain, &host), 0);
            assert_int_equal(host, i);
        }
        br_bcube_text(&cube, cube.hosts - 1, text);
        assert_true(strlen(text) < sizeof text);
    }
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    assert_string_equal(br_bcube_text(&cube, 5, text), "[1,2]");
}

static void bcube_parse_host__bad(void **state)
{
    static const char *const bad[] = {"",      "9",      "-1",     "[1]",  "[1,2,0]",
                                      "[3,0]", "[0,3]",  "[1,2",   "1,2]", "[1 ,2]",
                                      "[,]",   "[1,2]x", "[1,-2]", "five", "["};
    struct br_bcube cube;
    uint32_t host = 77;

    (void)state;
    assert_int_equal(br_bcube_init(&cube, 3, 2), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(br_bcube_parse_host(&cube, bad[i], &host), -EINVAL);
        assert_non_null(strstr(br_error_message(), "[2,2]"));
    }
    assert_int_equal(br_bcube_parse_host(&cube, NULL, &host), -EINVAL);
    assert_int_equal(host, 77);
}

/* Level and distance agree with a count of the digits that differ, for all pairs of small
 * cubes. */
static void bcube_level__agrees_with_the_digits(void **state)
{
    struct br_bcube cube;

    (void)state;
    for_each_shape(cube)
    {
        for (uint32_t a = 0; a < cube.hosts && cube.hosts <= 512; a++) {
            for (uint32_t b = 0; b < cube.hosts; b++) {
                uint32_t differ = 0;
                int level = -1;
                for (uint32_t l = 0; l < cube.k; l++)
                    if (br_bcube_digit(&cube, a, l) != br_bcube_digit(&cube, b, l))
                        differ++, level = (int)l;
                level = differ == 1 ? level : -1;
                assert_int_equal(br_bcube_distance(&cube, a, b), differ);
                assert_int_equal(br_bcube_level(&cube, a, b), level);
            }
        }
    }
}

static void bcube_neighbour__all_distinct_and_mutual(void **state)
{
    struct br_bcube cube;

    (void)state;
    for_each_shape(cube)
    {
        for (uint32_t host = 0; host < cube.hosts; host += stride(&cube) * 7) {
            for (uint32_t level = 0; level < cube.k; level++) {
                uint32_t last = 0;
                for (uint32_t i = 0; i < cube.n - 1; i++) {
                    uint32_t other = br_bcube_neighbour(&cube, host, level, i);
                    assert_true(other < cube.hosts && (!i || other > last));
                    assert_int_equal(br_bcube_level(&cube, other, host), level);
                    assert_int_equal(br_bcube_switch(&cube, other, level),
                                     br_bcube_switch(&cube, host, level));
                    last = other;
                    if (cube.n > 1000)
                        break;
                }
            }
        }
    }
}

/* Every port of every switch holds exactly one host, and that host says so. */
static void bcube_switch__ports_hold_each_host_once(void **state)
{
    struct br_bcube cube;

    (void)state;
    for_each_shape(cube)
    {
        for (uint32_t level = 0; level < cube.k; level++) {
            uint64_t sum = 0;
            for (uint32_t index = 0; index < br_bcube_power(&cube, cube.k - 1); index++) {
                for (uint32_t port = 0; port < cube.n; port++) {
                    uint32_t host = br_bcube_switch_host(&cube, level, index, port);
                    assert_true(host < cube.hosts);
                    assert_true(br_bcube_switch(&cube, host, level) == index);
                    assert_true(br_bcube_port(&cube, host, level) == port);
                    sum += host;
                }
            }
            assert_true(sum == (uint64_t)cube.hosts * (cube.hosts - 1) / 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bcube_init__range),
        cmocka_unit_test(bcube_parse__good_and_bad),
        cmocka_unit_test(bcube_digit__by_hand),
        cmocka_unit_test(bcube_digits__and_back),
        cmocka_unit_test(bcube_text__and_back),
        cmocka_unit_test(bcube_parse_host__bad),
        cmocka_unit_test(bcube_level__agrees_with_the_digits),
        cmocka_unit_test(bcube_neighbour__all_distinct_and_mutual),
        cmocka_unit_test(bcube_switch__ports_hold_each_host_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
