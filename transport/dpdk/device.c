/* SPDX-License-Identifier: BSD-3-Clause */
/* The device of the dpdk back end: probe, open, close. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numa.h"
#include "transport/backends.h"
#include "transport/dpdk/dpdk.h"
#include "transport/dpdk/pci.h"

/* Of queueing: packets have no time stamps, so waiting for the receiver's poll is in it. */
#define TARGET      (2 * BR_MS)
#define FLIGHT      (1u << 20) /* bytes of a link under way; a port holds those of several peers */
#define BUFFERS     2560u      /* of one port (module/port.c) */
#define SHORT       3072       /* bytes of one, with what belongs to it */
#define LONG        14336
#define MEMORY      48u /* MiB besides the ports' */
#define MOST_MEMORY 4096

/* ---- start ----------------------------------------------------------------------------------- */

/* DPDK's levels are those of syslog. Whatever it prints as an error also stands in the words of a
 * call that fails. */
static void log_line(int level, const char *line)
{
    br_log(level <= 4 ? BR_LOG_INFO : BR_LOG_DEBUG, "DPDK: %s", line);
}

/* Bytes of huge pages that nobody has taken. */
static uint64_t free_huge(void)
{
    DIR *folder = opendir("/sys/kernel/mm/hugepages");
    struct dirent *entry;
    char path[300];
    uint64_t bytes = 0;

    while (folder && (entry = readdir(folder))) {
        unsigned long kib, pages = 0;
        FILE *file;

        if (sscanf(entry->d_name, "hugepages-%lukB", &kib) != 1)
            continue;
        snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/%s/free_hugepages", entry->d_name);
        file = fopen(path, "re");
        if (file && fscanf(file, "%lu", &pages) != 1)
            pages = 0;
        if (file)
            fclose(file);
        bytes += (uint64_t)pages * kib << 10;
    }
    if (folder)
        closedir(folder);
    return bytes;
}

static int64_t memory_for(const struct br_dpdk_spec *specs, int n)
{
    int64_t bytes = (int64_t)MEMORY << 20;

    for (int i = 0; i < n; i++)
        bytes += (int64_t)BUFFERS * (specs[i].mtu > 1900 ? LONG : SHORT);
    return bytes >> 20;
}

/* EAL, for all ports of the list. */
static int dpdk_device_start(const struct br_dpdk_module *module, const struct br_dpdk_spec *specs,
                             int n)
{
    struct br_dpdk_start how = {.log = log_line};
    char text[BR_DPDK_MESSAGE];
    int64_t megabytes;
    int rc = br_env_number("BRAID_DPDK_MEMORY", 64, MOST_MEMORY, memory_for(specs, n), &megabytes);

    if (rc)
        return rc;
    for (int i = 0; i < n && how.n_pci < BR_DPDK_ALLOWED; i++)
        if (specs[i].pci)
            how.pci[how.n_pci++] = specs[i].name;
    how.megabytes = (uint32_t)megabytes;
    how.huge = free_huge() >= (uint64_t)megabytes << 20;
    rc = module->start(&how, text);
    return rc ? br_error(-rc, "%s", text) : 0;
}

/* ---- probe ----------------------------------------------------------------------------------- */

static void why_not(const struct br_dpdk_spec *spec, char *out, size_t bytes)
{
    const struct br_dpdk_module *module;
    struct br_dpdk_nic nic;
    int rc = br_dpdk_library(&module);

    if (!rc && spec->pci)
        rc = br_dpdk_nic_read("", spec->name, &nic)
                 ? br_dpdk_nic_check(&nic)
                 : br_error(ENODEV, "no PCI device has this address");
    if (!rc && *spec->interface && !br_dpdk_spec_is_tap(spec) && !if_nametoindex(spec->interface))
        rc = br_error(ENODEV, "there is no interface %s", spec->interface);
    if (!rc && !spec->ip)
        rc = br_error(EADDRNOTAVAIL,
                      "it has no address: write address=10.0.0.1/24 behind it in BRAID_DPDK_PORTS");
    if (!rc && !strncmp(spec->name, "net_ring", 8))
        rc = br_error(
            EOPNOTSUPP,
            "a port of net_ring receives what it has sent itself, and reaches nobody else: take "
            "net_memif between the processes of a host");
    if (rc)
        snprintf(out, bytes, "%s", br_error_message());
}

