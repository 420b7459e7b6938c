/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

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
    settings.server = "localhost";
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(br_exchange_accept__keeps_the_port_of_the_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
