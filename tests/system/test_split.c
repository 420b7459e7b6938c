/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators split from others, between real processes: who is in them, in which order; every
 * collective on several at once; messages, keys and handles that do not mix; their end, and numbers
 * that are used again. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/says.h"
#include "tests/system/ranks.h"

#define I32 BRAID_INT32
#define SUM BRAID_SUM

/* More ranks are more processes and not more threads: for ThreadSanitizer one number in the middle
 * is enough. */
static void everywhere(int least, int most, int step, ranks_main *body)
{
#ifdef __SANITIZE_THREAD__
    least += (most - least) / step / 2 * step;
    most = least;
#endif
    for (int n = least; n <= most; n += step)
        ranks_everywhere(RANKS_STREAMS, n, body);
}

/* The ranks in `all` of the members of part, in order. */
static int members(struct braid_comm *all, struct braid_comm *part, int32_t *ranks)
{
    int32_t rank = braid_rank(all);

    return braid_allgather(part, &rank, ranks, 1, I32, NULL, NULL);
}

/* ---- who is in it ---------------------------------------------------------------------------- */

static int by_color_and_key(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm),
        color = rank % 4 == 3 ? BRAID_UNDEFINED : rank % 4, n;
    struct braid_comm *part, *half, *same;
    int32_t ranks[RANKS_MOST];

    (void)context;
    RETURNS(0, braid_comm_split(comm, color, -rank, &part));
    CHECK((part == NULL) == (color == BRAID_UNDEFINED), "color %d", color);
    if (!part)
        return 0;
    n = (size - rank % 4 + 3) / 4;
    CHECK(braid_size(part) == n, "%d ranks", braid_size(part));
    CHECK(braid_rank(part) == n - 1 - rank / 4, "rank %d", braid_rank(part));
    RETURNS(0, members(comm, part, ranks));
    for (int i = 0; i < n; i++)
        CHECK(ranks[i] == rank % 4 + 4 * (n - 1 - i), "rank %d is %d", i, (int)ranks[i]);
    /* parts of a part, with equal keys: in the order of the part's ranks; and a duplicate */
    RETURNS(0, braid_comm_split(part, braid_rank(part) / 2, 7, &half));
    RETURNS(0, braid_comm_split(half, 0, 0, &same));
    CHECK(braid_rank(half) == braid_rank(part) % 2 && braid_rank(same) == braid_rank(half),
          "rank %d of %d", braid_rank(half), braid_size(half));
    RETURNS(0, members(part, same, ranks));
    for (int i = 0; i < braid_size(same); i++)
        CHECK(ranks[i] == braid_rank(part) / 2 * 2 + i, "rank %d is %d", i, (int)ranks[i]);
    return 0;
}

static void split__by_color_and_key(void **state)
{
    (void)state;
    everywhere(1, 9, 1, by_color_and_key);
}

/* ---- every collective, on several at once ---------------------------------------------------- */

enum { COMMS = 4, KINDS = 9, EACH = COMMS * KINDS };

static int32_t word(int comm, int kind, int rank, size_t i)
{
    return (int32_t)((uint32_t)(comm * 131 + kind * 31 + rank * 7 + 1) * 2654435761u +
                     (uint32_t)i * 40503u);
}

struct one {
    struct braid_comm *comm;
    int number, kind, root;
    size_t count;
    int32_t *send, *recv;
    struct braid_op *op;
};

static int begin(struct one *o)
{
    int n = braid_size(o->comm), rank = braid_rank(o->comm);

    for (size_t i = 0; i < o->count * (size_t)n; i++) {
        o->send[i] = word(o->number, o->kind, rank, i);
        o->recv[i] = -1;
    }
    switch (o->kind) {
    case 0:
        return braid_allreduce(o->comm, o->send, o->recv, o->count, I32, SUM, NULL, &o->op);
    case 1:
        return braid_reduce_scatter(o->comm, o->send, o->recv, o->count, I32, SUM, NULL, &o->op);
    case 2:
        return braid_allgather(o->comm, o->send, o->recv, o->count, I32, NULL, &o->op);
    case 3:
        return braid_broadcast(o->comm, o->send, o->recv, o->count, I32, o->root, NULL, &o->op);
    case 4:
        return braid_reduce(o->comm, o->send, o->recv, o->count, I32, SUM, o->root, NULL, &o->op);
    case 5:
        return braid_alltoall(o->comm, o->send, o->recv, o->count, I32, NULL, &o->op);
    case 6:
        return braid_gather(o->comm, o->send, o->recv, o->count, I32, o->root, NULL, &o->op);
    case 7:
        return braid_scatter(o->comm, o->send, o->recv, o->count, I32, o->root, NULL, &o->op);
    default:
        return braid_barrier(o->comm, NULL, &o->op);
    }
}

