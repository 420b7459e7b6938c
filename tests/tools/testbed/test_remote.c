/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/remote.h"

#include <errno.h>
#include <poll.h>
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

/* All that comes from the descriptor until its end, in at most 20 seconds. */
static void read_all(int fd, char *text, size_t bytes)
{
    size_t used = 0;

    for (;;) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        ssize_t n;

        assert_int_equal(poll(&one, 1, 20000), 1);
        n = read(fd, text + used, bytes - 1 - used);
        assert_true(n >= 0);
        if (n == 0)
            break;
        used += (size_t)n;
    }
    text[used] = 0;
}

static void remote_start__refusals_name_the_host(void **state)
{
    const struct br_remote_host nowhere = {
        .kind = BR_REMOTE_NAMESPACE, .name = "h01", .where = "no-such-namespace"};
    struct br_remote remote;

    (void)state;
    assert_int_equal(br_remote_start(&remote, &here, COMMAND("/no/such/command")), -ENOENT);
    assert_says(br_error_message(), "host h00|/no/such/command");
    assert_int_equal(br_remote_start(&remote, &nowhere, COMMAND("true")), -ENOENT);
    assert_says(br_error_message(), "host h01|no-such-namespace");
}

/* A child of the command outlives it, but not br_remote_end(). */
static void remote_end__kills_the_group(void **state)
{
    struct br_remote remote;
    char text[64];
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* the child is ours to reap then */
    assert_int_equal(
        br_remote_start(&remote, &here, COMMAND("sh", "-c", "sleep 77 >&- 2>&- & echo $!")), 0);
    read_all(remote.out, text, sizeof text);
    child = (pid_t)atoi(text);
    assert_true(child > 0);
    assert_int_equal(br_remote_end(&remote, 5000), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
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

static void remote_start__ssh(void **state)
{
    const struct br_remote_host far = {.kind = BR_REMOTE_SSH, .name = "h02", .where = "root@far"},
                                lost = {.kind = BR_REMOTE_SSH, .name = "h03", .where = "lost"};
    char folder[] = "/tmp/test_remote.XXXXXX", path[64], text[128];
    struct br_remote remote;

    (void)state;
    put_ssh_in_path(folder);
    assert_int_equal(
        br_remote_start(&remote, &far, COMMAND("printf", "%s|", "it's", "$HOME a  b", "", "\"*\"")),
        0);
    read_all(remote.out, text, sizeof text);
    assert_string_equal(text, "it's|$HOME a  b||\"*\"|");
    assert_int_equal(br_remote_end(&remote, 5000), 0);
    assert_int_equal(br_remote_start(&remote, &lost, COMMAND("true")), 0);
    read_all(remote.err, text, sizeof text);
    assert_int_equal(br_remote_end(&remote, 5000), -EHOSTUNREACH);
    assert_says(br_error_message(), "host h03|ssh lost");
    snprintf(path, sizeof path, "%s/ssh", folder);
    unlink(path);
    rmdir(folder);
}

static void remote_start__a_conversation(void **state)
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

static void remote_quote__quotes(void **state)
{
    char *text = br_remote_quote("a'b");

    (void)state;
    assert_string_equal(text, "'a'\\''b'");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote_start__refusals_name_the_host),
        cmocka_unit_test(remote_start__a_conversation),
        cmocka_unit_test(remote_end__kills_the_group),
        cmocka_unit_test(remote_quote__quotes),
        cmocka_unit_test(remote_start__ssh), /* last: it changes PATH */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
