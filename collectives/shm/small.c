/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/small.h"

#include <string.h>

#include "base/copy.h"
#include "base/pause.h"
#include "collectives/comm/api.h"
#include "collectives/engine/call.h"
#include "collectives/engine/group.h"
#include "collectives/engine/reduce.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/round.h"

bool br_shm_small_takes(const struct br_shm_executor *shm, const struct br_api_even *call,
                        struct br_shm_small *small)
{
    enum br_collective collective = call->collective;
    bool from_root = br_collective_from_root(collective),
         to_root = br_collective_to_root(collective), is_root = shm->rank == (uint32_t)call->root,
         mine = collective == BR_ALLTOALL || collective == BR_REDUCE_SCATTER ||
                collective == BR_SCATTER;
    size_t block = collective == BR_BARRIER ? 0 : call->count * br_type_size(call->type),
           bytes = block * br_shm_round_blocks(shm->n, collective);

    if (bytes >= shm->small_end || collective == BR_SCAN || collective == BR_EXSCAN ||
        call->reduction >= BRAID_REDUCTION_USER || br_shm_round_splits(shm, collective, block))
        return false;
    small->call = call;
    small->block = block;
    small->own = mine ? shm->rank * block : 0;
    small->theirs = shm->n == 2 ? 0 : small->own;
    small->given = bytes;
    small->bytes = (from_root && !is_root) || (to_root && is_root) ? 0 : bytes;
    small->send = call->send;
    if (small->bytes && mine && shm->n == 2)
        small->send += !shm->rank * block; /* the other one's */
    small->place = br_shm_round_place(shm, collective, block);
    if (small->place != BR_SHM_IN_RING)
        small->theirs = small->bytes = 0;
    small->first = from_root ? (uint32_t)call->root : 0;
    small->end = from_root ? small->first + 1 : to_root && !is_root ? 0 : shm->n;
    return true;
}

/* Of more than a slot holds. */
__attribute__((noinline)) static void
small_publish_more(struct br_shm_executor *shm, const struct br_shm_small *small, uint64_t epoch)
{
    bool one = shm->n == 2 || small->given == small->block;

    if (small->place != BR_SHM_IN_RING)
        br_shm_coll_give(&shm->coll, small->place, small->send, one ? 0 : small->block,
                         small->block);
    br_shm_coll_publish(&shm->coll, epoch, shm->check, small->bytes ? small->send : NULL,
                        small->bytes);
}

bool br_shm_small_begin(struct br_shm_executor *shm, const struct br_shm_small *small,
                        uint64_t sequence)
{
    const struct br_api_even *call = small->call;
    bool reduces = br_collective_reduces(call->collective);
    struct br_call note = {.root = (uint32_t)call->root,
                           .collective = (uint8_t)call->collective,
                           .type = (uint8_t)call->type,
                           .reduction = reduces ? (uint8_t)call->reduction : 0,
                           .by = BR_CALL_SHARED,
                           .count = call->count};
    uint64_t epoch = shm->epoch + 1;

    if (shm->busy || !br_list_empty(&shm->queue) ||
        !br_shm_coll_may_publish(&shm->coll, epoch, small->bytes))
        return false;
    shm->epoch = epoch;
    shm->rounds_of[epoch % BR_SHM_COLL_DEPTH].group = shm->group;
    shm->rounds_of[epoch % BR_SHM_COLL_DEPTH].sequence = sequence;
    shm->check = br_shm_call_digest(call->collective, call->type, note.reduction,
                                    (uint32_t)call->root, sequence, call->count);
    br_shm_coll_describe(&shm->coll, epoch, &note);
    shm->place = small->place;
    if (small->given > BR_SHM_COLL_SMALL)
        small_publish_more(shm, small, epoch);
    else
        br_shm_coll_publish_small(&shm->coll, epoch, shm->check, small->send, small->bytes);
    return true;
}

/* What `rank` gives of the block that counts for this rank. */
static const uint8_t *small_part(const struct br_shm_executor *shm,
                                 const struct br_shm_small *small, uint32_t rank)
{
    if (rank == shm->rank)
        return (const uint8_t *)small->call->send + small->own;
    if (small->place != BR_SHM_IN_RING)
        return br_shm_coll_given(&shm->coll, small->place, rank);
    return (const uint8_t *)br_shm_coll_data(&shm->coll, rank, shm->epoch, small->given) +
           small->theirs;
}

