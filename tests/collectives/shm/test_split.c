/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks' views of one shared segment, in one process, which take their rounds in turn. */
#include "collectives/shm/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MOST 7u

static struct br_shm_coll colls[MOST];

static void open_ranks(uint32_t n)
{
    int fd = -1;

    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(r ? br_shm_coll_attach(&colls[r], n, r, false, fd)
                           : br_shm_coll_create(&colls[r], n, 0, false, &fd),
                         0);
    close(fd);
}

static void close_ranks(uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        br_shm_coll_close(&colls[r]);
}

static struct br_operation make(const void *send, void *recv, size_t count, enum braid_type type)
{
    return (struct br_operation){.kind = BR_OPERATION_COLLECTIVE,
                                 .collective = BR_ALLREDUCE,
                                 .send = send,
                                 .recv = recv,
                                 .count = count,
                                 .type = type,
                                 .reduction = BRAID_SUM};
}

/* All rounds of one operation, from epoch *epoch on. */
static void run(struct br_operation *ops, uint32_t n, uint64_t *epoch)
{
    uint32_t rounds = br_shm_split_rounds(&colls[0], &ops[0]);

    for (uint32_t round = 0; round < rounds; round++, (*epoch)++) {
        for (uint32_t r = 0; r < n; r++) {
            assert_true(br_shm_coll_may_publish(&colls[r], *epoch, BR_SHM_COLL_BYTES));
            br_shm_split_write(&colls[r], &ops[r], round, 0, *epoch);
        }
        for (uint32_t r = 0; r < n; r++)
            br_shm_coll_publish(&colls[r], *epoch, 0, NULL, BR_SHM_COLL_BYTES);
        for (uint32_t r = 0; r < n; r++)
            if (round)
                br_shm_split_read(&colls[r], &ops[r], round, *epoch);
    }
}

static uint32_t value(uint32_t rank, size_t i)
{
    return rank * 1000003u + (uint32_t)i * 2654435761u;
}

/* root < 0: an all-reduce; else a reduce, of which the others have no result. */
static void check_sums(uint32_t n, size_t count, int root, bool in_place, uint64_t *epoch)
{
    struct br_operation ops[MOST];

    for (uint32_t r = 0; r < n; r++) {
        bool has_result = root < 0 || r == (uint32_t)root;
        uint32_t *in = malloc((count + 1) * sizeof *in), *out = NULL;

        if (has_result)
            out = in_place ? in : malloc((count + 1) * sizeof *out);
        assert_true(in && (out || !has_result));
        if (out)
            out[count] = 4711;
        for (size_t i = 0; i < count; i++)
            in[i] = value(r, i);
        ops[r] = make(in, out, count, BRAID_UINT32);
        if (root >= 0) {
            ops[r].collective = BR_REDUCE;
            ops[r].root = root;
        }
    }
    run(ops, n, epoch);
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t *in = ops[r].send, *out = ops[r].recv;

        for (size_t i = 0; i < count; i++) {
            uint32_t sum = 0;

            for (uint32_t k = 0; k < n; k++)
                sum += value(k, i);
            if (out)
                assert_int_equal(out[i], sum);
            if (in != out)
                assert_int_equal(in[i], value(r, i));
        }
        if (out)
            assert_int_equal(out[count], 4711); /* nothing is written behind it */
        if (in != out)
            free(ops[r].recv);
        free((void *)in);
    }
}

/* Fewer lines than ranks, lines and ends that no part count divides, several chunks. */
static const size_t counts[] = {1, 15, 16, 17, 100, 5000, 32768, 32769, 90001};
#define COUNTS (sizeof counts / sizeof *counts)

static void write__every_rank_has_all_sums(void **state)
{
    uint64_t epoch;

    (void)state;
    for (uint32_t n = 2; n <= MOST; n++) {
        open_ranks(n);
        epoch = 1;
        for (size_t c = 0; c < COUNTS; c++) {
            check_sums(n, counts[c], -1, false, &epoch);
            check_sums(n, counts[c], -1, true, &epoch);
        }
        close_ranks(n);
    }
}

/* Behind each other and behind all-reduces, as all use the same cells. */
static void write__a_root_has_all_sums(void **state)
{
    uint64_t epoch;

    (void)state;
    for (uint32_t n = 3; n <= MOST; n++) {
        open_ranks(n);
        epoch = 1;
        for (size_t c = 0; c < COUNTS; c++) {
            check_sums(n, counts[c], 0, false, &epoch);
            check_sums(n, counts[c], (int)n - 1, true, &epoch);
            check_sums(n, counts[c], 1, true, &epoch);
            check_sums(n, counts[c], -1, c % 2, &epoch);
            check_sums(n, counts[c], 1, false, &epoch);
        }
        close_ranks(n);
    }
}

/* Sums of floats depend on the order: that of the ranks. */
static void write__in_the_order_of_ranks(void **state)
{
    static const float in[3][1] = {{1e8f}, {1.0f}, {-1e8f}};
    float out[3][1];
    struct br_operation ops[3];
    uint64_t epoch = 1;

    (void)state;
    open_ranks(3);
    for (int r = 0; r < 3; r++)
        ops[r] = make(in[r], out[r], 1, BRAID_FLOAT32);
    run(ops, 3, &epoch);
    for (int r = 0; r < 3; r++)
        assert_true(out[r][0] > -0.5f && out[r][0] < 0.5f); /* (1e8 + 1) - 1e8 in float32 is 0 */
    close_ranks(3);
}

static void rounds__one_more_than_chunks(void **state)
{
    struct br_operation op = make(NULL, NULL, 0, BRAID_FLOAT64);

    (void)state;
    open_ranks(4);
    op.count = 1;
    assert_int_equal(br_shm_split_rounds(&colls[0], &op), 2);
    op.count = 80 * 1024 / sizeof(double);
    assert_int_equal(br_shm_split_rounds(&colls[0], &op), 2);
    op.count = 160 * 1024 / sizeof(double);
    assert_int_equal(br_shm_split_rounds(&colls[0], &op), 2);
    op.collective = BR_REDUCE; /* its root has no part */
    assert_int_equal(br_shm_split_rounds(&colls[0], &op), 3);
    close_ranks(4);
}

static void threshold__falls_with_ranks_and_rises_with_the_round(void **state)
{
    struct br_cost_model model;
    struct br_shm_rate rate = {.reduce = 0.05e-9, .copy = 0.05e-9};
    size_t few, many;

    (void)state;
    br_cost_model_default(&model, BR_COST_HOST, 1);
    assert_true(br_shm_split_threshold(&model, rate, 2) == SIZE_MAX); /* a copy, and no sum less */
    few = br_shm_split_threshold(&model, rate, 8);
    many = br_shm_split_threshold(&model, rate, 64);
    assert_true(many < few && few < 1u << 20);
    model.levels[0].overhead *= 10;
    assert_true(br_shm_split_threshold(&model, rate, 64) > many);
    rate.reduce = 0;
    assert_true(br_shm_split_threshold(&model, rate, 64) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__every_rank_has_all_sums),
        cmocka_unit_test(write__a_root_has_all_sums),
        cmocka_unit_test(write__in_the_order_of_ranks),
        cmocka_unit_test(rounds__one_more_than_chunks),
        cmocka_unit_test(threshold__falls_with_ranks_and_rises_with_the_round),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
