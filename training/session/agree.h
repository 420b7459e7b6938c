/* SPDX-License-Identifier: BSD-3-Clause */
/* Do all ranks say the same? The digest (base/digest.h) of what must be the same, compared in one
 * small all-reduce. */
#ifndef BR_TRAINING_SESSION_AGREE_H
#define BR_TRAINING_SESSION_AGREE_H

#include <braid/braid.h>

/*
 * Collective; blocks. rc: what went wrong here before, with a message, or 0; the other ranks learn
 * from it that this rank has failed. Returns rc, or -EPROTO with a message that begins with `who`
 * and says that the ranks' `what` differ or that another rank has failed, or the error of the
 * all-reduce.
 */
int br_agree(struct braid_comm *comm, uint64_t digest, int rc, const char *who, const char *what);

#endif