/* What element i of the result is, on rank `rank` of the communicator. */
static int32_t wanted(const struct one *o, int rank, size_t i)
{
    int n = braid_size(o->comm), from = (int)(i / o->count);
    uint32_t sum = 0;

    switch (o->kind) {
    case 2:
    case 6:
        return word(o->number, o->kind, from, i % o->count);
    case 3:
        return word(o->number, o->kind, o->root, i);
    case 5:
        return word(o->number, o->kind, from, (size_t)rank * o->count + i % o->count);
    case 7:
        return word(o->number, o->kind, o->root, (size_t)rank * o->count + i);
    default:
        for (int r = 0; r < n; r++)
            sum += (uint32_t)word(o->number, o->kind, r,
                                  i + (o->kind == 1 ? (size_t)rank * o->count : 0));
        return (int32_t)sum;
    }
}

static int end(struct one *o)
{
    int n = braid_size(o->comm), rank = braid_rank(o->comm);
    bool blocks = o->kind == 2 || o->kind == 5 || o->kind == 6,
         rooted = o->kind == 4 || o->kind == 6;
    size_t elements =
        o->kind == 8 || (rooted && rank != o->root) ? 0 : o->count * (size_t)(blocks ? n : 1);

    RETURNS(0, braid_wait(o->op, -1));
    for (size_t i = 0; i < elements; i++)
        CHECK(o->recv[i] == wanted(o, rank, i), "kind %d, communicator %d, element %zu of %zu",
              o->kind, o->number, i, elements);
    return 0;
}

/* Of comm: halves, a duplicate in reverse order, and even ranks; all collectives of all of them
 * under way at once. */
static int all_at_once(struct braid_comm *comm, void *context)
{
    static const size_t counts[] = {1, 500, 3, 40000};
    int rank = braid_rank(comm);
    struct braid_comm *comms[COMMS] = {comm};
    static struct one ones[EACH];
    int n = 0;

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank * 2 / braid_size(comm), rank, &comms[1]));
    RETURNS(0, braid_comm_split(comm, 0, -rank, &comms[2]));
    RETURNS(0, braid_comm_split(comms[2], rank % 2 ? BRAID_UNDEFINED : 5, 0, &comms[3]));
    for (int kind = 0; kind < KINDS; kind++)
        for (int c = 0; c < COMMS; c++) {
            struct one *o = &ones[n];

            if (!comms[c])
                continue;
            *o = (struct one){
                .comm = comms[c], .number = c, .kind = kind, .count = counts[(kind + c) % 4]};
            o->root = kind % braid_size(o->comm);
            o->send = malloc(o->count * 4 * (size_t)braid_size(comm));
            o->recv = malloc(o->count * 4 * (size_t)braid_size(comm));
            RETURNS(0, begin(o));
            n++;
        }
    while (n--) {
        RETURNS(0, end(&ones[n]));
        free(ones[n].send);
        free(ones[n].recv);
    }
    return 0;
}

static void split__all_collectives_at_once(void **state)
{
    (void)state;
    everywhere(1, 9, 2, all_at_once);
    everywhere(4, 6, 2, all_at_once);
}

/* Parts whose ranks are no neighbours are relayed through others; a duplicate of the whole is a
 * BCube, too. */
static void split__in_a_bcube(void **state)
{
    const struct ranks jobs[] = {
        {.size = 4, .topology = "bcube:2,2", .timeout_ms = RANKS_PATIENCE},
        {.size = 9, .topology = "bcube:3,2", .timeout_ms = RANKS_PATIENCE}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        ranks_run(&jobs[i], by_color_and_key, NULL);
        ranks_run(&jobs[i], all_at_once, NULL);
    }
}

/* Blocking calls in any order that would end if there were only these; and the same operation again
 * and again. */
