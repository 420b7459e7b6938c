/* SPDX-License-Identifier: BSD-3-Clause */
/* Who comes to the store without belonging to the job, and who listens in its place. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/protocol/bootstrap/store_job.h"
#include "protocol/bootstrap/store_socket.h"

/* ---- unauthenticated peers ------------------------------------------------------------------- */

static void store_open__silent_and_chattering_unauthenticated_peers(void **state)
{
    static uint8_t garbage[4096];
    int fds[300];

    (void)state;
    store_make(3);
    memset(garbage, 0x5a, sizeof garbage);
    for (uint32_t i = 0; i < 3; i++)
        store_ranks[i].body = store_exchange;
    store_start(0, 1);
    for (int i = 0; i < 300; i++) {
        fds[i] = store_dial();
        if (i % 3 == 0)
            send(fds[i], garbage, sizeof garbage, MSG_NOSIGNAL);
    }
    store_start(1, 3);
    store_finish(0, 3);
    store_all_fine(3);
    assert_true(store_ranks[0].counters.pushed_out + store_ranks[0].counters.timed_out >= 100);
    assert_true(store_ranks[0].counters.malformed >= 50);
    assert_true(store_ranks[0].counters.accepted >= 303);
    for (int i = 0; i < 300; i++)
        close(fds[i]);
}

/* Half of them malformed, half of another version. */
static void store_open__a_thousand_unauthenticated_peers_leave_few_lines(void **state)
{
    static const char garbage[32] = "GET / HTTP/1.1";
    char answer[400];
    struct br_store_header newer = {.magic = BR_STORE_MAGIC, .version = BR_STORE_VERSION + 1};
    int saved = dup(STDERR_FILENO), lines = 0;
    FILE *log = tmpfile();
    uint64_t begun = br_clock_now();
    size_t minutes;

    (void)state;
    assert_non_null(log);
    assert_true(saved >= 0);
    br_log_set_level(BR_LOG_INFO);
    dup2(fileno(log), STDERR_FILENO);
    store_make(2);
    store_start(0, 1);
    for (int i = 0; i < 1000; i++) {
        int fd = store_dial();

        send(fd, i % 2 ? garbage : (const char *)&newer, sizeof newer, MSG_NOSIGNAL);
        recv(fd, answer, sizeof answer, 0); /* the refusal, or the end */
        close(fd);
    }
    store_start(1, 2);
    store_finish(0, 2);
    dup2(saved, STDERR_FILENO);
    close(saved);
    br_log_set_level(BR_LOG_ERROR);
    rewind(log);
    for (int c; (c = getc(log)) != EOF;)
        lines += c == '\n';
    fclose(log);
    minutes = (size_t)((br_clock_now() - begun) / (60 * BR_SEC)) + 1;
    store_all_fine(2);
    assert_true(store_ranks[0].counters.malformed + store_ranks[0].counters.refused >= 1000);
    /* two limits a minute, with a line each for what they left out */
    assert_in_range(lines, 2 * BR_LOG_LIMIT_LINES, minutes * 2 * (BR_LOG_LIMIT_LINES + 1) + 31);
}

static void store_open__a_silent_peer_is_sent_away(void **state)
{
    uint64_t begin;
    int fd;

    (void)state;
    store_make(2);
    store_start(0, 1);
    begin = br_clock_now();
    fd = store_dial();
    store_until_closed(fd);
    assert_true(br_clock_now() - begin > 4 * BR_SEC);
    store_start(1, 2);
    store_finish(0, 2);
    store_all_fine(2);
    assert_true(store_ranks[0].counters.timed_out > 0);
}

/* An unauthenticated peer gets nothing but an end for a request, or for a hello that is too
 * long. */
static void store_open__requests_without_proof(void **state)
{
    struct br_store_header header = {.magic = BR_STORE_MAGIC,
                                     .version = BR_STORE_VERSION,
                                     .kind = BR_STORE_HELLO,
                                     .bytes = 1u << 30};
    uint8_t bytes[512];
    int fd;

    (void)state;
    store_make(2);
    store_start(0, 1);
    fd = store_dial();
    store_say(fd, bytes, br_store_write_request(bytes, BR_STORE_GET, 1000, "address/0", NULL, 0));
    store_until_closed(fd);
    fd = store_dial();
    store_say(fd, &header, sizeof header);
    store_until_closed(fd);
    store_start(1, 2);
    store_finish(0, 2);
    store_all_fine(2);
    assert_int_equal(store_ranks[0].counters.malformed, 2);
}

