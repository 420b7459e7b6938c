/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "bcube/address.h"
#include "tools/plan/timing.h"
#include "tests/collectives/schedules.h"

#define ALL_RANKS 12 /* up to here every shape with every collective and in-place rule */

/* Calls `each` for every ordered factorisation of n into factors of at least 2. */
static void factorise(uint32_t n, struct br_shape *shape,
                      void (*each)(struct br_shape *, uint32_t n), uint32_t whole)
{
    if (n == 1)
        each(shape, whole);
    for (uint32_t factor = 2; factor <= n; factor++) {
        if (n % factor != 0)
            continue;
        shape->dimensions[shape->n_dimensions] =
            (struct br_dimension){factor, BR_METHOD_DIRECT, (uint8_t)shape->n_dimensions};
        shape->n_dimensions++;
        factorise(n / factor, shape, each, whole);
        shape->n_dimensions--;
    }
}

static uint32_t proved;

/* In place as a turn chooses; the collective, too, unless it must be an allreduce. */
static void prove_one(const struct br_shape *shape, uint32_t n, uint32_t turn, bool allreduce)
{
    static const enum br_collective collectives[] = {BR_REDUCE_SCATTER, BR_ALLGATHER, BR_BROADCAST};
    enum br_collective collective = allreduce ? BR_ALLREDUCE : collectives[turn % 3];
    struct br_schedule_request request = {.collective = collective,
                                          .algorithm = BR_DIMENSIONAL,
                                          .n = n,
                                          .root = collective == BR_BROADCAST ? turn % n : 0,
                                          .shape = *shape};
    struct schedules schedules;

    request.packed = turn % 8 < 4 && br_algorithm_can_pack(&request);
    schedules_build(&schedules, request, (enum in_place)(turn / 3 % 3));
    if (schedules_verify(&schedules, 1) != 0)
        fail_msg("%s of %u ranks, %u dimensions from %u, %u threads, method %d, packed %d: %s",
                 br_collective_name(request.collective), n, shape->n_dimensions,
                 shape->dimensions[0].size, shape->threads, (int)shape->dimensions[0].method,
                 (int)request.packed, br_error_message());
    schedules_free(&schedules);
    proved++;
}

/* A factorisation with each method in all dimensions (halving where it can, direct elsewhere), and
 * with a mixture of them; one thread, and as many as dimensions. */
static void prove_factors(struct br_shape *shape, uint32_t n)
{
    static uint32_t turn;

    for (uint32_t variant = 0; variant < 8; variant++) {
        struct br_shape with = *shape;

        with.threads = variant < 4 ? 1 : shape->n_dimensions;
        if (variant >= 4 && shape->n_dimensions == 1)
            break;
        for (uint32_t i = 0; i < with.n_dimensions; i++) {
            struct br_dimension *d = &with.dimensions[i];

            d->method = (enum br_method)(variant % 4 < 3 ? variant % 4 : (i + turn) % 3);
            if (d->method == BR_METHOD_HALVING && (d->size & (d->size - 1)) != 0)
                d->method = BR_METHOD_DIRECT;
        }
        if (n <= ALL_RANKS) {
            proved += schedules_prove(BR_DIMENSIONAL, &with, n);
            continue;
        }
        prove_one(&with, n, turn, true);
        if (turn++ % 4 == 0)
            prove_one(&with, n, turn, false);
    }
}

/* Every ordered factorisation of every number of ranks. Beyond ALL_RANKS each variant of it is
 * proved for an allreduce, every fourth for another collective, with one in-place rule and in one
 * random order. */
static void br_generate_dimensional__is_proved_for_every_shape(void **state)
{
    struct br_shape shape = {0};

    (void)state;
    proved = 0;
    for (uint32_t n = 2; n <= schedules_most_ranks(); n++)
        factorise(n, &shape, prove_factors, n);
    print_message("%u sets of schedules\n", proved);
    assert_true(proved > 60 * schedules_most_ranks());
}

