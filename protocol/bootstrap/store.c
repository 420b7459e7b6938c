/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/store.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store_message.h"
#include "protocol/bootstrap/store_server.h"
#include "protocol/bootstrap/store_socket.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HANDSHAKE_TIME (10 * BR_SEC) /* for a server that accepts and then says nothing */
#define RETRY_FIRST    (10 * BR_MS)
#define RETRY_MOST     (500 * BR_MS)
#define LINGER         (2 * BR_SEC)
/* beyond the caller's deadline, for the message of a store that stood still for a moment */
#define GRACE (2 * BR_SEC)
/* Of the whole time that GRACE and, when that is over, LINGER may take at most */
#define PART 8
/* For one address of an id at the first attempt, doubled with each: the next one may be the right
 * one */
#define ADDRESS_TIME (300 * BR_MS)
#define ADDRESS_MOST (3 * BR_SEC)
#define PROBE_TIME   (2 * BR_SEC) /* to find out who has our port */
#define REQUEST_BYTES                                                                              \
    (sizeof(struct br_store_header) + sizeof(struct br_store_request) + BR_STORE_KEY_MAX +         \
     BR_STORE_VALUE_MAX)

struct br_store {
    struct br_store_server *server; /* at rank 0 */
    uint32_t rank, size;
    uint64_t deadline, grace; /* ns: of the start of the job; see GRACE */
    char where[BR_ID_TEXT];
    pthread_mutex_t lock; /* held by the call under way; guards what follows */
    int fd;               /* -1: not connected */
    /* the last error came from the store, it is no trouble of the connection */
    bool store_failed;
    int failed; /* the connection is unusable: its negative errno */
    uint8_t out[REQUEST_BYTES];
    size_t body_max; /* of a message: little until the store has proved that it knows the secret */
    uint8_t *in;     /* the message received last */
    size_t in_size;
};

/* ---- messages -------------------------------------------------------------------------------- */

/* The connection cannot be used any more: what was said and what was heard may not match. */
static int store_broken(struct br_store *store, int rc)
{
    store->failed = rc;
    if (rc == -ECONNRESET)
        return br_error(ECONNRESET, "the store at %s is gone: rank 0 has ended or was lost",
                        store->where);
    if (rc == -ETIMEDOUT)
        return br_error(ETIMEDOUT, "the store at %s does not answer in time: is rank 0 stopped?",
                        store->where);
    return br_error_prefix(rc, "store at %s: ", store->where);
}

/* Receives one message. An ERROR becomes our error, with the store's message. */
static int store_receive(struct br_store *store, struct br_store_message *message,
                         uint64_t deadline)
{
    size_t have = 0;
    int rc;

    for (;;) {
        rc = br_store_parse(store->in, have, store->body_max, message);
        if (rc < 0)
            return store_broken(store, rc);
        if (rc == 0)
            break;
        if (message->bytes > store->in_size) {
            uint8_t *larger = realloc(store->in, message->bytes);

            if (!larger)
                return store_broken(store,
                                    br_error(ENOMEM, "no memory for %zu bytes", message->bytes));
            store->in = larger;
            store->in_size = message->bytes;
        }
        rc = br_socket_receive(store->fd, store->in + have, message->bytes - have, deadline);
        if (rc < 0)
            return store_broken(store, rc);
        have = message->bytes;
    }
    if (message->kind == BR_STORE_ERROR) {
        char text[BR_STORE_TEXT_MAX + 1];

        br_store_copy_text(text, sizeof text, message->value, message->value_bytes);
        store->store_failed = true;
        return br_error((int)message->error.err, "%s", text);
    }
    return 0;
}

static int receive_kind(struct br_store *store, enum br_store_kind kind,
                        struct br_store_message *message, uint64_t deadline)
{
    int rc = store_receive(store, message, deadline);

    if (rc == 0 && message->kind != kind)
        return store_broken(
            store, br_error(EPROTO, "message of kind %d where %d was due", message->kind, kind));
    return rc;
}

static int store_send_all(struct br_store *store, size_t n, uint64_t deadline)
{
    int rc = br_socket_send(store->fd, store->out, n, deadline);

    return rc < 0 ? store_broken(store, rc) : 0;
}

/* ---- joining --------------------------------------------------------------------------------- */

