/* SPDX-License-Identifier: BSD-3-Clause */
/* The public calls of ids: a job is found by what braid_id_create() has made. */
#include <errno.h>

#include <braid/braid.h>

#include "base/error.h"
#include "base/process.h"
#include "protocol/bootstrap/id.h"
#include "protocol/bootstrap/secret.h"

int braid_id_create(struct braid_id *id)
{
    BR_DISABLE_CANCELLATION;

    return id ? br_id_open(false, 0, id)
              : br_error(EINVAL, "braid_id_create: nowhere to store the id");
}

int braid_id_free(const struct braid_id *id)
{
    BR_DISABLE_CANCELLATION;
    struct br_id read;
    int rc = id ? br_id_read(id, &read) : br_error(EINVAL, "no id");

    if (!rc && !br_id_close(&read))
        rc = br_error(EINVAL, "this process has not made the id, or it was used or freed before");
    if (id)
        br_secret_wipe(&read.secret);
    return rc ? br_error_prefix(rc, "braid_id_free: ") : 0;
}
