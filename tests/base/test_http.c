/* SPDX-License-Identifier: BSD-3-Clause */
/* A served page over its socket: who may ask, what is answered to nonsense, slow clients, names
 * that are left over. */
#include "base/http.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/says.h"

#define NOBODY 65534

static char folder[] = "/tmp/braid-serve-XXXXXX";
static char path[64];

static char *make_count(void *context)
{
    char *text = malloc(32);

    snprintf(text, 32, "asked %d", ++*(int *)context);
    return text;
}

static char *make_large(void *context)
{
    char *text = malloc(1 << 20);

    (void)context;
    memset(text, 'x', 1 << 20);
    text[(1 << 20) - 1] = 0;
    return text;
}

static char *make_nothing(void *context)
{
    (void)context;
    return NULL;
}

static const struct br_http_page pages[] = {{"/count", "text/plain", make_count},
                                            {"/large", "text/plain", make_large},
                                            {"/nothing", "text/plain", make_nothing},
                                            {0}};

static void ask__pages(void **state)
{
    struct br_http *serve;
    int count = 0;
    char *text;

    (void)state;
    assert_int_equal(br_http_open(path, pages, &count, &serve), 0);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(br_http_ask(path, "/count", 5000, &text), 0);
        assert_string_equal(text, i == 1 ? "asked 1" : "asked 2");
        free(text);
    }
    assert_int_equal(br_http_ask(path, "/large", 5000, &text), 0);
    assert_int_equal(strlen(text), (1 << 20) - 1);
    free(text);
    assert_int_equal(br_http_ask(path, "/coun", 5000, &text), -EPROTO);
    assert_says(br_error_message(), "page");
    assert_int_equal(br_http_ask(path, "/nothing", 5000, &text), -EPROTO);
    br_http_close(serve);
    assert_int_equal(br_http_ask(path, "/count", 5000, &text), -ENOENT);
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* What is answered to these bytes, up to the end. */
static void says(const char *request, const char *answer)
{
    char text[4096] = "";

    /* who stands still for a second gets no answer */
    for (int tries = 0; tries < 5 && !*text; tries++) {
        size_t n = 0;
        ssize_t k;
        int fd = dial();

        (void)!send(fd, request, strlen(request), MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while ((k = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0)
            n += (size_t)k;
        close(fd);
    }
    assert_string_equal(strlen(answer) ? text + 9 : text,
                        strlen(answer) ? strstr(text + 9, answer) : "");
}

static void request__nonsense(void **state)
{
    struct br_http *serve;
    char longer[5000];
    int count = 0;
    char *text;

    (void)state;
    assert_int_equal(br_http_open(path, pages, &count, &serve), 0);
    says("PUT /count HTTP/1.0\r\n\r\n", "405 ");
    says("GET /elsewhere HTTP/1.1\r\n\r\n", "404 ");
    says("GET\r\n\r\n", "405 ");
    says("GET ", "");
    says("", "");
    memset(longer, 'a', sizeof longer);
    longer[sizeof longer - 1] = 0;
    says(longer, "");
    says("GET /count?x=1 HTTP/1.1\r\nHost: here\r\n\r\n", "200 ");
    assert_int_equal(br_http_ask(path, "/count", 5000, &text), 0);
    assert_string_equal(text, "asked 2");
    free(text);
    br_http_close(serve);
}

/* A client that connects and says nothing holds up the next one for a while, not for ever. */
static void request__silent_client(void **state)
{
    struct br_http *serve;
    int count = 0, fd;
    char *text;

    (void)state;
    assert_int_equal(br_http_open(path, pages, &count, &serve), 0);
    fd = dial();
    assert_int_equal(br_http_ask(path, "/count", 20000, &text), 0);
    free(text);
    close(fd);
    fd = dial();
    br_http_close(serve); /* does not wait for it longer than that, either */
    close(fd);
}

/* The folder lets nobody else in; where it does, the kernel says who asks. */
static void ask__foreign_user(void **state)
{
    struct br_http *serve;
    int count = 0, status;
    pid_t child;

    (void)state;
    if (geteuid())
        skip();
    assert_int_equal(br_http_open(path, pages, &count, &serve), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(chmod(path, 0666), 0);
    child = fork();
    if (!child) {
        char *text;
        int rc = setgid(NOBODY) || setuid(NOBODY) ? 1 : br_http_ask(path, "/count", 5000, &text);

        _exit(rc == -EACCES ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(count, 0);
    br_http_close(serve);
    assert_int_equal(chmod(folder, 0700), 0);
}

/* A listener that has not answered yet, by hand. */
static int listen_by_hand(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

/* Who is stopped while it waits for the answer, and goes on, still gets it. Often, as it may not
 * have waited yet. */
static void ask__stopped_meanwhile(void **state)
{
    static const char answer[] = "HTTP/1.0 200 OK\r\n\r\nhere";
    int listener = listen_by_hand(), fd, status;
    pid_t child = fork();
    char request[200];

    (void)state;
    if (!child) {
        char *text;

        _exit(br_http_ask(path, "/count", 60000, &text) || strcmp(text, "here") != 0);
    }
    fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(kill(child, SIGSTOP), 0);
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        assert_int_equal(kill(child, SIGCONT), 0);
        usleep(1000);
    }
    /* what is not read would take the answer away */
    assert_true(recv(fd, request, sizeof request, 0) > 0);
    assert_int_equal(send(fd, answer, strlen(answer), MSG_NOSIGNAL), (ssize_t)strlen(answer));
    close(fd);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(listener);
    unlink(path);
}

static void forget__only_dead_sockets(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), count = 0;
    struct br_http *serve;
    char file[80];

    (void)state;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd); /* as a killed process leaves it */
    assert_int_equal(br_http_forget(path), 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(br_http_open(path, pages, &count, &serve), 0);
    assert_int_equal(br_http_forget(path), 0);
    assert_int_equal(access(path, F_OK), 0);
    br_http_close(serve);
    snprintf(file, sizeof file, "%s/folder", folder);
    assert_int_equal(mkdir(file, 0700), 0);
    assert_int_equal(br_http_forget(file), 0);
    assert_int_equal(rmdir(file), 0);
}

static void folder__must_be_ours(void **state)
{
    char found[128], wanted[80], long_path[120];
    struct br_http *serve;
    int count = 0;

    (void)state;
    snprintf(wanted, sizeof wanted, "%s/new", folder);
    assert_int_equal(br_http_folder_find(wanted, found, sizeof found), -ENOENT);
    assert_string_equal(found, wanted);
    assert_int_equal(access(wanted, F_OK), -1); /* who looks makes nothing */
    assert_int_equal(br_http_folder(wanted, found, sizeof found), 0);
    assert_string_equal(found, wanted);
    assert_int_equal(br_http_folder(wanted, found, sizeof found), 0);
    assert_int_equal(chmod(wanted, 0777), 0);
    assert_int_equal(br_http_folder(wanted, found, sizeof found), -EPERM);
    assert_int_equal(br_http_folder_find(wanted, found, sizeof found), -EPERM);
    assert_int_equal(rmdir(wanted), 0);
    assert_int_equal(symlink("/tmp", wanted), 0);
    assert_int_equal(br_http_folder(wanted, found, sizeof found), -EPERM);
    assert_int_equal(unlink(wanted), 0);
    assert_int_equal(br_http_folder(folder, found, 5), -ENAMETOOLONG);
    assert_int_equal(br_http_folder_find(folder, found, sizeof found), 0);
    assert_int_equal(br_http_folder("/proc/none/here", found, sizeof found), -ENOENT);
    snprintf(long_path, sizeof long_path, "%s/%080d", folder, 1);
    assert_int_equal(br_http_open(long_path, pages, &count, &serve), -ENAMETOOLONG);
    assert_int_equal(br_http_open("/proc/none/socket", pages, &count, &serve), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ask__pages),
        cmocka_unit_test(request__nonsense),
        cmocka_unit_test(request__silent_client),
        cmocka_unit_test(ask__foreign_user),
        cmocka_unit_test(ask__stopped_meanwhile),
        cmocka_unit_test(forget__only_dead_sockets),
        cmocka_unit_test(folder__must_be_ours),
    };
    int rc;

    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/socket", folder);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return rc;
}
