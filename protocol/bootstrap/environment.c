/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/environment.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"

#include <braid/braid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_DEFAULT 60
#define TIMEOUT_MAX     86400

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* The name that counts: ours where it is set, else torchrun's. */
static const char *environment_pick(const char *own, const char *other)
{
    return is_set(own) ? own : other;
}

/* *out = the number in the variable, -EINVAL with advice when it is missing. */
static int environment_required(const char *own, const char *other, int64_t min, int64_t max,
                                int64_t *out)
{
    const char *name = environment_pick(own, other);

    if (!is_set(name))
        return br_error(EINVAL,
                        "%s is not set, but WORLD_SIZE is: start the processes with `braid run` or "
                        "torchrun, or set "
                        "%s (or %s) in each of them",
                        other, other, own);
    return br_env_number(name, min, max, 0, out);
}

static int take_rank(const struct braid_config *config, struct br_environment *out)
{
    if (config->size < 0 || config->size > BR_ENVIRONMENT_SIZE_MAX)
        return br_error(EINVAL, "braid_config: size=%d, possible are 1 to %d ranks", config->size,
                        BR_ENVIRONMENT_SIZE_MAX);
    if (config->rank < 0 || config->rank >= config->size)
        return br_error(EINVAL, "braid_config: rank=%d, size=%d: ranks count from 0 to size-1",
                        config->rank, config->size);
    out->size = (uint32_t)config->size;
    out->rank = (uint32_t)config->rank;
    return 0;
}

/* braid reads nothing else of these launchers. Without this each process would be a job of one
 * rank: everything would succeed, and nothing would be summed. */
