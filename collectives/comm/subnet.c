/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/comm/subnet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static uint32_t subnet_number(const struct sockaddr *from)
{
    struct sockaddr_in v4;

    memcpy(&v4, from, sizeof v4);
    return ntohl(v4.sin_addr.s_addr);
}

struct br_subnet br_subnet_of(const char *device, const char *nic)
{
    struct br_subnet found = {0};
    struct ifaddrs *all;
    struct in_addr ip;
    bool by_address = inet_pton(AF_INET, device, &ip) == 1;

    if (getifaddrs(&all))
        return found;
    for (const struct ifaddrs *ifa = all; ifa && !found.address; ifa = ifa->ifa_next)
        if (ifa->ifa_addr && ifa->ifa_netmask && ifa->ifa_addr->sa_family == AF_INET &&
            !strcmp(ifa->ifa_name, nic) &&
            (!by_address || subnet_number(ifa->ifa_addr) == ntohl(ip.s_addr)))
            found =
                (struct br_subnet){subnet_number(ifa->ifa_addr), subnet_number(ifa->ifa_netmask)};
    freeifaddrs(all);
    return found;
}

/* "rank 4: eth0 has 10.0.1.2/24" */
static void subnet_describe(const struct br_wiring *w, uint32_t host, int nic,
                            struct br_subnet subnet, char out[128])
{
    struct in_addr ip = {htonl(subnet.address)};
    char text[INET_ADDRSTRLEN] = "";

    inet_ntop(AF_INET, &ip, text, sizeof text);
    snprintf(out, 128, "rank %u: %s has %s/%d", host, w->hosts[host].nics[nic].name, text,
             __builtin_popcount(subnet.mask));
}

/* Two hosts of a switch. */
static int subnet_compare(const struct br_wiring *w, const struct br_subnet *of, uint32_t level,
                          uint32_t a, uint32_t b)
{
    int nic_a = br_wiring_nic_on(w, a, level), nic_b = br_wiring_nic_on(w, b, level);
    char words_a[128], words_b[128];
    struct br_subnet x, y;

    if (nic_a < 0 || nic_b < 0)
        return 0;
    x = of[a * BR_WIRING_NICS + (uint32_t)nic_a];
    y = of[b * BR_WIRING_NICS + (uint32_t)nic_b];
    if (!x.address || !y.address ||
        (x.address != y.address && !((x.address ^ y.address) & (x.mask | y.mask))))
        return 0;
    subnet_describe(w, a, nic_a, x, words_a);
    subnet_describe(w, b, nic_b, y, words_b);
    return br_error(ENETUNREACH,
                    "both are on switch <%u,%u> of level %u, but %s and %s; give them %s", level,
                    br_bcube_switch(&w->cube, a, level), level, words_a, words_b,
                    x.address == y.address ? "different addresses" : "addresses of one subnet");
}

int br_subnet_check(const struct br_wiring *w, const struct br_subnet *of)
{
    int rc = 0;

    for (uint32_t host = 0; host < w->n_hosts; host++)
        for (uint32_t level = 0; level < w->cube.k; level++)
            for (uint32_t i = 0; i + 1 < w->cube.n && !rc; i++) {
                uint32_t other = br_bcube_neighbour(&w->cube, host, level, i);

                if (other > host && other < w->n_hosts)
                    rc = subnet_compare(w, of, level, host, other);
            }
    return rc;
}
