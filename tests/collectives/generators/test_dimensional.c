/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/collectives/schedules.h"

#define MOST_RANKS 33

/* Proves a product of three factors, small ones with every method for the first two, 1 and 2 threads. */
static uint32_t prove_products(uint32_t n, uint32_t a, uint32_t b)
{
    uint32_t count = 0;

    for (uint32_t variant = n <= 12 ? 0 : n % 5; variant < 18; variant += n <= 12 ? 1 : 5) {
        struct br_shape shape = {.n_dimensions = 3, .threads = 1 + variant / 9};

        shape.dimensions[0] = (struct br_dimension){a, (enum br_method)(variant % 3), 0};
        shape.dimensions[1] = (struct br_dimension){b, (enum br_method)(variant / 3 % 3), 1};
        shape.dimensions[2] = (struct br_dimension){n / a / b, BR_METHOD_DIRECT, 2};
        count += schedules_prove(BR_DIMENSIONAL, &shape, n);
    }
    return count;
}

static void br_generate_dimensional__is_proved_for_products(void **state)
{
    uint32_t count = 0;

    (void)state;
    for (uint32_t n = 4; n <= MOST_RANKS; n++) {
        for (uint32_t a = 2; a <= n; a++) {
            for (uint32_t b = 2; n % a == 0 && b <= n / a; b++)
                count += n / a % b == 0 ? prove_products(n, a, b) : 0;
        }
    }
    assert_true(count > 1000);
}

static void br_generate_dimensional__folds_any_remainder(void **state)
{
    struct br_shape shape = {
        .n_dimensions = 2, .threads = 2, .dimensions = {{3, BR_METHOD_RING, 0}, {2, BR_METHOD_HALVING, 1}}};

    (void)state;
    for (uint32_t n = 6; n <= 12; n++)
        assert_true(schedules_prove(BR_DIMENSIONAL, &shape, n) >= 4 * 3);
}

static void br_generate_dimensional__proves_blueconnect_of_96(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 96};
    struct schedules schedules;

    (void)state;
    request.shape = (struct br_shape){
        .n_dimensions = 2, .threads = 1, .dimensions = {{16, BR_METHOD_HALVING, 0}, {6, BR_METHOD_RING, 1}}};
    schedules_build(&schedules, request, IN_PLACE_ALL);
    if (schedules_verify(&schedules, 1) != 0)
        fail_msg("%s", br_error_words());
    schedules_free(&schedules);
}

/* The pieces that rank 4 of BCube(3,2) sends: 6 then 2 in each thread's aggregation, 2 then 6 in its
 * broadcast, to two neighbours each, and in every step the two threads use different levels. */
static void br_generate_dimensional__is_bml_on_bcube_3_2(void **state)
{
    static const uint32_t pieces[] = {3, 3, 1, 1, 1, 1, 3, 3};
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 9, .rank = 4, .in_place = true};
    struct br_schedule *schedule;
    uint32_t sends[2] = {0, 0};

    (void)state;
    request.shape = (struct br_shape){
        .n_dimensions = 2, .threads = 2, .dimensions = {{3, BR_METHOD_DIRECT, 0}, {3, BR_METHOD_DIRECT, 1}}};
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    assert_int_equal(schedule->pieces, 18);
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        const struct br_step *step = &schedule->steps[i];
        uint32_t thread = step->piece / 9, step_of_thread, level;

        if (step->kind != BR_STEP_SEND)
            continue;
        step_of_thread = sends[thread] / 2 % 4;
        level = step_of_thread == 0 || step_of_thread == 3 ? thread : 1 - thread;
        assert_int_equal(step->span.count, pieces[sends[thread]]);
        assert_int_equal(step->level, level);
        if (level == 0)
            assert_true(step->peer / 3 == 1 && step->peer != 4);
        else
            assert_true(step->peer % 3 == 1 && step->peer != 4);
        sends[thread]++;
    }
    assert_int_equal(sends[0], 8);
    assert_int_equal(sends[1], 8);
    br_schedule_free(schedule);
}

/* In a direct exchange no receiver is everybody's first. */
static void br_generate_dimensional__rotates_the_peers(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DIRECT, .n = 7};

    (void)state;
    for (request.rank = 0; request.rank < 7; request.rank++) {
        struct br_schedule *schedule;

        assert_int_equal(br_algorithm_build(&request, &schedule), 0);
        assert_int_equal(schedule->steps[0].kind, BR_STEP_SEND);
        assert_int_equal(schedule->steps[0].peer, (request.rank + 1) % 7);
        br_schedule_free(schedule);
    }
}

static void br_generate_dimensional__is_quick_for_65536_ranks(void **state)
{
    struct br_schedule_request request = {
        .algorithm = BR_DIMENSIONAL, .n = 65536, .rank = 4711, .in_place = true};
    struct br_schedule *schedule;
    clock_t start = clock();

    (void)state;
    request.shape = (struct br_shape){.n_dimensions = 4, .threads = 4};
    for (uint8_t i = 0; i < 4; i++)
        request.shape.dimensions[i] = (struct br_dimension){16, BR_METHOD_DIRECT, i};
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    assert_int_equal(schedule->n_sends, 2 * 4 * 4 * 15);
    assert_true(clock() - start < CLOCKS_PER_SEC);
    print_message("%.1f ms\n", (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC);
    br_schedule_free(schedule);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_dimensional__is_proved_for_products),
        cmocka_unit_test(br_generate_dimensional__folds_any_remainder),
        cmocka_unit_test(br_generate_dimensional__proves_blueconnect_of_96),
        cmocka_unit_test(br_generate_dimensional__is_bml_on_bcube_3_2),
        cmocka_unit_test(br_generate_dimensional__rotates_the_peers),
        cmocka_unit_test(br_generate_dimensional__is_quick_for_65536_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