static void br_generate_dimensional__folds_any_remainder(void **state)
{
    struct br_shape shape = {.n_dimensions = 2,
                             .threads = 2,
                             .dimensions = {{3, BR_METHOD_RING, 0}, {2, BR_METHOD_HALVING, 1}}};

    (void)state;
    for (uint32_t n = 6; n <= 12; n++)
        assert_true(schedules_prove(BR_DIMENSIONAL, &shape, n) >= 4 * 3);
}

static void br_generate_dimensional__proves_blueconnect_of_96(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL, .n = 96};
    struct schedules schedules;

    (void)state;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 1,
                          .dimensions = {{16, BR_METHOD_HALVING, 0}, {6, BR_METHOD_RING, 1}}};
    schedules_build(&schedules, request, IN_PLACE_ALL);
    if (schedules_verify(&schedules, 1) != 0)
        fail_msg("%s", br_error_message());
    schedules_free(&schedules);
}

static struct br_shape cube_shape(const struct br_bcube *cube, enum br_method method,
                                  uint32_t threads)
{
    struct br_shape shape = {.n_dimensions = cube->k, .threads = threads};

    for (uint32_t i = 0; i < cube->k; i++)
        shape.dimensions[i] = (struct br_dimension){cube->n, method, (uint8_t)i};
    return shape;
}

/*
 * The messages of one thread of one host in the order of the paper: in step w of the aggregation it
 * sends each neighbour of level (w + t) mod k the N / n^(w+1) pieces that agree with that neighbour
 * in the digits of the levels so far; the broadcast goes back. Each message's ends differ in the
 * digit of its level alone.
 */
struct bml {
    const struct br_bcube *cube;
    struct br_stages stages;
    uint32_t thread, host;
    uint32_t sent; /* messages so far */
    uint32_t pieces;
};

static void check_bml_message(struct bml *bml, const struct br_step *step)
{
    const struct br_bcube *cube = bml->cube;
    uint32_t phase = bml->sent++ / (cube->n - 1), k = cube->k;
    uint32_t w = phase < k ? phase : 2 * k - 1 - phase, level = (w + bml->thread) % k;

    assert_true(phase < 2 * k);
    assert_int_equal(step->level, level);
    assert_int_equal(br_bcube_level(cube, bml->host, step->peer), level);
    assert_int_equal(step->span.count, cube->hosts / br_bcube_power(cube, w + 1));
    for (uint32_t i = 0; i < step->span.count; i++) {
        uint32_t number = (step->piece + i) % cube->hosts,
                 owner = br_stages_home(&bml->stages, number);

        for (uint32_t j = 0; j <= w; j++) {
            uint32_t digit = (j + bml->thread) % k;
            uint32_t host = phase < k ? step->peer : bml->host;

            assert_int_equal(br_bcube_digit(cube, owner, digit), br_bcube_digit(cube, host, digit));
        }
    }
    bml->pieces += step->span.count;
}

static void check_bml(const struct br_bcube *cube, uint32_t host)
{
    struct br_schedule_request request = {
        .algorithm = BR_DIMENSIONAL, .n = cube->hosts, .rank = host, .in_place = true};
    struct bml threads[BR_BCUBE_LEVELS_MAX] = {0};
    struct br_schedule *schedule;

    request.shape = cube_shape(cube, BR_METHOD_DIRECT, cube->k);
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    assert_int_equal(schedule->pieces, cube->k * cube->hosts);
    for (uint32_t t = 0; t < cube->k; t++) {
        threads[t] = (struct bml){.cube = cube, .thread = t, .host = host};
        br_shape_stages(&request.shape, t, &threads[t].stages);
    }
    for (uint32_t i = 0; i < schedule->n_steps; i++) {
        if (schedule->steps[i].kind == BR_STEP_SEND)
            check_bml_message(&threads[schedule->steps[i].piece / cube->hosts],
                              &schedule->steps[i]);
    }
    for (uint32_t t = 0; t < cube->k; t++)
        assert_int_equal(threads[t].pieces, 2 * (cube->hosts - 1));
    br_schedule_free(schedule);
}

static const char *const cubes[] = {"3,2", "2,2", "2,3", "4,2", "2,1", "3,3", "2,5"};

static void br_generate_dimensional__is_bml_on_a_bcube(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct br_bcube cube;

        assert_int_equal(br_bcube_parse(&cube, cubes[i]), 0);
        for (uint32_t host = 0; host < cube.hosts; host++)
            check_bml(&cube, host);
    }
}

