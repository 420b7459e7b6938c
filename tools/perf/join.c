/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/comm/comm.h"

#define POLL_US 10000000 /* who waits spins, as in perftest; -e sleeps */

/* NULL: the environment's, or the library's choice. */
static const char *join_devices(const struct br_perf_settings *s, const struct br_exchange *where)
{
    const char *chosen = s->backend ? s->backend : getenv("BRAID_BACKEND"),
               *named = getenv("BRAID_DEVICES");

    if (s->devices || !where->loopback || (named && *named) || (chosen && !strcmp(chosen, "verbs")))
        return s->devices;
    return "lo";
}

/* Who names a device wants to measure it, not the memory that `auto` takes within a host. */
static const char *join_backend(const struct br_perf_settings *s, const struct br_exchange *where)
{
    const char *chosen = getenv("BRAID_BACKEND");

    return s->backend || !s->devices || !where->loopback || (chosen && *chosen) ? s->backend
                                                                                : "tcp";
}

struct braid_config br_join_config(const struct br_perf_settings *s,
                                   const struct br_exchange *where)
{
    const char *spin = getenv("BRAID_SPIN_US");

    return (struct braid_config){.size = 2,
                                 .rank = s->server ? 1 : 0,
                                 .master_addr = where->address,
                                 .master_port = where->port,
                                 .secret = *where->secret ? where->secret : NULL,
                                 .backend = join_backend(s, where),
                                 .devices = join_devices(s, where),
                                 .topology = "mesh",
                                 .rails = (int)s->rails,
                                 .init_timeout_ms = 15000,
                                 .spin_us = s->events       ? 1
                                            : spin && *spin ? 0
                                                            : POLL_US};
}

int br_join_check(const struct br_perf_settings *s)
{
    struct br_exchange anywhere = {.port = 1};
    struct br_settings found;
    struct braid_config config;
    int rc;

    snprintf(anywhere.address, sizeof anywhere.address, "127.0.0.1");
    if (!getenv("BRAID_SECRET"))
        snprintf(anywhere.secret, sizeof anywhere.secret, "of this check alone");
    config = br_join_config(s, &anywhere);
    rc = br_settings_read(&config, &found);
    br_secret_wipe(&found.secret);
    return rc;
}
