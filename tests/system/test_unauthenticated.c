/* SPDX-License-Identifier: BSD-3-Clause */
/* Unauthenticated peers at the doors of a job that works or is about to begin: it goes on, its
 * results stay right (every rank checks every value), and they are counted. */
#include "job.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/handshake.h"
#include "protocol/message.h"
#include "rank.h"

#define RANKS     3
#define COUNT     "100000"
#define FLOOD     200 /* connections to one port, open at once */
#define LORISES   20
#define PORTS_MAX 16
static const char secret[] = "0123456789abcdef0123456789abcdef";

static struct job job;
static struct br_random dice;

/* ---- connections ----------------------------------------------------------------------------- */

static int dial(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Whoever is refused may be cut off while it speaks. */
static void say(int fd, const void *bytes, size_t n)
{
    if (fd >= 0 && send(fd, bytes, n, MSG_NOSIGNAL) < 0)
        return;
}

static void shout(uint16_t port, const void *bytes, size_t n)
{
    int fd = dial(port);

    say(fd, bytes, n);
    if (fd >= 0)
        close(fd);
}

static void send_handshake(int fd, const void *bytes, size_t n)
{
    struct br_frame_header header = {.magic = BR_FRAME_MAGIC,
                                     .version = BR_FRAME_VERSION,
                                     .kind = BR_FRAME_MESSAGE,
                                     .length = (uint32_t)n};
    struct br_message message = {.type = BR_MESSAGE_HANDSHAKE};

    memcpy(header.inline_, &message, sizeof message);
    say(fd, &header, sizeof header);
    say(fd, bytes, n);
}

/* The answer; 0: the connection was closed. */
static size_t receive_handshake(int fd, uint8_t *bytes)
{
    struct br_frame_header header;

    if (recv(fd, &header, sizeof header, MSG_WAITALL) != (ssize_t)sizeof header)
        return 0;
    assert_in_range(header.length, 1, BR_HANDSHAKE_BYTES_MAX);
    if (recv(fd, bytes, header.length, MSG_WAITALL) != (ssize_t)header.length)
        return 0;
    return header.length;
}

/* ---- handshakes ------------------------------------------------------------------------------ */

struct attempt {
    struct br_handshake handshake;
    uint8_t hello[BR_HANDSHAKE_BYTES_MAX], proof[BR_HANDSHAKE_BYTES_MAX];
    size_t hello_bytes, proof_bytes;
};

static void begin(struct attempt *a, const char *key, uint32_t peer)
{
    struct br_handshake_self self = {.rank = (peer + 1) % RANKS,
                                     .size = RANKS,
                                     .rails = 1,
                                     .limits = {1 << 20, 1 << 12, 1 << 12, 1 << 18}};
    struct br_secret derived;

    assert_int_equal(br_secret_derive(key, strlen(key), &derived), 0);
    br_secret_subkey(&derived, BR_SECRET_LINKS, self.key);
    for (size_t i = 0; i < sizeof self.nonce; i++)
        self.nonce[i] = (uint8_t)br_random_next(&dice);
    br_handshake_init_connector(&a->handshake, &self, peer, 0, 77, a->hello, &a->hello_bytes);
}

/* HELLO, and the CHALLENGE that it gets, if `peer` listens on the port. -1: it does not. */
static int challenge(struct attempt *a, const char *key, uint16_t port)
{
    uint8_t answer[BR_HANDSHAKE_BYTES_MAX];

    for (uint32_t peer = 0; peer < RANKS; peer++) {
        int fd = dial(port);
        size_t n;

        begin(a, key, peer);
        send_handshake(fd, a->hello, a->hello_bytes);
        n = receive_handshake(fd, answer);
        if (n && br_handshake_receive(&a->handshake, answer, n, a->proof, &a->proof_bytes) == 0)
            return fd;
        close(fd);
    }
    return -1;
}

/* Sends a proof; why it was refused (enum br_handshake_reason). */
static uint32_t prove(int fd, const uint8_t *proof, size_t bytes)
{
    struct br_handshake_refuse refuse = {0};
    uint8_t answer[BR_HANDSHAKE_BYTES_MAX];
    size_t n;

    send_handshake(fd, proof, bytes);
    n = receive_handshake(fd, answer);
    close(fd);
    assert_int_equal(n, sizeof refuse);
    memcpy(&refuse, answer, sizeof refuse);
    assert_int_equal(refuse.header.kind, BR_HANDSHAKE_REFUSE);
    return refuse.reason;
}

/* A wrong secret; a right one, for a rail that is there already; and the messages of the latter
 * once more. */
static void false_proofs(uint16_t port)
{
    struct attempt attempt, old;
    uint8_t answer[BR_HANDSHAKE_BYTES_MAX];
    int fd = challenge(&attempt, "not the secret of this job", port);

    assert_true(fd >= 0);
    assert_int_equal(prove(fd, attempt.proof, attempt.proof_bytes), BR_REFUSED_SECRET);
    fd = challenge(&old, secret, port);
    assert_true(fd >= 0);
    assert_int_equal(prove(fd, old.proof, old.proof_bytes), BR_REFUSED_STALE);
    fd = dial(port);
    send_handshake(fd, old.hello, old.hello_bytes);
    assert_int_equal(receive_handshake(fd, answer), sizeof(struct br_handshake_challenge));
    assert_int_equal(prove(fd, old.proof, old.proof_bytes), BR_REFUSED_SECRET);
}

/* ---- crowds ---------------------------------------------------------------------------------- */

struct crowd {
    uint16_t ports[PORTS_MAX];
    int n_ports;
    int flood[PORTS_MAX][FLOOD], lorises[PORTS_MAX][LORISES];
};

static void gather(struct crowd *crowd, int least)
{
    crowd->n_ports = job_ports(crowd->ports, PORTS_MAX);
    assert_in_range(crowd->n_ports, least, PORTS_MAX);
    for (int p = 0; p < crowd->n_ports; p++) {
        for (int i = 0; i < FLOOD; i++)
            crowd->flood[p][i] = dial(crowd->ports[p]);
        for (int i = 0; i < LORISES; i++)
            crowd->lorises[p][i] = dial(crowd->ports[p]);
    }
}

static void disperse(struct crowd *crowd)
{
    for (int p = 0; p < crowd->n_ports; p++) {
        for (int i = 0; i < FLOOD; i++)
            close(crowd->flood[p][i]);
        for (int i = 0; i < LORISES; i++)
            close(crowd->lorises[p][i]);
    }
}

static void pester(uint16_t port)
{
    static const char http[] =
        "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curious\r\nAccept: */*\r\n\r\n";
    struct br_frame_header header = {.magic = BR_FRAME_MAGIC,
                                     .version = BR_FRAME_VERSION,
                                     .kind = BR_FRAME_DATA,
                                     .length = 1 << 20,
                                     .slot = 0x10001};
    struct attempt attempt;
    uint8_t bytes[2000];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)br_random_next(&dice);
    shout(port, bytes, 1 + br_random_below(&dice, sizeof bytes));
    shout(port, http, sizeof http - 1);
    shout(port, &header, sizeof header); /* data, before it has said who it is */
    begin(&attempt, secret, (uint32_t)br_random_below(&dice, RANKS));
    shout(port, attempt.hello, attempt.hello_bytes / 2);
    shout(port, "", 0);
}

