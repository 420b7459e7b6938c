/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The store: how the ranks of a job find each other. Rank 0 serves it over TCP in a thread of its
 * own, and every rank, rank 0 included, is a client. It is used while a job starts, never on the
 * data path. doc/design/bootstrap.md, section 2, says who gets in and how failures are told to all.
 *
 * Deadlines are ns of br_clock_now(). All calls block until then at most; a slow resolver and a
 * store that does not answer may add 2 s. Any thread may call, but the calls of one store come one
 * after the other.
 *
 * Errors of all calls, with a message: -ETIMEDOUT (the message names the ranks that did not come),
 * -ECONNRESET (a rank or the store is lost), -EEXIST (two processes with one rank), -EPROTO (the
 * ranks disagree, or another program answers at the port), -EPERM (wrong secret), -EPROTONOSUPPORT
 * (another version), -ENOMEM.
 */
#ifndef BR_PROTOCOL_BOOTSTRAP_STORE_H
#define BR_PROTOCOL_BOOTSTRAP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/message_store.h"

struct br_environment;
struct br_secret;
struct br_store;

/* What came to the store of rank 0; monotonic. */
struct br_store_counters {
    uint64_t accepted;   /* connections */
    uint64_t refused;    /* without the secret, or of another version */
    uint64_t malformed;  /* bytes that are no message, or a message that is not allowed yet */
    uint64_t timed_out;  /* said nothing useful in time */
    uint64_t pushed_out; /* too many at once */
    uint64_t starved;    /* times that no file descriptor was left for one */
};

/*
 * Joins the store at environment->address and port, or at the addresses of its id, waits until all
 * ranks have, until the deadline (ns of br_clock_now()) at most; rank 0 starts the server first.
 * On success *out is the caller's until br_store_close(). Rank 0 of an environment with an id takes
 * its socket (br_id_take()). Besides the common errors: -ENXIO (MASTER_ADDR does not resolve),
 * -ECONNREFUSED and others of connect(), -EADDRINUSE.
 */
int br_store_open(const struct br_environment *environment, const struct br_secret *secret,
                  uint64_t deadline, struct br_store **out);

/* Stores bytes (at most BR_STORE_VALUE_MAX) under a key (printable, 1 to BR_STORE_KEY_MAX bytes),
 * over what stood there. -EINVAL, -ENOSPC. */
int br_store_put(struct br_store *store, const char *key, const void *bytes, size_t n,
                 uint64_t deadline);

/* Waits until there is a value and copies it; *n is its length. -ENOSPC when it is longer than
 * capacity. */
int br_store_get(struct br_store *store, const char *key, void *bytes, size_t capacity, size_t *n,
                 uint64_t deadline);

/* Every rank gives n bytes and gets those of all, in the order of ranks: size * n bytes at `all`.
 * All must use the same name and n; a name may be used again. One rank that fails or is late fails
 * the store. */
int br_store_gather(struct br_store *store, const char *name, const void *mine, size_t n, void *all,
                    uint64_t deadline);

/* A gather of nothing. */
int br_store_barrier(struct br_store *store, const char *name, uint64_t deadline);

/* Leaves in good order and frees the store. At rank 0 waits up to two seconds until the others have
 * left too, because the server ends with it, and, when the job has failed, for those who have yet
 * to hear of it. NULL is allowed. */
void br_store_close(struct br_store *store);

/* Zeros on other ranks than 0. */
void br_store_counters(const struct br_store *store, struct br_store_counters *out);

#endif
