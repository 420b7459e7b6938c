/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI's wire against a server of our own, whose lines come in pieces, and against broken ones. */
#include <errno.h>
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

#include <pthread.h>
#include <sodium.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "braid/braid.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"
#include "protocol/bootstrap/pmi1.h"
#include "protocol/bootstrap/secret.h"
#include "tests/says.h"

#define RANKS 4

/* ---- a server -------------------------------------------------------------------------------- */

struct server {
    int fds[RANKS]; /* its ends */
    int n;
    char keys[4][64], values[4][1024]; /* what was put, in this order */
    int puts;
    int barriers, finalized;
    pthread_t thread;
};

static void say(int fd, const char *line)
{
    for (; *line; line++) /* byte by byte */
        assert_int_equal(send(fd, line, 1, MSG_NOSIGNAL), 1);
}

/* A line from one client; false: it is gone. */
static bool hear(int fd, char line[2048])
{
    size_t n = 0;

    do {
        if (recv(fd, line + n, 1, 0) != 1)
            return false;
    } while (line[n++] != '\n');
    line[n - 1] = 0;
    return true;
}

/* Answers what is not collective. Returns whether the line was barrier_in. */
static bool answer(struct server *server, int i, const char *line)
{
    char key[64], text[1200];
    int at;

    if (!strcmp(line, "cmd=barrier_in"))
        return true;
    if (!strncmp(line, "cmd=initack pmiid=", 18)) {
        snprintf(text, sizeof text,
                 "cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", server->n,
                 atoi(line + 18));
        say(server->fds[i], text);
    } else if (!strcmp(line, "cmd=init pmi_version=1 pmi_subversion=1")) {
        say(server->fds[i], "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n");
    } else if (!strcmp(line, "cmd=get_maxes")) {
        say(server->fds[i], "cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n");
    } else if (!strcmp(line, "cmd=get_my_kvsname")) {
        say(server->fds[i], "cmd=my_kvsname rc=0 kvsname=kvs_1\n");
    } else if (!strncmp(line, "cmd=put kvsname=kvs_1 ", 22)) {
        assert_in_range(server->puts, 0, 3);
        assert_true(br_pmi1_value(line, "key", server->keys[server->puts], 64));
        assert_true(br_pmi1_value(line, "value", server->values[server->puts++], 1024));
        say(server->fds[i], "cmd=put_result rc=0 msg=success\n");
    } else if (!strncmp(line, "cmd=get kvsname=kvs_1 ", 22)) {
        assert_true(br_pmi1_value(line, "key", key, sizeof key));
        for (at = 0; at < server->puts && strcmp(key, server->keys[at]) != 0; at++)
            ;
        snprintf(text, sizeof text, "cmd=get_result rc=%d msg=m value=%s\n", at == server->puts,
                 at < server->puts ? server->values[at] : "");
        say(server->fds[i], text);
    } else if (!strcmp(line, "cmd=finalize")) {
        server->finalized++;
        say(server->fds[i], "cmd=finalize_ack\n");
    } else {
        fail_msg("the server hears \"%s\"", line);
    }
    return false;
}

/* Serves each client up to its barrier, then all leave it, and so on until all are gone. */
static void *serve(void *argument)
{
    struct server *server = argument;
    int inside;

    do {
        inside = 0;
        for (int i = 0; i < server->n; i++) {
            char line[2048];
            bool waits = false;

            while (!waits && hear(server->fds[i], line))
                waits = answer(server, i, line);
            inside += waits;
        }
        for (int i = 0; i < server->n && inside == server->n; i++)
            say(server->fds[i], "cmd=barrier_out\n");
        server->barriers += inside == server->n;
    } while (inside == server->n);
    return NULL;
}

static void server_start(struct server *server, int n, int clients[])
{
    *server = (struct server){.n = n};
    for (int i = 0; i < n; i++) {
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        server->fds[i] = fds[0];
        clients[i] = fds[1];
    }
}

