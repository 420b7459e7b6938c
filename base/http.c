/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/http.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define REQUEST  2048 /* bytes of a request, at most */
#define PATIENCE BR_SEC

struct br_http {
    const struct br_http_page *pages;
    void *context;
    int listen_fd, stop_fd;
    pthread_t thread;
    struct sockaddr_un address;
};

/* A process that was stopped and goes on finds such calls interrupted, even without a handler,
 * where the socket has a time limit. */
static ssize_t http_receive(int fd, char *bytes, size_t room)
{
    ssize_t n;

    do
        n = recv(fd, bytes, room, 0);
    while (n < 0 && errno == EINTR);
    return n;
}

/* ---- one connection -------------------------------------------------------------------------- */

static void http_put(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t n = send(fd, text, bytes, MSG_NOSIGNAL);

        if (n <= 0 && errno != EINTR)
            return; /* gone, or too slow */
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
}

static void http_answer(int fd, const char *status, const char *type, const char *text)
{
    char head[200];
    int n = snprintf(
        head, sizeof head,
        "HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
        status, type, strlen(text));

    http_put(fd, head, (size_t)n);
    http_put(fd, text, strlen(text));
}

/* The head of the request, up to its empty line. false: none came. */
static bool read_request(int fd, char *request)
{
    uint64_t until = br_clock_now() + PATIENCE;
    size_t n = 0;

    request[0] = 0;
    while (n < REQUEST - 1 && !strstr(request, "\r\n\r\n") && br_clock_now() < until) {
        ssize_t k = http_receive(fd, request + n, REQUEST - 1 - n);

        if (k <= 0)
            return false;
        n += (size_t)k;
        request[n] = 0;
    }
    return strstr(request, "\r\n\r\n");
}

static void serve_one(const struct br_http *s, int fd)
{
    const struct br_http_page *page = s->pages;
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof who;
    char request[REQUEST], *text;
    size_t length;

    if (!read_request(fd, request))
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) ||
        (who.uid != geteuid() && who.uid != 0)) {
        http_answer(fd, "403 Forbidden", "text/plain",
                    "only the user of this process and root may ask\n");
        return;
    }
    if (strncmp(request, "GET ", 4) != 0) {
        http_answer(fd, "405 Method Not Allowed", "text/plain", "there is only GET\n");
        return;
    }
    length = strcspn(request + 4, " ?\r\n");
    while (page->path &&
           (strlen(page->path) != length || strncmp(page->path, request + 4, length) != 0))
        page++;
    if (!page->path) {
        http_answer(fd, "404 Not Found", "text/plain", "there is no such page\n");
        return;
    }
    text = page->make(s->context);
    if (text)
        http_answer(fd, "200 OK", page->type, text);
    else
        http_answer(fd, "500 Internal Server Error", "text/plain", "no memory\n");
    free(text);
}

static void *http_run(void *argument)
{
    const struct br_http *s = argument;
    struct pollfd fds[] = {{.fd = s->listen_fd, .events = POLLIN},
                           {.fd = s->stop_fd, .events = POLLIN}};
    struct timeval patience = {.tv_usec = (suseconds_t)(PATIENCE / 1000) - 1};

    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
        int fd;

        if (fds[1].revents)
            break;
        fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
                poll(&fds[1], 1, 100); /* the connection stays there: not again at once */
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        serve_one(s, fd);
        close(fd);
    }
    return NULL;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* Bound, listening, and only then under its name (note 3). */
static int http_open_socket(struct br_http *s, const char *path)
{
    struct sockaddr_un other = {.sun_family = AF_UNIX};
    int rc;

    s->address.sun_family = AF_UNIX;
    if (snprintf(other.sun_path, sizeof other.sun_path, "%s.new", path) >=
        (int)sizeof other.sun_path)
        return br_error(ENAMETOOLONG, "the name of a local socket has at most %zu bytes: %s",
                        sizeof other.sun_path - 5, path);
    memcpy(s->address.sun_path, other.sun_path, strlen(path));
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listen_fd < 0)
        return br_error(errno, "local socket: %s", strerror(errno));
    unlink(other.sun_path); /* of a process with this number that died at this point */
    if (bind(s->listen_fd, (struct sockaddr *)&other, sizeof other))
        return br_error(errno, "%s: %s", other.sun_path, strerror(errno));
    if (chmod(other.sun_path, 0600) || listen(s->listen_fd, 16) || rename(other.sun_path, path)) {
        rc = br_error(errno, "%s: %s", path, strerror(errno));
        unlink(other.sun_path);
        return rc;
    }
    return 0;
}

static int http_start(struct br_http *s)
{
    int rc;

    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (s->stop_fd < 0)
        return br_error(errno, "eventfd: %s", strerror(errno));
    rc = br_thread_start(&s->thread, http_run, s);
    return rc ? br_error(rc, "no thread: %s", strerror(rc)) : 0;
}

static void http_release(struct br_http *s)
{
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->stop_fd >= 0)
        close(s->stop_fd);
    free(s);
}

int br_http_open(const char *path, const struct br_http_page *pages, void *context,
                 struct br_http **out)
{
    struct br_http *s = calloc(1, sizeof *s);
    int rc;

