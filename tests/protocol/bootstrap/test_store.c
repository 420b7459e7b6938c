/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks of one job among themselves, right and wrong ones. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/protocol/bootstrap/store_job.h"
#include "protocol/bootstrap/store_socket.h"

/* ---- what works ------------------------------------------------------------------------------ */

static void store_open__ranks_exchange_values(void **state)
{
    (void)state;
    store_make(4);
    for (uint32_t i = 0; i < 4; i++)
        store_ranks[i].body = store_exchange;
    store_ranks[0].late = 150 * BR_MS; /* the others come before there is a server */
    store_ranks[2].late = 50 * BR_MS;
    store_start(0, 4);
    store_finish(0, 4);
    store_all_fine(4);
    assert_int_equal(store_ranks[0].counters.accepted, 4);
    assert_int_equal(store_ranks[0].counters.refused + store_ranks[0].counters.malformed, 0);
}

static void store_open__names_and_ipv6(void **state)
{
    static const char *const addresses[] = {"localhost", "::1"};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int usable = fd >= 0 && bind(fd, (struct sockaddr *)&six, sizeof six) == 0 ? 2 : 1;

    (void)state;
    if (fd >= 0)
        close(fd);
    for (int a = 0; a < usable; a++) {
        for (int known = 0; known < 2; known++) { /* listening on loopback only, and everywhere */
            store_make(3);
            for (uint32_t i = 0; i < 3; i++) {
                strcpy(store_ranks[i].environment.address, addresses[a]);
                store_ranks[i].environment.local_known = known;
                store_ranks[i].body = store_exchange;
            }
            store_start(0, 3);
            store_finish(0, 3);
            store_all_fine(3);
        }
    }
}

static int large_values(struct br_store *store, struct store_rank *self)
{
    static const size_t size = BR_STORE_VALUE_MAX;
    uint32_t rank = self->environment.rank;
    uint8_t *all = malloc(3 * size), *mine = malloc(size);
    size_t n;
    int rc;

    memset(mine, (int)rank + 1, size);
    rc = br_store_gather(store, "large", mine, size, all, store_soon(STORE_LONG));
    for (size_t i = 0; i < 3 * size && rc == 0; i++)
        if (all[i] != i / size + 1)
            rc = -EBADMSG;
    if (rc == 0 && br_store_put(store, "x", mine, size + 1, store_soon(STORE_LONG)) != -EINVAL)
        rc = -EBADMSG;
    if (rc == 0)
        rc = br_store_put(store, "same", mine, size, store_soon(STORE_LONG));
    if (rc == 0 && br_store_get(store, "same", all, 10, &n, store_soon(STORE_LONG)) != -ENOSPC)
        rc = -EBADMSG;
    if (rc == 0)
        rc = br_store_get(store, "same", all, size, &n, store_soon(STORE_LONG));
    if (rc == 0 && n != size)
        rc = -EBADMSG;
    free(all);
    free(mine);
    return rc ? rc : br_store_barrier(store, "end", store_soon(STORE_LONG));
}

static void store_gather__largest_values(void **state)
{
    (void)state;
    store_make(3);
    for (uint32_t i = 0; i < 3; i++)
        store_ranks[i].body = large_values;
    store_start(0, 3);
    store_finish(0, 3);
    store_all_fine(3);
}

static int bad_arguments(struct br_store *store, struct store_rank *self)
{
    char key[BR_STORE_KEY_MAX + 2];
    size_t n;

    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    (void)self;
    if (br_store_put(store, "", "x", 1, store_soon(STORE_LONG)) != -EINVAL ||
        br_store_put(store, key, "x", 1, store_soon(STORE_LONG)) != -EINVAL ||
        br_store_put(store, "a\nb", "x", 1, store_soon(STORE_LONG)) != -EINVAL)
        return -EBADMSG;
    key[BR_STORE_KEY_MAX] = 0;
    if (br_store_put(store, key, "x", 1, store_soon(STORE_LONG)) != 0)
        return -EBADMSG;
    return br_store_get(store, "nothing", key, sizeof key, &n, store_soon(300 * BR_MS));
}

static void store_get__nobody_puts(void **state)
{
    (void)state;
    store_make(1);
    store_ranks[0].body = bad_arguments;
    store_start(0, 1);
    store_finish(0, 1);
    store_says(&store_ranks[0], ETIMEDOUT, "'nothing'|in time");
}

/* ---- ranks that are wrong -------------------------------------------------------------------- */

static void store_open__two_processes_with_one_rank(void **state)
{
    (void)state;
    store_make(4);
    store_ranks[3].environment.rank = 1;
    store_start(0, 4);
    store_finish(0, 4);
    for (int i = 0; i < 4; i++)
        store_says(&store_ranks[i], EEXIST, "rank 1|process");
}

static void store_open__two_processes_with_rank_zero(void **state)
{
    (void)state;
    store_make(3);
    store_ranks[2].environment.rank = 0;
    store_ranks[2].late = 100 * BR_MS;
    store_start(0, 3);
    store_finish(0, 3);
    for (int i = 0; i < 3; i++)
        store_says(&store_ranks[i], EEXIST, "rank 0|process");
}

static void store_open__a_rank_that_never_comes(void **state)
{
    uint64_t begin = br_clock_now();

    (void)state;
    store_make(5);
    for (int i = 0; i < 5; i++)
        store_ranks[i].environment.init_timeout = i == 1 ? STORE_SHORT : STORE_LONG;
    store_start(0, 2);
    store_start(3, 4);
    store_finish(0, 2);
    store_finish(3, 4);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            store_says(&store_ranks[i], ETIMEDOUT, "2|4|5");
    /* the first to lose patience ends it for all */
    assert_true(br_clock_now() - begin < STORE_LONG / 4 * 3);
}

