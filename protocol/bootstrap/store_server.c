/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server of the store, one thread that calls poll(): doc/design/bootstrap.md, section 2.
 */
#include "protocol/bootstrap/store_server.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store_job.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define UNAUTHENTICATED_BODY (sizeof(struct br_store_hello))
#define MEMBER_BODY          (sizeof(struct br_store_request) + BR_STORE_KEY_MAX + BR_STORE_VALUE_MAX)
#define LEAVING_TIME         (1 * BR_SEC)
#define ACCEPTS              32            /* of one pass */
#define ACCEPT_PAUSE         (100 * BR_MS) /* when the process has no more file descriptors */

struct br_store_server {
    pthread_t thread;
    int listen_fd; /* -1 once no more connections are taken */
    int wake_fd;   /* eventfd: stop */
    struct br_secret secret;
    struct br_store_job job;
    /* unauthenticated peers: oldest first, LEAVING ones included */
    struct br_list members, unauthenticated;
    uint32_t n_members, n_unauthenticated, unauthenticated_max;
    uint64_t accept_again;               /* ns */
    struct br_log_limit refusals, drops; /* the thread's: a port scanner must not fill the log */
    struct pollfd *polls;
    struct br_store_connection **polled; /* beside polls */
    _Atomic uint64_t linger;             /* ns, from the moment of stopping */
    struct {
        _Atomic uint64_t accepted, refused, malformed, timed_out, pushed_out, starved;
    } counters;
};

static uint64_t store_server_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- unauthenticated peers ------------------------------------------------------------------- */

static void leave_soon(struct br_store_connection *c, uint64_t now)
{
    if (c->phase == BR_STORE_DEAD)
        return;
    c->phase = BR_STORE_LEAVING;
    c->until = now + LEAVING_TIME;
}

static void store_server_refuse(struct br_store_server *server, struct br_store_connection *c,
                                int err, const char *why, const char *text, uint64_t now)
{
    atomic_fetch_add(&server->counters.refused, 1);
    /* it may be the rank for which all others wait */
    snprintf(server->job.refused, sizeof server->job.refused, "%s %s", c->name, why);
    br_log_limited(&server->refusals, now, BR_LOG_WARN, "store: refused %s", server->job.refused);
    br_store_connection_answer_error(c, err, text);
    leave_soon(c, now);
}

static void store_server_take_hello(struct br_store_connection *c,
                                    const struct br_store_message *message)
{
    c->hello = message->hello;
    randombytes_buf(c->challenge.nonce, sizeof c->challenge.nonce);
    br_store_connection_answer(c, BR_STORE_CHALLENGE, &c->challenge, sizeof c->challenge);
    if (c->phase != BR_STORE_DEAD)
        c->phase = BR_STORE_CHALLENGED;
}

