/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks are threads here; strangers and broken ranks are sockets that speak by hand. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store.h"
#include "protocol/bootstrap/store_message.h"
#include "protocol/bootstrap/store_socket.h"

#define RANKS_MAX 8
#define LONG      (20 * BR_SEC)

struct rank {
    pthread_t thread;
    struct br_environment environment;
    struct br_secret secret;
    uint64_t late; /* ns to sleep before the start */
    int (*body)(struct br_store *store, struct rank *self);
    int rc;
    char words[BR_ERROR_WORDS];
    struct br_store_counters counters;
};

static struct rank ranks[RANKS_MAX];
static uint16_t port;

/* A port that nobody else is given by chance: it stays bound until the next one, and the store's listeners share it. */
static uint16_t reserve_port(void)
{
    static int reserved = -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int on = 1;

    if (reserved >= 0)
        close(reserved);
    reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_return_code(setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), errno);
    assert_return_code(bind(reserved, (struct sockaddr *)&address, bytes), errno);
    assert_return_code(getsockname(reserved, (struct sockaddr *)&address, &bytes), errno);
    return ntohs(address.sin_port);
}

/* A job of n ranks that all work. */
static void make(uint32_t n)
{
    memset(ranks, 0, sizeof ranks);
    port = reserve_port();
    for (uint32_t i = 0; i < n; i++) {
        ranks[i].environment = (struct br_environment){.rank = i,
                                                       .size = n,
                                                       .local_rank = i,
                                                       .local_size = n,
                                                       .local_known = true,
                                                       .port = port,
                                                       .init_timeout = LONG,
                                                       .address = "127.0.0.1"};
        assert_int_equal(br_secret_derive("the secret of the tests", 23, &ranks[i].secret), 0);
    }
}

static void *run_rank(void *argument)
{
    struct rank *self = argument;
    struct br_store *store = NULL;

    usleep((useconds_t)(self->late / BR_US));
    self->rc = br_store_open(&self->environment, &self->secret, &store);
    if (self->rc == 0 && self->body)
        self->rc = self->body(store, self);
    snprintf(self->words, sizeof self->words, "%s", br_error_words());
    if (store)
        br_store_counters(store, &self->counters);
    br_store_close(store);
    return NULL;
}

static void start(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

static void finish(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
}

static void all_fine(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i].rc)
            fail_msg("rank %u: %d %s", i, ranks[i].rc, ranks[i].words);
}

static void says(const struct rank *rank, int err, const char *words)
{
    if (rank->rc != -err || !strstr(rank->words, words))
        fail_msg("rank %u: %d \"%s\", expected %d and \"%s\"", rank->environment.rank, rank->rc, rank->words,
                 -err, words);
}

static uint64_t soon(uint64_t ns)
{
    return br_clock_now() + ns;
}

/* ---- speaking by hand ---- */

static int dial(void)
{
    uint64_t end = soon(5 * BR_SEC);
    int fd, rc;

    while ((rc = br_socket_connect("127.0.0.1", port, end, &fd)) < 0 && br_clock_now() < end)
        usleep(5000);
    assert_int_equal(rc, 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    assert_int_equal(br_socket_send(fd, bytes, n, soon(5 * BR_SEC)), 0);
}

/* The next message, in `bytes`. */
static struct br_store_message hear(int fd, uint8_t bytes[512])
{
    struct br_store_message message;
    size_t have = 0;
    int rc;

    while ((rc = br_store_parse(bytes, have, 512 - 16, &message)) == 1) {
        assert_int_equal(br_socket_receive(fd, bytes + have, message.bytes - have, soon(5 * BR_SEC)), 0);
        have = message.bytes;
    }
    assert_int_equal(rc, 0);
    return message;
}

static void until_closed(int fd)
{
    char byte;

    while (br_socket_receive(fd, &byte, 1, soon(10 * BR_SEC)) == 0)
        ;
    assert_null(strstr(br_error_words(), "timed out"));
    close(fd);
}

/* A member that takes its seat and then does what the test wants. */
static int join_by_hand(uint32_t rank)
{
    struct br_store_hello hello = {
        .rank = rank, .size = ranks[0].environment.size, .pid = 4711, .host = "byhand"};
    struct br_store_challenge challenge;
    struct br_store_message message;
    struct br_store_proof proof;
    uint8_t bytes[512];
    int fd = dial();

    say(fd, bytes, br_store_write(bytes, BR_STORE_HELLO, &hello, sizeof hello));
    message = hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_CHALLENGE);
    challenge = message.challenge;
    br_store_prove(&ranks[0].secret, false, &hello, &challenge, &proof);
    say(fd, bytes, br_store_write(bytes, BR_STORE_PROOF, &proof, sizeof proof));
    message = hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_WELCOME);
    br_store_prove(&ranks[0].secret, true, &hello, &challenge, &proof);
    assert_true(br_store_proof_equal(&message.proof, &proof));
    return fd;
}

