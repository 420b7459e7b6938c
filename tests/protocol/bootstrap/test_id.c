/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: their bytes, their sockets, and ranks that meet by one. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "braid/braid.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/id.h"
#include "protocol/bootstrap/launcher.h"
#include "protocol/bootstrap/store_socket.h"
#include "tests/protocol/bootstrap/store_job.h"
#include "tests/says.h"

static struct br_id made(bool local)
{
    struct braid_id id;
    struct br_id read;

    assert_int_equal(br_id_open(local, 0, &id), 0);
    assert_int_equal(br_id_read(&id, &read), 0);
    return read;
}

static void id_read__what_was_written(void **state)
{
    struct br_id id = {.port = 4711, .n_addresses = 2}, back;
    char text[BR_ID_TEXT];
    struct braid_id bytes;

    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.0.0.1", &id.addresses[0]), 1);
    assert_int_equal(inet_pton(AF_INET6, "fd00::1", &id.addresses[1]), 1);
    memset(id.secret.key, 7, sizeof id.secret.key);
    br_id_write(&id, &bytes);
    assert_memory_equal(bytes.bytes, "BRID\1\2\147\22", 8);
    assert_int_equal(br_id_read(&bytes, &back), 0);
    assert_memory_equal(&back, &id, sizeof id);
    br_id_text(&back, text);
    assert_string_equal(text, "10.0.0.1:4711, [fd00::1]:4711");
}

static void id_read__every_changed_byte_is_found(void **state)
{
    struct br_id id = {.port = 1, .n_addresses = 1}, back;
    struct braid_id bytes;

    (void)state;
    br_id_write(&id, &bytes);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes.bytes[i] ^= 0x10;
        assert_int_equal(br_id_read(&bytes, &back), i == 4 ? -EPROTONOSUPPORT : -EINVAL);
        bytes.bytes[i] ^= 0x10;
    }
    assert_int_equal(br_id_read(&bytes, &back), 0);
    memset(&bytes, 0, sizeof bytes);
    assert_int_equal(br_id_read(&bytes, &back), -EINVAL);
    assert_says(br_error_message(), "empty|rank 0");
}

static void id_open__listens_until_taken(void **state)
{
    struct br_id id = made(true), other = made(false);
    int fd, taken;

    (void)state;
    assert_int_equal(id.n_addresses, 1);
    assert_true(id.addresses[0].s6_addr[12] == 127 || IN6_IS_ADDR_LOOPBACK(&id.addresses[0]));
    assert_memory_not_equal(&id.secret, &other.secret, sizeof id.secret);
    assert_int_equal(
        br_socket_connect_address(&id.addresses[0], id.port, BR_SEC, br_clock_now() + BR_SEC, &fd),
        0);
    close(fd);
    assert_int_equal(br_id_take(&id, &taken), 0);
    assert_int_equal(br_id_take(&id, &fd), -EINVAL);
    assert_says(br_error_message(), "rank 0|used");
    assert_false(br_id_close(&id));
    close(taken);
    assert_true(br_id_close(&other));
    assert_int_equal(br_socket_connect_address(&other.addresses[0], other.port, BR_SEC,
                                               br_clock_now() + BR_SEC, &fd),
                     -ECONNREFUSED);
}

static void id_open__on_a_port(void **state)
{
    struct braid_id id, other;
    struct br_id read;
    uint16_t port;
    char text[8];
    int reserved;

    (void)state;
    for (int local = 0; local < 2; local++) {
        assert_int_equal(br_socket_reserve(NULL, &port, &reserved), 0);
        assert_int_equal(br_id_open(local, port, &id), 0);
        assert_int_equal(br_id_read(&id, &read), 0);
        assert_int_equal(read.port, port);
        assert_int_equal(br_id_open(local, port, &other), -EADDRINUSE);
        snprintf(text, sizeof text, "%u", port);
        assert_says(br_error_message(), text);
        assert_says(br_error_message(), "BRAID_PORT|master_port");
        assert_true(br_id_close(&read));
        close(reserved);
    }
}