/* On links that cost for their bytes alone, BML takes 2(N-1)/(kN) of the time to send all once over
 * one link, and its first step in BCube(3,2) 6 of the 18 piece-times. */
static void br_generate_dimensional__bml_takes_the_time_of_the_paper(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct br_cost_model model = {.n_levels = 0};
        struct br_schedule_request request = {.algorithm = BR_DIMENSIONAL};
        struct schedules schedules;
        struct br_bcube cube;
        double seconds, theory;

        assert_int_equal(br_bcube_parse(&cube, cubes[i]), 0);
        for (model.n_levels = 0; model.n_levels < cube.k; model.n_levels++)
            model.levels[model.n_levels].beta = 1e-9;
        request.n = cube.hosts;
        request.shape = cube_shape(&cube, BR_METHOD_DIRECT, cube.k);
        schedules_build(&schedules, request, IN_PLACE_ALL);
        assert_int_equal(br_timing_run(&model, (const struct br_schedule *const *)schedules.of, 1e9,
                                       1, &seconds),
                         0);
        schedules_free(&schedules);
        theory = 2 * (cube.hosts - 1.0) / (cube.k * cube.hosts);
        if (seconds < theory * 0.999999 || seconds > theory * 1.000001)
            fail_msg("BCube(%s): %.6f of the time for all over one link, not %.6f", cubes[i],
                     seconds, theory);
    }
}

/* A ring in which every hop is a link of the cube, on the level of the digit that changes. */
static void br_generate_dimensional__goes_round_a_bcube(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cubes / sizeof *cubes; i++) {
        struct br_bcube cube;

        assert_int_equal(br_bcube_parse(&cube, cubes[i]), 0);
        for (uint32_t threads = 1; threads <= cube.k; threads += cube.k > 1 ? cube.k - 1 : 1) {
            struct br_shape shape = cube_shape(&cube, BR_METHOD_CYCLE, threads);
            struct br_schedule_request request = {
                .algorithm = BR_DIMENSIONAL, .n = cube.hosts, .shape = shape};
            struct br_schedule *schedule;

            assert_true(schedules_prove(BR_DIMENSIONAL, &shape, cube.hosts) >= 4 * 3);
            for (request.rank = 0; request.rank < cube.hosts; request.rank++) {
                assert_int_equal(br_algorithm_build(&request, &schedule), 0);
                for (uint32_t s = 0; s < schedule->n_steps; s++) {
                    const struct br_step *step = &schedule->steps[s];

                    if (step->kind == BR_STEP_SEND || step->kind == BR_STEP_RECV)
                        assert_int_equal(step->level,
                                         br_bcube_level(&cube, request.rank, step->peer));
                }
                br_schedule_free(schedule);
            }
        }
    }
}

/* What a rank sends, and copies, with a message for each block or with packed ones. */
static void check_counts(struct br_schedule_request request, uint32_t sends, uint32_t copies)
{
    struct br_schedule *schedule;
    uint32_t got = 0;

    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    for (uint32_t i = 0; i < schedule->n_steps; i++)
        got += schedule->steps[i].kind == BR_STEP_COPY;
    if (schedule->n_sends != sends || got != copies)
        fail_msg("%s of %u ranks, rank %u, packed %d: %u messages and %u copies, not %u and %u",
                 br_collective_name(request.collective), request.n, request.rank,
                 (int)request.packed, schedule->n_sends, got, sends, copies);
    br_schedule_free(schedule);
}

/* copies: that it takes to bring blocks into the order of the numbers; 0: the user's buffer has
 * this order. */
static void check_packed(struct br_schedule_request request, uint32_t packed, uint32_t copies)
{
    for (request.rank = 0; request.rank < request.n; request.rank++) {
        uint32_t threads = request.shape.threads ? request.shape.threads : 1;

        request.collective = BR_REDUCE_SCATTER;
        request.packed = false;
        check_counts(request, (request.n - 1) * threads, 0);
        request.packed = true;
        check_counts(request, packed, copies);
        request.in_place = true;
        check_counts(request, packed, copies);
        request.collective = BR_ALLGATHER;
        check_counts(request, packed, copies);
        request.in_place = false;
        check_counts(request, packed, copies + 1);
        request.packed = false;
        check_counts(request, (request.n - 1) * threads, 1);
    }
}

