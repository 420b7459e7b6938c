/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives of one host that are posted with a handle before their message comes (comm/posted.c). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress_lock.h"
#include "tests/system/ranks.h"

enum { MANY = 300, LONG = 20000, TAGS = 3, THREADS = 3, EACH = 400 };

static void on_one_host(ranks_main *body, void *context, int timeout_ms)
{
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = timeout_ms}, body,
              context);
}

/* The first message of a tag is an operation. */
static int open_tags(struct braid_comm *comm)
{
    for (uint32_t tag = 0; tag < TAGS + THREADS; tag++) {
        const struct braid_options options = {.tag = tag};
        char byte = 0;

        RETURNS(0, braid_rank(comm) ? braid_recv(comm, &byte, 1, 0, &options, NULL)
                                    : braid_send(comm, &byte, 1, 1, &options, NULL));
    }
    return 0;
}

/* More than are posted without an operation, and some that are too long for that. The messages
 * come in the same order, tag for tag; `way` % 2: most receives are posted before. */
static int many(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {8, 0, 24, 25, 1000, LONG, 1};
    static uint8_t memory[MANY][LONG + 1];
    struct braid_op *ops[MANY];

    (void)context;
    if (open_tags(comm))
        return 1;
    for (int way = 0; way < 8; way++) {
        for (int i = 0; i < MANY; i++) {
            size_t bytes = sizes[(size_t)i % (sizeof sizes / sizeof *sizes)];
            const struct braid_options options = {.tag = (uint32_t)(i % TAGS)};

            if (braid_rank(comm)) {
                memset(memory[i], 0xee, bytes + 1);
                RETURNS(0, braid_recv(comm, memory[i], bytes, 0, &options, &ops[i]));
                continue;
            }
            if (!i && way % 2)
                RETURNS(0, braid_recv(comm, NULL, 0, 1, NULL, NULL));
            memset(memory[i], i + way, bytes);
            RETURNS(0, braid_send(comm, memory[i], bytes, 1, &options, &ops[i]));
        }
        if (braid_rank(comm) && way % 2)
            RETURNS(0, braid_send(comm, NULL, 0, 0, NULL, NULL));
        if (ranks_take_all(ops, MANY, way / 2))
            return 1;
        for (int i = 0; braid_rank(comm) && i < MANY; i++) {
            size_t bytes = sizes[(size_t)i % (sizeof sizes / sizeof *sizes)];

            for (size_t k = 0; k < bytes; k++)
                CHECK(memory[i][k] == (uint8_t)(i + way), "way %d, message %d", way, i);
            CHECK(memory[i][bytes] == 0xee, "way %d, behind message %d", way, i);
        }
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    return 0;
}

static void posted__many(void **state)
{
    (void)state;
    on_one_host(many, NULL, RANKS_PATIENCE);
}

struct thread {
    struct braid_comm *comm;
    uint32_t tag;
    const char *words; /* NULL: all is well */
};

/* Windows of 16 messages of a tag of its own. */
static void *exchange(void *argument)
{
    struct thread *thread = argument;
    const struct braid_options options = {.tag = thread->tag};
    struct braid_op *ops[16];
    int values[16], rank = braid_rank(thread->comm);

    for (int i = 0; i < EACH; i++) {
        for (int k = 0; k < 16; k++) {
            values[k] = rank ? -1 : i * 16 + k;
            if (rank ? braid_recv(thread->comm, &values[k], sizeof *values, 0, &options, &ops[k])
                     : braid_send(thread->comm, &values[k], sizeof *values, 1, &options, &ops[k]))
                thread->words = "a call fails";
        }
        for (int k = 0; k < 16 && !thread->words; k++)
            if (braid_wait(ops[k], -1) || values[k] != i * 16 + k)
                thread->words = "not the message that was sent";
    }
    return NULL;
}

static int by_threads(struct braid_comm *comm, void *context)
{
    struct thread threads[THREADS];
    pthread_t ids[THREADS];

    (void)context;
    if (open_tags(comm))
        return 1;
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.comm = comm, .tag = (uint32_t)(TAGS + i)};
        RETURNS(0, pthread_create(&ids[i], NULL, exchange, &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        RETURNS(0, pthread_join(ids[i], NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK(!threads[i].words, "thread %d: %s", i, threads[i].words);
    return 0;
}

static void posted__by_threads(void **state)
{
    (void)state;
    on_one_host(by_threads, NULL, RANKS_PATIENCE);
}

/* One that is given up takes its message nevertheless; memory stays in use until it has come; and
 * the end of a communicator waits for it. */
static int given_up(struct braid_comm *comm, void *context)
{
    int *memory = braid_alloc(comm, 3 * sizeof *memory), done = 1, rank = braid_rank(comm);
    struct braid_comm *part;
    struct braid_op *ops[3];

    (void)context;
    CHECK(memory, "no memory");
    RETURNS(0, braid_comm_split(comm, 0, rank, &part));
    if (open_tags(comm) || open_tags(part))
        return 1;
    for (int i = 0; i < 3; i++)
        memory[i] = rank ? 0 : i + 1;
    if (rank) {
        for (int i = 0; i < 2; i++)
            RETURNS(0, braid_recv(comm, &memory[i], sizeof *memory, 0, NULL, &ops[i]));
        RETURNS(0, braid_recv(part, &memory[2], sizeof *memory, 0, NULL, &ops[2]));
        RETURNS(0, braid_test(ops[0], &done));
        CHECK(!done, "before it was sent");
        SAYS(-EINVAL, "persistent", braid_start(ops[0]));
        RETURNS(0, braid_op_free(ops[0]));
        SAYS(-EINVAL, "not there any more", braid_wait(ops[0], 0));
        SAYS(-EBUSY, "braid_free|use", braid_free(comm, memory));
    }
    ranks_tell(0);
    ranks_await(0, 2);
    for (int i = 0; !rank && i < 3; i++)
        RETURNS(0, braid_send(i < 2 ? comm : part, &memory[i], sizeof *memory, 1, NULL, NULL));
    RETURNS(0, braid_finalize(part));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    if (rank) /* behind the first one */
        RETURNS(0, braid_wait(ops[1], -1));
    for (int i = 0; i < 3; i++)
        CHECK(memory[i] == i + 1, "message %d: %d", i, memory[i]);
    return braid_free(comm, memory);
}

static void posted__given_up(void **state)
{
    (void)state;
    on_one_host(given_up, NULL, RANKS_PATIENCE);
}

/* Ends that disagree hear of it, and one without a message when its time is up. */
static int failing(struct braid_comm *comm, void *context)
{
    const size_t *sizes = context;
    struct braid_op *op;
    char data[1000] = "";
    int rc = 0;

    if (open_tags(comm)) /* where a rank stands still, the deadline may pass here */
        return sizes[0] || !strstr(braid_last_error(), "deadline");
    if (!braid_rank(comm)) {
        while (!ranks_told(0, 1) && !(rc = braid_comm_error(comm)))
            ranks_sleep_ms(1);
        if (sizes[0] && !rc)
            rc = braid_send(comm, data, sizes[0], 1, NULL, NULL);
    } else {
        RETURNS(0, braid_recv(comm, data, sizes[1], 0, NULL, &op));
        ranks_tell(0);
        rc = braid_wait(op, -1);
        CHECK(rc, "it has ended well");
    }
    while (!rc) /* until the other rank's failure is heard of */
        rc = braid_comm_error(comm);
    CHECK(strstr(braid_last_error(), sizes[0] ? "disagree" : "deadline"), "got %d", rc);
    return 0;
}

static void posted__failing(void **state)
{
    static const size_t sizes[][2] = {{9, 8}, {1000, 8}, {0, 8}};

    (void)state;
    for (int i = 0; i < 3; i++)
        on_one_host(failing, (void *)(uintptr_t)sizes[i], i < 2 ? RANKS_PATIENCE : 700);
}

static struct later {
    struct braid_comm *part;
    struct braid_op *op;
    int rc, value;
} later;

static void post_another(void *context, int result)
{
    struct later *l = context;

    l->rc = result ? result : braid_recv(l->part, &l->value, sizeof l->value, 0, NULL, &l->op);
}

/* The end of a communicator waits for what a `done` has posted meanwhile: here until it fails, as
 * its message never comes. */
static int posted_by_done(struct braid_comm *comm, void *context)
{
    const struct braid_options options = {.done = post_another, .context = &later};
    static int value;
    int rc;

    (void)context;
    /* where a rank stands still, the deadline may pass before */
    rc = braid_comm_split(comm, 0, braid_rank(comm), &later.part) || open_tags(later.part);
    if (!rc && braid_rank(comm)) {
        rc = braid_recv(later.part, &value, sizeof value, 0, &options, NULL);
        ranks_tell(0);
    } else if (!rc) {
        while (!ranks_told(0, 1) && !(rc = braid_comm_error(comm)))
            ranks_sleep_ms(1);
        ranks_sleep_ms(20); /* the other rank is in the next call, most likely */
        rc = rc ? rc : braid_send(later.part, &value, sizeof value, 1, NULL, NULL);
    }
    if (!rc)
        braid_finalize(later.part);
    rc = braid_comm_error(comm);
    CHECK(rc && strstr(braid_last_error(), "deadline"), "got %d, and %d in done", rc, later.rc);
    return 0;
}

static void posted__by_done(void **state)
{
    (void)state;
    on_one_host(posted_by_done, NULL, 700);
}

enum { FREE, HELD, LET_GO, CROWD = 60, ROUNDS = 5 };

static _Atomic int hold;

/* Keeps the progress thread from what it does. */
static void hold_it(void *context, int result)
{
    (void)context, (void)result;
    atomic_store(&hold, HELD);
    while (atomic_load(&hold) != LET_GO)
        ranks_sleep_ms(1);
    atomic_store(&hold, FREE);
}

/* Begins to hold it, by a message to the rank itself; *to_self: to be waited for when it has been
 * let go. */
static int hold_progress(struct braid_comm *comm, struct braid_op **to_self)
{
    const struct braid_options options = {.done = hold_it};
    static char byte;
    int self = braid_rank(comm);

    RETURNS(0, braid_recv(comm, &byte, 1, self, &options, NULL));
    RETURNS(0, braid_send(comm, &byte, 1, self, NULL, to_self));
    while (atomic_load(&hold) != HELD)
        ranks_sleep_ms(1);
    return 0;
}

static int let_go_of_progress(struct braid_op *to_self)
{
    atomic_store(&hold, LET_GO);
    while (atomic_load(&hold) != FREE)
        ranks_sleep_ms(1);
    return braid_wait(to_self, -1);
}

/* Takes the messages of a rank that has sent so many that the one which is awaited lacks a credit.
 * Returns how long that one took, ms, or a negative number. */
static double receive_crowd(struct braid_comm *comm, int round)
{
    const struct braid_options of_crowd = {.tag = 1}, last = {.tag = 2};
    struct braid_op *op, *to_self;
    double began, took;
    char byte;
    int rc;

    ranks_sleep_ms(30); /* until all credits have been given back, most likely */
    rc = hold_progress(comm, &to_self);
    rc = rc ? rc : braid_recv(comm, &byte, 1, 0, &last, &op);
    ranks_tell(0);
    ranks_await(1, round + 1);
    began = ranks_now_ms();
    rc = rc ? rc : braid_wait(op, -1);
    took = ranks_now_ms() - began;
    for (int i = 0; !rc && i < CROWD; i++)
        rc = braid_recv(comm, &byte, 1, 0, &of_crowd, NULL);
    rc = rc ? rc : let_go_of_progress(to_self);
    return rc ? -1 : took;
}

/* Who falls asleep with a receive that has to ask for its message asks before that. */
static int asks_for_it(struct braid_comm *comm, void *context)
{
    const struct braid_options of_crowd = {.tag = 1}, last = {.tag = 2};
    struct braid_op *ops[CROWD + 1];
    double least = RANKS_PATIENCE;
    char byte = 0;

    (void)context;
    if (open_tags(comm))
        return 1;
    for (int round = 0; round < ROUNDS; round++) {
        if (braid_rank(comm)) {
            double took = receive_crowd(comm, round);

            CHECK(took >= 0, "round %d", round);
            least = took < least ? took : least;
            continue;
        }
        ranks_await(0, round + 1);
        for (int i = 0; i <= CROWD; i++)
            RETURNS(0, braid_send(comm, &byte, 1, 1, i < CROWD ? &of_crowd : &last, &ops[i]));
        ranks_tell(1);
        RETURNS(0, braid_wait_all(ops, CROWD + 1, -1));
    }
    CHECK(!braid_rank(comm) || least < 200, "at least %.1f ms: it sleeps first", least);
    return 0;
}

static void posted__asks_before_it_sleeps(void **state)
{
    (void)state;
    setenv("BRAID_SPIN_US", "0", 1);
    on_one_host(asks_for_it, NULL, RANKS_PATIENCE);
    unsetenv("BRAID_SPIN_US");
}

/* How many receives wait without an operation. */
static int n_posted(struct br_context *context)
{
    int n = 0;

    br_progress_lock(context);
    br_list_for_each (node, &context->posted.waiting)
        n++;
    br_progress_unlock(context);
    return n;
}

enum { WAYS = 3 };

/* Each way in which one becomes an operation, while nobody else makes passes. */
static int go_on(struct braid_comm *comm, int *values)
{
    static const struct braid_comm other;
    struct br_context *context = comm->context;
    struct braid_op *ops[WAYS], *to_self;
    int done, before;

    if (hold_progress(comm, &to_self))
        return 1;
    before = atomic_load(&comm->outstanding);
    for (int i = 0; i < WAYS; i++) {
        RETURNS(0, braid_recv(comm, &values[i], sizeof *values, 0, NULL, &ops[i]));
        CHECK(n_posted(context) == 1, "way %d: it is not posted", i);
        CHECK(atomic_load(&comm->outstanding) == before + i, "way %d: it is an operation", i);
        if (i == 0) { /* it waits for long: a pass finds it, and a later one finds it still there */
            RETURNS(0, braid_test(ops[i], &done));
            CHECK(n_posted(context) == 1, "in the first pass");
            ranks_sleep_ms(2);
            RETURNS(0, braid_test(ops[i], &done));
        } else if (i == 1) { /* a thread falls asleep */
            br_progress_lock(context);
            br_progress_sleep(context, br_clock_now());
            br_progress_unlock(context);
        } else { /* somebody needs to see what is under way */
            CHECK(!br_posted_settle(context, &other), "it is of another communicator");
            CHECK(n_posted(context) == 1, "for another communicator");
            CHECK(br_posted_settle(context, comm), "none has waited");
        }
        CHECK(!n_posted(context), "way %d: it has not gone on", i);
        CHECK(atomic_load(&comm->outstanding) == before + i + 1, "way %d: it is no operation", i);
    }
    if (let_go_of_progress(to_self))
        return 1;
    ranks_tell(0);
    return braid_wait_all(ops, WAYS, -1);
}

static int ways(struct braid_comm *comm, void *context)
{
    int values[WAYS] = {0};

    (void)context;
    if (open_tags(comm))
        return 1;
    if (braid_rank(comm))
        RETURNS(0, go_on(comm, values));
    else
        ranks_await(0, 1);
    for (int i = 0; i < WAYS; i++) {
        if (braid_rank(comm)) {
            CHECK(values[i] == i + 1, "message %d: %d", i, values[i]);
        } else {
            values[i] = i + 1;
            RETURNS(0, braid_send(comm, &values[i], sizeof *values, 1, NULL, NULL));
        }
    }
    return 0;
}

static void posted__goes_on(void **state)
{
    (void)state;
    on_one_host(ways, NULL, RANKS_PATIENCE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted__many),
        cmocka_unit_test(posted__by_threads),
        cmocka_unit_test(posted__given_up),
        cmocka_unit_test(posted__failing),
        cmocka_unit_test(posted__goes_on),
        cmocka_unit_test(posted__by_done),
        cmocka_unit_test(posted__asks_before_it_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
