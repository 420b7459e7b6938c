/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The communicator: its ranks, its order of operations, what is remembered for them (group.h), and
 * its shared segment. What the communicators of a rank share is the context's (context.h).
 */
#ifndef BR_COLLECTIVES_COMM_COMM_H
#define BR_COLLECTIVES_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/process.h"
#include "collectives/comm/context.h"
#include "collectives/engine/backlog.h"
#include "collectives/engine/executor.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/tuning/calibration.h"
#include "protocol/worker.h"

struct br_group;
struct br_shm_executor;
struct br_stream_local;

struct braid_comm {
    struct br_context *context;
    int rank, size;                /* of the group */
    struct br_group *group;        /* NULL: has been finalized */
    struct br_executor *executors; /* its chain (executor.h) */
    struct br_shm_executor *shm;   /* NULL: not all its ranks share this host */
    _Atomic int outstanding;       /* operations submitted and not ended */
    /* of the program's own (reductions.c); NULL: none was created. Under the pool's lock */
    struct br_reduction_place *reductions;
    /* of collectives; the same on all ranks; under the lock, as all below */
    uint64_t next_sequence;
    struct br_backlog backlog;              /* its collectives */
    uint64_t operations, failed_operations; /* ended */
    /* collectives that wait for a stream, and those behind them (stream.c) */
    struct br_list deferred;
    struct br_executor stream_order;      /* which keeps those */
    struct br_stream_local *stream_local; /* NULL: all-reduces in streams are staged */
    struct br_list node;                  /* of those that have been finalized (comm.c) */
};

/* What is wrong with a communicator that br_comm_check() refuses. */
int br_comm_refuse(const struct braid_comm *comm, const char *name);

/* Checks the communicator of a call. name: the call, for the message. Any thread. Returns 0;
 * -EINVAL: there is none, or it has been finalized; -EPERM: this process is a fork of the one that
 * called braid_init(); -EDEADLK: within the function of a reduction. With a message. */
static inline int br_comm_check(const struct braid_comm *comm, const char *name)
{
    bool usable =
        comm && comm->group && comm->context->forks == br_process_forks && !br_user_reduction_runs;

    return usable ? 0 : br_comm_refuse(comm, name);
}

/* The time in ns, for the folders above, which read no clock themselves. */
uint64_t br_comm_now(const struct braid_comm *comm);

/* How many large receives may be posted in the process at once before further ones wait. The same
 * on all ranks, which share a back end. */
uint32_t br_comm_slots(const struct braid_comm *comm);

/* Messages up to this size travel at once and not within the window of a link, so nothing overtakes
 * those that have left. The same on all ranks. */
uint32_t br_comm_eager_bytes(const struct braid_comm *comm);

/* Do this rank and `rank` of the job, another one, map each other's memory? Then both are on one
 * host. */
static inline bool br_comm_maps(const struct br_context *context, int rank)
{
    const struct br_peer *peer = &context->worker->peers[rank];

    return peer->n_rails && peer->rails[0].device->caps.maps; /* then it is the only rail */
}

/* Do these ranks of the job (NULL: all) share this host's memory? Every rank finds the same. */
bool br_comm_one_host(const struct br_context *context, const int *ranks, int size);

/* Writes this rank's devices, "tcp:eth0,tcp:eth1". */
void br_comm_name_devices(const struct br_context *context, char text[BR_CALIBRATION_TEXT]);

/* Creates a communicator of the group, which is borrowed. Collective over the group; blocks until
 * its ranks share their segment, at most for the init timeout. Returns 0, or a negative errno with
 * a message. */
int br_comm_create(struct br_context *context, struct br_group *group, struct braid_comm **comm);

/* Destroys it. Under the lock, or by the last thread that uses the context. */
void br_comm_destroy(struct braid_comm *comm);

/* Keeps one that its job has ended with: the program may still hold its address. Any thread. */
void br_comm_retire(struct braid_comm *comm);

#endif
