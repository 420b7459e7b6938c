/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a call of a collective takes, measured. */
#ifndef BR_TOOLS_COMMON_COLL_TIME_H
#define BR_TOOLS_COMMON_COLL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/common/coll_table.h"

/* What is to be called: float32 and sums. send and recv have room for `bytes`. */
struct br_coll_timing {
    struct braid_comm *comm;
    const struct br_coll *coll;
    const char *algorithm;
    size_t bytes; /* as br_coll_shape understands them */
    void *send, *recv;
    /* ns; about so long, and 2 to `most` calls after a first one that does not count */
    uint64_t min_ns;
    int max_calls;
    /* a first call that takes longer than 5 times `enough` on any rank is all that is measured */
    bool once;
};

/* Collective. Seconds of one call, the mean of the calls, the same on all ranks. Errors: braid's,
 * with a message. */
int br_coll_time(const struct br_coll_timing *calls, double *seconds);

#endif
