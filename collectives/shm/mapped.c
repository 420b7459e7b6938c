/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/shm/mapped.h"

#include "base/copy.h"
#include "collectives/comm/context.h"
#include "collectives/comm/memory.h"
#include "collectives/engine/group.h"
#include "collectives/schedule/type.h"
#include "collectives/shm/round.h"
#include "protocol/worker.h"

static int mapped_peer(const struct br_shm_executor *shm)
{
    return br_group_in_job(shm->group, shm->rank ? 0 : 1);
}

/* The block of the rank's input that goes to `to`. */
static size_t mapped_block(const struct br_operation *op, uint32_t to)
{
    return op->collective == BR_ALLTOALL || op->collective == BR_SCATTER ? to : 0;
}

bool br_shm_mapped_suits(const struct br_shm_executor *shm, const struct br_operation *op)
{
    /* an operation that was overtaken goes on with its chunks */
    return shm->max_pair_bytes && !op->shm_round &&
           (op->collective == BR_ALLGATHER || op->collective == BR_ALLTOALL ||
            (br_collective_rooted(op->collective) &&
             br_shm_round_block_bytes(op) > BR_SHM_UNASKED_BYTES));
}

struct br_shm_mapped_offer br_shm_mapped_offer(struct br_shm_executor *shm,
                                               const struct br_operation *op)
{
    size_t bytes =
        br_shm_round_block_bytes(op) * br_collective_blocks(op->collective, shm->n, BR_INPUT);
    const struct braid_region *region = NULL;

    shm->direct.bytes_done = 0;
    shm->direct.outcome = BR_SHM_READ;
    /* in place an alltoall may overwrite a block before the other rank has read it */
    if (br_shm_mapped_gives(op, shm->rank) &&
        (op->collective != BR_ALLTOALL || op->send != op->recv))
        region = br_region_containing(shm->context, op->send, bytes);
    if (!region || !br_worker_share(shm->context->worker, mapped_peer(shm), &region->region))
        return (struct br_shm_mapped_offer){0};
    return (struct br_shm_mapped_offer){
        .region = region->region.id,
        .offset = (uint64_t)((const char *)op->send - (const char *)region->region.base)};
}

static const struct br_shm_mapped_offer *mapped_offer_of(const struct br_shm_executor *shm,
                                                         uint32_t rank)
{
    return br_shm_coll_data(&shm->coll, rank, shm->epoch, sizeof(struct br_shm_mapped_offer));
}

bool br_shm_mapped_offered(const struct br_shm_executor *shm, const struct br_operation *op)
{
    return (!br_shm_mapped_gives(op, 0) || mapped_offer_of(shm, 0)->region) &&
           (!br_shm_mapped_gives(op, 1) || mapped_offer_of(shm, 1)->region);
}

const void *br_shm_mapped_there(const struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_shm_mapped_offer offer = *mapped_offer_of(shm, !shm->rank);
    size_t block = br_shm_round_block_bytes(op);

    return br_worker_shared(shm->context->worker, mapped_peer(shm), offer.region,
                            offer.offset + mapped_block(op, shm->rank) * block, block);
}

bool br_shm_mapped_read(struct br_shm_executor *shm, const struct br_operation *op)
{
    struct br_shm_direct *direct = &shm->direct;
    struct br_shm_mapped_offer offer = *mapped_offer_of(shm, !shm->rank);
    size_t block = br_shm_round_block_bytes(op), left = block - direct->bytes_done,
           bytes = left < BR_SHM_DIRECT_TURN ? left : BR_SHM_DIRECT_TURN,
           from = mapped_block(op, shm->rank) * block;
    const uint8_t *own = (const uint8_t *)op->send + from;
    uint8_t *out = op->recv;
    const void *there = br_worker_shared(shm->context->worker, mapped_peer(shm), offer.region,
                                         offer.offset + from + direct->bytes_done, bytes);

    if (!there) { /* not yet, or not any more */
        direct->outcome = BR_SHM_BY_CHUNKS;
        return true;
    }
    br_copy(out + !shm->rank * block + direct->bytes_done, there, bytes);
    if (br_shm_coll_has_withdrawn(&shm->coll, !shm->rank)) {
        direct->outcome = BR_SHM_BY_CHUNKS; /* in which it has no part, so the failure is seen */
        return true;
    }
    *direct->read_bytes += bytes;
    direct->bytes_done += bytes;
    if (direct->bytes_done < block)
        return false;
    if (out + shm->rank * block != own)
        br_copy(out + shm->rank * block, own, block);
    return true;
}
