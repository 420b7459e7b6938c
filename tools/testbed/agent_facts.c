/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host says about itself. Interfaces come from getifaddrs() and ethtool's ioctl rather than
 * from /sys/class/net: those see the network namespace of the process, /sys shows the one in which
 * it was mounted.
 */
#include "tools/testbed/agent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/available.h"

/* First line of a file without its end; "" when there is none. */
static const char *agent_facts_line_of(char out[128], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *agent_facts_line_of(char out[128], const char *format, ...)
{
    char path[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(out, 128, file))
        out[0] = 0;
    if (file)
        fclose(file);
    out[strcspn(out, "\n")] = 0;
    return out;
}

static bool agent_facts_wanted(const struct ifaddrs *entry)
{
    if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_PACKET ||
        (entry->ifa_flags & IFF_LOOPBACK))
        return false;
    const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)entry->ifa_addr;
    return ll->sll_hatype == ARPHRD_ETHER && ll->sll_halen == 6 && strlen(entry->ifa_name) < 16;
}

static void nic_of(struct br_agent_nic *nic, const struct ifaddrs *entry)
{
    const struct sockaddr_ll *ll = (const struct sockaddr_ll *)(const void *)entry->ifa_addr;
    *nic = (struct br_agent_nic){
        .index = ll->sll_ifindex,
        .up = entry->ifa_flags & IFF_UP,
        .carrier = (entry->ifa_flags & IFF_UP) && (entry->ifa_flags & IFF_RUNNING),
    };
    snprintf(nic->name, sizeof nic->name, "%s", entry->ifa_name);
    memcpy(nic->mac, ll->sll_addr, 6);
}

int br_agent_nics(struct br_agent_nic *nics, int room)
{
    struct ifaddrs *list;
    int count = 0;
    if (getifaddrs(&list))
        return br_error(errno, "cannot list the interfaces: %s", strerror(errno));
    for (struct ifaddrs *entry = list; entry && count < room; entry = entry->ifa_next)
        if (agent_facts_wanted(entry))
            nic_of(&nics[count++], entry);
    freeifaddrs(list);
    return count;
}

static void add_number_line(cJSON *object, const char *name, const char *line)
{
    if (line[0])
        cJSON_AddNumberToObject(object, name, strtod(line, NULL));
}

static bool agent_facts_ethtool(int fd, const char *nic, void *data)
{
    struct ifreq request = {.ifr_data = data};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", nic);
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

static void add_hardware(cJSON *object, int fd, const char *nic)
{
    char line[128];
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    struct ethtool_cmd settings = {.cmd = ETHTOOL_GSET};
    struct ifreq mtu = {0};
    snprintf(mtu.ifr_name, sizeof mtu.ifr_name, "%s", nic);
    if (!ioctl(fd, SIOCGIFMTU, &mtu))
        cJSON_AddNumberToObject(object, "mtu", mtu.ifr_mtu);
    if (agent_facts_ethtool(fd, nic, &driver)) {
        cJSON_AddStringToObject(object, "driver", driver.driver);
        cJSON_AddStringToObject(object, "driver_version", driver.version);
        cJSON_AddStringToObject(object, "firmware", driver.fw_version);
        cJSON_AddStringToObject(object, "pci", driver.bus_info);
        if (strchr(driver.bus_info, ':'))
            add_number_line(
                object, "numa",
                agent_facts_line_of(line, "/sys/bus/pci/devices/%s/numa_node", driver.bus_info));
    }
    if (agent_facts_ethtool(fd, nic, &settings)) {
        uint32_t speed = ethtool_cmd_speed(&settings);
        if (speed && speed != (uint32_t)SPEED_UNKNOWN)
            cJSON_AddNumberToObject(object, "speed", speed); /* Mb/s */
    }
}

static void add_sysctls(cJSON *object, const char *nic)
{
    static const char *const names[] = {"rp_filter", "arp_ignore", "arp_announce"};
    char line[128];
    /* The kernel takes the larger of "all" and the interface's own. */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        long own = atol(agent_facts_line_of(line, "/proc/sys/net/ipv4/conf/%s/%s", nic, names[i]));
        long all = atol(agent_facts_line_of(line, "/proc/sys/net/ipv4/conf/all/%s", names[i]));
        cJSON_AddNumberToObject(object, names[i], (double)(own > all ? own : all));
    }
}

