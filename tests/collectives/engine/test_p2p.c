/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, puts and gets through the engine, over the simulator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/collectives/job.h"
#include "tests/says.h"

static const struct job_options two = {
    .n = 2, .rails = 1, .network = {.seed = 1, .bits_per_second = 100ull << 30}};

static uint8_t *pattern(size_t bytes, unsigned seed)
{
    uint8_t *memory = malloc(bytes + 1);

    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(i * 7 + i / 251 + seed);
    return memory;
}

static struct br_operation message(enum br_operation_kind kind, int peer, void *memory,
                                   size_t bytes, uint32_t tag)
{
    return (struct br_operation){.kind = kind,
                                 .peer = peer,
                                 .send = kind == BR_OPERATION_SEND ? memory : NULL,
                                 .recv = kind == BR_OPERATION_RECV ? memory : NULL,
                                 .count = bytes,
                                 .tag = tag};
}

static void one(struct job *job, int to, size_t bytes, bool receive_first)
{
    uint8_t *from = pattern(bytes, 3), *at = calloc(1, bytes + 1);
    struct br_operation send = message(BR_OPERATION_SEND, to, from, bytes, 5);
    struct br_operation recv = message(BR_OPERATION_RECV, 0, at, bytes, 5);
    int before = job->ended;

    if (receive_first)
        job_submit(job, to, &recv);
    job_submit(job, 0, &send);
    if (!receive_first) {
        for (int i = 0; i < 20; i++)
            job_step(job);
        job_submit(job, to, &recv);
    }
    job_run(job, before + 2);
    assert_int_equal(send.status, 0);
    assert_int_equal(recv.status, 0);
    assert_memory_equal(from, at, bytes);
    free(from);
    free(at);
}

static void send__sizes(void **state)
{
    static const size_t sizes[] = {
        0, 1, 24, 25, 1024, 1025, 100000, BR_MAX_TRANSFER, 3 * BR_MAX_TRANSFER + 77};
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int first = 0; first < 2; first++) {
            one(&job, 1, sizes[i], first);
            one(&job, 0, sizes[i], first); /* to oneself */
        }
    job_destroy(&job);
}

/* Many messages over several tags, received in another order of tags; more than there are
 * credits. */
static void send__order_within_a_tag(void **state)
{
    enum { TAGS = 300, EACH = 4, MESSAGES = TAGS * EACH };
    static struct br_operation sends[MESSAGES], receives[MESSAGES];
    static uint32_t from[MESSAGES], to[MESSAGES];
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        from[i] = i;
        sends[i] = message(BR_OPERATION_SEND, 1, &from[i], sizeof from[i], i % TAGS);
        job_submit(&job, 0, &sends[i]);
    }
    for (int i = 0; i < 100; i++)
        job_step(&job);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        uint32_t tag = TAGS - 1 - i / EACH;

        receives[i] = message(BR_OPERATION_RECV, 0, &to[i], sizeof to[i], tag);
        job_submit(&job, 1, &receives[i]);
    }
    job_run(&job, 2 * MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++)
        assert_int_equal(to[i], TAGS - 1 - i / EACH + TAGS * (i % EACH));
    job_destroy(&job);
}

/* Far more large receives than slots, and then their sends, the last one first; a collective passes
 * them all. */
static void send__more_large_ones_than_slots(void **state)
{
    enum { MESSAGES = 5000, BYTES = 2000 };
    static struct br_operation sends[MESSAGES], receives[MESSAGES];
    uint8_t *from = pattern((size_t)MESSAGES * BYTES, 5), *to = calloc(MESSAGES, BYTES);
    struct br_operation barriers[2];
    struct job job;

    (void)state;
    job_create(&job, &two);
    assert_true(job.ranks[1].worker->slots.count < MESSAGES / 2);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        receives[i] = message(BR_OPERATION_RECV, 0, to + (size_t)i * BYTES, BYTES, i);
        job_submit(&job, 1, &receives[i]);
    }
    for (int r = 0; r < 2; r++) {
        barriers[r] = (struct br_operation){.collective = BR_BARRIER, .type = BRAID_UINT8};
        job_submit(&job, r, &barriers[r]);
    }
    job_run(&job, 2);
    assert_int_equal(barriers[0].status, 0);
    for (uint32_t i = MESSAGES; i-- > 0;) {
        sends[i] = message(BR_OPERATION_SEND, 1, from + (size_t)i * BYTES, BYTES, i);
        job_submit(&job, 0, &sends[i]);
    }
    job_run(&job, 2 + 2 * MESSAGES);
    assert_memory_equal(from, to, (size_t)MESSAGES * BYTES);
    assert_int_equal(job.ranks[0].worker->unexpected.n_used, 0);
    assert_int_equal(job.ranks[1].worker->slots.n_free, job.ranks[1].worker->slots.count);
    job_destroy(&job);
    free(from);
    free(to);
}

