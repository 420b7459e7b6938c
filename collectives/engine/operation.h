/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation: a user's call, from submit to completion.
 *
 * The communicator fills the first block and hands it to br_engine_submit(); from then on it
 * belongs to the engine until br_engine_ended() gives it back. `state` is the communicator's: the
 * engine neither reads nor writes it, because the thread that waits may free the operation the
 * moment it reads ENDED.
 */
#ifndef BR_COLLECTIVES_ENGINE_OPERATION_H
#define BR_COLLECTIVES_ENGINE_OPERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/braid.h>

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
};

enum br_operation_state {
    BR_OPERATION_IDLE,      /* the user's: new, or a persistent one between two starts */
    BR_OPERATION_SUBMITTED, /* in the submission ring */
    BR_OPERATION_RUNNING,   /* the engine's */
    BR_OPERATION_ENDED,     /* status and message are final */
};

/* An operation in the queue of a communicator's shared segment (executor.h). */
enum br_shm_role {
    BR_SHM_ROLE_COLLECTIVE,
    BR_SHM_ROLE_GPU_LOCAL, /* an all-reduce that may be one of GPUs' memory (gpu_local.h); `shared
                              segment` has what is under way there */
    BR_SHM_ROLE_ENGINE,    /* the engine's, behind one of these */
};

struct br_group;
struct br_stream_op;
struct br_plan;
struct br_algorithm_config;

/* A collective's share of the engine: its fragments (schedule.h) and the runs that work on
 * them. */
struct br_operation_fragments {
    struct br_plan *plan; /* held until the operation has ended; NULL: it waits for its view */
    uint32_t count, next; /* fragments in all; the first that has no run yet */
    uint32_t running, ended;
    struct br_list active;  /* struct br_fragment */
    struct br_list waiting; /* in the engine's list of operations with fragments to start */
};

/* A message's or an access's share: parts of at most BR_MAX_TRANSFER bytes, a few at a time. */
struct br_operation_parts {
    uint32_t count, next, ended; /* next: the first that is not posted yet */
    uint64_t number;             /* of part 0: what its tag says */
    /* one-sided: bit i: transfer i has ended and left the worker's list */
    uint32_t released;
    struct br_transfer transfers[BR_OPERATION_TRANSFERS];
    struct br_message request;                         /* one-sided, as what follows */
    struct br_answer answer;                           /* of the target, for the part under way */
    struct br_staging staging[BR_OPERATION_TRANSFERS]; /* of each transfer (staging.h) */
};

struct br_operation {
    enum br_operation_kind kind;
    enum br_collective collective;
    /* what the call reads; recv: what it writes. The one that the call lacks is NULL */
    const void *send;
    void *recv;
    size_t send_bytes, recv_bytes;
    /* that the memory lies on, as br_gpu_of() says; 0: host memory, or none */
    int send_gpu, recv_gpu;
    /* kernels of ours do not reach some of it there (br_offload_reaches()) */
    bool foreign;
    size_t count; /* collective: elements of one block (braid.h); else bytes */
    enum braid_type type;
    enum braid_reduction reduction;
    int root, peer; /* ranks of the group; one-sided: key.rank is of the job */
    int32_t priority;
    uint32_t tag;
    char algorithm[48];   /* by name (method.h); "" or "auto": the engine chooses */
    struct braid_key key; /* one-sided; and the offset in its region */
    uint64_t offset;
    struct br_operands operands; /* atomics; `recv` is for what stood there */
    uint64_t timeout, deadline;  /* ns: as given; absolute */
    /* of the collective in its group, the same on all its ranks; none is left out */
    uint64_t sequence;
    /* all-reduce: of its group, that it is planned by (epochs.h); it waits until that is known */
    uint64_t epoch;
    bool is_epoch_round; /* finds out what such operations wait for */
    uint64_t order;      /* of submission in this process, all kinds, all groups */
    bool persistent;
    /* by braid_op_free() while it ran: nobody waits for it; under the context's lock */
    bool released;
    struct br_region *send_region, *recv_region; /* that the memory lies in, or NULL */
    struct br_staging shm_staging;               /* while it is on the shared segment */
    enum br_shm_role shm_role;                   /* what it is in that queue for (executor.h) */
    struct br_group *group; /* whose ranks root and peer are; NULL: all ranks of the job */
    struct braid_comm *comm;
    /* that it is a part of (gpu_hosts.h); NULL: the program's own */
    struct br_operation *parent;
    /* of an operation on a stream (stream.c), which nobody waits for; NULL: another */
    struct br_stream_op *stream_op;
    /* Called when it has ended, under the lock, in place of telling a caller; it may give the
     * operation back. NULL: a caller waits for it, or will. */
    void (*completed)(struct br_operation *op);

    int status; /* 0 or negative errno, with a message */
    _Atomic int state;
    struct br_trace_span span; /* in the timeline */
    bool traced;               /* with steps and slices */

    /* the engine's */
    struct br_list node; /* in one of its lists: running, to oneself, ended */
    /* collective: how it is done (method.h); lives as long as the group */
    const struct br_algorithm_config *algorithm_config;
    double predicted; /* s by the cost model */
    uint64_t began;   /* ns; of collectives that are reported */
    bool alone;       /* no other operation of the communicator was under way then */
    uint16_t check;   /* digest of what the ranks must agree on */

    /* from here on nothing is cleared for a new operation: who uses it sets it first */
    char message[BR_OPERATION_TEXT];
    _Atomic uint64_t handle; /* the program's (handles.c); 0: it has none */
    union {
        struct br_operation_fragments fragments;
        struct br_operation_parts parts;
    };
};

/* Of a one-sided operation: "put", "fetch-and-add". */
const char *br_onesided_name(const struct br_operation *op);

#endif
