/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective call in the form in which ranks send it to each other when they disagree
 * (protocol/message.h), and the message of that error. The functions may be called from any thread
 * and do not block. */
#ifndef BR_COLLECTIVES_ENGINE_CALL_H
#define BR_COLLECTIVES_ENGINE_CALL_H

#include "collectives/engine/operation.h"
#include "protocol/worker.h"

/* In br_call.collective: the form with blocks of different sizes. br_call.count is the number of
 * elements of all blocks then, or 0 where not all ranks know it. */
#define BR_CALL_UNEVEN 0x80

/* Returns the call of an operation. by: how this rank carries it out. */
struct br_call br_call_of(const struct br_operation *op, enum br_call_by by);

/* Writes the message of the error, as br_disagreement_text says: "rank 1 and we (rank 0) disagree
 * about operation 7 (count): there allreduce of 1000 float32 (sum), here ...". */
br_disagreement_text br_call_disagreement;

#endif
