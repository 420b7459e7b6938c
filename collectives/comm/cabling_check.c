/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/cabling_check.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "bcube/wiring.h"
#include "collectives/comm/context.h"
#include "collectives/comm/devices.h"
#include "collectives/comm/subnet.h"
#include "protocol/bootstrap/discovery.h"
#include "protocol/bootstrap/secret.h"
#include "protocol/bootstrap/store.h"
#include "protocol/message_discovery.h"

#define ROUNDS 3

/* ---- agreement ------------------------------------------------------------------------------- */

/* What must be the same on all ranks, and what they must know of each other to check the cabling.
 */
struct agreement {
    uint32_t sizes[4];    /* slice, eager, chunk, shared segment */
    uint32_t shm_default; /* BRAID_SHM_COLLECTIVE_BYTES is unset */
    uint32_t n, k;        /* of the BCube; 0: a mesh */
    uint32_t cabling_ms;  /* 0: this rank cannot, or does not want to */
    uint8_t nonce[BR_DISCOVERY_NONCE_BYTES];
    char host[64];
    char backend[16], network[16]; /* as the user says; between hosts, what has come of it */
};

static const char *const size_names[4] = {"BRAID_SLICE_BYTES", "BRAID_EAGER_BYTES",
                                          "BRAID_CHUNK_BYTES", "BRAID_SHM_COLLECTIVE_BYTES"};

static void topology_text(const struct agreement *a, char *out, size_t bytes)
{
    if (a->n)
        snprintf(out, bytes, "bcube:%u,%u", a->n, a->k);
    else
        snprintf(out, bytes, "mesh");
}

/* Every rank compares all with rank 0, so that all find the same message. */
static int cabling_check_compare(const struct agreement *first, const struct agreement *other,
                                 int rank)
{
    char topology[32], first_topology[32];

    for (int i = 0; i < 4; i++)
        if (other->sizes[i] != first->sizes[i])
            return br_error(
                EPROTO, "%s is %u on rank %d and %u on rank 0; it must be the same on all ranks",
                size_names[i], other->sizes[i], rank, first->sizes[i]);
    if (other->shm_default != first->shm_default)
        return br_error(EPROTO,
                        "%s is %s on rank %d and %s on rank 0; it must be the same on all ranks",
                        size_names[3], other->shm_default ? "unset" : "set", rank,
                        first->shm_default ? "unset" : "set");
    if (strncmp(other->network, first->network, sizeof first->network) != 0)
        return br_error(EPROTO,
                        "BRAID_BACKEND is %.15s on rank %d, which is %.15s between hosts, and "
                        "%.15s on rank 0, which is "
                        "%.15s; it must be the same on all ranks",
                        other->backend, rank, other->network, first->backend, first->network);
    if (other->n == first->n && other->k == first->k)
        return 0;
    topology_text(other, topology, sizeof topology);
    topology_text(first, first_topology, sizeof first_topology);
    return br_error(
        EPROTO,
        "BRAID_TOPOLOGY is %s on rank %d and %s on rank 0; it must be the same on all ranks",
        topology, rank, first_topology);
}

static int cabling_check_agree(struct br_context *context, const struct br_devices *devices,
                               struct agreement *all, uint64_t until)
{
    const struct br_settings *s = &context->settings;
    struct agreement mine = {
        .sizes = {(uint32_t)s->slice_bytes, (uint32_t)s->eager_bytes, (uint32_t)s->chunk_bytes,
                  (uint32_t)s->shm_collective_bytes},
        .shm_default = s->shm_collective_default,
        .n = s->cube.n,
        .k = s->cube.k,
        .cabling_ms = s->cube.n && devices->real ? s->cabling_ms : 0,
    };
    int rc;

    randombytes_buf(mine.nonce, sizeof mine.nonce);
    snprintf(mine.host, sizeof mine.host, "%s", s->host);
    snprintf(mine.backend, sizeof mine.backend, "%s", s->backend);
    snprintf(mine.network, sizeof mine.network, "%s", s->network);
    if (!*s->host && gethostname(mine.host, sizeof mine.host - 1))
        mine.host[0] = 0;
    rc = br_store_gather(context->store, "settings", &mine, sizeof mine, all, until);
    for (int r = 1; r < context->size && !rc; r++)
        rc = cabling_check_compare(&all[0], &all[r], r);
    return rc;
}

/* ---- the wires ------------------------------------------------------------------------------- */

/* What one rank reports of its NICs. The neighbours that it has heard follow, max_seen of them. */
struct report {
    uint32_t n_nics;
    struct {
        char name[IF_NAMESIZE];
        int8_t level;
        uint8_t up, blind, reserved;
        struct br_subnet subnet;
    } nics[BR_DISCOVERY_NICS];
    uint32_t n_seen;
    struct br_discovery_neighbour seen[];
};

