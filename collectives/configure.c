/* SPDX-License-Identifier: BSD-3-Clause */
/* What the user chose: configuration, over environment, over defaults. */
#include "collectives/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "collectives/local.h"

/* The number in `given` (0: not given) or in the variable, times `unit` ns. */
static int duration(int given_ms, const char *name, int64_t least, int64_t most, int64_t fallback, uint64_t unit, uint64_t *out)
{
    int64_t value;
    int rc;

    if (given_ms < 0)
        return br_error(EINVAL, "braid_config: the field behind %s is %d ms; it must not be negative", name, given_ms);
    if (given_ms > 0) {
        *out = (uint64_t)given_ms * BR_MS;
        return 0;
    }
    rc = br_env_number(name, least, most, fallback, &value);
    if (!rc)
        *out = (uint64_t)value * unit;
    return rc;
}

static int read_times(const struct braid_config *c, struct br_settings *s)
{
    int rc;

    if ((rc = duration(c->timeout_ms, "BRAID_TIMEOUT", 1, 86400, 300, BR_SEC, &s->timeout)) ||
        (rc = duration(c->peer_timeout_ms, "BRAID_PEER_TIMEOUT", 1, 86400, 10, BR_SEC, &s->peer_timeout)) ||
        (rc = duration(c->starvation_ms, "BRAID_STARVATION_MS", 1, 60000, 100, BR_MS, &s->starvation)))
        return rc;
    return 0;
}

/* Spinning is for those who have a core for each rank; the others would only keep each other from working. */
static int read_spin(const struct braid_config *c, struct br_settings *s)
{
    int64_t us;
    int rc;

    /* Of the whole machine: a launcher may have bound each rank to its own share. */
    s->oversubscribed = (long)s->environment.local_size > sysconf(_SC_NPROCESSORS_ONLN);
    rc = br_env_number("BRAID_SPIN_US", 0, 10000000, c->spin_us ? c->spin_us : s->oversubscribed ? 200 : 1000, &us);
    s->spin = (uint64_t)us * BR_US;
    return rc;
}

static int read_sizes(const struct braid_config *c, struct br_settings *s)
{
    int64_t rails, cpu;
    int rc;

    if ((rc = br_env_bytes("BRAID_SLICE_BYTES", 4096, BR_MAX_TRANSFER, c->slice_bytes ? c->slice_bytes : 256u << 10,
                           &s->slice_bytes)) ||
        (rc = br_env_bytes("BRAID_EAGER_BYTES", 64, BR_MAX_EAGER, c->eager_bytes ? c->eager_bytes : 16u << 10,
                           &s->eager_bytes)) ||
        (rc = br_env_bytes("BRAID_CHUNK_BYTES", 4096, BR_MAX_TRANSFER, BR_CHUNK_BYTES, &s->chunk_bytes)) ||
        (rc = br_env_bytes("BRAID_BOARD_BYTES", 0, BR_BOARD_BYTES, BR_LOCAL_BYTES, &s->board_bytes)) ||
        (rc = br_env_number("BRAID_RAILS", 0, BR_MAX_RAILS, c->rails, &rails)) ||
        (rc = br_env_number("BRAID_PIN_CPU", -1, 4095, c->pin_cpu - 1, &cpu)))
        return rc;
    if (s->slice_bytes < 4096 || s->slice_bytes > BR_MAX_TRANSFER || s->eager_bytes < 64 || s->eager_bytes > BR_MAX_EAGER)
        return br_error(EINVAL, "braid_config: slice_bytes must be 4096 to %u, eager_bytes 64 to %u", BR_MAX_TRANSFER,
                        BR_MAX_EAGER);
    if (rails < 0 || rails > (int)BR_MAX_RAILS)
        return br_error(EINVAL, "braid_config: %d rails; 1 to %u are possible, 0 is one a device", (int)rails, BR_MAX_RAILS);
    s->rails = (int)rails;
    s->pin_cpu = (int)cpu;
    return 0;
}

static int read_text(const char *given, const char *name, const char *fallback, char *out, size_t bytes)
{
    const char *text = given ? given : getenv(name);

    if (!text || !*text)
        text = fallback;
    if ((size_t)snprintf(out, bytes, "%s", text) >= bytes)
        return br_error(EINVAL, "%s is longer than %zu characters", name, bytes - 1);
    return 0;
}

int br_settings_read(const struct braid_config *config, struct br_settings *s)
{
    static const struct braid_config none;
    const struct braid_config *c = config ? config : &none;
    int rc;

    memset(s, 0, sizeof *s);
    if ((rc = br_environment_read(c, &s->environment)) ||
        (rc = br_secret_read(&s->environment, c->secret, &s->secret)) ||
        (rc = read_text(c->backend, "BRAID_BACKEND", "auto", s->backend, sizeof s->backend)) ||
        (rc = read_text(c->devices, "BRAID_DEVICES", "", s->devices, sizeof s->devices)) || (rc = read_times(c, s)) ||
        (rc = read_spin(c, s)) || (rc = read_sizes(c, s)))
        return rc;
    if (strcmp(s->backend, "auto") != 0 && strcmp(s->backend, "shm") != 0 && strcmp(s->backend, "uring") != 0)
        return br_error(EINVAL, "BRAID_BACKEND is \"%s\"; it must be auto, uring or shm (`braid info` shows what each can do)",
                        s->backend);
    return 0;
}
