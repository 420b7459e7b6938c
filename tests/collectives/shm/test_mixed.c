/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads on one shared segment call any mix of collectives, of any sizes, one behind the
 * other, with an operation or, where they are small, without one, and lose their cores between any
 * two steps: all results are right. For the thread sanitizer, too. */
#include "collectives/shm/executor.h"
#include "collectives/shm/round.h"
#include "collectives/shm/small.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "collectives/comm/api.h"
#include "collectives/engine/group.h"
#include "collectives/schedule/schedule.h"

#define MOST_RANKS 6
#define MOST_COUNT 70000u /* elements of a block: several rounds of whatever is cut */
#define CALLS      100

static int job_ranks[MOST_RANKS] = {0, 1, 2, 3, 4, 5};
static struct br_group group = {.number = 5, .ranks = job_ranks};

struct rank {
    struct br_shm_executor shm;
    int32_t *send, *recv;
    uint64_t read_bytes;
};

static _Atomic(const char *) wrong; /* what; then all ranks end */

static uint32_t value(uint32_t rank, uint64_t sequence, size_t i)
{
    return rank * 1000003u + (uint32_t)sequence * 7919u + (uint32_t)i * 13u;
}

/* In place as braid.h says: what has one block stands at this rank's of what has one for each. */
static void put_in_place(const struct rank *self, struct br_operation *op)
{
    size_t own = self->shm.rank * op->count;

    if (op->collective == BR_REDUCE_SCATTER || op->collective == BR_SCATTER)
        op->recv = self->send + own;
    else if (op->collective == BR_ALLGATHER || op->collective == BR_GATHER)
        op->send = self->recv + own;
    else
        op->send = self->recv;
}

/* Which call it is follows from its number. */
static struct br_operation call_of(const struct rank *self, uint64_t sequence)
{
    static const enum br_collective collectives[] = {
        BR_BROADCAST, BR_REDUCE,  BR_ALLREDUCE, BR_ALLGATHER, BR_REDUCE_SCATTER, BR_ALLREDUCE,
        BR_ALLTOALL,  BR_SCATTER, BR_GATHER,    BR_BARRIER,   BR_ALLTOALL};
    static const size_t most[] = {20, 20, 500, 500, 5000, 30000, MOST_COUNT};
    enum br_collective collective;
    struct br_operation op;
    struct br_random random;
    size_t below;
    bool in_place;
    int root;

    br_random_seed(&random, sequence);
    collective = collectives[br_random_below(&random, sizeof collectives / sizeof *collectives)];
    below = most[br_random_below(&random, sizeof most / sizeof *most)];
    root = (int)br_random_below(&random, self->shm.n);
    in_place = br_random_below(&random, 3) == 0;
    if (collective == BR_REDUCE && below > 5000)
        below = 5000; /* in one round always */
    op = (struct br_operation){
        .kind = BR_OPERATION_COLLECTIVE,
        .group = &group,
        .collective = collective,
        .send = self->send,
        .recv = self->recv,
        .count = collective == BR_BARRIER ? 0 : 1 + br_random_below(&random, below),
        .type = BRAID_INT32,
        .reduction = BRAID_SUM,
        .root = br_collective_rooted(collective) ? root : 0,
        .sequence = sequence,
    };
    if (in_place)
        put_in_place(self, &op);
    return op;
}

static uint32_t expected(const struct rank *self, const struct br_operation *op, uint32_t block,
                         size_t i)
{
    bool own = op->collective == BR_SCATTER || op->collective == BR_ALLTOALL ||
               op->collective == BR_REDUCE_SCATTER;
    size_t at = own ? self->shm.rank * op->count + i : i;
    uint32_t sum = 0;

    if (op->collective == BR_BROADCAST || op->collective == BR_SCATTER)
        return value((uint32_t)op->root, op->sequence, at);
    if (!br_collective_reduces(op->collective))
        return value(block, op->sequence, at);
    for (uint32_t r = 0; r < self->shm.n; r++)
        sum += value(r, op->sequence, at);
    return sum;
}

static bool is_right(const struct rank *self, const struct br_operation *op)
{
    uint32_t blocks = br_collective_blocks(op->collective, self->shm.n, BR_OUTPUT);

    if (br_collective_to_root(op->collective) && self->shm.rank != (uint32_t)op->root)
        return true;
    for (uint32_t block = 0; block < blocks; block++)
        for (size_t i = 0; i < op->count; i++)
            if ((uint32_t)((const int32_t *)op->recv)[block * op->count + i] !=
                expected(self, op, block, i))
                return false;
    return true;
}

