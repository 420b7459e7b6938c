/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts that notify, through the engine over the simulator; others are in test_p2p.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/collectives/job.h"
#include "tests/says.h"

static const struct job_options three = {
    .n = 3, .rails = 2, .network = {.seed = 1, .bits_per_second = 100ull << 30}};

/* The value comes once, and when it comes the bytes stand there. */
static void put__notifies(void **state)
{
    static const size_t sizes[] = {0,    1,    1024 - 32, 1024 - 31,
                                   1024, 1025, 100000,    BR_MAX_TRANSFER + 77};
    enum { ROOM = BR_MAX_TRANSFER + 100 };
    uint8_t *from = malloc(ROOM);

    (void)state;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / 2];
        struct braid_notification n = {0};
        int to = i % 2 ? 1 : 0; /* to oneself, too */
        struct br_operation put;
        uint8_t *there;
        struct job job;

        job_create(&job, &three);
        there = job_expose(&job, to, ROOM);
        memset(from, 7 + (int)i, bytes);
        put = job_put(to, from, bytes, 3);
        put.notifies = true;
        put.notify.value = 1000 + i;
        job_submit(&job, 0, &put);
        while (!br_engine_notified(job.ranks[to].engine, NULL, &n))
            assert_true(job_step(&job));
        assert_true(job_is_all(there + 3, bytes, (uint8_t)(7 + i)));
        assert_int_equal(n.value, 1000 + i);
        assert_int_equal(n.peer, 0);
        job_run(&job, 1);
        assert_int_equal(put.status, 0);
        assert_int_equal(br_engine_notifications(job.ranks[to].engine), 1);
        job_destroy(&job);
        free(there);
    }
    free(from);
}

static void put__changes_a_number(void **state)
{
    static uint8_t from[70000];

    (void)state;
    for (int to = 0; to < 2; to++) {
        struct job job;
        uint8_t *there;
        uint64_t *number;
        struct br_operation put;

        job_create(&job, &three);
        there = job_expose(&job, to, 100000);
        number = (uint64_t *)(void *)(there + 80000);
        *number = 5;
        for (int i = 0; i < 6; i++) {
            memset(from, i + 1, sizeof from);
            put = job_put(to, from, (size_t)i % 3 * (sizeof from / 2), 0);
            put.notifies = true;
            put.notify = (struct br_notify){.value = 10,
                                            .offset = 80000,
                                            .region = 1,
                                            .operation = i < 4 ? BR_ATOMIC_ADD : BR_ATOMIC_SET};
            job_submit(&job, 0, &put);
            job_run(&job, i + 1);
            assert_int_equal(put.status, 0);
            assert_true(job_is_all(there, put.count, (uint8_t)(i + 1)));
            assert_int_equal(*number, i < 4 ? 5 + 10 * (i + 1) : 10);
        }
        assert_int_equal(br_engine_notifications(job.ranks[to].engine), 0);
        job_destroy(&job);
        free(there);
    }
}

/* A put that is refused notifies nobody; nor does one whose number is refused. */
static void put__refused(void **state)
{
    static const struct {
        uint64_t check, offset;
        uint32_t region;
        int status;
        const char *words;
    } cases[] = {{76, 0, 0, -EACCES, "rank 1|region 1"},
                 {77, 12, 1, -EINVAL, "rank 1|multiple of 8"},
                 {77, 8, 2, -EACCES, "rank 1|region 2 that holds 8 bytes at offset 8"}};
    static const size_t sizes[] = {0, 8, 5000};
    static uint8_t from[5000];
    uint8_t *there;
    struct job job;
    int n = 0;

    (void)state;
    job_create(&job, &three);
    there = job_expose(&job, 1, 10000);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            struct br_operation put = job_put(1, from, sizes[k], 100);

            put.key.check = cases[i].check;
            put.notifies = true;
            put.notify = (struct br_notify){
                .value = 1, .offset = cases[i].offset, .region = cases[i].region};
            job_submit(&job, 0, &put);
            job_run(&job, ++n);
            assert_int_equal(put.status, cases[i].status);
            assert_says(put.message, cases[i].words);
            assert_true(sizes[k] || i < 2 || !says_all(put.message, "region 1"));
        }
    assert_true(job_is_all(there, 100, 0));
    assert_int_equal(br_engine_notifications(job.ranks[1].engine), 0);
    job_destroy(&job);
    free(there);
}

