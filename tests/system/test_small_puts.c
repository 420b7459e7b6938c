/* SPDX-License-Identifier: BSD-3-Clause */
/* Small puts with a handle that share requests and need no operation (comm/posted.c). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

/* MANY: more than there can be without an operation; PLACE: bytes of one of them at the target. */
enum { MANY = 300, PLACE = 4096, THREADS = 3, EACH = 100, WINDOW = 16, BURST = 64 };

/* Rank 1 has memory of so many bytes, and rank 0 its key. */
static int expose(struct braid_comm *comm, size_t bytes, uint8_t **memory, struct braid_key *key)
{
    *memory = NULL;
    if (!braid_rank(comm))
        return braid_recv(comm, key, sizeof *key, 1, NULL, NULL);
    *memory = braid_alloc(comm, bytes);
    CHECK(*memory, "no memory");
    memset(*memory, 0, bytes);
    RETURNS(0, braid_key(comm, *memory, key));
    return braid_send(comm, key, sizeof *key, 0, NULL, NULL);
}

/* Of several sizes and priorities, some of them large, some given up; what has ended, or was
 * flushed, stands. */
static int many(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {8, 1, 64, 1024, 1025, 500, PLACE, 8, 8, 8, 8, 1024, 1024};
    static uint8_t from[MANY][PLACE];
    struct braid_op *ops[MANY];
    struct braid_key key;
    uint8_t *memory;

    (void)context;
    if (expose(comm, (size_t)MANY * PLACE, &memory, &key))
        return 1;
    for (int way = 0; way < 6; way++) {
        for (int i = 0; !braid_rank(comm) && i < MANY; i++) {
            const struct braid_options options = {.priority = i / 10 % 3};

            memset(from[i], i + way, sizeof from[i]);
            RETURNS(0, braid_put(comm, from[i], sizes[(size_t)i % (sizeof sizes / sizeof *sizes)],
                                 &key, (uint64_t)i * PLACE, i % 3 ? NULL : &options, &ops[i]));
            if (i % 100 == 50)
                RETURNS(0, braid_flush(comm, 1, NULL, NULL));
            if (way == 4)
                RETURNS(0, braid_op_free(ops[i]));
        }
        if (!braid_rank(comm) && way < 4 && ranks_take_all(ops, MANY, way))
            return 1;
        if (!braid_rank(comm) && way > 3)
            RETURNS(0, braid_flush(comm, BRAID_ANY_SOURCE, NULL, NULL));
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        for (int i = 0; braid_rank(comm) && i < MANY; i++)
            for (size_t k = 0; k <= sizes[(size_t)i % (sizeof sizes / sizeof *sizes)]; k++)
                CHECK(k == PLACE || memory[(size_t)i * PLACE + k] ==
                                        (k < sizes[(size_t)i % (sizeof sizes / sizeof *sizes)]
                                             ? (uint8_t)(i + way)
                                             : 0),
                      "way %d, byte %zu of put %d", way, k, i);
        RETURNS(0, braid_barrier(comm, NULL, NULL));
    }
    return 0; /* nobody waits for those of the last way */
}

static void put__many(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, many);
}

/* One of a burst, in words of its own; the others are carried out. */
static int refused(struct braid_comm *comm, void *context)
{
    static uint64_t values[BURST];
    struct braid_op *ops[BURST];
    struct braid_key key, stale;
    uint8_t *memory, *gone;
    int done;

    (void)context;
    if (expose(comm, BURST * 8, &memory, &key) || expose(comm, 800, &gone, &stale))
        return 1;
    if (braid_rank(comm))
        RETURNS(0, braid_free(comm, gone));
    for (int round = 0; round < 3; round++) {
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        for (int i = 0; !braid_rank(comm) && i < BURST; i++) {
            values[i] = (uint64_t)(i + round);
            RETURNS(0, i % 30 == 7
                           ? braid_put(comm, &values[i], 8, &stale, 640, NULL, &ops[i])
                           : braid_put(comm, &values[i], 8, &key, 8 * (uint64_t)i, NULL, &ops[i]));
        }
        for (int i = 0; !braid_rank(comm) && i < BURST; i++)
            if (i % 30 != 7) {
                RETURNS(0, braid_wait(ops[i], -1));
            } else if (round) {
                SAYS(-EACCES, "rank 1|region|8 bytes at offset 640", braid_wait(ops[i], -1));
            } else {
                int rc;

                while (!(rc = braid_test(ops[i], &done)) && !done)
                    ;
                CHECK(rc == -EACCES, "got %d", rc);
            }
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        for (int i = 0; braid_rank(comm) && i < BURST; i++)
            CHECK(i % 30 == 7 || memory[8 * i] == i + round, "put %d", i);
    }
    return 0;
}

