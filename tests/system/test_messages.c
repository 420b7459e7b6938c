/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and one-sided access between real processes. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/system/ranks.h"

#define LARGEST (40u << 20)

static void fill(uint8_t *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)((i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull) >> 56);
}

static bool is_filled(const uint8_t *memory, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] !=
            (uint8_t)((i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull) >> 56))
            return false;
    return true;
}

/* Both directions at once, from and to every kind of memory and alignment. */
static int all_sizes(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {0,       1,       23,       24,     25,     1000,
                                   16383,   16384,   16385,    65537,  262143, 262145,
                                   1000003, 4194305, 16777217, LARGEST};
    uint8_t *plain = malloc(LARGEST + 100), *allocated = braid_alloc(comm, LARGEST + 100);
    int rank = braid_rank(comm);

    (void)context;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *out = (i % 2 ? plain : allocated) + i, *in = (i % 2 ? allocated : plain) + i;
        struct braid_op *op;

        fill(out, sizes[i], i + (uint64_t)rank);
        in[sizes[i]] = 0xa5;
        RETURNS(0, braid_send(comm, out, sizes[i], 1 - rank, NULL, &op));
        RETURNS(0, braid_recv(comm, in, sizes[i], 1 - rank, NULL, NULL));
        RETURNS(0, braid_wait(op, -1));
        CHECK(is_filled(in, sizes[i], i + 1 - (uint64_t)rank), "%zu bytes", sizes[i]);
        CHECK(in[sizes[i]] == 0xa5, "%zu bytes and one more", sizes[i]);
    }
    free(plain);
    return 0;
}

static void messages__all_sizes(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, all_sizes);
}

/* Within a tag in order; between tags in the order of the receives. More are under way than may
 * wait unmatched. */
static int tags_and_order(struct braid_comm *comm, void *context)
{
    enum { TAGS = 3, EACH = 50 };
    static int32_t values[TAGS][EACH];
    static struct braid_op *ops[TAGS][EACH];
    int rank = braid_rank(comm);

    (void)context;
    for (int i = 0; i < EACH; i++)
        for (uint32_t tag = 0; tag < TAGS; tag++) {
            struct braid_options options = {.tag = tag * 1000000007u, .priority = (int32_t)tag - 1};

            values[tag][i] = rank ? -1 : i * 10 + (int32_t)tag;
            if (!rank)
                RETURNS(0, braid_send(comm, &values[tag][i], 4, 1, &options, &ops[tag][i]));
        }
    for (uint32_t tag = TAGS; rank && tag-- > 0;)
        for (int i = 0; i < EACH; i++) {
            struct braid_options options = {.tag = tag * 1000000007u};

            RETURNS(0, braid_recv(comm, &values[tag][i], 4, 0, &options, &ops[tag][i]));
        }
    for (int i = EACH; i-- > 0;)
        for (int tag = 0; tag < TAGS; tag++) {
            RETURNS(0, braid_wait(ops[tag][i], -1));
            CHECK(values[tag][i] == i * 10 + tag, "message %d of tag %d is %d", i, tag,
                  (int)values[tag][i]);
        }
    return 0;
}

static void messages__tags_and_order(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, tags_and_order);
}

enum { SMALL = 1000, SHARES = 2 };

/* A thread's share of the messages of one tag, in the order in which it has received them. */
struct share {
    struct braid_comm *comm;
    int32_t values[SMALL];
    char words[1000]; /* what went wrong */
};

static void *receive_share(void *argument)
{
    static const struct braid_options options = {.tag = 9};
    struct share *share = argument;

    for (int i = 0; i < SMALL; i++)
        if (braid_recv(share->comm, &share->values[i], sizeof *share->values, 0, &options, NULL))
            return strncpy(share->words, braid_last_error(), sizeof share->words - 1);
    return NULL;
}