struct wires {
    struct br_context *context;
    const struct br_devices *devices;
    struct br_discovery *discovery;
    struct br_wiring wiring;
    struct br_subnet *subnets; /* of all NICs of all hosts */
    struct report *mine, *all;
    uint32_t max_seen;
    size_t bytes; /* of a report */
};

static void cabling_close(struct wires *w)
{
    br_discovery_close(w->discovery);
    br_wiring_destroy(&w->wiring);
    free(w->subnets);
    free(w->mine);
    free(w->all);
}

static int cabling_open(struct wires *w, struct br_context *context,
                        const struct br_devices *devices, const struct agreement *first)
{
    const struct br_bcube *cube = &context->settings.cube;
    struct br_discovery_config config = {
        .rank = (uint32_t)context->rank, .size = (uint32_t)context->size, .n_nics = 0};
    /* of all NICs of a host: what the switches can have at most, and some that should not be there
     */
    uint32_t seen = 4 * cube->k * cube->n + 64;
    int rc;

    *w = (struct wires){
        .context = context, .devices = devices, .max_seen = seen < 1024 ? seen : 1024};
    w->bytes = sizeof(struct report) + w->max_seen * sizeof(struct br_discovery_neighbour);
    br_secret_subkey(&context->settings.secret, BR_SECRET_DISCOVERY, config.key);
    memcpy(config.nonce, first->nonce, sizeof config.nonce);
    config.n_nics = devices->n;
    for (int i = 0; i < devices->n; i++)
        memcpy(config.nics[i], devices->nics[i], IF_NAMESIZE);
    config.max_neighbours = w->max_seen / (uint32_t)devices->n;
    w->mine = calloc(1, w->bytes);
    w->all = calloc((size_t)context->size, w->bytes);
    w->subnets = calloc((size_t)context->size * BR_WIRING_NICS, sizeof *w->subnets);
    rc = w->mine && w->all && w->subnets
             ? br_wiring_init(&w->wiring, cube, (uint32_t)context->size)
             : br_error(ENOMEM, "no memory for %d reports", context->size);
    if (!rc)
        rc = br_discovery_open(&config, &w->discovery);
    if (rc)
        cabling_close(w);
    return rc;
}

static void fill_report(struct wires *w)
{
    struct report *r = w->mine;

    r->n_nics = (uint32_t)w->devices->n;
    for (int i = 0; i < w->devices->n; i++) {
        memcpy(r->nics[i].name, w->devices->nics[i], IF_NAMESIZE);
        r->nics[i].level = (int8_t)(w->devices->ordered ? i : -1);
        r->nics[i].up = br_discovery_nic_up(w->discovery, i);
        r->nics[i].subnet = br_subnet_of(w->devices->names[i], w->devices->nics[i]);
        r->nics[i].blind = !w->devices->names[i][0] || br_discovery_nic_deaf(w->discovery, i);
    }
    r->n_seen = br_discovery_neighbours(w->discovery, r->seen, w->max_seen);
}

static const struct report *report_of(const struct wires *w, int rank)
{
    return (const struct report *)((const char *)w->all + (size_t)rank * w->bytes);
}

/* The reports come from ranks that know the secret; they are checked all the same. */
static int take_reports(struct wires *w, const struct agreement *agreements)
{
    bool same_name = true;

    for (int r = 1; r < w->context->size; r++)
        same_name = same_name &&
                    !strncmp(agreements[0].host, agreements[r].host, sizeof agreements[r].host);
    for (int r = 0; r < w->context->size; r++) {
        struct br_wiring_host *host = &w->wiring.hosts[r];
        const struct report *report = report_of(w, r);

        if (report->n_nics > BR_WIRING_NICS || report->n_seen > w->max_seen)
            return br_error(EPROTO, "the report of rank %d on its NICs makes no sense", r);
        snprintf(host->name, sizeof host->name, "%.63s", same_name ? "" : agreements[r].host);
        host->n_nics = report->n_nics;
        for (uint32_t i = 0; i < report->n_nics; i++) {
            if (report->nics[i].level < -1 || report->nics[i].level >= (int)w->wiring.cube.k)
                return br_error(EPROTO, "the report of rank %d on its NICs makes no sense", r);
            host->nics[i] = (struct br_wiring_nic){.level = report->nics[i].level,
                                                   .up = report->nics[i].up,
                                                   .cannot_listen = report->nics[i].blind};
            w->subnets[(size_t)r * BR_WIRING_NICS + i] = report->nics[i].subnet;
            snprintf(host->nics[i].name, sizeof host->nics[i].name, "%.15s", report->nics[i].name);
        }
    }
    for (int r = 0; r < w->context->size; r++)
        for (uint32_t i = 0; i < report_of(w, r)->n_seen; i++) {
            const struct br_discovery_neighbour *s = &report_of(w, r)->seen[i];

            br_wiring_add_neighbour(&w->wiring, (uint32_t)r, s->nic, s->rank, s->other_nic);
        }
    return br_wiring_analyse(&w->wiring);
}

