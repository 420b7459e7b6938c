/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounce buffers: made once, no two pieces overlap, full is not failed, and the limit of locked
 * memory makes them smaller. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/random.h"
#include "transport/verbs/bounce.h"

#define MIB ((size_t)1 << 20)

static struct br_device_counters counters;
static struct br_verbs_registrar registrar;
static size_t limit; /* of one registration */
static int access_asked;

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
    struct ibv_mr *mr = bytes > limit ? NULL : calloc(1, sizeof *mr);

    (void)pd;
    access_asked = access;
    if (!mr) {
        errno = ENOMEM;
        return NULL;
    }
    mr->addr = address;
    mr->length = bytes;
    return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    limit = SIZE_MAX;
    memset(&counters, 0, sizeof counters);
    registrar = (struct br_verbs_registrar){
        .reg_mr = reg_mr, .dereg_mr = dereg_mr, .name = "verbs:nic7", .counters = &counters};
    return 0;
}

static void get__pins_once_at_first_need(void **state)
{
    struct br_verbs_bounce bounce;
    void *a, *b;

    (void)state;
    br_verbs_bounce_init(&bounce, &registrar, BR_VERBS_ACCESS_LOCAL, 4 * MIB);
    assert_int_equal(counters.registrations, 0);
    assert_int_equal(br_verbs_bounce_get(&bounce, 100, &a), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(br_verbs_bounce_get(&bounce, 256 << 10, &b), 0);
        br_verbs_bounce_put(&bounce, b);
    }
    assert_int_equal(counters.registrations, 1);
    assert_int_equal(counters.pinned_bytes, 4 * MIB);
    assert_false(access_asked &
                 /* no peer has business there */
                 (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ));
    br_verbs_bounce_put(&bounce, a);
    br_verbs_bounce_destroy(&bounce);
    assert_int_equal(counters.pinned_bytes, 0);
    br_verbs_bounce_destroy(&bounce); /* one that holds nothing */
}

static void get__full_then_room_again(void **state)
{
    struct br_verbs_bounce bounce;
    void *whole, *piece;

    (void)state;
    br_verbs_bounce_init(&bounce, &registrar, BR_VERBS_ACCESS_LOCAL, 2 * MIB);
    assert_int_equal(br_verbs_bounce_get(&bounce, 2 * MIB, &whole), 0);
    assert_int_equal(br_verbs_bounce_get(&bounce, 1, &piece), -EAGAIN);
    br_verbs_bounce_put(&bounce, whole);
    assert_int_equal(br_verbs_bounce_get(&bounce, 1, &piece), 0);
    assert_int_equal(br_verbs_bounce_get(&bounce, 2 * MIB, &whole), -EAGAIN);
    assert_int_equal(br_verbs_bounce_get(&bounce, 2 * MIB + 1, &whole), -ENOMEM);
    assert_non_null(strstr(br_error_message(), "braid_register"));
    br_verbs_bounce_destroy(&bounce);
}

static void get__smaller_under_a_limit(void **state)
{
    struct br_verbs_bounce bounce;
    void *piece;

    (void)state;
    limit = 9 * MIB;
    br_verbs_bounce_init(&bounce, &registrar, BR_VERBS_ACCESS_REMOTE, 32 * MIB);
    assert_int_equal(br_verbs_bounce_get(&bounce, MIB, &piece), 0);
    assert_int_equal(counters.pinned_bytes, 8 * MIB);
    assert_true(access_asked & IBV_ACCESS_REMOTE_WRITE);
    br_verbs_bounce_destroy(&bounce);
    limit = MIB - 1;
    assert_int_equal(br_verbs_bounce_get(&bounce, 1, &piece), -ENOMEM);
    assert_int_equal(counters.pinned_bytes, 0);
    limit = SIZE_MAX; /* the limit has been raised meanwhile */
    assert_int_equal(br_verbs_bounce_get(&bounce, 1, &piece), 0);
    br_verbs_bounce_destroy(&bounce);
}

/* Random pieces, each filled with its number: what is read back shows overlaps; what is refused
 * would not have fitted in the longest gap. */
static void get__random_pieces_never_overlap(void **state)
{
    enum { PIECES = 64, UNITS = 128, UNIT = 16 << 10 };
    struct br_verbs_bounce bounce;
    struct br_random random;
    uint8_t *pieces[PIECES] = {0};
    size_t lengths[PIECES] = {0};
    bool used[UNITS];

    (void)state;
    br_random_seed(&random, 7);
    br_verbs_bounce_init(&bounce, &registrar, BR_VERBS_ACCESS_LOCAL, UNITS * UNIT);
    for (int round = 0; round < 4000; round++) {
        uint32_t i = (uint32_t)br_random_below(&random, PIECES), gap = 0, longest = 0;
        void *piece;
        int rc;

        if (pieces[i]) {
            for (size_t j = 0; j<lengths[i]; j += lengths[i]> 1 ? lengths[i] - 1 : 1)
                assert_int_equal(pieces[i][j], i);
            br_verbs_bounce_put(&bounce, pieces[i]);
            pieces[i] = NULL;
            continue;
        }
        lengths[i] = 1 + br_random_below(&random, 20 * UNIT);
        rc = br_verbs_bounce_get(&bounce, lengths[i], &piece);
        if (!rc) {
            pieces[i] = piece;
            memset(piece, (int)i, lengths[i]);
            continue;
        }
        assert_int_equal(rc, -EAGAIN);
        memset(used, 0, sizeof used);
        for (int p = 0; p < PIECES; p++)
            for (size_t j = 0; pieces[p] && j < lengths[p]; j += UNIT)
                used[(size_t)(pieces[p] - bounce.arena + (ptrdiff_t)j) / UNIT] = true;
        for (int u = 0; u < UNITS; u++) {
            gap = used[u] ? 0 : gap + 1;
            longest = gap > longest ? gap : longest;
        }
        assert_true((lengths[i] + UNIT - 1) / UNIT > longest);
    }
    br_verbs_bounce_destroy(&bounce);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(get__pins_once_at_first_need, setup),
        cmocka_unit_test_setup(get__full_then_room_again, setup),
        cmocka_unit_test_setup(get__smaller_under_a_limit, setup),
        cmocka_unit_test_setup(get__random_pieces_never_overlap, setup),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