/* Messages that nobody receives take no credit from collectives. */
static void send__unmatched_ones_do_not_block_collectives(void **state)
{
    enum { UNMATCHED = 200 };
    static struct br_operation sends[UNMATCHED], receives[UNMATCHED];
    uint8_t byte[2] = {1, 2};
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (uint32_t i = 0; i < UNMATCHED; i++) {
        sends[i] = message(BR_OPERATION_SEND, 1, byte, 1, i);
        job_submit(&job, 0, &sends[i]);
    }
    for (int i = 0; i < 100; i++)
        job_step(&job);
    for (int k = 0; k < 100; k++) {
        int before = job.ended;
        struct br_operation barriers[2] = {0};

        for (int r = 0; r < 2; r++) {
            barriers[r].collective = BR_BARRIER;
            job_submit(&job, r, &barriers[r]);
        }
        while (br_sim_now(job.sim) < 100 * BR_SEC &&
               barriers[0].fragments.ended + barriers[1].fragments.ended < 2)
            if (!job_step(&job))
                fail_msg("%d: %s | %s", k, job.ranks[0].worker->message,
                         job.ranks[1].worker->message);
        assert_true(job.ended >= before + 2);
    }
    for (uint32_t i = 0; i < UNMATCHED; i++) {
        receives[i] = message(BR_OPERATION_RECV, 0, byte + 1, 1, i);
        job_submit(&job, 1, &receives[i]);
    }
    job_run(&job, 200 + 2 * UNMATCHED);
    job_destroy(&job);
}

/* The two ends give other sizes: both hear of it at once, whether the message travels eagerly, in
 * parts or not at all. */
static void send__other_size_than_received(void **state)
{
    static const size_t sizes[][2] = {
        {8, 9},          {100, 100000},        {100000, 100}, {100000, 100001}, {20 << 20, 100},
        {100, 20 << 20}, {20 << 20, 17 << 20}, {0, 100000},   {100000, 0}};
    uint8_t *memory = calloc(2, 20 << 20);

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int first = 0; first < 2; first++) {
            struct br_operation ops[2] = {
                message(BR_OPERATION_SEND, 1, memory, sizes[i][0], 5),
                message(BR_OPERATION_RECV, 0, memory + (20 << 20), sizes[i][1], 5),
            };
            struct br_operation after = message(BR_OPERATION_RECV, 1, memory, 1, 6);
            char sent[80], received[80];
            struct job job;
            uint64_t start;
            int ended;

            job_create(&job, &two);
            start = br_sim_now(job.sim);
            job_submit(&job, first, &ops[first]);
            for (int k = 0; k < 20; k++)
                job_step(&job);
            job_submit(&job, !first, &ops[!first]);
            ended = sizes[i][0] <= 1024; /* a small send may be over before */
            if (ended)
                job_submit(&job, 0, &after);
            job_run(&job, 2 + ended);
            assert_true(br_sim_now(job.sim) - start < BR_SEC);
            snprintf(sent, sizeof sent, "rank 0 sends %zu bytes", sizes[i][0]);
            snprintf(received, sizeof received, "rank 1 receives %zu", sizes[i][1]);
            assert_int_equal(ops[1].status, -EPROTO);
            assert_int_equal((ended ? &after : &ops[0])->status, -EPROTO);
            assert_says(ops[1].message, sent);
            assert_says(ops[1].message, received);
            assert_says(ops[1].message, "tag 5");
            assert_says((ended ? &after : &ops[0])->message, received);
            job_destroy(&job);
        }
    free(memory);
}

static void send__refuses_bad_rank(void **state)
{
    struct br_operation op = message(BR_OPERATION_SEND, 2, NULL, 0, 0);
    struct job job;

    (void)state;
    job_create(&job, &two);
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    op.peer = -1;
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    job_destroy(&job);
}

