/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small puts of this rank that share requests (put_batch.c). Under the lock of the worker's
 * context; no function blocks or allocates but br_put_batches_create().
 */
#ifndef BR_PROTOCOL_PUT_BATCH_H
#define BR_PROTOCOL_PUT_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "protocol/message.h"
#include "protocol/transfer.h"

#define BR_SMALL_PUT 1024u /* bytes of a put that may share a request, at most */

struct br_put_batch;
struct br_worker;

/* A small put, which belongs to the worker from br_worker_put() until it stands in `ended`, or
 * until br_worker_put_forget(). */
struct br_small_put {
    /* filled by the caller */
    int rank; /* another than ours */
    int32_t priority;
    struct br_put_entry entry;
    uint64_t check; /* braid_key.check */

    /* the worker's */
    struct br_list node; /* in `ended` */
    uint64_t tag;        /* of its answer */
    struct br_put_batch *batch;
    uint32_t place; /* in it */
};

/* Of a worker. */
struct br_put_batches {
    struct br_list under_way; /* struct br_put_batch, those that were begun first in front */
    struct br_list unused;
    struct br_list ended;         /* struct br_small_put that have been carried out */
    struct br_put_batch *batches; /* owned, and so is what follows */
    uint8_t *memory;              /* of their requests */
};

/* 0, or -ENOMEM with a message. */
int br_put_batches_create(struct br_worker *worker);
void br_put_batches_destroy(struct br_worker *worker); /* also without create() */

/* The put leaves with the next pump: its bytes have been copied. memory: entry.bytes of them, of
 * the host. order: of its submission. *numbers: the next number of an access of this process, which
 * this counts on. false: it has to be an operation, and nothing has happened. */
bool br_worker_put(struct br_worker *worker, struct br_small_put *put, const void *memory,
                   uint64_t order, uint64_t *numbers);
/* It is the caller's again. Its answer, which may have come if it refuses the put, goes to a
 * transfer with `tag`. */
void br_worker_put_forget(struct br_worker *worker, struct br_small_put *put);

#endif
