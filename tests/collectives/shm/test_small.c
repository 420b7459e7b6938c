/* SPDX-License-Identifier: BSD-3-Clause */
/* Small calls without an operation, step by step; test_mixed.c has them among others, in threads.
 */
#include "collectives/shm/small.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "collectives/comm/api.h"
#include "collectives/engine/group.h"
#include "tests/says.h"

#define RANKS 3

static int job_ranks[RANKS] = {0, 1, 2};
static struct br_group group = {.number = 5, .size = RANKS, .ranks = job_ranks};
static struct br_shm_executor shms[RANKS];

static int set_up(void **state)
{
    int fd = -1;

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        struct br_shm_executor *shm = &shms[r];

        *shm = (struct br_shm_executor){.group = &group,
                                        .rank = r,
                                        .n = RANKS,
                                        .split_bytes = 64,
                                        .split_reduce_bytes = 80,
                                        .small_end = BR_SHM_COLL_SMALL + 1};
        br_list_init(&shm->queue);
        if (r ? br_shm_coll_attach(&shm->coll, RANKS, r, false, fd)
              : br_shm_coll_create(&shm->coll, RANKS, 0, false, &fd))
            return -1;
    }
    return close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        br_shm_coll_close(&shms[r].coll);
    return 0;
}

static struct br_api_even call_of(enum br_collective collective, void *buffer, size_t count)
{
    return (struct br_api_even){.collective = collective,
                                .send = buffer,
                                .recv = buffer,
                                .count = count,
                                .type = BRAID_INT32,
                                .reduction = BRAID_SUM,
                                .root = br_collective_rooted(collective) ? 1 : 0};
}

static bool takes(struct br_api_even call)
{
    struct br_shm_small small;

    return br_shm_small_takes(&shms[0], &call, &small);
}

static void takes__what_fits_a_slot(void **state)
{
    struct br_api_even user = call_of(BR_REDUCE, NULL, 1);

    (void)state;
    assert_true(takes(call_of(BR_BROADCAST, NULL, 30)));
    assert_false(takes(call_of(BR_BROADCAST, NULL, 31)));
    assert_true(takes(call_of(BR_SCATTER, NULL, 10))); /* a block for each rank */
    assert_false(takes(call_of(BR_SCATTER, NULL, 11)));
    assert_true(takes(call_of(BR_ALLREDUCE, NULL, 15)));
    assert_false(takes(call_of(BR_ALLREDUCE, NULL, 16))); /* is split */
    assert_true(takes(call_of(BR_REDUCE, NULL, 19)));
    assert_false(takes(call_of(BR_REDUCE, NULL, 20)));
    assert_true(takes(call_of(BR_BARRIER, NULL, 0)));
    assert_false(takes(call_of(BR_SCAN, NULL, 1)));
    user.reduction = BRAID_REDUCTION_USER;
    assert_false(takes(user));
    shms[0].small_end = 0;
    assert_false(takes(call_of(BR_BARRIER, NULL, 0)));
}

/* Who gives nothing need not have anything: UBSan sees an offset from NULL. */
static void takes__nothing_to_give(void **state)
{
    (void)state;
    shms[0].n = 2;
    assert_true(takes(call_of(BR_SCATTER, NULL, 2)));
    assert_true(takes(call_of(BR_ALLTOALL, NULL, 0)));
    shms[0].n = RANKS;
}

static void begin__what_was_called_before_is_first(void **state)
{
    struct br_api_even call = call_of(BR_BARRIER, NULL, 0);
    struct br_operation before = {.group = &group};
    struct br_shm_small small;

    (void)state;
    assert_true(br_shm_small_takes(&shms[0], &call, &small));
    br_shm_executor_submit(&shms[0], &before);
    assert_false(br_shm_small_begin(&shms[0], &small, 1));
    br_list_remove(&before.node);
    shms[0].busy = true;
    assert_false(br_shm_small_begin(&shms[0], &small, 1));
    shms[0].busy = false;
    assert_true(br_shm_small_begin(&shms[0], &small, 1));
}

