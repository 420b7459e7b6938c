/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/common/job.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/launcher.h"

bool br_job_launched(void)
{
    const struct br_launcher *launcher;
    const char *sign;

    return br_launcher_find(&launcher, &sign) || launcher;
}

int br_job_rank(void)
{
    struct br_environment e;
    char text[BR_ERROR_BYTES];
    int rank = -1;

    snprintf(text, sizeof text, "%s", br_error_message());
    if (br_job_launched() && br_environment_read(NULL, &e) == 0)
        rank = (int)e.rank;
    br_error(EINVAL, "%s", text);
    return rank;
}
