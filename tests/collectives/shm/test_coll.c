/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "collectives/shm/coll.h"
#include "transport/segment.h"

static void create__bad_numbers(void **state)
{
    struct br_shm_coll coll;
    int fd;

    (void)state;
    assert_int_equal(br_shm_coll_create(&coll, 2, 2, false, &fd), -EINVAL);
    assert_int_equal(br_shm_coll_create(&coll, 0, 0, false, &fd), -EINVAL);
    assert_int_equal(br_shm_coll_create(&coll, BR_SHM_COLL_RANKS + 1, 0, false, &fd), -EINVAL);
}

static void attach__not_a_shm_coll(void **state)
{
    struct br_shm_coll coll;
    int fd = br_segment_create("small", 4096);

    (void)state;
    assert_int_equal(br_shm_coll_attach(&coll, 2, 1, false, fd), -EPROTO);
    assert_int_equal(br_shm_coll_attach(&coll, 2, 1, false, 0), -EPROTO);
    br_shm_coll_close(&coll);
    close(fd);
    fd = br_segment_create("of another version", 64 << 20);
    assert_int_equal(br_shm_coll_attach(&coll, 2, 1, false, fd), -EPROTO);
    assert_non_null(strstr(br_error_message(), "version"));
    close(fd);
}

/* How far a rank writes is not for another one to say. */
static void attach__other_rings(void **state)
{
    struct br_shm_coll a, b;
    int fd;

    (void)state;
    for (int in_places = 0; in_places < 2; in_places++) {
        assert_int_equal(br_shm_coll_create(&a, 2, 0, in_places, &fd), 0);
        assert_int_equal(br_shm_coll_attach(&b, 2, 1, !in_places, fd), -EPROTO);
        br_shm_coll_close(&a);
        close(fd);
    }
}

static void publish__is_read_by_others(void **state)
{
    static uint8_t large[BR_SHM_COLL_BYTES];
    struct br_shm_coll a, b;
    const void *large_space;
    int fd;

    (void)state;
    memset(large, 7, sizeof large);
    assert_int_equal(br_shm_coll_create(&a, 2, 0, false, &fd), 0);
    assert_int_equal(br_shm_coll_attach(&b, 2, 1, false, fd), 0);
    close(fd);
    assert_int_equal(br_shm_coll_said(&b, BR_SHM_COLL_SPLIT_BYTES), 0);
    br_shm_coll_say(&a, BR_SHM_COLL_SPLIT_BYTES, UINT64_MAX);
    br_shm_coll_say(&a, BR_SHM_COLL_DIRECT, 1);
    assert_true(br_shm_coll_said(&b, BR_SHM_COLL_SPLIT_BYTES) == UINT64_MAX);
    assert_int_equal(br_shm_coll_said(&b, BR_SHM_COLL_DIRECT), 1);
    assert_true(br_shm_coll_may_publish(&a, 1, 4));
    assert_false(br_shm_coll_ready(&b, 0, 1));
    br_shm_coll_publish(&a, 1, 0xbeef, "one", 4);
    assert_true(br_shm_coll_ready(&b, 0, 1));
    assert_int_equal(br_shm_coll_check(&b, 0, 1), 0xbeef);
    assert_false(br_shm_coll_ready(&b, 0, 2));
    assert_string_equal(br_shm_coll_data(&b, 0, 1, 4), "one");
    assert_true(br_shm_coll_may_publish(&a, 2, sizeof large));
    large_space = br_shm_coll_space(&a, 2);
    br_shm_coll_publish(&a, 2, 7, large, sizeof large);
    assert_memory_equal(br_shm_coll_data(&b, 0, 2, sizeof large), large, sizeof large);
    assert_ptr_equal(large_space, br_shm_coll_data(&a, 0, 2, sizeof large));
    assert_string_equal(br_shm_coll_data(&b, 0, 1, 4), "one");
    br_shm_coll_close(&a);
    assert_int_equal(br_shm_coll_check(&b, 0, 2), 7);
    assert_true(br_shm_coll_ready(&b, 0, 2)); /* b keeps its own */
    br_shm_coll_close(&b);
}

static void open_two(struct br_shm_coll *a, struct br_shm_coll *b)
{
    int fd;

    assert_int_equal(br_shm_coll_create(a, 2, 0, false, &fd), 0);
    assert_int_equal(br_shm_coll_attach(b, 2, 1, false, fd), 0);
    close(fd);
}

