/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/across.h"
#include "collectives/comm.h"
#include "collectives/engine_internal.h"
#include "collectives/local.h"
#include "collectives/share_internal.h"
#include "collectives/type.h"
#include "gpu/ipc.h"
#include "gpu/offload.h"

/* In the order of their coming. */
enum stage {
    TELL,
    TOLD,
    ANSWERED,
    ASKS, /* all hosts: note 14 */
    COMBINES,
    CROSSES, /* between hosts */
    COMBINED,
    TOLD_COMBINED,
    FETCHES,
    FETCHED,
    TOLD_FETCHED
};

int br_share_create(struct br_family *family, struct br_share **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return br_error(ENOMEM, "rank %d: no memory to share that of GPUs", family->rank);
    (*out)->family = family;
    return 0;
}

void br_share_destroy(struct br_share *share)
{
    free(share);
}

void br_share_reaches(struct br_local *local, struct br_across *across)
{
    local->share->across = across;
}

/* Notes 15 and 16. */
static bool is_for_levels(const struct br_operation *op)
{
    bool divides = op->reduction == BRAID_AVG && br_type_is_integer(op->type);

    return !divides && op->send_bytes >= BR_SHARE_ACROSS;
}

bool br_share_takes(const struct br_local *local, struct br_operation *op)
{
    bool asks = op->collective == BR_ALLREDUCE && !op->algorithm[0];

    if (asks && local->share && local->share->across)
        asks = is_for_levels(op);
    if (!local->share || op->kind != BR_OPERATION_COLLECTIVE || (!asks && br_list_empty(&local->queue)))
        return false;
    op->local_way = asks ? BR_LOCAL_SHARES : BR_LOCAL_PASSES;
    op->board.ends = false;
    br_list_init(&op->board.batch.node);
    return true;
}

/* ---- pieces ------------------------------------------------------------------------------------ */

/* Bytes before piece `rank`. */
static size_t offset(const struct br_local *local, const struct br_operation *op, uint32_t rank)
{
    return br_piece_offset(op->count, local->n, rank) * br_type_size(op->type);
}

static size_t piece_bytes(const struct br_local *local, const struct br_operation *op, uint32_t rank)
{
    return offset(local, op, rank + 1) - offset(local, op, rank);
}

/* ---- combine, fetch ---------------------------------------------------------------------------- */

static void worked(struct br_engine *engine, struct br_batch *batch)
{
    struct br_operation *op = br_container_of(batch, struct br_operation, board.batch);

    if (op->board.ends) /* the worker failed before */
        br_list_push_back(&engine->ended, &op->node);
}

static bool works(const struct br_operation *op)
{
    return !br_list_empty(&op->board.batch.node);
}

static int combine(struct br_share *share, const struct br_local *local, struct br_operation *op)
{
    size_t at = offset(local, op, local->rank), bytes = piece_bytes(local, op, local->rank);
    const void *sources[BR_BOARD_RANKS];
    int rc;

    for (uint32_t r = 0; r < local->n; r++)
        sources[r] = (const uint8_t *)share->send[r] + at;
    rc = br_offload_combine(share->family->offload, op->send_gpu, op->type, op->reduction,
                            (uint8_t *)op->recv + at, sources, (int)local->n, bytes, (int)local->n);
    if (rc)
        return rc;
    br_copier_count(share->family->copier, BR_COPY_SHARED, (local->n - 1) * bytes);
    br_stage_go(share->family->engine, &op->board.batch, op->send_gpu, BR_COPY_REDUCTION, worked);
    return 0;
}

static int fetch(struct br_share *share, const struct br_local *local, struct br_operation *op)
{
    int rc = 0;

    for (uint32_t i = 1; i < local->n && !rc; i++) { /* not all from the same one first */
        uint32_t r = (local->rank + i) % local->n;
        size_t at = offset(local, op, r);

        rc = br_offload_fetch(share->family->offload, op->send_gpu, (uint8_t *)op->recv + at,
                              (const uint8_t *)share->recv[r] + at, piece_bytes(local, op, r));
    }
    /* Those before a refused one are waited for. */
    br_stage_go(share->family->engine, &op->board.batch, op->send_gpu, BR_COPY_REDUCTION, worked);
    return rc;
}

/* ---- the rounds -------------------------------------------------------------------------------- */

static bool publish(struct br_share *share, struct br_local *local, const struct br_operation *op,
                    const void *data, size_t bytes)
{
    if (!br_local_publish(local, op, data, bytes))
        return false;
    local->published = true;
    share->stage++;
    return true;
}

static int tell(struct br_share *share, struct br_local *local, const struct br_operation *op)
{
    if (!br_board_may_publish(&local->board, local->round + 1))
        return BR_SHARE_WAITS;
    br_share_write(share, local, op);
    publish(share, local, op, &share->mine, br_share_note_bytes(&share->mine));
    return BR_SHARE_WAITS;
}

