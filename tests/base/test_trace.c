/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/trace.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/says.h"

static const struct br_trace_kind kind = {
    .category = "step", .detail = true, .label = "algorithm", .args = {"order", "bytes"}};
static char path[] = "/tmp/braid-trace-XXXXXX";
static char text[40 << 20];

static const char *content(void)
{
    FILE *file = fopen(path, "r");
    size_t n;

    assert_non_null(file);
    n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

/* Behind the next `part` in the text; NULL: none. strstr() of a sanitizer measures the whole text
 * each time. */
static const char *after(const char *at, const char *part)
{
    size_t n = strlen(part);

    for (; *at; at++)
        if (*at == *part && strncmp(at, part, n) == 0)
            return at + n;
    return NULL;
}

static int count(const char *part)
{
    int n = 0;

    for (const char *at = content(); (at = after(at, part));)
        n++;
    return n;
}

/* An array with an object a line. */
static void is_whole(void)
{
    const char *at = content();
    size_t n = strlen(at);

    assert_true(n > 5);
    assert_memory_equal(at, "[\n{\"ph\":\"", 9);
    assert_memory_equal(at + n - 4, "}\n]\n", 4);
    for (const char *end = strstr(at, "\n]\n"); (at = strchr(at, '\n')) && at < end; at++) {
        assert_int_equal(at[1], '{');
        assert_true(at[-1] == '[' || (at[-1] == ',' && at[-2] == '}'));
    }
}

static struct br_trace_event event(const char *name, int64_t order)
{
    return (struct br_trace_event){
        .kind = &kind, .name = name, .label = "ring", .args = {order, -7}};
}

static void trace__writes_what_it_is_told(void **state)
{
    struct br_trace_event e = event("send", 3), other = event("recv", 4);
    struct br_trace_span a, b, c;
    struct br_trace *trace;
    const char *line;
    double ts;

    (void)state;
    assert_int_equal(br_trace_open(path, 2, 1 << 20, 0, &trace), 0);
    br_trace_name(trace, BR_TRACE_OWN_ROWS + 5, "rail \"0\"\n");
    br_trace_begin(trace, BR_TRACE_STEPS, 5000, &a);
    br_trace_begin(trace, BR_TRACE_STEPS, 6000, &b);
    br_trace_begin(trace, BR_TRACE_OPERATIONS, 6000, &c);
    br_trace_end(trace, &a, 7234, &e);
    assert_int_equal(a.row, 0);
    br_trace_begin(trace, BR_TRACE_STEPS, 8000, &a);
    br_trace_end(trace, &b, 9000, &other);
    br_trace_end(trace, &a, 9000, &other);
    br_trace_end(trace, &c, 9000, &other);
    br_trace_close(trace);
    is_whole();
    line = strstr(text, "\"name\":\"send\"");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "\"name\":\"send\",\"ts\":%lf,\"dur\":2.234,", &ts), 1);
    assert_non_null(
        strstr(line, "\"dur\":2.234,\"args\":{\"order\":3,\"bytes\":-7,\"algorithm\":\"ring\"}}"));
    /* the first row of the steps, again when it was free */
    assert_int_equal(count("\"tid\":65,\"cat\""), 2);
    assert_int_equal(count("\"tid\":66,\"cat\""), 1);
    assert_int_equal(count("\"tid\":1,\"cat\""), 1);
    assert_int_equal(count("\"args\":{\"name\":\"steps 0\"}"), 1);
    assert_int_equal(count("\"args\":{\"name\":\"operations 0\"}"), 1);
    assert_int_equal(count("\"args\":{\"name\":\"rail ?0??\"}"), 1);
    assert_int_equal(count("{\"ph\":\"M\",\"pid\":2,\"tid\":0,\"name\":\"process_name\",\"args\":{"
                           "\"name\":\"rank 2\"}}"),
                     1);
    assert_int_equal(count("events lost"), 0);
}

static void trace__what_has_no_row_is_left_out_and_counted(void **state)
{
    struct br_trace_span spans[BR_TRACE_ROWS + 2];
    struct br_trace *trace;

    (void)state;
    assert_int_equal(br_trace_open(path, 0, 1 << 20, 0, &trace), 0);
    for (uint32_t i = 0; i < BR_TRACE_ROWS + 2; i++)
        br_trace_begin(trace, BR_TRACE_OPERATIONS, i, &spans[i]);
    assert_int_equal(spans[BR_TRACE_ROWS - 1].row, BR_TRACE_ROWS);
    assert_int_equal(spans[BR_TRACE_ROWS].row, 0);
    for (uint32_t i = 0; i < BR_TRACE_ROWS + 2; i++) {
        struct br_trace_event e = event("send", i);

        br_trace_end(trace, &spans[i], 100, &e);
    }
    br_trace_close(trace);
    is_whole();
    assert_int_equal(count("\"ph\":\"X\""), BR_TRACE_ROWS);
    assert_int_equal(count("\"tid\":64,\"cat\""), 1); /* bars of a row must not overlap */
    assert_int_equal(count("\"events lost\""), 1);
    assert_int_equal(count("\"args\":{\"events\":2}"), 1);
}

