/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided accesses that the callers carry out by themselves, in memory of peers that they map. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/system/ranks.h"

/* What a rank has in the memory of each other one: SLOTS slots, which hold equal bytes each, and a
 * number that counts. Nobody else writes there. */
enum { RANKS = 3, ROUNDS = 30, SLOTS = 7, LAST = 600000, SLOT = 20000 };

struct part {
    uint64_t signals;
    uint8_t small[SLOTS - 1][SLOT];
    uint8_t large[LAST]; /* the last slot: several turns of the lock */
};

struct window {
    uint64_t counter; /* of rank 0: all ranks count on it */
    struct part of[RANKS];
};

/* What its owner knows of its part at one rank; sent there as a message after each round. */
struct model {
    uint64_t signals, notifications;
    uint8_t value[SLOTS];
    uint32_t bytes[SLOTS]; /* that have this value, from the start on */
};

static const struct ranks job = {.backend = "shm", .timeout_ms = RANKS_PATIENCE};

static bool slot_is(const struct part *part, int slot, const struct model *m)
{
    const uint8_t *bytes = slot < SLOTS - 1 ? part->small[slot] : part->large;

    for (uint32_t i = 0; i < m->bytes[slot]; i++)
        if (bytes[i] != m->value[slot])
            return false;
    return true;
}

static uint64_t offset_of(int rank, int slot)
{
    return offsetof(struct window, of) + (size_t)rank * sizeof(struct part) +
           (slot < SLOTS - 1 ? offsetof(struct part, small) + (size_t)slot * SLOT
                             : offsetof(struct part, large));
}

/* A slot is put anew: plainly, with a notification or with a signal, waited for at once, later or
 * by the flush. */
static int put(struct braid_comm *comm, struct br_random *random, struct model *m, int slot,
               const struct braid_key *key, const uint8_t *from)
{
    int rank = braid_rank(comm), how = (int)br_random_below(random, 5);
    uint64_t at = offset_of(rank, slot),
             signal = offsetof(struct window, of) + (size_t)rank * sizeof(struct part);
    struct braid_op *op = NULL, **later = br_random_below(random, 2) ? &op : NULL;
    size_t bytes = m->bytes[slot];

    if (how == 0) {
        m->notifications++;
        RETURNS(0, braid_put_notify(comm, from, bytes, key, at,
                                    (uint64_t)slot << 8 | m->value[slot], NULL, later));
    } else if (how == 1) {
        m->signals += 3;
        RETURNS(0, braid_put_signal(comm, from, bytes, key, at, key, signal, BRAID_SIGNAL_ADD, 3,
                                    NULL, later));
    } else {
        RETURNS(0, braid_put(comm, from, bytes, key, at, NULL, later));
    }
    if (later)
        RETURNS(0, br_random_below(random, 2) ? braid_wait(op, -1) : braid_op_free(op));
    return 0;
}

/* Some accesses to one rank, and the message that says what they should have done. */
static int access_rank(struct braid_comm *comm, struct br_random *random, struct model *m, int to,
                       const struct braid_key *key, uint64_t *counted)
{
    static uint8_t from[SLOTS][LAST], back[LAST];
    uint64_t before;

    for (int slot = 0; slot < SLOTS; slot++) {
        uint32_t most = slot < SLOTS - 1 ? SLOT : LAST;

        if (br_random_below(random, 3) == 0 && m->bytes[slot]) {
            struct model seen = *m;

            RETURNS(0, braid_get(comm, back, m->bytes[slot], key, offset_of(braid_rank(comm), slot),
                                 NULL, NULL));
            for (uint32_t i = 0; i < seen.bytes[slot]; i++)
                CHECK(back[i] == m->value[slot], "byte %u of slot %d of rank %d", i, slot, to);
        } else if (slot < SLOTS - 1 || br_random_below(random, 4) == 0) {
            m->bytes[slot] = 1 + (uint32_t)br_random_below(random, most);
            m->value[slot] = (uint8_t)br_random_below(random, 256);
            memset(from[slot], m->value[slot], m->bytes[slot]);
            if (put(comm, random, m, slot, key, from[slot]))
                return 1;
        }
        if (!to) {
            RETURNS(0, braid_fetch_add(comm, &before, 2, key, 0, NULL, NULL));
            CHECK(before >= *counted, "counts backwards");
            *counted = before + 2;
        }
    }
    RETURNS(0, braid_flush(comm, br_random_below(random, 2) ? to : BRAID_ANY_SOURCE, NULL, NULL));
    return 0;
}

