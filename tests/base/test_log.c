/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "tests/says.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What body() writes to stderr in a child process, whose log level is still to be read from
 * BRAID_LOG. */
static void capture(const char *setting, void (*body)(void), char *out, size_t size)
{
    int fds[2];
    pid_t child;
    size_t at = 0;
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (setting)
            setenv("BRAID_LOG", setting, 1);
        else
            unsetenv("BRAID_LOG");
        dup2(fds[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(fds[1]);
    while (at < size - 1 && (n = read(fds[0], out + at, size - 1 - at)) > 0)
        at += (size_t)n;
    out[at] = 0;
    close(fds[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void say_all(void)
{
    br_log_error("e %d", 1);
    br_log_warn("w %d", 2);
    br_log_info("i %d", 3);
    br_log_debug("d %d", 4);
}

static void log__level_comes_from_the_environment(void **state)
{
    static const struct {
        const char *setting, *expected;
    } cases[] = {
        {NULL, "braid error: e 1\nbraid warn: w 2\n"},
        {"", "braid error: e 1\nbraid warn: w 2\n"},
        {"error", "braid error: e 1\n"},
        {"info", "braid error: e 1\nbraid warn: w 2\nbraid info: i 3\n"},
        {"debug", "braid error: e 1\nbraid warn: w 2\nbraid info: i 3\nbraid debug: d 4\n"},
    };
    char out[512];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        capture(cases[i].setting, say_all, out, sizeof out);
        assert_string_equal(out, cases[i].expected);
    }
}

static void log__unknown_level_is_told(void **state)
{
    char out[512];

    (void)state;
    capture("loud", say_all, out, sizeof out);
    assert_says(out, "BRAID_LOG=loud|error|warn|info|debug");
    assert_non_null(strstr(out, "braid warn: w 2\n"));
    assert_null(strstr(out, "i 3"));
}

static void say_with_rank(void)
{
    br_log_set_level(BR_LOG_INFO);
    br_log_set_rank(3);
    br_log_info("joined");
}

static void log__rank_and_override(void **state)
{
    char out[512];

    (void)state;
    capture("error", say_with_rank, out, sizeof out);
    assert_string_equal(out, "braid[3] info: joined\n");
}

static void say_too_much(void)
{
    char text[3000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    br_log_error("%s", text);
    br_log_error("next");
}

static void log__long_line_is_cut_and_ends(void **state)
{
    char out[4096];
    const char *end;

    (void)state;
    capture(NULL, say_too_much, out, sizeof out);
    end = strchr(out, '\n');
    assert_non_null(end);
    assert_true(end - out < 1024);
    assert_string_equal(end + 1, "braid error: next\n");
}

/* 11 minutes in which somebody causes a line each 66 ms. */
static void say_without_end(void)
{
    struct br_log_limit limit = {0};

    for (uint64_t i = 0; i < 10000; i++)
        br_log_limited(&limit, 5 + i * 66000000, BR_LOG_WARN, "peer %d", (int)i);
    br_log_limit_end(&limit, "lines of a test");
    br_log_limit_end(&limit, "nothing any more");
}

static void log_limited__eight_a_minute_and_the_rest_counted(void **state)
{
    static char out[32768];
    unsigned long long left_out, all = 0;
    int peers = 0;

    (void)state;
    capture(NULL, say_without_end, out, sizeof out);
    for (const char *at = out; (at = strstr(at, "braid warn: ")); at++) {
        peers += !strncmp(at, "braid warn: peer ", 17);
        if (sscanf(at, "braid warn: %llu ", &left_out) == 1)
            all += left_out;
    }
    assert_int_equal(peers, 11 * BR_LOG_LIMIT_LINES);
    assert_int_equal(all + (unsigned)peers, 10000);
    assert_non_null(strstr(out, "braid warn: peer 0\n"));
    assert_non_null(strstr(out, "braid warn: peer 7\nbraid warn: further lines"));
    assert_null(strstr(out, "peer 8\n"));
    assert_says(out, "lines of a test");
    assert_null(strstr(out, "nothing any more"));
    capture("error", say_without_end, out, sizeof out);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log__level_comes_from_the_environment),
        cmocka_unit_test(log__unknown_level_is_told),
        cmocka_unit_test(log__rank_and_override),
        cmocka_unit_test(log__long_line_is_cut_and_ends),
        cmocka_unit_test(log_limited__eight_a_minute_and_the_rest_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