/* Now and then the core goes to another rank, for longer or shorter. */
static void hold_up(struct br_random *random)
{
    uint64_t yields = br_random_below(random, 4) ? 0 : br_random_below(random, 40);

    while (yields--)
        sched_yield();
}

/* Begins a call, with an operation or without, of which other ranks may do the other. Returns
 * whether it is complete. */
static bool begin(struct rank *self, struct br_operation *op, struct br_random *random)
{
    struct br_api_even call = {op->collective, op->send,      op->recv, op->count,
                               op->type,       op->reduction, op->root};
    struct br_shm_small small;
    uint32_t looks = 1 + (uint32_t)br_random_below(random, 3);

    if (br_random_below(random, 3) && br_shm_small_takes(&self->shm, &call, &small) &&
        br_shm_small_begin(&self->shm, &small, op->sequence)) {
        hold_up(random);
        if (br_shm_small_complete(&self->shm, &small, looks))
            return true;
        br_shm_small_go_on(&self->shm, op);
    } else if (!br_shm_executor_begin(&self->shm, op)) {
        wrong = "the segment is taken";
    }
    return false;
}

static void *run_rank(void *argument)
{
    struct rank *self = argument;
    struct br_random random;

    br_random_seed(&random, 100 + self->shm.rank);
    for (uint64_t sequence = 0; sequence < CALLS && !wrong; sequence++) {
        struct br_operation op = call_of(self, sequence);
        uint32_t blocks = br_collective_blocks(op.collective, self->shm.n, BR_INPUT);
        int rc = 0, looks = 0;

        for (size_t i = 0; i < blocks * op.count; i++)
            ((int32_t *)op.send)[i] = (int32_t)value(self->shm.rank, sequence, i);
        hold_up(&random);
        rc = begin(self, &op, &random);
        while (!wrong && !rc && !(rc = br_shm_executor_complete(&self->shm, &op))) {
            /* else many who wait keep the few cores from those for whom they wait */
            if (++looks % 64)
                sched_yield();
            else
                usleep(20);
            hold_up(&random);
        }
        if (rc < 0 || (rc && !is_right(self, &op)))
            wrong = br_collective_name(op.collective);
    }
    return NULL;
}

static void run_ranks(uint32_t n, size_t split_bytes, bool direct, bool in_places)
{
    static struct rank ranks[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    size_t bytes = (size_t)n * MOST_COUNT * sizeof(int32_t);
    int fd = -1;

    group.size = (int)n;
    for (uint32_t r = 0; r < n; r++) {
        struct br_shm_executor *shm = &ranks[r].shm;

        ranks[r] = (struct rank){.send = malloc(bytes), .recv = malloc(bytes)};
        assert_true(ranks[r].send && ranks[r].recv);
        shm->group = &group;
        shm->rank = r;
        shm->n = n;
        shm->split_bytes = split_bytes;
        shm->split_reduce_bytes = n % 3 ? 4096 : SIZE_MAX;
        shm->max_whole_bytes = n % 2 ? BR_SHM_COLL_HALF : 0;
        shm->cache_share = n % 2 ? SIZE_MAX : 40000;
        shm->small_end = BR_SHM_COLLECTIVE_BYTES + 1;
        shm->direct = (struct br_shm_direct){
            .allowed = direct, .token = 77 + r, .read_bytes = &ranks[r].read_bytes};
        br_list_init(&shm->queue);
        br_list_init(&shm->executor.ended);
        assert_int_equal(r ? br_shm_coll_attach(&shm->coll, n, r, in_places, fd)
                           : br_shm_coll_create(&shm->coll, n, 0, in_places, &fd),
                         0);
        shm->coll.past.told = in_places;
        br_shm_coll_set_beside(&shm->coll, n / 2); /* even numbers of ranks: on two cores */
        shm->coll.past.trip = n % 2 ? 1e-12 : 0;   /* all that is measured goes past the caches */
    }
    close(fd);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    for (uint32_t r = 0; r < n; r++)
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    assert_null(wrong);
    for (uint32_t r = 0; r < n; r++) {
        br_shm_coll_close(&ranks[r].shm.coll);
        free(ranks[r].send);
        free(ranks[r].recv);
    }
}

static void complete__mixed_calls_in_threads(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= MOST_RANKS; n++)
        run_ranks(n, n % 2 ? 4096 : SIZE_MAX, n != 3, false);
    run_ranks(2, SIZE_MAX, false, true); /* with a core each */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(complete__mixed_calls_in_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
