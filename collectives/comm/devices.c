/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/devices.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bcube/wiring.h"
#include "collectives/comm/context.h"
#include "protocol/worker.h"
#include "transport/interface.h"
#include "transport/transport.h"
#include "transport/verbs/probe.h"

static int devices_add(struct br_devices *devices, const char *name)
{
    if (devices->n == BR_WIRING_NICS)
        return br_error(E2BIG, "more than %d devices; name the ones to use in BRAID_DEVICES",
                        BR_WIRING_NICS);
    if ((size_t)snprintf(devices->names[devices->n++], BR_DEVICE_NAME, "%.*s", BR_DEVICE_NAME - 1,
                         name) < strlen(name))
        return br_error(EINVAL, "BRAID_DEVICES: %.60s is too long for the name of a device", name);
    return 0;
}

static int devices_add_named(const struct br_settings *s, struct br_devices *devices)
{
    char names[sizeof s->devices], *save = NULL;
    int rc = 0;

    memcpy(names, s->devices, sizeof names);
    for (char *name = strtok_r(names, ", ", &save); name && !rc; name = strtok_r(NULL, ", ", &save))
        rc = devices_add(devices, name);
    devices->ordered = !s->devices_expanded;
    return rc;
}

bool br_devices_one_host(const struct br_environment *env)
{
    return env->local_known && env->local_size == env->size;
}

static int probe_backend(const struct br_settings *s, struct br_device_info *infos, int max)
{
    const struct br_transport_ops *ops = br_transport_get(s->network);

    return ops ? ops->probe(infos, max)
               : br_error(EOPNOTSUPP,
                          "BRAID_BACKEND is %s, which is not in this build; `braid info` says how "
                          "to get it",
                          s->network);
}

/* A port of DPDK belongs to one process: those of a host are divided among its ranks. */
static int add_ports(const struct br_settings *s, int most, struct br_devices *devices)
{
    struct br_device_info infos[32];
    int n = probe_backend(s, infos, 32), usable = 0, each, rc = 0;

    for (int i = 0; i < n; i++)
        if (!infos[i].why_not[0])
            infos[usable++] = infos[i];
    each = usable ? usable / (int)s->environment.local_size : 0;
    for (int i = 0; i < each && !rc && devices->n < most; i++)
        rc = devices_add(devices, infos[(int)s->environment.local_rank * each + i].name);
    if (n < 0 || rc)
        return n < 0 ? n : rc;
    if (!devices->n)
        return br_error(ENODEV,
                        "%d ports of DPDK can be used, and each rank of this host needs one of its "
                        "own: name them "
                        "in BRAID_DPDK_PORTS; `braid info` says why one cannot be used",
                        usable);
    return 0;
}

/* Without BRAID_DEVICES: loopback when the job has one host only (or RDMA devices), else every NIC
 * that is up; at most `most` devices. Soft-RoCE is taken only when the user asks for verbs. */
static int add_default(const struct br_settings *s, int most, struct br_devices *devices)
{
    const struct br_environment *env = &s->environment;
    bool rdma = br_transport_traits(s->network).rdma;
    bool hard = rdma && !br_transport_traits(s->backend).rdma;
    bool one_host = br_devices_one_host(env), down = false;
    struct br_device_info infos[32];
    int n, rc = 0;

    if (br_transport_traits(s->network).owns_device)
        return add_ports(s, most, devices);
    n = probe_backend(s, infos, 32);
    if (n < 0)
        return n;
    for (int i = 0; i < n && !rc && devices->n < most; i++)
        if (infos[i].why_not[0])
            down = down || infos[i].loopback == one_host;
        else if (!(hard && infos[i].software) && (rdma || infos[i].loopback == one_host))
            rc = devices_add(devices, infos[i].name);
    if (!rc && !devices->n && rdma)
        rc =
            br_error(ENODEV, "no RDMA device can be used; `braid info` says why and what mends it");
    if (!rc && !devices->n)
        rc = br_error(down ? ENETDOWN : ENODEV,
                      "no network device is up%s; see `braid info`, or name one in BRAID_DEVICES",
                      one_host ? "" : " besides loopback");
    return rc;
}

