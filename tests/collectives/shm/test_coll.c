/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/random.h"
#include "collectives/shm/coll.h"
#include "transport/segment.h"

static void create__bad_numbers(void **state)
{
    struct br_shm_coll coll;
    int fd;

    (void)state;
    assert_int_equal(br_shm_coll_create(&coll, 2, 2, &fd), -EINVAL);
    assert_int_equal(br_shm_coll_create(&coll, 0, 0, &fd), -EINVAL);
    assert_int_equal(br_shm_coll_create(&coll, BR_SHM_COLL_RANKS + 1, 0, &fd), -EINVAL);
}

static void attach__not_a_shm_coll(void **state)
{
    struct br_shm_coll coll;
    int fd = br_segment_create("small", 4096);

    (void)state;
    assert_int_equal(br_shm_coll_attach(&coll, 2, 1, fd), -EPROTO);
    assert_int_equal(br_shm_coll_attach(&coll, 2, 1, 0), -EPROTO);
    br_shm_coll_close(&coll);
    close(fd);
}

static void publish__is_read_by_others(void **state)
{
    static uint8_t large[BR_SHM_COLL_BYTES];
    struct br_shm_coll a, b;
    int fd;

    (void)state;
    memset(large, 7, sizeof large);
    assert_int_equal(br_shm_coll_create(&a, 2, 0, &fd), 0);
    assert_int_equal(br_shm_coll_attach(&b, 2, 1, fd), 0);
    close(fd);
    assert_int_equal(br_shm_coll_said(&b, BR_SHM_COLL_SPLIT_BYTES), 0);
    br_shm_coll_say(&a, BR_SHM_COLL_SPLIT_BYTES, UINT64_MAX);
    br_shm_coll_say(&a, BR_SHM_COLL_DIRECT, 1);
    assert_true(br_shm_coll_said(&b, BR_SHM_COLL_SPLIT_BYTES) == UINT64_MAX);
    assert_int_equal(br_shm_coll_said(&b, BR_SHM_COLL_DIRECT), 1);
    assert_true(br_shm_coll_may_publish(&a, 1));
    assert_false(br_shm_coll_ready(&b, 0, 1));
    br_shm_coll_publish(&a, 1, 0xbeef, "one", 4);
    assert_true(br_shm_coll_ready(&b, 0, 1));
    assert_int_equal(br_shm_coll_check(&b, 0, 1), 0xbeef);
    assert_false(br_shm_coll_ready(&b, 0, 2));
    assert_string_equal(br_shm_coll_data(&b, 0, 1, 4), "one");
    assert_false(br_shm_coll_may_publish(&a, 2)); /* b may still read an older epoch */
    br_shm_coll_publish(&b, 1, 0, NULL, 0);
    assert_true(br_shm_coll_may_publish(&a, 2));
    br_shm_coll_publish(&a, 2, 7, large, sizeof large);
    assert_memory_equal(br_shm_coll_data(&b, 0, 2, sizeof large), large, sizeof large);
    assert_ptr_equal(br_shm_coll_space(&a, 2), br_shm_coll_data(&a, 0, 2, sizeof large));
    assert_string_equal(br_shm_coll_data(&b, 0, 1, 4), "one"); /* until a publishes epoch 3 */
    br_shm_coll_close(&a);
    assert_int_equal(br_shm_coll_check(&b, 0, 2), 7);
    assert_true(br_shm_coll_ready(&b, 0, 2)); /* b keeps its own */
    br_shm_coll_close(&b);
}

#define RANKS  3u
#define EPOCHS 4000u

/* A word that only epoch, rank and place decide. */
static uint32_t word(uint64_t epoch, uint32_t rank, uint32_t i)
{
    return (uint32_t)epoch * 2654435761u ^ rank << 20 ^ i;
}

/* Every rank reads only one other rank in each epoch, which leaves all the waiting to
 * br_shm_coll_may_publish(). */
static int run_rank(int fd, uint32_t rank)
{
    uint32_t words[64], n;
    struct br_random random;
    struct br_shm_coll coll;

    if (br_shm_coll_attach(&coll, RANKS, rank, fd))
        return 1;
    br_random_seed(&random, 3);
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        uint32_t from = (uint32_t)((rank + epoch) % RANKS);
        const uint32_t *data;

        n = 1 + (uint32_t)br_random_below(&random, 64);
        for (uint32_t i = 0; i < n; i++)
            words[i] = word(epoch, rank, i);
        while (!br_shm_coll_may_publish(&coll, epoch))
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

static void rounds__nobody_overtakes_a_reader(void **state)
{
    struct br_shm_coll coll;
    int fd, status;

    (void)state;
    assert_int_equal(br_shm_coll_create(&coll, RANKS, 0, &fd), 0);
    br_shm_coll_close(&coll);
    for (uint32_t rank = 1; rank < RANKS; rank++)
        if (!fork())
            _exit(run_rank(fd, rank));
    assert_int_equal(run_rank(fd, 0), 0);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(create__bad_numbers),
        cmocka_unit_test(attach__not_a_shm_coll),
        cmocka_unit_test(publish__is_read_by_others),
        cmocka_unit_test(rounds__nobody_overtakes_a_reader),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