/* Once, whatever becomes of a rail. */
static void put__notifies_once_when_rails_are_lost(void **state)
{
    enum { PUTS = 40, ROOM = PUTS * 3000 };
    static uint8_t from[3000];
    static struct br_operation puts[PUTS];

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct job_options options = three;
        struct braid_notification n;
        bool seen[PUTS] = {false};
        uint8_t *there;
        struct job job;

        options.network.seed = seed;
        options.network.bits_per_second = 10000000000;
        options.network.latency_ns = 20 * BR_US;
        options.network.loss_ppm = seed % 2 ? 3000 : 0;
        job_create(&job, &options);
        there = job_expose(&job, 1, ROOM);
        for (int i = 0; i < 3; i++) {
            struct br_sim_fault fault = {.kind = i % 2 ? BR_SIM_PORT_UP : BR_SIM_PORT_DOWN,
                                         .at = br_sim_now(job.sim) + (uint64_t)i * 30 * BR_MS +
                                               seed * 7 * BR_US,
                                         .host = 1,
                                         .port = 1};

            assert_int_equal(br_sim_add_fault(job.sim, &fault), 0);
        }
        memset(from, 9, sizeof from);
        for (int i = 0; i < PUTS; i++) {
            puts[i] = job_put(1, from, i % 2 ? 3000 : 500, (uint64_t)i * 3000);
            puts[i].notifies = true;
            puts[i].notify.value = (uint64_t)i;
            job_submit(&job, 0, &puts[i]);
        }
        for (int got = 0; got < PUTS;)
            if (br_engine_notified(job.ranks[1].engine, NULL, &n)) {
                assert_true(n.value < PUTS && !seen[n.value]);
                seen[n.value] = true;
                assert_true(job_is_all(there + n.value * 3000, puts[n.value].count, 9));
                got++;
            } else if (!job_step(&job)) {
                fail_msg("seed %d, %d have come: %s | %s", (int)seed, got,
                         job.ranks[0].worker->message, job.ranks[1].worker->message);
            }
        job_run(&job, PUTS);
        assert_int_equal(br_engine_notifications(job.ranks[1].engine), PUTS);
        job_destroy(&job);
        free(there);
    }
}

/* The answer of a large put whose number is refused may overtake the confirmation of its data. */
static void put__number_refused_while_data_is_confirmed(void **state)
{
    enum { PUTS = 20, BYTES = 20000 };
    static uint8_t from[BYTES];
    static struct br_operation puts[PUTS];

    (void)state;
    memset(from, 9, sizeof from);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct job_options options = three;
        uint8_t *there;
        struct job job;

        options.network.seed = seed;
        options.network.bits_per_second = 10000000000;
        options.network.latency_ns = 20 * BR_US;
        options.network.loss_ppm = 20000;
        options.network.unordered = seed % 2;
        job_create(&job, &options);
        there = job_expose(&job, 1, PUTS * BYTES);
        for (int i = 0; i < PUTS; i++) {
            puts[i] = job_put(1, from, BYTES, (uint64_t)i * BYTES);
            puts[i].notifies = true;
            puts[i].notify = (struct br_notify){.value = 1, .offset = 12, .region = 1};
            job_submit(&job, 0, &puts[i]);
        }
        job_run(&job, PUTS);
        for (int i = 0; i < PUTS; i++) {
            assert_int_equal(puts[i].status, -EINVAL);
            assert_int_equal(puts[i].parts.transfers[BR_PART_DATA].state, BR_TRANSFER_ENDED);
        }
        assert_true(job_is_all(there, PUTS * BYTES, 9));
        assert_true(br_list_empty(&job.ranks[0].worker->peers[1].moving));
        assert_int_equal(job.ranks[0].worker->confirms.count, 0);
        assert_int_equal(job.ranks[0].worker->failed, 0);
        job_destroy(&job);
        free(there);
    }
}