/* Nobody reads: a whole ring of calls has room, and no more. */
static void begin__needs_room(void **state)
{
    int32_t value = 7;
    struct br_api_even call = call_of(BR_BROADCAST, &value, 1);
    struct br_shm_small small;
    uint64_t sequence = 0;

    (void)state;
    assert_true(br_shm_small_takes(&shms[1], &call, &small));
    while (br_shm_small_begin(&shms[1], &small, sequence)) {
        assert_true(br_shm_small_complete(&shms[1], &small, 1)); /* the root */
        sequence++;
    }
    assert_int_equal(sequence, BR_SHM_COLL_DEPTH - 1);
    assert_int_equal(shms[1].operations, sequence);
}

static void complete__an_operation_goes_on(void **state)
{
    int32_t values[RANKS] = {1, 20, 300};
    struct br_api_even calls[RANKS];
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE,
                              .collective = BR_ALLREDUCE,
                              .send = &values[0],
                              .recv = &values[0],
                              .count = 1,
                              .type = BRAID_INT32,
                              .reduction = BRAID_SUM,
                              .sequence = 9,
                              .group = &group};
    struct br_shm_small small[RANKS];

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        calls[r] = call_of(BR_ALLREDUCE, &values[r], 1);
        assert_true(br_shm_small_takes(&shms[r], &calls[r], &small[r]));
        assert_true(br_shm_small_begin(&shms[r], &small[r], 9));
        if (r)
            continue;
        assert_false(br_shm_small_complete(&shms[r], &small[r], 3));
        br_shm_small_go_on(&shms[r], &op);
        assert_int_equal(br_shm_executor_complete(&shms[r], &op), 0);
    }
    assert_int_equal(br_shm_executor_complete(&shms[0], &op), 1);
    for (uint32_t r = 1; r < RANKS; r++)
        assert_true(br_shm_small_complete(&shms[r], &small[r], 1));
    for (uint32_t r = 0; r < RANKS; r++)
        assert_int_equal(values[r], 321);
}

#define MORE 40 /* elements, more than a slot holds */

/* What does not fit a slot goes through cells, or through the ring; an operation goes on with
 * either. */
static void complete__more_than_a_slot_holds(void **state)
{
    const enum br_collective collectives[] = {BR_ALLTOALL, BR_BROADCAST, BR_GATHER};
    static int32_t in[RANKS][RANKS * MORE], out[RANKS][RANKS * MORE];
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE,
                              .send = in[1],
                              .recv = out[1],
                              .count = MORE,
                              .type = BRAID_INT32,
                              .group = &group};
    struct br_shm_small small[RANKS];
    struct br_api_even calls[RANKS];

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++) {
        shms[r].small_end = BR_SHM_COLLECTIVE_BYTES + 1;
        for (uint32_t i = 0; i < RANKS * MORE; i++)
            in[r][i] = (int32_t)(1000 * r + i);
    }
    for (uint32_t c = 0; c < sizeof collectives / sizeof *collectives; c++) {
        op.collective = collectives[c];
        op.root = op.collective == BR_BROADCAST ? 2 : op.collective == BR_GATHER ? 1 : 0;
        op.sequence = c;
        for (uint32_t i = 0; i < RANKS; i++) {
            uint32_t r = (i + 1) % RANKS; /* rank 1 comes first and has to wait */

            calls[r] = call_of(op.collective, in[r], MORE);
            calls[r].recv = out[r];
            calls[r].root = op.root;
            assert_true(br_shm_small_takes(&shms[r], &calls[r], &small[r]));
            assert_true(br_shm_small_begin(&shms[r], &small[r], c));
            if (i)
                continue;
            assert_false(br_shm_small_complete(&shms[r], &small[r], 3));
            br_shm_small_go_on(&shms[r], &op);
        }
        assert_int_equal(br_shm_executor_complete(&shms[1], &op), 1);
        for (uint32_t r = 0; r < RANKS; r += 2)
            assert_true(br_shm_small_complete(&shms[r], &small[r], 1));
        for (uint32_t i = 0; i < MORE; i++)
            if (op.collective == BR_BROADCAST) {
                assert_int_equal(out[0][i], in[2][i]);
                assert_int_equal(out[1][i], in[2][i]);
            } else
                for (uint32_t from = 0; from < RANKS; from++)
                    assert_int_equal(out[1][from * MORE + i],
                                     in[from][(op.collective == BR_ALLTOALL ? MORE : 0) + i]);
    }
}

