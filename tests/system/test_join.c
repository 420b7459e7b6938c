/* SPDX-License-Identifier: BSD-3-Clause */
/* Real processes, started by `braid run`, find each other: this program is both the test and the
 * rank. */
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
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store.h"
#include "tests/says.h"

static int be_rank(void)
{
    uint32_t all[64] = {0}, mine;
    struct br_environment environment;
    struct br_store *store = NULL;
    struct br_secret secret;
    int rc = br_environment_read(NULL, &environment);

    if (rc == 0)
        rc = br_secret_read(&environment, NULL, &secret);
    if (rc == 0)
        rc = br_store_open(&environment, &secret, environment.init_deadline, &store);
    mine = environment.rank * environment.rank;
    if (rc == 0)
        rc = br_store_gather(store, "squares", &mine, sizeof mine, all,
                             br_clock_now() + 10 * BR_SEC);
    for (uint32_t i = 0; rc == 0 && i < environment.size; i++)
        if (all[i] != i * i)
            rc = br_error(EBADMSG, "rank %u gave %u", i, all[i]);
    if (rc < 0)
        fprintf(stderr, "error: %s\n", br_error_message());
    else
        printf("all %u are here\n", environment.size);
    br_store_close(store);
    return rc < 0 ? 9 : 0;
}

static char output[8192];

/* Runs a shell command line with $run and $self in it; its exit code, its output in `output`. */
static int shell(const char *line)
{
    FILE *pipe = popen(line, "r");
    size_t n;
    int status;

    assert_non_null(pipe);
    n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = 0;
    status = pclose(pipe);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void says(const char *nouns)
{
    assert_says(output, nouns);
}

static void join__all_come(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(shell("$run -n 9 -- $self rank 2>&1"), 0);
        says("[0] all 9 are here");
        says("[8] all 9 are here");
    }
    assert_int_equal(shell("$run -n 1 -- true"), 0);
}

static void join__one_ends_before(void **state)
{
    (void)state;
    assert_int_equal(
        shell("$run -n 3 -- sh -c 'if [ $RANK = 1 ]; then exit 4; fi; exec $self rank' 2>&1"), 4);
    says("rank 1 (process |exit code 4");
}

static void join__one_never_comes(void **state)
{
    (void)state;
    assert_int_equal(
        shell("BRAID_INIT_TIMEOUT=6 $run -n 3 -- sh -c 'if [ $RANK = 1 ]; then exec sleep 300; fi; "
              "exec $self rank' 2>&1"),
        9);
    says("error: rank 1 of 3");
}

static void join__two_with_one_rank(void **state)
{
    (void)state;
    assert_int_equal(
        shell("$run -n 3 -- sh -c 'if [ $RANK = 1 ]; then RANK=2; fi; exec $self rank' 2>&1"), 9);
    says("rank 2: process ");
}

static void join__without_a_secret(void **state)
{
    (void)state;
    assert_int_equal(shell("$run -n 2 -- sh -c 'unset BRAID_SECRET; exec $self rank' 2>&1"), 9);
    says("secret|`braid run`");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join__all_come),         cmocka_unit_test(join__one_ends_before),
        cmocka_unit_test(join__one_never_comes),  cmocka_unit_test(join__two_with_one_rank),
        cmocka_unit_test(join__without_a_secret),
    };
    const char *build = getenv("BRAID_BUILD");
    char path[4096];

    if (argc == 2 && !strcmp(argv[1], "rank"))
        return be_rank();
    if (!build) {
        fputs("BRAID_BUILD is not set: run this by ctest\n", stderr);
        return 1;
    }
    snprintf(path, sizeof path, "%s/braid run", build);
    setenv("run", path, 1);
    setenv("self", realpath("/proc/self/exe", path), 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