static void store_introduce(const struct br_store *store, struct br_store_hello *hello)
{
    char host[BR_STORE_HOST_BYTES] = "";

    memset(hello, 0, sizeof *hello);
    randombytes_buf(hello->nonce, sizeof hello->nonce);
    hello->rank = store->rank;
    hello->size = store->size;
    hello->pid = (uint32_t)getpid();
    gethostname(host, sizeof host - 1);
    br_store_copy_text(hello->host, sizeof hello->host, host, strlen(host));
}

/* Challenge and response on a fresh connection. */
static int store_greet(struct br_store *store, const struct br_secret *secret, uint64_t deadline)
{
    struct br_store_proof proof, expected;
    struct br_store_message message;
    struct br_store_hello hello;
    int rc;

    store_introduce(store, &hello);
    rc = store_send_all(store, br_store_write(store->out, BR_STORE_HELLO, &hello, sizeof hello),
                        deadline);
    if (rc < 0)
        return rc;
    rc = receive_kind(store, BR_STORE_CHALLENGE, &message, deadline);
    if (rc < 0)
        return rc;
    br_store_prove(secret, false, &hello, &message.challenge, &proof);
    br_store_prove(secret, true, &hello, &message.challenge, &expected);
    rc = store_send_all(store, br_store_write(store->out, BR_STORE_PROOF, &proof, sizeof proof),
                        deadline);
    if (rc < 0)
        return rc;
    rc = receive_kind(store, BR_STORE_WELCOME, &message, deadline);
    if (rc == 0 && !br_store_proof_equal(&message.proof, &expected))
        return store_broken(
            store, br_error(EPERM, "it does not know the job's secret: is it another job's?"));
    return rc;
}

static void store_disconnect(struct br_store *store)
{
    if (store->fd >= 0)
        close(store->fd);
    store->fd = -1;
    store->failed = 0;
}

static uint64_t store_earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Errors that go away by themselves: the server is not up yet, or it had too many guests. */
static bool is_passing(int rc)
{
    switch (rc) {
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -ETIMEDOUT:
    case -ENETUNREACH:
    case -EHOSTUNREACH:
    case -ENXIO:
    case -EADDRNOTAVAIL:
        return true;
    default:
        return false;
    }
}

/* Challenge and response on the connection that has been made, or its error. */
static int greet_connected(struct br_store *store, int rc, const struct br_secret *secret,
                           uint64_t deadline)
{
    store->store_failed = false;
    store->body_max = BR_STORE_UNPROVED_MAX;
    if (rc < 0)
        return rc;
    rc = store_greet(store, secret, store_earlier(deadline, br_clock_now() + HANDSHAKE_TIME));
    if (rc < 0)
        store_disconnect(store);
    else
        store->body_max = BR_STORE_GATHER_MAX;
    return rc;
}

/* One attempt at each address of the id. Some may be those of another host as well (of a bridge for
 * containers), where anybody may answer: only when all have failed for good is that the end. */
static int try_addresses(struct br_store *store, const struct br_id *id,
                         const struct br_secret *secret, uint64_t limit, uint64_t deadline)
{
    char text[BR_ERROR_BYTES] = "";
    bool passing = false, told = false;
    int rc = 0, worst = 0;

    for (int i = 0; i < id->n_addresses; i++) {
        rc = br_socket_connect_address(&id->addresses[i], id->port, limit, deadline, &store->fd);
        rc = greet_connected(store, rc, secret, deadline);
        if (rc == 0)
            return 0;
        if (is_passing(rc) && !store->store_failed)
            passing = true;
        if (!worst || !is_passing(rc)) {
            worst = rc;
            told = store->store_failed;
            snprintf(text, sizeof text, "%s", br_error_message());
        }
    }
    store->store_failed = told && !passing;
    br_error(-worst, "%s", text);
    return passing && !is_passing(worst) ? -ETIMEDOUT : worst;
}

/* One attempt. */
static int try_join(struct br_store *store, const struct br_environment *environment,
                    const struct br_secret *secret, uint64_t limit, uint64_t deadline)
{
    int rc;

    if (environment->has_id)
        return try_addresses(store, &environment->id, secret, limit, deadline);
    rc = br_socket_connect(environment->address, environment->port, deadline, &store->fd);
    return greet_connected(store, rc, secret, deadline);
}

