/* SPDX-License-Identifier: BSD-3-Clause */
/* braid_comm_group(): the members meet, agree on a number, and make the communicator:
 * doc/design/split.md, section 5. */
#include "collectives/comm/call_group.h"
#include "collectives/comm/meeting.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/process.h"
#include "collectives/comm/comm.h"
#include "collectives/comm/context.h"
#include "collectives/comm/epochs.h"
#include "collectives/comm/progress_lock.h"
#include "collectives/comm/split.h"
#include "collectives/engine/group.h"
#include "protocol/message.h"

#define WHO     "braid_comm_group"
#define FIRST   (BR_SPLIT_NUMBERS / 64) /* word of the numbers of groups */
#define WORDS   (BR_MAX_GROUPS / 64 - FIRST)
#define LATER   (2 * BR_SEC)
#define NUMBERS (BR_MAX_GROUPS - BR_SPLIT_NUMBERS)

_Static_assert((uint64_t)BR_MAX_GROUPS *BRAID_GROUP_TAGS <= UINT64_C(1) << 32,
               "parent and tag are the tag of a message");

struct br_meeting {
    struct br_group group;
    struct braid_comm comm; /* of all ranks of the job; in no list of communicators */
};

/* What a member says to the leader. */
struct claim {
    uint64_t members;      /* digest of the list */
    uint64_t taken[WORDS]; /* numbers of groups, a bit each; without the one it holds for this */
    int32_t holds;         /* the number that was proposed; -1: it could not be taken */
    uint32_t reserved;
};

/* What the leader answers to all. */
struct verdict {
    int32_t status; /* negative errno: it is over */
    int32_t number; /* status 0: the one that all shall take, or, final, have taken */
    int32_t final;
    int32_t rank; /* -EPROTO: the member, a rank of the parent, whose list differs */
};

/* One call. */
struct call_of_group {
    struct braid_comm *parent;
    const int *ranks; /* of the parent, in the program's order */
    int n, leader;    /* leader: the lowest of them */
    uint32_t tag;
    uint64_t members;
    uint64_t deadline;
    int holds; /* number that is taken here for the group; -1: none */
};

int br_meeting_open(struct br_context *context)
{
    struct br_meeting *meeting = calloc(1, sizeof *meeting);
    int rc;

    if (!meeting)
        return br_error(ENOMEM, "rank %d: no memory for the meetings of groups", context->rank);
    rc = br_group_init(&meeting->group, BR_MEETING_GROUP, context->rank, context->size, NULL,
                       &context->network.model);
    if (rc) {
        free(meeting);
        return rc;
    }
    meeting->group.internal = true;
    meeting->comm = (struct braid_comm){.context = context,
                                        .rank = context->rank,
                                        .size = context->size,
                                        .group = &meeting->group,
                                        .executors = &context->engine_executor};
    br_list_init(&meeting->comm.node);
    context->meeting = meeting;
    context->group_numbers[BR_MEETING_GROUP / 64] |= 1ull << BR_MEETING_GROUP % 64;
    /* whether or not there are any epochs */
    context->group_numbers[BR_EPOCHS_GROUP / 64] |= 1ull << BR_EPOCHS_GROUP % 64;
    return 0;
}

