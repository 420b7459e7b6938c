/* SPDX-License-Identifier: BSD-3-Clause */
/* Do all ranks say the same? The digest (base/digest.h) of what must be the same, compared in one
 * small all-reduce. */
#ifndef BR_TRAINING_SESSION_AGREE_H
#define BR_TRAINING_SESSION_AGREE_H

#include <braid/braid.h>

/*
 * Collective; blocks. rc: what went wrong here before, with a message, or 0; ranks that are fine
 * learn that others are not. Returns rc, or -EPROTO with a message that begins with `who` and say
 * that the ranks' `what` differ.
 */
int br_agree(struct braid_comm *comm, uint64_t digest, int rc, const char *who, const char *what);

#endif