/* Publishes epochs from *next on, of `bytes` bytes that say their epoch, while it may; returns the
 * first that it may not. */
static uint64_t run_ahead(struct br_shm_coll *coll, uint64_t next, size_t bytes)
{
    static uint8_t data[BR_SHM_COLL_BYTES];

    for (; br_shm_coll_may_publish(coll, next, bytes); next++) {
        memset(data, (int)next, bytes);
        br_shm_coll_publish(coll, next, (uint16_t)next, data, bytes);
    }
    return next;
}

/* `coll` reads what rank 0 has published in [first, end), and publishes the same epochs. */
static void follow(struct br_shm_coll *coll, uint64_t first, uint64_t end, size_t bytes)
{
    for (uint64_t epoch = first; epoch < end; epoch++) {
        const uint8_t *data = br_shm_coll_data(coll, 0, epoch, bytes);

        assert_true(br_shm_coll_ready(coll, 0, epoch));
        assert_int_equal(br_shm_coll_check(coll, 0, epoch), (uint16_t)epoch);
        assert_int_equal(data[0], (uint8_t)epoch);
        assert_int_equal(data[bytes - 1], (uint8_t)epoch);
        assert_true(br_shm_coll_may_publish(coll, epoch, 0));
        br_shm_coll_publish(coll, epoch, 0, NULL, 0);
    }
}

/* A rank that is ahead by all slots goes on when half of them have been read. */
static void may_publish__until_the_slots_are_full(void **state)
{
    struct br_shm_coll a, b;
    uint64_t next, read = 1;

    (void)state;
    open_two(&a, &b);
    next = run_ahead(&a, 1, 8);
    assert_int_equal(next, BR_SHM_COLL_DEPTH);
    for (int lap = 0; lap < 5; lap++) {
        uint64_t enough = next - BR_SHM_COLL_DEPTH / 2;

        assert_int_equal(br_shm_coll_missing(&a, 1, next), read);
        follow(&b, read, enough, 8);
        assert_false(br_shm_coll_may_publish(&a, next, 8));
        follow(&b, enough, enough + 1, 8);
        read = enough + 1;
        next = run_ahead(&a, next, 8);
        assert_int_equal(next, enough + BR_SHM_COLL_DEPTH);
    }
    follow(&b, read, next, 8);
    assert_int_equal(br_shm_coll_missing(&a, 1, next), next);
    br_shm_coll_close(&a);
    br_shm_coll_close(&b);
}

/* Whatever is given: bounded by the ring's bytes, and when all have published the epoch before,
 * there is room. */
static void may_publish__until_the_bytes_are_full(void **state)
{
    static const struct {
        size_t window, bytes, ahead; /* how many epochs */
    } cases[] = {{BR_SHM_COLL_BYTES, BR_SHM_COLL_BYTES, 2},
                 {BR_SHM_COLL_BYTES, BR_SHM_COLL_BYTES / 2 + 1, 2},
                 {BR_SHM_COLL_BYTES, BR_SHM_COLL_BYTES / 4, 8},
                 {BR_SHM_COLL_BYTES, BR_SHM_COLL_BYTES / 64, BR_SHM_COLL_DEPTH - 1},
                 {8192, 512, 32},
                 {8192, 8192, 2},
                 {8192, 9000, 2},
                 {8192, BR_SHM_COLL_BYTES, 2}};
    struct br_shm_coll a, b;
    uint64_t next = 1, read;

    (void)state;
    open_two(&a, &b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.window = cases[i].window;
        for (size_t other = 0; other < sizeof cases / sizeof *cases; other++) {
            read = next; /* all have been read, so there is room for one of any size */
            next = run_ahead(&a, next, cases[other].bytes);
            assert_true(next > read);
            follow(&b, read, next, cases[other].bytes);
            read = next;
            next = run_ahead(&a, next, cases[i].bytes);
            follow(&b, read, next, cases[i].bytes);
            br_shm_coll_learn(&a, next - 1); /* the next one begins at a half */
            read = next;
            next = run_ahead(&a, next, cases[i].bytes);
            assert_in_range(next - read, cases[i].ahead / 2, cases[i].ahead);
            follow(&b, read, next, cases[i].bytes);
        }
    }
    br_shm_coll_close(&a);
    br_shm_coll_close(&b);
}