static void id_open__the_oldest_makes_room(void **state)
{
    struct br_id ids[BR_ID_OPEN_MAX + 1];
    int fd;

    (void)state;
    for (int i = 0; i <= BR_ID_OPEN_MAX; i++)
        ids[i] = made(true);
    assert_int_equal(br_id_take(&ids[0], &fd), -EINVAL);
    for (int i = 1; i <= BR_ID_OPEN_MAX; i++)
        assert_true(br_id_close(&ids[i]));
}

static void id_take__not_in_a_fork(void **state)
{
    struct br_id id = made(true);
    int status, fd;
    pid_t child = fork();

    (void)state;
    if (!child)
        _exit(br_id_take(&id, &fd) == -EPERM ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(br_id_take(&id, &fd), 0);
    close(fd);
}

/* Ranks with an id instead of an address, port and secret. */
static void join_by(const struct br_id *id, uint32_t n)
{
    store_make(n);
    for (uint32_t i = 0; i < n; i++) {
        struct br_environment *e = &store_ranks[i].environment;

        e->address[0] = 0;
        e->id = *id;
        e->has_id = true;
        store_ranks[i].secret = id->secret;
    }
}

static void store_open__by_an_id(void **state)
{
    struct br_id id = made(false);

    (void)state;
    join_by(&id, 4);
    store_ranks[0].late = 100 * BR_MS; /* the socket listens already */
    store_start(0, 4);
    store_finish(0, 4);
    store_all_fine(4);
    assert_false(br_id_close(&id));
}

/* As of a bridge for containers: the first addresses are of another program, of nobody. */
static void store_open__tries_every_address(void **state)
{
    struct br_id id = made(true), asked;
    struct in6_addr loopback = id.addresses[0];

    (void)state;
    join_by(&id, 3);
    asked = id;
    asked.n_addresses = 3;
    asked.addresses[0] = asked.addresses[1] = loopback;
    asked.addresses[0].s6_addr[15] = 77;  /* nobody listens there: refused */
    asked.addresses[1].s6_addr[12] = 240; /* cannot be reached */
    asked.addresses[2] = loopback;
    for (int i = 1; i < 3; i++)
        store_ranks[i].environment.id = asked;
    store_start(0, 3);
    store_finish(0, 3);
    store_all_fine(3);
}

static void store_open__an_id_whose_maker_is_gone(void **state)
{
    struct br_id id = made(true);
    char port[16];

    (void)state;
    assert_true(br_id_close(&id));
    join_by(&id, 2);
    store_ranks[1].environment.init_timeout = 300 * BR_MS;
    store_start(0, 2);
    store_finish(0, 2);
    store_says(&store_ranks[0], EINVAL, "rank 0|braid_id_create");
    snprintf(port, sizeof port, "%u", id.port);
    store_says(&store_ranks[1], ETIMEDOUT, port);
    store_says(&store_ranks[1], ETIMEDOUT, "braid_id|braid_init");
}

static void environment_read__id_replaces_the_address(void **state)
{
    struct braid_config config = {.size = 2, .rank = 1};
    struct br_environment e;
    struct br_secret secret;
    struct braid_id id;

    (void)state;
    clearenv();
    setenv("MASTER_ADDR", "nowhere", 1);
    setenv("BRAID_SECRET", "0123456789abcdef", 1);
    assert_int_equal(br_id_open(true, 0, &id), 0);
    config.id = &id;
    assert_int_equal(br_environment_read(&config, &e), 0);
    assert_true(e.has_id);
    assert_string_equal(e.address, "");
    assert_int_equal(e.port, e.id.port);
    assert_int_equal(br_secret_read(&e, NULL, &secret), 0);
    assert_memory_equal(&secret, &e.id.secret, sizeof secret);
    config.master_addr = "there";
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
    assert_says(br_error_message(), "id|master_addr");
    config = (struct braid_config){.size = 2, .id = &id, .secret = "0123456789abcdef"};
    assert_int_equal(br_environment_read(&config, &e), -EINVAL);
    assert_says(br_error_message(), "id|secret");
    config.secret = NULL;
    assert_int_equal(br_environment_read(&config, &e), 0);
    assert_true(br_id_close(&e.id));
}

/* ---- a launcher that carries ------------------------------------------------------------------
 */

static unsigned char carried[128];
static int carry_error;

static int carry(const struct br_environment *e, void *bytes, size_t n, uint64_t deadline)
{
    assert_int_equal(n, sizeof carried);
    assert_int_equal(deadline, e->launcher_deadline);
    if (e->rank == 0)
        memcpy(carried, bytes, n);
    else
        memcpy(bytes, carried, n);
    return carry_error ? br_error(carry_error, "the pigeon was lost") : 0;
}

static const struct br_launcher pigeon = {.name = "pigeon", .share = carry};

static void launcher_meet__all_have_the_id(void **state)
{
    struct br_secret secrets[2] = {0}, own = {.key = {1}};
    struct br_environment e;

    (void)state;
    carry_error = 0;
    for (uint32_t i = 0; i < 2; i++) {
        e = (struct br_environment){.rank = i,
                                    .size = 2,
                                    .launcher = &pigeon,
                                    .sign = "WINGS",
                                    .id_comes = true,
                                    .launcher_deadline = 4711};
        assert_int_equal(br_launcher_meet(&e, &secrets[i]), 0);
        assert_true(e.has_id);
        assert_int_equal(e.port, e.id.port);
    }
    assert_memory_equal(&secrets[0], &secrets[1], sizeof secrets[0]);
    assert_int_equal(br_launcher_meet(&e, &own), 0); /* the user's secret stays */
    assert_int_equal(own.key[0], 1);
}

static void launcher_meet__on_the_port_of_the_user(void **state)
{
    struct br_environment e = {.size = 2, .launcher = &pigeon, .sign = "WINGS", .id_comes = true};
    struct br_secret secret = {0};
    uint16_t port;
    int reserved;

    (void)state;
    carry_error = 0;
    assert_int_equal(br_socket_reserve(NULL, &port, &reserved), 0);
    e.port = port;
    assert_int_equal(br_launcher_meet(&e, &secret), 0);
    assert_int_equal(e.id.port, port);
    assert_int_equal(e.port, port);
    assert_true(br_id_close(&e.id));
    close(reserved);
}

static void launcher_meet__a_launcher_that_fails(void **state)
{
    struct br_environment e = {.size = 2, .launcher = &pigeon, .sign = "WINGS", .id_comes = true};
    struct br_secret secret = {0};

    (void)state;
    carry_error = ECONNRESET;
    assert_int_equal(br_launcher_meet(&e, &secret), -ECONNRESET);
    assert_says(br_error_message(), "pigeon|WINGS|lost");
    assert_false(br_id_close(&e.id));
    carry_error = 0;
    memset(carried, 0, sizeof carried); /* rank 0 could not make one */
    e.rank = 1;
    assert_int_equal(br_launcher_meet(&e, &secret), -EINVAL);
    assert_says(br_error_message(), "rank 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(id_read__what_was_written),
        cmocka_unit_test(id_read__every_changed_byte_is_found),
        cmocka_unit_test(id_open__listens_until_taken),
        cmocka_unit_test(id_open__on_a_port),
        cmocka_unit_test(id_open__the_oldest_makes_room),
        cmocka_unit_test(id_take__not_in_a_fork),
        cmocka_unit_test(store_open__by_an_id),
        cmocka_unit_test(store_open__tries_every_address),
        cmocka_unit_test(store_open__an_id_whose_maker_is_gone),
        cmocka_unit_test(environment_read__id_replaces_the_address),
        cmocka_unit_test(launcher_meet__all_have_the_id),
        cmocka_unit_test(launcher_meet__on_the_port_of_the_user),
        cmocka_unit_test(launcher_meet__a_launcher_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