static int in_turns(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    struct braid_comm *row, *column;
    int32_t one = 1, sum, total;
    struct braid_op *ops[2];

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank / 2, rank, &row));
    RETURNS(0, braid_comm_split(comm, rank % 2, rank, &column));
    RETURNS(0, braid_allreduce_init(row, &one, &sum, 1, I32, SUM, NULL, &ops[0]));
    RETURNS(0, braid_allreduce_init(column, &sum, &total, 1, I32, SUM, NULL, &ops[1]));
    for (int i = 0; i < 200; i++) {
        one = i;
        for (int k = 0; k < 2; k++) {
            RETURNS(0, braid_start(ops[k]));
            RETURNS(0, braid_wait(ops[k], -1));
        }
        CHECK(total == size * i, "%d, not %d", (int)total, size * i);
        RETURNS(0, braid_allreduce(row, &one, &sum, 1, I32, SUM, NULL, NULL));
        RETURNS(0, braid_allreduce(column, &sum, &total, 1, I32, SUM, NULL, NULL));
        CHECK(total == size * i, "%d, not %d", (int)total, size * i);
    }
    RETURNS(0, braid_op_free(ops[0])); /* the other one goes with its communicator */
    RETURNS(0, braid_finalize(column));
    return braid_barrier(comm, NULL, NULL);
}

static void split__rows_and_columns(void **state)
{
    (void)state;
    everywhere(2, 6, 2, in_turns);
}

/* ---- what they share and what they do not ---------------------------------------------------- */

/* The same two ranks, the same tag, three communicators; received in another order than sent. */
static int messages(struct braid_comm *comm, void *context)
{
    struct braid_comm *comms[3] = {comm};
    struct braid_op *ops[3];
    int32_t values[3], own, self;
    int other;

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, 0, &comms[1]));
    /* ranks the other way round */
    RETURNS(0, braid_comm_split(comm, 0, -braid_rank(comm), &comms[2]));
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 3; i++) {
            other = 1 - braid_rank(comms[i]);
            values[i] = round * 3 + i;
            RETURNS(0, braid_send(comms[i], &values[i], 4, other, NULL, &ops[i]));
        }
        for (int i = 3; i-- > 0;) {
            RETURNS(0, braid_recv(comms[i], &own, 4, 1 - braid_rank(comms[i]), NULL, NULL));
            CHECK(own == round * 3 + i, "%d came, not %d", (int)own, round * 3 + i);
        }
        for (int i = 0; i < 3; i++)
            RETURNS(0, braid_wait(ops[i], -1));
    }
    for (int i = 0; i < 3; i++) /* to oneself */
        RETURNS(0, braid_send(comms[i], &values[i], 4, braid_rank(comms[i]), NULL, &ops[i]));
    for (int i = 3; i-- > 0;) {
        RETURNS(0, braid_recv(comms[i], &self, 4, braid_rank(comms[i]), NULL, NULL));
        CHECK(self == values[i], "%d came, not %d", (int)self, (int)values[i]);
        RETURNS(0, braid_wait(ops[i], -1));
    }
    SAYS(-EINVAL, "ranks are 0 to 1", braid_send(comms[1], &own, 4, 2, NULL, NULL));
    return 0;
}

static void split__messages_do_not_mix(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, messages);
}

/* Memory of one communicator serves with the others, and so do keys; an owner need not be in the
 * communicator. */
static int memory(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm), size = braid_size(comm);
    struct braid_key keys[RANKS_MOST], key;
    struct braid_rail_stats rails[RANKS_MOST] = {0};
    struct braid_stats stats = {0};
    struct braid_comm *part;
    int64_t *values, got;

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank % 2, -rank, &part));
    values = braid_alloc(part, 8 * sizeof *values);
    CHECK(values != NULL, "no memory");
    values[0] = 100 + rank;
    RETURNS(0, braid_key(comm, values, &key));
    CHECK(key.rank == (uint32_t)rank, "rank %u", key.rank);
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int r = 0; r < size; r++) {
        RETURNS(0, braid_get(part, &got, sizeof got, &keys[r], 0, NULL, NULL));
        CHECK(got == 100 + r, "%lld of rank %d", (long long)got, r);
    }
    RETURNS(0, braid_put(part, &values[0], 8, &keys[(rank + 1) % size], 8, NULL, NULL));
    RETURNS(0, braid_barrier(comm, NULL, NULL));
    CHECK(values[1] == 100 + (rank + size - 1) % size, "%lld was put", (long long)values[1]);
    RETURNS(0, braid_stats(part, &stats));
    CHECK(stats.operations == (uint64_t)size + 1, "%llu operations",
          (unsigned long long)stats.operations);
    CHECK(braid_rail_stats(part, rails, RANKS_MOST) >= braid_size(part) - 1, "too few rails");
    CHECK(braid_algorithm(part, "allreduce", 1 << 20, I32) != NULL, "no algorithm");
    RETURNS(0, braid_finalize(part));
    CHECK(values[0] == 100 + rank, "the memory has gone");
    return braid_free(comm, values);
}

