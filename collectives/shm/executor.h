/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executor for small collectives of ranks that share a host: one round (round.h) on the shared
 * segment (coll.h) instead of a schedule. Every rank publishes what it gives, waits for
 * what it needs, and reduces it in the order of ranks, so all have the same bits, in every
 * repetition. Larger ones take a round for each of their chunks; larger all-reduces and reduces of
 * more than two ranks are split (split.h); where each byte is read by one rank, ranks read each
 * other's memory (direct.h), two ranks also where it is mapped (mapped.h).
 *
 * Whether an operation goes here follows from its arguments alone, so all ranks agree. Operations
 * take their rounds in the order of submission, but between two chunks of an all-reduce or a
 * reduce, and of whatever has no root of two ranks, more urgent ones may overtake it and what waits
 * behind it, in the order that rank 0 chooses (round.h). Ranks that call different operations
 * notice by a digest that is published with the data. A blocking call with nothing before it takes
 * a short way (br_shm_executor_begin()): no operation of the pool, no queue, only the round. The
 * smallest need no operation at all (small.h).
 */
#ifndef BR_COLLECTIVES_SHM_EXECUTOR_H
#define BR_COLLECTIVES_SHM_EXECUTOR_H

#include "base/clock.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/operation.h"
#include "collectives/shm/coll.h"
#include "collectives/shm/direct.h"
#include "protocol/message.h"

/* How many looks a rank makes for others on other cores before it yields, where ranks share cores
 * (coll.h, note 15): less than a core takes to change hands. */
#define BR_SHM_SPINS 32u

/* Up to how many bytes that a rank gives, by default: of all-reduces, as beyond it the engine,
 * where each rank reduces a part, is faster; of all others; of both with so many ranks that a
 * schedule has many steps; and of both where ranks share cores, as in a round each of them needs
 * the core once or twice, in a schedule often (doc/measured_collectives.md). Where they do not
 * share them, a reduce has a bound of its own, as its root alone reads what all give, while a
 * schedule has a tree: BR_SHM_ROOT_BYTES of all, or BR_SHM_COPIED_BYTES of each. */
#define BR_SHM_COLLECTIVE_BYTES (4u << 10)
#define BR_SHM_COPIED_BYTES     (8u << 10)
#define BR_SHM_MANY             4u
#define BR_SHM_MANY_BYTES       (32u << 10)
#define BR_SHM_ROOT_BYTES       (8 * BR_SHM_MANY_BYTES)
#define BR_SHM_CROWDED_BYTES    BR_SHM_COLL_BYTES
/* Where ranks share cores, up to how many bytes collectives go here in chunks. Whatever else the
 * ranks call waits for their end, so what is longer goes to the engine.
 * ROUNDS: all collectives, from BR_SHM_MANY ranks on.
 * REDUCES: of all ranks together, as each round takes a turn of every rank: reduces from 3 ranks
 * on, all-reduces from BR_SHM_MANY on.
 * EXCHANGE: alltoalls and reduce_scatters of any number of ranks (coll.h, note 13).
 * DIRECT, below: scatters, and alltoalls whose cells have less than BR_SHM_EXCHANGE_CELL. */
#define BR_SHM_ROUNDS_BYTES   (8u << 20)
#define BR_SHM_REDUCES_BYTES  (128u << 20)
#define BR_SHM_EXCHANGE_BYTES (16u << 20)
/* A round takes a turn of every rank; with less in it (64 ranks: 8.1 KiB for each other rank) two
 * rounds of direct reads cost less than more rounds of chunks than EXCHANGE_ROUNDS. */
#define BR_SHM_EXCHANGE_CELL   (16u << 10)
#define BR_SHM_EXCHANGE_ROUNDS 4u
#define BR_SHM_DIRECT_BYTES    (16u << 20)
/* Scatters go in one round, though they are more than a chunk, up to so many bytes times the square
 * of the number of ranks, and up to BR_SHM_COLL_HALF: the root alone copies them for all others,
 * and saves the second round of direct reads, in which each rank looks at all others (direct.h,
 * note 11). */
#define BR_SHM_WHOLE_BYTES (4u << 10)

/* Two ranks with a core each, of what has no root, in chunks, as each writes where it has just read
 * (coll.h, note 13). What only copies is copied once where the memory is braid_alloc()'s
 * (mapped.h). */