/* ---- what works ---- */

static int exchange(struct br_store *store, struct rank *self)
{
    uint32_t rank = self->environment.rank, size = self->environment.size, mine = 100 + rank, all[RANKS_MAX];
    char key[32], value[32];
    size_t n = 0;
    int rc;

    for (int round = 0; round < 20; round++) {
        snprintf(key, sizeof key, "address/%u/%d", rank, round);
        rc = br_store_put(store, key, key, strlen(key), soon(LONG));
        for (uint32_t i = 0; i < size && rc == 0; i++) {
            snprintf(key, sizeof key, "address/%u/%d", i, round);
            rc = br_store_get(store, key, value, sizeof value, &n, soon(LONG));
            if (rc == 0 && (n != strlen(key) || memcmp(key, value, n)))
                rc = -EBADMSG;
        }
        mine++;
        if (rc == 0)
            rc = br_store_gather(store, "numbers", &mine, sizeof mine, all, soon(LONG));
        for (uint32_t i = 0; i < size && rc == 0; i++)
            if (all[i] != mine - rank + i)
                rc = -EBADMSG;
        if (rc == 0)
            rc = br_store_barrier(store, "round", soon(LONG));
        if (rc < 0)
            return rc;
    }
    return 0;
}

static void store_open__ranks_exchange_values(void **state)
{
    (void)state;
    make(4);
    for (uint32_t i = 0; i < 4; i++)
        ranks[i].body = exchange;
    ranks[0].late = 150 * BR_MS; /* the others come before there is a server */
    ranks[2].late = 50 * BR_MS;
    start(0, 4);
    finish(0, 4);
    all_fine(4);
    assert_int_equal(ranks[0].counters.accepted, 4);
    assert_int_equal(ranks[0].counters.refused + ranks[0].counters.malformed, 0);
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
            make(3);
            for (uint32_t i = 0; i < 3; i++) {
                strcpy(ranks[i].environment.address, addresses[a]);
                ranks[i].environment.local_known = known;
                ranks[i].body = exchange;
            }
            start(0, 3);
            finish(0, 3);
            all_fine(3);
        }
    }
}

static int large_values(struct br_store *store, struct rank *self)
{
    static const size_t size = BR_STORE_VALUE_MAX;
    uint32_t rank = self->environment.rank;
    uint8_t *all = malloc(3 * size), *mine = malloc(size);
    size_t n;
    int rc;

    memset(mine, (int)rank + 1, size);
    rc = br_store_gather(store, "large", mine, size, all, soon(LONG));
    for (size_t i = 0; i < 3 * size && rc == 0; i++)
        if (all[i] != i / size + 1)
            rc = -EBADMSG;
    if (rc == 0 && br_store_put(store, "x", mine, size + 1, soon(LONG)) != -EINVAL)
        rc = -EBADMSG;
    if (rc == 0)
        rc = br_store_put(store, "same", mine, size, soon(LONG));
    if (rc == 0 && br_store_get(store, "same", all, 10, &n, soon(LONG)) != -ENOSPC)
        rc = -EBADMSG;
    if (rc == 0)
        rc = br_store_get(store, "same", all, size, &n, soon(LONG));
    if (rc == 0 && n != size)
        rc = -EBADMSG;
    free(all);
    free(mine);
    return rc ? rc : br_store_barrier(store, "end", soon(LONG));
}

static void store_gather__largest_values(void **state)
{
    (void)state;
    make(3);
    for (uint32_t i = 0; i < 3; i++)
        ranks[i].body = large_values;
    start(0, 3);
    finish(0, 3);
    all_fine(3);
}

