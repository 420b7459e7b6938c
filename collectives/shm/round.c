/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/round.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "collectives/engine/blocks.h"
#include "collectives/engine/call.h"
#include "collectives/engine/engine.h"
#include "collectives/engine/group.h"
#include "collectives/engine/user_reduction.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/split.h"

_Static_assert(sizeof(struct br_call) == BR_SHM_COLL_NOTE, "a call is the note beside a round");

/* What a rank publishes; the lengths follow from the call, nothing on the shared segment says
 * them. */
static size_t round_bytes(const struct br_shm_executor *shm, const struct br_operation *op,
                          uint32_t rank)
{
    size_t bytes = br_shm_round_block_bytes(op);

    switch (op->collective) {
    case BR_REDUCE_SCATTER:
    case BR_ALLTOALL:
        return bytes * shm->n;
    case BR_BROADCAST:
        return rank == (uint32_t)op->root ? bytes : 0;
    case BR_SCATTER:
        return rank == (uint32_t)op->root ? bytes * shm->n : 0;
    default:
        return bytes;
    }
}

bool br_shm_round_needs(const struct br_shm_executor *shm, const struct br_operation *op,
                        uint32_t rank)
{
    if (br_collective_from_root(op->collective))
        return rank == (uint32_t)op->root;
    return !br_collective_to_root(op->collective) || shm->rank == (uint32_t)op->root;
}

int br_shm_round_waits_for(const struct br_shm_executor *shm, const struct br_operation *op)
{
    for (uint32_t r = 0; r < shm->n; r++)
        if (r != shm->rank && br_shm_round_needs(shm, op, r) &&
            !br_shm_coll_ready(&shm->coll, r, shm->epoch))
            return (int)r;
    return -1;
}

static const void *round_part(const struct br_shm_executor *shm, const struct br_operation *op,
                              uint32_t rank)
{
    if (rank == shm->rank)
        return op->send;
    return br_shm_coll_data(&shm->coll, rank, shm->epoch, round_bytes(shm, op, rank));
}

static void round_reduce(const struct br_shm_executor *shm, const struct br_operation *op,
                         size_t skip)
{
    const void *in[BR_SHM_COLL_RANKS];

    for (uint32_t r = 0; r < shm->n; r++)
        in[r] = (const uint8_t *)round_part(shm, op, r) + skip;
    br_reduce_operation(op, op->recv, in, (int)shm->n, op->count, (int)shm->n);
}

static void round_copy(void *out, const void *in, size_t bytes)
{
    if (bytes && out != in)
        memcpy(out, in, bytes);
}

/* Block r of the result is what rank r has published from `skip` on. */
static void round_copy_all(const struct br_shm_executor *shm, const struct br_operation *op,
                           size_t skip)
{
    size_t bytes = br_shm_round_block_bytes(op);

    for (uint32_t r = 0; r < shm->n; r++)
        round_copy((uint8_t *)op->recv + r * bytes, (const uint8_t *)round_part(shm, op, r) + skip,
                   bytes);
}

static void round_combine(const struct br_shm_executor *shm, const struct br_operation *op)
{
    size_t bytes = br_shm_round_block_bytes(op);

    if (!bytes)
        return;
    switch (op->collective) {
    case BR_ALLREDUCE:
        round_reduce(shm, op, 0);
        break;
    case BR_REDUCE:
        if (shm->rank == (uint32_t)op->root)
            round_reduce(shm, op, 0);
        break;
    case BR_REDUCE_SCATTER:
        round_reduce(shm, op, bytes * shm->rank);
        break;
    case BR_ALLGATHER:
    case BR_ALLTOALL:
        round_copy_all(shm, op, op->collective == BR_ALLTOALL ? bytes * shm->rank : 0);
        break;
    case BR_GATHER:
        if (shm->rank == (uint32_t)op->root)
            round_copy_all(shm, op, 0);
        break;
    case BR_BROADCAST:
        round_copy(op->recv, round_part(shm, op, (uint32_t)op->root), bytes);
        break;
    case BR_SCATTER:
        round_copy(op->recv,
                   (const uint8_t *)round_part(shm, op, (uint32_t)op->root) + bytes * shm->rank,
                   bytes);
        break;
    default:
        break;
    }
}

