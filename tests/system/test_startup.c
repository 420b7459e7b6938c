/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs that cannot begin: clear words, in time, and no rank stays. */
#include "job.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rank.h"

static struct job job;

#define PATIENT "BRAID_INIT_TIMEOUT=300 " /* who waits for it is taken for one that hangs */
/* time enough for ranks that come, also where one stands still for a moment */
#define HASTY "BRAID_INIT_TIMEOUT=5 "

/* Three ranks, `odd` is done in rank 1 before it begins. The job must fail with these words. The
 * launcher ends those who wait for it, but for some cases, where they must do so themselves. */
static void expect(const char *timeout, const char *odd, const char *nouns)
{
    job_start(&job,
              "%sexec $run -n 3 -- sh -c 'if [ $RANK = 1 ]; then %s; fi; exec $self rank 300 1000'",
              timeout, odd);
    assert_int_equal(job_end(&job), RANK_FAILED);
    job_must_have(&job, nouns);
    assert_false(job_has(&job, "leak:"));
    assert_false(job_has(&job, "did not end in time"));
}

static void startup__good(void **state)
{
    (void)state;
    job_start(&job, "exec $run -n 3 -- $self rank 100 1000");
    assert_int_equal(job_end(&job), 0);
}

static void startup__a_rank_never_comes(void **state)
{
    char line[128];

    (void)state;
    expect(HASTY, "exec sleep 300", "rank 1 of 3");
    job_start(
        &job, HASTY
        "exec $run -n 3 -- sh -c 'trap \"\" TERM; if [ $RANK = 1 ]; then sleep 6; exit 9; fi; "
        "exec $self rank 300 1000'");
    assert_int_equal(job_end(&job), RANK_FAILED);
    for (int r = 0; r < 3; r += 2)
        job_line(&job, r, "error 110: rank 1 of 3", line, sizeof line);
}

static void startup__a_rank_ends_before(void **state)
{
    (void)state;
    job_start(&job, PATIENT "exec $run -n 3 -- sh -c 'if [ $RANK = 1 ]; then exit 4; fi; exec "
                            "$self rank 9 9'");
    assert_int_equal(job_end(&job), 4);
    job_must_have(&job, "exit code 4");
}

static void startup__two_with_one_number(void **state)
{
    (void)state;
    expect(PATIENT, "export RANK=2", "rank 2: process");
}

static void startup__another_secret(void **state)
{
    (void)state;
    expect(PATIENT, "export BRAID_SECRET=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "secret");
    expect(PATIENT, "unset BRAID_SECRET", "secret|`braid run`");
}

static void startup__another_size(void **state)
{
    (void)state;
    expect(PATIENT, "export WORLD_SIZE=4 LOCAL_WORLD_SIZE=4", "WORLD_SIZE");
}

static void startup__environment(void **state)
{
    (void)state;
    expect(PATIENT, "export RANK=abc", "RANK=abc");
    expect(PATIENT, "export RANK=7", "RANK=7");
    expect(PATIENT, "unset RANK", "RANK");
    expect(PATIENT, "unset MASTER_ADDR", "MASTER_ADDR");
    expect(PATIENT, "export MASTER_PORT=0", "MASTER_PORT");
    expect(PATIENT, "export BRAID_BACKEND=token-ring", "token-ring");
    expect(PATIENT, "export BRAID_PEER_TIMEOUT=-3", "BRAID_PEER_TIMEOUT");
    expect(PATIENT, "export BRAID_SLICE_BYTES=1", "BRAID_SLICE_BYTES");
    expect(PATIENT, "export BRAID_BACKEND=tcp BRAID_DEVICES=nosuch0", "nosuch0|lo");
}

/* Ranks that were told different things about the back end cannot reach each other. */
static void startup__different_back_ends(void **state)
{
    (void)state;
    job_start(&job, PATIENT "exec $run -n 2 -- sh -c '[ $RANK = 1 ] && export BRAID_BACKEND=tcp || "
                            "export BRAID_BACKEND=shm; exec $self rank 300 1000'");
    assert_int_equal(job_end(&job), RANK_FAILED);
    job_must_have(&job, "BRAID_BACKEND");
}

/* The default said by one rank is not the default: it holds for more collectives. */
static void startup__a_limit_that_one_rank_says(void **state)
{
    (void)state;
    expect(PATIENT, "export BRAID_SHM_COLLECTIVE_BYTES=4096",
           "BRAID_SHM_COLLECTIVE_BYTES|rank 1|rank 0|unset");
}

/* Somebody who is no rank 0 holds the port. */
static void startup__port_in_use(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[64];

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    snprintf(text, sizeof text, "%u", ntohs(address.sin_port));
    job_start(&job, PATIENT "exec $run -n 3 -- sh -c 'MASTER_PORT=%s exec $self rank 300 1000'",
              text);
    job_says(&job, "in use", 1);
    close(fd);
    assert_int_equal(job_end(&job), RANK_FAILED);
    job_must_have(&job, text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(startup__good),
        cmocka_unit_test(startup__a_rank_never_comes),
        cmocka_unit_test(startup__a_rank_ends_before),
        cmocka_unit_test(startup__two_with_one_number),
        cmocka_unit_test(startup__another_secret),
        cmocka_unit_test(startup__another_size),
        cmocka_unit_test(startup__environment),
        cmocka_unit_test(startup__different_back_ends),
        cmocka_unit_test(startup__a_limit_that_one_rank_says),
        cmocka_unit_test(startup__port_in_use),
    };

    if (argc >= 2 && !strcmp(argv[1], "rank"))
        return rank_main(argc - 2, argv + 2);
    job_isolate();
    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