static void store_open__a_hello_of_another_version(void **state)
{
    struct br_store_hello hello = {.rank = 2, .size = 3, .pid = 1, .host = "newer"};
    struct br_store_message message;
    uint8_t bytes[512];
    int fd;

    (void)state;
    store_make(3);
    store_start(0, 1);
    fd = store_dial();
    br_store_write(bytes, BR_STORE_HELLO, &hello, sizeof hello);
    bytes[4] = BR_STORE_VERSION + 1;
    store_say(fd, bytes, sizeof(struct br_store_header) + sizeof hello);
    message = store_hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_ERROR);
    assert_int_equal(message.error.err, EPROTONOSUPPORT);
    close(fd);
    fd = store_join_by_hand(1); /* does not wait for rank 2 as long as rank 0 would */
    store_say(fd, bytes, br_store_write_request(bytes, BR_STORE_GATHER, 1, "start", NULL, 0));
    message = store_hear(fd, bytes);
    assert_int_equal(message.kind, BR_STORE_ERROR);
    assert_int_equal(message.error.err, ETIMEDOUT);
    close(fd);
    store_finish(0, 1);
    store_says(&store_ranks[0], ETIMEDOUT, "2 of 3|never came"); /* rank 0 may be late, too */
    store_says(&store_ranks[0], ETIMEDOUT, "version 3|we speak 2");
}

static void store_request__two_at_once(void **state)
{
    uint8_t bytes[512];
    size_t n;
    int fd;

    (void)state;
    store_make(2);
    store_start(0, 1);
    fd = store_join_by_hand(1);
    n = br_store_write_request(bytes, BR_STORE_GET, 10000, "nothing", NULL, 0);
    store_say(fd, bytes, n);
    store_say(fd, bytes, n);
    store_until_closed(fd);
    store_finish(0, 1);
    store_says(&store_ranks[0], ECONNRESET, "rank 1 (process 4711 on byhand)");
}

/* ---- what the process lacks ------------------------------------------------------------------ */

/* Rank 0 has two descriptors for the store and one for its own connection, but none to take it. */
static void store_open__no_file_descriptors_left(void **state)
{
    struct rlimit before, few;
    int next;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    /* its thread may stand still for longer than the time of a rank that waits for it */
    for (uint64_t time = BR_SEC; time < STORE_LONG; time *= 2) {
        store_make(2);
        store_ranks[0].environment.init_timeout = time;
        next = dup(STDERR_FILENO);
        assert_true(next >= 0);
        close(next);
        few.rlim_cur = (rlim_t)next + 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        store_start(0, 1);
        store_finish(0, 1);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (store_ranks[0].rc != -ETIMEDOUT)
            break;
    }
    store_says(&store_ranks[0], EMFILE, "rank 0|ulimit -n");
}

/* ---- ports of others ------------------------------------------------------------------------- */

static void store_open__port_is_taken(void **state)
{
    int fd;

    (void)state;
    store_make(2);
    assert_int_equal(br_socket_listen("127.0.0.1", store_port, true, &fd), 0);
    store_start(0, 1);
    store_finish(0, 1);
    close(fd);
    store_says(&store_ranks[0], EADDRINUSE, "another program|MASTER_PORT");
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
        store_make(2);
        assert_int_equal(br_socket_listen("127.0.0.1", store_port, true, &fd), 0);
        store_start(1, 2);
        while ((peer = accept(fd, NULL, NULL)) < 0)
            usleep(1000);
        if (newer) {
            br_store_write(bytes, BR_STORE_CHALLENGE, &challenge, sizeof challenge);
            bytes[4] = BR_STORE_VERSION + 1;
            store_say(peer, bytes, 48);
        } else {
            store_say(peer, greeting, sizeof greeting);
        }
        store_finish(1, 2);
        close(peer);
        close(fd);
        if (newer)
            store_says(&store_ranks[1], EPROTONOSUPPORT, "version 3|we speak 2");
        else
            store_says(&store_ranks[1], EPROTO, "no braid");
    }
}

/* A server that has proved nothing gets no memory from us for a long answer: 257 bytes are refused
 * before they come, 256 waited for. */
