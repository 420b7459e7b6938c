/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_options.done, by a communicator of one rank; more ranks are in tests/system/. */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/collectives/comm/single_rank.h"
#include "tests/says.h"

#include <braid/braid.h>

#define I32    BRAID_INT32
#define SUM    BRAID_SUM
#define CHAIN  10000
#define ROUNDS 5

/* What a `done` was called with, and what it does. */
struct told {
    sem_t told; /* posted at the end of each call */
    atomic_int times, last;
    int most; /* calls of a chain, or starts of a persistent operation */
    struct braid_op *op, *other;
    int got[8];
    char message[200];
};

static struct told told_new(void)
{
    struct told told = {.most = 0};

    assert_int_equal(sem_init(&told.told, 0, 0), 0);
    return told;
}

/* Without driving: braid's own thread does. */
static void await(struct told *told)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    assert_int_equal(sem_timedwait(&told->told, &until), 0);
}

static void note(void *context, int result)
{
    struct told *told = context;

    told->times++;
    told->last = result;
    if (result)
        strncpy(told->message, braid_last_error(), sizeof told->message - 1);
    sem_post(&told->told);
}

static struct braid_options tells(struct told *told, void (*done)(void *, int))
{
    return (struct braid_options){.done = done, .context = told};
}

/* ---- of every kind --------------------------------------------------------------------------- */

static void done__is_called_for_every_kind(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, note);
    uint64_t *memory = braid_alloc(comm, 64), before = 1, word = 7, got = 0;
    struct braid_key key;

    (void)state;
    assert_int_equal(braid_key(comm, memory, &key), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL), 0);
    assert_int_equal(braid_barrier(comm, &options, NULL), 0);
    assert_int_equal(braid_recv(comm, &got, sizeof got, 0, &options, NULL), 0);
    assert_int_equal(braid_send(comm, &word, sizeof word, 0, &options, NULL), 0);
    for (int i = 0; i < 4; i++)
        await(&told);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(got, 7);
    assert_int_equal(braid_put(comm, &word, sizeof word, &key, 0, &options, NULL), 0);
    await(&told);
    assert_int_equal(braid_fetch_add(comm, &before, 1, &key, 0, &options, NULL), 0);
    await(&told);
    assert_int_equal(before, 7);
    assert_int_equal(braid_get(comm, &got, sizeof got, &key, 0, &options, NULL), 0);
    await(&told);
    assert_int_equal(got, 8);
    assert_int_equal(told.times, 7);
    assert_int_equal(told.last, 0);
}

static void done__is_called_in_the_order_of_ends(void **state)
{
    struct told told[3] = {told_new(), told_new(), told_new()};
    uint64_t words[3];

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct braid_options options = tells(&told[i], note);

        options.tag = i;
        assert_int_equal(braid_recv(comm, &words[i], 8, 0, &options, NULL), 0);
    }
    for (uint32_t i = 3; i-- > 0;) {
        assert_int_equal(braid_send(comm, in, 8, 0, &(struct braid_options){.tag = i}, NULL), 0);
        await(&told[i]);
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(told[k].times, k >= i);
    }
}

/* ---- the handle ------------------------------------------------------------------------------ */

static void done__has_returned_when_the_wait_does(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, note);
    struct braid_op *op;

    (void)state;
    for (int i = 1; i <= 2000; i++) {
        int done = 0;

        assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, &op), 0);
        assert_non_null(op);
        if (i % 2)
            assert_int_equal(braid_wait(op, -1), 0);
        while (i % 2 == 0 && !done)
            assert_int_equal(braid_test(op, &done), 0);
        assert_int_equal(told.times, i);
        SAYS(-EINVAL, "not there any more", braid_wait(op, -1));
    }
}

static void done__is_called_for_one_that_was_given_up(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, note);
    struct braid_op *op;
    int32_t word;

    (void)state;
    assert_int_equal(braid_recv(comm, &word, sizeof word, 0, &options, &op), 0);
    assert_int_equal(braid_op_free(op), 0);
    assert_int_equal(told.times, 0);
    assert_int_equal(braid_send(comm, in, sizeof word, 0, NULL, NULL), 0);
    await(&told);
    assert_int_equal(word, 1);
}

