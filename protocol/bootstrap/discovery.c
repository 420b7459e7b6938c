/* SPDX-License-Identifier: BSD-3-Clause */
#include "protocol/bootstrap/discovery.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sodium.h>

#include "base/clock.h"
#include "base/error.h"

#define FAMILIES 2 /* IPv6, IPv4 */
#define SOURCES  8 /* addresses of this host that IPv4 beacons bear */
#define EVERY    (20 * BR_MS)

static const int families[FAMILIES] = {AF_INET6, AF_INET};

struct nic {
    int index; /* the kernel's */
    bool up, spoke;
    int error[FAMILIES]; /* of the last attempt to send */
    char message[120];
    uint32_t n;
    struct br_discovery_neighbour *seen; /* [max_sightings], by rank and NIC */
};

struct br_discovery {
    struct br_discovery_config config;
    int fds[FAMILIES];     /* -1: not to be had */
    int reasons[FAMILIES]; /* then: errno */
    struct nic nics[BR_DISCOVERY_NICS];
    struct in_addr sources[SOURCES];
    int n_sources;
};

/* ---- datagrams ------------------------------------------------------------------------------- */

static void discovery_prove(const struct br_discovery_config *config,
                            const struct br_discovery_message *m, uint8_t *proof)
{
    crypto_generichash(proof, BR_DISCOVERY_PROOF_BYTES, (const uint8_t *)m,
                       offsetof(struct br_discovery_message, proof), config->key,
                       sizeof config->key);
}

void br_discovery_write(const struct br_discovery_config *config, int nic,
                        struct br_discovery_message *out)
{
    *out = (struct br_discovery_message){.magic = BR_DISCOVERY_MAGIC,
                                         .version = BR_DISCOVERY_VERSION,
                                         .nic = (uint16_t)nic,
                                         .rank = config->rank};
    memcpy(out->nonce, config->nonce, sizeof out->nonce);
    discovery_prove(config, out, out->proof);
}

int br_discovery_read(const struct br_discovery_config *config, const void *bytes, size_t n,
                      struct br_discovery_message *out)
{
    uint8_t proof[BR_DISCOVERY_PROOF_BYTES];

    if (n != sizeof *out)
        return -EPROTO;
    memcpy(out, bytes, sizeof *out);
    if (out->magic != BR_DISCOVERY_MAGIC || out->version != BR_DISCOVERY_VERSION ||
        out->rank >= config->size || out->nic >= BR_DISCOVERY_NICS ||
        memcmp(out->nonce, config->nonce, sizeof out->nonce) != 0)
        return -EPROTO;
    discovery_prove(config, out, proof);
    return sodium_memcmp(proof, out->proof, sizeof proof) ? -EPROTO : 0;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static uint16_t port_of(const struct br_discovery_config *config)
{
    return (uint16_t)(BR_DISCOVERY_PORT_FIRST +
                      (config->nonce[0] | config->nonce[1] << 8) % BR_DISCOVERY_PORTS);
}

static int discovery_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value);
}

static int discovery_options6(int fd)
{
    return discovery_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) ||
           discovery_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) ||
           discovery_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0) ||
           discovery_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1);
}

static int discovery_options4(int fd)
{
    return discovery_set(fd, IPPROTO_IP, IP_PKTINFO, 1) ||
           discovery_set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0) ||
           discovery_set(fd, IPPROTO_IP, IP_MULTICAST_TTL, 1);
}

/* A socket for all NICs; SO_REUSEADDR because several ranks of a host may listen. -errno. */
static int discovery_open_socket(int family, uint16_t port)
{
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    bool six = family == AF_INET6;
    int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

    if (fd < 0)
        return -errno;
    if (!discovery_set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
        !(six ? discovery_options6(fd) : discovery_options4(fd)) &&
        !bind(fd, six ? (struct sockaddr *)&any6 : (struct sockaddr *)&any4,
              six ? sizeof any6 : sizeof any4))
        return fd;
    err = errno;
    close(fd);
    return -err;
}

static int open_nic(struct br_discovery *b, int i)
{
    struct nic *nic = &b->nics[i];
    const char *name = b->config.nics[i];

    nic->index = (int)if_nametoindex(name);
    if (*name && !nic->index)
        return br_error(ENODEV, "no network interface %s; `braid info` lists them", name);
    nic->seen = calloc(b->config.max_neighbours, sizeof *nic->seen);
    return nic->seen ? 0 : br_error(ENOMEM, "no memory for beacons");
}

