/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/remote.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/says.h"

static const struct br_remote_host here = {.kind = BR_REMOTE_HERE, .name = "h00"};

#define COMMAND(...) ((char *[]){__VA_ARGS__, NULL})

static void reach_all__input_and_both_outputs(void **state)
{
    size_t bytes = 3 << 20; /* more than pipes hold */
    char *input = malloc(bytes);
    struct br_remote_task tasks[] = {
        {.host = &here, .argv = COMMAND("cat"), .input = input, .input_bytes = bytes},
        {.host = &here, .argv = COMMAND("sh", "-c", "echo out; echo err >&2; exit 3")},
        {.host = &here, .argv = COMMAND("sh", "-c", "kill -TERM $$")},
    };

    (void)state;
    assert_non_null(input);
    for (size_t i = 0; i < bytes; i++)
        input[i] = (char)(i * 31);
    for (int at_once = 0; at_once < 3; at_once++) {
        assert_int_equal(br_remote_all(tasks, 3, at_once, 20000), 0);
        assert_int_equal(tasks[0].code, 0);
        assert_int_equal(tasks[0].out_bytes, bytes);
        assert_memory_equal(tasks[0].out, input, bytes);
        assert_string_equal(tasks[1].out, "out\n");
        assert_string_equal(tasks[1].err, "err\n");
        assert_int_equal(tasks[1].code, 3);
        assert_int_equal(tasks[2].code, 128 + SIGTERM);
        assert_string_equal(tasks[2].out, "");
        br_remote_free(tasks, 3);
    }
    free(input);
}

static void reach_all__timeout_kills_the_group(void **state)
{
    struct br_remote_task tasks[] = {
        {.host = &here, .argv = COMMAND("sh", "-c", "echo begun; sleep 77 & sleep 77")},
        {.host = &here, .argv = COMMAND("true")},
    };
    uint64_t start = br_clock_now();

    (void)state;
    /* time enough for the other one, and for 'begun' */
    assert_int_equal(br_remote_all(tasks, 2, 0, 3000), 1);
    assert_true(br_clock_now() - start < 60 * BR_SEC);
    assert_int_equal(tasks[0].rc, -ETIMEDOUT);
    assert_says(tasks[0].message, "host h00|'sh'");
    assert_string_equal(tasks[0].out, "begun\n");
    assert_int_equal(tasks[1].rc, 0);
    br_remote_free(tasks, 2);
}

/* What a command leaves behind in its group, with our pipes open, does not keep us. */
static void reach_all__what_is_left_behind_is_killed(void **state)
{
    struct br_remote_task task = {.host = &here, .argv = COMMAND("sh", "-c", "sleep 77 & echo $!")};

    int status;

    (void)state;

    prctl(PR_SET_CHILD_SUBREAPER, 1); /* the unacknowledged message becomes our child */
    assert_int_equal(br_remote_all(&task, 1, 0, 20000), 0);
    assert_int_equal(waitpid(atoi(task.out), &status, 0), atoi(task.out));
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    br_remote_free(&task, 1);
}

static void reach_all__refusals_name_the_host(void **state)
{
    const struct br_remote_host nowhere = {
        .kind = BR_REMOTE_NAMESPACE, .name = "h01", .where = "no-such-namespace"};
    struct br_remote_task tasks[] = {
        {.host = &here, .argv = COMMAND("/no/such/command")},
        {.host = &nowhere, .argv = COMMAND("true")},
    };

    (void)state;
    assert_int_equal(br_remote_all(tasks, 2, 0, 0), 2);
    assert_int_equal(tasks[0].rc, -ENOENT);
    assert_non_null(strstr(tasks[0].message, "host h00: cannot run '/no/such/command'"));
    assert_int_equal(tasks[1].rc, -ENOENT);
    assert_non_null(
        strstr(tasks[1].message, "host h01: network namespace /run/netns/no-such-namespace"));
    br_remote_free(tasks, 2);
}

/* A stand-in for ssh: what it is given for the far shell goes to a shell here; host "lost" is not
 * reachable. */
static void put_ssh_in_path(char *folder)
{
    char path[64];
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ssh", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("#!/bin/sh\n"
          "while [ \"$1\" != -- ]; do case $1 in -oBatchMode=yes) batch=1 ;; esac; shift; done\n"
          "[ \"$batch\" = 1 ] || exit 9\n"
          "if [ \"$2\" = lost ]; then echo 'Connection refused' >&2; exit 255; fi\n"
          "exec sh -c \"$3\"\n",
          file);
    fclose(file);
    chmod(path, 0755);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
}

static void reach_all__ssh(void **state)
{
    const struct br_remote_host far = {.kind = BR_REMOTE_SSH, .name = "h02", .where = "root@far"},
                                lost = {.kind = BR_REMOTE_SSH, .name = "h03", .where = "lost"};
    struct br_remote_task tasks[] = {
        {.host = &far, .argv = COMMAND("printf", "%s|", "it's", "$HOME a  b", "", "\"*\"")},
        {.host = &lost, .argv = COMMAND("true")},
        {.host = &far, .argv = COMMAND("cat"), .input = "hello", .input_bytes = 5},
    };
    char folder[] = "/tmp/test_reach.XXXXXX", path[64];

    (void)state;
    put_ssh_in_path(folder);
    assert_int_equal(br_remote_all(tasks, 3, 0, 20000), 1);
    assert_string_equal(tasks[0].out, "it's|$HOME a  b||\"*\"|");
    assert_int_equal(tasks[1].rc, -EHOSTUNREACH);
    assert_says(tasks[1].message, "host h03|ssh lost|Connection refused");
    assert_string_equal(tasks[2].out, "hello");
    br_remote_free(tasks, 3);
    snprintf(path, sizeof path, "%s/ssh", folder);
    unlink(path);
    rmdir(folder);
}

static void reach_start__a_conversation(void **state)
{
    struct br_remote remote;
    char text[16];
    ssize_t n;

    (void)state;
    assert_int_equal(br_remote_start(&remote, &here, COMMAND("cat")), 0);
    assert_int_equal(write(remote.in, "one", 3), 3);
    while ((n = read(remote.out, text, sizeof text)) < 0 && errno == EAGAIN)
        usleep(1000);
    assert_int_equal(n, 3);
    assert_memory_equal(text, "one", 3);
    assert_int_equal(br_remote_end(&remote, 5000), 0);

    assert_int_equal(br_remote_start(&remote, &here, COMMAND("sleep", "77")), 0);
    assert_int_equal(br_remote_end(&remote, 10), 128 + SIGKILL);
}

static void reach_quote__quotes(void **state)
{
    char *text = br_remote_quote("a'b");

    (void)state;
    assert_string_equal(text, "'a'\\''b'");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach_all__input_and_both_outputs),
        cmocka_unit_test(reach_all__timeout_kills_the_group),
        cmocka_unit_test(reach_all__what_is_left_behind_is_killed),
        cmocka_unit_test(reach_all__refusals_name_the_host),
        cmocka_unit_test(reach_start__a_conversation),
        cmocka_unit_test(reach_quote__quotes),
        cmocka_unit_test(reach_all__ssh), /* last: it changes PATH */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
