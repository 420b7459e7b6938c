/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/dpdk/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"

#define LEAST_MTU 1108 /* BR_DGRAM_MIN_PACKET and the headers of IPv4 and UDP */
#define MOST_MTU  9600

bool br_dpdk_mac_is_host(const uint8_t mac[6])
{
    static const uint8_t nobody[6];

    return memcmp(mac, nobody, sizeof nobody) != 0 && !(mac[0] & 1);
}

/* ---- our keys -------------------------------------------------------------------------------- */

static int ports_bad(const struct br_dpdk_spec *spec, const char *key, const char *value,
                     const char *wanted)
{
    return br_error(EINVAL, "BRAID_DPDK_PORTS: %s: %s=%.60s: write %s", spec->name, key, value,
                    wanted);
}

static bool ports_read_number(const char *text, unsigned least, unsigned most, unsigned *out)
{
    char rest;

    return sscanf(text, "%u%c", out, &rest) == 1 && *text != '-' && *out >= least && *out <= most;
}

static bool ports_read_mac(const char *text, uint8_t mac[6])
{
    char rest;

    return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%c", &mac[0], &mac[1], &mac[2], &mac[3],
                  &mac[4], &mac[5], &rest) == 6 &&
           !(mac[0] & 1);
}

static int ports_read_address(struct br_dpdk_spec *spec, const char *key, char *value)
{
    static const char wanted[] = "an IPv4 address and the bits of its network, as 10.0.0.1/24";
    char *slash = strchr(value, '/');
    struct in_addr ip;
    unsigned bits;

    if (!slash || !ports_read_number(slash + 1, 1, 31, &bits))
        return ports_bad(spec, key, value, wanted);
    *slash = 0;
    if (inet_pton(AF_INET, value, &ip) != 1 || !ip.s_addr)
        return ports_bad(spec, key, value, wanted);
    spec->ip = ip.s_addr;
    spec->mask = htonl(~0u << (32 - bits));
    return 0;
}

static int read_gateway(struct br_dpdk_spec *spec, const char *key, char *value)
{
    struct in_addr ip;

    if (inet_pton(AF_INET, value, &ip) != 1)
        return ports_bad(spec, key, value, "an IPv4 address");
    spec->gateway = ip.s_addr;
    return 0;
}

static int read_mtu(struct br_dpdk_spec *spec, const char *key, char *value)
{
    unsigned mtu;

    if (!ports_read_number(value, LEAST_MTU, MOST_MTU, &mtu))
        return ports_bad(spec, key, value, "a number of bytes from 1108 to 9600");
    spec->mtu = (uint16_t)mtu;
    return 0;
}

static int ports_read_port(struct br_dpdk_spec *spec, const char *key, char *value)
{
    unsigned port;

    if (!ports_read_number(value, 1, 65535, &port))
        return ports_bad(spec, key, value, "a number from 1 to 65535");
    spec->port = (uint16_t)port;
    return 0;
}

/* For drivers whose port has the interface's. Others, as net_memif, have such an argument
 * themselves. */
static int read_own_mac(struct br_dpdk_spec *spec, const char *key, char *value)
{
    if (!ports_read_mac(value, spec->mac) || !br_dpdk_mac_is_host(spec->mac))
        return ports_bad(spec, key, value, "the MAC address of one host, as 02:00:00:00:00:01");
    return 0;
}

static int read_neighbour(struct br_dpdk_spec *spec, const char *key, char *value)
{
    struct br_dpdk_neighbour *to = &spec->neighbours[spec->n_neighbours];
    char *sign = strchr(value, '@');
    struct in_addr ip;

    if (spec->n_neighbours == BR_DPDK_NEIGHBOURS)
        return br_error(E2BIG,
                        "BRAID_DPDK_PORTS: %s: more than %d neighbours; ARP finds the others",
                        spec->name, BR_DPDK_NEIGHBOURS);
    if (sign)
        *sign = 0;
    if (!sign || inet_pton(AF_INET, value, &ip) != 1 || !ports_read_mac(sign + 1, to->mac))
        return ports_bad(spec, key, value, "IP@MAC, as 10.0.0.2@02:00:00:00:00:02");
    to->ip = ip.s_addr;
    spec->n_neighbours++;
    return 0;
}