/* All know whether every rank of this host could. */
static int decide(struct br_share *share, const struct br_local *local, struct br_operation *op, bool all)
{
    if (share->across) {
        share->stage = ASKS;
        br_across_ask(share->across, op, all);
        return BR_SHARE_WAITS;
    }
    if (!all)
        return BR_SHARE_TO_ENGINE;
    share->stage = COMBINES;
    return combine(share, local, op);
}

static int answer(struct br_share *share, struct br_local *local, struct br_operation *op)
{
    bool owes = br_share_take(share, local, op);
    uint64_t has;

    if (!br_share_all_have(local, sizeof(struct br_share_note)))
        return decide(share, local, op, false);
    share->hands = owes;
    if (owes) { /* note 17 */
        share->stage = TELL;
        return BR_SHARE_WAITS;
    }
    has = br_share_map(share, local, op);
    if (has && !share->holds)
        br_ipc_hold(share->family->ipc);
    share->holds = has;
    publish(share, local, op, &has, sizeof has); /* all have told, so there is room */
    return BR_SHARE_WAITS;
}

/* Another communicator may hand over what it has to. */
static void resign(struct br_share *share)
{
    if (share->family->hands == share)
        share->family->hands = NULL;
}

/* What was asked between hosts, and what was done there. */
static int cross(struct br_share *share, const struct br_local *local, struct br_operation *op)
{
    int rc = br_across_done(share->across);

    if (rc <= 0)
        return rc ? rc : BR_SHARE_WAITS;
    if (share->stage == CROSSES) {
        share->stage = COMBINED;
        return BR_SHARE_WAITS;
    }
    if (!br_across_says_yes(share->across))
        return BR_SHARE_TO_ENGINE;
    share->stage = COMBINES;
    return combine(share, local, op);
}

/* Our piece of this host's values is there. */
static void combined(struct br_share *share, const struct br_local *local, struct br_operation *op)
{
    size_t first = br_piece_offset(op->count, local->n, local->rank),
           count = br_piece_offset(op->count, local->n, local->rank + 1) - first;

    share->stage = share->across && count ? CROSSES : COMBINED;
    if (share->stage == CROSSES)
        br_across_reduce(share->across, op, first, count);
}

/* Everybody is here: on to the next stage. */
static int go_on(struct br_share *share, struct br_local *local, struct br_operation *op)
{
    int rc = br_local_check_agreement(local, op);

    if (rc)
        return rc;
    if (!share->sent) /* those of the round before have been taken */
        resign(share);
    share->sent = false;
    switch (share->stage) {
    case TOLD:
        return answer(share, local, op);
    case ANSWERED:
        return decide(share, local, op, br_share_all_have(local, sizeof((struct br_share_note *)0)->has));
    case TOLD_COMBINED:
        share->stage = FETCHES;
        return fetch(share, local, op);
    default:
        local->operations++;
        return BR_SHARE_ENDED;
    }
}

static int next(struct br_share *share, struct br_local *local, struct br_operation *op)
{
    switch (share->stage) {
    case TELL:
        return tell(share, local, op);
    case COMBINES:
        if (!works(op))
            combined(share, local, op);
        return BR_SHARE_WAITS;
    case FETCHES:
        if (!works(op))
            share->stage++;
        return BR_SHARE_WAITS;
    case ASKS:
    case CROSSES:
        return cross(share, local, op);
    case COMBINED:
    case FETCHED:
        publish(share, local, op, NULL, 0);
        return BR_SHARE_WAITS;
    default:
        return br_local_waits_for(local, op) >= 0 ? BR_SHARE_WAITS : go_on(share, local, op);
    }
}

int br_share_step(struct br_local *local, struct br_operation *op)
{
    struct br_share *share = local->share;
    int before;
    int rc;

    if (share->family->worker->failed)
        return BR_SHARE_WAITS;
    do { /* as far as it goes now */
        before = share->stage;
        rc = next(share, local, op);
    } while (rc == BR_SHARE_WAITS && share->stage != before);
    if (rc == BR_SHARE_ENDED || rc == BR_SHARE_TO_ENGINE) {
        share->stage = TELL;
        if (share->holds)
            br_ipc_let_go(share->family->ipc);
        share->holds = share->hands = share->sent = false;
        resign(share);
    }
    return rc;
}

bool br_share_is_across(const struct br_share *share)
{
    return share->stage == ASKS || share->stage == CROSSES;
}

void br_share_part_ended(struct br_operation *part)
{
    if (part->whole->board.ends) /* the worker failed before */
        br_list_push_back(&part->comm->family->engine->ended, &part->whole->node);
    part->whole = NULL;
}

bool br_share_end(struct br_operation *op)
{
    struct br_across *across = op->comm->family->across;

    if (op->local_way != BR_LOCAL_SHARES || (!works(op) && !(across && br_across_ends(across, op))))
        return false;
    op->board.ends = true;
    br_list_init(&op->node);
    return true;
}
