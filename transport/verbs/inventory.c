/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/verbs/inventory.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/available.h"

#define PATH_BYTES 512

static void verbs_inventory_path_of(char out[PATH_BYTES], const char *root, const char *format,
                                    va_list args) __attribute__((format(printf, 3, 0)));
static void verbs_inventory_path_of(char out[PATH_BYTES], const char *root, const char *format,
                                    va_list args)
{
    size_t used = (size_t)snprintf(out, PATH_BYTES, "%.255s", root);

    vsnprintf(out + used, PATH_BYTES - used, format, args);
}

const char *br_verbs_read_line(char *out, size_t bytes, const char *root, const char *format, ...)
{
    char path[PATH_BYTES];
    va_list args;
    FILE *file;

    va_start(args, format);
    verbs_inventory_path_of(path, root, format, args);
    va_end(args);
    file = fopen(path, "re");
    if (!file || !fgets(out, (int)bytes, file))
        *out = '\0';
    if (file)
        fclose(file);
    out[strcspn(out, "\n")] = '\0';
    return out;
}

static bool verbs_inventory_exists(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool verbs_inventory_exists(const char *root, const char *format, ...)
{
    char path[PATH_BYTES];
    va_list args;

    va_start(args, format);
    verbs_inventory_path_of(path, root, format, args);
    va_end(args);
    return !access(path, F_OK);
}

static DIR *open_folder(const char *root, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static DIR *open_folder(const char *root, const char *format, ...)
{
    char path[PATH_BYTES];
    va_list args;

    va_start(args, format);
    verbs_inventory_path_of(path, root, format, args);
    va_end(args);
    return opendir(path);
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(a, b);
}

static void read_devices(struct br_verbs_inventory *out, const char *root)
{
    DIR *folder = open_folder(root, "/sys/class/infiniband");
    struct dirent *entry;

    out->core = folder != NULL;
    while (folder && out->n_devices < BR_VERBS_DEVICES && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < BR_VERBS_NAME)
            memcpy(out->devices[out->n_devices++], entry->d_name, strlen(entry->d_name) + 1);
    if (folder)
        closedir(folder);
    qsort(out->devices, (size_t)out->n_devices, sizeof out->devices[0], by_name);
}

static bool have_nodes(const char *root)
{
    DIR *folder = open_folder(root, "/dev/infiniband");
    struct dirent *entry;
    bool found = false;

    while (folder && !found && (entry = readdir(folder)))
        found = !strncmp(entry->d_name, "uverbs", 6);
    if (folder)
        closedir(folder);
    return found;
}

static bool have_soft_roce(const char *root, const char *kernel)
{
    static const char module[] = "/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko";
    static const char *const packed[] = {"", ".xz", ".zst", ".gz"};

    if (verbs_inventory_exists(root, "/sys/module/rdma_rxe"))
        return true;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (verbs_inventory_exists(root, "/lib/modules/%s%s%s", kernel, module, packed[i]))
            return true;
    return false;
}

static void driver_of(const char *root, struct br_verbs_interface *interface)
{
    char path[PATH_BYTES], target[256];
    ssize_t n;
    const char *name;

    snprintf(path, sizeof path, "%.255s/sys/class/net/%s/device/driver", root, interface->name);
    n = readlink(path, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    name = strrchr(target, '/');
    snprintf(interface->driver, sizeof interface->driver, "%.31s", name ? name + 1 : target);
}

static void add_interface(struct br_verbs_inventory *out, const char *root,
                          const struct ifaddrs *ifa)
{
    struct br_verbs_interface *interface;

    if (br_verbs_interface(out, ifa->ifa_name) || out->n_interfaces == BR_VERBS_INTERFACES)
        return;
    interface = &out->interfaces[out->n_interfaces++];
    snprintf(interface->name, sizeof interface->name, "%s", ifa->ifa_name);
    interface->up = ifa->ifa_flags & IFF_UP;
    interface->carrier = ifa->ifa_flags & IFF_RUNNING;
    interface->loopback = ifa->ifa_flags & IFF_LOOPBACK;
    driver_of(root, interface);
}

static void verbs_inventory_add_address(struct br_verbs_inventory *out, const struct ifaddrs *ifa)
{
    struct br_verbs_address *address = &out->addresses[out->n_addresses];
    int family = ifa->ifa_addr ? ifa->ifa_addr->sa_family : AF_UNSPEC;

    if (out->n_addresses == BR_VERBS_ADDRESSES || (family != AF_INET && family != AF_INET6))
        return;
    if (family == AF_INET6) {
        memcpy(address->raw, &((const struct sockaddr_in6 *)(const void *)ifa->ifa_addr)->sin6_addr,
               16);
    } else {
        address->raw[10] = address->raw[11] = 0xff;
        memcpy(address->raw + 12,
               &((const struct sockaddr_in *)(const void *)ifa->ifa_addr)->sin_addr, 4);
    }
    snprintf(address->netdev, sizeof address->netdev, "%s", ifa->ifa_name);
    out->n_addresses++;
}

void br_verbs_inventory_read(struct br_verbs_inventory *out, const char *root)
{
    struct ifaddrs *list = NULL;
    struct utsname name;

    memset(out, 0, sizeof *out);
    if (!uname(&name))
        snprintf(out->kernel, sizeof out->kernel, "%.65s", name.release);
    read_devices(out, root);
    out->soft_roce = have_soft_roce(root, out->kernel);
    out->nodes = have_nodes(root);
    out->memlock = br_memlock(root);
    if (getifaddrs(&list))
        return;
    for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
        add_interface(out, root, ifa);
        verbs_inventory_add_address(out, ifa);
    }
    freeifaddrs(list);
}

const struct br_verbs_interface *br_verbs_interface(const struct br_verbs_inventory *s,
                                                    const char *name)
{
    for (int i = 0; i < s->n_interfaces; i++)
        if (!strcmp(s->interfaces[i].name, name))
            return &s->interfaces[i];
    return NULL;
}

const char *br_verbs_netdev_of(const struct br_verbs_inventory *s, const uint8_t raw[BR_GID_BYTES])
{
    for (int i = 0; i < s->n_addresses; i++)
        if (!memcmp(s->addresses[i].raw, raw, BR_GID_BYTES))
            return s->addresses[i].netdev;
    return NULL;
}

/* "100 Gb/sec (4X EDR)" */
uint64_t br_verbs_rate(const char *root, const char *device, int port)
{
    char line[64];
    double gigabits =
        strtod(br_verbs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/ports/%d/rate",
                                  device, port),
               NULL);

    return gigabits > 0 && gigabits < 1e6 ? (uint64_t)(gigabits * 1e9) : 0;
}

int br_verbs_numa_node(const char *root, const char *device)
{
    char line[32], *end;
    long node;

    br_verbs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/device/numa_node",
                       device);
    node = strtol(line, &end, 10);
    return end == line || node < 0 || node > 1023 ? -1 : (int)node;
}

