/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles that are used twice, too late, or given up; buffers that overlap; memory that is not
 * there. By a communicator of one rank; more ranks are in tests/system/. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "collectives/comm/api.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/handles.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/engine/operation.h"
#include "tests/collectives/comm/single_rank.h"
#include "tests/says.h"

#include <braid/braid.h>

#define I32  BRAID_INT32
#define SUM  BRAID_SUM
#define GONE "not there any more"
#define MANY 3000 /* in three chunks of the pool */

static struct braid_op *start(const struct braid_options *options)
{
    struct braid_op *op;

    assert_int_equal(braid_allreduce(comm, in, out, 8, I32, SUM, options, &op), 0);
    assert_non_null(op);
    return op;
}

static void operation__is_used_once(void **state)
{
    struct braid_op *first = start(NULL), *second;
    int done = 0;

    (void)state;
    assert_int_equal(braid_wait(first, -1), 0);
    second = start(NULL); /* where the first one was */
    assert_ptr_not_equal(first, second);
    SAYS(-EINVAL, GONE, braid_wait(first, -1));
    SAYS(-EINVAL, GONE, braid_test(first, &done));
    SAYS(-EINVAL, GONE, braid_start(first));
    SAYS(-EINVAL, GONE, braid_op_free(first));
    while (!done)
        assert_int_equal(braid_test(second, &done), 0);
    SAYS(-EINVAL, GONE, braid_test(second, &done));
    SAYS(-EINVAL, GONE, braid_wait((struct braid_op *)(uintptr_t)12345, -1)); /* never was one */
}

static const struct braid_key to_self = {.bytes = 8};
static const struct br_api_point get = {
    .kind = BR_OPERATION_GET, .recv = out, .bytes = 8, .peer = -1, .key = &to_self};

/* As a call does; there is no other thread. */
static struct braid_op *handle_of_get(struct braid_comm *of)
{
    struct braid_op *op = br_handle_of_ended(of);

    return op ? op : br_handle_in_pool(of, &get, NULL);
}

/* Handles of operations that have ended in their calls, more than have a place of their own. */
static void operation__has_ended_in_its_call(void **state)
{
    static struct braid_op *ops[BR_HANDLE_PLACES + 500];
    enum { N = sizeof ops / sizeof *ops };
    struct braid_op *running = start(NULL);
    size_t index;
    int done = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        ops[i] = handle_of_get(comm);
        assert_non_null(ops[i]);
    }
    for (int i = 0; i < N; i += 4) {
        struct braid_op *two[] = {NULL, ops[i + 3]};

        SAYS(-EINVAL, "persistent", braid_start(ops[i]));
        assert_int_equal(braid_wait(ops[i], 0), 0);
        assert_int_equal(braid_test(ops[i + 1], &done), 0);
        assert_int_equal(done, 1);
        assert_int_equal(braid_op_free(ops[i + 2]), 0);
        assert_int_equal(braid_wait_any(two, 2, &index, 0), 0);
        assert_int_equal(index, 1);
        for (int k = 0; k < 4; k++)
            SAYS(-EINVAL, GONE, braid_wait(ops[i + k], -1));
        SAYS(-EINVAL, GONE, braid_op_free(ops[i + 1]));
        SAYS(-EINVAL, GONE, braid_test(ops[i], &done));
    }
    assert_int_equal(braid_wait(running, -1), 0);
}

/* Of a receive that has no operation at first. */
static void operation__is_posted_and_goes_on(void **state)
{
    struct br_context *context = comm->context;
    struct br_handle_place *place;
    struct br_operation *op;
    struct braid_op *handle;
    int done = 1;

    (void)state;
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        place = br_handle_next_place(context);
        assert_non_null(place);
        handle = br_handle_of_posted(comm, place);
        assert_null(br_operation_of(handle));
        assert_false(br_operation_has_ended(handle));
        assert_int_equal(braid_test(handle, &done), 0);
        assert_int_equal(done, 0);
        SAYS(-ETIMEDOUT, "running", braid_wait(handle, 0));
        assert_int_equal(br_handles_void_ended(context, NULL), 0);
        if (goes_on) {
            op = br_comm_reserve_operation(context);
            assert_non_null(op);
            br_comm_use_reserved(op, comm);
            atomic_store(&op->state, BR_OPERATION_SUBMITTED);
            br_handle_goes_on(place, op);
            assert_ptr_equal(br_operation_of(handle), op);
            assert_int_equal(braid_test(handle, &done), 0);
            assert_int_equal(done, 0);
            assert_int_equal(br_handles_void_ended(context, NULL), 0);
            atomic_store(&op->handle, 0); /* as one does that is given up */
            SAYS(-EINVAL, GONE, braid_wait(handle, 0));
            assert_true(br_operation_has_ended(handle));
            atomic_store(&op->handle, (uintptr_t)handle);
            atomic_store(&op->state, BR_OPERATION_ENDED);
        } else {
            br_handle_ended(place, comm);
        }
        assert_true(br_operation_has_ended(handle));
        assert_int_equal(braid_wait(handle, -1), 0);
        SAYS(-EINVAL, GONE, braid_wait(handle, -1));
        SAYS(-EINVAL, GONE, braid_op_free(handle));
        assert_null(br_operation_of(handle));
    }
    for (uint32_t i = 0; i < BR_HANDLE_PLACES; i++) /* all places are free */
        assert_int_equal(braid_wait(br_handle_of_ended(comm), 0), 0);
}