/* A ring of places has room for half of those that are in use, whatever their bytes. */
static void may_publish__until_half_of_the_places_are_full(void **state)
{
    (void)state;
    for (uint32_t places = BR_SHM_COLL_FEWEST_PLACES; places <= BR_SHM_COLL_PLACES; places *= 2) {
        struct br_shm_coll a, b;
        uint64_t next = 1, read;
        int fd;

        assert_int_equal(br_shm_coll_create(&a, 2, 0, true, &fd), 0);
        assert_int_equal(br_shm_coll_attach(&b, 2, 1, true, fd), 0);
        close(fd);
        assert_in_range(a.places, BR_SHM_COLL_FEWEST_PLACES, BR_SHM_COLL_PLACES);
        a.places = places; /* its writer alone knows */
        for (int lap = 0; lap < 300; lap++) {
            read = next;
            next = run_ahead(&a, next, lap % 3 ? BR_SHM_COLL_PLACE : 500);
            assert_true(next - read < BR_SHM_COLL_DEPTH);
            assert_in_range(next - read, places / 8, places / 2);
            follow(&b, read, next, lap % 3 ? BR_SHM_COLL_PLACE : 500);
            if (lap % 2)
                br_shm_coll_learn(&a, next - 1);
        }
        br_shm_coll_close(&a);
        br_shm_coll_close(&b);
    }
}

/* How many pages of `bytes` bytes are there. */
static size_t resident(void *base, size_t bytes)
{
    static unsigned char there[BR_SHM_COLL_PLACES * BR_SHM_COLL_PLACE / BR_SHM_COLL_PAGE];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;

    assert_int_equal(mincore(base, bytes, there), 0);
    for (size_t i = 0; i < bytes / page; i++)
        n += there[i] & 1;
    return n * page;
}

static void populate__makes_the_pages_of_all_places(void **state)
{
    struct br_shm_coll coll;
    size_t bytes;
    void *ring;
    int fd;

    (void)state;
    assert_int_equal(br_shm_coll_create(&coll, 2, 1, true, &fd), 0);
    close(fd);
    bytes = (size_t)coll.places * BR_SHM_COLL_PLACE;
    ring = br_shm_coll_area(&coll, 1)->payload;
    if ((size_t)sysconf(_SC_PAGESIZE) != BR_SHM_COLL_PAGE)
        skip();
    assert_true(resident(ring, bytes) < bytes);
    br_shm_coll_populate(&coll);
    assert_int_equal(resident(ring, bytes), bytes);
    br_shm_coll_close(&coll);
}

/* The reader is asked what reading took, and its answer is heard with one of the next epochs. */
static void answer__is_heard_by_who_asks(void **state)
{
    static uint8_t data[BR_SHM_COLL_PLACE];
    struct br_shm_coll a, b;
    double *cost = a.past.classes[0].cost;
    uint64_t epoch, answered = 0;
    int fd;

    (void)state;
    assert_int_equal(br_shm_coll_create(&a, 2, 0, true, &fd), 0);
    assert_int_equal(br_shm_coll_attach(&b, 2, 1, true, fd), 0);
    close(fd);
    a.past.told = b.past.told = true;
    for (epoch = 1; epoch <= 64; epoch++) {
        bool asks;

        memset(data, (int)epoch, 4096);
        assert_true(br_shm_coll_may_publish(&a, epoch, 4096));
        br_shm_coll_publish(&a, epoch, 0, data, 4096);
        asks = br_shm_coll_asks(&b, 0, epoch, 4096);
        assert_int_equal(asks, a.asked == epoch);
        assert_memory_equal(br_shm_coll_data(&b, 0, epoch, 4096), data, 4096);
        if (asks)
            br_shm_coll_answer(&b, epoch, br_shm_coll_begin_answer());
        answered += asks;
        br_shm_coll_publish(&b, epoch, 0, NULL, 0);
    }
    assert_in_range(answered, 4, 16);
    assert_true(cost[BR_SHM_INTO_CACHES] > 0 && cost[BR_SHM_PAST_CACHES] > 0);
    br_shm_coll_close(&a);
    br_shm_coll_close(&b);
}

#define RANKS  3u
#define EPOCHS 6000u

/* A word that only epoch, rank and place decide. */
static uint32_t word(uint64_t epoch, uint32_t rank, uint32_t i)
{
    return (uint32_t)epoch * 2654435761u ^ rank << 20 ^ i;
}

/* Every rank reads only one other rank in each epoch, which leaves all the waiting to
 * br_shm_coll_may_publish(). */