static void recv__other_size_is_an_error(void **state)
{
    static const size_t sizes[][2] = {
        {10, 11}, {100000, 100001}, {BR_MAX_TRANSFER, BR_MAX_TRANSFER + 1}};
    uint8_t *memory = calloc(1, BR_MAX_TRANSFER + 1);

    (void)state;
    for (int i = 0; i < 6; i++) {
        int to = i % 2; /* 0: to oneself */
        struct br_operation send = message(BR_OPERATION_SEND, to, memory, sizes[i / 2][0], 0);
        struct br_operation recv = message(BR_OPERATION_RECV, 0, memory, sizes[i / 2][1], 0);
        struct job job;

        job_create(&job, &two);
        send.timeout = BR_SEC;
        job_submit(&job, 0, &send);
        job_submit(&job, to, &recv);
        while (job_step(&job) && !recv.status)
            ;
        assert_true(job.ranks[0].worker->failed == -EPROTO ||
                    job.ranks[1].worker->failed == -EPROTO);
        assert_true(recv.status == -EPROTO || recv.status == -ECANCELED);
        assert_says(recv.message, "receive of");
        job_destroy(&job);
    }
    free(memory);
}

/* One that was waited for without an operation ends with the worker's error, as others that wait
 * do, and not as one that begins too late. */
static void recv__awaited_when_the_worker_failed(void **state)
{
    uint64_t word;
    struct br_operation recv = message(BR_OPERATION_RECV, 1, &word, sizeof word, 0);
    struct job job;

    (void)state;
    job_create(&job, &two);
    br_worker_fail(job.ranks[0].worker, EIO, "the test says so");
    recv.awaited = recv.claimed = true;
    job_submit(&job, 0, &recv);
    job_run(&job, 1);
    assert_int_equal(recv.status, -EIO);
    assert_says(recv.message, "receive of|the test says so");
    job_destroy(&job);
}

static void recv__deadline_names_the_sender(void **state)
{
    uint8_t byte;
    struct br_operation recv = message(BR_OPERATION_RECV, 1, &byte, 1, 9);
    struct br_operation self = message(BR_OPERATION_RECV, 0, &byte, 1, 9);
    struct job job;

    (void)state;
    job_create(&job, &two);
    recv.timeout = 30 * BR_MS;
    job_submit(&job, 0, &self);
    job_submit(&job, 0, &recv);
    job_run(&job, 2);
    assert_int_equal(recv.status, -ETIMEDOUT);
    assert_says(recv.message, "receive|1 bytes|rank 1|tag 9|deadline|30 ms");
    assert_int_equal(self.status, -ETIMEDOUT);
    job_destroy(&job);
}

/* ---- one-sided access ------------------------------------------------------------------------ */

static struct br_operation access_of(enum br_operation_kind kind, uint32_t rank, void *memory,
                                     size_t bytes, uint64_t offset)
{
    return (struct br_operation){.kind = kind,
                                 .send = kind == BR_OPERATION_PUT ? memory : NULL,
                                 .recv = kind == BR_OPERATION_GET ? memory : NULL,
                                 .count = bytes,
                                 .offset = offset,
                                 .key = {.rank = rank, .id = 1, .check = 77}};
}

static int run_access(struct job *job, struct br_operation *op)
{
    int before = job->ended;

    if (job_try_submit(job, 0, op))
        return -1;
    job_run(job, before + 1);
    return op->status;
}

static void expose(struct job *job, int rank, uint8_t *memory, size_t bytes)
{
    job->ranks[rank].exposed.region =
        (struct br_region){.base = memory, .bytes = bytes, .segment_fd = -1, .id = 1};
}

static void access__sizes(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, 100000, 2 * BR_MAX_TRANSFER + 9};
    enum { ROOM = 3 * BR_MAX_TRANSFER };
    uint8_t *there = pattern(ROOM, 1);
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (int rank = 0; rank < 2; rank++)
        expose(&job, rank, there, ROOM);
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / 2];
        uint8_t *from = pattern(bytes, (unsigned)i + 40), *back = calloc(1, bytes + 1);
        struct br_operation put = access_of(BR_OPERATION_PUT, i % 2, from, bytes, 13);
        struct br_operation get = access_of(BR_OPERATION_GET, i % 2, back, bytes, 13);

        assert_int_equal(run_access(&job, &put), 0);
        assert_memory_equal(there + 13, from, bytes);
        assert_int_equal(run_access(&job, &get), 0);
        assert_memory_equal(back, from, bytes);
        free(from);
        free(back);
    }
    assert_int_equal(there[12], (uint8_t)(12 * 7 + 1));
    for (int r = 0; r < 2; r++)
        /* a get's answer, which never comes */
        assert_int_equal(job.ranks[r].worker->receives.count, 0);
    job_destroy(&job);
    free(there);
}