static void split__memory_is_the_family_s(void **state)
{
    (void)state;
    everywhere(1, 5, 2, memory);
}

/* ---- the end, and numbers -------------------------------------------------------------------- */

#ifdef __SANITIZE_THREAD__
#define TIMES 50 /* numbers are no threads' matter */
#else
#define TIMES 800 /* more often than there are numbers */
#endif

static int again_and_again(struct braid_comm *comm, void *context)
{
    struct braid_comm *part, *stale = NULL;
    struct braid_op *op;
    int32_t one = 1, sum;

    (void)context;
    for (int i = 0; i < TIMES; i++) {
        RETURNS(0, braid_comm_split(comm, braid_rank(comm) < 2, 0, &part));
        CHECK(!stale || stale == part, "a number that is free is not taken");
        RETURNS(0, braid_allreduce(part, &one, &sum, 1, I32, SUM, NULL,
                                   &op)); /* its end is finalize's to wait for */
        RETURNS(0, braid_finalize(part));
        CHECK(sum == 1 + (braid_size(comm) > 1), "the sum is %d", (int)sum);
        stale = part;
    }
    SAYS(-EINVAL, "braid_barrier|finalized", braid_barrier(stale, NULL, NULL));
    SAYS(-EINVAL, "finalized", braid_finalize(stale));
    SAYS(-EINVAL, "finalized", braid_send(stale, &one, 4, 0, NULL, NULL));
    SAYS(-EINVAL, "finalized", braid_comm_split(stale, 0, 0, &part));
    SAYS(-EINVAL, "finalized", braid_comm_abort(stale, NULL));
    return 0;
}

static void finalize__numbers_are_used_again(void **state)
{
    (void)state;
    for (int k = 0; k < RANKS_STREAMS; k++) {
        struct ranks job = ranks_kinds[k];

        if (!ranks_tried(k))
            continue;
        job.size = k % 2 + 1;
        job.timeout_ms = RANKS_PATIENCE;
        ranks_run(&job, again_and_again, NULL);
    }
}

/* A message that nobody has received must not be taken for one of a later communicator. */
static int unreceived(struct braid_comm *comm, void *context)
{
    struct braid_comm *first, *second;
    int32_t value = 1, got = 0;
    struct braid_op *op = NULL;
    int rank = braid_rank(comm);

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, 0, &first));
    if (!rank)
        RETURNS(0, braid_send(first, &value, 4, 1, NULL, NULL));
    RETURNS(0, braid_finalize(first));
    RETURNS(0, braid_comm_split(comm, 0, 0, &second));
    CHECK(first != second, "the number is used again");
    value = 2;
    if (!rank)
        RETURNS(0, braid_send(second, &value, 4, 1, NULL, &op));
    else
        RETURNS(0, braid_recv(second, &got, 4, 0, NULL, NULL));
    CHECK(!rank || got == 2, "%d came", (int)got);
    return op ? braid_wait(op, -1) : 0;
}

static void finalize__unreceived_message(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, unreceived);
}

/* The first rank ends a communicator while the others still notify it: nothing of that comes to the
 * next one, which has the same number. */
static int notified_while_ending(struct braid_comm *comm, void *context)
{
    enum { ROUNDS = 20, PUTS = 16 }; /* each waits for the other rank to get a core */
    uint64_t *word = braid_alloc(comm, sizeof *word), one = 1;
    struct braid_notification n = {0};
    struct braid_comm *part;
    struct braid_key keys[RANKS_MOST], key;
    int found;

    (void)context;
    RETURNS(0, braid_key(comm, word, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int i = 0; i < ROUNDS; i++) {
        RETURNS(0, braid_comm_split(comm, 0, 0, &part));
        RETURNS(0, braid_notification(part, 0, &found, &n));
        CHECK(!found, "%llu of rank %d", (unsigned long long)n.value, n.peer);
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        for (uint64_t k = 0; braid_rank(comm) && k < PUTS; k++)
            RETURNS(0, braid_put_notify(part, &one, sizeof one, &keys[0], 0, k, NULL, NULL));
        RETURNS(0, braid_finalize(part));
    }
    return 0;
}

static void finalize__notifications_end_with_it(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 2, notified_while_ending);
}

