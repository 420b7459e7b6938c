/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of public calls share. Any thread; name: of the public function, for messages. */
#ifndef BR_COLLECTIVES_COMM_API_H
#define BR_COLLECTIVES_COMM_API_H

#include <stdbool.h>
#include <stddef.h>

#include <braid/braid.h>

#include "collectives/engine/operation.h"
#include "collectives/schedule/schedule.h"

/* Checks the options of a call, NULL for the defaults, and puts *copy in place of *options where
 * the caller's struct has another size than ours. 0, or -EINVAL with a message. */
int br_api_read_options(const char *name, const struct braid_options **options,
                        struct braid_options *copy);
static inline int br_api_check_options(const char *name, const struct braid_options **options,
                                       struct braid_options *copy)
{
    return *options ? br_api_read_options(name, options, copy) : 0;
}
/* The same for what a collective says besides its buffers. */
int br_api_check_values(const struct braid_comm *comm, const char *name,
                        enum br_collective collective, enum braid_type type,
                        enum braid_reduction reduction, int root);

/* A collective whose blocks are all of `count` elements. */
struct br_api_even {
    enum br_collective collective;
    const void *send;
    void *recv;
    size_t count;
    enum braid_type type;
    enum braid_reduction reduction; /* of those that reduce */
    int root;                       /* of those that have one; else 0 */
};

/* Checks such a call and makes an operation of it, which waits to be submitted. Returns 0; or a
 * negative errno with a message, and there is none. */
int br_api_make_even(struct braid_comm *comm, const char *name, const struct br_api_even *call,
                     const struct braid_options *options, struct br_operation **op);

/* What a message or an access says besides its options. */
struct br_api_point { /* copied field by field by point_written() (point.c) */
    enum br_operation_kind kind;
    const void *send;
    void *recv;
    size_t bytes;
    int peer;                    /* of messages; else -1 */
    const struct braid_key *key; /* one-sided, and what follows */
    uint64_t offset;
    struct br_operands operands;
    bool learns; /* braid_recv_any() */
    struct braid_received *received;
    const struct braid_received *claimed;
    const struct br_notify *notify; /* of a put */
};

/* Writes options, or the defaults for NULL, into an operation. */
void br_api_apply_options(const struct braid_comm *comm, const struct braid_options *options,
                          struct br_operation *op);

/* Writes a message or an access into an operation, options included. */
void br_api_fill_point(const struct braid_comm *comm, const struct br_api_point *point,
                       const struct braid_options *options, struct br_operation *op);

/* Does a call block? Only where the caller has given no place for a handle and no function. */
static inline bool br_api_blocks(const struct braid_options *options, struct braid_op **out)
{
    return !out && !(options && options->done);
}

/* Submits an operation that is filled in; blocks if nobody else will hear of its end, which is when
 * `out` and op->done are NULL. Returns 0, or a negative errno with a message. */
int br_api_submit(struct br_operation *op, struct braid_op **out);

/* A collective that is filled in begins, and its call blocks if br_api_blocks(). A persistent one
 * is prepared only. On an error the operation is put back. */
int br_api_begin(struct br_operation *op, bool persistent, struct braid_op **out);

#endif