static void server_run(struct server *server)
{
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void server_end(struct server *server)
{
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    for (int i = 0; i < server->n; i++)
        close(server->fds[i]);
}

/* ---- clients --------------------------------------------------------------------------------- */

struct client {
    int fd, rank, rc;
    unsigned char bytes[128];
    pthread_t thread;
};

static void *converse(void *argument)
{
    struct client *client = argument;
    uint64_t deadline = br_clock_now() + 30 * BR_SEC;
    struct br_pmi1 pmi;

    br_pmi1_make(&pmi, client->fd);
    client->rc = br_pmi1_begin(&pmi, deadline);
    for (int i = 0; i < 2 && !client->rc; i++) {
        char key[16];

        snprintf(key, sizeof key, "id.%d", i);
        memset(client->bytes, client->rank == 0 ? 40 + i : 0, sizeof client->bytes);
        client->rc = br_pmi1_share(&pmi, client->rank == 0, key, client->bytes,
                                   sizeof client->bytes, deadline);
        if (!sodium_is_zero((unsigned char *)pmi.in, sizeof pmi.in))
            client->rc = -EEXIST; /* the value stays in memory */
        for (size_t b = 0; b < sizeof client->bytes && !client->rc; b++)
            client->rc = client->bytes[b] == 40 + i ? 0 : -EBADMSG;
    }
    if (!client->rc)
        client->rc = br_pmi1_end(&pmi, deadline);
    close(client->fd);
    return NULL;
}

static void pmi1_share__all_have_what_rank_0_gave(void **state)
{
    struct client clients[RANKS];
    struct server server;
    int fds[RANKS];

    (void)state;
    server_start(&server, RANKS, fds);
    server_run(&server);
    for (int i = 0; i < RANKS; i++) {
        clients[i] = (struct client){.fd = fds[i], .rank = i};
        assert_int_equal(pthread_create(&clients[i].thread, NULL, converse, &clients[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
        assert_int_equal(clients[i].rc, 0);
    }
    server_end(&server);
    assert_int_equal(server.barriers, 2);
    assert_int_equal(server.finalized, RANKS);
}

static void pmi1_value__words_of_a_line(void **state)
{
    char out[6];

    (void)state;
    assert_true(br_pmi1_value("cmd=get  akey=1\tkey=a=b rc=", "key", out, sizeof out));
    assert_string_equal(out, "a=b");
    assert_true(br_pmi1_value("cmd=get rc=", "rc", out, sizeof out));
    assert_string_equal(out, "");
    assert_false(br_pmi1_value("cmd=get rc", "rc", out, sizeof out));
    assert_false(br_pmi1_value("value=123456", "value", out, sizeof out));
    assert_false(br_pmi1_value("", "key", out, sizeof out));
}

/* A launcher that says this and closes; the client is rank 1. */
static int against(const char *words, bool closes)
{
    unsigned char bytes[128];
    struct br_pmi1 pmi;
    uint64_t deadline = br_clock_now() + (closes ? 30 * BR_SEC : 20 * BR_MS);
    int fds[2], rc;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(send(fds[0], words, strlen(words), 0), (ssize_t)strlen(words));
    if (closes)
        shutdown(fds[0], SHUT_WR);
    br_pmi1_make(&pmi, fds[1]);
    rc = br_pmi1_begin(&pmi, deadline);
    if (!rc)
        rc = br_pmi1_share(&pmi, false, "id", bytes, sizeof bytes, deadline);
    if (rc && pmi.value_max)
        assert_true(sodium_is_zero((unsigned char *)pmi.in, sizeof pmi.in));
    close(fds[0]);
    close(fds[1]);
    return rc;
}

#define BEGUN                                                                                      \
    "cmd=response_to_init rc=0\ncmd=maxes kvsname_max=9 keylen_max=64 vallen_max=256\n"            \
    "cmd=my_kvsname kvsname=k\n"

static void pmi1_begin__broken_launchers(void **state)
{
    static const char *const bad[] = {
        "cmd=response_to_init rc=-1 pmi_version=2\n",
        "HTTP/1.1 400 Bad Request\n",
        "cmd=response_to_init rc=0\ncmd=maxes vallen_max=x\n",
        "cmd=response_to_init rc=0\ncmd=maxes\n",
        "cmd=response_to_init rc=0\ncmd=maxes vallen_max=1024\ncmd=my_kvsname kvsname=\n",
        BEGUN "cmd=barrier_out rc=1 msg=killed\n",
        BEGUN "cmd=barrier_out\ncmd=get_result rc=1 msg=not_found\n",
        BEGUN "cmd=barrier_out\ncmd=get_result rc=0 value=4242\n",
        BEGUN "cmd=barrier_out\ncmd=get_result rc=0 value=zz\n",
        BEGUN "cmd=barrier_out\ncmd=get_result rc=0\n",
        BEGUN "cmd=barrier_out\ncmd=get_result rc=0 value=42\ncmd=get_result rc=0 value=43",
    };
    static char endless[BR_PMI1_LINE + 100];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(against(bad[i], true), -EPROTO);
    memset(endless, 'a', sizeof endless - 1);
    assert_int_equal(against(endless, true), -EPROTO);
    assert_int_equal(against("cmd=\1\2\033[2J\n", true), -EPROTO);
    assert_null(strchr(br_error_message(), '\033'));
    assert_int_equal(
        against("cmd=response_to_init rc=0\ncmd=maxes vallen_max=64\ncmd=my_kvsname kvsname=k\n",
                true),
        -ENOSPC);
}

static void pmi1_begin__ends_with_the_launcher_and_in_time(void **state)
{
    (void)state;
    assert_int_equal(against("", true), -ECONNRESET);
    assert_int_equal(against(BEGUN, true), -ECONNRESET);
    assert_int_equal(against(BEGUN "cmd=barr", true), -ECONNRESET);
    assert_int_equal(against(BEGUN "cmd=barr", false), -ETIMEDOUT);
    assert_says(br_error_message(), "BRAID_INIT_TIMEOUT");
}

/* ---- the launcher, in processes as it starts them ---------------------------------------------
 */

/* What the process of a rank does after its environment has been set; its exit code. */
static int be_rank(int rank)
{
    struct br_environment e;
    struct br_secret secret;

    for (int round = 0; round < 2; round++) {
        if (br_environment_read(NULL, &e) || br_secret_read(&e, NULL, &secret) ||
            br_launcher_meet(&e, &secret)) {
            fprintf(stderr, "rank %d: %s\n", rank, br_error_message());
            return 1;
        }
        if (e.launcher != &br_launcher_pmi1 || e.rank != (uint32_t)rank || e.size != RANKS ||
            !e.has_id || memcmp(&secret, &e.id.secret, sizeof secret) != 0)
            return 2;
    }
    return 0;
}

static void run_ranks(struct server *server, int clients[], void (*set)(int rank, int fd))
{
    int status;

    for (int i = 0; i < RANKS; i++) {
        if (fork())
            continue;
        for (int j = 0; j < RANKS; j++) {
            close(server->fds[j]);
            if (j != i)
                close(clients[j]);
        }
        clearenv();
        set(i, clients[i]);
        exit(be_rank(i)); /* with its handlers: "finalize" */
    }
    for (int i = 0; i < RANKS; i++)
        close(clients[i]);
    server_run(server);
    for (int i = 0; i < RANKS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    server_end(server);
    assert_int_equal(server->barriers, 2);
    assert_int_equal(server->finalized, RANKS);
}

static void set_descriptor(int rank, int fd)
{
    char text[16];

    snprintf(text, sizeof text, "%d", fd);
    setenv("PMI_FD", text, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("PMI_RANK", text, 1);
    setenv("PMI_SIZE", "4", 1);
    setenv("MASTER_ADDR", "torchs.own", 1);
}

static void launcher_pmi1__by_a_descriptor(void **state)
{
    struct server server;
    int clients[RANKS];

    (void)state;
    server_start(&server, RANKS, clients);
    run_ranks(&server, clients, set_descriptor);
}

static void launcher_pmi1__local_ranks(void **state)
{
    struct br_environment e;
    int fds[2];

    (void)state;
    clearenv();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    set_descriptor(3, fds[0]);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_true(e.id_comes);
    assert_int_equal(e.port, 0);
    assert_string_equal(e.sign, "PMI_FD");
    assert_false(e.local_known);
    setenv("MPI_LOCALRANKID", "1", 1);
    setenv("MPI_LOCALNRANKS", "2", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_true(e.local_known);
    assert_int_equal(e.local_rank, 1);
    assert_int_equal(e.local_size, 2);
    /* a port alone is the one where rank 0 listens; MASTER_PORT may be PyTorch's */
    setenv("MASTER_PORT", "29500", 1);
    assert_int_equal(br_environment_read(&(struct braid_config){.master_port = 3999}, &e), 0);
    assert_true(e.id_comes);
    assert_int_equal(e.port, 3999);
    setenv("BRAID_PORT", "4001", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_true(e.id_comes);
    assert_int_equal(e.port, 4001);
    setenv("BRAID_PORT", "http", 1);
    assert_int_equal(br_environment_read(NULL, &e), -EINVAL);
    assert_says(br_error_message(), "BRAID_PORT");
    unsetenv("BRAID_PORT");
    /* where the user says where rank 0 is, nobody needs to carry an id */
    setenv("BRAID_MASTER_ADDR", "10.0.0.1", 1);
    assert_int_equal(br_environment_read(NULL, &e), -EINVAL); /* MASTER_PORT is not ours */
    assert_says(br_error_message(), "BRAID_PORT");
    setenv("BRAID_PORT", "4000", 1);
    assert_int_equal(br_environment_read(NULL, &e), 0);
    assert_false(e.id_comes);
    assert_int_equal(e.port, 4000);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pmi1_value__words_of_a_line),
        cmocka_unit_test(pmi1_share__all_have_what_rank_0_gave),
        cmocka_unit_test(pmi1_begin__broken_launchers),
        cmocka_unit_test(pmi1_begin__ends_with_the_launcher_and_in_time),
        cmocka_unit_test(launcher_pmi1__by_a_descriptor),
        cmocka_unit_test(launcher_pmi1__local_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
