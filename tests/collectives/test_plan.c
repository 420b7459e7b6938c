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
#include "tests/says.h"

static struct br_cost_model model;

static void init(struct br_plans *plans, uint32_t n)
{
    br_cost_model_default(&model, BR_COST_HOST, 1);
    br_plans_init(plans, &model, 1, n);
}

static const struct br_plan_choice *choose(struct br_plans *plans, enum br_collective collective,
                                           const char *text)
{
    const struct br_plan_choice *choice;

    if (br_plans_choose(plans, collective, BR_COST_4_BYTES, text, 1000, &choice) != 0)
        fail_msg("%s", br_error_words());
    return choice;
}

static struct br_plan *get(struct br_plans *plans, uint32_t root, bool in_place)
{
    struct br_plan *plan = NULL;

    assert_int_equal(
        br_plans_get(plans, BR_BROADCAST, choose(plans, BR_BROADCAST, "tree")->way, root, in_place, &plan),
        0);
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
    const struct br_plan_choice *choice;
    struct br_plans plans;
    struct br_plan *plan;

    (void)state;
    init(&plans, 4);
    assert_int_equal(br_plans_choose(&plans, BR_BARRIER, BR_COST_4_BYTES, "tree", 0, &choice), -EINVAL);
    assert_says(br_error_words(), "tree|barrier");
    choice = choose(&plans, BR_BROADCAST, "tree");
    assert_int_equal(br_plans_get(&plans, BR_BARRIER, choice->way, 0, false, &plan), -EINVAL);
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
    assert_int_equal(
        br_plans_get(&plans, BR_ALLREDUCE, choose(&plans, BR_ALLREDUCE, "flat")->way, 0, false, &plan), 0);
    for (uint32_t i = 0; i < plan->schedule->n_steps; i++) {
        readers += plan->readers[i];
        assert_int_equal(plan->readers[i], (plan->schedule->steps[i].flags & BR_STEP_MAY_MAP) ? 1 : 0);
    }
    assert_int_equal(readers, 3);
    br_plans_destroy(&plans);
}

static void plans_choose__by_name_or_cost(void **state)
{
    const struct br_plan_choice *found;
    struct br_plans plans;

    (void)state;
    init(&plans, 4);
    assert_string_equal(choose(&plans, BR_ALLREDUCE, "ring")->way->name, "ring");
    assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, BR_COST_4_BYTES, "nonsense", 8, &found), -EINVAL);
    assert_says(br_error_words(), "nonsense");
    for (size_t bytes = 1; bytes < 1u << 30; bytes *= 3) {
        const struct br_plan_way *way;
        struct br_choice choice;

        assert_int_equal(br_choose(&model, BR_ALLREDUCE, 4, (double)bytes, &choice), 0);
        assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, BR_COST_4_BYTES, "", bytes, &found), 0);
        way = found->way;
        assert_true(br_way_equal(&way->way, &choice.way));
        assert_true(found->seconds == choice.seconds);
        assert_int_equal(br_plans_choose(&plans, BR_ALLREDUCE, BR_COST_4_BYTES, "auto", bytes, &found), 0);
        assert_ptr_equal(found->way, way);
    }
    assert_string_equal(choose(&plans, BR_BARRIER, "")->way->name, "dissemination");
    br_plans_destroy(&plans);
}

/* Shapes with the same algorithm are different plans. */
static void plans_choose__tells_shapes_apart(void **state)
{
    const struct br_plan_way *direct, *ring;
    struct br_plan *one, *other;
    struct br_plans plans;

    (void)state;
    init(&plans, 4);
    direct = choose(&plans, BR_ALLREDUCE, "blueconnect:2d,2d")->way;
    ring = choose(&plans, BR_ALLREDUCE, "blueconnect:2r,2d")->way;
    assert_ptr_not_equal(direct, ring);
    assert_ptr_equal(choose(&plans, BR_ALLREDUCE, "blueconnect:2dx2d")->way, direct);
    assert_int_equal(br_plans_get(&plans, BR_ALLREDUCE, direct, 0, false, &one), 0);
    assert_int_equal(br_plans_get(&plans, BR_ALLREDUCE, ring, 0, false, &other), 0);
    assert_ptr_not_equal(one, other);
    br_plans_destroy(&plans);
}

/* A plan of its own, the other's choice. */
static void plans_choose__like_another(void **state)
{
    struct br_plans first, second;
    const struct br_plan_choice *theirs, *ours;

    (void)state;
    init(&first, 8);
    init(&second, 8);
    second.like = &first;
    ours = choose(&second, BR_ALLREDUCE, "");
    theirs = choose(&first, BR_ALLREDUCE, "");
    assert_ptr_not_equal(ours->way, theirs->way);
    assert_string_equal(ours->way->name, theirs->way->name);
    assert_int_equal(ours->way->digest, theirs->way->digest);
    assert_int_equal(ours->chunk_bytes, theirs->chunk_bytes);
    assert_true(ours->seconds > 0 && ours->seconds == theirs->seconds);
    assert_true(br_plans_choose(&second, BR_ALLREDUCE, BR_COST_4_BYTES, "nonsense", 8, &ours) < 0);
    br_plans_destroy(&second);
    br_plans_destroy(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_get__builds_once),
        cmocka_unit_test(plans_get__keeps_what_is_held),
        cmocka_unit_test(plans_get__refuses_what_does_not_apply),
        cmocka_unit_test(plans_get__counts_readers),
        cmocka_unit_test(plans_choose__by_name_or_cost),
        cmocka_unit_test(plans_choose__tells_shapes_apart),
        cmocka_unit_test(plans_choose__like_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
