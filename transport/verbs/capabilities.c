/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/capabilities.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "transport/verbs/diagnosis.h"

static void capabilities_refuse(struct br_verbs_capabilities *out, const char *why, ...)
    __attribute__((format(printf, 2, 3)));
static void capabilities_refuse(struct br_verbs_capabilities *out, const char *why, ...)
{
    va_list args;

    va_start(args, why);
    vsnprintf(out->why_not, sizeof out->why_not, why, args);
    va_end(args);
    out->usable = false;
}

/* One port more. */
static void capabilities_add(struct br_verbs_capabilities *out, const struct br_verbs_port *port,
                             const struct br_gid_choice *choice)
{
    uint8_t families = 0;

    for (int f = 0; f < BR_GID_FAMILIES; f++)
        families |= (uint8_t)((choice->entry[f] >= 0) << f);
    if (out->usable && port->infiniband != out->infiniband) {
        capabilities_refuse(out, "its RDMA ports are of Ethernet and of InfiniBand");
        return;
    }
    out->families = out->usable ? out->families & families : families;
    out->infiniband = port->infiniband;
    out->usable = true;
    if (!port->infiniband && !out->families)
        capabilities_refuse(out, "its RDMA ports have no kind of address in common, IPv4 or IPv6");
}

static void add_named(const struct br_verbs_host *host, const char *name, uint32_t gid,
                      struct br_verbs_capabilities *out)
{
    const struct br_verbs_port *port;
    struct br_gid_choice choice;

    if (br_verbs_port_find(host, name, gid, &port, &choice))
        capabilities_refuse(out, "%.150s", br_error_message());
    else if (port->software && strcmp(name, port->name) != 0 && strcmp(name, port->device) != 0)
        capabilities_refuse(out, "%.40s is soft-RoCE, which counts only by its own name, %.47s",
                            name, port->name);
    else
        capabilities_add(out, port, &choice);
}

static void add_all(const struct br_verbs_host *host, struct br_verbs_capabilities *out)
{
    const struct br_verbs_port *unusable = NULL;

    for (int i = 0; i < host->n_ports && !*out->why_not; i++) {
        const struct br_verbs_port *port = &host->ports[i];

        if (*port->diagnosis.what)
            unusable = port;
        else if (!port->software)
            capabilities_add(out, port, &port->choice);
    }
    if (out->usable || *out->why_not)
        return;
    if (unusable)
        capabilities_refuse(out, "%.47s: %.100s", unusable->name, unusable->diagnosis.what);
    else
        capabilities_refuse(out, "%s",
                            host->n_ports ? "it has soft-RoCE only, which is to be named"
                                          : "it has no RDMA devices");
}

void br_verbs_capabilities_of(const struct br_verbs_host *host, const char (*names)[BR_DEVICE_NAME],
                              const uint32_t *gids, int n, struct br_verbs_capabilities *out)
{
    memset(out, 0, sizeof *out);
    if (!host->built)
        capabilities_refuse(out, "its build of braid has no verbs");
    else if (*host->library)
        capabilities_refuse(out, "%.150s", host->library);
    else if (br_verbs_memlock_is_low(host))
        capabilities_refuse(out, "it may lock only %llu KiB of memory (ulimit -l)",
                            (unsigned long long)(host->inventory.memlock >> 10));
    else if (!n)
        add_all(host, out);
    for (int i = 0; i < n && !*out->why_not; i++)
        if (names[i][0])
            add_named(host, names[i], gids[i], out);
}

/* Most hosts have none: then libibverbs need not be loaded. */
static bool kernel_has_devices(void)
{
    DIR *folder = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool found = false;

    while (folder && !found && (entry = readdir(folder)))
        found = entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return found;
}

void br_verbs_capabilities(const char (*names)[BR_DEVICE_NAME], const uint32_t *gids, int n,
                           struct br_verbs_capabilities *out)
{
    struct br_verbs_host host;

    memset(out, 0, sizeof *out);
    if (!kernel_has_devices()) {
        capabilities_refuse(out, "it has no RDMA devices");
        return;
    }
    if (br_verbs_host_read(&host))
        capabilities_refuse(out, "%.150s", br_error_message());
    else
        br_verbs_capabilities_of(&host, names, gids, n, out);
    br_verbs_host_destroy(&host);
}