/* Threads that receive with one tag: each message is one thread's, and later ones are later. */
static int receive_shares(struct braid_comm *comm)
{
    static struct share shares[SHARES];
    static int seen[SHARES * SMALL];
    pthread_t threads[SHARES];
    void *wrong;

    for (int s = 0; s < SHARES; s++) {
        shares[s].comm = comm;
        RETURNS(0, pthread_create(&threads[s], NULL, receive_share, &shares[s]));
    }
    for (int s = 0; s < SHARES; s++) {
        RETURNS(0, pthread_join(threads[s], &wrong));
        CHECK(!wrong, "%s", (const char *)wrong);
        for (int i = 0; i < SMALL; i++) {
            CHECK(!i || shares[s].values[i] > shares[s].values[i - 1], "message %d", i);
            CHECK(!seen[shares[s].values[i]]++, "message %d came twice", (int)shares[s].values[i]);
        }
    }
    return 0;
}

/* Messages that end within their calls, among others that do not, of the same tags. */
static int small_ones(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {8, 0, 24, 25, 2000, 100000, 8, 1};
    static uint8_t out[100000], in[100000];
    int rank = braid_rank(comm);

    (void)context;
    for (size_t i = 0; i < SMALL; i++) {
        size_t bytes = sizes[i % (sizeof sizes / sizeof *sizes)];
        struct braid_options options = {.tag = (uint32_t)i % 3};

        fill(out, bytes, 2 * i + (uint64_t)rank);
        if (rank)
            RETURNS(0, braid_recv(comm, in, bytes, 0, &options, NULL));
        RETURNS(0, braid_send(comm, out, bytes, 1 - rank, &options, NULL));
        if (!rank)
            RETURNS(0, braid_recv(comm, in, bytes, 1, &options, NULL));
        CHECK(is_filled(in, bytes, 2 * i + 1 - (uint64_t)rank), "message %zu", i);
    }
    for (int32_t i = 0; !rank && i < SHARES * SMALL; i++)
        RETURNS(0, braid_send(comm, &i, sizeof i, 1, &(struct braid_options){.tag = 9}, NULL));
    return rank ? receive_shares(comm) : 0;
}

static void messages__small_ones_of_a_host(void **state)
{
    (void)state;
    ranks_run(&(struct ranks){.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE},
              small_ones, NULL);
}

/* 60 answers wait at rank 0, which sends on and waits for that before it receives them: what waits
 * must not take from it what it sends with. */
static int answers_wait_once(struct braid_comm *comm)
{
    enum { ANSWERS = 60, MORE = 20, BYTES = 200 };
    static uint8_t out[ANSWERS + MORE][BYTES], in[BYTES];
    struct braid_options question = {.tag = 1}, answer = {.tag = 2}, more = {.tag = 3},
                         last = {.tag = 4};
    struct braid_op *ops[MORE];
    int rank = braid_rank(comm);

    for (uint64_t i = 0; i < ANSWERS; i++) {
        fill(out[i], BYTES, i + 1000 * (uint64_t)rank);
        if (rank)
            RETURNS(0, braid_recv(comm, in, BYTES, 0, &question, NULL));
        RETURNS(0, braid_send(comm, out[i], BYTES, 1 - rank, rank ? &answer : &question, NULL));
        CHECK(!rank || is_filled(in, BYTES, i), "question %d", (int)i);
    }
    for (uint64_t i = 0; !rank && i < MORE; i++) {
        fill(out[ANSWERS + i], BYTES, ANSWERS + i);
        RETURNS(0, braid_send(comm, out[ANSWERS + i], BYTES, 1, i == MORE - 1 ? &last : &more,
                              &ops[i]));
    }
    for (uint64_t i = 0; !rank && i < MORE; i++)
        RETURNS(0, braid_wait(ops[i], -1));
    for (uint64_t i = 0; !rank && i < ANSWERS; i++) {
        RETURNS(0, braid_recv(comm, in, BYTES, 1, &answer, NULL));
        CHECK(is_filled(in, BYTES, i + 1000), "answer %d", (int)i);
    }
    for (uint64_t i = 0; rank && i < MORE; i++) { /* the last one first */
        uint64_t which = ANSWERS + (i ? i - 1 : MORE - 1);

        RETURNS(0, braid_recv(comm, in, BYTES, 0, i ? &more : &last, NULL));
        CHECK(is_filled(in, BYTES, which), "message %d", (int)which);
    }
    return 0;
}