/* A message a step, not one a block. */
static void br_generate_dimensional__packs_what_travels_together(void **state)
{
    struct br_schedule_request request = {.algorithm = BR_HALVING, .n = 64};
    struct br_bcube cube;

    (void)state;
    check_packed(request, 6, 0);
    request.algorithm = BR_DIMENSIONAL;
    request.n = 96;
    request.shape =
        (struct br_shape){.n_dimensions = 2,
                          .threads = 1,
                          .dimensions = {{16, BR_METHOD_HALVING, 0}, {6, BR_METHOD_RING, 1}}};
    check_packed(request, 9, 96);
    request.shape.first = 1; /* the ranks that are far apart first: so the numbers are the ranks */
    check_packed(request, 9, 0);
    assert_int_equal(br_bcube_parse(&cube, "8,2"), 0);
    request.n = cube.hosts;
    request.shape = cube_shape(&cube, BR_METHOD_DIRECT, 2);
    check_packed(request, 28, 2 * 64);
}

/* Three ranks of 7 are served by others, which give them all that they lack in one message. */
static void br_generate_dimensional__packs_for_folded_ranks(void **state)
{
    static const uint32_t sends[2][7] = {{3, 3, 3, 2, 1, 1, 1}, {3, 3, 3, 2, 1, 1, 1}};
    struct br_schedule_request request = {.algorithm = BR_HALVING, .n = 7, .packed = true};
    struct br_schedule *schedule;

    (void)state;
    for (int c = 0; c < 2; c++)
        for (request.rank = 0; request.rank < 7; request.rank++) {
            request.collective = c ? BR_ALLGATHER : BR_REDUCE_SCATTER;
            assert_int_equal(br_algorithm_build(&request, &schedule), 0);
            assert_int_equal(schedule->n_sends, sends[c][request.rank]);
            br_schedule_free(schedule);
        }
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

/* One rank of BCube(16,4). Runs first, while the process is small. */
static void br_generate_dimensional__is_quick_and_small_for_65536_ranks(void **state)
{
    struct br_schedule_request request = {
        .algorithm = BR_DIMENSIONAL, .n = 65536, .rank = 4711, .in_place = true};
    const char *sanitize = getenv("BRAID_SANITIZE");
    struct rusage before, after;
    struct br_schedule *schedule;
    clock_t start, end;

    (void)state;
    request.shape = (struct br_shape){.n_dimensions = 4, .threads = 4};
    for (uint8_t i = 0; i < 4; i++)
        request.shape.dimensions[i] = (struct br_dimension){16, BR_METHOD_DIRECT, i};
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    start = clock();
    assert_int_equal(br_algorithm_build(&request, &schedule), 0);
    end = clock();
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_int_equal(schedule->n_sends, 2 * 4 * 4 * 15);
    br_schedule_free(schedule);
    print_message("%.1f ms, %ld KiB\n", (double)(end - start) * 1e3 / CLOCKS_PER_SEC,
                  after.ru_maxrss - before.ru_maxrss);
    if (!sanitize || !*sanitize) {
        assert_true(end - start < CLOCKS_PER_SEC / 2);
        assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_generate_dimensional__is_quick_and_small_for_65536_ranks),
        cmocka_unit_test(br_generate_dimensional__is_proved_for_every_shape),
        cmocka_unit_test(br_generate_dimensional__folds_any_remainder),
        cmocka_unit_test(br_generate_dimensional__proves_blueconnect_of_96),
        cmocka_unit_test(br_generate_dimensional__is_bml_on_a_bcube),
        cmocka_unit_test(br_generate_dimensional__bml_takes_the_time_of_the_paper),
        cmocka_unit_test(br_generate_dimensional__goes_round_a_bcube),
        cmocka_unit_test(br_generate_dimensional__packs_what_travels_together),
        cmocka_unit_test(br_generate_dimensional__packs_for_folded_ranks),
        cmocka_unit_test(br_generate_dimensional__rotates_the_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