    if (!s)
        return br_error(ENOMEM, "no memory");
    *s = (struct br_http){.pages = pages, .context = context, .listen_fd = -1, .stop_fd = -1};
    rc = http_open_socket(s, path);
    if (!rc && (rc = http_start(s)))
        unlink(path);
    if (rc) {
        http_release(s);
        return rc;
    }
    *out = s;
    return 0;
}

void br_http_close(struct br_http *s)
{
    uint64_t one = 1;

    if (!s)
        return;
    unlink(s->address.sun_path);
    while (write(s->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(s->thread, NULL);
    http_release(s);
}

/* ---- from outside ---------------------------------------------------------------------------- */

static int http_reach(const char *path, int ms, int *out)
{
    struct timeval patience = {.tv_sec = ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int rc, fd;

    if (snprintf(address.sun_path, sizeof address.sun_path, "%s", path) >=
        (int)sizeof address.sun_path)
        return br_error(ENAMETOOLONG, "the name of a local socket is too long: %s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return br_error(errno, "local socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    do
        rc = connect(fd, (struct sockaddr *)&address, sizeof address);
    while (rc && errno == EINTR); /* see http_receive() */
    if (rc) {
        rc = br_error(errno == EAGAIN ? ETIMEDOUT : errno, "%s: %s", path, strerror(errno));
        close(fd);
        return rc;
    }
    *out = fd;
    return 0;
}

int br_http_forget(const char *path)
{
    int fd, rc = http_reach(path, 1000, &fd);

    if (!rc)
        close(fd);
    return rc == -ECONNREFUSED && !unlink(path);
}

/* All that comes until the end. */
static int http_read_all(int fd, char **text)
{
    size_t room = 1 << 16, n = 0;
    char *buffer = malloc(room);
    ssize_t k = 1;

    while (buffer && k > 0) {
        if (n + 1 == room) {
            char *larger = realloc(buffer, room *= 2);

            if (!larger)
                free(buffer);
            buffer = larger;
            continue;
        }
        k = http_receive(fd, buffer + n, room - 1 - n);
        if (k > 0)
            n += (size_t)k;
    }
    if (!buffer)
        return br_error(ENOMEM, "no memory");
    buffer[n] = 0;
    *text = buffer;
    return k < 0 ? br_error(errno == EAGAIN ? ETIMEDOUT : errno, "no answer: %s", strerror(errno))
                 : 0;
}

/* Leaves the body of an answer in *text. */
static int body_of(char *text)
{
    char *body = strstr(text, "\r\n\r\n"), *status = strchr(text, ' ');
    int code = body && status ? atoi(status) : 0;

    if (code == 200) {
        memmove(text, body + 4, strlen(body + 4) + 1);
        return 0;
    }
    return br_error(code == 403 ? EACCES : EPROTO, "the process answers: %.100s",
                    body ? body + 4 : "nothing");
}

int br_http_ask(const char *path, const char *page, int ms, char **out)
{
    char request[200], *text = NULL;
    int fd, rc = http_reach(path, ms, &fd);

    if (rc)
        return rc;
    snprintf(request, sizeof request, "GET %s HTTP/1.0\r\n\r\n", page);
    http_put(fd, request, strlen(request));
    rc = http_read_all(fd, &text);
    close(fd);
    if (!rc)
        rc = body_of(text);
    if (rc)
        free(text);
    else
        *out = text;
    return rc;
}

/* ---- the folder ------------------------------------------------------------------------------ */

static int http_is_ours(const char *folder)
{
    struct stat found;

    if (lstat(folder, &found))
        return br_error(errno, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(found.st_mode) || found.st_uid != geteuid() || found.st_mode & (S_IWGRP | S_IWOTH))
        return br_error(EPERM, "%s is not a folder of this user's where nobody else may write",
                        folder);
    return 0;
}

static int name_folder(const char *wanted, char *folder, size_t bytes)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    unsigned uid = (unsigned)geteuid();
    char of_user[40];
    int n;

    snprintf(of_user, sizeof of_user, "/run/user/%u", uid);
    if (!runtime || !runtime[0] || access(runtime, W_OK))
        runtime = access(of_user, W_OK) ? NULL : of_user;
    if (wanted)
        n = snprintf(folder, bytes, "%s", wanted);
    else if (runtime)
        n = snprintf(folder, bytes, "%s/braid", runtime);
    else
        n = snprintf(folder, bytes, "/tmp/braid-%u", uid);
    return n < (int)bytes ? 0
                          : br_error(ENAMETOOLONG, "the name of a folder is too long: %s", folder);
}

int br_http_folder(const char *wanted, char *folder, size_t bytes)
{
    int rc = name_folder(wanted, folder, bytes);

    if (rc)
        return rc;
    if (mkdir(folder, 0700) && errno != EEXIST)
        return br_error(errno, "%s: %s", folder, strerror(errno));
    return http_is_ours(folder);
}

int br_http_folder_find(const char *wanted, char *folder, size_t bytes)
{
    int rc = name_folder(wanted, folder, bytes);

    return rc ? rc : http_is_ours(folder);
}
