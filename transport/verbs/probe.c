/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/error.h"
#include "base/numa.h"
#include "transport/verbs/diagnosis.h"

#define GID_INDEXES 256 /* that a queue pair's address can hold */

/* BRAID_GID_INDEX, else the inventory's (gid: 1 + index). */
static int read_index(uint32_t gid, struct br_gid_wish *wish)
{
    int64_t index;
    int rc = br_env_number("BRAID_GID_INDEX", 0, GID_INDEXES - 1, -1, &index);

    if (rc)
        return rc;
    wish->index_from = index >= 0 ? "BRAID_GID_INDEX" : "gid_index of the inventory";
    wish->index = index >= 0 ? (int)index : (int)gid - 1;
    return 0;
}

static struct br_gid_wish wish_of(const struct br_verbs_port *port, const struct br_gid_wish *base)
{
    struct br_gid_wish wish = *base;

    wish.infiniband = port->infiniband;
    wish.main_netdev = *port->netdev ? port->netdev : NULL;
    return wish;
}

/* Which interface has the address of a GID: only then can this network namespace speak with it. */
static void place_gids(const struct br_verbs_host *host, struct br_verbs_port *port)
{
    for (int i = 0; i < port->n_gids; i++) {
        struct br_gid *gid = &port->gids[i];
        const char *netdev = br_verbs_netdev_of(&host->inventory, gid->raw);

        if (netdev)
            snprintf(gid->netdev, sizeof gid->netdev, "%s", netdev);
        else
            br_verbs_read_line(gid->netdev, sizeof gid->netdev, "",
                               "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d", port->device,
                               port->port, gid->index);
        gid->foreign = !netdev && gid->type != BR_GID_INFINIBAND;
    }
}

static void verbs_probe_complete(struct br_verbs_host *host, struct br_verbs_port *port,
                                 const struct br_gid_wish *base)
{
    int rc;

    port->numa_node = br_verbs_numa_node("", port->device);
    port->software = br_verbs_is_software("", port->device);
    br_verbs_main_netdev("", port->device, port->port ? port->port : 1, port->netdev);
    if (port->port) {
        port->bits_per_second = br_verbs_rate("", port->device, port->port);
        place_gids(host, port);
    }
    if (port->numa_node < 0 && *port->netdev)
        port->numa_node = br_numa_node_of_interface(port->netdev);
    port->wish = wish_of(port, base);
    rc = br_gid_choose(port->gids, port->n_gids, &port->wish, &port->choice);
    br_verbs_port_diagnosis(host, port, &port->diagnosis);
    if (rc == -EINVAL && port->state == BR_VERBS_ACTIVE) {
        snprintf(port->diagnosis.what, sizeof port->diagnosis.what, "%.199s", br_error_message());
        snprintf(port->diagnosis.remedy, sizeof port->diagnosis.remedy,
                 "leave BRAID_GID_INDEX out");
    }
}

/* Devices that the kernel has and libibverbs does not list. */
static int add_unlisted(struct br_verbs_host *host)
{
    for (int i = 0; i < host->inventory.n_devices; i++) {
        struct br_verbs_port *ports;
        bool known = false;

        for (int p = 0; p < host->n_ports; p++)
            known |= !strcmp(host->ports[p].device, host->inventory.devices[i]);
        if (known)
            continue;
        ports = realloc(host->ports, (size_t)(host->n_ports + 1) * sizeof *ports);
        if (!ports)
            return br_error(ENOMEM, "no memory to look at the RDMA devices");
        host->ports = ports;
        ports[host->n_ports] = (struct br_verbs_port){.error = ENODEV};
        snprintf(ports[host->n_ports].name, BR_DEVICE_NAME, "%.47s", host->inventory.devices[i]);
        memcpy(ports[host->n_ports++].device, host->inventory.devices[i], BR_VERBS_NAME);
    }
    return 0;
}

static int verbs_probe_query(struct br_verbs_host *host)
{
#ifdef BRAID_VERBS
    int rc = br_verbs_query(host);

    host->built = true;
    if (rc == -ENOENT || rc == -ENOSYS)
        snprintf(host->library, sizeof host->library, "%.199s", br_error_message());
    else if (rc)
        return rc;
#endif
    return add_unlisted(host);
}

int br_verbs_host_read(struct br_verbs_host *host)
{
    struct br_gid_wish wish = {0};
    int rc;

    memset(host, 0, sizeof *host);
    br_verbs_inventory_read(&host->inventory, "");
    rc = read_index(0, &wish);
    if (!rc)
        rc = verbs_probe_query(host);
    for (int i = 0; i < host->n_ports && !rc; i++)
        verbs_probe_complete(host, &host->ports[i], &wish);
    host->n_diagnoses = br_verbs_host_diagnose(host, host->diagnoses, BR_VERBS_DIAGNOSES);
    return rc;
}