/* It depends on who is faster. */
static int answers_wait(struct braid_comm *comm, void *context)
{
    (void)context;
    for (int i = 0; i < 10; i++)
        RETURNS(0, answers_wait_once(comm));
    return 0;
}

static void messages__answers_wait(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, answers_wait);
}

static int other_size(struct braid_comm *comm, void *context)
{
    static uint8_t data[100000];
    const size_t *sizes = context;
    int rank = braid_rank(comm), rc;
    double start = ranks_now_ms();

    rc = rank ? braid_recv(comm, data, sizes[1], 0, NULL, NULL)
              : braid_send(comm, data, sizes[0], 1, NULL, NULL);
    if (!rc) /* a short send may be over before anybody notices */
        rc = braid_barrier(comm, NULL, NULL);
    CHECK(rc == -EPROTO || rc == -ECANCELED, "got %d", rc);
    CHECK(strstr(braid_last_error(), "disagree"), "the words do not say so");
    CHECK(ranks_now_ms() - start < RANKS_SOON, "noticed late");
    return 0;
}

static void messages__other_size(void **state)
{
    size_t sizes[][2] = {{8, 9}, {9, 8}, {100000, 99999}, {8, 100000}, {100000, 8}};

    (void)state;
    for (int k = 0; k < RANKS_KINDS; k += 2)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct ranks job = ranks_kinds[k];

            job.size = 2;
            job.timeout_ms = RANKS_PATIENCE;
            ranks_run(&job, other_size, sizes[i]);
        }
}

/* ---- put and get ----------------------------------------------------------------------------- */

static int share_key(struct braid_comm *comm, struct braid_key *key)
{
    struct braid_key keys[RANKS_MOST];

    RETURNS(0, braid_allgather(comm, key, keys, sizeof *key, BRAID_UINT8, NULL, NULL));
    *key = keys[(braid_rank(comm) + 1) % braid_size(comm)];
    return 0;
}

/* Each rank writes into its neighbour's memory, reads it back, and finds its own part untouched. */
static int put_and_get(struct braid_comm *comm, void *context)
{
    static const size_t sizes[] = {1, 7, 24, 4097, 65537, 1000003, 20000001};
    size_t bytes = 21000000;
    uint8_t *window = braid_alloc(comm, bytes), *mine = malloc(bytes), *back = malloc(bytes);
    struct braid_key key;

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    if (share_key(comm, &key))
        return 1;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(mine, sizes[i], i + (uint64_t)braid_rank(comm) * 100);
        memset(back, 0, sizes[i]);
        RETURNS(0, braid_put(comm, mine, sizes[i], &key, 1001, NULL, NULL));
        RETURNS(0, braid_get(comm, back, sizes[i], &key, 1001, NULL, NULL));
        CHECK(is_filled(back, sizes[i], i + (uint64_t)braid_rank(comm) * 100), "%zu bytes",
              sizes[i]);
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(!window[1000] && !window[1001 + 20000001], "written around");
    free(mine);
    free(back);
    return 0;
}

static void onesided__put_and_get(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, put_and_get);
}

/* All ranks count on one number of rank 0, which counts there itself by instructions of its CPU;
 * and take turns at a lock. */
