/* SPDX-License-Identifier: BSD-3-Clause */
/* The launchers that say all by WORLD_SIZE, RANK and their like: torchrun, and `braid run` or the
 * user. */
#include "protocol/bootstrap/launcher.h"

#include "base/env.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"

#include <errno.h>
#include <stdlib.h>

int br_launcher_read_local(struct br_environment *out)
{
    const char *rank = br_env_pick("BRAID_LOCAL_RANK", "LOCAL_RANK");
    const char *size = br_env_pick("BRAID_LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE");
    uint32_t local_size;
    int64_t value;
    int rc;

    /* LOCAL_RANK alone says nothing about who shares this host, which is what we need to know. */
    if (!br_env_is_set(rank) || !br_env_is_set(size))
        return 0;
    rc = br_env_number(size, 1, out->launcher ? out->size : BR_ENVIRONMENT_SIZE_MAX, 1, &value);
    if (rc < 0)
        return rc;
    local_size = (uint32_t)value;
    rc = br_env_number(rank, 0, value - 1, 0, &value);
    if (rc < 0 || local_size > out->size)
        return rc;
    out->local_known = true;
    out->local_size = local_size;
    out->local_rank = (uint32_t)value;
    return 0;
}

static const char *variables_detect(void)
{
    static const char *const names[] = {"BRAID_WORLD_SIZE", "WORLD_SIZE", "BRAID_RANK", "RANK"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (br_env_is_set(names[i]))
            return names[i];
    return NULL;
}

static const char *torchrun_detect(void)
{
    return getenv("TORCHELASTIC_RUN_ID") && variables_detect() ? "TORCHELASTIC_RUN_ID" : NULL;
}

static int variables_fill(struct br_environment *out, uint64_t deadline)
{
    const char *size = br_env_pick("BRAID_WORLD_SIZE", "WORLD_SIZE");
    const char *rank = br_env_pick("BRAID_RANK", "RANK");
    int64_t value = 0;
    int rc;

    (void)deadline; /* nobody is asked */
    if (!br_env_is_set(size))
        return br_error(
            EINVAL, "%s is set but WORLD_SIZE is not: set WORLD_SIZE to the number of processes",
            rank);
    if (!br_env_is_set(rank))
        return br_error(EINVAL,
                        "%s is not set, but WORLD_SIZE is: start the processes with `braid run` or "
                        "torchrun, or set RANK (or BRAID_RANK) in each of them, or name their "
                        "launcher in BRAID_LAUNCHER",
                        rank);
    rc = br_env_number(size, 1, BR_ENVIRONMENT_SIZE_MAX, 0, &value);
    if (rc < 0)
        return rc;
    out->size = (uint32_t)value;
    rc = br_env_number(rank, 0, BR_ENVIRONMENT_SIZE_MAX - 1, 0, &value);
    if (rc < 0)
        return rc;
    out->rank = (uint32_t)value;
    if (out->rank >= out->size)
        return br_error(EINVAL, "RANK=%u, but WORLD_SIZE=%u: ranks count from 0 to WORLD_SIZE-1",
                        out->rank, out->size);
    return br_launcher_read_local(out);
}

const struct br_launcher br_launcher_torchrun = {
    .name = "torchrun", .detect = torchrun_detect, .fill = variables_fill};

const struct br_launcher br_launcher_env = {
    .name = "env", .detect = variables_detect, .fill = variables_fill};
