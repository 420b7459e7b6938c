/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective call as ranks tell each other of it when they disagree (protocol/message.h), and the
 * message of that error. */
#ifndef BR_COLLECTIVES_ENGINE_CALL_H
#define BR_COLLECTIVES_ENGINE_CALL_H

#include "collectives/engine/operation.h"
#include "protocol/worker.h"

struct br_call br_call_of(const struct br_operation *op, enum br_call_by by);

/* "rank 1 and we (rank 0) disagree about operation 7 (count): there allreduce of 1000 float32
 * (sum), here ...": br_disagreement_text. */
br_disagreement_text br_call_disagreement;

#endif