static void store_open__rank_zero_never_comes(void **state)
{
    char text[64];

    (void)state;
    store_make(2);
    store_ranks[1].environment.init_timeout = BR_SEC;
    store_start(1, 2);
    store_finish(1, 2);
    snprintf(text, sizeof text, "no store of rank 0 at 127.0.0.1:%u after", store_port);
    store_says(&store_ranks[1], ETIMEDOUT, text);
    store_says(&store_ranks[1], ETIMEDOUT, "Connection refused");
}

static void store_open__unknown_host(void **state)
{
    (void)state;
    store_make(2);
    strcpy(store_ranks[1].environment.address, "no-such-host.invalid");
    store_ranks[1].environment.init_timeout = BR_SEC;
    store_start(1, 2);
    store_finish(1, 2);
    store_says(&store_ranks[1], ETIMEDOUT, "MASTER_ADDR|no-such-host.invalid");
}

static void store_open__different_world_sizes(void **state)
{
    (void)state;
    store_make(3);
    store_ranks[2].environment.size = 4;
    store_start(0, 3);
    store_finish(0, 3);
    for (int i = 0; i < 3; i++)
        store_says(&store_ranks[i], EPROTO, "4 ranks|rank 0|3|WORLD_SIZE");
}

static void store_open__wrong_secret(void **state)
{
    (void)state;
    store_make(3);
    store_ranks[0].environment.init_timeout = STORE_SHORT;
    store_ranks[2].secret.key[0] ^= 1;
    store_start(0, 3);
    store_finish(0, 3);
    store_says(&store_ranks[2], EPERM, "we do not|secret");
    for (int i = 0; i < 2; i++) {
        store_says(&store_ranks[i], ETIMEDOUT, "rank 2|3");
        store_says(&store_ranks[i], ETIMEDOUT, "does not|secret");
    }
}

static void store_open__a_rank_is_lost(void **state)
{
    int fd;

    (void)state;
    store_make(3);
    store_start(0, 2);
    fd = store_join_by_hand(2);
    close(fd);
    store_finish(0, 2);
    for (int i = 0; i < 2; i++)
        store_says(&store_ranks[i], ECONNRESET, "rank 2|process 4711|byhand");
}

static int leave_or_wait(struct br_store *store, struct store_rank *self)
{
    return self->environment.rank == 1 ? 0 : br_store_barrier(store, "end", store_soon(STORE_LONG));
}

static void store_gather__a_rank_has_left(void **state)
{
    (void)state;
    store_make(3);
    for (int i = 0; i < 3; i++)
        store_ranks[i].body = leave_or_wait;
    store_start(0, 3);
    store_finish(0, 3);
    assert_int_equal(store_ranks[1].rc, 0);
    store_says(&store_ranks[0], ECONNRESET, "rank 1 (process ");
    store_says(&store_ranks[2], ECONNRESET, "'end'");
}

static _Atomic int given_up;

/* Rank 1 comes when the others have given up. */
static int late_or_wait(struct br_store *store, struct store_rank *self)
{
    int rc;

    while (self->environment.rank == 1 && given_up < 2)
        usleep(1000);
    rc = br_store_barrier(store, "end", store_soon(STORE_SHORT));
    given_up++;
    return rc;
}

static void store_gather__a_rank_is_late(void **state)
{
    (void)state;
    store_make(3);
    for (int i = 0; i < 3; i++)
        store_ranks[i].body = late_or_wait;
    store_start(0, 3);
    store_finish(0, 3);
    for (int i = 0; i < 3; i++)
        store_says(&store_ranks[i], ETIMEDOUT, "rank 1|3|'end'");
}

static int different_lengths(struct br_store *store, struct store_rank *self)
{
    uint64_t mine = 0, all[3];

    return br_store_gather(store, "sizes", &mine, self->environment.rank == 1 ? 8 : 4, all,
                           store_soon(STORE_LONG));
}

static void store_gather__different_lengths(void **state)
{
    (void)state;
    store_make(3);
    for (int i = 0; i < 3; i++)
        store_ranks[i].body = different_lengths;
    store_start(0, 3);
    store_finish(0, 3);
    for (int i = 0; i < 3; i++)
        store_says(&store_ranks[i], EPROTO, "versions|settings");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_open__ranks_exchange_values),
        cmocka_unit_test(store_open__names_and_ipv6),
        cmocka_unit_test(store_gather__largest_values),
        cmocka_unit_test(store_get__nobody_puts),
        cmocka_unit_test(store_open__two_processes_with_one_rank),
        cmocka_unit_test(store_open__two_processes_with_rank_zero),
        cmocka_unit_test(store_open__a_rank_that_never_comes),
        cmocka_unit_test(store_open__rank_zero_never_comes),
        cmocka_unit_test(store_open__unknown_host),
        cmocka_unit_test(store_open__different_world_sizes),
        cmocka_unit_test(store_open__wrong_secret),
        cmocka_unit_test(store_open__a_rank_is_lost),
        cmocka_unit_test(store_gather__a_rank_has_left),
        cmocka_unit_test(store_gather__a_rank_is_late),
        cmocka_unit_test(store_gather__different_lengths),
    };

    br_log_set_level(BR_LOG_ERROR); /* refusals are what is tested */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