static int refuse_other_launchers(void)
{
    static const struct {
        const char *launcher, *variable, *rank;
        int64_t most; /* a larger value says that there are other processes */
    } signs[] = {
        {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 1},
        {"MVAPICH's launcher", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", 1},
        {"a launcher with PMI", "PMI_SIZE", "PMI_RANK", 1},
        {"MPICH's or Intel MPI's mpirun", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", 1},
        /* of a step: a batch script has none */
        {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 1},
        {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", 1},
        {"a launcher with PMIx", "PMIX_RANK", "PMIX_RANK",
         0}, /* the number of ranks is not in the environment */
    };

    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        const char *value = getenv(signs[i].variable);
        char *end;

        if (!value || !*value || strtoll(value, &end, 10) <= signs[i].most || *end)
            continue;
        return br_error(EINVAL,
                        "%s=%.20s: %s has started several processes, but braid does not take ranks "
                        "from it, and each "
                        "would be a "
                        "job of its own: start them with `braid run` or torchrun, or set in each "
                        "WORLD_SIZE, RANK (as "
                        "%s), "
                        "MASTER_ADDR and MASTER_PORT; WORLD_SIZE=1 and RANK=0 if each shall be a "
                        "job of its own",
                        signs[i].variable, value, signs[i].launcher, signs[i].rank);
    }
    return 0;
}

static int read_rank(struct br_environment *out)
{
    const char *name = environment_pick("BRAID_WORLD_SIZE", "WORLD_SIZE");
    int64_t value;
    int rc = br_env_number(name, 1, BR_ENVIRONMENT_SIZE_MAX, 1, &value);

    if (rc < 0)
        return rc;
    out->size = (uint32_t)value;
    if (!is_set(name)) {
        const char *rank = environment_pick("BRAID_RANK", "RANK");

        if (is_set(rank))
            return br_error(
                EINVAL,
                "%s is set but WORLD_SIZE is not: set WORLD_SIZE to the number of processes", rank);
        out->rank = 0;
        return refuse_other_launchers();
    }
    rc = environment_required("BRAID_RANK", "RANK", 0, BR_ENVIRONMENT_SIZE_MAX - 1, &value);
    if (rc < 0)
        return rc;
    out->rank = (uint32_t)value;
    if (out->rank >= out->size)
        return br_error(EINVAL, "RANK=%u, but WORLD_SIZE=%u: ranks count from 0 to WORLD_SIZE-1",
                        out->rank, out->size);
    return 0;
}

/* given: size and rank are the program's own. What a launcher says of local ranks may then be of
 * another job; it is believed where it fits. */
static int read_local(bool given, struct br_environment *out)
{
    const char *rank = environment_pick("BRAID_LOCAL_RANK", "LOCAL_RANK");
    const char *size = environment_pick("BRAID_LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE");
    uint32_t local_size;
    int64_t value;
    int rc;

    /* LOCAL_RANK alone says nothing about who shares this host, which is what we need to know. */
    out->local_known = is_set(rank) && is_set(size);
    out->local_rank = 0;
    out->local_size = 1;
    if (!out->local_known)
        return 0;
    rc = br_env_number(size, 1, given ? BR_ENVIRONMENT_SIZE_MAX : out->size, 1, &value);
    if (rc < 0)
        return rc;
    local_size = (uint32_t)value;
    rc = br_env_number(rank, 0, value - 1, 0, &value);
    if (rc < 0)
        return rc;
    if (local_size > out->size) {
        out->local_known = false;
        return 0;
    }
    out->local_size = local_size;
    out->local_rank = (uint32_t)value;
    return 0;
}

static int environment_read_port(const struct braid_config *config, struct br_environment *out)
{
    int64_t value = 0;
    int rc;

    if (config->master_port < 0 || config->master_port > 65535)
        return br_error(EINVAL, "braid_config: master_port=%d, ports are 1 to 65535",
                        config->master_port);
    out->port = (uint16_t)config->master_port;
    if (out->port)
        return 0;
    rc = environment_required("BRAID_PORT", "MASTER_PORT", 1, 65535, &value);
    if (rc < 0)
        return rc;
    if (out->torchrun && !is_set("BRAID_PORT") && ++value > 65535)
        return br_error(
            EINVAL,
            "MASTER_PORT=65535 is PyTorch's and leaves no next port for braid: set BRAID_PORT");
    out->port = (uint16_t)value;
    return 0;
}

static int environment_read_address(const struct braid_config *config, struct br_environment *out)
{
    const char *name = environment_pick("BRAID_MASTER_ADDR", "MASTER_ADDR");
    const char *value = config->master_addr ? config->master_addr : getenv(name);

    if (!value || !*value)
        return br_error(
            EINVAL,
            "MASTER_ADDR is not set, but the job has %u processes: set it to the name or address "
            "of the host of rank 0 (or BRAID_MASTER_ADDR)",
            out->size);
    if (strlen(value) >= sizeof out->address)
        return br_error(EINVAL, "MASTER_ADDR has %zu characters, at most %zu are allowed",
                        strlen(value), sizeof out->address - 1);
    snprintf(out->address, sizeof out->address, "%s", value);
    return 0;
}

static int read_run_id(struct br_environment *out)
{
    const char *id = getenv("TORCHELASTIC_RUN_ID");

    out->torchrun = id != NULL;
    if (id && strlen(id) >= sizeof out->run_id)
        return br_error(EINVAL, "TORCHELASTIC_RUN_ID has %zu characters, at most %zu are allowed",
                        strlen(id), sizeof out->run_id - 1);
    snprintf(out->run_id, sizeof out->run_id, "%s", id ? id : "");
    return 0;
}

static int read_timeout(const struct braid_config *config, struct br_environment *out)
{
    int64_t seconds;
    int rc;

    if (config->init_timeout_ms < 0)
        return br_error(EINVAL, "braid_config: init_timeout_ms=%d is negative",
                        config->init_timeout_ms);
    out->init_timeout = (unsigned)config->init_timeout_ms * BR_MS;
    if (out->init_timeout)
        return 0;
    rc = br_env_number("BRAID_INIT_TIMEOUT", 1, TIMEOUT_MAX, TIMEOUT_DEFAULT, &seconds);
    if (rc == 0)
        out->init_timeout = (uint64_t)seconds * BR_SEC;
    return rc;
}

int br_environment_read(const struct braid_config *config, struct br_environment *out)
{
    static const struct braid_config nothing;
    int rc;

    if (!config)
        config = &nothing;
    memset(out, 0, sizeof *out);
    rc = read_timeout(config, out);
    if (rc < 0)
        return rc;
    rc = read_run_id(out);
    if (rc < 0)
        return rc;
    rc = config->size ? take_rank(config, out) : read_rank(out);
    if (rc < 0)
        return rc;
    rc = read_local(config->size > 0, out);
    if (rc < 0 || out->size == 1)
        return rc;
    rc = environment_read_address(config, out);
    if (rc < 0)
        return rc;
    return environment_read_port(config, out);
}