/* For `ms`: each loris says a byte now and then, others come and go. */
static void harass(struct crowd *crowd, uint64_t ms)
{
    struct br_frame_header slow = {.magic = BR_FRAME_MAGIC,
                                   .version = BR_FRAME_VERSION,
                                   .kind = BR_FRAME_MESSAGE,
                                   .length = 80};
    uint64_t until = br_clock_now() + ms * BR_MS;

    for (size_t turn = 0; br_clock_now() < until; turn++) {
        for (int p = 0; p < crowd->n_ports; p++) {
            pester(crowd->ports[p]);
            for (int i = 0; i < LORISES; i++)
                say(crowd->lorises[p][i], (const uint8_t *)&slow + turn % sizeof slow, 1);
        }
        usleep(20000);
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void start(const char *options, const char *work)
{
    job_start(
        &job,
        "umask 077; echo %s > /run/secret; BRAID_PEER_TIMEOUT=60 exec $run -n %d --secret-file "
        "/run/secret %s -- %s",
        secret, RANKS, options, work);
}

static void end_well(void)
{
    if (job_end(&job))
        fail_msg("the job has failed:\n%s", job.text);
}

static int loops_of(int rank, int *unauthenticated)
{
    char line[128];
    int loops = 0;

    job_line(&job, rank, "done ", line, sizeof line);
    assert_int_equal(sscanf(line, "%d unauthenticated %d", &loops, unauthenticated), 2);
    return loops;
}

static void strangers__nobody_comes(void **state)
{
    int unauthenticated;

    (void)state;
    start("--backend tcp", "$self rank 100 " COUNT);
    end_well();
    loops_of(0, &unauthenticated);
    assert_int_equal(unauthenticated, 0);
}

/* The job goes on and ends while they are there, those who came last among them. */
static void strangers__while_it_works(void **state)
{
    static struct crowd crowd;
    int unauthenticated, loops;

    (void)state;
    start("--backend tcp", "$self rank 300000 " COUNT);
    job_ready(&job, RANKS);
    gather(&crowd, RANKS);
    for (int p = 0; p < crowd.n_ports; p++)
        false_proofs(crowd.ports[p]);
    harass(&crowd, 1000);
    job_accepted();
    job_signal(&job, 0, RANK_END);
    end_well();
    disperse(&crowd);
    for (int r = 0; r < RANKS; r++) {
        loops = loops_of(r, &unauthenticated);
        print_message("rank %d: %d loops among %d unauthenticated links\n", r, loops,
                      unauthenticated);
        if (unauthenticated < FLOOD / 2)
            fail_msg("rank %d has counted %d unauthenticated links only", r, unauthenticated);
    }
}

/* A rail that was lost finds its way back through the crowd. */
static void strangers__while_a_rail_comes_back(void **state)
{
    static struct crowd crowd;

    (void)state;
    start("--backend tcp --rails 2", "$self rank 300000 " COUNT);
    job_ready(&job, RANKS);
    gather(&crowd, RANKS);
    job_signal(&job, 1, RANK_CUT);
    job_says(&job, "slices", 2);
    harass(&crowd, 1000);
    job_says(&job, "rails 3\n", RANKS + 1); /* at least one of both ends talks about this link */
    disperse(&crowd);
    job_signal(&job, 0, RANK_END);
    end_well();
    job_must_have(&job, "slices");
}

#define GO "/run/go" /* the folder is this test's own */

/* The store listens while a rank is late, and with it the data ports of the others. */
static void strangers__while_it_begins(void **state)
{
    static struct crowd crowd;
    int fd;

    (void)state;
    start("--backend tcp", "sh -c 'while [ $RANK = 2 -a ! -e " GO " ]; do sleep 0.05; done; "
                           "exec $self rank 300000 " COUNT "'");
    /* the store and two ranks */
    for (int i = 0; i < 60000 && job_ports(crowd.ports, PORTS_MAX) < RANKS; i++)
        usleep(1000);
    gather(&crowd, RANKS);
    harass(&crowd, 700);
    fd = open(GO, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    harass(&crowd, 700);
    job_ready(&job, RANKS);
    job_signal(&job, 0, RANK_END);
    end_well();
    disperse(&crowd);
}

/* Abstract sockets of the shm back end, by name; waits while as many as may are in the queue. */
static int dial_abstract(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    memcpy(to.sun_path + 1, name, strlen(name));
    if (connect(fd, (struct sockaddr *)&to, (socklen_t)(sizeof(sa_family_t) + 1 + strlen(name)))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void strangers__at_shared_memory(void **state)
{
    char line[512], names[PORTS_MAX][128];
    int n = 0, open_ones[64] = {0}, n_open = 0;
    FILE *file;

    (void)state;
    start("--backend shm", "$self rank 300000 " COUNT);
    job_ready(&job, RANKS);
    file = fopen("/proc/net/unix", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && n < PORTS_MAX) {
        const char *at = strstr(line, "@braid-");

        /* Flags 00010000: it listens. */
        if (at && strstr(line, " 00010000 "))
            snprintf(names[n++], sizeof names[0], "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    }
    fclose(file);
    assert_int_equal(n, RANKS);
    for (int turn = 0; turn < 60; turn++) {
        for (int i = 0; i < n; i++) {
            int fd = dial_abstract(names[i]);
            uint8_t bytes[600];

            for (size_t k = 0; k < sizeof bytes; k++)
                bytes[k] = (uint8_t)br_random_next(&dice);
            say(fd, bytes, 1 + br_random_below(&dice, sizeof bytes));
            if (n_open < 64 && fd >= 0)
                open_ones[n_open++] = fd;
            else if (fd >= 0)
                close(fd);
        }
        usleep(5000);
    }
    for (int i = 0; i < n; i++) { /* who is sent away has been preceded by all others */
        int fd = dial_abstract(names[i]);
        char byte;

        say(fd, "", 1);
        assert_true(recv(fd, &byte, 1, 0) <= 0);
        close(fd);
    }
    job_signal(&job, 0, RANK_END);
    end_well();
    while (n_open)
        close(open_ones[--n_open]);
    for (int r = 0; r < RANKS; r++) {
        int unauthenticated;

        loops_of(r, &unauthenticated);
        if (unauthenticated < 20)
            fail_msg("rank %d has counted %d unauthenticated links only", r, unauthenticated);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers__nobody_comes),
        cmocka_unit_test(strangers__while_it_works),
        cmocka_unit_test(strangers__while_a_rail_comes_back),
        cmocka_unit_test(strangers__while_it_begins),
        cmocka_unit_test(strangers__at_shared_memory),
    };

    if (argc >= 2 && !strcmp(argv[1], "rank"))
        return rank_main(argc - 2, argv + 2);
    job_isolate();
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    br_random_seed(&dice, 7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
