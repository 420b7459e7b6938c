/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/environment.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "protocol/bootstrap/launcher.h"

#include <braid/braid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_DEFAULT 60
#define TIMEOUT_MAX     86400
/* of the whole time at least an eighth, and at most this, is left for what follows the launcher */
#define AFTER_LAUNCHER (2 * BR_SEC)

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

/* MASTER_ADDR and MASTER_PORT are said by torchrun, `braid run` or the user; under other launchers
 * they are PyTorch's. */
static bool takes_master(const struct br_environment *e)
{
    return !e->launcher || e->launcher == &br_launcher_env || e->launcher == &br_launcher_torchrun;
}

static int environment_read_port(const struct braid_config *config, struct br_environment *out)
{
    const char *name = takes_master(out) ? br_env_pick("BRAID_PORT", "MASTER_PORT") : "BRAID_PORT";
    int64_t value = 0;
    int rc;

    if (config->master_port)
        out->port = (uint16_t)config->master_port;
    if (config->master_port || (out->port && !br_env_is_set("BRAID_PORT")))
        return 0;
    if (!br_env_is_set(name))
        return br_error(EINVAL,
                        "%s is not set, but the job has %u processes: set it%s to the same free "
                        "port of the host of rank 0 in each of them",
                        name, out->size, takes_master(out) ? " (or BRAID_PORT)" : "");
    rc = br_env_number(name, 1, 65535, 0, &value);
    if (rc < 0)
        return rc;
    if (out->torchrun && !br_env_is_set("BRAID_PORT") && ++value > 65535)
        return br_error(
            EINVAL,
            "MASTER_PORT=65535 is PyTorch's and leaves no next port for braid: set BRAID_PORT");
    out->port = (uint16_t)value;
    return 0;
}

static int environment_read_address(const struct braid_config *config, struct br_environment *out)
{
    const char *value = config->master_addr;

    if (!value && br_env_is_set("BRAID_MASTER_ADDR"))
        value = getenv("BRAID_MASTER_ADDR");
    if (!value && out->address[0])
        return 0;
    if (!value && !takes_master(out))
        return br_error(EINVAL,
                        "%s (%s) does not say where rank 0 of %u is: set BRAID_MASTER_ADDR to the "
                        "name or address of its host (srun's --mpi=pmix and pmi2 say it, and plain "
                        "srun but for --distribution=arbitrary)",
                        out->launcher->name, out->sign, out->size);
    if (!value)
        value = getenv("MASTER_ADDR");
    if (!value || !*value)
        return br_error(
            EINVAL,
            "MASTER_ADDR is not set, but the job has %u processes: set it to the name or address "
            "of the host of rank 0 (or BRAID_MASTER_ADDR)%s",
            out->size,
            out->launcher ? "" : ", or give braid_config the id that braid_id_create() made there");
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
    uint64_t start = br_clock_now(), after;
    int64_t seconds = 0;
    int rc = 0;

    if (config->init_timeout_ms < 0)
        return br_error(EINVAL, "braid_config: init_timeout_ms=%d is negative",
                        config->init_timeout_ms);
    out->init_timeout = (unsigned)config->init_timeout_ms * BR_MS;
    if (!out->init_timeout) {
        rc = br_env_number("BRAID_INIT_TIMEOUT", 1, TIMEOUT_MAX, TIMEOUT_DEFAULT, &seconds);
        out->init_timeout = (uint64_t)seconds * BR_SEC;
    }
    after = out->init_timeout / 8 < AFTER_LAUNCHER ? out->init_timeout / 8 : AFTER_LAUNCHER;
    out->init_deadline = start + out->init_timeout;
    out->launcher_deadline = out->init_deadline - after;
    return rc;
}

/* An id says all that address, port and secret say, so either the one or the others are given. */
static int read_id(const struct braid_config *config, struct br_environment *out)
{
    int rc;

    if (!config->id)
        return 0;
    if (config->master_addr || config->master_port || config->secret)
        return br_error(EINVAL,
                        "braid_config: id comes with %s; it takes the place of "
                        "master_addr, master_port and secret: leave them out",
                        config->master_addr   ? "master_addr"
                        : config->master_port ? "master_port"
                                              : "secret");
    rc = br_id_read(config->id, &out->id);
    if (rc < 0)
        return br_error_prefix(rc, "braid_config: ");
    out->has_id = true;
    out->port = out->id.port;
    return 0;
}

/* Does the user say where rank 0 is? Not by MASTER_ADDR: that one may be PyTorch's. */
static bool gives_address(const struct braid_config *config)
{
    return config->master_addr || br_env_is_set("BRAID_MASTER_ADDR");
}

/* What the launcher says has to make sense before anything is built on it. */
static int check_launcher(const struct br_environment *e)
{
    const char *name = e->launcher->name;

    if (e->size < 1 || e->size > BR_ENVIRONMENT_SIZE_MAX || e->rank >= e->size)
        return br_error(EINVAL,
                        "%s says that this is rank %u of %u: ranks count from 0 to size-1, and a "
                        "job has 1 to %d",
                        name, e->rank, e->size, BR_ENVIRONMENT_SIZE_MAX);
    if (e->local_known && (e->local_size > e->size || e->local_rank >= e->local_size))
        return br_error(EINVAL,
                        "%s says that this is rank %u of %u of this host, and the job has %u", name,
                        e->local_rank, e->local_size, e->size);
    return 0;
}

static int ask_launcher(struct br_environment *out)
{
    int rc = br_launcher_find(&out->launcher, &out->sign);

    if (rc < 0 || !out->launcher)
        return rc;
    rc = out->launcher->fill(out, out->launcher_deadline);
    return rc < 0 ? rc : check_launcher(out);
}

int br_environment_read(const struct braid_config *config, struct br_environment *out)
{
    static const struct braid_config nothing;
    int rc;

    if (!config)
        config = &nothing;
    *out = (struct br_environment){.size = 1, .local_size = 1, .sign = ""};
    if (config->master_port < 0 || config->master_port > 65535)
        return br_error(EINVAL, "braid_config: master_port=%d, ports are 1 to 65535",
                        config->master_port);
    rc = read_timeout(config, out);
    if (rc < 0)
        return rc;
    rc = read_run_id(out);
    if (rc == 0)
        rc = read_id(config, out);
    if (rc < 0)
        return rc;
    if (config->size) {
        rc = take_rank(config, out);
        if (rc == 0)
            rc = br_launcher_read_local(out);
    } else {
        rc = ask_launcher(out);
    }
    if (rc < 0 || out->size == 1 || out->has_id)
        return rc;
    if (out->launcher && out->launcher->share && !gives_address(config)) {
        out->id_comes = true;
        return config->master_port || br_env_is_set("BRAID_PORT")
                   ? environment_read_port(config, out)
                   : 0;
    }
    rc = environment_read_address(config, out);
    return rc < 0 ? rc : environment_read_port(config, out);
}