static int atomics(struct braid_comm *comm, void *context)
{
    enum { TIMES = 60 };
    uint64_t *there = braid_alloc(comm, 4096), before, wanted;
    int size = braid_size(comm), rank = braid_rank(comm);
    uint64_t all = TIMES * (uint64_t)(size + 1);
    struct braid_key keys[RANKS_MOST], key;

    (void)context;
    RETURNS(0, braid_key(comm, there, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int i = 0; i < TIMES; i++) {
        if (!rank)
            __atomic_fetch_add(&there[1], 1, __ATOMIC_RELAXED);
        RETURNS(0, braid_fetch_add(comm, &before, 1, &keys[0], 8, NULL, NULL));
        CHECK(before < all, "%llu", (unsigned long long)before);
        do { /* rank r takes the lock from rank r - 1 */
            wanted = (uint64_t)i * (uint64_t)size + (uint64_t)rank;
            RETURNS(0, braid_compare_swap(comm, &before, wanted, wanted + 1, &keys[size - 1], 16,
                                          NULL, NULL));
        } while (before != wanted && i < 5);
    }
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(rank || there[1] == all, "%llu of %llu", (unsigned long long)there[1],
          (unsigned long long)all);
    SAYS(-EINVAL, "not on a multiple of 8",
         braid_fetch_add(comm, &before, 1, &keys[0], 12, NULL, NULL));
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__atomics(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, atomics);
}

/* Everybody puts to everybody, and waits for what the notifications say and for a number that
 * counts; a flush ends what nobody waits for. */
static int notified(struct braid_comm *comm, void *context)
{
    enum { PUTS = 12, BYTES = 40000 };
    static const size_t sizes[] = {0, 8, 3000, BYTES};
    static uint8_t data[PUTS][BYTES];
    int size = braid_size(comm), rank = braid_rank(comm);
    size_t part = (size_t)PUTS * BYTES;
    uint8_t *window = braid_alloc(comm, (size_t)size * part + 8);
    uint64_t *number = (uint64_t *)(void *)(window + (size_t)size * part);
    bool seen[RANKS_MOST][PUTS] = {{false}};
    struct braid_key keys[RANKS_MOST], key;
    struct braid_notification n = {0};
    int found;

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int i = 0; i < PUTS; i++) {
        memset(data[i], rank * 20 + i + 1, BYTES);
        for (int r = 0; r < size; r++) {
            uint64_t at = (uint64_t)rank * part + (uint64_t)i * BYTES;
            struct braid_op *op;

            RETURNS(0, braid_put_notify(comm, data[i], sizes[i % 4], &keys[r], at, (uint64_t)i,
                                        NULL, &op));
            RETURNS(0, braid_op_free(op));
        }
    }
    for (int i = 0; i < PUTS * size; i++) {
        RETURNS(0, braid_notification(comm, -1, &found, &n));
        CHECK(found == 1 && n.value < PUTS && n.peer >= 0 && n.peer < size &&
                  !seen[n.peer][n.value],
              "%llu of rank %d", (unsigned long long)n.value, n.peer);
        seen[n.peer][n.value] = true;
        for (size_t k = 0; k < sizes[n.value % 4]; k++)
            CHECK(window[(size_t)n.peer * part + n.value * BYTES + k] ==
                      (uint8_t)((uint64_t)n.peer * 20 + n.value + 1),
                  "byte %zu of put %llu of rank %d", k, (unsigned long long)n.value, n.peer);
    }
    RETURNS(0, braid_flush(comm, BRAID_ANY_SOURCE, NULL, NULL));
    RETURNS(0, braid_notification(comm, 0, &found, &n));
    CHECK(!found, "one more than was put");
    for (int r = 0; r < size; r++)
        RETURNS(0, braid_put_signal(comm, data[1], 8, &keys[r], (uint64_t)rank * part, &keys[r],
                                    (uint64_t)size * part, BRAID_SIGNAL_ADD, 3, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(__atomic_load_n(number, __ATOMIC_ACQUIRE) == 3 * (uint64_t)size, "%llu",
          (unsigned long long)*number);
    SAYS(
        -EINVAL, "rank 0|rank 1",
        braid_put_signal(comm, data, 8, &keys[0], 0, &keys[1], 0, BRAID_SIGNAL_ADD, 3, NULL, NULL));
    RETURNS(-EINVAL, braid_flush(comm, size, NULL, NULL));
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__notified(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 3, notified);
}

static int refused(struct braid_comm *comm, void *context)
{
    uint8_t *window = braid_alloc(comm, 1000);
    static uint8_t data[2000];
    struct braid_key key, bad;

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    if (share_key(comm, &key))
        return 1;
    bad = key;
    bad.check ^= 1;
    SAYS(-EACCES, "another job", braid_put(comm, data, 10, &bad, 0, NULL, NULL));
    bad = key;
    bad.bytes = 2000;
    SAYS(-EACCES, "too short", braid_get(comm, data, 2000, &bad, 0, NULL, NULL));
    SAYS(-EACCES, "1000 bytes", braid_get(comm, data, 2000, &key, 0, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    RETURNS(0, braid_free(comm, window));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    SAYS(-EACCES, "stale", braid_get(comm, data, 10, &key, 0, NULL, NULL));
    return braid_barrier(comm, NULL, NULL); /* nobody has failed by that */
}

static void onesided__refused(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, refused);
}

/* Rank 1 computes without calling braid: its own thread serves it after it was idle, busy, or in a
 * call. Else a put would never end, since rank 1 calls again when it has. */
static int served_meanwhile(struct braid_comm *comm, void *context)
{
    uint8_t *window = braid_alloc(comm, 1000);
    struct braid_key key;
    uint8_t value = 1;

    (void)context;
    RETURNS(0, braid_key(comm, window, &key));
    if (share_key(comm, &key))
        return 1;
    for (int i = 0; i < 3; i++) {
        ranks_sleep_ms(40); /* the own threads fall asleep */
        RETURNS(0, braid_allreduce(comm, &value, &value, 1, BRAID_UINT8, BRAID_MAX, NULL, NULL));
        if (braid_rank(comm)) {
            ranks_await(0, i + 1);
        } else {
            RETURNS(0, braid_put(comm, &value, 1, &key, 0, NULL, NULL));
            ranks_tell(0);
        }
    }
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__served_meanwhile(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_KINDS, 2, served_meanwhile);
}

/* All ranks have as many puts to rank 0 under way as a process may have, nearly. */
static int from_many(struct braid_comm *comm, void *context)
{
    enum { PUTS = 1000, BYTES = 40 << 10 }; /* they ask for a place */
    uint8_t *window = braid_alloc(comm, BYTES), *mine = braid_alloc(comm, BYTES);
    static struct braid_op *ops[PUTS];
    struct braid_key key;

    (void)context;
    memset(mine, 1, BYTES);
    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 0, NULL, NULL));
    for (int i = 0; i < PUTS && braid_rank(comm); i++)
        RETURNS(0, braid_put(comm, mine, BYTES, &key, 0, NULL, &ops[i]));
    for (int i = 0; i < PUTS && braid_rank(comm); i++)
        RETURNS(0, braid_wait(ops[i], -1));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(braid_rank(comm) || window[BYTES - 1] == 1, "nothing came");
    return 0;
}

static void onesided__from_many(void **state)
{
    (void)state;
    ranks_run(
        &(struct ranks){
            .size = 5, .backend = "tcp", .devices = "127.0.0.1", .timeout_ms = RANKS_PATIENCE},
        from_many, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages__all_sizes),
        cmocka_unit_test(messages__tags_and_order),
        cmocka_unit_test(messages__answers_wait),
        cmocka_unit_test(messages__other_size),
        cmocka_unit_test(messages__small_ones_of_a_host),
        cmocka_unit_test(onesided__put_and_get),
        cmocka_unit_test(onesided__atomics),
        cmocka_unit_test(onesided__notified),
        cmocka_unit_test(onesided__refused),
        cmocka_unit_test(onesided__served_meanwhile),
        cmocka_unit_test(onesided__from_many),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
