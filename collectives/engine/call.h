/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective call in the form in which ranks send it to each other when they disagree
 * (protocol/message.h), and the message of that error. The functions may be called from any thread
 * and do not block. */
#ifndef BR_COLLECTIVES_ENGINE_CALL_H
#define BR_COLLECTIVES_ENGINE_CALL_H

#include "collectives/engine/blocks.h"
#include "collectives/engine/group.h"
#include "collectives/engine/operation.h"
#include "collectives/schedule/type.h"
#include "protocol/worker.h"

/* In br_call.collective: the form with blocks of different sizes. br_call.count is the number of
 * elements of all blocks then, or 0 where not all ranks know it. */
#define BR_CALL_UNEVEN 0x80

/* In br_call.reduction: one of the program's own, and the lower bits of its number. */
#define BR_CALL_USER_REDUCTION 0x80u

static inline uint8_t br_call_reduction(const struct br_operation *op)
{
    if (!br_collective_reduces(op->collective))
        return 0;
    return (uint8_t)(op->reduction < BRAID_REDUCTION_USER
                         ? (uint32_t)op->reduction
                         : BR_CALL_USER_REDUCTION | (op->reduction % BR_CALL_USER_REDUCTION));
}

/* Returns the call of an operation. by: how this rank carries it out. */
static inline struct br_call br_call_of(const struct br_operation *op, enum br_call_by by)
{
    bool uneven = br_blocks_uneven(op);

    return (struct br_call){
        .root = br_collective_rooted(op->collective) ? (uint32_t)op->root : 0,
        .collective = (uint8_t)(op->collective | (uneven ? BR_CALL_UNEVEN : 0)),
        .type = (uint8_t)op->type,
        .reduction = br_call_reduction(op),
        .by = (uint8_t)by,
        .count = uneven ? br_blocks_total(op, (uint32_t)op->group->size) : op->count,
    };
}

/* Writes the message of the error, as br_disagreement_text says: "rank 1 and we (rank 0) disagree
 * about operation 7 (count): there allreduce of 1000 float32 (sum), here ...". */
br_disagreement_text br_call_disagreement;

#endif