static const struct key {
    const char *name;
    int (*read)(struct br_dpdk_spec *spec, const char *key, char *value);
} keys[] = {
    {"address", ports_read_address}, {"gateway", read_gateway},     {"mtu", read_mtu},
    {"port", ports_read_port},       {"neighbour", read_neighbour}, {"mac", read_own_mac},
};

/* ---- the interface beneath ------------------------------------------------------------------- */

/* What the kernel says about an interface; false: nothing. */
static bool ports_ask(const char *interface, unsigned long what, struct ifreq *out)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -1;

    memset(out, 0, sizeof *out);
    snprintf(out->ifr_name, sizeof out->ifr_name, "%s", interface);
    out->ifr_addr.sa_family = AF_INET;
    if (fd >= 0) {
        rc = ioctl(fd, what, out);
        close(fd);
    }
    return !rc;
}

static in_addr_t address_in(const struct ifreq *request)
{
    struct sockaddr_in address;

    memcpy(&address, &request->ifr_addr, sizeof address);
    return address.sin_addr.s_addr;
}

static bool is_af_packet(const struct br_dpdk_spec *spec)
{
    return !strncmp(spec->name, "net_af_packet", 13);
}

bool br_dpdk_spec_is_tap(const struct br_dpdk_spec *spec)
{
    return !strncmp(spec->name, "net_tap", 7);
}

/* net_af_packet's rings hold frames of one size, by default for an MTU of 1500. */
static void fit_frames(struct br_dpdk_spec *spec)
{
    size_t n = strlen(spec->devargs);
    unsigned frame = spec->mtu <= 1900   ? 2048
                     : spec->mtu <= 3900 ? 4096
                                         : 12288; /* with the kernel's own header */

    if (is_af_packet(spec) && !strstr(spec->devargs, "framesz="))
        snprintf(spec->devargs + n, sizeof spec->devargs - n, ",blocksz=%u,framesz=%u,framecnt=%u",
                 frame < 4096 ? 4096 : frame, frame, frame < 4096 ? 2048u : 1024u);
}

/* What was not given is the interface's; one that is not there makes opening fail with a message of
 * its own. */
static void find_lower_device(struct br_dpdk_spec *spec)
{
    struct ifreq mtu, ip, mask;

    if (!spec->mtu && ports_ask(spec->interface, SIOCGIFMTU, &mtu))
        spec->mtu = (uint16_t)(mtu.ifr_mtu > MOST_MTU ? MOST_MTU : mtu.ifr_mtu);
    if (!spec->ip && ports_ask(spec->interface, SIOCGIFADDR, &ip) &&
        ports_ask(spec->interface, SIOCGIFNETMASK, &mask)) {
        spec->ip = address_in(&ip);
        spec->mask = address_in(&mask);
    }
}

/* ---- a port ---------------------------------------------------------------------------------- */

/* `mac=` is also a key of some drivers; that of net_tap has one value which is no address. */
static bool mac_is_ours(const struct br_dpdk_spec *spec, const char *value)
{
    return is_af_packet(spec) || (br_dpdk_spec_is_tap(spec) && strcasecmp(value, "fixed") != 0);
}

static bool ports_is_ours(const struct br_dpdk_spec *spec, const struct key *key, const char *word,
                          const char *value)
{
    size_t n = strlen(key->name);

    return !strncmp(word, key->name, n) && word + n + 1 == value &&
           (key->read != read_own_mac || mac_is_ours(spec, value));
}

static int ports_take(struct br_dpdk_spec *spec, char *word)
{
    char *value = strchr(word, '=');
    size_t n = strlen(spec->devargs);

    for (size_t i = 0; value && i < sizeof keys / sizeof *keys; i++)
        if (ports_is_ours(spec, &keys[i], word, value + 1))
            return keys[i].read(spec, keys[i].name, value + 1);
    if ((size_t)snprintf(spec->devargs + n, sizeof spec->devargs - n, "%s%s", n ? "," : "", word) >=
        sizeof spec->devargs - n - 48)
        return br_error(EINVAL, "BRAID_DPDK_PORTS: %s: too long", spec->name);
    if (!strncmp(word, "iface=", 6))
        snprintf(spec->interface, sizeof spec->interface, "%.15s", word + 6);
    return 0;
}

static bool is_pci(const char *name)
{
    unsigned domain, bus, device, function;
    char rest;

    return sscanf(name, "%4x:%2x:%2x.%1u%c", &domain, &bus, &device, &function, &rest) == 4;
}

