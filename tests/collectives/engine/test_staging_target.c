/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a (fake) GPU that other ranks put to and get from, over the simulator. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/collectives/gpu_call.h"
#include "collectives/engine/staging.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/says.h"

#define GUARD 64u
#define AHEAD 33u /* offset in the region: copies begin anywhere */

static uint8_t byte(size_t i, uint32_t seed)
{
    return (uint8_t)(i * 31 + i / 251 + seed);
}

static void fill(const void *memory, size_t bytes, uint32_t seed)
{
    uint8_t *view = bytes_of(memory);

    for (size_t i = 0; i < bytes; i++)
        view[i] = byte(i, seed);
}

static void check(const void *memory, size_t bytes, uint32_t seed)
{
    const uint8_t *view = bytes_of(memory);

    for (size_t i = 0; i < bytes; i++)
        if (view[i] != byte(i, seed))
            fail_msg("byte %zu of %zu is wrong", i, bytes);
}

/* Memory on rank `owner`'s GPU, and the key of it. */
static uint8_t *expose(struct job *job, int owner, size_t bytes, struct braid_key *key)
{
    uint8_t *memory = allocate(bytes);

    job->ranks[owner].exposed.gpu = 1;
    job->ranks[owner].exposed.region =
        (struct br_region){.base = memory, .bytes = bytes, .id = 1, .segment_fd = -1};
    memset(bytes_of(memory), 0xee, bytes);
    *key = (struct braid_key){.bytes = bytes, .rank = (uint32_t)owner, .id = 1, .check = 77};
    return memory;
}

static struct br_operation access_op(bool put, uint8_t *memory, bool on_gpu, size_t bytes,
                                     const struct braid_key *key, uint64_t offset)
{
    struct br_operation op = {.kind = put ? BR_OPERATION_PUT : BR_OPERATION_GET,
                              .count = bytes,
                              .key = *key,
                              .offset = offset};

    if (put) {
        op.send = memory;
        op.send_gpu = on_gpu;
    } else {
        op.recv = memory;
        op.recv_gpu = on_gpu;
    }
    return op;
}

static void run(struct job *job, int rank, struct br_operation *op)
{
    job_submit(job, rank, op);
    job_run(job, job->ended + 1);
    if (op->status)
        fail_msg("%s", op->message);
}

/* ---- what arrives and leaves ----------------------------------------------------------------- */

/* What was put stands there when the put ends: the fake driver does no copy that nobody has asked
 * about. */
static void put_and_get(struct job *job, int owner, size_t bytes, bool on_gpu)
{
    struct braid_key key;
    uint8_t *theirs = expose(job, owner, bytes + AHEAD + GUARD, &key),
            *mine = on_gpu ? allocate(bytes) : malloc(bytes);
    struct br_operation put = access_op(true, mine, on_gpu, bytes, &key, AHEAD),
                        get = access_op(false, mine, on_gpu, bytes, &key, AHEAD);

    fill(mine, bytes, 1);
    run(job, 0, &put);
    check(theirs + AHEAD, bytes, 1);
    for (size_t i = 0; i < AHEAD; i++)
        assert_int_equal(bytes_of(theirs)[i], 0xee);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(bytes_of(theirs)[AHEAD + bytes + i], 0xee);
    fill(theirs + AHEAD, bytes, 2);
    run(job, 0, &get);
    check(mine, bytes, 2);
    on_gpu ? release(mine) : free(mine);
    release(theirs);
}

static void target__put_and_get(void **state)
{
    static const size_t sizes[] = {1, 100, 1024, 1025, 70000, (17u << 20) + 5};
    struct job job;

    (void)state;
    fake_cuda()->late = 2;
    create(&job, 2, 0, NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int owner = 0; owner < 2; owner++)
            for (int on_gpu = 0; on_gpu < 2; on_gpu++)
                put_and_get(&job, owner, sizes[i], on_gpu);
    job_destroy(&job);
}

/* To and from ranges that lie side by side, from both sides, small ones and large ones between each
 * other. */
