/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/protocol/bootstrap/store_job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "protocol/bootstrap/store_socket.h"
#include "tests/says.h"

struct store_rank store_ranks[STORE_RANKS];
uint16_t store_port;

void store_make(uint32_t n)
{
    static int reserved = -1; /* until the next job */

    memset(store_ranks, 0, sizeof store_ranks);
    if (reserved >= 0)
        close(reserved);
    assert_int_equal(br_socket_reserve("127.0.0.1", &store_port, &reserved), 0);
    for (uint32_t i = 0; i < n; i++) {
        store_ranks[i].environment = (struct br_environment){.rank = i,
                                                             .size = n,
                                                             .local_rank = i,
                                                             .local_size = n,
                                                             .local_known = true,
                                                             .port = store_port,
                                                             .init_timeout = STORE_LONG,
                                                             .address = "127.0.0.1"};
        assert_int_equal(br_secret_derive("the secret of the tests", 23, &store_ranks[i].secret),
                         0);
    }
}

static void *run_rank(void *argument)
{
    struct store_rank *self = argument;
    struct br_store *store = NULL;

    usleep((useconds_t)(self->late / BR_US));
    self->deadline = store_soon(self->environment.init_timeout);
    self->rc = br_store_open(&self->environment, &self->secret, self->deadline, &store);
    if (self->rc == 0 && self->body)
        self->rc = self->body(store, self);
    snprintf(self->message, sizeof self->message, "%s", br_error_message());
    if (store)
        br_store_counters(store, &self->counters);
    br_store_close(store);
    return NULL;
}

void store_start(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        assert_int_equal(pthread_create(&store_ranks[i].thread, NULL, run_rank, &store_ranks[i]),
                         0);
}

void store_finish(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        assert_int_equal(pthread_join(store_ranks[i].thread, NULL), 0);
}

void store_all_fine(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (store_ranks[i].rc)
            fail_msg("rank %u: %d %s", i, store_ranks[i].rc, store_ranks[i].message);
}

void store_says(const struct store_rank *rank, int err, const char *text)
{
    if (rank->rc != -err || !says_all(rank->message, text))
        fail_msg("rank %u: %d \"%s\", expected %d and \"%s\"", rank->environment.rank, rank->rc,
                 rank->message, -err, text);
}

uint64_t store_soon(uint64_t ns)
{
    return br_clock_now() + ns;
}

int store_dial(void)
{
    uint64_t end = store_soon(STORE_LONG);
    int fd, rc;

    while ((rc = br_socket_connect("127.0.0.1", store_port, end, &fd)) < 0 && br_clock_now() < end)
        usleep(5000);
    assert_int_equal(rc, 0);
    return fd;
}

void store_say(int fd, const void *bytes, size_t n)
{
    assert_int_equal(br_socket_send(fd, bytes, n, store_soon(STORE_LONG)), 0);
}

struct br_store_message store_hear(int fd, uint8_t bytes[512])
{
    struct br_store_message message;
    size_t have = 0;
    int rc;

    while ((rc = br_store_parse(bytes, have, 512 - 16, &message)) == 1) {
        assert_int_equal(
            br_socket_receive(fd, bytes + have, message.bytes - have, store_soon(STORE_LONG)), 0);
        have = message.bytes;
    }
    assert_int_equal(rc, 0);
    return message;
}

void store_until_closed(int fd)
{
    char byte;

    while (br_socket_receive(fd, &byte, 1, store_soon(STORE_LONG)) == 0)
        ;
    assert_null(strstr(br_error_message(), "timed out"));
    close(fd);
}

int store_join_by_hand(uint32_t rank)
{
    struct br_store_hello hello = {
        .rank = rank, .size = store_ranks[0].environment.size, .pid = 4711, .host = "byhand"};
    struct br_store_challenge challenge;
    struct br_store_message message;
    struct br_store_proof proof;
    uint8_t bytes[512];
    int fd = store_dial();

    store_say(fd, bytes, br_store_write(bytes, BR_STORE_HELLO, &hello, sizeof hello));
    message = store_hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_CHALLENGE);
    challenge = message.challenge;
    br_store_prove(&store_ranks[0].secret, false, &hello, &challenge, &proof);
    store_say(fd, bytes, br_store_write(bytes, BR_STORE_PROOF, &proof, sizeof proof));
    message = store_hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_WELCOME);
    br_store_prove(&store_ranks[0].secret, true, &hello, &challenge, &proof);
    assert_true(br_store_proof_equal(&message.proof, &proof));
    return fd;
}

int store_exchange(struct br_store *store, struct store_rank *self)
{
    uint32_t rank = self->environment.rank, size = self->environment.size, mine = 100 + rank,
             all[STORE_RANKS];
    char key[32], value[32];
    size_t n = 0;
    int rc;

    for (int round = 0; round < 20; round++) {
        snprintf(key, sizeof key, "address/%u/%d", rank, round);
        rc = br_store_put(store, key, key, strlen(key), store_soon(STORE_LONG));
        for (uint32_t i = 0; i < size && rc == 0; i++) {
            snprintf(key, sizeof key, "address/%u/%d", i, round);
            rc = br_store_get(store, key, value, sizeof value, &n, store_soon(STORE_LONG));
            if (rc == 0 && (n != strlen(key) || memcmp(key, value, n)))
                rc = -EBADMSG;
        }
        mine++;
        if (rc == 0)
            rc = br_store_gather(store, "numbers", &mine, sizeof mine, all, store_soon(STORE_LONG));
        for (uint32_t i = 0; i < size && rc == 0; i++)
            if (all[i] != mine - rank + i)
                rc = -EBADMSG;
        if (rc == 0)
            rc = br_store_barrier(store, "round", store_soon(STORE_LONG));
        if (rc < 0)
            return rc;
    }
    return 0;
}