static int bad_arguments(struct br_store *store, struct rank *self)
{
    char key[BR_STORE_KEY_MAX + 2];
    size_t n;

    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = 0;
    (void)self;
    if (br_store_put(store, "", "x", 1, soon(LONG)) != -EINVAL ||
        br_store_put(store, key, "x", 1, soon(LONG)) != -EINVAL ||
        br_store_put(store, "a\nb", "x", 1, soon(LONG)) != -EINVAL)
        return -EBADMSG;
    key[BR_STORE_KEY_MAX] = 0;
    if (br_store_put(store, key, "x", 1, soon(LONG)) != 0)
        return -EBADMSG;
    return br_store_get(store, "nothing", key, sizeof key, &n, soon(300 * BR_MS));
}

static void store_get__nobody_puts(void **state)
{
    uint64_t begin = br_clock_now();

    (void)state;
    make(1);
    ranks[0].body = bad_arguments;
    start(0, 1);
    finish(0, 1);
    says(&ranks[0], ETIMEDOUT, "nobody has stored 'nothing' in time");
    assert_true(br_clock_now() - begin < 2 * BR_SEC);
}

/* ---- ranks that are wrong ---- */

static void store_open__two_processes_with_one_rank(void **state)
{
    (void)state;
    make(4);
    ranks[3].environment.rank = 1;
    start(0, 4);
    finish(0, 4);
    for (int i = 0; i < 4; i++)
        says(&ranks[i], EEXIST, "two processes are rank 1: process ");
}

static void store_open__two_processes_with_rank_zero(void **state)
{
    (void)state;
    make(3);
    ranks[2].environment.rank = 0;
    ranks[2].late = 100 * BR_MS;
    start(0, 3);
    finish(0, 3);
    for (int i = 0; i < 3; i++)
        says(&ranks[i], EEXIST, "two processes are rank 0: process ");
}

static void store_open__a_rank_that_never_comes(void **state)
{
    uint64_t begin = br_clock_now();

    (void)state;
    make(5);
    for (int i = 0; i < 5; i++)
        ranks[i].environment.init_timeout = i == 1 ? BR_SEC : LONG;
    start(0, 2);
    start(3, 4);
    finish(0, 2);
    finish(3, 4);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            says(&ranks[i], ETIMEDOUT, "ranks 2, 4 of 5 never came");
    assert_true(br_clock_now() - begin < 5 * BR_SEC);
}

static void store_open__rank_zero_never_comes(void **state)
{
    char words[64];

    (void)state;
    make(2);
    ranks[1].environment.init_timeout = BR_SEC;
    start(1, 2);
    finish(1, 2);
    snprintf(words, sizeof words, "no store of rank 0 at 127.0.0.1:%u after 1 s", port);
    says(&ranks[1], ETIMEDOUT, words);
    says(&ranks[1], ETIMEDOUT, "Connection refused");
}

static void store_open__unknown_host(void **state)
{
    (void)state;
    make(2);
    strcpy(ranks[1].environment.address, "no-such-host.invalid");
    ranks[1].environment.init_timeout = BR_SEC;
    start(1, 2);
    finish(1, 2);
    says(&ranks[1], ETIMEDOUT, "MASTER_ADDR=no-such-host.invalid");
}

static void store_open__different_world_sizes(void **state)
{
    (void)state;
    make(3);
    ranks[2].environment.size = 4;
    start(0, 3);
    finish(0, 3);
    for (int i = 0; i < 3; i++)
        says(&ranks[i], EPROTO, "counts 4 ranks, rank 0 counts 3: set the same WORLD_SIZE");
}

static void store_open__wrong_secret(void **state)
{
    (void)state;
    make(3);
    ranks[0].environment.init_timeout = BR_SEC;
    ranks[2].secret.key[0] ^= 1;
    start(0, 3);
    finish(0, 3);
    says(&ranks[2], EPERM, "we do not know the job's secret");
    for (int i = 0; i < 2; i++) {
        says(&ranks[i], ETIMEDOUT, "rank 2 of 3 never came");
        says(&ranks[i], ETIMEDOUT, "does not know the job's secret");
    }
}

static void store_open__a_rank_is_lost(void **state)
{
    int fd;

    (void)state;
    make(3);
    start(0, 2);
    fd = join_by_hand(2);
    close(fd);
    finish(0, 2);
    for (int i = 0; i < 2; i++)
        says(&ranks[i], ECONNRESET, "rank 2 (process 4711 on byhand) has ended or was lost");
}

static int leave_or_wait(struct br_store *store, struct rank *self)
{
    return self->environment.rank == 1 ? 0 : br_store_barrier(store, "end", soon(LONG));
}