static void dpdk_device_describe(const struct br_dpdk_spec *spec, struct br_device_info *out)
{
    struct in_addr ip = {.s_addr = spec->ip};
    struct br_dpdk_nic nic;
    char text[INET_ADDRSTRLEN] = "no address";

    memset(out, 0, sizeof *out);
    memcpy(out->name, spec->name, sizeof out->name);
    out->numa_node = spec->pci && br_dpdk_nic_read("", spec->name, &nic) ? nic.numa_node
                     : *spec->interface ? br_numa_node_of_interface(spec->interface)
                                        : -1;
    if (spec->ip)
        inet_ntop(AF_INET, &ip, text, sizeof text);
    snprintf(out->detail, sizeof out->detail, "%s, port %u, %s", text, spec->port,
             spec->pci ? "PCI" : "virtual device");
    why_not(spec, out->why_not, sizeof out->why_not);
}

/* NICs that nobody has named. */
static int describe_others(const struct br_dpdk_spec *specs, int n, struct br_device_info *out,
                           int max)
{
    struct br_dpdk_nic nics[32];
    int n_nics = br_dpdk_nics("", nics, 32), count = 0;

    for (int i = 0; i < n_nics && count < max; i++) {
        struct br_device_info *info = &out[count];
        bool named = false;

        for (int k = 0; k < n; k++)
            named |= !strcmp(specs[k].name, nics[i].address);
        if (named)
            continue;
        memset(info, 0, sizeof *info);
        snprintf(info->name, sizeof info->name, "%.15s", nics[i].address);
        snprintf(info->detail, sizeof info->detail, "PCI");
        info->numa_node = nics[i].numa_node;
        if (!br_dpdk_nic_check(&nics[i]))
            snprintf(info->why_not, sizeof info->why_not,
                     "not named: BRAID_DPDK_PORTS=%.15s,address=10.0.0.1/24", nics[i].address);
        else
            snprintf(info->why_not, sizeof info->why_not, "%.400s", br_error_message());
        count++;
    }
    return count;
}

/* One line for what is wrong with all of it. */
static int describe_nothing(const char *why, struct br_device_info *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "dpdk");
    snprintf(out->detail, sizeof out->detail, "packets through poll-mode drivers");
    out->numa_node = -1;
    snprintf(out->why_not, sizeof out->why_not, "%s", why);
    return 1;
}