static void sleep_until(uint64_t then)
{
    struct timespec at = {.tv_sec = (time_t)(then / BR_SEC), .tv_nsec = (long)(then % BR_SEC)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

/* At rank 0: how often its store could not take a connection, its own for example, as no file may
 * be open any more. Files that are closed later would help this job, but the one that opened too
 * many has to hear of it. */
static uint64_t times_starved(const struct br_store *store)
{
    struct br_store_counters counters = {0};

    if (store->server)
        br_store_server_counters(store->server, &counters);
    return counters.starved;
}

static int store_join(struct br_store *store, const struct br_environment *environment,
                      const struct br_secret *secret, uint64_t deadline)
{
    uint64_t start = br_clock_now(), pause = RETRY_FIRST, limit = ADDRESS_TIME;
    uint64_t starved = times_starved(store);
    bool warned = false;

    for (;;) {
        int rc = try_join(store, environment, secret, limit, deadline);
        uint64_t now = br_clock_now();

        if (rc == 0)
            return 0;
        if (store->store_failed || !is_passing(rc))
            return rc;
        if (times_starved(store) > starved)
            return br_error(EMFILE, "rank 0 has no file descriptor left for its store: raise the "
                                    "limit (`ulimit -n`), or have fewer jobs (torch.distributed: "
                                    "groups) and other files open at once");
        if (now >= deadline)
            return br_error_prefix(-ETIMEDOUT, "no store of rank 0 at %s after %u s; %s? ",
                                   store->where, (unsigned)((now - start + BR_SEC / 2) / BR_SEC),
                                   environment->has_id
                                       ? "has the process that made this braid_id called "
                                         "braid_init(), does it still run, and can this host reach "
                                         "one of its addresses"
                                       : "is rank 0 running, and are MASTER_ADDR and MASTER_PORT "
                                         "right");
        if (rc == -ENXIO && !warned) {
            br_log_warn("%s; trying again until %u s are over", br_error_message(),
                        (unsigned)(environment->init_timeout / BR_SEC));
            warned = true;
        }
        /* Spread, so that a thousand ranks do not come back in step. */
        sleep_until(
            store_earlier(deadline, now + pause / 2 + randombytes_uniform((uint32_t)pause)));
        pause = store_earlier(2 * pause, RETRY_MOST);
        limit = store_earlier(2 * limit, ADDRESS_MOST);
    }
}

/* Our port is taken. If by a store of this very job, then rank 0 is there twice, and the store says
 * so to all. */
static int explain_taken_port(struct br_store *store, const struct br_environment *environment,
                              const struct br_secret *secret)
{
    char text[BR_ERROR_BYTES];

    snprintf(text, sizeof text, "%s", br_error_message());
    if (try_join(store, environment, secret, 0, br_clock_now() + PROBE_TIME) == -EEXIST)
        return -EEXIST;
    store_disconnect(store);
    return br_error(EADDRINUSE, "%s", text);
}

int br_store_open(const struct br_environment *environment, const struct br_secret *secret,
                  uint64_t deadline, struct br_store **out)
{
    struct br_store *store = calloc(1, sizeof *store);
    int rc = 0;

    if (!store)
        return br_error(ENOMEM, "no memory for the store");
    store->fd = -1;
    store->rank = environment->rank;
    store->size = environment->size;
    store->deadline = deadline;
    store->grace = store_earlier(GRACE, environment->init_timeout / PART);
    pthread_mutex_init(&store->lock, NULL);
    if (environment->has_id)
        br_id_text(&environment->id, store->where);
    else
        snprintf(store->where, sizeof store->where,
                 strchr(environment->address, ':') ? "[%s]:%u" : "%s:%u", environment->address,
                 environment->port);
    if (sodium_init() < 0)
        rc = br_error(EIO, "libsodium does not start: the system has no random numbers");
    if (rc == 0 && store->rank == 0)
        rc = br_store_server_start(environment, secret, &store->server);
    if (rc == -EADDRINUSE)
        rc = explain_taken_port(store, environment, secret);
    if (rc == 0)
        rc = store_join(store, environment, secret, deadline);
    if (rc == 0)
        rc = br_store_barrier(store, "start", deadline);
    if (rc < 0) {
        br_store_close(store);
        return rc;
    }
    *out = store;
    return 0;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* What the store may wait. We wait for GRACE longer: its message says who is missing, our clock
 * does not. */
static uint32_t store_timeout_of(uint64_t deadline)
{
    uint64_t now = br_clock_now(), left = deadline > now ? deadline - now : 0;

    return (uint32_t)store_earlier(left / BR_MS, BR_STORE_TIMEOUT_MAX);
}

static int check_key(const char *key)
{
    size_t n = strlen(key);

    if (n < 1 || n > BR_STORE_KEY_MAX)
        return br_error(EINVAL, "store: a key of %zu bytes, possible are 1 to %d", n,
                        BR_STORE_KEY_MAX);
    for (size_t i = 0; i < n; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return br_error(EINVAL, "store: byte %zu of the key is not printable ASCII", i);
    return 0;
}

/* One request and its answer. With the lock held. */
static int store_request(struct br_store *store, enum br_store_kind kind, const char *key,
                         const void *bytes, size_t n, struct br_store_message *answer,
                         uint64_t deadline)
{
    int rc = check_key(key);

    if (rc < 0)
        return rc;
    if (n > BR_STORE_VALUE_MAX)
        return br_error(EINVAL, "store: %zu bytes for '%s', at most %u are possible", n, key,
                        BR_STORE_VALUE_MAX);
    if (store->failed)
        return br_error(-store->failed, "the connection to the store at %s has failed before",
                        store->where);
    rc = store_send_all(
        store, br_store_write_request(store->out, kind, store_timeout_of(deadline), key, bytes, n),
        deadline + store->grace);
    return rc < 0 ? rc : receive_kind(store, BR_STORE_VALUE, answer, deadline + store->grace);
}

int br_store_put(struct br_store *store, const char *key, const void *bytes, size_t n,
                 uint64_t deadline)
{
    struct br_store_message answer = {0};
    int rc;

    pthread_mutex_lock(&store->lock);
    rc = store_request(store, BR_STORE_PUT, key, bytes, n, &answer, deadline);
    pthread_mutex_unlock(&store->lock);
    return rc;
}

int br_store_get(struct br_store *store, const char *key, void *bytes, size_t capacity, size_t *n,
                 uint64_t deadline)
{
    struct br_store_message answer = {0};
    int rc;

    pthread_mutex_lock(&store->lock);
    rc = store_request(store, BR_STORE_GET, key, NULL, 0, &answer, deadline);
    if (rc == 0 && answer.value_bytes > capacity)
        rc = br_error(ENOSPC, "store: '%s' has %zu bytes, the buffer %zu", key, answer.value_bytes,
                      capacity);
    if (rc == 0) {
        *n = answer.value_bytes;
        if (*n)
            memcpy(bytes, answer.value, *n);
    }
    pthread_mutex_unlock(&store->lock);
    return rc;
}

int br_store_gather(struct br_store *store, const char *name, const void *mine, size_t n, void *all,
                    uint64_t deadline)
{
    struct br_store_message answer = {0};
    int rc;

    pthread_mutex_lock(&store->lock);
    rc = store_request(store, BR_STORE_GATHER, name, mine, n, &answer, deadline);
    if (rc == 0 && answer.value_bytes != n * store->size)
        rc = store_broken(store, br_error(EPROTO, "%zu bytes at '%s', expected %zu",
                                          answer.value_bytes, name, n * store->size));
    if (rc == 0 && n)
        memcpy(all, answer.value, n * store->size);
    pthread_mutex_unlock(&store->lock);
    return rc;
}

int br_store_barrier(struct br_store *store, const char *name, uint64_t deadline)
{
    return br_store_gather(store, name, NULL, 0, NULL, deadline);
}

/* Keeps the caller's error message: closing is often the way out of a failure. */
void br_store_close(struct br_store *store)
{
    if (!store)
        return;
    if (store->fd >= 0 && !store->failed) {
        uint8_t bye[sizeof(struct br_store_header)];

        send(store->fd, bye, br_store_write(bye, BR_STORE_BYE, NULL, 0),
             MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    store_disconnect(store);
    /* whoever is late is told why, but not for much longer than the caller wants to wait */
    br_store_server_stop(store->server, br_clock_now() < store->deadline
                                            ? LINGER
                                            : store_earlier(LINGER, store->grace));
    pthread_mutex_destroy(&store->lock);
    free(store->in);
    free(store);
}

void br_store_counters(const struct br_store *store, struct br_store_counters *out)
{
    memset(out, 0, sizeof *out);
    if (store->server)
        br_store_server_counters(store->server, out);
}