/* What braid_finalize() logs. */
static void finalize_and_read(struct braid_comm *which, char *text, size_t bytes)
{
    int saved = dup(STDERR_FILENO);
    FILE *log = tmpfile();

    assert_non_null(log);
    fflush(stderr);
    dup2(fileno(log), STDERR_FILENO);
    assert_int_equal(braid_finalize(which), 0);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(log);
    text[fread(text, 1, bytes - 1, log)] = 0;
    fclose(log);
}

static void finalize__of_a_part_voids_handles_of_ended_accesses(void **state)
{
    struct braid_op *ours = handle_of_get(comm), *theirs[2];
    struct braid_comm *part;
    char log[1024];

    (void)state;
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    for (int i = 0; i < 2; i++)
        theirs[i] = handle_of_get(part);
    finalize_and_read(part, log, sizeof log);
    assert_says(log, "nobody has waited|2 accesses|without error");
    for (int i = 0; i < 2; i++)
        SAYS(-EINVAL, GONE, braid_wait(theirs[i], 0));
    assert_int_equal(braid_wait(ours, 0), 0);
}

/* More than have a place of their own; those of the pool are described. */
static void finalize__names_ended_accesses_that_nobody_waited_for(void **state)
{
    struct braid_comm *part;
    char log[1024];

    (void)state;
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    for (uint32_t i = 0; i < BR_HANDLE_PLACES + 3; i++)
        assert_non_null(handle_of_get(part));
    finalize_and_read(part, log, sizeof log);
    assert_says(log, "3 operations|get of 8 bytes from rank 0|1024 accesses");
}

/* Old handles, kept while many others have had their places, in all chunks of the pool. */
static void operation__is_recognised_after_many_others(void **state)
{
    static struct braid_op *old[MANY], *ops[MANY];
    static uint64_t words[MANY];
    int done;

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++)
            assert_int_equal(braid_recv(comm, &words[i], 8, 0, NULL, &ops[i]), 0);
        for (int i = 0; i < MANY; i++) {
            if (round) {
                SAYS(-EINVAL, GONE, braid_wait(old[i], 0));
                SAYS(-EINVAL, GONE, braid_test(old[i], &done));
                SAYS(-EINVAL, GONE, braid_start(old[i]));
                SAYS(-EINVAL, GONE, braid_op_free(old[i]));
            }
            old[i] = ops[i];
        }
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(braid_send(comm, in, 8, 0, NULL, NULL), 0);
            assert_int_equal(braid_wait(ops[i], -1), 0);
        }
    }
    for (int i = 0; i < 20000; i++) { /* all in one place */
        ops[0] = start(NULL);
        assert_int_equal(braid_wait(ops[0], -1), 0);
        SAYS(-EINVAL, GONE, braid_wait(old[0], 0));
        SAYS(-EINVAL, GONE, braid_wait(ops[0], 0));
    }
}

