/* SPDX-License-Identifier: BSD-3-Clause */
/* How long braid_init() takes when it fails, and what it says then. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/bootstrap/store_socket.h"
#include "tests/system/ranks.h"

static struct braid_config config_of(int rank, int port)
{
    return (struct braid_config){
        .size = 2,
        .rank = rank,
        .master_addr = "127.0.0.1",
        .master_port = port,
        .secret = "a secret of the tests",
        .backend = "tcp",
        .devices = "127.0.0.1",
    };
}

/* The other rank never comes. A busy machine may stand still in some rounds, not in all of them. */
static void init__ends_at_about_the_time_asked(void **state)
{
    enum { ROUNDS = 8, ASKED = 1000, MOST = 1800 };
    double least = 1e9;
    uint16_t port = 0;
    int reserved;

    (void)state;
    assert_int_equal(br_socket_reserve("127.0.0.1", &port, &reserved), 0);
    for (int round = 0; round < ROUNDS && least > MOST; round++) {
        struct braid_config config = config_of(0, port);
        double start = ranks_now_ms(), took;
        struct braid_comm *comm;

        config.init_timeout_ms = ASKED;
        assert_int_equal(braid_init(&config, &comm), -ETIMEDOUT);
        assert_non_null(strstr(braid_last_error(), "rank 1"));
        assert_null(comm);
        took = ranks_now_ms() - start;
        least = took < least ? took : least;
    }
    close(reserved);
    if (least > MOST)
        fail_msg("braid_init() took %.0f ms or more, but was asked for %d", least, ASKED);
}

static int is_refused(const struct braid_config *config)
{
    struct braid_comm *comm;

    SAYS(-EPROTO, "BRAID_BACKEND|udp on rank 1", braid_init(config, &comm));
    CHECK(strstr(braid_last_error(), "tcp on rank 0"), "rank 0 is not named");
    return 0;
}

static void init__other_back_ends_are_named(void **state)
{
    uint16_t port = 0;
    int reserved, status = -1, failed;
    struct braid_config config;
    pid_t pid;

    (void)state;
    assert_int_equal(br_socket_reserve("127.0.0.1", &port, &reserved), 0);
    pid = fork();
    if (!pid) {
        alarm(RANKS_LIMIT);
        config = config_of(1, port);
        config.backend = "udp";
        _exit(is_refused(&config));
    }
    config = config_of(0, port);
    failed = is_refused(&config);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(reserved);
    assert_int_equal(failed, 0);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init__ends_at_about_the_time_asked),
        cmocka_unit_test(init__other_back_ends_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