static void trace__counts_what_is_lost(void **state)
{
    struct br_trace *trace;
    unsigned long lost = 0;

    (void)state;
    assert_int_equal(br_trace_open(path, 0, 1 << 30, 0, &trace), 0);
    for (int i = 0; i < 200000; i++) { /* faster than anybody can write */
        struct br_trace_event e = event("send", i);

        br_trace_add(trace, &e);
    }
    br_trace_close(trace);
    is_whole();
    for (const char *at = text; (at = after(at, "\"args\":{\"events\":"));)
        lost += strtoul(at, NULL, 10);
    assert_int_equal((unsigned long)count("\"ph\":\"X\"") + lost, 200000);

    assert_int_equal(br_trace_open(path, 0, 8192, 0, &trace), 0); /* a limit */
    for (int i = 0; i < 1000; i++) {
        struct br_trace_event e = event("send", i);

        br_trace_add(trace, &e);
    }
    br_trace_close(trace);
    is_whole();
    assert_in_range(strlen(text), 4096, 8192);
    lost = strtoul(strstr(text, "\"args\":{\"events\":") + 17, NULL, 10);
    assert_int_equal((unsigned long)count("\"ph\":\"X\"") + lost, 1000);
}

/* A tenth of a second begins by the wall's clock, so the times are those of the next two. */
static void trace_in_detail__as_long_as_the_tenth_has_details_left(void **state)
{
    uint64_t tenth = BR_SEC / 10, now = br_clock_now();
    struct br_trace_event e = event("send", 1);
    struct br_trace *trace;

    (void)state;
    assert_int_equal(br_trace_open(path, 0, 1 << 20, 0, &trace), 0);
    assert_false(br_trace_in_detail(trace, now));
    br_trace_close(trace);
    assert_int_equal(br_trace_open(path, 0, 1 << 20, 25, &trace), 0);
    for (int i = 0; i < 2; i++, now += tenth) {
        for (int k = 0; k < 3; k++) {
            assert_true(br_trace_in_detail(trace, now));
            br_trace_add(trace, &e);
        }
        assert_false(br_trace_in_detail(trace, now));
        br_trace_add(trace, &e); /* of what has begun before */
        assert_false(br_trace_in_detail(trace, now));
    }
    br_trace_close(trace);
    is_whole();
    assert_int_equal(count("\"order\":1"), 8);
}

static void trace__is_whole_when_the_process_is_killed(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(unlink(path), 0);
    pid = fork();
    if (pid == 0) {
        struct br_trace_event e = event("send", 42);
        struct br_trace *trace;

        if (br_trace_open(path, 0, 1 << 20, 0, &trace))
            _exit(1);
        br_trace_add(trace, &e);
        for (;;)
            pause();
    }
    for (int i = 0; i < 3000 && (access(path, R_OK) || !count("\"order\":42")); i++)
        usleep(10000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    is_whole();
    assert_int_equal(count("\"order\":42"), 1);
}

static void trace_path__one_file_a_rank(void **state)
{
    static const struct {
        const char *pattern;
        int size;
        const char *path;
    } cases[] = {
        {"a.json", 1, "a.json"},
        {"a.json", 4, "a.3.json"},
        {"a.%r.json", 4, "a.3.json"},
        {"%r/a", 1, "3/a"},
        {"a", 4, "a.3"},
        {"d.x/a", 4, "d.x/a.3"},
        {"d.x/.a", 4, "d.x/.a.3"},
        {"/t/a.b.json", 2, "/t/a.b.3.json"},
    };
    char out[BR_TRACE_PATH], longest[BR_TRACE_PATH + 1];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(br_trace_path(cases[i].pattern, 3, cases[i].size, out), 0);
        assert_string_equal(out, cases[i].path);
    }
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(br_trace_path(longest, 3, 1, out), -ENAMETOOLONG);
}

/* "/tmp" of several ranks would be the file /tmp.3, and nobody would find it. */
static void trace_path__refuses_folders(void **state)
{
    static const char *const folders[] = {"/tmp", "/tmp/", "/no/such/folder/"};
    char out[BR_TRACE_PATH];

    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (int size = 1; size < 3; size++) {
            assert_int_equal(br_trace_path(folders[i], 0, size, out), -EISDIR);
            assert_says(br_error_message(), "folder");
        }
    assert_non_null(strstr(br_error_message(), ": /no/such/folder/job.json"));
}