static void many(struct job *job, int n)
{
    const size_t room = 100000;
    struct br_operation ops[2][64];
    uint8_t *theirs[2], *mine[2];
    struct braid_key keys[2];

    for (int r = 0; r < 2; r++) {
        theirs[r] = expose(job, r, 64 * room, &keys[r]);
        mine[r] = malloc(64 * room);
        for (int i = 0; i < n; i++) {
            fill(mine[r] + (size_t)i * room, room, (uint32_t)(2 * i + r));
            fill(theirs[r] + (size_t)i * room, room, (uint32_t)(2 * i + r));
        }
    }
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 2; r++) {
            size_t at = (size_t)i * room, bytes = i % 3 ? room : (size_t)i * 7 + 1;

            ops[r][i] = access_op(i % 2, mine[r] + at, false, bytes, &keys[1 - r], at);
            ops[r][i].priority = i % 5;
            job_submit(job, r, &ops[r][i]);
        }
    job_run(job, job->ended + 2 * n);
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 2; r++) {
            size_t at = (size_t)i * room;

            assert_int_equal(ops[r][i].status, 0);
            check(i % 2 ? theirs[1 - r] + at : mine[r] + at, ops[r][i].count,
                  (uint32_t)(2 * i + (i % 2 ? r : 1 - r)));
        }
    for (int r = 0; r < 2; r++) {
        free(mine[r]);
        release(theirs[r]);
    }
}

static uint64_t allocations(struct job *job)
{
    struct br_engine *engine = job->ranks[1].engine;

    return br_engine_late_allocations(engine, br_engine_all(engine));
}

static void target__many_at_once(void **state)
{
    struct job job;
    uint64_t grown;

    (void)state;
    fake_cuda()->late = 3;
    create(&job, 2, 0, NULL);
    many(&job, 64);
    grown = allocations(&job);
    many(&job, 64);
    many(&job, 10);
    assert_int_equal(allocations(&job), grown);
    job_destroy(&job);
}

