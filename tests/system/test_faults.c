/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes of a job die, stop, are cut off or give up in the middle of all-reduces: everybody else
 * gets a typed error that says why, in time, and nothing is left behind. */
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rank.h"
#include "tests/says.h"

#define COUNT   "500000"
#define WORK_MS 150 /* until the fault: in the middle of something */
/* The kernel reports the fault: who waits for the silence of a peer is taken for one that hangs. */
#define NO_SILENCE "BRAID_PEER_TIMEOUT=300"

static const char *const backends[] = {"tcp", "shm", "udp", "auto"};
#define BACKENDS 4

static struct job job;

/* n ranks that work until something happens, and have for a moment. */
static void start(const char *backend, int n, const char *environment)
{
    job_start(&job, "exec env %s $run -n %d --backend %s -- $self rank 300000 " COUNT, environment,
              n, backend);
    job_ready(&job, n);
    usleep(WORK_MS * 1000);
}

/* Every rank but `victim` must have failed with this error and have named who is to blame and what
 * else matters. Who was between two calls gets the same message, but of a failure of before:
 * -ECANCELED. */
static void expect_errors(int n, int victim, int error, const char *nouns, bool link)
{
    char line[512], blamed[32], start_[32];
    bool earlier;

    snprintf(blamed, sizeof blamed, "rank %d", victim);
    snprintf(start_, sizeof start_, "error %d: ", error);
    for (int r = 0; r < n; r++) {
        if (r == victim)
            continue;
        earlier = error != ECANCELED && job_has_line(&job, r, "error 125: ");
        job_line(&job, r, earlier ? "error 125: " : start_, line, sizeof line);
        if ((earlier && !says_all(line, "before")) || !says_all(line, nouns) ||
            !says_all(line, blamed) ||
            (link && (!strstr(line, "level 0") || !strstr(line, "device "))))
            fail_msg("rank %d does not say \"%s\", \"%s\" and the link in: %s\n%s", r, nouns,
                     blamed, line, job.text);
    }
    assert_false(job_has(&job, "leak:"));
    assert_false(job_has(&job, "did not end in time"));
}

static void faults__killed(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++)
        for (int n = 2; n <= 4; n++) {
            int victim = (b + n) % n;

            start(backends[b], n, NO_SILENCE);
            job_signal(&job, victim, SIGKILL);
            assert_int_equal(job_end(&job), 128 + SIGKILL);
            job_must_have(&job, "signal 9");
            expect_errors(n, victim, ECONNRESET, "is lost", true);
        }
}

/* What a rank of one part suffers ends the other part too, which would not have noticed. */
static void faults__killed_in_another_part(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        int victim = (b + 1) % 4;

        job_start(&job, NO_SILENCE " exec $run -n 4 --backend %s -- $self rank 300000 " COUNT " 2",
                  backends[b]);
        job_ready(&job, 4);
        usleep(WORK_MS * 1000);
        job_signal(&job, victim, SIGKILL);
        assert_int_equal(job_end(&job), 128 + SIGKILL);
        expect_errors(4, victim, ECONNRESET, "is lost", true);
    }
}

static void faults__leaves_without_a_word(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        int n = 2 + b, victim = b % 2;

        start(backends[b], n, NO_SILENCE);
        job_signal(&job, victim, RANK_LEAVE);
        assert_int_equal(job_end(&job), RANK_FAILED);
        expect_errors(n, victim, ECONNRESET, "is lost", true);
    }
}

static void faults__aborted(void **state)
{
    char line[512];

    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        int n = 2 + (b + 2) % 3, who = b % 2;

        start(backends[b], n, NO_SILENCE);
        job_signal(&job, who, RANK_ABORT);
        assert_int_equal(job_end(&job), RANK_FAILED);
        expect_errors(n, who, ECANCELED, "aborted", false);
        expect_errors(n, who, ECANCELED, "the test wants it", false);
        job_line(&job, who, "error 125: ", line, sizeof line);
    }
}

/* One connection of many: both its ends are alive, so each blames the other, and the rest hears of
 * it. */
static void faults__connection_cut(void **state)
{
    char line[512];

    (void)state;
    for (int b = 0; b < BACKENDS; b++) {
        int n = 3;

        if (!strcmp(backends[b], "udp"))
            continue; /* has nothing that could be shut down */
        start(backends[b], n, NO_SILENCE);
        job_signal(&job, 1, RANK_CUT);
        assert_int_equal(job_end(&job), RANK_FAILED);
        for (int r = 0; r < n; r++) {
            job_line(&job, r, "error ", line, sizeof line);
            assert_true(!strncmp(line, "104: ", 5) || !strncmp(line, "125: ", 5));
            assert_non_null(strstr(line, "is lost"));
            assert_non_null(strstr(line, "level 0"));
        }
        assert_false(job_has(&job, "leak:"));
    }
}

/* With a second rail the job goes on, and the lost one comes back. */
static void faults__one_connection_of_two_cut(void **state)
{
    (void)state;
    job_start(&job,
              NO_SILENCE " exec $run -n 3 --backend tcp --rails 2 -- $self rank 300000 " COUNT);
    job_ready(&job, 3);
    for (int i = 1; i <= 3; i++) {
        job_signal(&job, i % 3, RANK_CUT);
        job_says(&job, "slices", 2 * i); /* both ends say so */
        /* both: the next cut may be between the same ranks */
        job_says(&job, "whole again\n", 2 * i);
    }
    job_signal(&job, 0, RANK_END);
    if (job_end(&job))
        fail_msg("the job has failed:\n%s", job.text);
    job_must_have(&job, "[2] done ");
}

static void faults__stopped(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS - 1; b++) { /* on one host auto is shm */
        int n = 2 + b, victim = n - 1;

        /* the others may stand still for half of it */
        start(backends[b], n, "BRAID_PEER_TIMEOUT=4");
        job_signal(&job, victim, SIGSTOP);
        /* The launcher waits for it to end, in vain, before it kills it. */
        job_says(&job, "] error ", n - 1);
        job_signal(&job, victim, SIGCONT);
        assert_int_equal(job_end(&job), RANK_FAILED);
        expect_errors(n, victim, ECONNRESET, "silent for", true);
        assert_true(job_has_line(&job, victim, "error "));
    }
}

static void faults__stopped_shortly(void **state)
{
    (void)state;
    for (int b = 0; b < BACKENDS - 1; b++) {
        job_start(&job,
                  "BRAID_PEER_TIMEOUT=6 exec $run -n 3 --backend %s -- $self rank 300000 " COUNT,
                  backends[b]);
        job_ready(&job, 3);
        usleep(WORK_MS * 1000);
        job_signal(&job, b, SIGSTOP);
        usleep(1200000);
        job_signal(&job, b, SIGCONT);
        job_signal(&job, b, RANK_END);
        if (job_end(&job))
            fail_msg("the job has failed:\n%s", job.text);
        job_must_have(&job, "[2] done ");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults__killed),
        cmocka_unit_test(faults__killed_in_another_part),
        cmocka_unit_test(faults__leaves_without_a_word),
        cmocka_unit_test(faults__aborted),
        cmocka_unit_test(faults__connection_cut),
        cmocka_unit_test(faults__one_connection_of_two_cut),
        cmocka_unit_test(faults__stopped),
        cmocka_unit_test(faults__stopped_shortly),
    };

    if (argc >= 2 && !strcmp(argv[1], "rank"))
        return rank_main(argc - 2, argv + 2);
    job_isolate();
    if (argc == 2) /* only some */
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
