/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/error.h"
#include "collectives/tuning/plan_cache.h"
#include "tests/says.h"

static struct br_cost_model model;

static void init(struct br_plan_cache *cache, uint32_t n)
{
    br_cost_model_default(&model, BR_COST_HOST, 1);
    br_plan_cache_init(cache, &model, 1, n);
}

static const struct br_plan_tuning *choose(struct br_plan_cache *cache,
                                           enum br_collective collective, const char *text)
{
    const struct br_plan_tuning *tuning;

    if (br_plan_cache_choose(cache, collective, BR_COST_4_BYTES, text, 1000, &tuning) != 0)
        fail_msg("%s", br_error_message());
    return tuning;
}

static struct br_plan *get(struct br_plan_cache *cache, uint32_t root, bool in_place)
{
    struct br_plan *plan = NULL;

    assert_int_equal(br_plan_cache_get(cache, BR_BROADCAST,
                                       choose(cache, BR_BROADCAST, "tree")->config, root, in_place,
                                       false, &plan),
                     0);
    return plan;
}

static void plan_cache_get__builds_once(void **state)
{
    struct br_plan_cache cache;
    struct br_plan *plan;

    (void)state;
    init(&cache, 4);
    plan = get(&cache, 2, false);
    assert_int_equal(plan->schedule->root, 2);
    assert_int_equal(plan->users, 1);
    assert_ptr_equal(get(&cache, 2, false), plan);
    assert_ptr_not_equal(get(&cache, 2, true), plan);
    assert_ptr_not_equal(get(&cache, 3, false), plan);
    assert_int_equal(cache.built, 3);
    br_plan_cache_destroy(&cache);
}

/* Old plans go when there are many, but none that an operation holds. */
static void plan_cache_get__keeps_what_is_held(void **state)
{
    struct br_plan_cache cache;
    struct br_plan *held;

    (void)state;
    init(&cache, 300);
    held = get(&cache, 0, false);
    for (uint32_t root = 1; root < 300; root++)
        br_plan_put(get(&cache, root, false));
    assert_true(cache.count < 100);
    assert_int_equal(cache.built, 300);
    assert_ptr_equal(get(&cache, 0, false), held);
    assert_int_equal(cache.built, 300);
    br_plan_put(get(&cache, 1, false));
    assert_int_equal(cache.built, 301);
    br_plan_cache_destroy(&cache);
}

static void plan_cache_get__refuses_what_does_not_apply(void **state)
{
    const struct br_plan_tuning *tuning;
    struct br_plan_cache cache;
    struct br_plan *plan;

    (void)state;
    init(&cache, 4);
    assert_int_equal(br_plan_cache_choose(&cache, BR_BARRIER, BR_COST_4_BYTES, "chain", 0, &tuning),
                     -EINVAL);
    assert_says(br_error_message(), "chain|barrier");
    tuning = choose(&cache, BR_BROADCAST, "chain");
    assert_int_equal(br_plan_cache_get(&cache, BR_BARRIER, tuning->config, 0, false, false, &plan),
                     -EINVAL);
    assert_int_equal(cache.count, 0);
    br_plan_cache_destroy(&cache);
}

/* A mapped receive counts the sources that read it. */
static void plan_cache_get__counts_readers(void **state)
{
    struct br_plan_cache cache;
    struct br_plan *plan;
    uint32_t readers = 0;

    (void)state;
    init(&cache, 4);
    assert_int_equal(br_plan_cache_get(&cache, BR_ALLREDUCE,
                                       choose(&cache, BR_ALLREDUCE, "flat")->config, 0, false,
                                       false, &plan),
                     0);
    for (uint32_t i = 0; i < plan->schedule->n_steps; i++) {
        readers += plan->readers[i];
        assert_int_equal(plan->readers[i],
                         (plan->schedule->steps[i].flags & BR_STEP_MAY_MAP) ? 1 : 0);
    }
    assert_int_equal(readers, 3);
    br_plan_cache_destroy(&cache);
}

static void plan_cache_choose__by_name_or_cost(void **state)
{
    const struct br_plan_tuning *found;
    struct br_plan_cache cache;

    (void)state;
    init(&cache, 4);
    assert_string_equal(choose(&cache, BR_ALLREDUCE, "ring")->config->name, "ring");
    assert_int_equal(
        br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "nonsense", 8, &found),
        -EINVAL);
    assert_says(br_error_message(), "nonsense");
    for (size_t bytes = 1; bytes < 1u << 30; bytes *= 3) {
        const struct br_plan_config *config;
        struct br_tuning tuning;

        assert_int_equal(br_tuning_choose(&model, BR_ALLREDUCE, 4, (double)bytes, &tuning), 0);
        assert_int_equal(
            br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "", bytes, &found), 0);
        config = found->config;
        assert_true(br_algorithm_config_equal(&config->config, &tuning.config));
        assert_true(found->seconds == tuning.seconds);
        assert_int_equal(
            br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "auto", bytes, &found), 0);
        assert_ptr_equal(found->config, config);
    }
    assert_string_equal(choose(&cache, BR_BARRIER, "")->config->name, "dissemination");
    br_plan_cache_destroy(&cache);
}