static void store_open__a_long_answer_before_the_proof(void **state)
{
    struct br_store_header header = {.magic = BR_STORE_MAGIC, .version = BR_STORE_VERSION};
    uint64_t begin = br_clock_now();
    uint8_t bytes[512];
    int fd, peer;

    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        store_make(2);
        store_ranks[1].environment.init_timeout = over ? STORE_LONG : STORE_SHORT;
        assert_int_equal(br_socket_listen("127.0.0.1", store_port, true, &fd), 0);
        store_start(1, 2);
        while ((peer = accept(fd, NULL, NULL)) < 0)
            usleep(1000);
        assert_int_equal(store_hear(peer, bytes).kind, BR_STORE_HELLO);
        header.kind = BR_STORE_ERROR;
        header.bytes = over ? BR_STORE_GATHER_MAX : BR_STORE_UNPROVED_MAX;
        store_say(peer, &header, sizeof header);
        store_finish(1, 2);
        close(peer);
        close(fd);
        store_says(&store_ranks[1], over ? EPROTO : ETIMEDOUT,
                   over ? "body too long" : "no store of rank 0");
    }
    assert_true(br_clock_now() - begin < STORE_LONG);
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
    store_make(2);
    assert_int_equal(br_socket_listen("127.0.0.1", store_port, true, &fd), 0);
    store_start(1, 2);
    while ((peer = accept(fd, NULL, NULL)) < 0)
        usleep(1000);
    message = store_hear(peer, bytes);
    assert_int_equal(message.kind, BR_STORE_HELLO);
    store_say(peer, bytes, br_store_write(bytes, BR_STORE_CHALLENGE, &challenge, sizeof challenge));
    message = store_hear(peer, bytes);
    assert_int_equal(message.kind, BR_STORE_PROOF);
    proof = message.proof; /* reflected */
    store_say(peer, bytes, br_store_write(bytes, BR_STORE_WELCOME, &proof, sizeof proof));
    store_finish(1, 2);
    close(peer);
    close(fd);
    store_says(&store_ranks[1], EPERM, "it does not|secret");
}

/* By hand: the store of a job of two, on whose connection rank 1 has proved itself. */
static int welcome(int listener)
{
    static const struct br_store_challenge challenge = {.nonce = "x"};
    struct br_store_message message;
    struct br_store_hello hello;
    struct br_store_proof proof;
    uint8_t bytes[512];
    int peer;

    while ((peer = accept(listener, NULL, NULL)) < 0)
        usleep(1000);
    hello = store_hear(peer, bytes).hello;
    store_say(peer, bytes, br_store_write(bytes, BR_STORE_CHALLENGE, &challenge, sizeof challenge));
    message = store_hear(peer, bytes);
    assert_int_equal(message.kind, BR_STORE_PROOF);
    br_store_prove(&store_ranks[1].secret, true, &hello, &challenge, &proof);
    store_say(peer, bytes, br_store_write(bytes, BR_STORE_WELCOME, &proof, sizeof proof));
    return peer;
}

/* Rank 0 stood still when the rank's time was over: it gets to hear who is missing all the same.
 * The rank waits for an eighth of its time; where we come later than that this says nothing, and is
 * done again. */
static void store_open__a_store_whose_words_come_late(void **state)
{
    uint8_t bytes[512];
    uint64_t said;
    int fd, peer;

    (void)state;
    do {
        store_make(2);
        store_ranks[1].environment.init_timeout = STORE_SHORT;
        assert_int_equal(br_socket_listen("127.0.0.1", store_port, true, &fd), 0);
        store_start(1, 2);
        peer = welcome(fd);
        assert_int_equal(store_hear(peer, bytes).kind, BR_STORE_GATHER);
        while (br_clock_now() <= store_ranks[1].deadline)
            usleep(1000);
        store_say(peer, bytes, br_store_write_error(bytes, ETIMEDOUT, "rank 7 of 9 never came"));
        said = br_clock_now();
        store_finish(1, 2);
        close(peer);
        close(fd);
    } while (said > store_ranks[1].deadline + STORE_SHORT / 8);
    store_says(&store_ranks[1], ETIMEDOUT, "rank 7|9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_open__silent_and_chattering_unauthenticated_peers),
        cmocka_unit_test(store_open__a_thousand_unauthenticated_peers_leave_few_lines),
        cmocka_unit_test(store_open__a_silent_peer_is_sent_away),
        cmocka_unit_test(store_open__requests_without_proof),
        cmocka_unit_test(store_open__a_hello_of_another_version),
        cmocka_unit_test(store_request__two_at_once),
        cmocka_unit_test(store_open__no_file_descriptors_left),
        cmocka_unit_test(store_open__port_is_taken),
        cmocka_unit_test(store_open__another_server),
        cmocka_unit_test(store_open__a_long_answer_before_the_proof),
        cmocka_unit_test(store_open__a_store_without_the_secret),
        cmocka_unit_test(store_open__a_store_whose_words_come_late),
    };

    br_log_set_level(BR_LOG_ERROR); /* refusals are what is tested */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