void br_meeting_close(struct br_context *context)
{
    if (!context->meeting)
        return;
    br_group_destroy(&context->meeting->group);
    free(context->meeting);
    context->meeting = NULL;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* To or from a rank of the parent. */
static int meeting_message(const struct call_of_group *g, bool send, void *memory, size_t bytes,
                           int rank)
{
    struct braid_comm *comm = &g->parent->context->meeting->comm;
    uint64_t now = br_comm_now(g->parent), left = g->deadline > now ? g->deadline - now : 0;
    const struct braid_options options = {
        .priority = INT32_MAX,
        .timeout_ms = left / BR_MS > INT_MAX ? INT_MAX : (int)(left / BR_MS) + 1,
        .tag = g->parent->group->number * BRAID_GROUP_TAGS + g->tag};
    int peer = br_group_in_job(g->parent->group, rank);
    int rc = send ? braid_send(comm, memory, bytes, peer, &options, NULL)
                  : braid_recv(comm, memory, bytes, peer, &options, NULL);

    return br_error_prefix(rc, WHO " of %d ranks, tag %u, on rank %d: %s rank %d: ", g->n, g->tag,
                           g->parent->rank, send ? "telling" : "waiting for", rank);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void give_up(struct call_of_group *g)
{
    if (g->holds < 0)
        return;
    br_progress_lock(g->parent->context);
    br_split_untake(g->parent->context->group_numbers, (uint32_t)g->holds);
    br_progress_unlock(g->parent->context);
    g->holds = -1;
}

/* Takes a number; -1: it is taken already. */
static void hold(struct call_of_group *g, int number)
{
    uint64_t *word = &g->parent->context->group_numbers[number / 64], bit = 1ull << number % 64;

    br_progress_lock(g->parent->context);
    g->holds = *word & bit ? -1 : number;
    *word |= bit;
    br_progress_unlock(g->parent->context);
}

static void show_numbers(const struct call_of_group *g, struct claim *claim)
{
    struct br_context *context = g->parent->context;

    *claim = (struct claim){.members = g->members, .holds = g->holds};
    br_progress_lock(context);
    memcpy(claim->taken, context->group_numbers + FIRST, sizeof claim->taken);
    br_progress_unlock(context);
    if (g->holds >= 0)
        br_split_untake(claim->taken, (uint32_t)g->holds - BR_SPLIT_NUMBERS);
}

/* The leader takes a number that is free on all; -1: there is none. Where it begins to look differs
 * from group to group and try to try, so that groups which are made at once seldom want the same.
 */
static void propose(struct call_of_group *g, const uint64_t *taken, uint64_t turn)
{
    const uint64_t words[] = {g->members, g->parent->group->number, g->tag, turn};
    uint32_t begin = (uint32_t)(br_digest(words, 4) % NUMBERS);

    g->holds = -1;
    for (uint32_t i = 0; i < NUMBERS && g->holds < 0; i++) {
        uint32_t number = (begin + i) % NUMBERS;

        if (!(taken[number / 64] >> number % 64 & 1))
            hold(g, (int)(BR_SPLIT_NUMBERS + number));
    }
}

/* ---- agreement ------------------------------------------------------------------------------- */

/* Hears all others. taken: what is taken anywhere. Fills *v with what is to be said. */
static int hear(const struct call_of_group *g, uint64_t *taken, struct verdict *v)
{
    struct claim claim;

    *v = (struct verdict){.number = g->holds, .final = g->holds >= 0};
    memset(taken, 0, sizeof claim.taken);
    for (int i = 0; i < g->n; i++) {
        int rc = g->ranks[i] == g->leader
                     ? 0
                     : meeting_message(g, false, &claim, sizeof claim, g->ranks[i]);

        if (rc)
            return rc;
        if (g->ranks[i] == g->leader)
            continue;
        if (claim.members != g->members && !v->status)
            *v = (struct verdict){.status = -EPROTO, .rank = g->ranks[i]};
        if (claim.holds != g->holds)
            v->final = 0;
        for (uint32_t w = 0; w < WORDS; w++)
            taken[w] |= claim.taken[w];
    }
    return 0;
}

static int tell(const struct call_of_group *g, struct verdict *v)
{
    for (int i = 0; i < g->n; i++) {
        int rc = g->ranks[i] == g->leader ? 0 : meeting_message(g, true, v, sizeof *v, g->ranks[i]);

        if (rc)
            return rc;
    }
    return 0;
}

static int lead(struct call_of_group *g, struct verdict *v)
{
    uint64_t taken[WORDS];
    int rc;

    for (uint64_t turn = 0;; turn++) {
        rc = hear(g, taken, v);
        if (!rc && !v->status && !v->final) {
            give_up(g);
            propose(g, taken, turn);
            v->number = g->holds;
            v->status = g->holds < 0 ? -ENOSPC : 0;
            v->final = g->n == 1;
        }
        if (!rc)
            rc = tell(g, v);
        if (rc || v->status || v->final)
            return rc;
    }
}

static int follow(struct call_of_group *g, struct verdict *v)
{
    struct claim claim;
    int rc;

    for (;;) {
        show_numbers(g, &claim);
        rc = meeting_message(g, true, &claim, sizeof claim, g->leader);
        if (!rc)
            rc = meeting_message(g, false, v, sizeof *v, g->leader);
        if (rc || v->status || v->final)
            return rc;
        give_up(g);
        hold(g, v->number);
    }
}

static int meeting_status(const struct call_of_group *g, const struct verdict *v)
{
    if (v->status == -EPROTO)
        return br_error(EPROTO,
                        WHO ", tag %u: rank %d names other members, or in another order, than rank "
                            "%d; all members must give the same list",
                        g->tag, v->rank, g->leader);
    if (v->status == -ENOSPC)
        return br_error(ENOSPC, WHO ": all %u numbers of groups are taken on some member",
                        NUMBERS - 2);
    return v->status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static int check_members(const struct braid_comm *parent, const int *ranks, int n, uint32_t tag,
                         int *own)
{
    bool *seen;
    int rc = 0;

    if (!ranks || n < 1 || n > parent->size)
        return br_error(EINVAL, WHO ": %d ranks; there must be 1 to %d", n, parent->size);
    if (tag >= BRAID_GROUP_TAGS)
        return br_error(EINVAL, WHO ": tag is %u; it must be less than %u", tag, BRAID_GROUP_TAGS);
    seen = calloc((size_t)parent->size, sizeof *seen);
    if (!seen)
        return br_error(ENOMEM, WHO ": no memory for %d ranks", n);
    *own = -1;
    for (int i = 0; i < n && !rc; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            rc = br_error(EINVAL, WHO ": there is no rank %d among %d", ranks[i], parent->size);
        else if (seen[ranks[i]])
            rc = br_error(EINVAL, WHO ": rank %d is named twice", ranks[i]);
        else
            seen[ranks[i]] = true;
        if (!rc && ranks[i] == parent->rank)
            *own = i;
    }
    free(seen);
    if (!rc && *own < 0)
        rc = br_error(EINVAL, WHO ": this rank, %d, is not among the members: only they call",
                      parent->rank);
    return rc;
}

static int meeting_make(const struct call_of_group *g, int own, int *in_job,
                        struct braid_comm **out)
{
    for (int i = 0; i < g->n; i++)
        in_job[i] = br_group_in_job(g->parent->group, g->ranks[i]);
    return br_split_make(g->parent->context, in_job, g->n, own, g->holds, out);
}

int braid_comm_group(struct braid_comm *parent, const int *ranks, int n, uint32_t tag,
                     struct braid_comm **out)
{
    BR_DISABLE_CANCELLATION;
    struct call_of_group g = {
        .parent = parent, .ranks = ranks, .n = n, .tag = tag, .leader = INT_MAX, .holds = -1};
    struct verdict v = {0};
    int rc = br_comm_check(parent, WHO), own = -1, *in_job;

    if (!rc)
        rc = br_call_group_refuse(WHO);
    if (rc)
        return rc;
    if (!out)
        return br_error(EINVAL, WHO ": nowhere to store the communicator");
    *out = NULL;
    rc = check_members(parent, ranks, n, tag, &own);
    if (rc)
        return rc;
    in_job = calloc((size_t)n, sizeof *in_job);
    if (!in_job)
        return br_error(ENOMEM, WHO ": no memory for %d ranks", n);
    for (int i = 0; i < n; i++)
        g.leader = ranks[i] < g.leader ? ranks[i] : g.leader;
    g.members = br_digest_bytes(ranks, (size_t)n * sizeof *ranks);
    g.deadline = br_comm_now(parent) + parent->context->settings.timeout;
    if (parent->rank != g.leader) /* which knows who is missing, and says it first */
        g.deadline += parent->context->settings.timeout / 8 < LATER
                          ? parent->context->settings.timeout / 8
                          : LATER;
    rc = parent->rank == g.leader ? lead(&g, &v) : follow(&g, &v);
    if (!rc)
        rc = meeting_status(&g, &v);
    if (rc)
        give_up(&g);
    else
        rc = meeting_make(&g, own, in_job, out);
    free(in_job);
    return rc;
}
