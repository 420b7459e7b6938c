/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * braid_comm_split() and the end of communicators: doc/design/split.md. An error that only some
 * ranks notice (no memory) fails the worker, because the others count on this rank.
 */
#include "collectives/comm/call_group.h"
#include "collectives/comm/split.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/completion.h"
#include "collectives/comm/context.h"
#include "collectives/comm/operation_pool.h"
#include "collectives/comm/posted.h"
#include "collectives/comm/progress.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/tuning/network.h"
#include "protocol/message.h"
#include "protocol/worker.h"

#define WORDS (BR_SPLIT_NUMBERS / 64)

struct record {
    int32_t color, key;
    uint64_t shown;        /* 1: `taken` is true; 0: ask again */
    uint64_t taken[WORDS]; /* numbers, a bit each */
};

struct member {
    int32_t key;
    int rank; /* in the parent */
};

/* What the communicator of a part of the job has in addition to that of all ranks. */
struct part {
    struct br_group group;
    struct br_network network; /* behind the group's model */
};

void br_split_free(struct br_group *group)
{
    struct part *part = br_container_of(group, struct part, group);

    br_group_destroy(group);
    br_network_destroy(&part->network);
    free(part);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* What this rank shows to a split: section 2 of doc/design/split.md. */
static void publish_numbers(struct braid_comm *parent, struct record *mine)
{
    struct br_context *context = parent->context;

    br_progress_lock(context);
    mine->shown = !context->shows_numbers && parent->group->number <= context->first_to_split;
    if (parent->group->number < context->first_to_split)
        context->first_to_split = parent->group->number;
    context->shows_numbers |= mine->shown;
    memcpy(mine->taken, context->group_numbers, sizeof mine->taken);
    br_progress_unlock(context);
}

static bool all_published(const struct record *all, int n)
{
    for (int r = 0; r < n; r++)
        if (!all[r].shown)
            return false;
    return true;
}

/* Returns the lowest number that is free on all ranks; -1: there is none. */
static int free_number(const struct record *all, int n)
{
    for (uint32_t number = 0; number < BR_SPLIT_NUMBERS; number++) {
        uint64_t taken = 0;

        for (int r = 0; r < n; r++)
            taken |= all[r].taken[number / 64] >> number % 64 & 1;
        if (!taken)
            return (int)number;
    }
    return -1;
}

/* Nothing is shown any more; number >= 0: it is taken. over: this split asks no more. */
static void unpublish_numbers(struct braid_comm *parent, const struct record *mine, int number,
                              bool over)
{
    struct br_context *context = parent->context;

    br_progress_lock(context);
    if (number >= 0)
        context->group_numbers[number / 64] |= 1ull << number % 64;
    if (mine->shown)
        context->shows_numbers = false;
    if (over && context->first_to_split == parent->group->number)
        context->first_to_split = BR_MAX_GROUPS;
    br_progress_unlock(context);
}

static void give_number_back(struct br_context *context, uint32_t number)
{
    br_split_untake(context->group_numbers, number);
    br_worker_forget_group(context->worker, number);
}

/* ---- agreement ------------------------------------------------------------------------------- */

static int check_colors(const struct record *all, int n)
{
    for (int r = 0; r < n; r++)
        if (all[r].color < 0 && all[r].color != BRAID_UNDEFINED)
            return br_error(
                EINVAL,
                "braid_comm_split: the color of rank %d is %d; it must not be negative, or be "
                "BRAID_UNDEFINED",
                r, all[r].color);
    return 0;
}

/* Fills all[size of the parent]; *number is the new communicator's, and taken unless we are in
 * none. */
static int split_agree(struct braid_comm *parent, struct record *mine, struct record *all,
                       int *number)
{
    /* a split that waits for its ranks keeps no other one from our numbers */
    int rc = braid_barrier(parent, NULL, NULL);

    *number = -1;
    while (!rc && *number < 0) {
        publish_numbers(parent, mine);
        rc = braid_allgather(parent, mine, all, sizeof *mine, BRAID_UINT8, NULL, NULL);
        if (!rc)
            rc = check_colors(all, parent->size);
        if (!rc && all_published(all, parent->size)) {
            *number = free_number(all, parent->size);
            if (*number < 0)
                rc = br_error(ENOSPC, "braid_comm_split: all %u numbers of communicators are taken",
                              BR_SPLIT_NUMBERS);
        }
        unpublish_numbers(parent, mine, mine->color < 0 ? -1 : *number, rc || *number >= 0);
    }
    return rc;
}

static int split_compare(const void *left, const void *right)
{
    const struct member *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

/* The job's ranks of our part, in order; returns how many, and ours. */
static int select_members(const struct braid_comm *parent, const struct record *all,
                          struct member *members, int *ranks, int *own)
{
    int n = 0;

    for (int r = 0; r < parent->size; r++)
        if (all[r].color == all[parent->rank].color)
            members[n++] = (struct member){.key = all[r].key, .rank = r};
    qsort(members, (size_t)n, sizeof *members, split_compare);
    for (int i = 0; i < n; i++) {
        ranks[i] = br_group_in_job(parent->group, members[i].rank);
        if (members[i].rank == parent->rank)
            *own = i;
    }
    return n;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static int make_group(const struct br_context *context, const int *ranks, int n, int own,
                      int number, struct br_group **out)
{
    struct part *part = calloc(1, sizeof *part);
    int rc = part ? br_network_part(&context->network, ranks, n, &part->network)
                  : br_error(ENOMEM, "rank %d: no memory for a communicator", context->rank);

    if (!rc)
        rc = br_group_init(&part->group, (uint32_t)number, own, n, ranks, &part->network.model);
    if (!rc)
        *out = &part->group;
    else if (part)
        br_split_free(&part->group);
    return rc;
}

static int split_failed(struct br_context *context, int number, int rc)
{
    br_progress_lock(context);
    br_worker_fail(context->worker, -rc, br_error_message());
    give_number_back(context, (uint32_t)number);
    br_progress_unlock(context);
    return rc;
}

int br_split_make(struct br_context *context, const int *ranks, int n, int own, int number,
                  struct braid_comm **out)
{
    struct br_group *group = NULL;
    int rc = make_group(context, ranks, n, own, number, &group);

    if (!rc)
        rc = br_comm_create(context, group, out);
    if (!rc)
        return 0;
    rc = split_failed(context, number, rc);
    if (group)
        br_split_free(group);
    return rc;
}

static int split_make(const struct braid_comm *parent, const struct record *all, int number,
                      struct braid_comm **out)
{
    struct member *members = calloc((size_t)parent->size, sizeof *members);
    int *ranks = calloc((size_t)parent->size, sizeof *ranks), own = 0, n, rc;

    if (members && ranks) {
        n = select_members(parent, all, members, ranks, &own);
        rc = br_split_make(parent->context, ranks, n, own, number, out);
    } else {
        rc = split_failed(
            parent->context, number,
            br_error(ENOMEM, "rank %d: no memory for a communicator", parent->context->rank));
    }
    free(members);
    free(ranks);
    return rc;
}

int braid_comm_split(struct braid_comm *parent, int color, int key, struct braid_comm **out)
{
    BR_DISABLE_CANCELLATION;
    struct record mine = {.color = color, .key = key}, *all;
    int rc = br_comm_check(parent, "braid_comm_split"), number;

    if (rc)
        return rc;
    if (!out)
        return br_error(EINVAL, "braid_comm_split: nowhere to store the communicator");
    *out = NULL;
    rc = br_completion_may_block("braid_comm_split");
    if (!rc)
        rc = br_call_group_refuse("braid_comm_split");
    if (rc)
        return rc;
    all = calloc((size_t)parent->size, sizeof *all);
    if (!all)
        return br_error(ENOMEM, "braid_comm_split: no memory for %d records", parent->size);
    rc = split_agree(parent, &mine, all, &number);
    if (!rc && color >= 0)
        rc = split_make(parent, all, number, out);
    free(all);
    return rc;
}

/* Nothing that we have sent in the communicator is on its way when its number is given to another:
 * an announcement may come after its message (doc/design/receives.md, section 5). */
static void split_drain(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    bool drained = false;

    while (!drained) {
        br_progress_lock(context);
        drained = true;
        for (int r = 0; r < comm->size && !context->worker->failed; r++)
            if (r != comm->rank &&
                !br_worker_all_arrived(context->worker, br_group_in_job(comm->group, r)))
                drained = false;
        br_progress_unlock(context);
        if (!drained)
            br_progress_try_once(context);
    }
}

int br_comm_leave(struct braid_comm *comm)
{
    struct br_context *context = comm->context;
    struct br_group *group = comm->group;
    char text[BR_ERROR_BYTES];
    int64_t unreceived;
    int rc, lost;

    do /* also for what `done` of an operation submits */
        br_progress_wait_zero(context, &comm->outstanding, UINT64_MAX);
    while (br_posted_settle(context, comm) || atomic_load(&comm->outstanding));
    lost = br_comm_take_results(comm, "braid_finalize");
    snprintf(text, sizeof text, "%s", br_error_message());
    split_drain(comm);
    br_progress_lock(context);
    unreceived = group->unreceived;
    /* nobody answers any more, and the caller still needs the message */
    rc = context->worker->failed;
    br_progress_unlock(context);
    if (!rc)
        rc = braid_allreduce(comm, &unreceived, &unreceived, 1, BRAID_INT64, BRAID_SUM, NULL, NULL);
    if (!rc && unreceived && !comm->rank)
        br_log_warn("%lld messages of communicator %u were sent and never received",
                    (long long)unreceived, group->number);
    br_progress_lock(context);
    /* not before: until the all-reduce the other ranks may have sent announcements and
     * notifications, which would be taken for those of the next communicator with this number */
    br_engine_forget_group(context->engine, group);
    br_comm_put_operations(comm);
    br_comm_destroy(comm);
    if (!rc && !unreceived)
        give_number_back(context, group->number);
    br_progress_unlock(context);
    br_split_free(group);
    return lost ? br_error(-lost, "%s", text) : 0;
}