static int run_rank(int fd, uint32_t rank, bool in_places)
{
    static uint32_t words[BR_SHM_COLL_BYTES / 4];
    uint32_t n;
    struct br_random random;
    struct br_shm_coll coll;

    if (br_shm_coll_attach(&coll, RANKS, rank, in_places, fd))
        return 1;
    br_random_seed(&random, 3);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        uint32_t from = (uint32_t)((rank + epoch) % RANKS);
        const uint32_t *data;

        n = 1 + (uint32_t)br_random_below(&random, epoch % 16 ? 64 : br_shm_coll_most(&coll) / 4);
        for (uint32_t i = 0; i < n; i++)
            words[i] = word(epoch, rank, i);
        while (!br_shm_coll_may_publish(&coll, epoch, n * 4))
            sched_yield();
        br_shm_coll_publish(&coll, epoch, 0, words, n * 4);
        while (!br_shm_coll_ready(&coll, from, epoch))
            sched_yield();
        data = br_shm_coll_data(&coll, from, epoch, n * 4);
        for (uint32_t i = 0; i < n; i++)
            if (data[i] != word(epoch, from, i))
                return 2;
    }
    br_shm_coll_close(&coll);
    return 0;
}

static void check_rounds(bool in_places)
{
    struct br_shm_coll coll;
    int fd, status;

    assert_int_equal(br_shm_coll_create(&coll, RANKS, 0, in_places, &fd), 0);
    br_shm_coll_close(&coll);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        if (!fork())
            _exit(run_rank(fd, rank, in_places));
    assert_int_equal(run_rank(fd, 0, in_places), 0);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    close(fd);
}

static void rounds__nobody_overtakes_a_reader(void **state)
{
    (void)state;
    check_rounds(false);
    check_rounds(true);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

#define PARTNERS 6u /* at most */

struct partner {
    struct br_shm_coll coll;
    uint64_t epoch; /* that it has published */
    bool reads;     /* what the others give in it */
};

/* Of cells or of what is common, what epoch `epoch` has. */
static uint32_t partner_words(const struct br_shm_coll *coll, uint64_t epoch,
                              enum br_shm_place place)
{
    size_t bytes = place == BR_SHM_IN_CELLS ? coll->cell_bytes : BR_SHM_COLL_COMMON;

    return (uint32_t)(bytes / sizeof(uint32_t) >> epoch % 9);
}

/* `from` gives other ranks words of their own, or all the same. */
static uint32_t partner_word(uint64_t epoch, uint32_t from, uint32_t to, uint32_t i,
                             enum br_shm_place place)
{
    return word(epoch, from, i) + (place == BR_SHM_IN_CELLS ? to : 0);
}

static void partner_gives(struct partner *self, enum br_shm_place place)
{
    static uint32_t words[PARTNERS][BR_SHM_COLL_CELLS / sizeof(uint32_t)];
    struct br_shm_coll *coll = &self->coll;
    uint32_t n;

    self->epoch++;
    n = partner_words(coll, self->epoch, place);
    assert_true(br_shm_coll_may_publish(coll, self->epoch, 0));
    for (uint32_t r = 0; r < coll->ranks; r++)
        for (uint32_t i = 0; i < n; i++)
            words[r][i] = partner_word(self->epoch, coll->rank, r, i, place);
    br_shm_coll_give(coll, place, words, place == BR_SHM_IN_CELLS ? sizeof words[0] : 0,
                     n * sizeof(uint32_t));
    br_shm_coll_publish(coll, self->epoch, 0, NULL, 0);
    self->reads = true;
}

static void partner_reads(struct partner *self, enum br_shm_place place)
{
    struct br_shm_coll *coll = &self->coll;
    uint32_t n = partner_words(coll, self->epoch, place);

    for (uint32_t r = 0; r < coll->ranks; r++)
        if (!br_shm_coll_ready(coll, r, self->epoch))
            return;
    br_shm_coll_learn(coll, self->epoch);
    for (uint32_t r = 0; r < coll->ranks; r++) {
        const uint32_t *given;

        if (r == coll->rank)
            continue;
        given = (const uint32_t *)br_shm_coll_given(coll, place, r);
        for (uint32_t i = 0; i < n; i++)
            if (given[i] != partner_word(self->epoch, r, coll->rank, i, place))
                fail_msg("epoch %llu, word %u", (unsigned long long)self->epoch, i);
    }
    self->reads = false;
}

/* Every rank gives every other one words, and nobody writes over what is not read. */
static void check_gives(uint32_t n, uint32_t beside, enum br_shm_place place)
{
    struct partner partners[PARTNERS] = {0};
    struct br_random random;
    int fd = -1;

    br_random_seed(&random, 11);
    for (uint32_t r = 0; r < n; r++) {
        assert_int_equal(r ? br_shm_coll_attach(&partners[r].coll, n, r, false, fd)
                           : br_shm_coll_create(&partners[r].coll, n, 0, false, &fd),
                         0);
        br_shm_coll_set_beside(&partners[r].coll, beside);
    }
    close(fd);
    for (uint32_t turn = 0; turn < 2500; turn++) {
        struct partner *self = &partners[br_random_below(&random, n)];

        if (self->reads)
            partner_reads(self, place);
        else
            partner_gives(self, place);
    }
    for (uint32_t r = 0; r < n; r++) {
        assert_true(partners[r].epoch > 100);
        br_shm_coll_close(&partners[r].coll);
    }
}

static void give__in_cells(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= PARTNERS; n++)
        check_gives(n, 1, BR_SHM_IN_CELLS);
}