static void take_proof(struct br_store_server *server, struct br_store_connection *c,
                       const struct br_store_message *message, uint64_t now)
{
    struct br_store_proof proof;

    br_store_prove(&server->secret, false, &c->hello, &c->challenge, &proof);
    if (!br_store_proof_equal(&proof, &message->proof)) {
        store_server_refuse(server, c, EPERM, "does not know the job's secret",
                            "the store refuses us: we do not know the job's secret (BRAID_SECRET, "
                            "BRAID_SECRET_FILE)",
                            now);
        return;
    }
    if (!br_store_job_join(&server->job, c)) {
        leave_soon(c, now);
        return;
    }
    br_store_prove(&server->secret, true, &c->hello, &c->challenge, &proof);
    c->phase = BR_STORE_MEMBER;
    br_list_remove(&c->node);
    br_list_push_back(&server->members, &c->node);
    server->n_unauthenticated--;
    server->n_members++;
    br_store_connection_answer(c, BR_STORE_WELCOME, &proof, sizeof proof);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void take_malformed(struct br_store_server *server, struct br_store_connection *c,
                           uint64_t now)
{
    atomic_fetch_add(&server->counters.malformed, 1);
    br_log_limited(&server->drops, now, BR_LOG_INFO, "store: dropped %s: %s", c->name,
                   br_error_message());
    c->phase = BR_STORE_DEAD;
}

static void take_member(struct br_store_server *server, struct br_store_connection *c,
                        const struct br_store_message *message, uint64_t now)
{
    switch (message->kind) {
    case BR_STORE_PUT:
    case BR_STORE_GET:
    case BR_STORE_GATHER:
        if (!c->waiting) {
            br_store_job_request(&server->job, c, message, now);
            return;
        }
        break;
    case BR_STORE_BYE:
        br_store_job_leave(&server->job, c, true);
        c->phase = BR_STORE_DEAD;
        return;
    default:
        break;
    }
    br_error(EPROTO, "message of kind %d out of turn", message->kind);
    take_malformed(server, c, now);
}

static void store_server_take_message(struct br_store_server *server, struct br_store_connection *c,
                                      const struct br_store_message *message, uint64_t now)
{
    if (c->phase == BR_STORE_MEMBER) {
        take_member(server, c, message, now);
    } else if (c->phase == BR_STORE_UNAUTHENTICATED && message->kind == BR_STORE_HELLO) {
        store_server_take_hello(c, message);
    } else if (c->phase == BR_STORE_CHALLENGED && message->kind == BR_STORE_PROOF) {
        take_proof(server, c, message, now);
    } else {
        br_error(EPROTO, "message of kind %d out of turn", message->kind);
        take_malformed(server, c, now);
    }
}

static size_t body_max(const struct br_store_connection *c)
{
    return c->phase == BR_STORE_MEMBER ? MEMBER_BODY : UNAUTHENTICATED_BODY;
}

/* Handles what has arrived, one message at a time, until there is no whole one. */
static void take_input(struct br_store_server *server, struct br_store_connection *c, uint64_t now)
{
    while (c->phase <= BR_STORE_MEMBER) {
        struct br_store_message message;
        int gone = br_store_connection_read(c, body_max(c));
        int rc = br_store_parse(c->in.bytes, c->in.used, body_max(c), &message);

        if (rc == 0) {
            store_server_take_message(server, c, &message, now);
            br_store_connection_consume(c, message.bytes);
        } else if (rc == -EPROTONOSUPPORT && c->phase == BR_STORE_UNAUTHENTICATED) {
            store_server_refuse(
                server, c, EPROTONOSUPPORT, br_error_message(),
                "the store speaks another version: install the same braid on all hosts", now);
        } else if (rc < 0) {
            take_malformed(server, c, now);
        } else if (gone < 0) {
            c->phase = BR_STORE_DEAD;
        } else {
            return;
        }
    }
}

/* Closing a socket with unread bytes would take our answer away from the other end: it has to
 * close first. */
static void discard_input(struct br_store_connection *c)
{
    char bytes[4096];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        c->phase = BR_STORE_DEAD;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void accept_some(struct br_store_server *server, uint64_t now)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        struct br_store_connection *c;
        char name[BR_SOCKET_NAME];
        int fd = accept4(server->listen_fd, (struct sockaddr *)&address, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        int failed = fd < 0 ? errno : 0;

        if (failed == EMFILE || failed == ENFILE || failed == ENOBUFS || failed == ENOMEM) {
            br_log_limited(&server->drops, now, BR_LOG_WARN,
                           "store: ranks cannot connect: %s; does `ulimit -n` allow enough files?",
                           strerror(failed));
            if (failed == EMFILE || failed == ENFILE)
                atomic_fetch_add(&server->counters.starved, 1);
            server->accept_again = now + ACCEPT_PAUSE;
        }
        if (fd < 0)
            return;
        br_socket_tune(fd);
        br_socket_name((struct sockaddr *)&address, bytes, name);
        if (server->n_unauthenticated == server->unauthenticated_max) {
            atomic_fetch_add(&server->counters.pushed_out, 1);
            br_store_connection_destroy(
                br_container_of(server->unauthenticated.next, struct br_store_connection, node));
            server->n_unauthenticated--;
        }
        c = br_store_connection_create(fd, name, now + BR_STORE_UNAUTHENTICATED_TIME);
        if (!c)
            return;
        atomic_fetch_add(&server->counters.accepted, 1);
        br_list_push_back(&server->unauthenticated, &c->node);
        server->n_unauthenticated++;
    }
}

/* Closes what is dead or late; returns when the next one is late. */
static uint64_t sweep_unauthenticated(struct br_store_server *server, uint64_t now)
{
    uint64_t next = UINT64_MAX;

    br_list_for_each_safe (node, &server->unauthenticated) {
        struct br_store_connection *c = br_container_of(node, struct br_store_connection, node);

        if (c->phase < BR_STORE_LEAVING && c->until <= now)
            atomic_fetch_add(&server->counters.timed_out, 1);
        if (c->phase == BR_STORE_DEAD || c->until <= now) {
            br_store_connection_destroy(c);
            server->n_unauthenticated--;
        } else {
            next = store_server_earlier(next, c->until);
        }
    }
    return next;
}

static void sweep_members(struct br_store_server *server)
{
    bool again = true;

    while (again) { /* a loss is told to all, which may find further connections dead */
        again = false;
        br_list_for_each_safe (node, &server->members) {
            struct br_store_connection *c = br_container_of(node, struct br_store_connection, node);

            if (c->phase != BR_STORE_DEAD)
                continue;
            if (server->job.members[c->hello.rank].connection == c)
                br_store_job_leave(&server->job, c, false);
            br_store_connection_destroy(c);
            server->n_members--;
            again = true;
        }
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static nfds_t add_polls(struct br_store_server *server, const struct br_list *list, nfds_t n)
{
    br_list_for_each (node, list) {
        struct br_store_connection *c = br_container_of(node, struct br_store_connection, node);

        server->polled[n] = c;
        server->polls[n++] = (struct pollfd){
            .fd = c->fd, .events = (short)(POLLIN | (c->sent < c->out.used ? POLLOUT : 0))};
    }
    return n;
}

/* Waits for work, at most until `until`. */
static nfds_t wait_for_work(struct br_store_server *server, uint64_t now, uint64_t until)
{
    bool accepting = server->listen_fd >= 0 && server->accept_again <= now;
    uint64_t ms;
    nfds_t n = 2;

    if (server->listen_fd >= 0 && !accepting)
        until = store_server_earlier(until, server->accept_again);
    ms = until <= now ? 0 : (until - now + BR_MS - 1) / BR_MS;
    server->polls[0] = (struct pollfd){.fd = server->wake_fd, .events = POLLIN};
    server->polls[1] = (struct pollfd){.fd = accepting ? server->listen_fd : -1, .events = POLLIN};
    n = add_polls(server, &server->members, n);
    n = add_polls(server, &server->unauthenticated, n);
    if (poll(server->polls, n, until == UINT64_MAX ? -1 : (int)store_server_earlier(ms, INT_MAX)) <
        0)
        return 0;
    return n;
}

static void serve_once(struct br_store_server *server, nfds_t n, uint64_t now)
{
    for (nfds_t i = 2; i < n; i++) {
        struct br_store_connection *c = server->polled[i];

        if (server->polls[i].revents & POLLOUT && c->phase != BR_STORE_DEAD)
            br_store_connection_flush(c);
        if (server->polls[i].revents & (POLLIN | POLLHUP | POLLERR)) {
            if (c->phase == BR_STORE_LEAVING)
                discard_input(c);
            else
                take_input(server, c, now);
        }
    }
    if (n > 1 && server->polls[1].revents)
        accept_some(server, now);
}

static void *store_server_serve(void *argument)
{
    struct br_store_server *server = argument;
    uint64_t now = br_clock_now(), until = UINT64_MAX, end = UINT64_MAX;

    while (now < end && (server->listen_fd >= 0 || server->n_members)) {
        nfds_t n = wait_for_work(server, now, store_server_earlier(until, end));
        eventfd_t stops;

        now = br_clock_now();
        serve_once(server, n, now);
        until = br_store_job_expire(&server->job, now);
        sweep_members(server);
        until = store_server_earlier(until, sweep_unauthenticated(server, now));
        if (eventfd_read(server->wake_fd, &stops) == 0)
            end = now + atomic_load(&server->linger);
        if (end != UINT64_MAX && server->listen_fd >= 0 && !br_store_job_has_news(&server->job)) {
            close(server->listen_fd);
            server->listen_fd = -1;
        }
    }
    return NULL;
}

static void store_server_destroy(struct br_store_server *server)
{
    br_list_for_each_safe (node, &server->members)
        br_store_connection_destroy(br_container_of(node, struct br_store_connection, node));
    br_list_for_each_safe (node, &server->unauthenticated)
        br_store_connection_destroy(br_container_of(node, struct br_store_connection, node));
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    br_log_limit_end(&server->refusals, "connections that the store refused");
    br_log_limit_end(&server->drops, "connections that the store dropped");
    br_store_job_destroy(&server->job);
    br_secret_wipe(&server->secret);
    free(server->polls);
    free(server->polled);
    free(server);
}

static int store_server_prepare(struct br_store_server *server,
                                const struct br_environment *environment)
{
    size_t places = 2 + 2 * (size_t)environment->size + BR_STORE_UNAUTHENTICATED_MAX;
    bool local = environment->local_known && environment->local_size == environment->size;
    int rc = br_store_job_init(&server->job, environment->size);

    if (rc < 0)
        return rc;
    server->unauthenticated_max = environment->size + BR_STORE_UNAUTHENTICATED_MAX;
    server->polls = calloc(places, sizeof *server->polls);
    server->polled = calloc(places, sizeof(struct br_store_connection *));
    server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!server->polls || !server->polled || server->wake_fd < 0)
        return br_error(ENOMEM, "no memory or file descriptors for the store");
    rc = environment->has_id
             ? br_id_take(&environment->id, &server->listen_fd)
             : br_socket_listen(environment->address, environment->port, local, &server->listen_fd);
    if (rc < 0)
        return rc;
    rc = br_thread_start(&server->thread, store_server_serve, server);
    return rc ? br_error(rc, "cannot start the store's thread: %s", strerror(rc)) : 0;
}

int br_store_server_start(const struct br_environment *environment, const struct br_secret *secret,
                          struct br_store_server **out)
{
    struct br_store_server *server = calloc(1, sizeof *server);
    int rc;

    if (!server)
        return br_error(ENOMEM, "no memory for the store");
    server->listen_fd = server->wake_fd = -1;
    server->secret = *secret;
    br_list_init(&server->members);
    br_list_init(&server->unauthenticated);
    rc = store_server_prepare(server, environment);
    if (rc < 0) {
        store_server_destroy(server);
        return rc;
    }
    *out = server;
    return 0;
}

void br_store_server_stop(struct br_store_server *server, uint64_t linger)
{
    if (!server)
        return;
    atomic_store(&server->linger, linger);
    eventfd_write(server->wake_fd, 1);
    pthread_join(server->thread, NULL);
    store_server_destroy(server);
}

void br_store_server_counters(const struct br_store_server *server, struct br_store_counters *out)
{
    *out = (struct br_store_counters){
        .accepted = atomic_load(&server->counters.accepted),
        .refused = atomic_load(&server->counters.refused),
        .malformed = atomic_load(&server->counters.malformed),
        .timed_out = atomic_load(&server->counters.timed_out),
        .pushed_out = atomic_load(&server->counters.pushed_out),
        .starved = atomic_load(&server->counters.starved),
    };
}
