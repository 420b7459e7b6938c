/* SPDX-License-Identifier: BSD-3-Clause */
/* How long braid_init() takes when it fails, and what it says then. */
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "protocol/bootstrap/store_socket.h"
#include "tests/system/ranks.h"

#define HELD_UP 1000 /* ms that a launcher's barrier takes */

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

/* A launcher by PMI-1 that holds rank 0 up in its barrier; then the other rank does not join. */
static void *hold_up(void *argument)
{
    int fd = *(int *)argument;
    FILE *in = fdopen(fd, "r");
    char line[2048];

    while (in && fgets(line, sizeof line, in)) {
        const char *say = !strncmp(line, "cmd=init ", 9)        ? "cmd=response_to_init rc=0\n"
                          : !strncmp(line, "cmd=get_maxes", 13) ? "cmd=maxes vallen_max=1024\n"
                          : !strncmp(line, "cmd=get_my", 10)    ? "cmd=my_kvsname kvsname=k\n"
                          : !strncmp(line, "cmd=put", 7)        ? "cmd=put_result rc=0\n"
                                                                : "cmd=barrier_out\n";

        if (!strncmp(line, "cmd=barrier", 11))
            usleep(HELD_UP * 1000);
        send(fd, say, strlen(say), MSG_NOSIGNAL);
    }
    return NULL;
}

/* 0: braid_init() has taken about as long as it was asked to. */
static int ends_in_time(void)
{
    struct braid_config config = {.backend = "tcp", .init_timeout_ms = HELD_UP * 2};
    double start = ranks_now_ms();
    struct braid_comm *comm;
    pthread_t launcher;
    char text[16];
    int fds[2];

    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
    CHECK(!pthread_create(&launcher, NULL, hold_up, &fds[0]), "pthread_create");
    snprintf(text, sizeof text, "%d", fds[1]);
    setenv("BRAID_LAUNCHER", "pmi1", 1);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "2", 1);
    SAYS(-ETIMEDOUT, "rank 1", braid_init(&config, &comm));
    CHECK(ranks_now_ms() - start < HELD_UP * 2.75,
          "braid_init() took %.0f ms, but was asked for %d", ranks_now_ms() - start, HELD_UP * 2);
    return 0;
}

/* What the launcher takes counts. */
static void init__ends_at_about_the_time_asked_under_a_launcher(void **state)
{
    enum { ROUNDS = 4 };
    int status = -1;

    (void)state;
    for (int round = 0; round < ROUNDS && status; round++) {
        pid_t pid = fork(); /* a process speaks with its launcher once */

        if (!pid) {
            alarm(RANKS_LIMIT);
            _exit(ends_in_time());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    assert_int_equal(status, 0);
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
        cmocka_unit_test(init__ends_at_about_the_time_asked_under_a_launcher),
        cmocka_unit_test(init__other_back_ends_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
