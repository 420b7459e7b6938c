/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives as the tools see them: shapes in nccl-tests' sense, the call, the check, and what
 * bandwidth means. A kind is constant data; callable from any thread.
 */
#ifndef BR_TOOLS_COMMON_COLL_TABLE_H
#define BR_TOOLS_COMMON_COLL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/braid.h>

#include "tools/common/data.h"

enum br_coll_id {
    BR_COLL_ALLREDUCE,
    BR_COLL_REDUCE_SCATTER,
    BR_COLL_ALLGATHER,
    BR_COLL_BROADCAST,
    BR_COLL_REDUCE,
    BR_COLL_BARRIER,
    BR_COLL_ALLTOALL,
    BR_COLL_GATHER,
    BR_COLL_SCATTER,
    BR_COLL_SCAN,
    BR_COLL_EXSCAN,
    BR_COLL_SENDRECV, /* every rank to the next one of a ring */
};

struct br_coll {
    enum br_coll_id id;
    const char *name;
    bool reduces;  /* has a reduction */
    bool rooted;   /* has a root */
    bool in_place; /* has an in-place form */
    /* the sending side has a block of each rank, which share the size of a row; ... */
    bool sends_all;
    bool recvs_all; /* ... the receiving side has */
    int bus_steps;  /* bus bandwidth is algorithm bandwidth * bus_steps * (n-1)/n; 0: * 1 */
};

/* Element counts of one row, and where the in-place form starts: send or recv = buffer + offset *
 * rank. */
struct br_coll_shape {
    size_t count; /* what the call is given */
    size_t send, recv;
    size_t send_offset, recv_offset;
};

/* One use of a kind. */
struct br_coll_call {
    const struct br_coll *coll;
    struct br_data data; /* type, reduction and seed */
    struct br_coll_shape shape;
    int root;
    const struct braid_options *options;
};

/* NULL: no such collective. */
const struct br_coll *br_coll_find(const char *name);

/* The shape for a row of `bytes`: the larger of both sides has at most that size (nccl-tests'
 * rule). */
struct br_coll_shape br_coll_shape(const struct br_coll *coll, size_t bytes, enum braid_type type,
                                   int ranks);

/* Bytes to bandwidth: seconds for one call of the shape -> GB/s as nccl-tests counts them. */
void br_coll_bandwidth(const struct br_coll_call *call, int ranks, double seconds,
                       double *algorithm, double *bus);

/* Submits and, with ops == NULL, waits. Else ops[0..2) are set (NULL: not used) and to be waited
 * for. Errors: braid's. */
int br_coll_submit(struct braid_comm *comm, const struct br_coll_call *call, const void *send,
                   void *recv, struct braid_op **ops);

/* Waits for all of ops and clears them; the first error is returned. */
int br_coll_wait(struct braid_op **ops);

/* Puts this rank's input into send. */
void br_coll_fill(struct braid_comm *comm, const struct br_coll_call *call, void *send);

/* How many elements of recv are wrong on this rank after a call on br_coll_fill()ed inputs. */
size_t br_coll_wrong(struct braid_comm *comm, const struct br_coll_call *call, const void *recv);

/* What is timed: a collective on float32 and sums. send and recv hold `bytes`. */
struct br_coll_timing {
    struct braid_comm *comm;
    const struct br_coll *coll;
    const char *algorithm;
    size_t bytes; /* as br_coll_shape() takes them */
    void *send, *recv;
    /* The calls take about min_ns together, and are 2 to max_calls, after a first one that does not
     * count. */
    uint64_t min_ns;
    int max_calls;
    /* A first call that takes longer than 5 times min_ns on any rank is the only measurement. */
    bool once;
};

/* Collective. Seconds of one call, the mean of the calls, the same on all ranks. Errors: braid's,
 * with a message. */
int br_coll_time(const struct br_coll_timing *timing, double *seconds);

#endif
