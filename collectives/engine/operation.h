/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation: a user's call, from submit to completion.
 *
 * The communicator fills the first block and gives the operation to an executor (executor.h), to
 * which it belongs until that returns it as ended. `state` is the communicator's: executors neither
 * read nor write it, because the thread that waits may free the operation as soon as it reads
 * ENDED.
 */
#ifndef BR_COLLECTIVES_ENGINE_OPERATION_H
#define BR_COLLECTIVES_ENGINE_OPERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/braid.h>

#include "base/clear.h"
#include "base/error.h"
#include "base/list.h"
#include "base/trace.h"
#include "collectives/schedule/schedule.h"
#include "collectives/engine/staging.h"
#include "protocol/transfer.h"

#define BR_OPERATION_TEXT      480
#define BR_OPERATION_TRANSFERS 3

enum br_operation_kind {
    BR_OPERATION_COLLECTIVE,
    BR_OPERATION_SEND,
    BR_OPERATION_RECV,
    BR_OPERATION_PUT,
    BR_OPERATION_GET,
    BR_OPERATION_ADD,
    BR_OPERATION_SWAP,
    BR_OPERATION_FLUSH, /* ends when all of these before it have */
};

enum br_operation_state {
    BR_OPERATION_IDLE,      /* the user's: new, or a persistent one between two starts */
    BR_OPERATION_SUBMITTED, /* in the submission ring */
    BR_OPERATION_RUNNING,   /* the engine's */
    BR_OPERATION_TELLING,   /* has ended; `done` is being called (comm/completion.c) */
    BR_OPERATION_ENDED,     /* status and message are final */
};

/* What an operation is in the queue of a shared segment for (shm/executor.h). */
enum br_shm_role {
    BR_SHM_ROLE_COLLECTIVE,
    /* an all-reduce that may be run on the GPUs of the host (gpu_local.h); shm_staging has what is
     * under way there */
    BR_SHM_ROLE_GPU_LOCAL,
    BR_SHM_ROLE_STREAM, /* its stream combines the values (stream_local.h) */
    BR_SHM_ROLE_ENGINE, /* the engine's, behind one of these */
};

/* A reduction of the program's own (braid_reduction_create()). */
struct br_user_reduction {
    braid_reduce_function *function;
    void *context;
    bool commutative;
};

struct br_backlog;
struct br_group;
struct br_handle_place;
struct br_stream_op;
struct br_plan;
struct br_algorithm_config;

/* What the engine keeps of a collective: its fragments. */
struct br_operation_fragments {
    struct br_plan *plan; /* until the operation ends; NULL: it waits for its topology epoch */
    uint32_t count, next; /* fragments in all; the first that has not started */
    uint32_t running, ended;
    struct br_list active;  /* struct br_fragment */
    struct br_list waiting; /* in the engine's list of operations with fragments to start */
};

/* What it keeps of a message or an access: parts of at most BR_MAX_TRANSFER bytes, a few at a time.
 */
struct br_operation_parts {
    /* next: the first that is not posted yet. Of a flush `count`: accesses that have not ended */
    uint32_t count, next, ended;
    uint64_t number; /* of part 0, as in its tag */
    /* one-sided: bit i is set when transfer i has ended and has left the worker's list */
    uint32_t released;
    struct br_staging staging[BR_OPERATION_TRANSFERS]; /* of each transfer (staging.h) */
    /* What follows is filled in before it is used. */
    struct br_transfer transfers[BR_OPERATION_TRANSFERS];
    struct br_message request; /* one-sided, as what follows */
    struct br_answer answer;   /* of the target, to the part under way */
};

/* The blocks of a user buffer where they differ in size; arrays with an entry for each block, which
 * stay as they are until the operation has ended. */
struct br_blocks {
    const size_t *counts;  /* elements; NULL: all blocks are of op->count elements */
    const size_t *offsets; /* elements from the start of the buffer */
};