/* A core for each, and two and three ranks on each core. */
static void give__in_common(void **state)
{
    (void)state;
    for (uint32_t n = 3; n <= BR_SHM_COLL_EACH; n++)
        check_gives(n, 1, BR_SHM_IN_COMMON);
    check_gives(4, 2, BR_SHM_IN_COMMON);
    check_gives(6, 2, BR_SHM_IN_COMMON);
    check_gives(6, 3, BR_SHM_IN_COMMON);
}

/* Whatever rank 0 says, all stays within the areas. */
static void set_beside__divides_the_ranks(void **state)
{
    static const struct {
        uint64_t said;
        uint32_t beside;
    } cases[] = {{0, 1}, {1, 1}, {2, 2}, {3, 3}, {4, 1}, {6, 6}, {7, 1}, {12, 1}, {UINT64_MAX, 1}};
    struct br_shm_coll coll;
    int fd;

    (void)state;
    assert_int_equal(br_shm_coll_create(&coll, 6, 0, false, &fd), 0);
    close(fd);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_shm_coll_set_beside(&coll, cases[i].said);
        assert_int_equal(coll.beside, cases[i].beside);
        assert_int_equal(br_shm_coll_has_common(&coll), cases[i].beside > 1);
    }
    br_shm_coll_close(&coll);
}

/* An untrue place of another rank's part: nothing outside of its payload is read. */
static void withdraw__is_seen_by_others(void **state)
{
    struct br_shm_coll a, b;

    (void)state;
    open_two(&a, &b);
    assert_false(br_shm_coll_has_withdrawn(&b, 0));
    br_shm_coll_withdraw(&a);
    assert_true(br_shm_coll_has_withdrawn(&b, 0));
    assert_false(br_shm_coll_has_withdrawn(&a, 1));
    br_shm_coll_close(&a);
    br_shm_coll_close(&b);
}

static void data__of_an_untrue_place(void **state)
{
    static const uint64_t untrue[] = {BR_SHM_COLL_PAYLOAD - 999, BR_SHM_COLL_PAYLOAD,
                                      UINT64_MAX - 999};
    static uint8_t large[1000];
    struct br_shm_coll a, b;

    (void)state;
    open_two(&a, &b);
    br_shm_coll_publish(&a, 1, 0, large, sizeof large);
    for (size_t i = 0; i < sizeof untrue / sizeof *untrue; i++) {
        br_shm_coll_slot(&a, 0, 1)->start = untrue[i];
        assert_memory_equal(br_shm_coll_data(&b, 0, 1, sizeof large), large, sizeof large);
    }
    br_shm_coll_close(&a);
    br_shm_coll_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__bad_numbers),
        cmocka_unit_test(attach__not_a_shm_coll),
        cmocka_unit_test(attach__other_rings),
        cmocka_unit_test(publish__is_read_by_others),
        cmocka_unit_test(may_publish__until_the_slots_are_full),
        cmocka_unit_test(may_publish__until_the_bytes_are_full),
        cmocka_unit_test(may_publish__until_half_of_the_places_are_full),
        cmocka_unit_test(populate__makes_the_pages_of_all_places),
        cmocka_unit_test(answer__is_heard_by_who_asks),
        cmocka_unit_test(rounds__nobody_overtakes_a_reader),
        cmocka_unit_test(give__in_cells),
        cmocka_unit_test(give__in_common),
        cmocka_unit_test(set_beside__divides_the_ranks),
        cmocka_unit_test(withdraw__is_seen_by_others),
        cmocka_unit_test(data__of_an_untrue_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
