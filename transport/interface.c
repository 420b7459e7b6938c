/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"

/* A veth's packets end on this host, in another namespace at most. */
static bool is_veth(const char *name)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *)&info};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool veth;

    if (fd < 0)
        return false;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    veth = !ioctl(fd, SIOCETHTOOL, &request) && !strcmp(info.driver, "veth");
    close(fd);
    return veth;
}

static bool take_address(const struct sockaddr *from, union br_inet_address *to)
{
    const struct sockaddr_in6 *v6 = (const void *)from;

    if (!from)
        return false;
    if (from->sa_family == AF_INET) {
        memcpy(&to->v4, from, sizeof to->v4);
        return true;
    }
    if (from->sa_family != AF_INET6 || to->any.sa_family != AF_UNSPEC ||
        IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
        return false;
    memcpy(&to->v6, from, sizeof to->v6);
    return true;
}

static struct br_interface *interface_entry_of(struct br_interface *out, int *n, int max,
                                               const struct ifaddrs *ifa)
{
    struct br_interface *entry;

    for (int i = 0; i < *n; i++)
        if (!strcmp(out[i].name, ifa->ifa_name))
            return &out[i];
    if (*n == max)
        return NULL;
    entry = &out[(*n)++];
    memset(entry, 0, sizeof *entry);
    snprintf(entry->name, sizeof entry->name, "%s", ifa->ifa_name);
    entry->up = (ifa->ifa_flags & IFF_UP) && (ifa->ifa_flags & IFF_RUNNING);
    entry->loopback = ifa->ifa_flags & IFF_LOOPBACK;
    entry->local = entry->loopback || is_veth(entry->name);
    return entry;
}

int br_interface_list(struct br_interface *out, int max)
{
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all))
        return br_error(errno, "cannot list the network interfaces: %s", strerror(errno));
    for (struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
        struct br_interface *entry = interface_entry_of(out, &n, max, ifa);

        if (entry && entry->address.any.sa_family != AF_INET)
            take_address(ifa->ifa_addr, &entry->address);
    }
    freeifaddrs(all);
    return n;
}

void br_interface_why_not(const struct br_interface *interface, char *out, size_t bytes)
{
    const char *name = interface->name;

    *out = '\0';
    if (!interface->up)
        snprintf(out, bytes, "%.15s is down or has no carrier; bring it up: ip link set %.15s up",
                 name, name);
    else if (interface->address.any.sa_family == AF_UNSPEC)
        snprintf(out, bytes,
                 "%.15s has no IPv4 or global IPv6 address; give it one: ip addr add ADDRESS/24 "
                 "dev %.15s",
                 name, name);
}

uint64_t br_interface_speed(const struct br_interface *interface)
{
    char path[64 + IF_NAMESIZE];
    long megabits = 0;
    FILE *file;

    snprintf(path, sizeof path, "/sys/class/net/%s/speed", interface->name);
    file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%ld", &megabits) != 1 || megabits < 0)
        megabits = 0;
    fclose(file);
    return (uint64_t)megabits * 1000000u;
}

static bool interface_same_ip(const struct sockaddr *a, const union br_inet_address *b)
{
    if (a->sa_family != b->any.sa_family)
        return false;
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
               b->v4.sin_addr.s_addr;
    return !memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, &b->v6.sin6_addr,
                   16);
}

/* All of 127/8 is ours although the interface shows only 127.0.0.1. */
static bool is_loopback_ip(const union br_inet_address *address)
{
    return address->any.sa_family == AF_INET && ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

static int find_by_ip(const char *name, const union br_inet_address *ip, struct br_interface *out)
{
    struct ifaddrs *all;
    int n = 0;

    if (getifaddrs(&all))
        return br_error(errno, "cannot list the network interfaces: %s", strerror(errno));
    for (struct ifaddrs *ifa = all; ifa && !n; ifa = ifa->ifa_next)
        if (ifa->ifa_addr && (interface_same_ip(ifa->ifa_addr, ip) ||
                              (is_loopback_ip(ip) && (ifa->ifa_flags & IFF_LOOPBACK))))
            interface_entry_of(out, &n, 1, ifa);
    freeifaddrs(all);
    if (!n)
        return br_error(EADDRNOTAVAIL, "%s is no address of this host; `braid info` lists them",
                        name);
    out->address = *ip;
    return 0;
}

/* Not usable: words. */
static int check_usable(const struct br_interface *interface)
{
    char why[128];

    br_interface_why_not(interface, why, sizeof why);
    return *why ? br_error(ENETDOWN, "%s", why) : 0;
}

static int find_by_name(const char *name, const struct br_interface *all, int n,
                        struct br_interface *out)
{
    char known[128] = "";

    for (int i = 0; i < n; i++) {
        if (!strcmp(all[i].name, name)) {
            *out = all[i];
            return check_usable(out);
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), " %.15s", all[i].name);
    }
    return br_error(ENODEV, "no network interface %s; there are:%s", name, known);
}

static int find_any(const struct br_interface *all, int n, struct br_interface *out)
{
    for (int loopback = 0; loopback <= 1; loopback++)
        for (int i = 0; i < n; i++)
            if (all[i].loopback == loopback && !check_usable(&all[i])) {
                *out = all[i];
                return 0;
            }
    return br_error(ENODEV, "no network interface is up and has an address");
}

int br_interface_find(const char *name, struct br_interface *out)
{
    struct br_interface all[BR_INTERFACES] = {0};
    union br_inet_address ip = {0};
    int n;

    if (name && inet_pton(AF_INET, name, &ip.v4.sin_addr) == 1) {
        ip.any.sa_family = AF_INET;
        return find_by_ip(name, &ip, out);
    }
    if (name && inet_pton(AF_INET6, name, &ip.v6.sin6_addr) == 1) {
        ip.any.sa_family = AF_INET6;
        return find_by_ip(name, &ip, out);
    }
    n = br_interface_list(all, BR_INTERFACES);
    if (n < 0)
        return n;
    return name ? find_by_name(name, all, n, out) : find_any(all, n, out);
}