static void store_gather__a_rank_has_left(void **state)
{
    (void)state;
    make(3);
    for (int i = 0; i < 3; i++)
        ranks[i].body = leave_or_wait;
    start(0, 3);
    finish(0, 3);
    assert_int_equal(ranks[1].rc, 0);
    says(&ranks[0], ECONNRESET, "rank 1 (process ");
    says(&ranks[2], ECONNRESET, "'end'");
}

static int late_or_wait(struct br_store *store, struct rank *self)
{
    if (self->environment.rank == 1)
        usleep(600000);
    return br_store_barrier(store, "end", soon(300 * BR_MS));
}

static void store_gather__a_rank_is_late(void **state)
{
    (void)state;
    make(3);
    for (int i = 0; i < 3; i++)
        ranks[i].body = late_or_wait;
    start(0, 3);
    finish(0, 3);
    for (int i = 0; i < 3; i++)
        says(&ranks[i], ETIMEDOUT, "rank 1 of 3 did not come to 'end' in time");
}

static int different_lengths(struct br_store *store, struct rank *self)
{
    uint64_t mine = 0, all[3];

    return br_store_gather(store, "sizes", &mine, self->environment.rank == 1 ? 8 : 4, all, soon(LONG));
}

static void store_gather__different_lengths(void **state)
{
    (void)state;
    make(3);
    for (int i = 0; i < 3; i++)
        ranks[i].body = different_lengths;
    start(0, 3);
    finish(0, 3);
    for (int i = 0; i < 3; i++)
        says(&ranks[i], EPROTO, "different versions or settings");
}

/* ---- strangers ---- */

static void store_open__silent_and_chattering_strangers(void **state)
{
    static uint8_t garbage[4096];
    int fds[300];
    uint64_t begin;

    (void)state;
    make(3);
    memset(garbage, 0x5a, sizeof garbage);
    for (uint32_t i = 0; i < 3; i++)
        ranks[i].body = exchange;
    start(0, 1);
    begin = br_clock_now();
    for (int i = 0; i < 300; i++) {
        fds[i] = dial();
        if (i % 3 == 0)
            send(fds[i], garbage, sizeof garbage, MSG_NOSIGNAL);
    }
    start(1, 3);
    finish(0, 3);
    all_fine(3);
    assert_true(br_clock_now() - begin < 8 * BR_SEC);
    assert_true(ranks[0].counters.pushed_out >= 100);
    assert_true(ranks[0].counters.malformed >= 50);
    assert_true(ranks[0].counters.accepted >= 303);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
}

static void store_open__a_silent_stranger_is_sent_away(void **state)
{
    uint64_t begin;
    int fd;

    (void)state;
    make(2);
    start(0, 1);
    fd = dial();
    begin = br_clock_now();
    until_closed(fd);
    assert_true(br_clock_now() - begin > 4 * BR_SEC);
    assert_true(br_clock_now() - begin < 7 * BR_SEC);
    start(1, 2);
    finish(0, 2);
    all_fine(2);
    assert_int_equal(ranks[0].counters.timed_out, 1);
}

/* A stranger gets nothing but an end for a request, or for a hello that is too long. */
static void store_open__requests_without_proof(void **state)
{
    struct br_store_header header = {
        .magic = BR_STORE_MAGIC, .version = BR_STORE_VERSION, .kind = BR_STORE_HELLO, .bytes = 1u << 30};
    uint8_t bytes[512];
    int fd;

    (void)state;
    make(2);
    start(0, 1);
    fd = dial();
    say(fd, bytes, br_store_write_request(bytes, BR_STORE_GET, 1000, "address/0", NULL, 0));
    until_closed(fd);
    fd = dial();
    say(fd, &header, sizeof header);
    until_closed(fd);
    start(1, 2);
    finish(0, 2);
    all_fine(2);
    assert_int_equal(ranks[0].counters.malformed, 2);
}