int br_dpdk_spec_parse(const char *text, struct br_dpdk_spec *out)
{
    char copy[1024], *save = NULL;
    int rc = 0;

    memset(out, 0, sizeof *out);
    out->port = BR_DPDK_UDP_PORT;
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return br_error(EINVAL, "BRAID_DPDK_PORTS: %.40s...: too long", text);
    for (char *word = strtok_r(copy, ", \t\n", &save); word && !rc;
         word = strtok_r(NULL, ", \t\n", &save)) {
        if (!*out->name && (size_t)snprintf(out->name, sizeof out->name, "%.*s", BR_DEVICE_NAME - 1,
                                            word) < strlen(word))
            return br_error(EINVAL, "BRAID_DPDK_PORTS: %.60s is too long for the name of a port",
                            word);
        rc = ports_take(out, word);
    }
    out->pci = is_pci(out->name);
    if (!rc && !out->pci && strncmp(out->name, "net_", 4) != 0)
        rc = br_error(
            EINVAL,
            "BRAID_DPDK_PORTS: \"%s\" is no port: write a PCI address (0000:03:00.0) or a virtual "
            "device (net_af_packet0,iface=eth1)",
            out->name);
    if (rc)
        return rc;
    if (*out->interface)
        find_lower_device(out);
    fit_frames(out);
    return 0;
}

int br_dpdk_specs_read(struct br_dpdk_spec out[BR_DPDK_PORTS])
{
    const char *text = getenv("BRAID_DPDK_PORTS");
    char *copy = strdup(text ? text : ""), *save = NULL;
    int n = 0, rc = copy ? 0 : br_error(ENOMEM, "no memory");

    for (char *one = copy ? strtok_r(copy, ";", &save) : NULL; one && !rc;
         one = strtok_r(NULL, ";", &save)) {
        if (!one[strspn(one, " \t\n")])
            continue;
        rc = n == BR_DPDK_PORTS
                 ? br_error(E2BIG, "BRAID_DPDK_PORTS: more than %d ports", BR_DPDK_PORTS)
                 : br_dpdk_spec_parse(one, &out[n]);
        for (int i = 0; i < n && !rc; i++)
            if (!strcmp(out[i].name, out[n].name) || (out[n].ip && out[i].ip == out[n].ip))
                rc = br_error(EINVAL, "BRAID_DPDK_PORTS: %s and %s have the same name or address",
                              out[i].name, out[n].name);
        n += !rc;
    }
    free(copy);
    return rc ? rc : n;
}

int br_dpdk_spec_find(const struct br_dpdk_spec *specs, int n, const char *name)
{
    struct in_addr ip;

    if (!n)
        return br_error(ENODEV, "no port of DPDK is known: set BRAID_DPDK_PORTS, as "
                                "0000:03:00.0,address=10.0.0.1/24 (`braid info`)");
    if (!name)
        return 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(specs[i].name, name) ||
            (*specs[i].interface && !strcmp(specs[i].interface, name)) ||
            (inet_pton(AF_INET, name, &ip) == 1 && specs[i].ip == ip.s_addr))
            return i;
    return br_error(ENODEV, "BRAID_DPDK_PORTS has no port or address %s", name);
}

/*
 * A virtual device may have none of its own, or one that is the same everywhere. That of net_tap is
 * the kernel's at the other end: a bridge there would keep what is sent to it. Another one is made
 * by the bit for "administered locally", as mac=fixed counts in the last byte. With remote= the
 * driver takes in only what is sent to the port's own.
 */
void br_dpdk_spec_mac(const struct br_dpdk_spec *spec, const uint8_t port[6], uint8_t out[6])
{
    const uint8_t local = 2;

    if (br_dpdk_mac_is_host(spec->mac)) {
        memcpy(out, spec->mac, 6);
    } else if (br_dpdk_mac_is_host(port)) {
        memcpy(out, port, 6);
        if (br_dpdk_spec_is_tap(spec) && !strstr(spec->devargs, ",remote="))
            out[0] ^= local;
    } else {
        out[0] = local;
        out[1] = 0;
        memcpy(out + 2, &spec->ip, 4);
    }
}

in_addr_t br_dpdk_spec_hop(const struct br_dpdk_spec *spec, in_addr_t to)
{
    if ((to & spec->mask) == (spec->ip & spec->mask))
        return to;
    return spec->gateway;
}