static void put__refused(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, refused);
}

struct thread {
    struct braid_comm *comm;
    struct braid_key key;
    uint64_t place;
    const char *words; /* NULL: all is well */
};

static void *windows(void *argument)
{
    struct thread *thread = argument;
    uint64_t values[WINDOW];
    struct braid_op *ops[WINDOW];

    for (int i = 0; i < EACH && !thread->words; i++) {
        for (int k = 0; k < WINDOW; k++) {
            values[k] = (uint64_t)(i * WINDOW + k);
            if (braid_put(thread->comm, &values[k], sizeof *values, &thread->key,
                          8 * (thread->place * WINDOW + (uint64_t)k), NULL, &ops[k]))
                thread->words = "a put fails";
        }
        for (int k = 0; k < WINDOW && !thread->words; k++)
            if (braid_wait(ops[k], -1))
                thread->words = "a wait fails";
    }
    return NULL;
}

static int by_threads(struct braid_comm *comm, void *context)
{
    struct thread threads[THREADS];
    pthread_t ids[THREADS];
    struct braid_key key;
    uint8_t *memory;
    uint64_t value;

    (void)context;
    if (expose(comm, THREADS * WINDOW * 8, &memory, &key))
        return 1;
    for (int t = 0; !braid_rank(comm) && t < THREADS; t++) {
        threads[t] = (struct thread){.comm = comm, .key = key, .place = (uint64_t)t};
        CHECK(!pthread_create(&ids[t], NULL, windows, &threads[t]), "no thread");
    }
    for (int t = 0; !braid_rank(comm) && t < THREADS; t++)
        pthread_join(ids[t], NULL);
    for (int t = 0; !braid_rank(comm) && t < THREADS; t++)
        CHECK(!threads[t].words, "thread %d: %s", t, threads[t].words);
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (int k = 0; braid_rank(comm) && k < THREADS * WINDOW; k++) {
        memcpy(&value, memory + 8 * k, sizeof value);
        CHECK(value == (uint64_t)((EACH - 1) * WINDOW + k % WINDOW), "number %d", k);
    }
    return 0;
}

static void put__by_threads(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, by_threads);
}

/* The other rank gives the job up while they are under way: each ends, and those that fail say
 * why. Later ones may have ended well: within a host the first are requests, and the others end in
 * their calls. */
static int given_up(struct braid_comm *comm, void *context)
{
    struct braid_op *ops[BURST];
    struct braid_key key;
    uint8_t *memory;
    int rc = 0;

    (void)context;
    if (expose(comm, BURST * 8, &memory, &key))
        return 1;
    if (braid_rank(comm)) {
        ranks_await(0, 1);
        RETURNS(0, braid_comm_abort(comm, "enough of it"));
        return 0;
    }
    for (int round = 0; !rc; round++) {
        int n = 0;

        while (n < BURST &&
               !(rc = braid_put(comm, &round, sizeof round, &key, 8 * (uint64_t)n, NULL, &ops[n])))
            n++;
        if (round == 3)
            ranks_tell(0);
        for (int i = 0; i < n; i++) {
            int now = braid_wait(ops[i], -1);

            CHECK(!now || strstr(braid_last_error(), "enough of it"), "put %d: %d", i, now);
            rc = now ? now : rc;
        }
    }
    return 0;
}