/* The only interface of the PCI function below the device. */
static void netdev_below(const char *root, const char *device, char out[IF_NAMESIZE])
{
    DIR *folder = open_folder(root, "/sys/class/infiniband/%s/device/net", device);
    struct dirent *entry;
    int found = 0;

    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && strlen(entry->d_name) < IF_NAMESIZE && !found++)
            memcpy(out, entry->d_name, strlen(entry->d_name) + 1);
    if (folder)
        closedir(folder);
    if (found != 1)
        *out = '\0';
}

bool br_verbs_is_software(const char *root, const char *device)
{
    char line[IF_NAMESIZE + 1];

    return *br_verbs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/parent", device);
}

void br_verbs_main_netdev(const char *root, const char *device, int port, char out[IF_NAMESIZE])
{
    char line[IF_NAMESIZE + 1];

    /* Entry 0 is the default GID of the port's own interface; a device whose port is down has
     * none. */
    *out = '\0';
    if (!*br_verbs_read_line(line, sizeof line, root,
                             "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/0", device, port))
        /* soft-RoCE */
        br_verbs_read_line(line, sizeof line, root, "/sys/class/infiniband/%s/parent", device);
    if (*line)
        snprintf(out, IF_NAMESIZE, "%.15s", line);
    else
        netdev_below(root, device, out);
}
