/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/across.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/engine_internal.h"
#include "collectives/local.h"
#include "collectives/share.h"
#include "collectives/type.h"

struct br_across {
    struct braid_comm *comm; /* the ranks with our number on every host */
    struct br_operation op;  /* the one that is under way, or was the last */
    int32_t verdict;         /* of this host, then of all: 1 is yes */
};

/* ---- operations -------------------------------------------------------------------------------- */

static void start(struct br_across *across, struct br_operation *whole, void *memory, size_t count,
                  enum braid_type type, enum braid_reduction reduction, int gpu, int32_t priority)
{
    struct br_operation *op = &across->op;

    memset(op, 0, offsetof(struct br_operation, words));
    op->comm = across->comm;
    op->group = across->comm->group;
    op->kind = BR_OPERATION_COLLECTIVE;
    op->collective = BR_ALLREDUCE;
    op->send = op->recv = memory;
    op->send_bytes = op->recv_bytes = count * br_type_size(type);
    op->send_gpu = op->recv_gpu = gpu;
    op->count = count;
    op->type = type;
    op->reduction = reduction;
    op->priority = priority;
    op->timeout = whole->timeout;
    op->deadline = whole->deadline;
    op->order = whole->order; /* that of the program's calls, whenever it gets here */
    op->whole = whole;
    atomic_store(&op->state, BR_OPERATION_RUNNING);
    atomic_fetch_add(&op->comm->outstanding, 1);
    op->sequence = br_comm_next_sequence(across->comm);
    br_comm_use_memory(across->comm, op);
    br_comm_begin_operation(op, across->comm->family->now);
}

void br_across_ask(struct br_across *across, struct br_operation *whole, bool yes)
{
    across->verdict = yes;
    /* What stands behind `whole` waits for the answer, too, and may be more urgent. */
    start(across, whole, &across->verdict, 1, BRAID_INT32, BRAID_MIN, 0, INT32_MAX);
}

bool br_across_says_yes(const struct br_across *across)
{
    return across->verdict == 1;
}

void br_across_reduce(struct br_across *across, struct br_operation *whole, size_t first, size_t count)
{
    start(across, whole, (uint8_t *)whole->recv + first * br_type_size(whole->type), count, whole->type,
          whole->reduction, whole->recv_gpu, whole->priority);
}

static bool has_ended(const struct br_across *across)
{
    return atomic_load(&across->op.state) == BR_OPERATION_ENDED;
}

int br_across_done(const struct br_across *across)
{
    if (!has_ended(across))
        return 0;
    return across->op.status ? br_error(-across->op.status, "%s", across->op.words) : 1;
}

bool br_across_ends(struct br_across *across, struct br_operation *whole)
{
    return across->op.whole == whole && !has_ended(across);
}

/* ---- levels ------------------------------------------------------------------------------------ */

static bool has_levels(const struct br_family *family)
{
    const struct br_topology *topology = &family->network.topology;

    return family->shares_gpus && family->settings.board_bytes && topology->kind == BR_TOPOLOGY_HOSTS &&
           topology->hosts > 1 && topology->per_host > 1 && topology->per_host <= BR_BOARD_RANKS;
}

static int create_across(struct br_family *family, struct braid_comm *comm)
{
    struct br_across *across = calloc(1, sizeof *across);

    if (!across)
        return br_error(ENOMEM, "rank %d: no memory for an operation between hosts", family->rank);
    across->comm = comm;
    atomic_store(&across->op.state, BR_OPERATION_ENDED);
    family->across = across;
    return 0;
}

/* Both are alike on all ranks, so all find the same. */
static bool can_share(const struct braid_comm *host)
{
    return host->local && host->local->share;
}

/* Not in the report, which is of the program's calls. */
static int split(struct br_family *family, struct braid_comm **host, struct braid_comm **others)
{
    int per_host = (int)family->network.topology.per_host, rc;
    struct br_usages *usages = family->usages;

    br_gate_lock(family);
    family->usages = NULL;
    br_gate_unlock(family);
    rc = braid_comm_split(family->first, family->rank / per_host, family->rank, host);
    if (!rc)
        rc = braid_comm_split(family->first, family->rank % per_host, family->rank, others);
    br_gate_lock(family);
    family->usages = usages;
    family->first->operations = 0;
    br_gate_unlock(family);
    return rc;
}

int br_levels_create(struct br_family *family)
{
    struct braid_comm *first = family->first, *host, *others;
    int rc;

    if (!has_levels(family))
        return 0;
    rc = split(family, &host, &others);
    if (!rc && can_share(host))
        rc = create_across(family, others);
    if (rc || !family->across)
        return rc;
    br_gate_lock(family);
    br_share_reaches(host->local, family->across);
    first->host = host->local;
    host->group->own = others->group->own = true;
    br_gate_unlock(family);
    br_log_info("rank %d: all-reduces of GPU memory are combined within each of %u hosts first", family->rank,
                family->network.topology.hosts);
    return 0;
}

void br_levels_destroy(struct br_family *family)
{
    free(family->across);
    family->across = NULL;
}