/* The first request shows the region to its requester, and to nobody else. */
static void put__region_is_in_reach_from_then_on(void **state)
{
    struct job_options options = three;
    static uint8_t from[3000];
    struct br_operation put;
    const void *reached;
    struct job job;
    uint8_t *there;

    (void)state;
    options.rails = 1;
    for (int maps = 0; maps < 2; maps++) {
        options.network.maps = maps;
        job_create(&job, &options);
        there = job_expose(&job, 1, 10000);
        job.ranks[1].exposed.region.segment_fd = 0; /* of braid_alloc() */
        assert_null(br_worker_shared(job.ranks[0].worker, 1, 1, 0, 1));
        put = job_put(1, from, sizeof from, 100);
        job_submit(&job, 0, &put);
        job_run(&job, 1);
        assert_int_equal(put.status, 0);
        reached = br_worker_shared(job.ranks[0].worker, 1, 1, 9000, 1000);
        assert_ptr_equal(reached, maps ? there + 9000 : NULL);
        assert_null(br_worker_shared(job.ranks[0].worker, 1, 1, 9000, 1001));
        assert_null(br_worker_shared(job.ranks[0].worker, 1, 1, UINT64_MAX, 1));
        assert_null(br_worker_shared(job.ranks[0].worker, 1, 2, 0, 1));
        assert_null(br_worker_shared(job.ranks[0].worker, 0, 1, 0, 1)); /* ourselves */
        assert_null(br_worker_shared(job.ranks[2].worker, 1, 1, 0, 1));
        br_worker_fail(job.ranks[0].worker, EIO, "a test has failed it");
        assert_null(br_worker_shared(job.ranks[0].worker, 1, 1, 0, 1));
        job_destroy(&job);
        free(there);
    }
}

/* What is asked before an access may wait for others that leave with it. */
static void follows_access__until_it_has_ended(void **state)
{
    static uint8_t from[8], into[8];
    struct br_operation recv = {
        .kind = BR_OPERATION_RECV, .peer = 1, .recv = into, .count = sizeof into};
    struct br_operation send = {.kind = BR_OPERATION_SEND, .send = from, .count = sizeof from};
    struct br_operation puts[2];
    struct br_engine *engine;
    struct job job;
    uint8_t *there;

    (void)state;
    job_create(&job, &three);
    there = job_expose(&job, 1, 100);
    engine = job.ranks[0].engine;
    assert_false(br_engine_follows_access(engine));
    puts[0] = puts[1] = job_put(1, from, sizeof from, 0);
    job_submit(&job, 0, &puts[0]);
    assert_true(br_engine_follows_access(engine));
    job_submit(&job, 0, &recv);
    assert_false(br_engine_follows_access(engine));
    job_submit(&job, 0, &puts[1]);
    assert_true(br_engine_follows_access(engine));
    job_run(&job, 2);
    assert_false(br_engine_follows_access(engine));
    job_submit(&job, 1, &send);
    job_run(&job, 4);
    job_destroy(&job);
    free(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__notifies),
        cmocka_unit_test(put__changes_a_number),
        cmocka_unit_test(put__refused),
        cmocka_unit_test(put__region_is_in_reach_from_then_on),
        cmocka_unit_test(put__number_refused_while_data_is_confirmed),
        cmocka_unit_test(put__notifies_once_when_rails_are_lost),
        cmocka_unit_test(follows_access__until_it_has_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