/* Until there is no memory for another; the others end, and then there is room again. */
static void operation__as_many_as_memory_holds(void **state)
{
    const char *sanitize = getenv("BRAID_SANITIZE"); /* which has address space of its own */
    struct braid_op *op, *last = NULL;
    struct rlimit before, limit;
    uint64_t word;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    int n = 0, rc = 0;

    (void)state;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &pages), 1);
    fclose(file);
    if (sanitize && *sanitize)
        skip();
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (64u << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
    while (n < 1000000 && !(rc = braid_recv(comm, &word, 8, 0, NULL, &op))) {
        last = op;
        n++;
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    if (rc != -ENOMEM || op || !says_all(braid_last_error(), "rank 0|operations are outstanding"))
        fail_msg("%d after %d operations: %s", rc, n, braid_last_error());
    assert_true(n > 10000);
    for (int i = 0; i < n; i++)
        assert_int_equal(braid_send(comm, in, 8, 0, NULL, NULL), 0);
    assert_int_equal(braid_wait(last, -1), 0);
    assert_int_equal(braid_wait(start(NULL), -1), 0);
}

static void *wait_for_it(void *op)
{
    return (void *)(intptr_t)braid_wait(op, -1);
}

/* Two threads wait for one operation, which is a mistake: one of them has it. */
static void operation__is_waited_for_by_one_of_two_threads(void **state)
{
    for (int i = 0; i < 200; i++) {
        struct braid_op *op;
        void *other;
        pthread_t thread;
        uint64_t word;
        int rc;

        (void)state;
        assert_int_equal(braid_recv(comm, &word, 8, 0, NULL, &op), 0);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, op), 0);
        assert_int_equal(braid_send(comm, in, 8, 0, NULL, NULL), 0);
        rc = braid_wait(op, -1);
        assert_int_equal(pthread_join(thread, &other), 0);
        assert_int_equal(rc + (int)(intptr_t)other, -EINVAL);
        assert_true(rc == 0 || other == NULL);
    }
}

static void operation__handle_of_a_failing_call_is_null(void **state)
{
    struct braid_op *op = (struct braid_op *)in;
    struct braid_region *region = (struct braid_region *)in;
    struct braid_comm *other = (struct braid_comm *)in;

    (void)state;
    SAYS(-EINVAL, "send|NULL", braid_allreduce(comm, NULL, out, 8, I32, SUM, NULL, &op));
    assert_null(op);
    op = (struct braid_op *)in;
    SAYS(-EINVAL, "peer is 3", braid_send(comm, in, 4, 3, NULL, &op));
    assert_null(op);
    SAYS(-EINVAL, "empty span", braid_register(comm, in, 0, &region));
    assert_null(region);
    SAYS(-EINVAL, "size=-1", braid_init(&(struct braid_config){.size = -1}, &other));
    assert_null(other);
}

static void operation__any_is_given_up(void **state)
{
    struct braid_op *op = start(NULL), *never;
    uint64_t word = 0;

    (void)state;
    assert_int_equal(braid_op_free(op), 0);
    SAYS(-EINVAL, GONE, braid_op_free(op));
    /* runs until the send below */
    assert_int_equal(braid_recv(comm, &word, sizeof word, 0, NULL, &op), 0);
    assert_int_equal(braid_op_free(op), 0);
    SAYS(-EINVAL, GONE, braid_wait(op, 0));
    assert_int_equal(braid_send(comm, in, sizeof word, 0, NULL, NULL), 0);
    assert_memory_equal(&word, in, sizeof word);
    /* never started */
    assert_int_equal(braid_allreduce_init(comm, in, out, 8, I32, SUM, NULL, &never), 0);
    assert_int_equal(braid_op_free(never), 0);
    for (int i = 0; i < 3000; i++) { /* more than there are: each is given back */
        op = start(NULL);
        assert_int_equal(braid_op_free(op), 0);
        if (i % 100 == 0)
            assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
    }
    assert_int_equal(braid_comm_error(comm), 0);
}

static void operation__error_of_one_given_up_is_the_communicators(void **state)
{
    struct braid_op *op = start(&(struct braid_options){.algorithm = "quantum"});

    (void)state;
    assert_int_equal(braid_op_free(op), 0);
    (void)braid_barrier(comm, NULL, NULL);
    SAYS(-EINVAL, "quantum", braid_comm_error(comm));
    assert_int_equal(braid_finalize(comm), 0);
    comm = NULL;
}

static void finalize__returns_the_error_of_what_nobody_waited_for(void **state)
{
    struct braid_op *ops[3];

    (void)state;
    ops[0] = start(NULL);
    ops[1] = start(&(struct braid_options){.algorithm = "quantum"});
    ops[2] = start(NULL);
    SAYS(-EINVAL, "quantum", braid_finalize(comm));
    assert_says(braid_last_error(), "3 operations");
    assert_says(braid_last_error(), "allreduce of 8");
    for (int i = 0; i < 3; i++)
        SAYS(-EINVAL, GONE, braid_wait(ops[i], -1));
    assert_int_equal(join(state), 0);
    ops[0] = start(NULL);
    assert_int_equal(braid_finalize(comm), 0); /* it has ended well, which is only logged */
    comm = NULL;
}

static void finalize__of_a_part_returns_such_an_error_too(void **state)
{
    const struct braid_options quantum = {.algorithm = "quantum"};
    struct braid_comm *part;
    struct braid_op *op;

    (void)state;
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    assert_int_equal(braid_allreduce(part, in, out, 8, I32, SUM, &quantum, &op), 0);
    SAYS(-EINVAL, "quantum", braid_finalize(part));
    SAYS(-EINVAL, GONE, braid_wait(op, -1));
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
}

