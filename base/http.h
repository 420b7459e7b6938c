/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An HTTP server on a local socket, with a thread of its own, through which a running process can
 * be observed; and its client.
 *
 * 1. The server speaks HTTP/1.0, answers one request a connection and serves one connection at a
 *    time, which is enough for curl --unix-socket and for every scraper. It gives up a slow client
 *    after one second, so that such a client delays the next one by that long at most.
 * 2. It answers the user of the process and root only (SO_PEERCRED); others get 403.
 * 3. The socket is bound under another name and renamed when it listens. Whoever finds the name and
 *    is refused a connection therefore knows that the process is gone, and may remove the name.
 * 4. doc/design/dependencies.md says why this is not libmicrohttpd.
 */
#ifndef BR_BASE_HTTP_H
#define BR_BASE_HTTP_H

#include <stddef.h>

struct br_http;

struct br_http_page {
    const char *path; /* "/stats" */
    const char *type; /* Content-Type */
    /* Makes the text, which the server frees; NULL: status 500. Runs in the server's thread. */
    char *(*make)(void *context);
};

/* Starts a server. path: of the socket; pages: a list that ends with path NULL, borrowed until
 * br_http_close(), as `context` is, which is passed to make(). 0; -errno with a message: the path
 * is too long, is taken, or cannot be made. */
int br_http_open(const char *path, const struct br_http_page *pages, void *context,
                 struct br_http **out);
/* Removes the socket and stops the thread; make() does not run any more when this returns. NULL is
 * allowed. */
void br_http_close(struct br_http *server);

/* Removes a socket whose process is gone. 1: removed; 0: a process listens, or the path is no
 * socket of this user. */
int br_http_forget(const char *path);

/* Requests a page of the server at `path` and waits for at most `ms`. *body: the page, for free().
 * 0; -ECONNREFUSED: the process is gone; -ETIMEDOUT; -EACCES: the process belongs to another user;
 * other -errno. All with a message. */
int br_http_ask(const char *path, const char *page, int ms, char **body);

/* Finds the folder for such sockets and creates it if necessary. wanted: its path; NULL: the user's
 * folder, which is braid/ in $XDG_RUNTIME_DIR or /run/user/UID, else /tmp/braid-UID. 0; -errno with
 * a message, also when the folder belongs to another user or others may write there. */
int br_http_folder(const char *wanted, char *folder, size_t bytes);

/* The same for processes that only look: it creates nothing. -ENOENT: there is no such folder;
 * *folder has its path nevertheless. */
int br_http_folder_find(const char *wanted, char *folder, size_t bytes);

#endif