static void small_copy(const struct br_shm_executor *shm, const struct br_shm_small *small,
                       uint32_t rank, uint32_t to)
{
    uint8_t *out = (uint8_t *)small->call->recv + to * small->block;
    const uint8_t *in = small_part(shm, small, rank);

    if (out != in)
        br_copy(out, in, small->block);
}

static void small_reduce(const struct br_shm_executor *shm, const struct br_shm_small *small)
{
    const struct br_api_even *call = small->call;
    const void *in[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < shm->n; r++)
        in[r] = small_part(shm, small, r);
    br_reduce(call->type, call->reduction, call->recv, in, (int)shm->n, call->count, (int)shm->n);
}

/* Everything that this rank needs is there. */
static void small_combine(const struct br_shm_executor *shm, const struct br_shm_small *small)
{
    if (!small->block || small->first == small->end)
        return;
    if (br_collective_reduces(small->call->collective))
        small_reduce(shm, small);
    else if (small->end - small->first == 1)
        small_copy(shm, small, small->first, 0);
    else
        for (uint32_t r = 0; r < shm->n; r++)
            small_copy(shm, small, r, r);
}

/* Does the other one of two ranks, whose ring this one reads, ask what that takes? */
static bool small_is_asked(const struct br_shm_executor *shm, const struct br_shm_small *small)
{
    return shm->coll.past.told && !small->bytes && small->place == BR_SHM_IN_RING &&
           br_shm_coll_asks(&shm->coll, !shm->rank, shm->epoch, small->given);
}

__attribute__((noinline)) static void small_combine_and_answer(const struct br_shm_executor *shm,
                                                               const struct br_shm_small *small)
{
    uint64_t began = br_shm_coll_begin_answer();

    small_combine(shm, small);
    br_shm_coll_answer(&shm->coll, shm->epoch, began);
}

/* How many pauses there are at most before the first look (shared_collectives.md, coll.h, note 14).
 * Where one rank waits for another that does not wait for it, what it waits longer makes the other
 * one later, in whatever both call before the next time, so that there would often be as many as
 * may. */
#define PAUSES        32u
#define PAUSES_ROOTED 8u
#define LATE          64u /* looks in time take back a pause; one in vain adds half of one */

static uint32_t small_most_pauses(const struct br_shm_small *small)
{
    return small->end - small->first == 1 || br_collective_to_root(small->call->collective)
               ? PAUSES_ROOTED
               : PAUSES;
}

/* Waits until all that is needed has been published, for so many looks in vain at most; where ranks
 * share cores, which is one look, for some more while it waits for other cores alone. */
static bool small_wait(struct br_shm_executor *shm, const struct br_shm_small *small,
                       uint32_t looks)
{
    uint32_t *wait = &shm->small_wait[small->call->collective];
    uint32_t vain = 0, spins = 0, r = small->first;

    for (uint32_t i = looks > 1 ? *wait / LATE : 0; i; i--)
        br_pause();
    while (r < small->end && vain < looks)
        if (r == shm->rank || br_shm_coll_published(&shm->coll, r, shm->epoch, shm->check))
            r++;
        else if (looks > 1 || !br_shm_executor_spins(shm, &spins))
            vain++;
    shm->seen = r; /* from there an operation goes on */
    if (!vain)
        *wait -= *wait > 0;
    else if (*wait < small_most_pauses(small) * LATE)
        *wait += LATE / 2;
    return vain < looks;
}

bool br_shm_small_complete(struct br_shm_executor *shm, const struct br_shm_small *small,
                           uint32_t looks)
{
    bool alone =
        small->first == small->end || (small->end - small->first == 1 && small->first == shm->rank);

    if (!alone && !small_wait(shm, small, looks))
        return false;
    if (small->end - small->first == shm->n)
        br_shm_coll_learn(&shm->coll, shm->epoch);
    if (small_is_asked(shm, small))
        small_combine_and_answer(shm, small);
    else
        small_combine(shm, small);
    shm->operations++;
    return true;
}

void br_shm_small_go_on(struct br_shm_executor *shm, const struct br_operation *op)
{
    shm->form = BR_SHM_CHUNKS;
    shm->round = shm->first_round = 0;
    shm->rounds = 1;
    shm->chunk = op->count;
    shm->has_read = shm->pieces = false;
    shm->busy = shm->published = true;
}