static int dpdk_device_probe(struct br_device_info *out, int max)
{
    struct br_dpdk_spec *specs = calloc(BR_DPDK_PORTS, sizeof *specs);
    const struct br_dpdk_module *module;
    int n = specs ? br_dpdk_specs_read(specs) : br_error(ENOMEM, "no memory"), count = 0;

    if (max < 1) {
        free(specs);
        return 0;
    }
    if (n < 0 || (!n && br_dpdk_library(&module))) {
        free(specs);
        return describe_nothing(br_error_message(), out);
    }
    for (; count < n && count < max; count++)
        dpdk_device_describe(&specs[count], &out[count]);
    if (!n)
        count = describe_nothing(
            "no port is named: BRAID_DPDK_PORTS=net_af_packet0,iface=eth1,address=10.0.0.1/24 "
            "or a PCI address in front of the comma (doc/dpdk.md)",
            out);
    count += describe_others(specs, n, out + count, max - count);
    free(specs);
    return count;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void dpdk_device_device_close(struct br_device *base)
{
    struct br_dpdk_device *device = (struct br_dpdk_device *)base;
    uint64_t dropped;

    br_dgram_device_close_links(&device->dgram);
    if (device->port) {
        dropped = device->module->dropped(device->port);
        if (dropped)
            br_log_info("device %s: %llu packets found no buffer", device->dgram.base.name,
                        (unsigned long long)dropped);
        device->module->close(device->port);
    }
    br_dgram_device_destroy(&device->dgram);
    free(device);
}

static int dpdk_device_open_port(struct br_dpdk_device *device)
{
    bool all = br_dpdk_mac_is_host(device->spec.mac);
    char text[BR_DPDK_MESSAGE];
    int rc = device->module->open(device->spec.devargs, device->spec.mtu, all, &device->port,
                                  &device->facts, text);

    if (rc)
        return br_error(-rc, "%s", text);
    br_dpdk_spec_mac(&device->spec, device->facts.mac, device->mac);
    if (device->facts.mtu < BR_DGRAM_MIN_PACKET + BR_DPDK_IP)
        return br_error(EMSGSIZE, "an MTU of %u is too small, %u is the least", device->facts.mtu,
                        BR_DGRAM_MIN_PACKET + BR_DPDK_IP);
    device->dgram.max_packet = device->facts.mtu - BR_DPDK_IP;
    device->dgram.header_only = device->facts.memory || device->facts.sums;
    device->dgram.acks_behind = true;
    device->dgram.target = TARGET;
    device->dgram.flight_bytes = FLIGHT;
    device->dgram.address.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                                    .sin_port = htons(device->spec.port),
                                                    .sin_addr.s_addr = device->spec.ip};
    br_log_debug("device %s: driver %s, MTU %u%s%s%s", device->dgram.base.name,
                 device->facts.driver, device->facts.mtu,
                 device->facts.sums ? ", checksums by the port" : "",
                 device->facts.direct ? ", sends without a copy" : "",
                 device->module->is_up(device->port) ? "" : ", no link yet");
    return 0;
}

/* The port that is meant, with everything that can be known before DPDK is asked. */
static int dpdk_device_choose(struct br_dpdk_device *device, const char *name)
{
    struct br_dpdk_spec *specs = calloc(BR_DPDK_PORTS, sizeof *specs);
    char why[400] = "";
    int n = specs ? br_dpdk_specs_read(specs) : br_error(ENOMEM, "no memory"), rc;

    rc = n < 0 ? n : br_dpdk_library(&device->module);
    if (!rc)
        rc = br_dpdk_spec_find(specs, n, name);
    if (rc >= 0) {
        device->spec = specs[rc];
        why_not(&device->spec, why, sizeof why);
        rc = *why ? br_error(ENODEV, "%s", why) : dpdk_device_start(device->module, specs, n);
    }
    free(specs);
    return rc;
}

static int dpdk_device_device_open(const struct br_device_config *config, struct br_device **out)
{
    struct br_dpdk_device *device = calloc(1, sizeof *device);
    int rc;

    if (!device)
        return br_error(ENOMEM, "device %s: no memory", config->name ? config->name : "(any)");
    rc = dpdk_device_choose(device, config->name);
    snprintf(device->dgram.base.name, sizeof device->dgram.base.name, "%s",
             config->name         ? config->name
             : *device->spec.name ? device->spec.name
                                  : "(any)");
    if (!rc)
        rc = br_dgram_device_init(&device->dgram, &br_dpdk_io, config);
    if (!rc)
        rc = dpdk_device_open_port(device);
    if (rc) {
        br_error_prefix(rc, "device %s: ", device->dgram.base.name);
        dpdk_device_device_close(&device->dgram.base);
        return rc;
    }
    br_inet_pack(&device->dgram.address, &device->dgram.base.address);
    *out = &device->dgram.base;
    return 0;
}

const struct br_transport_ops br_dpdk_ops = {
    .name = "dpdk",
    .traits = {.owns_device = true, .packets = true},
    .probe = dpdk_device_probe,
    .device_open = dpdk_device_device_open,
    .device_close = dpdk_device_device_close,
    .link_connect = br_dgram_member_connect,
    .link_close = br_dgram_member_close,
    .post = br_dgram_member_post,
    .poll = br_dpdk_poll,
    .release = br_dgram_member_release,
};
