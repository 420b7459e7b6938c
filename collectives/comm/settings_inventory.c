/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's place in a BCube, from the inventory: rank r is host r, with its name and its NICs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bcube/address.h"
#include "collectives/comm/settings.h"
#include "protocol/bootstrap/inventory.h"
#include "protocol/bootstrap/inventory_check.h"
#include "protocol/worker.h"

/* Ranks take hosts in order, so there must be no gap among them. */
static int settings_inventory_check_hosts(const struct br_settings *s,
                                          const struct br_inventory *inventory, const char *file)
{
    uint32_t size = s->environment.size;

    if (size > inventory->n_hosts)
        return br_error(EINVAL,
                        "%s has %u hosts, one a rank, and the job has %u ranks; start %u or fewer",
                        file, inventory->n_hosts, size, inventory->n_hosts);
    for (uint32_t r = 0; r < size; r++)
        if (inventory->hosts[r].missing)
            return br_error(
                EINVAL, "%s: host %u (%s) is missing, so the job can have %u ranks at most, not %u",
                file, r, inventory->hosts[r].name, r, size);
    return 0;
}

static int apply_inventory_host(struct br_settings *s, const struct br_inventory *inventory,
                                const char *file)
{
    const struct br_inventory_host *host = &inventory->hosts[s->environment.rank];
    const struct br_bcube *cube = &inventory->cabling.cube;

    if (s->cube.n && (s->cube.n != cube->n || s->cube.k != cube->k))
        return br_error(
            EINVAL,
            "BRAID_TOPOLOGY=bcube:%u,%u, but %s is of a BCube(%u,%u); leave one of them out",
            s->cube.n, s->cube.k, file, cube->n, cube->k);
    if (cube->k >= BR_MAX_DEVICES)
        return br_error(EINVAL, "%s: BCube(%u,%u) has %u levels; a rank can use %d devices at most",
                        file, cube->n, cube->k, cube->k, BR_MAX_DEVICES - 1);
    s->cube = *cube;
    s->has_inventory = true;
    snprintf(s->host, sizeof s->host, "%s", host->name);
    for (uint32_t level = 0; level < cube->k; level++) {
        snprintf(s->nics[level], sizeof s->nics[level], "%s", host->nics[level].name);
        s->gids[level] = (uint32_t)(host->nics[level].gid_index + 1);
    }
    return 0;
}

int br_settings_read_inventory(struct br_settings *s, const char *file)
{
    struct br_inventory inventory;
    int rc = br_inventory_load(&inventory, file);

    if (rc)
        return br_error_prefix(rc, "BRAID_INVENTORY: ");
    rc = br_inventory_sound(&inventory);
    if (!rc)
        rc = settings_inventory_check_hosts(s, &inventory, file);
    if (!rc)
        rc = apply_inventory_host(s, &inventory, file);
    br_inventory_destroy(&inventory);
    return rc;
}