#define BR_SHM_PAIR_BYTES (2u << 20)
/* Rooted ones, in pieces: up to how many bytes, and how many a piece has at least. */
#define BR_SHM_PIECES_BYTES (512u << 10)
#define BR_SHM_PIECE_BYTES  (8u << 10)
/* Of more, who gives says first whether the memory is mapped, which costs a round. */
#define BR_SHM_UNASKED_BYTES (64u << 10)

/* How often the segment is looked at while nobody does so all the time. */
#define BR_SHM_POLL_NS (50 * BR_US)

struct braid_comm;
struct br_group;
struct br_worker;

/* What a round is: one of as many as an operation has chunks, mostly one; one of a split all-reduce
 * or reduce (split.h); the first one of direct reads (direct.h), or of two ranks whose memory may
 * be mapped (mapped.h); the second one of either. */
enum br_shm_form { BR_SHM_CHUNKS, BR_SHM_SPLIT, BR_SHM_OFFERS, BR_SHM_MAPPED, BR_SHM_OUTCOMES };

struct br_shm_executor {
    struct br_executor executor;
    struct br_context *context;
    const struct br_group *group;
    struct br_shm_coll coll;
    uint32_t rank, n;
    /* ranks [first_beside, end_beside) are meant to share this rank's core; none: nobody knows */
    uint32_t first_beside, end_beside;
    /* that a rank gives: of all-reduces, of reduces, of alltoalls and reduce_scatters, of what is
     * read directly, of others */
    size_t max_bytes, max_reduce_bytes, max_exchange_bytes, max_direct_bytes, max_copied_bytes;
    /* that the root of a scatter gives in one round, though it is more than a chunk */
    size_t max_whole_bytes;
    /* of what has no root, if not 0, and then BR_SHM_PIECES_BYTES of what has, instead of those */
    size_t max_pair_bytes;
    size_t small_end; /* calls of fewer bytes need no operation (small.h) */
    /* how long such a call waits before its first look, in parts of a pause (small.c) */
    uint32_t small_wait[BR_COLLECTIVES];
    size_t split_bytes;        /* all-reduces from this size on are split (split.h) */
    size_t split_reduce_bytes; /* reduces */
    size_t cache_share;        /* of this rank; whose call needs more copies past it (copy.h) */
    uint64_t epoch;            /* the round of the last operation that has published */
    uint16_t check;            /* what this rank has published in it */
    /* Of the operation that has published: in which of how many rounds it is, but for direct reads,
     * and how many elements of each block a round has, with BR_SHM_CHUNKS; has_read: what this rank
     * needs of the round is in the result; place: where what it gives lies; reads: there is
     * more to do at once, but others may have the context's lock in between. */
    enum br_shm_form form;
    uint32_t round, rounds, first_round; /* with first_round it began, or has gone on */
    size_t chunk;
    enum br_shm_place place;
    bool has_read, reads;
    /* all ranks below it whose data are needed have published this round, with the same check */
    uint32_t seen;
    bool pieces; /* rounds are pipelined pieces of one rank, which does not wait for its reader */
    struct br_shm_direct direct;
    bool busy; /* an operation on the short way has the turn; the queue waits */
    /* the operation that has the turn, which is that one or the head of `queue`, has published */
    bool published;
    /* operations in the order of their turns, on all ranks the same: by submission, but for those
     * that have been brought forward (`next`). Small collectives, and those of `guest` */
    struct br_list queue;
    uint64_t submitted; /* 1 + the number of the last one of this group */
    uint64_t next;      /* 1 + that of the one that is to be the head; 0: the head stays */
    /* Rank 0, which chooses that one: by its order of submission the oldest operation, and how many
     * turns others have had before it. */
    uint64_t oldest;
    uint32_t passed_over;
    uint64_t next_deadline; /* no later than that of any in the queue */
    uint64_t operations;
    /* What each of the last rounds is of: the operation's number, and its group, which is larger
     * than the segment's where that has the ranks of one of several hosts (gpu_local.h). reported:
     * the worker knows of those up to this round that they have begun. */
    struct {
        const struct br_group *group;
        uint64_t sequence;
    } rounds_of[BR_SHM_COLL_DEPTH];
    uint64_t reported;
    uint64_t watched_sequence; /* 1 + that of the operation that waits */
    uint64_t notify_at;        /* ns: when to tell the ranks that it waits for */
    /* An executor that has rounds on the shared segment as well (gpu_local.h): its operations stand
     * in `queue`, and it is stepped while the head is one of them. NULL: there is none */
    struct br_executor *guest;
};

