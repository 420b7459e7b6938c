/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/inventory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static void bootstrap_inventory_fill_host(struct br_inventory *inventory, uint32_t number)
{
    const struct br_cabling *cabling = &inventory->cabling;
    struct br_inventory_host *host = &inventory->hosts[number];
    host->nics = inventory->all_nics + (size_t)number * cabling->cube.k;
    host->management = br_cabling_management(cabling, number);
    br_cabling_host_name(&cabling->cube, number, host->name);
    memcpy(host->access, host->name, sizeof host->name);
    for (uint32_t level = 0; level < cabling->cube.k; level++) {
        struct br_cable cable;
        br_cabling_cable(cabling, number, level, &cable);
        host->nics[level] = (struct br_inventory_nic){
            .address = cable.address,
            .bits = cable.bits,
            .numa = -1,
            .gid_index = -1,
            .rate = inventory->rate,
        };
        memcpy(host->nics[level].name, cable.nic, sizeof cable.nic);
    }
}

int br_inventory_fill(struct br_inventory *inventory, uint32_t n_hosts)
{
    size_t nics = (size_t)n_hosts * inventory->cabling.cube.k;
    inventory->hosts = calloc(n_hosts, sizeof *inventory->hosts);
    inventory->all_nics = calloc(nics, sizeof *inventory->all_nics);
    if (!inventory->hosts || !inventory->all_nics)
        return br_error(ENOMEM, "no memory for an inventory of %u hosts", n_hosts);
    inventory->n_hosts = n_hosts;
    for (uint32_t i = 0; i < n_hosts; i++)
        bootstrap_inventory_fill_host(inventory, i);
    return 0;
}

int br_inventory_default(struct br_inventory *inventory, const struct br_cabling *cabling)
{
    *inventory = (struct br_inventory){
        .cabling = *cabling, .mtu = BR_INVENTORY_MTU, .file = strdup("inventory")};
    int rc = inventory->file ? br_inventory_fill(inventory, cabling->hosts)
                             : br_error(ENOMEM, "no memory for an inventory");
    if (rc)
        br_inventory_destroy(inventory);
    return rc;
}

void br_inventory_destroy(struct br_inventory *inventory)
{
    for (uint32_t i = 0; i < inventory->n_switches; i++)
        free(inventory->switches[i].ports);
    free(inventory->switches);
    free(inventory->all_nics);
    free(inventory->hosts);
    free(inventory->file);
    *inventory = (struct br_inventory){0};
}

static int bootstrap_inventory_read_file(FILE *in, const char *file, char **text, size_t *bytes)
{
    size_t room = 0, used = 0;
    char *buffer = NULL;
    do {
        room = room ? room * 2 : 65536;
        char *larger = room <= (size_t)BR_INVENTORY_BYTES * 2 ? realloc(buffer, room) : NULL;
        if (!larger) {
            free(buffer);
            return room > BR_INVENTORY_BYTES
                       ? br_error(E2BIG, "%s has more than the %u bytes that an inventory may have",
                                  file, BR_INVENTORY_BYTES)
                       : br_error(ENOMEM, "no memory to read %s", file);
        }
        buffer = larger;
        used += fread(buffer + used, 1, room - used, in);
    } while (used == room);
    if (ferror(in)) {
        int err = errno;
        free(buffer);
        return br_error(err, "cannot read the inventory %s: %s", file, strerror(err));
    }
    *text = buffer;
    *bytes = used;
    return 0;
}

int br_inventory_load(struct br_inventory *inventory, const char *file)
{
    char *text = NULL;
    size_t bytes = 0;
    *inventory = (struct br_inventory){0};
    FILE *in = fopen(file, "re");
    if (!in) {
        int err = errno;
        return br_error(err, "cannot open the inventory %s: %s%s", file, strerror(err),
                        err == ENOENT ? "; `braid bcube plan N K --inventory-out FILE` writes one"
                                      : "");
    }
    int rc = bootstrap_inventory_read_file(in, file, &text, &bytes);
    fclose(in);
    if (!rc)
        rc = br_inventory_parse(inventory, text, bytes, file);
    free(text);
    return rc;
}

int br_inventory_host(const struct br_inventory *inventory, const char *text, uint32_t *host)
{
    for (uint32_t i = 0; i < inventory->n_hosts; i++) {
        if (!strcmp(inventory->hosts[i].name, text)) {
            *host = i;
            return 0;
        }
    }
    if (!br_bcube_parse_host(&inventory->cabling.cube, text, host) && *host < inventory->n_hosts)
        return 0;
    return br_error(
        ENOENT,
        "there is no host '%.64s' in %s: give a name such as %s, a number from 0 to %u, or digits",
        text, inventory->file, inventory->hosts[0].name, inventory->n_hosts - 1);
}

const struct br_inventory_switch *br_inventory_switch(const struct br_inventory *inventory,
                                                      uint32_t level, uint32_t index)
{
    uint32_t low = 0, high = inventory->n_switches;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        const struct br_inventory_switch *at = &inventory->switches[middle];
        if (at->level == level && at->index == index)
            return at;
        if (at->level < level || (at->level == level && at->index < index))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

char *br_inventory_switch_name(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                               char *out)
{
    const struct br_inventory_switch *found = br_inventory_switch(inventory, level, index);
    if (!found || !found->name[0])
        return br_cabling_switch_name(level, index, out);
    memcpy(out, found->name, sizeof found->name);
    return out;
}

char *br_inventory_port_name(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                             uint32_t port, char *out)
{
    const struct br_inventory_switch *found = br_inventory_switch(inventory, level, index);
    if (found && port < found->n_ports)
        snprintf(out, BR_HOST_NAME, "%s", found->ports[port]);
    else
        snprintf(out, BR_HOST_NAME, "%u", port);
    return out;
}