static void list_sources(struct br_discovery *b)
{
    struct ifaddrs *all;

    if (getifaddrs(&all))
        return; /* the kernel's choice alone, then */
    for (struct ifaddrs *ifa = all; ifa && b->n_sources < SOURCES; ifa = ifa->ifa_next)
        if (ifa->ifa_addr && ifa->ifa_addr->sa_family == AF_INET &&
            !(ifa->ifa_flags & IFF_LOOPBACK))
            b->sources[b->n_sources++] = ((struct sockaddr_in *)(void *)ifa->ifa_addr)->sin_addr;
    freeifaddrs(all);
}

int br_discovery_open(const struct br_discovery_config *config, struct br_discovery **out)
{
    struct br_discovery *b = calloc(1, sizeof *b);
    int rc = 0;

    if (!b)
        return br_error(ENOMEM, "no memory for beacons");
    b->config = *config;
    for (int f = 0; f < FAMILIES; f++) {
        b->fds[f] = discovery_open_socket(families[f], port_of(config));
        b->reasons[f] = b->fds[f] < 0 ? -b->fds[f] : 0;
    }
    if (b->fds[0] < 0 && b->fds[1] < 0)
        rc = br_error(b->reasons[1], "no socket for beacons: %s", strerror(b->reasons[1]));
    list_sources(b);
    for (int i = 0; i < config->n_nics && !rc; i++)
        rc = open_nic(b, i);
    if (rc) {
        br_discovery_close(b);
        return rc;
    }
    *out = b;
    return 0;
}

void br_discovery_close(struct br_discovery *b)
{
    if (!b)
        return;
    for (int f = 0; f < FAMILIES; f++)
        if (b->fds[f] >= 0)
            close(b->fds[f]);
    for (int i = 0; i < b->config.n_nics; i++)
        free(b->nics[i].seen);
    sodium_memzero(&b->config, sizeof b->config);
    free(b);
}

/* ---- speaking -------------------------------------------------------------------------------- */

static int discovery_send6(const struct br_discovery *b, int fd, int index,
                           const struct br_discovery_message *m)
{
    struct sockaddr_in6 all = {.sin6_family = AF_INET6,
                               .sin6_port = htons(port_of(&b->config)),
                               .sin6_scope_id = (uint32_t)index};

    inet_pton(AF_INET6, "ff02::1", &all.sin6_addr);
    return sendto(fd, m, sizeof *m, 0, (struct sockaddr *)&all, sizeof all) < 0 ? errno : 0;
}

static int discovery_send4(const struct br_discovery *b, int fd, int index, struct in_addr source,
                           const struct br_discovery_message *m)
{
    struct sockaddr_in all = {.sin_family = AF_INET,
                              .sin_port = htons(port_of(&b->config)),
                              .sin_addr.s_addr = htonl(INADDR_ALLHOSTS_GROUP)};
    struct in_pktinfo through = {.ipi_ifindex = index, .ipi_spec_dst = source};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof through)];
    } control = {.header = {.cmsg_len = CMSG_LEN(sizeof through),
                            .cmsg_level = IPPROTO_IP,
                            .cmsg_type = IP_PKTINFO}};
    struct iovec part = {(void *)(uintptr_t)m, sizeof *m};
    struct msghdr header = {.msg_name = &all,
                            .msg_namelen = sizeof all,
                            .msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};

    memcpy(CMSG_DATA(&control.header), &through, sizeof through);
    return sendmsg(fd, &header, 0) < 0 ? errno : 0;
}

/* Out of one NIC; by IPv4 with every address that the host has (doc/design/bootstrap.md, section
 * 3). 0 or errno: none has left. */
static int send_out(const struct br_discovery *b, int f, int index,
                    const struct br_discovery_message *m)
{
    int error;

    if (b->fds[f] < 0)
        return b->reasons[f];
    if (families[f] == AF_INET6)
        return discovery_send6(b, b->fds[f], index, m);
    error = discovery_send4(b, b->fds[f], index, (struct in_addr){0}, m);
    for (int i = 0; i < b->n_sources; i++)
        if (!discovery_send4(b, b->fds[f], index, b->sources[i], m))
            error = 0;
    return error;
}

static bool is_up(const struct br_discovery *b, const char *name)
{
    struct ifreq request = {0};

    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return !ioctl(b->fds[0] >= 0 ? b->fds[0] : b->fds[1], SIOCGIFFLAGS, &request) &&
           (request.ifr_flags & IFF_UP) && (request.ifr_flags & IFF_RUNNING);
}