/* Creates comm->shm if all ranks of comm, which are connected, reach each other through shm;
 * otherwise it stays NULL. Returns 0; -EAGAIN: the descriptor of the segment, which rank 0 sends,
 * has not come yet, so make a pass and call again; other errors with a message. Under the lock. */
int br_shm_executor_create(struct braid_comm *comm);
void br_shm_executor_destroy(struct braid_comm *comm);

/* Sets max_*_bytes by what the context says of the job, and by shm->n. */
void br_shm_executor_set_limits(struct br_shm_executor *shm);

/* Is this an operation for shared memory? Any thread. */
bool br_shm_executor_takes(const struct br_shm_executor *shm, const struct br_operation *op);

/* This rank has published an operation, which is not complete. If all ranks that share its core
 * have done so, too, it waits for other cores alone, and a yield to those ranks is in vain: returns
 * whether it looks once more instead. spins: how often it has done so since the last yield. */
bool br_shm_executor_spins(const struct br_shm_executor *shm, uint32_t *spins);

/* Does the timeline, if there is one, have a bar for it? Small ones would be too many. Any thread.
 */
bool br_shm_executor_records(const struct br_shm_executor *shm, const struct br_operation *op);

/* All functions below are called under the lock. Appends an operation to the queue. */
void br_shm_executor_submit(struct br_shm_executor *shm, struct br_operation *op);
/* Runs what can run now. Returns how many operations have left the head of the queue, and one more
 * if the next one has more to do at once; -EPROTO with a message: the ranks disagree. */
int br_shm_executor_step(struct br_shm_executor *shm, uint64_t now);
/* Ends all operations in the queue with this status and message. */
void br_shm_executor_fail(struct br_shm_executor *shm, int status, const char *text, uint64_t now);
/* The one that has the turn, unless an operation is on the short way; NULL: the queue is empty. */
static inline struct br_operation *br_shm_executor_head(const struct br_shm_executor *shm)
{
    return br_list_empty(&shm->queue) ? NULL
                                      : br_container_of(shm->queue.next, struct br_operation, node);
}
/* For the guest: takes its operation, the head, off the queue. */
void br_shm_executor_leave(struct br_shm_executor *shm, struct br_operation *op);

/* The short way. begin: gives op the turn, unless another operation has it (false). complete,
 * called again and again: 1: op is complete; 0: not yet, and if br_shm_executor_is_overtaken() it
 * has to leave the short way (go_on) now; -EPROTO with a message: the ranks disagree. */
bool br_shm_executor_begin(struct br_shm_executor *shm, struct br_operation *op);
int br_shm_executor_complete(struct br_shm_executor *shm, struct br_operation *op);
static inline bool br_shm_executor_is_overtaken(const struct br_shm_executor *shm)
{
    return shm->busy && shm->next;
}
/* Leaves the short way. give_up: the operation on it ends with an error, before that is told.
 * go_on: op, which is that operation or one of the pool, takes its place and is the head of the
 * queue from now on, or if it is overtaken behind another one. */
void br_shm_executor_give_up(struct br_shm_executor *shm);
void br_shm_executor_go_on(struct br_shm_executor *shm, struct br_operation *op);

/* ---- watch.c --------------------------------------------------------------------------------- */

/* An operation in the queue whose deadline has passed; NULL: there is none. */
struct br_operation *br_shm_executor_overdue(struct br_shm_executor *shm, uint64_t now);
/* The lowest rank that has not published what op, on the short way, or (NULL) the head of the queue
 * needs; -1: there is none. */
int br_shm_executor_missing(const struct br_shm_executor *shm, const struct br_operation *op);
/* While op, which a caller drives, or (NULL) the head of the queue waits, again and again: fails
 * the worker when its deadline has passed, a rank that it waits for has left the job, or what
 * others have published disagrees. Lets the worker notice ranks that have begun another operation,
 * which nothing in shared memory shows, and tells those that it waits for. */
void br_shm_executor_watch(struct br_shm_executor *shm, const struct br_operation *op,
                           uint64_t now);
/* Before the engine begins an operation: tells the worker what this rank has published since, and
 * not every other rank of the group. */
void br_shm_executor_report(struct br_shm_executor *shm);
/* Writes what op, on the short way or in the queue, waits for: "rank 2 (level 0, device shm0)",
 * "copies of GPU 0". Returns text. */
const char *br_shm_executor_name_waited(const struct br_shm_executor *shm,
                                        const struct br_operation *op, char *text, size_t bytes);

#endif