static void handles__of_an_ended_job_are_answered(void **state)
{
    struct braid_comm *part, *before = comm;
    struct braid_region *region;
    struct braid_key key;
    struct braid_op *op, *persistent;
    struct braid_stats stats = {0};
    int done;

    (void)state;
    assert_int_equal(braid_comm_split(comm, 0, 0, &part), 0);
    assert_int_equal(braid_register(comm, in, sizeof in, &region), 0);
    assert_int_equal(braid_barrier_init(part, NULL, &persistent), 0);
    op = start(NULL);
    assert_int_equal(braid_finalize(comm), 0);
    for (int again = 0; again < 2; again++) { /* the second time in another job */
        SAYS(-EINVAL, "finalized", braid_barrier(before, NULL, NULL));
        SAYS(-EINVAL, "finalized", braid_barrier(part, NULL, NULL));
        SAYS(-EINVAL, "finalized", braid_finalize(before));
        SAYS(-EINVAL, "finalized", braid_finalize(part));
        SAYS(-EINVAL, "finalized", braid_comm_abort(part, "late"));
        SAYS(-EINVAL, "finalized", braid_comm_error(before));
        SAYS(-EINVAL, "finalized", braid_rank(before));
        SAYS(-EINVAL, "finalized", braid_key(before, in, &key));
        SAYS(-EINVAL, "finalized", braid_stats(before, &stats));
        assert_null(braid_alloc(before, 100));
        SAYS(-EINVAL, "deregistered before", braid_deregister(region));
        SAYS(-EINVAL, GONE, braid_wait(op, -1));
        SAYS(-EINVAL, GONE, braid_test(op, &done));
        SAYS(-EINVAL, GONE, braid_start(persistent));
        SAYS(-EINVAL, GONE, braid_op_free(persistent));
        if (!again)
            assert_int_equal(join(state), 0);
    }
}

static void region__is_deregistered_once(void **state)
{
    struct braid_region *first, *second;
    struct braid_key key;

    (void)state;
    assert_int_equal(braid_register(comm, in, sizeof in, &first), 0);
    assert_int_equal(braid_deregister(first), 0);
    SAYS(-EINVAL, "deregistered before", braid_deregister(first));
    assert_int_equal(braid_register(comm, in, sizeof in, &second), 0);
    SAYS(-EINVAL, "deregistered before", braid_deregister(first));
    assert_int_equal(braid_key(comm, in, &key), 0); /* the second one is still there */
    assert_int_equal(braid_deregister(second), 0);
    SAYS(-EINVAL, "not a region", braid_deregister(NULL));
}

static void alloc__of_more_than_there_is(void **state)
{
    (void)state;
    assert_null(braid_alloc(comm, (size_t)1 << 46));
    assert_says(braid_last_error(), "67108864 MiB");
    assert_says(braid_last_error(), "are free");
    assert_int_equal(braid_barrier(comm, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(operation__is_used_once, join, leave),
        cmocka_unit_test_setup_teardown(operation__is_posted_and_goes_on, join, leave),
        cmocka_unit_test_setup_teardown(operation__has_ended_in_its_call, join, leave),
        cmocka_unit_test_setup_teardown(finalize__of_a_part_voids_handles_of_ended_accesses, join,
                                        leave),
        cmocka_unit_test_setup_teardown(finalize__names_ended_accesses_that_nobody_waited_for, join,
                                        leave),
        cmocka_unit_test_setup_teardown(operation__is_recognised_after_many_others, join, leave),
        cmocka_unit_test_setup_teardown(operation__as_many_as_memory_holds, join, leave),
        cmocka_unit_test_setup_teardown(operation__is_waited_for_by_one_of_two_threads, join,
                                        leave),
        cmocka_unit_test_setup_teardown(operation__handle_of_a_failing_call_is_null, join, leave),
        cmocka_unit_test_setup_teardown(operation__any_is_given_up, join, leave),
        cmocka_unit_test_setup_teardown(operation__error_of_one_given_up_is_the_communicators, join,
                                        leave),
        cmocka_unit_test_setup_teardown(finalize__returns_the_error_of_what_nobody_waited_for, join,
                                        leave),
        cmocka_unit_test_setup_teardown(finalize__of_a_part_returns_such_an_error_too, join, leave),
        cmocka_unit_test_setup_teardown(handles__of_an_ended_job_are_answered, join, leave),
        cmocka_unit_test_setup_teardown(region__is_deregistered_once, join, leave),
        cmocka_unit_test_setup_teardown(alloc__of_more_than_there_is, join, leave),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