/* 767 besides the first; then none, on any rank, and everything goes on. The family's end frees
 * them all. */
static int too_many(struct braid_comm *comm, void *context)
{
    struct braid_comm *last = NULL, *none;

    (void)context;
    for (int i = 0; i < 767; i++)
        RETURNS(0, braid_comm_split(comm, 0, 0, &last));
    SAYS(-ENOSPC, "all 768 numbers", braid_comm_split(comm, 0, 0, &none));
    SAYS(-ENOSPC, "all 768 numbers", braid_comm_split(last, 0, 0, &none));
    CHECK(none == NULL, "a communicator came out");
    RETURNS(0, braid_barrier(last, NULL, NULL));
    RETURNS(0, braid_finalize(last));
    return braid_comm_split(comm, 0, 0, &none);
}

static void split__too_many(void **state)
{
    const struct ranks job = {.size = 2, .backend = "shm", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&job, too_many, NULL);
}

static int wrong_color(struct braid_comm *comm, void *context)
{
    struct braid_comm *part = comm;

    (void)context;
    SAYS(-EINVAL, "color|rank 1|-7",
         braid_comm_split(comm, braid_rank(comm) == 1 ? -7 : 0, 0, &part));
    CHECK(part == NULL, "a communicator came out");
    SAYS(-EINVAL, "nowhere", braid_comm_split(comm, 0, 0, NULL));
    SAYS(-EINVAL, "no communicator", braid_comm_split(NULL, 0, 0, &part));
    return braid_comm_split(comm, 0, 0, &part);
}

static void split__wrong_color(void **state)
{
    (void)state;
    everywhere(2, 3, 1, wrong_color);
}

/* ---- failure --------------------------------------------------------------------------------- */

/* What ends one ends all, and the message says which communicator, and whom the deadline was
 * waiting for. */
static int late(struct braid_comm *comm, void *context)
{
    struct braid_options hasty = {.timeout_ms = 300, .algorithm = "ring"};
    int rank = braid_rank(comm), rc;
    struct braid_comm *part;
    static int32_t in[1000], out[1000];

    (void)context;
    RETURNS(0, braid_comm_split(comm, rank > 0 ? 1 : BRAID_UNDEFINED, -rank, &part));
    ranks_tell(0);
    if (rank == 2) {
        ranks_await(0, 3); /* the split is over everywhere: that must not fail */
        SAYS(-ETIMEDOUT, "allreduce of 1000 int32|operation 0|communicator 1|deadline",
             braid_allreduce(part, in, out, 1000, I32, SUM, &hasty, NULL));
        CHECK(says_all(braid_last_error(), "rank 1 of communicator 1 (rank 1"), "whom");
    } else { /* neither takes part, one is not even in it */
        rc = braid_barrier(comm, NULL, NULL);
        CHECK(rc == -ETIMEDOUT || rc == -ECANCELED, "got %d", rc);
        CHECK(says_all(braid_last_error(), "deadline"), "why");
    }
    SAYS(-ECANCELED, "before", braid_barrier(comm, NULL, NULL));
    if (part) {
        SAYS(-ECANCELED, "before", braid_barrier(part, NULL, NULL));
        RETURNS(0, braid_finalize(part));
        CHECK(says_all(braid_last_error(), "before"), "finalize has taken the words away");
    }
    return 0;
}

static void split__failure_ends_the_family(void **state)
{
    (void)state;
    ranks_everywhere(RANKS_STREAMS, 3, late);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split__by_color_and_key),
        cmocka_unit_test(split__all_collectives_at_once),
        cmocka_unit_test(split__in_a_bcube),
        cmocka_unit_test(split__rows_and_columns),
        cmocka_unit_test(split__messages_do_not_mix),
        cmocka_unit_test(split__memory_is_the_family_s),
        cmocka_unit_test(finalize__numbers_are_used_again),
        cmocka_unit_test(finalize__unreceived_message),
        cmocka_unit_test(finalize__notifications_end_with_it),
        cmocka_unit_test(split__too_many),
        cmocka_unit_test(split__wrong_color),
        cmocka_unit_test(split__failure_ends_the_family),
    };

    if (argc == 2) /* only some */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
