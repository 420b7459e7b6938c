/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/dpdk/pci.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

#define NIC_CLASS 0x02u /* network controller: the first byte of a PCI class */

/* A file of the device as a number of base 0; fallback: there is none. */
static long number_of(const char *root, const char *address, const char *file, long fallback)
{
    char path[PATH_MAX];
    long number = fallback;
    FILE *stream;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", root, address, file);
    stream = fopen(path, "re");
    if (stream && fscanf(stream, "%li", &number) != 1)
        number = fallback;
    if (stream)
        fclose(stream);
    return number;
}

static void read_driver(const char *root, struct br_dpdk_nic *nic)
{
    char path[PATH_MAX], link[PATH_MAX];
    const char *slash;
    ssize_t n;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/driver", root, nic->address);
    n = readlink(path, link, sizeof link - 1);
    if (n <= 0)
        return;
    link[n] = 0;
    slash = strrchr(link, '/');
    snprintf(nic->driver, sizeof nic->driver, "%.31s", slash ? slash + 1 : link);
}

/* net/NAME, or virtioN/net/NAME. */
static void read_interface(const char *root, const char *below, struct br_dpdk_nic *nic)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *folder;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s%s", root, nic->address, below);
    folder = opendir(path);
    while (folder && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        if (strstr(below, "/net")) {
            snprintf(nic->interface, sizeof nic->interface, "%.15s", entry->d_name);
        } else if (!strncmp(entry->d_name, "virtio", 6) && strlen(entry->d_name) < 16) {
            snprintf(path, sizeof path, "/%.15s/net", entry->d_name);
            read_interface(root, path, nic);
        }
    }
    if (folder)
        closedir(folder);
}

bool br_dpdk_nic_read(const char *root, const char *address, struct br_dpdk_nic *out)
{
    long class = number_of(root, address, "class", -1);

    memset(out, 0, sizeof *out);
    if (class < 0)
        return false;
    snprintf(out->address, sizeof out->address, "%.15s", address);
    out->numa_node = (int)number_of(root, address, "numa_node", -1);
    read_driver(root, out);
    read_interface(root, "/net", out);
    if (!*out->interface)
        read_interface(root, "", out);
    return true;
}

int br_dpdk_nics(const char *root, struct br_dpdk_nic *out, int max)
{
    struct dirent **entries = NULL;
    char path[PATH_MAX];
    int n = 0, found;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", root);
    found = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;

        if (*name != '.' && n < max && number_of(root, name, "class", 0) >> 16 == NIC_CLASS &&
            br_dpdk_nic_read(root, name, &out[n]))
            n++;
        free(entries[i]);
    }
    free(entries);
    return n;
}

int br_dpdk_nic_check(const struct br_dpdk_nic *nic)
{
    /* The last ones share the NIC with the kernel's driver. */
    static const char *const good[] = {"vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core",
                                       "mlx4_core"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!strcmp(nic->driver, good[i]))
            return 0;
    if (!*nic->driver)
        return br_error(ENODEV,
                        "no driver has it: modprobe vfio-pci; dpdk-devbind.py -b vfio-pci %s",
                        nic->address);
    return br_error(
        EBUSY,
        "the kernel has it%s%s (driver %s): `dpdk-devbind.py -b vfio-pci %s` takes it from the "
        "kernel, and with it every connection over it",
        *nic->interface ? " as " : "", nic->interface, nic->driver, nic->address);
}
