/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "protocol/bootstrap/store_socket.h"

static struct br_exchange client;

static void *connect_client(void *settings)
{
    return (void *)(intptr_t)br_exchange_connect(settings, &client);
}

/* Whether a socket that knows nothing of ours may have the port. */
static bool is_free(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;

    close(fd);
    return bound;
}

/* Until the store listens there, nobody else is given its port; the store is. */
static void br_exchange_accept__keeps_the_port_of_the_store(void **state)
{
    struct br_perf_settings settings, asked, agreed;
    struct br_exchange server;
    pthread_t thread;
    uint16_t port;
    void *rc;
    int reserved, listener, store;

    (void)state;
    assert_int_equal(br_perf_settings_parse(&settings, 1, (char *[]){"write_lat", NULL}), 0);
    assert_int_equal(br_perf_settings_read(&asked, 1, (char *[]){"write_lat", NULL}), 0);
    assert_int_equal(br_socket_reserve(NULL, &port, &reserved), 0);
    settings.port = port;
    assert_int_equal(br_exchange_listen(&settings, &listener), 0);
    settings.server = "127.0.0.1";
    assert_int_equal(pthread_create(&thread, NULL, connect_client, &settings), 0);
    assert_int_equal(br_exchange_accept(listener, &asked, &agreed, &server), 0);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_null(rc);
    assert_int_equal(client.port, server.port);
    assert_string_equal(client.secret, server.secret);
    assert_false(is_free(server.port));
    assert_int_equal(br_socket_listen("", server.port, false, &store), 0);
    close(store);
    assert_int_equal(close(server.reserved), 0);
    close(listener);
    close(reserved);
}

/* A server that answers with a text of its choice, `reply`. */
static int listener;
static const char *reply;

static void *answer_once(void *unused)
{
    uint8_t length[4] = {(uint8_t)strlen(reply)}, question[4096];
    struct pollfd client_comes = {.fd = listener, .events = POLLIN};
    int fd;

    (void)unused;
    poll(&client_comes, 1, -1); /* the listener does not block */
    fd = accept(listener, NULL, NULL);
    if (recv(fd, question, sizeof question, 0) > 0 && send(fd, length, 4, MSG_NOSIGNAL) == 4 &&
        send(fd, reply, strlen(reply), MSG_NOSIGNAL) > 0)
        while (recv(fd, question, sizeof question, 0) > 0) /* the client closes first */
            ;
    close(fd);
    return NULL;
}

/* What a server says goes to the client's terminal: not as commands to it. */
static void br_exchange_connect__escapes_of_the_server(void **state)
{
    struct br_perf_settings settings;
    pthread_t thread;
    uint16_t port;
    int reserved;

    (void)state;
    assert_int_equal(br_perf_settings_parse(&settings, 1, (char *[]){"write_lat", NULL}), 0);
    assert_int_equal(br_socket_reserve(NULL, &port, &reserved), 0);
    settings.port = port;
    assert_int_equal(br_exchange_listen(&settings, &listener), 0);
    settings.server = "127.0.0.1";
    reply = "differ \033]0;owned\a\033[31mrun: curl evil\302\2332J\n";
    assert_int_equal(pthread_create(&thread, NULL, answer_once, NULL), 0);
    assert_int_equal(br_exchange_connect(&settings, &client), -EINVAL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(strstr(br_error_message(), "?]0;owned??[31mrun: curl evil??2J"));
    for (const char *c = br_error_message(); *c; c++)
        assert_true((uint8_t)*c >= 0x20 && *c != 0x7f);
    close(listener);
    close(reserved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_exchange_accept__keeps_the_port_of_the_store),
        cmocka_unit_test(br_exchange_connect__escapes_of_the_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
