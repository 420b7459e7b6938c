/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/error.h"
#include "collectives/plan.h"

static struct br_cost_model model;

static void init(struct br_plans *plans, uint32_t n)
{
    br_cost_model_default(&model, BR_COST_HOST, 1);
    br_plans_init(plans, &model, 1, n);
}

static struct br_plan *get(struct br_plans *plans, uint32_t root, bool in_place)
{
    struct br_plan *plan = NULL;

    assert_int_equal(br_plans_get(plans, BR_BROADCAST, BR_TREE, root, in_place, &plan), 0);
    return plan;
}

static void plans_get__builds_once(void **state)
{
    struct br_plans plans;
    struct br_plan *plan;

    (void)state;
    init(&plans, 4);
    plan = get(&plans, 2, false);
    assert_int_equal(plan->schedule->root, 2);
    assert_int_equal(plan->users, 1);
    assert_ptr_equal(get(&plans, 2, false), plan);
    assert_ptr_not_equal(get(&plans, 2, true), plan);
    assert_ptr_not_equal(get(&plans, 3, false), plan);
    assert_int_equal(plans.built, 3);
    br_plans_destroy(&plans);
}

/* Old plans go when there are many, but none that an operation holds. */
static void plans_get__keeps_what_is_held(void **state)
{
    struct br_plans plans;
    struct br_plan *held;

    (void)state;
    init(&plans, 300);
    held = get(&plans, 0, false);
    for (uint32_t root = 1; root < 300; root++)
        br_plan_put(get(&plans, root, false));
    assert_true(plans.count < 100);
    assert_int_equal(plans.built, 300);
    assert_ptr_equal(get(&plans, 0, false), held);
    assert_int_equal(plans.built, 300);
    br_plan_put(get(&plans, 1, false));
    assert_int_equal(plans.built, 301);
    br_plans_destroy(&plans);
}

static void plans_get__refuses_what_does_not_apply(void **state)
{
    struct br_plans plans;
    struct br_plan *plan;

    (void)state;
    init(&plans, 4);
    assert_int_equal(br_plans_get(&plans, BR_BARRIER, BR_TREE, 0, false, &plan), -EINVAL);
    assert_int_equal(plans.count, 0);
    br_plans_destroy(&plans);
}

/* A mapped receive counts the sources that read it. */
static void plans_get__counts_readers(void **state)
{
    struct br_plans plans;
    struct br_plan *plan;
    uint32_t readers = 0;

    (void)state;
    init(&plans, 4);
    assert_int_equal(br_plans_get(&plans, BR_ALLREDUCE, BR_FLAT, 0, false, &plan), 0);
    for (uint32_t i = 0; i < plan->schedule->n_steps; i++) {
        readers += plan->readers[i];
        assert_int_equal(plan->readers[i], (plan->schedule->steps[i].flags & BR_STEP_MAY_MAP) ? 1 : 0);
    }
    assert_int_equal(readers, 3);
    br_plans_destroy(&plans);
}

static void plans_choose__by_name_or_cost(void **state)
{
    enum br_algorithm algorithm, again;
    struct br_plans plans;

    (void)state;
    init(&plans, 4);
    assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, "ring", 8, &algorithm), 0);
    assert_int_equal(algorithm, BR_RING);
    assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, "nonsense", 8, &algorithm), -EINVAL);
    assert_non_null(strstr(br_error_words(), "nonsense"));
    for (size_t bytes = 1; bytes < 1u << 30; bytes *= 3) {
        struct br_choice choice;

        assert_int_equal(br_choose(&model, BR_ALLREDUCE, 4, (double)bytes, &choice), 0);
        assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, "", bytes, &algorithm), 0);
        assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, "auto", bytes, &again), 0);
        assert_int_equal(algorithm, choice.algorithm);
        assert_int_equal(again, algorithm);
    }
    assert_int_equal(br_plans_choose(&plans, BR_BARRIER, "", 1, &algorithm), 0);
    assert_int_equal(algorithm, BR_DISSEMINATION);
    br_plans_destroy(&plans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_get__builds_once),
        cmocka_unit_test(plans_get__keeps_what_is_held),
        cmocka_unit_test(plans_get__refuses_what_does_not_apply),
        cmocka_unit_test(plans_get__counts_readers),
        cmocka_unit_test(plans_choose__by_name_or_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