/* root counts where there is one, as elsewhere it is the same (0). */
uint16_t br_shm_round_digest(const struct br_operation *op)
{
    uint64_t words[] = {(uint64_t)op->collective << 32 | (uint64_t)op->type,
                        br_collective_reduces(op->collective) ? (uint64_t)op->reduction : 0,
                        (uint64_t)op->root, op->sequence, op->count};

    return br_digest_short(words, sizeof words / sizeof *words);
}

struct br_call br_shm_round_call(const struct br_operation *op)
{
    return br_call_of(op, op->shm_role == BR_SHM_ROLE_GPU_LOCAL ? BR_CALL_EITHER : BR_CALL_SHARED);
}

int br_shm_round_check(const struct br_shm_executor *shm, const struct br_operation *op, bool all)
{
    uint16_t mine = br_shm_coll_check(&shm->coll, shm->rank, shm->epoch);
    struct br_call theirs, ours;
    char text[300];

    for (uint32_t r = 0; r < shm->n; r++) {
        if (r == shm->rank || !br_shm_round_needs(shm, op, r) ||
            (!all && !br_shm_coll_ready(&shm->coll, r, shm->epoch)) ||
            br_shm_coll_check(&shm->coll, r, shm->epoch) == mine)
            continue;
        ours = br_shm_round_call(op);
        memcpy(&theirs, br_shm_coll_description(&shm->coll, r, shm->epoch), sizeof theirs);
        br_call_disagreement(
            br_group_in_job(shm->group, (int)r), br_group_in_job(shm->group, (int)shm->rank),
            br_tag_of_group(op->group->number, op->sequence), &theirs, &ours, text, sizeof text);
        return br_error(EPROTO, "%s", text);
    }
    return 0;
}

/* data NULL: they are in their space. */
static void round_show(struct br_shm_executor *shm, const struct br_operation *op, const void *data,
                       size_t bytes)
{
    shm->epoch++;
    shm->last = br_shm_round_call(op);
    shm->last_group = op->group;
    shm->last_sequence = op->sequence;
    shm->unreported = true;
    br_shm_coll_describe(&shm->coll, shm->epoch, &shm->last);
    br_shm_coll_publish(&shm->coll, shm->epoch, br_shm_round_digest(op), data, bytes);
}

bool br_shm_round_publish(struct br_shm_executor *shm, const struct br_operation *op,
                          const void *data, size_t bytes)
{
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1))
        return false;
    round_show(shm, op, data, bytes);
    return true;
}

static void round_show_split(struct br_shm_executor *shm, const struct br_operation *op)
{
    br_shm_split_write(&shm->coll, op, shm->round, shm->epoch + 1);
    round_show(shm, op, NULL, 0);
}

bool br_shm_round_begin(struct br_shm_executor *shm, const struct br_operation *op)
{
    shm->rounds = 0;
    if (op->collective != BR_ALLREDUCE || br_shm_round_block_bytes(op) < shm->split_bytes)
        return br_shm_round_publish(shm, op, op->send, round_bytes(shm, op, shm->rank));
    if (!br_shm_coll_may_publish(&shm->coll, shm->epoch + 1))
        return false;
    shm->round = 0;
    shm->rounds = br_shm_split_rounds(&shm->coll, op);
    round_show_split(shm, op);
    return true;
}

int br_shm_round_complete(struct br_shm_executor *shm, const struct br_operation *op)
{
    int rc;

    for (;;) {
        if (br_shm_round_waits_for(shm, op) >= 0)
            return 0;
        rc = br_shm_round_check(shm, op, true);
        if (rc)
            return rc;
        if (!shm->rounds) {
            round_combine(shm, op);
            break;
        }
        br_shm_split_read(&shm->coll, op, shm->round, shm->epoch);
        if (++shm->round == shm->rounds)
            break;
        round_show_split(shm, op);
    }
    shm->operations++;
    shm->rounds = 0;
    return 1;
}