static void complete__of_another_call_the_operation_tells(void **state)
{
    int32_t ours = 1, theirs[2] = {2, 3};
    struct br_api_even call = call_of(BR_BROADCAST, &ours, 1),
                       other = call_of(BR_BROADCAST, theirs, 2);
    struct br_operation op = {.kind = BR_OPERATION_COLLECTIVE,
                              .collective = BR_BROADCAST,
                              .send = &ours,
                              .recv = &ours,
                              .count = 1,
                              .type = BRAID_INT32,
                              .root = 1,
                              .group = &group};
    struct br_shm_small small;

    (void)state;
    assert_true(br_shm_small_takes(&shms[1], &other, &small));
    assert_true(br_shm_small_begin(&shms[1], &small, 0));
    assert_true(br_shm_small_takes(&shms[0], &call, &small));
    assert_true(br_shm_small_begin(&shms[0], &small, 0));
    assert_false(br_shm_small_complete(&shms[0], &small, 5));
    assert_int_equal(ours, 1);
    br_shm_small_go_on(&shms[0], &op);
    assert_int_equal(br_shm_executor_complete(&shms[0], &op), -EPROTO);
    assert_says(br_error_message(), "rank 1|2|1");
    assert_int_equal(ours, 1);
}

/* Looks that come too early make the next ones later, and the others earlier again. */
static void complete__learns_how_long_to_wait(void **state)
{
    struct br_api_even call = call_of(BR_BARRIER, NULL, 0);
    struct br_operation op = {
        .kind = BR_OPERATION_COLLECTIVE, .collective = BR_BARRIER, .group = &group};
    struct br_shm_small small[RANKS];
    uint32_t waited = 0;

    (void)state;
    for (uint64_t sequence = 0; sequence < 1000; sequence++) {
        op.sequence = sequence;
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_true(br_shm_small_takes(&shms[r], &call, &small[r]));
            assert_true(br_shm_small_begin(&shms[r], &small[r], sequence));
            if (r == 0 && sequence < 500) {
                assert_false(br_shm_small_complete(&shms[0], &small[0], 2));
                assert_true(shms[0].small_wait[BR_BARRIER] >= waited);
                waited = shms[0].small_wait[BR_BARRIER];
                br_shm_small_go_on(&shms[0], &op);
            }
        }
        if (sequence < 500)
            assert_int_equal(br_shm_executor_complete(&shms[0], &op), 1);
        else
            assert_true(br_shm_small_complete(&shms[0], &small[0], 2));
        for (uint32_t r = 1; r < RANKS; r++)
            assert_true(br_shm_small_complete(&shms[r], &small[r], 2));
    }
    assert_true(waited > 0);
    assert_true(shms[0].small_wait[BR_BARRIER] < waited);
    assert_int_equal(shms[1].small_wait[BR_BARRIER], 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(takes__what_fits_a_slot),
        TEST(takes__nothing_to_give),
        TEST(begin__what_was_called_before_is_first),
        TEST(begin__needs_room),
        TEST(complete__an_operation_goes_on),
        TEST(complete__more_than_a_slot_holds),
        TEST(complete__of_another_call_the_operation_tells),
        TEST(complete__learns_how_long_to_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