static void trace_open__says_what_is_wrong(void **state)
{
    struct br_trace *trace;

    (void)state;
    assert_int_equal(br_trace_open("/no/such/folder/a.json", 0, 1 << 20, 0, &trace), -ENOENT);
    assert_non_null(strstr(br_error_message(), "/no/such/folder/a.json"));
    br_trace_close(NULL);
}

static void trace_open_virtual__has_the_times_it_is_given(void **state)
{
    struct br_trace_span spans[BR_TRACE_ROWS + 1];
    struct br_trace *trace;

    (void)state;
    assert_int_equal(br_trace_open_virtual(path, 2, 1 << 30, 20, &trace), 0);
    br_trace_name(trace, BR_TRACE_OWN_ROWS + 5, "rail 0");
    assert_true(br_trace_in_detail(trace, 5000)); /* in the first tenth of a second, too */
    for (uint32_t i = 0; i <= BR_TRACE_ROWS; i++)
        br_trace_begin(trace, BR_TRACE_STEPS, 5000 + i, &spans[i]);
    for (uint32_t i = 0; i <= BR_TRACE_ROWS; i++) {
        struct br_trace_event e = event("send", i);

        br_trace_end(trace, &spans[i], 9001, &e);
    }
    assert_false(br_trace_in_detail(trace, 9002));
    assert_true(br_trace_in_detail(trace, 2 * BR_SEC));
    assert_int_equal(br_trace_close_virtual(trace, 0), 0);
    is_whole();
    assert_int_equal(count("\"ph\":\"X\""), BR_TRACE_ROWS);
    assert_non_null(strstr(
        content(),
        "\"pid\":2,\"tid\":65,\"cat\":\"step\",\"name\":\"send\",\"ts\":5.000,\"dur\":4.001,"));
    assert_non_null(
        strstr(content(), "\"events lost\",\"s\":\"p\",\"ts\":9.001,\"args\":{\"events\":1}}"));
}

/* Far more events than a ring has room for, and none is lost. */
static void trace_open_virtual__loses_nothing(void **state)
{
    struct br_trace *trace;

    (void)state;
    assert_int_equal(br_trace_open_virtual(path, 0, 1 << 30, 0, &trace), 0);
    for (int i = 0; i < 100000; i++) {
        struct br_trace_event e = event("send", i);

        br_trace_add(trace, &e);
    }
    assert_int_equal(br_trace_close_virtual(trace, 0), 0);
    is_whole();
    assert_int_equal(count("\"ph\":\"X\""), 100000);
    assert_int_equal(count("events lost"), 0);
}

static void trace_close_virtual__leaves_the_older_file_after_an_error(void **state)
{
    struct br_trace_event e = event("send", 1);
    struct br_trace *trace;
    FILE *file = fopen(path, "w");

    (void)state;
    assert_non_null(file);
    fputs("older", file);
    fclose(file);
    assert_int_equal(br_trace_open_virtual(path, 0, 1 << 20, 0, &trace), 0);
    br_trace_add(trace, &e);
    assert_int_equal(br_trace_close_virtual(trace, -EIO), -EIO);
    assert_string_equal(content(), "older");
    assert_int_equal(br_trace_open_virtual("/dev/full", 0, 1 << 20, 0, &trace), 0);
    assert_int_equal(br_trace_close_virtual(trace, 0), -ENOSPC);
    assert_non_null(strstr(br_error_message(), "/dev/full"));
    assert_int_equal(br_trace_open_virtual("/no/such/folder/a.json", 0, 1 << 20, 0, &trace),
                     -ENOENT);
    assert_int_equal(br_trace_close_virtual(NULL, -EIO), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace__writes_what_it_is_told),
        cmocka_unit_test(trace__what_has_no_row_is_left_out_and_counted),
        cmocka_unit_test(trace__counts_what_is_lost),
        cmocka_unit_test(trace_in_detail__as_long_as_the_tenth_has_details_left),
        cmocka_unit_test(trace__is_whole_when_the_process_is_killed),
        cmocka_unit_test(trace_path__one_file_a_rank),
        cmocka_unit_test(trace_path__refuses_folders),
        cmocka_unit_test(trace_open__says_what_is_wrong),
        cmocka_unit_test(trace_open_virtual__has_the_times_it_is_given),
        cmocka_unit_test(trace_open_virtual__loses_nothing),
        cmocka_unit_test(trace_close_virtual__leaves_the_older_file_after_an_error),
    };
    int fd = mkstemp(path), rc;

    if (fd < 0)
        return 1;
    close(fd);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return rc;
}
