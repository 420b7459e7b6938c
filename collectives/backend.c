/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "collectives/devices.h"
#include "protocol/bootstrap/store.h"

static void refuse(struct br_verbs_offer *out, const char *why)
{
    *out = (struct br_verbs_offer){.usable = false};
    snprintf(out->why_not, sizeof out->why_not, "%s", why);
}

static int offer_devices(const struct br_settings *s, struct br_verbs_offer *out)
{
    struct br_devices devices;
    uint32_t gids[BR_WIRING_NICS] = {0};
    int rc = br_devices_named(s, &devices);

    if (rc)
        return rc;
    for (int i = 0; i < devices.n && s->placed && !s->devices[0]; i++)
        gids[i] = s->gids[i];
    if (!devices.n && br_devices_one_host(&s->environment))
        refuse(out, "the job has one host");
    else
        br_verbs_offer((const char(*)[BR_DEVICE_NAME])devices.names, gids, devices.n, out);
    return 0;
}

int br_backend_offer(struct br_settings *s, struct br_verbs_offer *out)
{
    bool free_choice = !strcmp(s->backend, "auto");
    char why[40];
    int rc = 0;

    snprintf(why, sizeof why, "BRAID_BACKEND is %s", s->backend);
    refuse(out, why);
    if (free_choice)
        rc = offer_devices(s, out);
    else if (!strcmp(s->backend, "verbs")) /* it will say itself what is wrong */
        *out = (struct br_verbs_offer){.usable = true, .insists = true};
    if (!free_choice && strcmp(s->backend, "shm") != 0)
        memcpy(s->network, s->backend, sizeof s->network);
    else if (!out->usable)
        snprintf(s->network, sizeof s->network, "uring");
    return rc;
}

bool br_backend_is_verbs(const struct br_verbs_offer *offers, int n, char *why, size_t bytes)
{
    const struct br_verbs_offer *first = NULL;
    uint8_t families = UINT8_MAX;
    int first_rank = 0;

    for (int r = 0; r < n; r++) {
        const struct br_verbs_offer *offer = &offers[r];

        if (!offer->usable) {
            snprintf(why, bytes, "rank %d: %.*s", r, (int)sizeof offer->why_not, offer->why_not);
            return false;
        }
        if (offer->insists)
            continue;
        if (!first) {
            first = offer;
            first_rank = r;
        }
        families &= offer->families;
        if (first->infiniband != offer->infiniband) {
            snprintf(why, bytes, "rank %d has RDMA over %s, rank %d over %s", first_rank,
                     first->infiniband ? "InfiniBand" : "Ethernet", r,
                     offer->infiniband ? "InfiniBand" : "Ethernet");
            return false;
        }
        if (!offer->infiniband && !families) {
            snprintf(why, bytes, "rank %d has no kind of GID, IPv4 or IPv6, that all before it have", r);
            return false;
        }
    }
    return true;
}

/* Every rank finds the same. 0, or -EPROTO with words. */
static int settle(struct br_family *family, const struct br_verbs_offer *all)
{
    struct br_settings *s = &family->settings;
    bool asked = !s->network[0], some = false;
    char why[sizeof s->no_rdma] = "";
    bool verbs = br_backend_is_verbs(all, family->size, why, sizeof why);

    for (int r = 0; r < family->size && !verbs; r++) {
        some = some || all[r].usable;
        if (all[r].insists)
            return br_error(EPROTO, "BRAID_BACKEND is verbs on rank %d, but %s", r, why);
    }
    if (asked)
        snprintf(s->network, sizeof s->network, "%s", verbs ? "verbs" : "uring");
    if (asked && !verbs)
        memcpy(s->no_rdma, why, sizeof why);
    if (some)
        br_downgrade(rdma);
    if (family->rank == 0 && some)
        br_log_warn("RDMA devices stay unused, and TCP takes their place: %s", why);
    else if (family->rank == 0 && asked)
        br_log_info("between hosts the back end is %s", s->network);
    return 0;
}

int br_backend_agree(struct br_family *family, const struct br_verbs_offer *mine, uint64_t until)
{
    struct br_verbs_offer *all = calloc((size_t)family->size, sizeof *all);
    int rc = all ? br_store_gather(family->store, "back end", mine, sizeof *mine, all, until)
                 : br_error(ENOMEM, "no memory for %d ranks", family->size);

    if (!rc)
        rc = settle(family, all);
    free(all);
    return rc;
}