static void store_open__a_hello_of_another_version(void **state)
{
    struct br_store_hello hello = {.rank = 2, .size = 3, .pid = 1, .host = "newer"};
    struct br_store_message message;
    uint8_t bytes[512];
    int fd;

    (void)state;
    make(3);
    ranks[0].environment.init_timeout = BR_SEC;
    start(0, 2);
    fd = dial();
    br_store_write(bytes, BR_STORE_HELLO, &hello, sizeof hello);
    bytes[4] = BR_STORE_VERSION + 1;
    say(fd, bytes, sizeof(struct br_store_header) + sizeof hello);
    message = hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_ERROR);
    assert_int_equal(message.error.err, EPROTONOSUPPORT);
    close(fd);
    finish(0, 2);
    for (int i = 0; i < 2; i++) {
        says(&ranks[i], ETIMEDOUT, "rank 2 of 3 never came");
        says(&ranks[i], ETIMEDOUT, "speaks version 2 of the store protocol, we speak 1");
    }
}

static void store_request__two_at_once(void **state)
{
    uint8_t bytes[512];
    size_t n;
    int fd;

    (void)state;
    make(2);
    start(0, 1);
    fd = join_by_hand(1);
    n = br_store_write_request(bytes, BR_STORE_GET, 10000, "nothing", NULL, 0);
    say(fd, bytes, n);
    say(fd, bytes, n);
    until_closed(fd);
    finish(0, 1);
    says(&ranks[0], ECONNRESET, "rank 1 (process 4711 on byhand)");
}

/* ---- ports of others ---- */

static void store_open__port_is_taken(void **state)
{
    int fd;

    (void)state;
    make(2);
    assert_int_equal(br_socket_listen("127.0.0.1", port, true, &fd), 0);
    start(0, 1);
    finish(0, 1);
    close(fd);
    says(&ranks[0], EADDRINUSE, "another program uses it, choose another MASTER_PORT");
}

/* What listens there greets first, or is a braid of another version. */
static void store_open__another_server(void **state)
{
    static const struct br_store_challenge challenge = {.nonce = "x"};
    static const char greeting[] = "220 mail.example.org ESMTP here";
    uint8_t bytes[64];
    int fd, peer;

    (void)state;
    for (int newer = 0; newer < 2; newer++) {
        make(2);
        assert_int_equal(br_socket_listen("127.0.0.1", port, true, &fd), 0);
        start(1, 2);
        while ((peer = accept(fd, NULL, NULL)) < 0)
            usleep(1000);
        if (newer) {
            br_store_write(bytes, BR_STORE_CHALLENGE, &challenge, sizeof challenge);
            bytes[4] = BR_STORE_VERSION + 1;
            say(peer, bytes, 48);
        } else {
            say(peer, greeting, sizeof greeting);
        }
        finish(1, 2);
        close(peer);
        close(fd);
        if (newer)
            says(&ranks[1], EPROTONOSUPPORT,
                 "speaks version 2 of the store protocol, we speak 1: install the same");
        else
            says(&ranks[1], EPROTO, "no braid at the other end");
    }
}

/* Knows the protocol, but not the secret: its WELCOME is not taken. */
static void store_open__a_store_without_the_secret(void **state)
{
    struct br_store_challenge challenge = {.nonce = "x"};
    struct br_store_message message;
    struct br_store_proof proof;
    uint8_t bytes[512];
    int fd, peer;

    (void)state;
    make(2);
    assert_int_equal(br_socket_listen("127.0.0.1", port, true, &fd), 0);
    start(1, 2);
    while ((peer = accept(fd, NULL, NULL)) < 0)
        usleep(1000);
    message = hear(peer, bytes);
    assert_int_equal(message.kind, BR_STORE_HELLO);
    say(peer, bytes, br_store_write(bytes, BR_STORE_CHALLENGE, &challenge, sizeof challenge));
    message = hear(peer, bytes);
    assert_int_equal(message.kind, BR_STORE_PROOF);
    proof = message.proof; /* reflected */
    say(peer, bytes, br_store_write(bytes, BR_STORE_WELCOME, &proof, sizeof proof));
    finish(1, 2);
    close(peer);
    close(fd);
    says(&ranks[1], EPERM, "it does not know the job's secret");
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
        cmocka_unit_test(store_open__silent_and_chattering_strangers),
        cmocka_unit_test(store_open__a_silent_stranger_is_sent_away),
        cmocka_unit_test(store_open__requests_without_proof),
        cmocka_unit_test(store_open__a_hello_of_another_version),
        cmocka_unit_test(store_request__two_at_once),
        cmocka_unit_test(store_open__port_is_taken),
        cmocka_unit_test(store_open__another_server),
        cmocka_unit_test(store_open__a_store_without_the_secret),
    };

    br_log_set_level(BR_LOG_ERROR); /* refusals are what is tested */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
