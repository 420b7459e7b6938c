/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "training/parameters/shard.h"

#define LAYERS  40
#define SERVERS 7

/* Every element of every layer is in one slice, in order; no slice is longer than `most`. */
static void check_cover(const struct br_shards *s, const size_t *counts, uint32_t layers,
                        uint32_t servers, size_t most)
{
    uint32_t at = 0;

    for (uint32_t l = 0; l < layers; l++) {
        size_t offset = 0;

        assert_int_equal(s->first[l], at);
        for (; at < s->first[l + 1]; at++) {
            assert_int_equal(s->list[at].layer, l);
            assert_int_equal(s->list[at].offset, offset);
            assert_in_range(s->list[at].count, 1, most);
            assert_in_range(s->list[at].server, 0, servers - 1);
            offset += s->list[at].count;
        }
        assert_int_equal(offset, counts[l]);
    }
    assert_int_equal(at, s->n);
}

static void loads(const struct br_shards *s, uint32_t servers, size_t *least, size_t *most)
{
    size_t load[SERVERS] = {0};

    for (uint32_t i = 0; i < s->n; i++)
        load[s->list[i].server] += s->list[i].count;
    *least = *most = load[0];
    for (uint32_t i = 1; i < servers; i++) {
        *least = load[i] < *least ? load[i] : *least;
        *most = load[i] > *most ? load[i] : *most;
    }
}

/* No server has more slices than its share. */
static void check_numbers(const struct br_shards *s, uint32_t servers)
{
    uint32_t number[SERVERS] = {0};

    for (uint32_t i = 0; i < s->n; i++)
        assert_in_range(++number[s->list[i].server], 1, (s->n + servers - 1) / servers);
}

static void open__covers_and_balances(void **state)
{
    struct br_random random;
    size_t counts[LAYERS], least, most;
    struct br_shards s;

    (void)state;
    br_random_seed(&random, 3);
    for (int draw = 0; draw < 200; draw++) {
        uint32_t layers = 1 + (uint32_t)(br_random_next(&random) % LAYERS);
        uint32_t servers = 1 + (uint32_t)(br_random_next(&random) % SERVERS);

        for (uint32_t l = 0; l < layers; l++)
            counts[l] = 1 + br_random_next(&random) % (br_random_next(&random) % 5 ? 1000 : 200000);
        assert_int_equal(br_shards_open(&s, counts, layers, servers, 5000, UINT32_MAX), 0);
        check_cover(&s, counts, layers, servers, 5000);
        loads(&s, servers, &least, &most);
        assert_true(most - least <= 5000); /* what is dealt last goes to the least loaded */
        check_numbers(&s, servers);
        br_shards_close(&s);
    }
}

static void open__slices_grow_to_the_limit(void **state)
{
    size_t counts[3] = {1000000, 10, 300000};
    struct br_shards s;

    (void)state;
    assert_int_equal(br_shards_open(&s, counts, 3, 2, 1, 64), 0);
    assert_in_range(s.n, 50, 64);
    check_cover(&s, counts, 3, 2, 30000);
    br_shards_close(&s);
    /* a slice is never of two layers */
    assert_int_equal(br_shards_open(&s, counts, 3, 2, 1, 1), 0);
    assert_int_equal(s.n, 3);
    br_shards_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__covers_and_balances),
        cmocka_unit_test(open__slices_grow_to_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