/* The notifications of this round, of any rank: the bytes stand. */
static int take_notifications(struct braid_comm *comm, const struct window *window,
                              const struct model *told, uint64_t *taken)
{
    uint64_t due = 0;

    for (int r = 0; r < RANKS; r++)
        due += told[r].notifications;
    for (; *taken < due; ++*taken) {
        struct braid_notification n = {0};
        int found, slot;

        RETURNS(0, braid_notification(comm, RANKS_PATIENCE, &found, &n));
        CHECK(found, "notification %llu of %llu", (unsigned long long)*taken,
              (unsigned long long)due);
        slot = (int)(n.value >> 8);
        CHECK(slot < SLOTS && told[n.peer].value[slot] == (uint8_t)n.value &&
                  slot_is(&window->of[n.peer], slot, &told[n.peer]),
              "slot %d of rank %d", slot, (int)n.peer);
    }
    return 0;
}

static int interleaved(struct braid_comm *comm, void *context)
{
    int rank = braid_rank(comm);
    struct br_random random;
    struct window *window = braid_alloc(comm, sizeof *window);
    struct model model[RANKS] = {0}, told[RANKS] = {0};
    struct braid_key keys[RANKS], key;
    uint64_t taken = 0, counted = 0;
    struct braid_stats stats = {.struct_size = sizeof stats};

    (void)context;
    br_random_seed(&random, 1 + (uint64_t)rank);
    RETURNS(0, braid_key(comm, window, &key));
    RETURNS(0, braid_allgather(comm, &key, keys, sizeof key, BRAID_UINT8, NULL, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        struct braid_op *ops[2 * RANKS];
        int n = 0;
        uint8_t word = 0;

        for (int i = 1; i < RANKS; i++) {
            int to = (rank + (round % 2 ? i : RANKS - i)) % RANKS;

            RETURNS(0, braid_recv(comm, &told[to], sizeof told[to], to, NULL, &ops[n++]));
            if (access_rank(comm, &random, &model[to], to, &keys[to], &counted))
                return 1;
            RETURNS(0, braid_send(comm, &model[to], sizeof model[to], to, NULL, &ops[n++]));
        }
        while (n)
            RETURNS(0, braid_wait(ops[--n], -1));
        for (int r = 0; r < RANKS; r++) {
            CHECK(__atomic_load_n(&window->of[r].signals, __ATOMIC_ACQUIRE) == told[r].signals,
                  "signals of rank %d", r);
            for (int slot = 0; slot < SLOTS; slot++)
                CHECK(slot_is(&window->of[r], slot, &told[r]), "round %d: slot %d of rank %d",
                      round, slot, r);
        }
        if (take_notifications(comm, window, told, &taken))
            return 1;
        /* nobody begins to overwrite before all have looked */
        RETURNS(0, braid_allreduce(comm, &word, &word, 1, BRAID_UINT8, BRAID_SUM, NULL, NULL));
    }
    CHECK(rank || window->counter == 2ull * SLOTS * ROUNDS * (RANKS - 1), "%llu",
          (unsigned long long)window->counter);
    RETURNS(0, braid_stats(comm, &stats));
    CHECK(stats.mapped_bytes > 100000, "they went another way: %llu",
          (unsigned long long)stats.mapped_bytes);
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__interleaved_with_messages(void **state)
{
    struct ranks three = job;

    (void)state;
    three.size = RANKS;
    ranks_run(&three, interleaved, NULL);
}

/* A number that cannot be changed: the bytes, which stand, do not go once more. Only the engine
 * does all, while another thread has the lock. */
static int refused_signal(struct braid_comm *comm, const uint8_t *data, size_t bytes,
                          const struct braid_key *key)
{
    struct braid_stats stats = {.struct_size = sizeof stats};
    double until = ranks_now_ms() + 60000;
    uint64_t sent;

    do {
        RETURNS(0, braid_stats(comm, &stats));
        sent = stats.tx_bytes;
        SAYS(-EINVAL, "multiple of 8|rank 1",
             braid_put_signal(comm, data, bytes, key, 0, key, 4, BRAID_SIGNAL_ADD, 1, NULL, NULL));
        RETURNS(0, braid_stats(comm, &stats));
    } while (stats.tx_bytes - sent >= bytes && ranks_now_ms() < until);
    CHECK(stats.tx_bytes - sent < bytes, "%llu bytes went",
          (unsigned long long)(stats.tx_bytes - sent));
    return 0;
}

/* Memory that is freed is not written any more, though it was within reach; other memory in its
 * place is. */
static int freed(struct braid_comm *comm, void *context)
{
    enum { BYTES = 1000 };
    static uint8_t data[BYTES];
    int rank = braid_rank(comm);

    (void)context;
    for (int i = 0; i < 5; i++) {
        uint8_t *memory = braid_alloc(comm, BYTES);
        struct braid_key key;
        uint64_t before;

        RETURNS(0, braid_key(comm, memory, &key));
        RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
        for (int k = 0; !rank && k < 3; k++) {
            memset(data, i + k, BYTES);
            RETURNS(0, braid_put(comm, data, BYTES, &key, 0, NULL, NULL));
        }
        if (!rank) { /* the same words as from the engine */
            SAYS(-EACCES, "1000 bytes", braid_put(comm, data, 2, &key, BYTES - 1, NULL, NULL));
            key.bytes = 4096; /* it lies in the page, but not in the region */
            SAYS(-EACCES, "rank 1|too short",
                 braid_put(comm, data, 2, &key, BYTES - 1, NULL, NULL));
            if (refused_signal(comm, data, BYTES, &key))
                return 1;
            SAYS(-EINVAL, "multiple of 8", braid_fetch_add(comm, &before, 1, &key, 4, NULL, NULL));
            key.check ^= 1;
            SAYS(-EACCES, "another job", braid_put(comm, data, 2, &key, 0, NULL, NULL));
            key.check ^= 1;
        }
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        CHECK(!rank || memory[BYTES - 1] == i + 2, "nothing came");
        RETURNS(0, braid_free(comm, memory));
        RETURNS(0, braid_barrier(comm, NULL, NULL));
        if (!rank)
            SAYS(-EACCES, "stale", braid_put(comm, data, BYTES, &key, 0, NULL, NULL));
    }
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__memory_is_freed(void **state)
{
    struct ranks two = job;

    (void)state;
    two.size = 2;
    ranks_run(&two, freed, NULL);
}

/* Handles of accesses that have ended end with their communicator, wherever they ended. */
static int finalized(struct braid_comm *comm, void *context)
{
    enum { ACCESSES = 20 };
    uint64_t *memory = braid_alloc(comm, sizeof *memory), value = 1;
    struct braid_op *ops[ACCESSES] = {NULL}, *other;
    struct braid_comm *part;
    struct braid_key key;

    (void)context;
    RETURNS(0, braid_comm_split(comm, 0, 0, &part));
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    for (int i = 0; i < 3; i++) /* until it is mapped */
        RETURNS(0, braid_put(comm, &value, sizeof value, &key, 0, NULL, NULL));
    for (int i = 0; !braid_rank(comm) && i < ACCESSES; i++)
        RETURNS(0, braid_put(part, &value, sizeof value, &key, 0, NULL, &ops[i]));
    RETURNS(0, braid_put(comm, &value, sizeof value, &key, 0, NULL, &other));
    RETURNS(0, braid_finalize(part));
    for (int i = 0; !braid_rank(comm) && i < ACCESSES; i++)
        SAYS(-EINVAL, "finalized", braid_wait(ops[i], 0));
    RETURNS(0, braid_wait(other, -1));
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__handles_end_with_their_communicator(void **state)
{
    struct ranks two = job;

    (void)state;
    two.size = 2;
    ranks_run(&two, finalized, NULL);
}

static int passes_so_far(struct braid_comm *comm, uint64_t *passes)
{
    struct braid_stats stats = {.struct_size = sizeof stats};

    RETURNS(0, braid_stats(comm, &stats));
    *passes = stats.progress_calls;
    return 0;
}

/* A rank that does nothing but put, or looks at a number again and again, serves its peers: in each
 * millisecond of it. */
static int makes_passes(struct braid_comm *comm, void *context)
{
    enum { ROUNDS_OF_EACH = 30, LOOK = 64, BYTES = 1 << 20 };
    static uint8_t data[BYTES];
    uint8_t *memory = braid_alloc(comm, BYTES);
    struct braid_key key;

    (void)context;
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    for (int round = 0; !braid_rank(comm) && round < 2 * ROUNDS_OF_EACH; round++) {
        double since = ranks_now_ms();
        uint64_t passes, later, before;
        bool late = false;

        if (passes_so_far(comm, &passes))
            return 1;
        while (!late) {
            late = ranks_now_ms() - since > 1;
            if (round % 2)
                RETURNS(0, braid_put(comm, data, BYTES, &key, 0, NULL, NULL));
            for (int i = 0; round % 2 == 0 && i < LOOK; i++)
                RETURNS(0, braid_compare_swap(comm, &before, 1, 1, &key, 0, NULL, NULL));
        }
        if (passes_so_far(comm, &later))
            return 1;
        CHECK(later > passes, "no pass in round %d", round);
    }
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__accesses_make_passes(void **state)
{
    struct ranks two = job;

    (void)state;
    two.size = 2;
    ranks_run(&two, makes_passes, NULL);
}

static void count_end(void *context, int result)
{
    atomic_fetch_add((_Atomic int *)context, result ? 1000000 : 1);
}

/* Small puts that wait for others to leave with them leave also when their rank calls nothing more.
 */
static int bursts(struct braid_comm *comm, void *context)
{
    enum { BURST = 100, BURSTS = 20 };
    uint64_t *memory = braid_alloc(comm, BURST * sizeof *memory), values[BURST], got[BURST];
    _Atomic int ended = 0;
    struct braid_options options = {
        .struct_size = sizeof options, .done = count_end, .context = &ended};
    struct braid_key key;

    (void)context;
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    for (int burst = 1; !braid_rank(comm) && burst <= BURSTS; burst++) {
        for (int i = 0; i < BURST; i++) {
            values[i] = (uint64_t)(burst * BURST + i);
            RETURNS(0, braid_put(comm, &values[i], sizeof *values, &key, (uint64_t)i * 8, &options,
                                 NULL));
        }
        while (atomic_load(&ended) < burst * BURST)
            ranks_sleep_ms(1);
        CHECK(atomic_load(&ended) == burst * BURST, "a put has failed");
        RETURNS(0, braid_get(comm, got, sizeof got, &key, 0, NULL, NULL));
        CHECK(!memcmp(got, values, sizeof got), "burst %d", burst);
    }
    return braid_barrier(comm, NULL, NULL);
}

static void onesided__bursts_leave_by_themselves(void **state)
{
    struct ranks two = {.size = 2, .backend = "tcp", .devices = "lo", .timeout_ms = RANKS_PATIENCE};

    (void)state;
    ranks_run(&two, bursts, NULL);
}

/* A rank that does nothing but put notices that its target has died. */
static int dies(struct braid_comm *comm, void *context)
{
    uint8_t *memory = braid_alloc(comm, 4096), byte = 1;
    struct braid_key key;
    int rc;

    (void)context;
    RETURNS(0, braid_key(comm, memory, &key));
    RETURNS(0, braid_broadcast(comm, &key, &key, sizeof key, BRAID_UINT8, 1, NULL, NULL));
    if (braid_rank(comm)) {
        ranks_await(0, 1);
        _exit(0); /* dies without a word to the others */
    }
    for (int i = 0; i < 10; i++)
        RETURNS(0, braid_put(comm, &byte, 1, &key, 0, NULL, NULL));
    ranks_tell(0);
    do
        rc = braid_put(comm, &byte, 1, &key, 0, NULL, NULL);
    while (!rc);
    CHECK(says_all(braid_last_error(), "rank 1"), "%d", rc);
    _exit(0); /* braid_finalize() would say so once more */
}

static void onesided__target_dies(void **state)
{
    struct ranks two = job;

    (void)state;
    two.size = 2;
    ranks_run(&two, dies, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(onesided__interleaved_with_messages),
        cmocka_unit_test(onesided__memory_is_freed),
        cmocka_unit_test(onesided__handles_end_with_their_communicator),
        cmocka_unit_test(onesided__accesses_make_passes),
        cmocka_unit_test(onesided__bursts_leave_by_themselves),
        cmocka_unit_test(onesided__target_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
