/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes that share cores and submit all-reduces of several chunks and others, each rank
 * with priorities of its own: whichever of them overtakes (collectives/shm/round.h), all sums are
 * right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/shm/executor.h"
#include "tests/system/ranks.h"

#define CALLS  6
#define ROUNDS 20
#define MOST   600000u /* int32: 2.4 MB, of which 18 chunks are made with 4 ranks */

static uint32_t value(int rank, size_t i, uint32_t call)
{
    return (uint32_t)rank * 1000003u + (uint32_t)i * 7u + call;
}

static int check(const struct braid_comm *comm, const uint32_t *data, size_t count, uint32_t call)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sum = 0;

        for (int r = 0; r < braid_size(comm); r++)
            sum += value(r, i, call);
        CHECK(data[i] == sum, "element %zu of %zu of call %u", i, count, call);
    }
    return 0;
}

/* In place. The last call of a round waits for its end at once. */
static int overtake(struct braid_comm *comm, void *context)
{
    uint32_t *data = malloc(sizeof *data * CALLS * MOST);
    struct br_random shared, own;
    struct braid_stats before = {0}, after = {0};

    (void)context;
    CHECK(data, "no memory");
    br_random_seed(&shared, 5);
    br_random_seed(&own, 77 + (uint64_t)braid_rank(comm));
    RETURNS(0, braid_stats(comm, &before));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct braid_op *ops[CALLS] = {0};
        size_t counts[CALLS];

        for (uint32_t c = 0; c < CALLS; c++) {
            struct braid_options options = {.struct_size = sizeof options,
                                            .priority = (int32_t)br_random_below(&own, 4)};
            uint32_t *of = data + (size_t)c * MOST;

            counts[c] = 1 + br_random_below(&shared, c % 2 ? 1000 : MOST);
            for (size_t i = 0; i < counts[c]; i++)
                of[i] = value(braid_rank(comm), i, c);
            RETURNS(0, braid_allreduce(comm, of, of, counts[c], BRAID_UINT32, BRAID_SUM, &options,
                                       c < CALLS - 1 ? &ops[c] : NULL));
        }
        for (uint32_t c = 0; c < CALLS; c++) {
            if (ops[c])
                RETURNS(0, braid_wait(ops[c], -1));
            RETURNS(0, check(comm, data + (size_t)c * MOST, counts[c], c));
        }
    }
    RETURNS(0, braid_stats(comm, &after));
    CHECK(after.shm_operations == before.shm_operations + ROUNDS * CALLS, "not in the segment");
    free(data);
    return 0;
}

static void overtake__all_sums(void **state)
{
    int size = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;

    (void)state;
    if (size > RANKS_MOST)
        skip(); /* on so many cores a job does not share them */
    ranks_run(&(struct ranks){.size = size < (int)BR_SHM_MANY ? (int)BR_SHM_MANY : size,
                              .backend = "shm",
                              .timeout_ms = RANKS_PATIENCE},
              overtake, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overtake__all_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