/* In a BCube on one host each rank has an address of its own on each level. */
static void add_loopback_cube(const struct br_context *context, struct br_devices *devices)
{
    unsigned rank = (unsigned)context->rank;

    devices->n = (int)context->settings.cube.k;
    devices->ordered = true;
    for (int level = 0; level < devices->n; level++)
        snprintf(devices->names[level], BR_DEVICE_NAME, "127.%d.%u.%u", level + 1, rank / 250,
                 rank % 250 + 1);
}

/* Finds the interface behind each device. */
static int devices_resolve(const struct br_settings *s, struct br_devices *devices)
{
    bool rdma = br_transport_traits(s->network).rdma;
    struct br_interface interface;
    char netdev[IF_NAMESIZE];
    unsigned char ip[16];
    int rc;

    if (br_transport_traits(s->network).owns_device)
        return 0; /* the kernel has no interface for it, so the cabling cannot be checked */
    devices->real = true;
    for (int i = 0; i < devices->n; i++) {
        const char *name = devices->names[i];

        if (!*name)
            continue;
        if (rdma) {
            rc = br_verbs_netdev(name, netdev);
            if (rc)
                return rc;
            name = netdev;
        } else if (inet_pton(AF_INET, name, ip) == 1 || inet_pton(AF_INET6, name, ip) == 1) {
            rc = br_interface_find(name, &interface);
            if (rc)
                return rc;
            name = interface.name;
        }
        snprintf(devices->nics[i], IF_NAMESIZE, "%.15s", name);
        devices->real = devices->real && strcmp(name, "lo") != 0;
        for (int j = 0; j < i; j++)
            devices->real = devices->real && strcmp(devices->nics[j], devices->nics[i]) != 0;
    }
    return 0;
}

int br_devices_named(const struct br_settings *s, struct br_devices *devices)
{
    memset(devices, 0, sizeof *devices);
    if (s->devices[0])
        return devices_add_named(s, devices);
    if (!s->has_inventory)
        return 0;
    devices->n = (int)s->cube.k;
    devices->ordered = true;
    for (int level = 0; level < devices->n; level++)
        memcpy(devices->names[level], s->nics[level], sizeof devices->names[level]);
    return 0;
}

static int devices_list(const struct br_context *context, struct br_devices *devices)
{
    const struct br_settings *s = &context->settings;
    struct br_transport_traits network = br_transport_traits(s->network);
    bool named = s->devices[0] || s->has_inventory;
    int rc = br_devices_named(s, devices);

    if (!named && s->cube.n && br_devices_one_host(&s->environment) && !network.rdma &&
        !network.owns_device)
        add_loopback_cube(context, devices);
    else if (!named)
        rc = add_default(s, s->cube.n ? BR_WIRING_NICS : BR_MAX_DEVICES - 1, devices);
    if (!rc && s->cube.n)
        rc = devices_resolve(s, devices);
    return rc ? br_error_prefix(rc, "rank %d: ", context->rank) : 0;
}

int br_devices_check_count(const struct br_context *context, const struct br_devices *devices)
{
    const struct br_bcube *cube = &context->settings.cube;

    if (!cube->n || devices->n == (int)cube->k)
        return 0;
    return br_error(
        EINVAL,
        "rank %d: BCube(%u,%u) has %u levels and needs a device on each, but %s %d; name them in "
        "BRAID_DEVICES, that of level 0 first",
        context->rank, cube->n, cube->k, cube->k,
        devices->ordered ? "BRAID_DEVICES names" : "those that are up are", devices->n);
}

int br_devices_list(const struct br_context *context, struct br_devices *devices)
{
    int rc;

    memset(devices, 0, sizeof *devices);
    if (br_transport_traits(context->settings.backend).within_host)
        return 0;
    rc = devices_list(context, devices);
    return rc || !devices->ordered ? rc : br_devices_check_count(context, devices);
}

int br_devices_check_up(const struct br_context *context, const struct br_devices *devices)
{
    struct br_transport_traits network = br_transport_traits(context->settings.network);
    struct br_interface interface;
    int rc = 0;

    if (network.rdma || network.owns_device)
        return 0;
    for (int i = 0; i < devices->n && rc != -ENETDOWN; i++)
        rc = devices->names[i][0] ? br_interface_find(devices->names[i], &interface) : 0;
    return rc == -ENETDOWN ? br_error_prefix(rc, "rank %d: ", context->rank) : 0;
}