/* As many findings as fit; rank 0 logs all. */
static int cabling_check_refuse(const struct wires *w)
{
    const struct br_bcube *cube = &w->wiring.cube;
    uint32_t kept =
        w->wiring.n_findings < BR_WIRING_FINDINGS ? w->wiring.n_findings : BR_WIRING_FINDINGS;
    char text[BR_ERROR_BYTES - 120] = "";
    uint32_t said = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < kept && w->context->rank == 0 && kept > 1; i++)
        br_log_error("BCube(%u,%u): %s", cube->n, cube->k, w->wiring.findings[i]);
    for (; said < kept && used + strlen(w->wiring.findings[said]) + 3 < sizeof text; said++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", said ? "; " : "",
                                 w->wiring.findings[said]);
    if (said == w->wiring.n_findings)
        return br_error(ENETUNREACH, "this network is no BCube(%u,%u): %s", cube->n, cube->k, text);
    return br_error(
        ENETUNREACH,
        "this network is no BCube(%u,%u): %s; and %u findings more, which rank 0 has logged",
        cube->n, cube->k, text, w->wiring.n_findings - said);
}

/* Levels as they were found; a level without a NIC has no neighbours either. */
static void take_levels(const struct wires *w, struct br_devices *devices)
{
    struct br_devices found = {.n = (int)w->wiring.cube.k, .ordered = true, .real = true};

    for (int level = 0; level < found.n; level++) {
        int nic = br_wiring_nic_on(&w->wiring, (uint32_t)w->context->rank, (uint32_t)level);

        if (nic < 0)
            continue;
        memcpy(found.names[level], devices->names[nic], sizeof found.names[level]);
        memcpy(found.nics[level], devices->nics[nic], sizeof found.nics[level]);
        br_log_info("rank %d: level %d runs over %s", w->context->rank, level, found.names[level]);
    }
    *devices = found;
}

static int cabling_discover(struct wires *w, const struct agreement *agreements, uint64_t until)
{
    const uint64_t span = agreements[0].cabling_ms * BR_MS / ROUNDS;
    int rc = 0;

    for (int round = 0; round < ROUNDS; round++) {
        br_discovery_listen(w->discovery, span);
        fill_report(w);
        rc = br_store_gather(w->context->store, "wires", w->mine, w->bytes, w->all, until);
        if (!rc)
            rc = take_reports(w, agreements);
        if (!rc)
            rc = br_subnet_check(&w->wiring, w->subnets);
        if (rc <= 0)
            return rc;
    }
    return cabling_check_refuse(w);
}

/* Either all ranks check the cabling, or none does. */
static bool all_can_discover(const struct br_context *context, const struct agreement *all)
{
    for (int r = 0; r < context->size; r++)
        if (!all[r].cabling_ms) {
            if (context->rank == 0 && all[0].n)
                br_log_info(
                    "the wires of the BCube are not looked at: rank %d has BRAID_CABLING_MS=0, "
                    "loopback, or one "
                    "NIC for two levels",
                    r);
            return false;
        }
    return true;
}

static void log_undiscovered(const struct wires *w)
{
    for (int i = 0; i < w->devices->n; i++) {
        const char *why = w->devices->names[i][0] ? br_discovery_nic_deaf(w->discovery, i) : NULL;

        if (why)
            br_log_warn(
                "rank %d: nobody knows what %s is plugged into, because it sends no beacons (%s)",
                w->context->rank, w->devices->nics[i], why);
    }
}

static int cabling_run_check(struct br_context *context, struct br_devices *devices,
                             const struct agreement *agreements, uint64_t until)
{
    struct wires w;
    int rc = cabling_open(&w, context, devices, &agreements[0]);

    if (rc)
        return br_error_prefix(rc, "rank %d: ", context->rank);
    rc = cabling_discover(&w, agreements, until);
    log_undiscovered(&w);
    if (!rc)
        take_levels(&w, devices);
    cabling_close(&w);
    return rc;
}

int br_cabling_agree(struct br_context *context, struct br_devices *devices, uint64_t until)
{
    struct agreement *all = calloc((size_t)context->size, sizeof *all);
    int rc = all ? cabling_check_agree(context, devices, all, until)
                 : br_error(ENOMEM, "no memory for %d ranks", context->size);

    if (!rc && all_can_discover(context, all))
        rc = cabling_run_check(context, devices, all, until);
    if (!rc)
        rc = br_devices_check_count(context, devices);
    free(all);
    return rc;
}