struct br_operation {
    enum br_operation_kind kind;
    enum br_collective collective;
    /* send: what the call reads; recv: what it writes. NULL: the call has none */
    const void *send;
    void *recv;
    size_t send_bytes, recv_bytes;
    /* the GPUs that the memory lies on, numbered as br_gpu_of() does; 0: host memory, or none */
    int send_gpu, recv_gpu;
    /* kernels of braid do not reach some of that memory (br_gpu_ops.reaches) */
    bool foreign;
    /* collective: elements of one block (braid.h), or of this rank's largest one where they differ;
     * otherwise bytes */
    size_t count;
    /* of INPUT and OUTPUT, of a form with blocks of different sizes (blocks.h). A buffer that this
     * rank has not, has none; if it has a buffer, it has both arrays of it */
    struct br_blocks blocks[BR_SCRATCH];
    enum braid_type type;
    enum braid_reduction reduction;
    struct br_user_reduction user; /* of the program's own reduction; no function: braid's */
    bool by_rank;                  /* values are combined in the order of the ranks */
    int root, peer; /* ranks of the group; key.rank of an access is a rank of the job */
    int32_t priority;
    /* all-reduce that was overtaken between two chunks (shm/round.h): the round that it goes on
     * with; else 0 */
    uint32_t shm_round;
    uint32_t tag;
    /* Receive: what it does not know before its message has come (receives.c): `peer` may be
     * BRAID_ANY_SOURCE; of the tag the bits that may be any; `count` is what the memory holds, of a
     * message whose size is `exact` all of it. */
    bool learns, exact;
    /* receive: of the message that was claimed (br_receives_claim), whose number is `claim`; send
     * to oneself: it has been claimed */
    bool claimed;
    /* receive, then `claimed` as well: its call has waited for the message without an operation
     * (br_engine_receive). Put: for the answer (br_engine_put), whose tag is `claim`. So it fails
     * as one that waits if the worker has failed meanwhile */
    bool awaited;
    uint32_t tag_ignore;
    uint64_t claim;
    struct braid_received *received; /* the caller's, filled in with the message; or NULL */
    char algorithm[48];   /* a name, and its configuration; "" or "auto": the engine chooses */
    struct braid_key key; /* one-sided; and the offset in its region */
    uint64_t offset;
    bool notifies; /* put: tells the target (braid_put_notify(), braid_put_signal()) */
    struct br_notify notify;
    struct br_operands operands; /* of atomics; `recv` is for the value from before */
    uint64_t timeout, deadline;  /* ns: as the call gave it; as a time */
    uint64_t wait;               /* ns: braid_options.wait_ms */
    /* number of the collective in its group: the same on all its ranks, without gaps */
    uint64_t sequence;
    /* all-reduce: the topology epoch of its group that it is planned for (epochs.h); it waits until
     * that is known */
    uint64_t epoch;
    bool is_epoch_round; /* an all-gather of braid's own, which finds out the next epoch */
    uint64_t order;      /* of submission in this process, over all kinds and groups */
    bool persistent;
    /* whose place it takes (backlog.h); NULL: it waits in none */
    struct br_backlog *backlog;
    uint32_t place; /* in the communicator's pool (comm/operation_pool.h) */
    /* where its handle stands if it has had that before it was an operation (comm/posted.c); NULL:
     * the handle names `place` */
    struct br_handle_place *handle_place;
    /* nobody waits for it or will: braid_op_free() was called while it ran, or it never had a
     * handle. Under the context's lock */
    bool released;
    struct br_region *send_region, *recv_region; /* regions of the memory, or NULL */
    struct br_staging shm_staging;               /* while it is with shared memory */
    enum br_shm_role shm_role;
    struct br_group *group; /* whose ranks root and peer are; NULL: all ranks of the job */
    struct braid_comm *comm;
    /* the operation that this is a part of (gpu_hosts.h); NULL: it is a call of the program */
    struct br_operation *parent;
    /* what stands in a stream for this operation (gpu/stream.c); NULL: it is not on a stream */
    struct br_stream_op *stream_op;
    /* braid_options.all_on_gpu; and its stream combines the values on the GPUs of the host
     * (gpu/stream_local.h), so that executors only tell its events */
    bool all_on_gpu, stays_on_gpu;
    /* Called when it has ended, under the lock, in place of telling a caller; it may give the
     * operation back. NULL: a caller waits for it, or will. */
    void (*completed)(struct br_operation *op);
    /* braid_options.done and .context: called when it has ended, not under the lock, before a
     * caller may take the result. NULL: the program did not ask for it */
    void (*done)(void *context, int result);
    void *done_context;

    int status; /* 0 or negative errno, with a message */
    _Atomic int state;
    struct br_trace_span span; /* in the timeline */
    const char *title;         /* its name there (br_trace_title()); NULL: what it does */
    bool traced;               /* with steps and slices */

    /* the engine's */
    struct br_list node; /* in a list of its executor */
    /* of a collective; lives as long as the group */
    const struct br_algorithm_config *algorithm_config;
    double predicted; /* seconds, by the cost model; 0: it has no formula for this */
    bool packed;      /* br_schedule_request.packed */
    size_t part;      /* blocks of different sizes: elements of a fragment of one (blocks.h) */
    uint64_t began;   /* ns, when the engine got it; 0: it never did */
    bool alone;       /* no other operation of the communicator was under way at that time */
    uint16_t check;   /* digest of what the ranks must agree on */

    /* What follows is not cleared for a new operation; its users set it first. */
    char message[BR_OPERATION_TEXT];
    _Atomic uint64_t handle; /* the program's (handles.h); 0: it has none */
    /* the pool's, for br_operation_arrays(): it stays with this place of the pool, and only grows
     */
    size_t *arrays;
    size_t arrays_room;
    union {
        struct br_operation_fragments fragments;
        struct br_operation_parts parts;
    };
};

/* Makes a zeroed operation of a communicator and its group. */
static inline void br_operation_init(struct br_operation *op, struct braid_comm *comm,
                                     struct br_group *group)
{
    br_clear(op, offsetof(struct br_operation, message));
    op->comm = comm;
    op->group = group;
    atomic_store_explicit(&op->handle, 0, memory_order_relaxed);
}

/* The status of an ended operation, with its message as this thread's error. */
static inline int br_operation_result(const struct br_operation *op)
{
    return op->status ? br_error(-op->status, "%s", op->message) : 0;
}

/* Does memory of the operation lie on a GPU? Nothing that is for GPUs alone is asked of others. */
static inline bool br_operation_is_staged(const struct br_operation *op)
{
    return op->send_gpu || op->recv_gpu;
}

/* The name of a one-sided operation: "put", "fetch-and-add". */
const char *br_onesided_name(const struct br_operation *op);

/* Takes the first operation out of a list of them; NULL: the list is empty. */
static inline struct br_operation *br_operation_pop(struct br_list *list)
{
    struct br_list *node = br_list_pop_front(list);

    return node ? br_container_of(node, struct br_operation, node) : NULL;
}

#endif