static void start_again(void *context, int result)
{
    struct told *told = context;
    int done = 0;

    told->got[0] |= result | (braid_start(told->op) != -EBUSY);
    told->got[0] |= braid_test(told->op, &done) | !done;
    if (++told->times < told->most)
        told->got[0] |= braid_start(told->op);
    else
        sem_post(&told->told);
}

static void done__may_start_its_persistent_operation_again(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, start_again);

    (void)state;
    told.most = ROUNDS;
    assert_int_equal(braid_allreduce_init(comm, in, out, 8, I32, SUM, &options, &told.op), 0);
    assert_int_equal(told.times, 0);
    assert_int_equal(braid_start(told.op), 0);
    await(&told);
    assert_int_equal(told.times, ROUNDS);
    assert_int_equal(told.got[0], 0);
    SAYS(-EINVAL, "not been started", braid_wait(told.op, -1));
    assert_int_equal(braid_op_free(told.op), 0);
}

static void free_own(void *context, int result)
{
    struct told *told = context;

    told->got[0] = braid_op_free(told->op);
    told->got[1] = braid_op_free(told->op);
    note(context, result);
}

static void done__may_free_its_operation(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, free_own);

    (void)state;
    for (int persistent = 0; persistent < 2; persistent++) {
        if (persistent) {
            assert_int_equal(braid_barrier_init(comm, &options, &told.op), 0);
            assert_int_equal(braid_start(told.op), 0);
        } else {
            assert_int_equal(braid_recv(comm, told.got, 0, 0, &options, &told.op), 0);
            assert_int_equal(braid_send(comm, in, 0, 0, NULL, NULL), 0);
        }
        await(&told);
        assert_int_equal(told.got[0], 0);
        assert_int_equal(told.got[1], -EINVAL);
    }
}

/* ---- what it may do -------------------------------------------------------------------------- */

static void submit_next(void *context, int result)
{
    struct told *told = context;
    const struct braid_options options = tells(told, submit_next);

    told->got[0] |= result;
    if (++told->times < told->most)
        told->got[0] |= braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL);
    else
        sem_post(&told->told);
}

/* Each ends at once: calls within calls would need more stack than there is. */
static void done__submits_the_next_without_nesting(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, submit_next);

    (void)state;
    told.most = CHAIN;
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL), 0);
    await(&told);
    assert_int_equal(told.times, CHAIN);
    assert_int_equal(told.got[0], 0);
}

static void submit_until_stopped(void *context, int result)
{
    struct told *told = context;
    const struct braid_options options = tells(told, submit_until_stopped);

    told->got[0] |= result;
    told->times++;
    if (told->last != 1)
        told->got[0] |= braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL);
    else
        sem_post(&told->told);
}

/* A thread that looks in between comes back, though there is always one more to tell. */
static void done__a_chain_keeps_nobody(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, submit_until_stopped);
    struct braid_op *op;
    int ended = 0;

    (void)state;
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(braid_recv(comm, told.message, 0, 0, NULL, &op), 0);
        assert_int_equal(braid_send(comm, in, 0, 0, NULL, NULL), 0);
        for (ended = 0; !ended;)
            assert_int_equal(braid_test(op, &ended), 0);
    }
    told.last = 1;
    await(&told);
    assert_int_equal(told.got[0], 0);
}

static void look_at_another_job(void *context, int result)
{
    struct told *told = context;
    struct told inner = told_new();
    const struct braid_options options = tells(&inner, note);
    struct braid_comm *other = (struct braid_comm *)told->other;
    struct braid_op *op;
    int ended = 0;

    told->got[0] = result | braid_barrier(other, &options, &op);
    while (!ended)
        told->got[0] |= braid_test(op, &ended);
    told->got[1] = inner.times;
    told->got[2] = braid_barrier(comm, NULL, NULL);
    told->got[3] = braid_wait(told->op, -1);
    sem_post(&told->told);
}

/* Whose `done` is then called within this one, which stays what it is. */
static void done__looks_at_another_job(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, look_at_another_job);
    struct braid_comm *other;

    (void)state;
    assert_int_equal(braid_init(&(struct braid_config){.size = 1}, &other), 0);
    told.other = (struct braid_op *)other;
    assert_int_equal(braid_barrier(comm, &options, &told.op), 0);
    await(&told);
    assert_int_equal(told.got[0], 0);
    assert_int_equal(told.got[1], 1);
    assert_int_equal(told.got[2], -EDEADLK);
    assert_int_equal(told.got[3], 0);
    assert_int_equal(braid_finalize(other), 0);
}