static void put__given_up(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, given_up);
}

/* Looks at memory into which braid's own thread puts, as programs do that wait for a value: C has
 * no word for the bytes that come from outside, so the thread sanitizer must not look here. */
__attribute__((no_sanitize("thread"))) static bool stands(const volatile uint64_t *memory,
                                                          uint64_t value)
{
    return *memory == value;
}

/* The answer to a put comes while the caller looks for a message, which the other rank sends when
 * the put stands. Then something needs to see all that is under way. */
static int answer_beside_a_message(struct braid_comm *comm, void *context)
{
    enum { ROUNDS = 400 };
    uint32_t word = 7;
    struct braid_key key;
    uint8_t *memory;

    (void)context;
    if (expose(comm, 8, &memory, &key))
        return 1;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct braid_received received = {0};
        struct braid_op *op;
        int found;

        if (braid_rank(comm)) {
            while (!stands((const volatile uint64_t *)(const void *)memory, i))
                RETURNS(0, braid_probe(comm, 0, NULL, 0, &found, &received));
            RETURNS(0, braid_send(comm, &word, sizeof word, 0, NULL, NULL));
            RETURNS(0, braid_recv(comm, &word, sizeof word, 0, NULL, NULL));
            continue;
        }
        RETURNS(0, braid_put(comm, &i, sizeof i, &key, 0, NULL, &op));
        RETURNS(0, braid_recv(comm, &word, sizeof word, 1, NULL, NULL));
        if (i % 3 == 0)
            RETURNS(0, braid_op_free(op));
        if (i % 3 == 1)
            RETURNS(0, braid_free(comm, braid_alloc(comm, 64)));
        RETURNS(0, braid_flush(comm, 1, NULL, NULL));
        if (i % 3)
            RETURNS(0, braid_wait(op, -1));
        RETURNS(0, braid_send(comm, &word, sizeof word, 1, NULL, NULL));
    }
    return 0;
}

static void put__answer_beside_a_message(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, answer_beside_a_message);
}

/* By turns to two ranks: each gets its own. */
static int by_turns(struct braid_comm *comm, void *context)
{
    static uint64_t values[2][BURST];
    struct braid_op *ops[2 * BURST];
    struct braid_key keys[2];
    uint64_t *memory = NULL;
    int rank = braid_rank(comm);

    (void)context;
    if (rank) {
        memory = braid_alloc(comm, BURST * sizeof *memory);
        CHECK(memory, "no memory");
        memset(memory, 0, BURST * sizeof *memory);
        RETURNS(0, braid_key(comm, memory, &keys[0]));
        RETURNS(0, braid_send(comm, &keys[0], sizeof keys[0], 0, NULL, NULL));
    }
    for (int r = 0; !rank && r < 2; r++)
        RETURNS(0, braid_recv(comm, &keys[r], sizeof keys[r], r + 1, NULL, NULL));
    for (uint64_t i = 0; !rank && i < BURST; i++)
        for (uint64_t r = 0; r < 2; r++) {
            values[r][i] = 1000 * (r + 1) + i;
            RETURNS(0, braid_put(comm, &values[r][i], sizeof values[r][i], &keys[r],
                                 i * sizeof values[r][i], NULL, &ops[2 * i + r]));
        }
    if (!rank)
        RETURNS(0, braid_wait_all(ops, 2 * BURST, -1));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    for (uint64_t i = 0; rank && i < BURST; i++)
        CHECK(memory[i] == 1000 * (uint64_t)rank + i, "put %d", (int)i);
    return 0;
}

static void put__by_turns(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, by_turns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(put__many),
        cmocka_unit_test(put__refused),
        cmocka_unit_test(put__by_threads),
        cmocka_unit_test(put__given_up),
        cmocka_unit_test(put__answer_beside_a_message),
        cmocka_unit_test(put__by_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
