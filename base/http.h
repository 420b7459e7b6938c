/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers to GET requests on a local socket, from a thread of its own: how a running process lets
 * itself be looked at.
 *
 * 1. HTTP/1.0, one request a connection, one connection at a time: `curl --unix-socket` and every
 *    scraper speak it, and there is no protocol to describe. A client that is slow is given up
 *    after a second, so it holds up the next one for that long, and nobody else.
 * 2. Only the same user and root are answered: the kernel says who asks (SO_PEERCRED). Others get
 *    403.
 * 3. The socket is bound under another name and gets its own when it listens. So whoever finds a
 *    name and is refused a connection knows that its process is gone, and may remove it.
 */
#ifndef BR_BASE_HTTP_H
#define BR_BASE_HTTP_H

#include <stddef.h>

struct br_http;

struct br_http_page {
    const char *path; /* "/stats" */
    const char *type; /* Content-Type */
    /* The text, for free(), in the serving thread; NULL: it could not be made (500). */
    char *(*make)(void *context);
};

/* what: ends with path NULL; borrowed, as context is. A message on -errno: the name is too long, is
 * taken, cannot be made. */
int br_http_open(const char *path, const struct br_http_page *what, void *context,
                 struct br_http **serve);
/* No answer is being made any more when it returns; the name is gone. NULL allowed. */
void br_http_close(struct br_http *serve);

/* Removes the name of a socket whose process is gone, and of no other. 1: it was, 0: it listens, or
 * is no socket of ours. */
int br_http_forget(const char *path);

/* Asks: *body is what the page says, for free(). ms: how long to wait, at most. -ECONNREFUSED: the
 * process is gone; -ETIMEDOUT, -EACCES, and others, all with a message. */
int br_http_ask(const char *path, const char *page, int ms, char **body);

/* The folder for such sockets: `wanted`, made if need be; if NULL that of the user: braid/ in
 * $XDG_RUNTIME_DIR or /run/user/UID, else /tmp/braid-UID. -errno with a message: also when it
 * belongs to somebody else, or others may write there. */
int br_http_folder(const char *wanted, char *folder, size_t bytes);

/* The same for who only looks: nothing is made. -ENOENT: it is not there; *folder has its name all
 * the same. */
int br_http_folder_find(const char *wanted, char *folder, size_t bytes);

#endif
