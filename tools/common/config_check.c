/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/config_check.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

int64_t br_config_text(const char *text)
{
    return (int64_t)(br_digest_bytes(text, strlen(text)) >> 1); /* its opposite is a number, too */
}

int br_config_options_agree(struct braid_comm *comm, const struct br_config_option *options)
{
    /* of each value, and of its opposite: the least */
    int64_t most[2 * BR_CONFIG_OPTIONS_MAX] = {0};
    size_t n = 0;
    int rc;

    for (; n < BR_CONFIG_OPTIONS_MAX && options[n].name; n++) {
        most[2 * n] = options[n].value;
        most[2 * n + 1] = -options[n].value;
    }
    rc = braid_allreduce(comm, most, most, 2 * n, BRAID_INT64, BRAID_MAX, NULL, NULL);
    for (size_t i = 0; i < n && !rc; i++)
        if (most[2 * i] != -most[2 * i + 1]) {
            /* so that all know it before one of them aborts the job, whatever comes of it */
            (void)braid_barrier(comm, NULL, NULL);
            rc = br_error(EINVAL, "the ranks were given different --%s; all need the same options",
                          options[i].name);
        }
    return rc;
}
