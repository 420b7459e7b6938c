/* SPDX-License-Identifier: BSD-3-Clause */
/* What libibverbs says of all devices, ports and GIDs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "transport/verbs/library.h"
#include "transport/verbs/probe.h"

_Static_assert((int)BR_VERBS_DOWN == IBV_PORT_DOWN && (int)BR_VERBS_ACTIVE == IBV_PORT_ACTIVE &&
                   (int)BR_VERBS_DEFERRED == IBV_PORT_ACTIVE_DEFER,
               "states are those of libibverbs");
_Static_assert((int)BR_GID_INFINIBAND == IBV_GID_TYPE_IB &&
                   (int)BR_GID_ROCE_V1 == IBV_GID_TYPE_ROCE_V1 &&
                   (int)BR_GID_ROCE_V2 == IBV_GID_TYPE_ROCE_V2,
               "GID types are those of libibverbs");

/* The valid entries of all ports of an open device. */
struct table {
    struct ibv_gid_entry *entries;
    ssize_t n;
};

struct query {
    const struct br_verbs_library *library;
    struct br_verbs_host *host;
    struct ibv_device *device;
    struct ibv_context *context;
    struct ibv_device_attr attributes;
    struct table table;
};

static int query_no_memory(void)
{
    return br_error(ENOMEM, "no memory to look at the RDMA devices");
}

/* libibverbs before rdma-core 32 tells the GIDs but not their types: those stand in sysfs, where
 * one word is both InfiniBand's and RoCE v1's (copy_gids tells them apart). */
static void read_one_by_one(struct query *query, int port, int length)
{
    static const union ibv_gid empty;
    char type[16];

    for (int i = 0; i < length; i++) {
        struct ibv_gid_entry *entry = &query->table.entries[query->table.n];
        if (query->library->query_gid(query->context, (uint8_t)port, i, &entry->gid) ||
            !memcmp(&entry->gid, &empty, sizeof empty))
            continue;
        br_verbs_read_line(type, sizeof type, "",
                           "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%d",
                           query->device->name, port, i);
        entry->gid_index = (uint32_t)i;
        entry->port_num = (uint32_t)port;
        entry->gid_type = strcmp(type, "RoCE v2") ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
        query->table.n++;
    }
}

static int read_table(struct query *query)
{
    struct ibv_port_attr port;
    int lengths[UINT8_MAX + 1] = {0};
    size_t room = 1;

    for (int p = 1; p <= query->attributes.phys_port_cnt; p++) {
        if (!br_verbs_query_port(query->library, query->context, (uint8_t)p, &port))
            lengths[p] = port.gid_tbl_len;
        room += (size_t)lengths[p];
    }
    query->table.entries = calloc(room, sizeof *query->table.entries);
    if (!query->table.entries)
        return query_no_memory();
    query->table.n = query->library->query_gid_table
                         ? query->library->query_gid_table(query->context, query->table.entries,
                                                           room, 0, sizeof *query->table.entries)
                         : -EOPNOTSUPP;
    if (query->table.n >= 0)
        return 0;
    query->table.n = 0;
    for (int p = 1; p <= query->attributes.phys_port_cnt; p++)
        read_one_by_one(query, p, lengths[p]);
    return 0;
}

static int copy_gids(const struct table *table, struct br_verbs_port *port)
{
    port->gids = calloc((size_t)table->n + 1, sizeof *port->gids);
    if (!port->gids)
        return query_no_memory();
    for (ssize_t i = 0; i < table->n; i++) {
        const struct ibv_gid_entry *entry = &table->entries[i];
        struct br_gid *gid = &port->gids[port->n_gids];
        if ((int)entry->port_num != port->port)
            continue;
        memcpy(gid->raw, entry->gid.raw, BR_GID_BYTES);
        gid->index = (int)entry->gid_index;
        gid->type = (enum br_gid_type)entry->gid_type;
        if (port->infiniband)
            gid->type = BR_GID_INFINIBAND;
        else if (gid->type == BR_GID_INFINIBAND)
            gid->type = BR_GID_ROCE_V1;
        port->n_gids++;
    }
    return 0;
}