/* A program that calls many collectives by turns finds all choices again: of several sizes, and of
 * types that are reduced at different rates. */
static void plan_cache_choose__keeps_those_of_a_program(void **state)
{
    const struct br_plan_tuning *found[64][2];
    struct br_plan_cache cache;

    (void)state;
    init(&cache, 4);
    for (size_t i = 0; i < 64; i++)
        for (int class = 0; class < 2; class ++)
            assert_int_equal(br_plan_cache_choose(&cache, BR_ALLREDUCE, (enum br_cost_class) class,
                                                  "", 8 + 8 * i * i, &found[i][class]),
                             0);
    for (size_t i = 0; i < 64; i++)
        for (int class = 0; class < 2; class ++) {
            assert_int_equal(found[i][class]->bytes, 8 + 8 * i * i);
            assert_int_equal(found[i][class]->class, class);
        }
    br_plan_cache_destroy(&cache);
}

/* Shapes with the same algorithm are different plans. */
static void plan_cache_choose__tells_shapes_apart(void **state)
{
    const struct br_plan_config *direct, *ring;
    struct br_plan *one, *other;
    struct br_plan_cache cache;

    (void)state;
    init(&cache, 4);
    direct = choose(&cache, BR_ALLREDUCE, "blueconnect:2d,2d")->config;
    ring = choose(&cache, BR_ALLREDUCE, "blueconnect:2r,2d")->config;
    assert_ptr_not_equal(direct, ring);
    assert_ptr_equal(choose(&cache, BR_ALLREDUCE, "blueconnect:2dx2d")->config, direct);
    assert_int_equal(br_plan_cache_get(&cache, BR_ALLREDUCE, direct, 0, false, false, &one), 0);
    assert_int_equal(br_plan_cache_get(&cache, BR_ALLREDUCE, ring, 0, false, false, &other), 0);
    assert_ptr_not_equal(one, other);
    br_plan_cache_destroy(&cache);
}

/* A plan of its own, the other's choice. */
static void plan_cache_choose__like_another(void **state)
{
    struct br_plan_cache first, second;
    const struct br_plan_tuning *theirs, *ours;

    (void)state;
    init(&first, 8);
    init(&second, 8);
    second.shared_with = &first;
    ours = choose(&second, BR_ALLREDUCE, "");
    theirs = choose(&first, BR_ALLREDUCE, "");
    assert_ptr_not_equal(ours->config, theirs->config);
    assert_string_equal(ours->config->name, theirs->config->name);
    assert_int_equal(ours->config->digest, theirs->config->digest);
    assert_int_equal(ours->chunk_bytes, theirs->chunk_bytes);
    assert_true(ours->seconds > 0 && ours->seconds == theirs->seconds);
    assert_true(br_plan_cache_choose(&second, BR_ALLREDUCE, BR_COST_4_BYTES, "nonsense", 8, &ours) <
                0);
    br_plan_cache_destroy(&second);
    br_plan_cache_destroy(&first);
}

/* In the order of the ranks: by direct exchange or at once, whatever the size; and not by an
 * algorithm that was named and has another order. What does not combine has any. */
static void plan_cache_choose__by_rank(void **state)
{
    const struct br_plan_tuning *tuning;
    struct br_plan_cache cache;
    int flat = 0;

    (void)state;
    init(&cache, 5);
    for (size_t bytes = 8; bytes <= 64 << 20; bytes *= 8)
        for (int by_rank = 1; by_rank >= 0; by_rank--) {
            cache.by_rank = by_rank;
            assert_int_equal(
                br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "", bytes, &tuning), 0);
            if (!by_rank)
                continue;
            assert_true(br_algorithm_by_rank(tuning->config->config.algorithm, BR_ALLREDUCE));
            flat += tuning->config->config.algorithm == BR_FLAT;
        }
    assert_in_range(flat, 1, 7); /* small ones only */
    cache.by_rank = true;
    assert_int_equal(
        br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "ring", 8, &tuning), -EINVAL);
    assert_says(br_error_message(), "ring|direct");
    assert_int_equal(
        br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "flat", 8, &tuning), 0);
    cache.by_rank = false;
    assert_int_equal(
        br_plan_cache_choose(&cache, BR_ALLREDUCE, BR_COST_4_BYTES, "ring", 8, &tuning), 0);
    br_plan_cache_destroy(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_cache_choose__by_rank),
        cmocka_unit_test(plan_cache_get__builds_once),
        cmocka_unit_test(plan_cache_get__keeps_what_is_held),
        cmocka_unit_test(plan_cache_get__refuses_what_does_not_apply),
        cmocka_unit_test(plan_cache_get__counts_readers),
        cmocka_unit_test(plan_cache_choose__by_name_or_cost),
        cmocka_unit_test(plan_cache_choose__keeps_those_of_a_program),
        cmocka_unit_test(plan_cache_choose__tells_shapes_apart),
        cmocka_unit_test(plan_cache_choose__like_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
