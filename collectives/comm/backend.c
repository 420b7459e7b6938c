/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/downgrade.h"
#include "base/error.h"
#include "base/log.h"
#include "bcube/wiring.h"
#include "collectives/comm/context.h"
#include "collectives/comm/devices.h"
#include "protocol/bootstrap/store.h"
#include "transport/transport.h"
#include "transport/verbs/capabilities.h"

static void backend_refuse(struct br_verbs_capabilities *out, const char *why)
{
    *out = (struct br_verbs_capabilities){.usable = false};
    snprintf(out->why_not, sizeof out->why_not, "%s", why);
}

static int backend_query_devices(const struct br_settings *s, struct br_verbs_capabilities *out)
{
    struct br_devices devices;
    uint32_t gids[BR_WIRING_NICS] = {0};
    int rc = br_devices_named(s, &devices);

    if (rc)
        return rc;
    for (int i = 0; i < devices.n && s->has_inventory && !s->devices[0]; i++)
        gids[i] = s->gids[i];
    if (!devices.n && br_devices_one_host(&s->environment))
        backend_refuse(out, "the job has one host");
    else
        br_verbs_capabilities((const char(*)[BR_DEVICE_NAME])devices.names, gids, devices.n, out);
    return 0;
}

static void set_network(struct br_settings *s, bool rdma)
{
    snprintf(s->network, sizeof s->network, "%s", br_transport_default(rdma)->name);
}

int br_backend_query(struct br_settings *s, struct br_verbs_capabilities *out)
{
    bool free_choice = !strcmp(s->backend, "auto");
    char why[40];
    int rc = 0;

    if (!free_choice && !br_transport_get(s->backend))
        return br_error(EOPNOTSUPP,
                        "BRAID_BACKEND is %s, which is not in this build; `braid info` says how to "
                        "get it",
                        s->backend);
    snprintf(why, sizeof why, "BRAID_BACKEND is %s", s->backend);
    backend_refuse(out, why);
    if (free_choice)
        rc = backend_query_devices(s, out);
    else if (br_transport_traits(s->backend).rdma) /* it will say itself what is wrong */
        *out = (struct br_verbs_capabilities){.usable = true, .insists = true};
    if (!free_choice && !br_transport_traits(s->backend).within_host)
        memcpy(s->network, s->backend, sizeof s->network);
    else if (!out->usable)
        set_network(s, false);
    return rc;
}

bool br_backend_is_verbs(const struct br_verbs_capabilities *offers, int n, char *why, size_t bytes)
{
    const struct br_verbs_capabilities *first = NULL;
    uint8_t families = UINT8_MAX;
    int first_rank = 0;

    for (int r = 0; r < n; r++) {
        const struct br_verbs_capabilities *offer = &offers[r];

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
            snprintf(why, bytes,
                     "rank %d has no kind of GID, IPv4 or IPv6, that all before it have", r);
            return false;
        }
    }
    return true;
}

/* Every rank finds the same. Returns 0, or -EPROTO with a message. */
static int backend_resolve(struct br_context *context, const struct br_verbs_capabilities *all)
{
    struct br_settings *s = &context->settings;
    bool asked = !s->network[0], some = false;
    char why[sizeof s->no_rdma] = "";
    bool verbs = br_backend_is_verbs(all, context->size, why, sizeof why) &&
                 br_transport_default(true); /* others may say anything */

    for (int r = 0; r < context->size && !verbs; r++) {
        some = some || all[r].usable;
        if (all[r].insists)
            return br_error(EPROTO, "BRAID_BACKEND is verbs on rank %d, but %s", r, why);
    }
    if (asked)
        set_network(s, verbs);
    if (asked && !verbs)
        memcpy(s->no_rdma, why, sizeof why);
    if (some)
        br_downgrade(rdma);
    if (context->rank == 0 && some)
        br_log_warn("RDMA devices stay unused, and TCP takes their place: %s", why);
    else if (context->rank == 0 && asked)
        br_log_info("between hosts the back end is %s", s->network);
    return 0;
}

int br_backend_agree(struct br_context *context, const struct br_verbs_capabilities *mine,
                     uint64_t until)
{
    struct br_verbs_capabilities *all = calloc((size_t)context->size, sizeof *all);
    int rc = all ? br_store_gather(context->store, "back end", mine, sizeof *mine, all, until)
                 : br_error(ENOMEM, "no memory for %d ranks", context->size);

    if (!rc)
        rc = backend_resolve(context, all);
    free(all);
    return rc;
}