static void block(void *context, int result)
{
    struct told *told = context;
    struct braid_received received = {0};
    struct braid_comm *part;
    int found;

    told->got[0] = braid_barrier(comm, NULL, NULL);
    told->got[1] = braid_send(comm, in, 4, 0, NULL, NULL);
    told->got[2] = braid_wait(told->other, -1);
    told->got[3] = braid_comm_split(comm, 0, 0, &part);
    told->got[4] = braid_finalize(comm);
    told->got[5] = braid_probe(comm, 0, NULL, -1, &found, &received);
    told->got[6] = braid_probe(comm, 0, NULL, 0, &found, &received);
    told->got[7] = braid_comm_error(comm);
    note(context, result);
}

static void done__must_not_block(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, block);

    (void)state;
    assert_int_equal(braid_recv(comm, told.message, 4, 0, NULL, &told.other), 0);
    assert_int_equal(braid_barrier(comm, &options, NULL), 0);
    await(&told);
    for (int i = 0; i < 6; i++)
        assert_int_equal(told.got[i], -EDEADLK);
    assert_int_equal(told.got[6], 0);
    assert_int_equal(told.got[7], 0);
    assert_int_equal(braid_send(comm, in, 4, 0, NULL, NULL), 0);
    assert_int_equal(braid_wait(told.other, -1), 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void done__is_told_an_error_which_then_is_no_longer_the_communicators(void **state)
{
    struct told told = told_new();
    struct braid_options options = tells(&told, note);

    (void)state;
    options.algorithm = "quantum";
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL), 0);
    await(&told);
    assert_int_equal(told.last, -EINVAL);
    assert_says(told.message, "quantum");
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    assert_int_equal(braid_comm_error(comm), 0);
}

static void done__is_not_called_when_the_call_fails(void **state)
{
    struct told told = told_new();
    const struct braid_options options = tells(&told, note);

    (void)state;
    SAYS(-EINVAL, "send|NULL", braid_allreduce(comm, NULL, out, 8, I32, SUM, &options, NULL));
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    assert_int_equal(told.times, 0);
}

static void done__is_called_once_after_an_abort_and_a_deadline(void **state)
{
    static const int expected[] = {-ECANCELED, -ETIMEDOUT};

    for (int late = 0; late < 2; late++) {
        struct told told = told_new();
        struct braid_options options = tells(&told, note);
        int32_t word;

        options.timeout_ms = late ? 20 : 0;
        assert_int_equal(braid_recv(comm, &word, sizeof word, 0, &options, NULL), 0);
        if (!late)
            assert_int_equal(braid_comm_abort(comm, "enough"), 0);
        await(&told);
        assert_int_equal(told.last, expected[late]);
        assert_int_equal(braid_finalize(comm), 0);
        assert_int_equal(told.times, 1);
        assert_int_equal(join(state), 0);
    }
}

static void finalize__waits_for_what_done_submits(void **state)
{
    struct told told = told_new(), late = told_new();
    const struct braid_options options = tells(&told, submit_next);
    struct braid_options fails = tells(&late, note);
    struct braid_op *never;

    (void)state;
    told.most = 300;
    fails.algorithm = "quantum";
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &options, NULL), 0);
    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, &fails, &never), 0);
    assert_int_equal(braid_finalize(comm), 0);
    comm = NULL;
    assert_int_equal(told.times, 300);
    assert_int_equal(told.got[0], 0);
    assert_int_equal(late.last, -EINVAL);
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, join, leave)
    const struct CMUnitTest tests[] = {
        EACH(done__is_called_for_every_kind),
        EACH(done__is_called_in_the_order_of_ends),
        EACH(done__has_returned_when_the_wait_does),
        EACH(done__is_called_for_one_that_was_given_up),
        EACH(done__may_start_its_persistent_operation_again),
        EACH(done__may_free_its_operation),
        EACH(done__submits_the_next_without_nesting),
        EACH(done__a_chain_keeps_nobody),
        EACH(done__looks_at_another_job),
        EACH(done__must_not_block),
        EACH(done__is_told_an_error_which_then_is_no_longer_the_communicators),
        EACH(done__is_not_called_when_the_call_fails),
        EACH(done__is_called_once_after_an_abort_and_a_deadline),
        EACH(finalize__waits_for_what_done_submits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