static void add_counters(cJSON *object, const struct rtnl_link_stats *stats, double rdma_errors)
{
    if (!stats)
        return;
    const struct {
        const char *name;
        uint32_t value;
    } counters[] = {
        {"rx_errors", stats->rx_errors},
        {"tx_errors", stats->tx_errors},
        {"rx_crc_errors", stats->rx_crc_errors},
        {"rx_frame_errors", stats->rx_frame_errors},
        {"rx_fifo_errors", stats->rx_fifo_errors},
        {"rx_missed_errors", stats->rx_missed_errors},
        {"tx_carrier_errors", stats->tx_carrier_errors},
        {"collisions", stats->collisions},
        {"rx_dropped", stats->rx_dropped},
        {"tx_dropped", stats->tx_dropped},
        {"rx_packets", stats->rx_packets},
        {"tx_packets", stats->tx_packets},
    };
    cJSON *list = cJSON_AddObjectToObject(object, "counters");
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        cJSON_AddNumberToObject(list, counters[i].name, counters[i].value);
    cJSON_AddNumberToObject(list, "rdma_errors", rdma_errors);
}

static void add_addresses(cJSON *object, const struct ifaddrs *list, const char *nic)
{
    cJSON *array = cJSON_AddArrayToObject(object, "addresses");
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET ||
            strcmp(entry->ifa_name, nic) != 0)
            continue;
        const struct sockaddr_in *address =
            (const struct sockaddr_in *)(const void *)entry->ifa_addr;
        const struct sockaddr_in *mask =
            (const struct sockaddr_in *)(const void *)entry->ifa_netmask;
        char ip[INET_ADDRSTRLEN], text[32];
        inet_ntop(AF_INET, &address->sin_addr, ip, sizeof ip);
        snprintf(text, sizeof text, "%s/%d", ip,
                 mask ? __builtin_popcount(mask->sin_addr.s_addr) : 32);
        cJSON_AddItemToArray(array, cJSON_CreateString(text));
    }
}

static int agent_facts_add_nics(cJSON *reply)
{
    struct ifaddrs *list;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || getifaddrs(&list)) {
        int rc = br_error(errno, "cannot list the interfaces: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return rc;
    }
    cJSON *array = cJSON_AddArrayToObject(reply, "nics");
    for (struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        if (!agent_facts_wanted(entry))
            continue;
        struct br_agent_nic nic;
        char mac[18];
        cJSON *object = cJSON_CreateObject();
        nic_of(&nic, entry);
        snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", nic.mac[0], nic.mac[1],
                 nic.mac[2], nic.mac[3], nic.mac[4], nic.mac[5]);
        cJSON_AddStringToObject(object, "name", nic.name);
        cJSON_AddStringToObject(object, "mac", mac);
        cJSON_AddBoolToObject(object, "up", nic.up);
        cJSON_AddBoolToObject(object, "carrier", nic.carrier);
        add_hardware(object, fd, nic.name);
        add_sysctls(object, nic.name);
        add_addresses(object, list, nic.name);
        add_counters(object, entry->ifa_data, br_agent_rdma_errors(reply, nic.name));
        cJSON_AddItemToArray(array, object);
    }
    freeifaddrs(list);
    close(fd);
    return 0;
}

static void add_machine(cJSON *reply)
{
    struct utsname name;
    char line[128];
    uint64_t memlock = br_memlock("");

    if (!uname(&name)) {
        cJSON_AddStringToObject(reply, "hostname", name.nodename);
        cJSON_AddStringToObject(reply, "kernel", name.release);
    }
    cJSON_AddNumberToObject(reply, "memlock", memlock == UINT64_MAX ? -1 : (double)memlock);
    cJSON_AddBoolToObject(reply, "root", geteuid() == 0);
    add_number_line(reply, "hugepages", agent_facts_line_of(line, "/proc/sys/vm/nr_hugepages"));
}

int br_agent_facts(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    (void)agent;
    (void)request;
    add_machine(reply);
    br_agent_rdma(reply);
    return agent_facts_add_nics(reply);
}