static int mtu_bytes(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128 << mtu : 0;
}

static int fill_port(const struct query *query, struct br_verbs_port *port)
{
    struct ibv_port_attr found;

    snprintf(port->firmware, sizeof port->firmware, "%.63s", query->attributes.fw_ver);
    port->reliable = query->device->transport_type == IBV_TRANSPORT_IB;
    port->error = br_verbs_query_port(query->library, query->context, (uint8_t)port->port, &found);
    if (port->error)
        return 0;
    port->infiniband = found.link_layer == IBV_LINK_LAYER_INFINIBAND;
    port->state = (enum br_verbs_state)found.state;
    port->mtu = mtu_bytes(found.active_mtu);
    port->max_mtu = mtu_bytes(found.max_mtu);
    return copy_gids(&query->table, port);
}

/* Room for one more; its name is set. NULL: no memory. */
static struct br_verbs_port *query_add_port(const struct query *query, int number)
{
    struct br_verbs_host *host = query->host;
    struct br_verbs_port *ports = realloc(host->ports, (size_t)(host->n_ports + 1) * sizeof *ports),
                         *port;
    const char *device = query->library->get_device_name(query->device);

    if (!ports)
        return NULL;
    host->ports = ports;
    port = &ports[host->n_ports++];
    *port = (struct br_verbs_port){.port = number};
    snprintf(port->device, sizeof port->device, "%.63s", device);
    if (query->attributes.phys_port_cnt > 1)
        snprintf(port->name, sizeof port->name, "%.43s:%d", device, number);
    else
        snprintf(port->name, sizeof port->name, "%.47s", device);
    return port;
}

static int query_open(struct query *query)
{
    struct br_verbs_port *port;
    int rc = query->library->query_device(query->context, &query->attributes);

    if (rc) {
        port = query_add_port(query, 0);
        if (port)
            port->error = rc;
        return port ? 0 : query_no_memory();
    }
    rc = read_table(query);
    for (int p = 1; p <= query->attributes.phys_port_cnt && !rc; p++) {
        port = query_add_port(query, p);
        rc = port ? fill_port(query, port) : query_no_memory();
    }
    free(query->table.entries);
    return rc;
}

static int query_device(const struct br_verbs_library *library, struct br_verbs_host *host,
                        struct ibv_device *device)
{
    struct query query = {.library = library, .host = host, .device = device};
    struct br_verbs_port *port;
    char node[64];
    int rc;

    errno = 0;
    query.context = library->open_device(device);
    if (!query.context) {
        rc = errno ? errno : EIO;
        /* What libibverbs tries after a node that it may not open leaves another error behind. */
        snprintf(node, sizeof node, "/dev/infiniband/%.40s", device->dev_name);
        if (access(node, R_OK | W_OK))
            rc = errno;
        port = query_add_port(&query, 0);
        if (port)
            port->error = rc;
        return port ? 0 : query_no_memory();
    }
    rc = query_open(&query);
    /* fails only where objects are still open, and none was made */
    library->close_device(query.context);
    return rc;
}

/* On hosts without RDMA the kernel has none of what it looks for; that is not an error here. */
int br_verbs_query(struct br_verbs_host *host)
{
    const struct br_verbs_library *library;
    struct ibv_device **list;
    int n = 0, rc = br_verbs_library(&library);

    if (rc)
        return rc;
    snprintf(host->cm, sizeof host->cm, "%.199s", library->cm_why_not);
    errno = 0;
    list = library->get_device_list(&n);
    if (!list && (errno == ENOSYS || errno == ENOENT || errno == EPERM))
        return 0;
    if (!list)
        return br_error(br_verbs_errno(), "cannot list the RDMA devices: %s",
                        strerror(br_verbs_errno()));
    for (int i = 0; i < n && !rc; i++)
        rc = query_device(library, host, list[i]);
    library->free_device_list(list);
    return rc;
}