static void target__copies_each_byte_once(void **state)
{
    struct br_copier_counters before, after;
    struct braid_key key;
    uint8_t host[5000];
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    before = br_copier_counters(copier);
    for (size_t bytes = 500; bytes <= 5000; bytes += 4500) {
        uint8_t *theirs = expose(&job, 1, bytes, &key);
        struct br_operation put = access_op(true, host, false, bytes, &key, 0),
                            get = access_op(false, host, false, bytes, &key, 0);

        fill(host, bytes, 3);
        run(&job, 0, &put);
        run(&job, 0, &get);
        release(theirs);
    }
    after = br_copier_counters(copier);
    assert_int_equal(after.to_gpu_bytes - before.to_gpu_bytes, 5500);
    assert_int_equal(after.to_host_bytes - before.to_host_bytes, 5500);
    job_destroy(&job);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void target__refuses_atomics(void **state)
{
    struct braid_key key;
    uint64_t before = 5;
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    for (int owner = 0; owner < 2; owner++) {
        uint8_t *theirs = expose(&job, owner, 64, &key);
        struct br_operation op = {
            .kind = BR_OPERATION_ADD, .count = 8, .key = key, .recv = &before, .operands.value = 1};

        if (owner) {
            job_submit(&job, 0, &op);
            job_run(&job, job.ended + 1);
            assert_int_equal(op.status, -EOPNOTSUPP);
            assert_says(op.message, "GPU|fetch-and-add");
        } else {
            assert_int_equal(job_try_submit(&job, 0, &op), -EOPNOTSUPP);
        }
        assert_int_equal(job.ranks[owner].exposed.uses, 0);
        assert_int_equal(before, 5);
        release(theirs);
    }
    job_destroy(&job);
}

static void target__refuses_what_lies_beyond(void **state)
{
    static uint8_t host[9000];
    struct br_operation op;
    struct braid_key key;
    uint8_t *theirs;
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    theirs = expose(&job, 1, 5000, &key);
    for (size_t bytes = 100; bytes <= 4500; bytes += 4400)
        for (int put = 0; put < 2; put++) {
            op = access_op(put, host, false, bytes, &key, 5001 - bytes);
            job_submit(&job, 0, &op);
            job_run(&job, job.ended + 1);
            assert_int_equal(op.status, -EACCES);
        }
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(bytes_of(theirs)[i], 0xee);
    release(theirs);
    job_destroy(&job);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void failing(const char *symbol, br_cuda_result result, const char *text, bool put,
                    size_t bytes)
{
    static uint8_t host[5000];
    struct br_operation op;
    struct braid_key key;
    uint8_t *theirs;
    struct job job;

    create(&job, 2, 0, NULL);
    theirs = expose(&job, 1, bytes, &key);
    strcpy(fake_cuda()->fail, symbol);
    fake_cuda()->fail_result = result;
    op = access_op(put, host, false, bytes, &key, 0);
    job_submit(&job, 0, &op);
    job_run(&job, 1);
    fake_cuda()->fail[0] = 0;
    assert_true(op.status < 0);
    assert_says(op.message, text);
    while (job.ranks[1].worker->fail_due)
        assert_true(job_step(&job));
    assert_int_equal(job.ranks[1].exposed.uses, 0);
    assert_false(br_staging_busy(job.ranks[1].engine));
    release(theirs);
    job_destroy(&job);
}

static void target__fails_with_the_drivers_words(void **state)
{
    (void)state;
    for (int put = 0; put < 2; put++)
        for (size_t bytes = 500; bytes <= 5000; bytes += 4500) {
            failing("cuMemcpyAsync", BR_CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", put,
                    bytes);
            failing("cuEventRecord", BR_CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", put, bytes);
            failing("cuEventQuery", BR_CUDA_LAUNCH_FAILED, "copies", put, bytes);
        }
}

/* Under way on rank 1 when its worker fails. */
static void begin_copy(struct job *job, struct br_operation *op, uint8_t *host, uint8_t **theirs)
{
    struct braid_key key;

    *theirs = expose(job, 1, 5000, &key);
    strcpy(fake_cuda()->fail, "cuEventQuery");
    fake_cuda()->fail_result = BR_CUDA_NOT_READY;
    *op = access_op(true, host, false, 5000, &key, 0);
    op->timeout = 10 * BR_MS;
    job_submit(job, 0, op);
}

/* The registered memory is nobody else's before the copy engine is through with it. */
static void target__outlives_a_failure(void **state)
{
    static uint8_t host[5000];
    struct br_operation op;
    uint8_t *theirs;
    struct job job;

    (void)state;
    create(&job, 2, 0, NULL);
    fill(host, sizeof host, 4);
    begin_copy(&job, &op, host, &theirs);
    job_run(&job, 1);
    assert_int_equal(op.status, -ETIMEDOUT);
    assert_says(op.message, "rank 1");
    while (!job.ranks[1].worker->failed || job.ranks[1].worker->fail_due)
        assert_true(job_step(&job));
    assert_int_equal(job.ranks[1].exposed.uses, 1);
    fake_cuda()->fail[0] = 0;
    job_step(&job);
    assert_int_equal(job.ranks[1].exposed.uses, 0);
    assert_false(br_staging_busy(job.ranks[1].engine));
    check(theirs, sizeof host, 4);
    release(theirs);
    job_destroy(&job);
}

static void target__gpu_that_hangs(void **state)
{
    static uint8_t host[5000];
    struct br_operation op;
    uint8_t *theirs;
    struct job job;

    (void)state;
    create_kept(&job, 2, NULL);
    begin_copy(&job, &op, host, &theirs);
    job_run(&job, 1);
    while (job.ranks[1].exposed.uses && job_step(&job))
        ;
    assert_int_equal(job.ranks[1].exposed.uses, 0);
    assert_true(br_copier_is_lost(copier, 1));
    fake_cuda()->fail[0] = 0;
    release(theirs);
    job_destroy(&job);
    stays = 2; /* the trial's memory, on both sides */
    free_kept();
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_gpu, close_gpu)
    const struct CMUnitTest tests[] = {
        CASE(target__put_and_get),
        CASE(target__many_at_once),
        CASE(target__copies_each_byte_once),
        CASE(target__refuses_atomics),
        CASE(target__refuses_what_lies_beyond),
        CASE(target__fails_with_the_drivers_words),
        CASE(target__outlives_a_failure),
        CASE(target__gpu_that_hangs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
