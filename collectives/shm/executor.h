/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small collectives of ranks that share a host: one round on the shared segment
 * (transport/shm/coll.h) instead of a schedule.
 *
 * 1. Every rank publishes what it gives, waits for what it needs, and combines it in the order of
 *    ranks: the same bits everywhere, in every repetition.
 * 2. Whether an operation goes here follows from its arguments alone, so all ranks agree. Rounds
 *    are taken in the order of submission.
 * 3. Ranks that disagree notice by a digest that stands beside the data.
 * 4. A blocking call with nothing before it takes the short way: no operation object, no queue,
 *    just the round.
 */
#ifndef BR_COLLECTIVES_SHM_EXECUTOR_H
#define BR_COLLECTIVES_SHM_EXECUTOR_H

#include "collectives/engine/executor.h"
#include "collectives/engine/operation.h"
#include "protocol/message.h"
#include "transport/shm/coll.h"

/* of a block, by default; measured: beyond, reading the peers' memory in place wins */
#define BR_SHM_COLLECTIVE_BYTES (4u << 10)

struct braid_comm;
struct br_group;
struct br_worker;

struct br_shm_executor {
    struct br_executor executor;
    struct br_context *context;
    const struct br_group *group;
    struct br_shm_coll coll;
    uint32_t rank, n;
    size_t max_bytes; /* bytes that a rank publishes, at most */
    uint64_t epoch;   /* of the last operation that has published */
    bool busy;        /* an operation of the short way has the round; the queue waits */
    bool published;   /* the head of `queue` has */
    /* operations, by submission: small collectives, and those of `guest` */
    struct br_list queue;
    uint64_t operations;
    /* The last operation that has published, and whether the worker has been told that it has begun
     * (br_shm_executor_watch()). */
    struct br_call last;
    const struct br_group *last_group;
    uint64_t last_sequence;
    bool unreported;
    uint64_t watched_sequence,
        /* 1 + the sequence of the operation that waits; when to tell those that it waits for, ns */
        notify_at;
    /* An executor that has rounds on the shared segment as well (gpu_local.h): its operations stand
     * in `queue`, and it is stepped while the head is one of them. NULL: there is none */
    struct br_executor *guest;
    /* What the head, an operation of the guest, waits for besides ranks of the host: writes it into
     * text. false: nothing. */
    bool (*guest_waits_for)(const struct br_shm_executor *shm, const struct br_operation *op,
                            char *text, size_t bytes);
};

/* Under the lock, when all of comm are connected: if they reach each other through shm, shares the
 * shared segment's descriptor; otherwise comm->local stays NULL. -EAGAIN: the descriptor of comm's
 * rank 0 has not come yet, make a turn and call again. */
int br_shm_executor_create(struct braid_comm *comm);
void br_shm_executor_destroy(struct braid_comm *comm);

/* Does an operation like this go here? */
bool br_shm_executor_takes(const struct br_shm_executor *shm, const struct br_operation *op);

/* All under the lock. */
void br_shm_executor_submit(struct br_shm_executor *shm, struct br_operation *op);
/* Operations that have left the queue; -EPROTO with a message: the ranks disagree. */
int br_shm_executor_step(struct br_shm_executor *shm, uint64_t now);
/* status != 0: ends all in the queue with it and `text`. */
void br_shm_executor_fail(struct br_shm_executor *shm, int status, const char *text, uint64_t now);
struct br_operation *br_shm_executor_overdue(const struct br_shm_executor *shm,
                                             uint64_t now); /* in the queue; NULL: none */
/* For the guest: takes its operation, the head, off the queue. */
void br_shm_executor_leave(struct br_shm_executor *shm, struct br_operation *op);

/* For gpu_local.h, of the head of the queue: publishes in the next round. false: not everybody has
 * published in this one. */
bool br_shm_executor_publish(struct br_shm_executor *shm, const struct br_operation *op,
                             const void *data, size_t bytes);
/* Do all make the same call? All have published. -EPROTO with a message. */
int br_shm_executor_check_agreement(const struct br_shm_executor *shm,
                                    const struct br_operation *op);

/* The short way: publishes for op if its turn is now (false: it is not), then the caller asks until
 * it is complete: 1; 0: not yet; -EPROTO with a message: the ranks disagree. */
bool br_shm_executor_begin(struct br_shm_executor *shm, struct br_operation *op);
int br_shm_executor_complete(struct br_shm_executor *shm, struct br_operation *op);
/* The lowest rank that op, which has published, still waits for; -1: none. */
int br_shm_executor_waits_for(const struct br_shm_executor *shm, const struct br_operation *op);
/* The lowest rank that has not published its part in shared memory: for op, which a caller drives,
 * or (NULL) for the head of the queue; -1: none. */
int br_shm_executor_missing(const struct br_shm_executor *shm, const struct br_operation *op);
/* While op, which a caller drives, or (NULL) the head of the queue waits, again and again: fails
 * the worker when its deadline has passed, a rank that it waits for has left the job, or what
 * others have published disagrees. Lets the worker notice ranks that have begun another operation,
 * which nothing in shared memory shows, and tells those that it waits for. */
void br_shm_executor_watch(struct br_shm_executor *shm, const struct br_operation *op,
                           uint64_t now);
/* Before the engine begins an operation: what has been published since is known to the worker. */
void br_shm_executor_report_last(struct br_shm_executor *shm);
/* "rank 2 (level 0, device shm0)", "copies of GPU 0": what keeps op, which is on the short way or
 * in the queue. Returns text. */
const char *br_shm_executor_name_waited(const struct br_shm_executor *shm,
                                        const struct br_operation *op, char *text, size_t bytes);

#endif