void br_verbs_host_destroy(struct br_verbs_host *host)
{
    for (int i = 0; i < host->n_ports; i++)
        free(host->ports[i].gids);
    free(host->ports);
    memset(host, 0, sizeof *host);
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool verbs_probe_has_address(const struct br_verbs_port *port, const uint8_t *address)
{
    for (int i = 0; i < port->n_gids; i++)
        if (!memcmp(port->gids[i].raw, address, BR_GID_BYTES))
            return true;
    return false;
}

static bool has_interface(const struct br_verbs_port *port, const char *netdev)
{
    for (int i = 0; i < port->n_gids; i++)
        if (!strcmp(port->gids[i].netdev, netdev))
            return true;
    return !strcmp(port->netdev, netdev);
}

/* "mlx5_0:1", also where a device has one port only. */
static bool is_port(const struct br_verbs_port *port, const char *name)
{
    char full[BR_VERBS_NAME + 16];

    snprintf(full, sizeof full, "%s:%u", port->device, (unsigned)port->port);
    return !strcmp(name, full);
}

/* Does `name` mean this port? Sets what it says of the GID. */
static bool is_meant(const struct br_verbs_port *port, const char *name, const uint8_t *address,
                     struct br_gid_wish *wish)
{
    wish->address = NULL;
    wish->netdev = NULL;
    if (!name || !strcmp(name, port->name) || !strcmp(name, port->device) || is_port(port, name))
        return true;
    if (address)
        wish->address = address;
    else
        wish->netdev = name;
    return address ? verbs_probe_has_address(port, address) : has_interface(port, name);
}

static int no_such(const struct br_verbs_host *host, const char *name)
{
    char known[160] = "";

    for (int i = 0; i < host->n_ports; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", host->ports[i].name);
    if (*known)
        return br_error(ENODEV, "no RDMA device %s%s; there are:%s", name ? name : "",
                        name ? "" : "is usable", known);
    if (host->n_diagnoses)
        return br_error(ENODEV, "no RDMA device%s%s: %s; %s", name ? " " : "", name ? name : "",
                        host->diagnoses[0].what, host->diagnoses[0].remedy);
    return br_error(ENODEV, "no RDMA device%s%s", name ? " " : "", name ? name : "");
}

int br_verbs_port_find(const struct br_verbs_host *host, const char *name, uint32_t gid,
                       const struct br_verbs_port **out, struct br_gid_choice *choice)
{
    const struct br_verbs_port *unusable = NULL;
    struct br_gid_wish wish = {0};
    uint8_t raw[BR_GID_BYTES];
    const uint8_t *address = name && br_gid_parse(name, raw) ? raw : NULL;
    int rc = read_index(gid, &wish), failed = 0;

    for (int i = 0; i < host->n_ports && !rc; i++) {
        const struct br_verbs_port *port = &host->ports[i];
        struct br_gid_wish own;

        if (!is_meant(port, name, address, &wish))
            continue;
        if (*port->diagnosis.what) {
            unusable = unusable ? unusable : port;
            continue;
        }
        own = wish_of(port, &wish);
        failed = br_gid_choose(port->gids, port->n_gids, &own, choice);
        *out = port;
        if (!failed)
            return 0;
        br_error_prefix(failed, "%s: ", port->name);
    }
    if (rc || failed)
        return rc ? rc : failed;
    if (unusable)
        return br_error(ENETDOWN, "%s: %s; %s", unusable->name, unusable->diagnosis.what,
                        unusable->diagnosis.remedy);
    return no_such(host, name);
}

int br_verbs_netdev(const char *name, char out[IF_NAMESIZE])
{
    const struct br_verbs_port *port;
    struct br_gid_choice choice;
    struct br_verbs_host host;
    int rc = br_verbs_host_read(&host);

    if (!rc)
        rc = br_verbs_port_find(&host, name, 0, &port, &choice);
    if (!rc)
        snprintf(out, IF_NAMESIZE, "%s", port->netdev);
    br_verbs_host_destroy(&host);
    return rc;
}

/* ---- the operation of the contract ----------------------------------------------------------- */

static const struct br_gid *first_choice(const struct br_verbs_port *port)
{
    for (int f = 0; f < BR_GID_FAMILIES; f++)
        if (port->choice.entry[f] >= 0)
            return &port->gids[port->choice.entry[f]];
    return NULL;
}

static void verbs_probe_describe(const struct br_verbs_port *port, struct br_device_info *out)
{
    const struct br_gid *gid = first_choice(port);
    char text[BR_GID_TEXT];

    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", port->name);
    if (*port->diagnosis.what)
        snprintf(out->why_not, sizeof out->why_not, "%s; %s", port->diagnosis.what,
                 port->diagnosis.remedy);
    out->numa_node = port->numa_node;
    out->software = port->software;
    out->bits_per_second = port->bits_per_second;
    if (gid)
        snprintf(out->detail, sizeof out->detail, "%s, %s (GID %d), MTU %d%s%s",
                 br_gid_text(gid->raw, text), br_gid_type_name(gid->type), gid->index, port->mtu,
                 *port->netdev ? ", on " : "", port->netdev);
    else
        snprintf(out->detail, sizeof out->detail, "%s%s%s",
                 port->port ? br_verbs_state_name(port->state) : "not opened",
                 *port->netdev ? ", on " : "", port->netdev);
}

int br_verbs_probe(struct br_device_info *out, int max)
{
    struct br_verbs_host host;
    int n = br_verbs_host_read(&host);

    if (!n)
        n = host.n_ports < max ? host.n_ports : max;
    for (int i = 0; i < n; i++)
        verbs_probe_describe(&host.ports[i], &out[i]);
    br_verbs_host_destroy(&host);
    return n;
}