static void discovery_announce(struct br_discovery *b)
{
    for (int i = 0; i < b->config.n_nics; i++) {
        struct nic *nic = &b->nics[i];
        struct br_discovery_message m;

        if (!nic->index)
            continue;
        nic->up = is_up(b, b->config.nics[i]);
        br_discovery_write(&b->config, i, &m);
        for (int f = 0; f < FAMILIES; f++) {
            nic->error[f] = send_out(b, f, nic->index, &m);
            nic->spoke = nic->spoke || !nic->error[f];
        }
        snprintf(nic->message, sizeof nic->message, "IPv6: %.50s; IPv4: %.50s",
                 strerror(nic->error[0]), strerror(nic->error[1]));
    }
}

/* ---- hearing --------------------------------------------------------------------------------- */

static int discovery_compare(const struct br_discovery_neighbour *a,
                             const struct br_discovery_neighbour *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (int)a->other_nic - (int)b->other_nic;
}

/* Kept in order; when there is no room the last one goes. */
static void discovery_remember(struct br_discovery *b, struct nic *nic,
                               const struct br_discovery_neighbour *s)
{
    uint32_t at = 0;

    while (at < nic->n && discovery_compare(&nic->seen[at], s) < 0)
        at++;
    if (at == b->config.max_neighbours || (at < nic->n && !discovery_compare(&nic->seen[at], s)))
        return;
    if (nic->n < b->config.max_neighbours)
        nic->n++;
    memmove(&nic->seen[at + 1], &nic->seen[at], (nic->n - 1 - at) * sizeof *s);
    nic->seen[at] = *s;
}

/* The NIC that a datagram came in through, by the kernel's index; 0: not said. */
static int arrived_through(struct msghdr *header)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        struct in6_pktinfo six;
        struct in_pktinfo four;

        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            memcpy(&six, CMSG_DATA(c), sizeof six);
            return (int)six.ipi6_ifindex;
        }
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            memcpy(&four, CMSG_DATA(c), sizeof four);
            return four.ipi_ifindex;
        }
    }
    return 0;
}

/* false: nothing more waits. */
static bool receive_one(struct br_discovery *b, int fd)
{
    uint8_t bytes[sizeof(struct br_discovery_message) + 1];
    struct iovec part = {bytes, sizeof bytes};
    union {
        struct cmsghdr header;
        char bytes[256];
    } control;
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof control};
    struct br_discovery_message m;
    ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT);
    int index;

    if (n < 0)
        return errno == EINTR;
    if (br_discovery_read(&b->config, bytes, (size_t)n, &m))
        return true;
    index = arrived_through(&header);
    for (int i = 0; i < b->config.n_nics; i++)
        if (index && b->nics[i].index == index && !(m.rank == b->config.rank && m.nic == i))
            discovery_remember(b, &b->nics[i],
                               &(struct br_discovery_neighbour){
                                   .rank = m.rank, .other_nic = m.nic, .nic = (uint16_t)i});
    return true;
}

static void discovery_receive(struct br_discovery *b, uint64_t until)
{
    uint64_t now = br_clock_now();
    struct pollfd fds[FAMILIES];

    for (int f = 0; f < FAMILIES; f++)
        fds[f] = (struct pollfd){.fd = b->fds[f], .events = POLLIN};
    while (now < until) {
        poll(fds, FAMILIES, (int)((until - now) / BR_MS) + 1);
        for (int f = 0; f < FAMILIES; f++)
            while (b->fds[f] >= 0 && receive_one(b, b->fds[f]))
                ;
        now = br_clock_now();
    }
}

void br_discovery_listen(struct br_discovery *b, uint64_t ns)
{
    uint64_t now = br_clock_now(), until = now + ns;

    while (now < until) {
        discovery_announce(b);
        discovery_receive(b, now + EVERY < until ? now + EVERY : until);
        now = br_clock_now();
    }
}

bool br_discovery_nic_up(const struct br_discovery *b, int nic)
{
    return b->nics[nic].up;
}

const char *br_discovery_nic_deaf(const struct br_discovery *b, int nic)
{
    return b->nics[nic].up && !b->nics[nic].spoke && !b->nics[nic].n ? b->nics[nic].message : NULL;
}

uint32_t br_discovery_neighbours(const struct br_discovery *b, struct br_discovery_neighbour *out,
                                 uint32_t max)
{
    uint32_t n = 0;

    for (int i = 0; i < b->config.n_nics; i++)
        for (uint32_t k = 0; k < b->nics[i].n; k++, n++)
            if (n < max)
                out[n] = b->nics[i].seen[k];
    return n;
}