/* Two ranks put to and get from each other at once. */
static void access__of_each_other(void **state)
{
    enum { BYTES = 50000 };
    uint8_t *there[2], *here[2];
    struct br_operation ops[2];
    struct job job;

    (void)state;
    for (int i = 0; i < 4; i++) {
        job_create(&job, &two);
        for (int r = 0; r < 2; r++) {
            there[r] = pattern(BYTES, 1 + (unsigned)r);
            here[r] = pattern(BYTES, 7);
            expose(&job, r, there[r], BYTES);
        }
        for (int r = 0; r < 2; r++) {
            ops[r] = access_of(i >> r & 1 ? BR_OPERATION_PUT : BR_OPERATION_GET, 1 - (uint32_t)r,
                               here[r], BYTES - 100 * (size_t)r, 0);
            job_submit(&job, r, &ops[r]);
        }
        job_run(&job, 2);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(ops[r].status, 0);
            assert_memory_equal(here[r], there[1 - r], ops[r].count);
        }
        job_destroy(&job);
        for (int r = 0; r < 2; r++) {
            free(there[r]);
            free(here[r]);
        }
    }
}

/* A refusal ends one operation, and however many there are, nothing is used up. */
static void access__refused(void **state)
{
    uint8_t there[100], here[100] = {0};
    struct job job;

    (void)state;
    job_create(&job, &two);
    expose(&job, 1, there, sizeof there);
    for (int i = 0; i < 300; i++) {
        struct br_operation op =
            access_of(i % 2 ? BR_OPERATION_PUT : BR_OPERATION_GET, 1, here, 50, 51);

        if (i % 3 == 0)
            op.key.check = 76;
        if (i % 3 == 1)
            op.key.id = 2;
        assert_int_equal(run_access(&job, &op), -EACCES);
        assert_says(op.message, "rank 1|region");
    }
    for (int r = 0; r < 2; r++) {
        assert_int_equal(job.ranks[r].worker->slots.n_free, job.ranks[r].worker->slots.count);
        assert_int_equal(job.ranks[r].worker->services.n_used, 0);
        assert_int_equal(job.ranks[r].worker->sends.count, 0);
    }
    one(&job, 1, 1000, true);
    job_destroy(&job);
}

static void access__of_oneself_is_checked(void **state)
{
    uint8_t there[10], here[20] = {0};
    struct br_operation op = access_of(BR_OPERATION_PUT, 0, here, 11, 0);
    struct job job;

    (void)state;
    job_create(&job, &two);
    expose(&job, 0, there, sizeof there);
    assert_int_equal(job_try_submit(&job, 0, &op), -EACCES);
    op.key.rank = 2;
    assert_int_equal(job_try_submit(&job, 0, &op), -EINVAL);
    job_destroy(&job);
}

/* Of another rank and of oneself; the word is not aligned here, but where it lies. */
static void access__atomics(void **state)
{
    _Alignas(8) uint64_t there[4] = {0, 5, 0};
    uint64_t before = 99;
    struct job job;

    (void)state;
    job_create(&job, &two);
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct br_operation op = {.kind = BR_OPERATION_ADD,
                                  .recv = &before,
                                  .count = 8,
                                  .offset = 8,
                                  .key = {.rank = rank, .id = 1, .check = 77},
                                  .operands = {.value = 2}};

        expose(&job, (int)rank, (uint8_t *)there, sizeof there);
        there[1] = 5;
        assert_int_equal(run_access(&job, &op), 0);
        assert_int_equal(before, 5);
        op.kind = BR_OPERATION_SWAP;
        op.operands.compare = 6;
        assert_int_equal(run_access(&job, &op), 0);
        assert_int_equal(before, 7);
        assert_int_equal(there[1], 7);
        op.operands.compare = 7;
        assert_int_equal(run_access(&job, &op), 0);
        assert_int_equal(there[1], 2);
        assert_int_equal(there[0] + there[2], 0);
        op.offset = 9;
        assert_int_equal(rank ? run_access(&job, &op) : job_try_submit(&job, 0, &op), -EINVAL);
        assert_says(rank ? op.message : br_error_message(), "offset 9 of region 1 of rank");
    }
    job_destroy(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(send__sizes),
        cmocka_unit_test(send__order_within_a_tag),
        cmocka_unit_test(send__more_large_ones_than_slots),
        cmocka_unit_test(send__unmatched_ones_do_not_block_collectives),
        cmocka_unit_test(send__other_size_than_received),
        cmocka_unit_test(send__refuses_bad_rank),
        cmocka_unit_test(recv__other_size_is_an_error),
        cmocka_unit_test(recv__deadline_names_the_sender),
        cmocka_unit_test(recv__awaited_when_the_worker_failed),
        cmocka_unit_test(access__sizes),
        cmocka_unit_test(access__of_each_other),
        cmocka_unit_test(access__atomics),
        cmocka_unit_test(access__refused),
        cmocka_unit_test(access__of_oneself_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
