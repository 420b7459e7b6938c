/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/session/agree.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"

int br_agree(struct braid_comm *comm, uint64_t digest, int rc, const char *who, const char *what)
{
    char text[BR_ERROR_BYTES]; /* of rc: other calls set messages, too */
    uint64_t both[2];
    int bad;

    snprintf(text, sizeof text, "%s", br_error_message());
    digest = rc ? 0 : digest | 1;
    both[0] = digest;
    both[1] = ~digest;
    bad = braid_allreduce(comm, both, both, 2, BRAID_UINT64, BRAID_MIN, NULL, NULL);
    if (rc || bad)
        return rc ? br_error(-rc, "%s", text) : bad;
    if (!both[0])
        return br_error(EPROTO, "%s: another rank has failed; its message says why", who);
    if (both[0] != ~both[1])
        return br_error(EPROTO, "%s: the ranks' %s differ", who, what);
    return 0;
}
