/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/slurm.h"

#include "base/digest.h"
#include "base/env.h"
#include "base/error.h"
#include "protocol/bootstrap/environment.h"
#include "protocol/bootstrap/hostlist.h"
#include "protocol/bootstrap/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Below the ports that Linux gives to connections, and above those of services. */
#define PORT_FIRST 15000
#define PORTS      16000
/* Slurm's numbers of what is no step of tasks: a batch script, an interactive shell, ... */
#define STEP_MAX 0xffffffefu

static const char *slurm_detect(void)
{
    const char *step = getenv("SLURM_STEP_ID");

    if (!step || !*step || strtoull(step, NULL, 10) > STEP_MAX)
        return NULL;
    return br_env_is_set("SLURM_PROCID") && br_env_is_set("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_ID"
                                                                                  : NULL;
}

int br_slurm_read_local(struct br_environment *out)
{
    const char *tasks = getenv("SLURM_STEP_TASKS_PER_NODE");
    int64_t rank = 0, node = 0;
    uint32_t size = 0;
    int rc;

    if (!slurm_detect() || !tasks || !br_env_is_set("SLURM_LOCALID") ||
        !br_env_is_set("SLURM_NODEID"))
        return 0;
    rc = br_env_number("SLURM_NODEID", 0, BR_ENVIRONMENT_SIZE_MAX, 0, &node);
    if (rc == 0)
        rc = br_hostlist_count_at(tasks, (uint32_t)node, &size);
    if (rc == 0)
        rc = br_env_number("SLURM_LOCALID", 0, BR_ENVIRONMENT_SIZE_MAX, 0, &rank);
    if (rc < 0)
        return br_error_prefix(rc, "SLURM_STEP_TASKS_PER_NODE: ");
    out->local_known = true;
    out->local_rank = (uint32_t)rank;
    out->local_size = size;
    return 0;
}

/* Where rank 0 is, and a port for its store that another step is unlikely to have. */
static int read_place(struct br_environment *out)
{
    const char *job = getenv("SLURM_JOB_ID"), *cluster = getenv("SLURM_CLUSTER_NAME");
    const char *nodes = getenv("SLURM_STEP_NODELIST"), *order = getenv("SLURM_DISTRIBUTION");
    int rc;

    snprintf(out->run_id, sizeof out->run_id, "%.40s.%.20s %.40s", job ? job : "",
             getenv("SLURM_STEP_ID"), cluster ? cluster : "");
    out->port = (uint16_t)(PORT_FIRST + br_digest_bytes(out->run_id, strlen(out->run_id)) % PORTS);
    if (out->local_known && out->local_size == out->size) {
        snprintf(out->address, sizeof out->address, "127.0.0.1"); /* its name may not resolve */
        return 0;
    }
    /* then the order of the list says nothing; BRAID_MASTER_ADDR has to */
    if (!nodes || (order && !strncmp(order, "arbitrary", 9)))
        return 0;
    rc = br_hostlist_first(nodes, out->address, sizeof out->address);
    return rc < 0 ? br_error_prefix(rc, "SLURM_STEP_NODELIST: ") : 0;
}

static int slurm_fill(struct br_environment *out, uint64_t deadline)
{
    int64_t size = 0, rank = 0;
    int rc;

    (void)deadline; /* nobody is asked */
    if (!slurm_detect())
        return br_error(EINVAL, "BRAID_LAUNCHER=slurm, but SLURM_STEP_ID, SLURM_PROCID and "
                                "SLURM_STEP_NUM_TASKS are not set: start the processes with srun");
    rc = br_env_number("SLURM_STEP_NUM_TASKS", 1, BR_ENVIRONMENT_SIZE_MAX, 0, &size);
    if (rc == 0)
        rc = br_env_number("SLURM_PROCID", 0, size - 1, 0, &rank);
    if (rc < 0)
        return rc;
    out->size = (uint32_t)size;
    out->rank = (uint32_t)rank;
    rc = br_slurm_read_local(out);
    return rc < 0 || size == 1 ? rc : read_place(out);
}

const struct br_launcher br_launcher_slurm = {
    .name = "slurm", .detect = slurm_detect, .fill = slurm_fill};
