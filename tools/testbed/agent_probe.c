/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who hears whom on which NIC.
 *
 * 1. Every agent listens on all its Ethernet NICs, also those the plan does not know: a cable in
 *    the wrong NIC, or a level that leaks into the management network, shows only there.
 * 2. As root the probes are broadcast frames of the experimental EtherType, which cross a switch
 *    whatever the addresses are. Without root they are multicasts to an IPv6 link-local group,
 *    which need only that IPv6 is on. Rejected: to ping the planned addresses. That tells that
 *    something is wrong, never which cable.
 * 3. A probe says who sent it (run, host number, NIC, MAC); frames of other runs are ignored, so
 *    two checkers do not mislead each other.
 * 4. LLDP frames that arrive meanwhile are kept: what a switch says about itself is shown beside
 *    the findings.
 */
#include "tools/testbed/agent.h"
#include "tools/testbed/json.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/thread.h"

#define ETHERTYPE_PROBE 0x88b5 /* IEEE 802, local experimental 1 */
#define ETHERTYPE_LLDP  0x88cc
#define GROUP           "ff12::6272:6169:6400"
#define PORT            47474
#define HEARD           8192
#define LLDP            256

static const char magic[8] = "braidprb";

struct probe {
    char magic[8];
    uint64_t run;
    uint32_t host;
    uint8_t mac[6];
    uint8_t zero[2];
    char nic[16];
    uint8_t pad[16]; /* an Ethernet frame has at least 46 bytes */
};

struct heard {
    int on; /* index in nics */
    uint32_t host;
    char nic[16];
    uint8_t mac[6];
    uint32_t count;
};

struct lldp {
    int on;
    char system[64], port[64];
};

struct br_agent_probe {
    uint64_t run;
    uint32_t host;
    bool raw;
    int nics;
    struct br_agent_nic nic[BR_AGENT_NICS];
    bool speaks[BR_AGENT_NICS]; /* it can send and hear probes */
    int fd[2 *
           /* raw: probe sockets, then LLDP sockets; -1: none. Else fd[0] is the UDP socket */
           BR_AGENT_NICS];
    int stop;
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* heard and lldp */
    int n_seen, n_lldp;
    struct heard seen[HEARD];
    struct lldp lldp[LLDP];
};

static void note_probe(struct br_agent_probe *probe, int on, const struct probe *frame)
{
    if (on < 0 || memcmp(frame->magic, magic, sizeof magic) != 0 || frame->run != probe->run ||
        memchr(frame->nic, 0, sizeof frame->nic) == NULL)
        return;
    if (frame->host == probe->host && !strcmp(frame->nic, probe->nic[on].name))
        return; /* our own, come back */
    for (int i = 0; i < probe->n_seen; i++) {
        struct heard *heard = &probe->seen[i];
        if (heard->on == on && heard->host == frame->host && !strcmp(heard->nic, frame->nic)) {
            heard->count++;
            return;
        }
    }
    if (probe->n_seen == HEARD)
        return;
    struct heard *heard = &probe->seen[probe->n_seen++];
    *heard = (struct heard){.on = on, .host = frame->host, .count = 1};
    memcpy(heard->nic, frame->nic, sizeof heard->nic);
    memcpy(heard->mac, frame->mac, sizeof heard->mac);
}

/* Keeps what can be printed; LLDP says UTF-8, switches say anything. */
static void agent_probe_copy_text(char *out, size_t room, const uint8_t *bytes, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count && used + 1 < room; i++)
        if (bytes[i] >= 0x20 && bytes[i] < 0x7f)
            out[used++] = (char)bytes[i];
    out[used] = 0;
}

static void note_lldp(struct br_agent_probe *probe, int on, const uint8_t *frame, size_t bytes)
{
    struct lldp said = {.on = on};
    for (size_t at = ETH_HLEN; at + 2 <= bytes;) {
        unsigned type = frame[at] >> 1;
        size_t length = (size_t)(frame[at] & 1) << 8 | frame[at + 1];
        at += 2;
        if (!type || at + length > bytes)
            break;
        if (type == 2 && length > 1 && !said.port[0])
            agent_probe_copy_text(said.port, sizeof said.port, frame + at + 1, length - 1);
        if (type == 5)
            agent_probe_copy_text(said.system, sizeof said.system, frame + at, length);
        at += length;
    }
    for (int i = 0; i < probe->n_lldp; i++)
        if (probe->lldp[i].on == on && !strcmp(probe->lldp[i].port, said.port))
            return;
    if (probe->n_lldp < LLDP)
        probe->lldp[probe->n_lldp++] = said;
}

static void receive_raw(struct br_agent_probe *probe, int i)
{
    uint8_t frame[2048];
    ssize_t bytes;
    while ((bytes = recv(probe->fd[i], frame, sizeof frame, MSG_DONTWAIT)) > 0) {
        struct probe body;
        if (i >= BR_AGENT_NICS) {
            note_lldp(probe, i - BR_AGENT_NICS, frame, (size_t)bytes);
        } else if ((size_t)bytes >= ETH_HLEN + sizeof body) {
            memcpy(&body, frame + ETH_HLEN, sizeof body);
            note_probe(probe, i, &body);
        }
    }
}

static void receive_multicast(struct br_agent_probe *probe)
{
    struct probe body;
    union {
        char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {.iov_base = &body, .iov_len = sizeof body};
    for (;;) {
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof control.bytes};
        ssize_t bytes = recvmsg(probe->fd[0], &message, MSG_DONTWAIT);
        if (bytes < 0)
            return;
        int on = -1;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
            struct in6_pktinfo info;
            if (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_PKTINFO)
                continue;
            memcpy(&info, CMSG_DATA(c), sizeof info);
            for (int i = 0; i < probe->nics; i++)
                if (probe->nic[i].index == (int)info.ipi6_ifindex)
                    on = i;
        }
        if ((size_t)bytes == sizeof body)
            note_probe(probe, on, &body);
    }
}

static void *listen_thread(void *argument)
{
    struct br_agent_probe *probe = argument;
    struct pollfd fds[1 + 2 * BR_AGENT_NICS];
    fds[0] = (struct pollfd){.fd = probe->stop, .events = POLLIN};
    for (int i = 0; i < 2 * BR_AGENT_NICS; i++)
        fds[1 + i] = (struct pollfd){.fd = probe->fd[i], .events = POLLIN};
    while (poll(fds, sizeof fds / sizeof *fds, -1) >= 0 || errno == EINTR) {
        if (fds[0].revents)
            break;
        pthread_mutex_lock(&probe->lock);
        for (int i = 0; i < 2 * BR_AGENT_NICS; i++) {
            if (!fds[1 + i].revents)
                continue;
            /* its NIC went down: the error is read, listening goes on */
            if (fds[1 + i].revents & POLLERR) {
                int err;
                socklen_t size = sizeof err;
                getsockopt(probe->fd[i], SOL_SOCKET, SO_ERROR, &err, &size);
            }
            if (probe->raw)
                receive_raw(probe, i);
            else
                receive_multicast(probe);
        }
        pthread_mutex_unlock(&probe->lock);
    }
    return NULL;
}

static int open_raw(const struct br_agent_nic *nic, int ethertype)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons((uint16_t)ethertype),
                                  .sll_ifindex = nic->index};
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons((uint16_t)ethertype));
    if (fd < 0)
        return br_error(errno, "cannot open a raw socket: %s", strerror(errno));
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) {
        int rc = br_error(errno, "cannot listen on %s: %s", nic->name, strerror(errno));
        close(fd);
        return rc;
    }
    if (ethertype == ETHERTYPE_LLDP) {
        struct packet_mreq group = {.mr_ifindex = nic->index,
                                    .mr_type = PACKET_MR_MULTICAST,
                                    .mr_alen = 6,
                                    .mr_address = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e}};
        setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &group,
                   sizeof group); /* LLDP is shown, not needed */
    }
    return fd;
}

/* Marks the NICs that have a link-local address: the others neither speak nor hear. How many there
 * are. */
static int find_probe_senders(struct br_agent_probe *probe)
{
    struct ifaddrs *list;
    int count = 0;
    if (getifaddrs(&list))
        return 0;
    for (const struct ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET6)
            continue;
        const struct sockaddr_in6 *address =
            (const struct sockaddr_in6 *)(const void *)entry->ifa_addr;
        for (int i = 0; i < probe->nics; i++)
            if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr) &&
                !strcmp(entry->ifa_name, probe->nic[i].name))
                probe->speaks[i] = true;
    }
    freeifaddrs(list);
    for (int i = 0; i < probe->nics; i++)
        count += probe->speaks[i];
    return count;
}

static int open_multicast(struct br_agent_probe *probe)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct ipv6_mreq group = {0};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), one = 1, zero = 0;
    if (fd < 0 || !find_probe_senders(probe)) {
        if (fd >= 0)
            close(fd);
        return br_error(EAFNOSUPPORT, "probes need root, or IPv6 link-local addresses on the NICs");
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
    setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &zero, sizeof zero);
    inet_pton(AF_INET6, GROUP, &group.ipv6mr_multiaddr);
    for (int i = 0; i < probe->nics; i++) {
        group.ipv6mr_interface = (unsigned)probe->nic[i].index;
        if (probe->speaks[i] &&
            setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &group, sizeof group))
            probe->speaks[i] = false;
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) {
        int rc = br_error(errno, "cannot listen for probes on port %d: %s", PORT, strerror(errno));
        close(fd);
        return rc;
    }
    return fd;
}

static int agent_probe_open_sockets(struct br_agent_probe *probe)
{
    int first = probe->nics ? open_raw(&probe->nic[0], ETHERTYPE_PROBE) : -ENODEV;
    probe->raw = first >= 0;
    if (!probe->raw) {
        probe->fd[0] = open_multicast(probe);
        return probe->fd[0] < 0 ? probe->fd[0] : 0;
    }
    probe->fd[0] = first;
    for (int i = 0; i < probe->nics; i++) {
        probe->speaks[i] = true;
        if (i)
            probe->fd[i] = open_raw(&probe->nic[i], ETHERTYPE_PROBE);
        probe->fd[BR_AGENT_NICS + i] = open_raw(&probe->nic[i], ETHERTYPE_LLDP);
        if (probe->fd[i] < 0)
            return probe->fd[i];
    }
    return 0;
}

void br_agent_probe_close(struct br_agent_probe *probe)
{
    uint64_t one = 1;
    if (!probe)
        return;
    if (probe->started && write(probe->stop, &one, sizeof one) == sizeof one)
        pthread_join(probe->thread, NULL);
    for (int i = 0; i < 2 * BR_AGENT_NICS; i++)
        if (probe->fd[i] >= 0)
            close(probe->fd[i]);
    if (probe->stop >= 0)
        close(probe->stop);
    pthread_mutex_destroy(&probe->lock);
    free(probe);
}

int br_agent_listen(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    struct br_agent_probe *probe = calloc(1, sizeof *probe);
    if (!probe)
        return br_error(ENOMEM, "no memory to listen");
    br_agent_probe_close(agent->probe);
    agent->probe = NULL;
    memset(probe->fd, 0xff, sizeof probe->fd);
    pthread_mutex_init(&probe->lock, NULL);
    probe->run = (uint64_t)br_json_number(request, "run", 0);
    probe->host = (uint32_t)br_json_number(request, "host", 0);
    probe->stop = eventfd(0, EFD_CLOEXEC);
    int rc = probe->stop < 0 ? br_error(errno, "no event descriptor: %s", strerror(errno)) : 0;
    if (!rc) {
        probe->nics = br_agent_nics(probe->nic, BR_AGENT_NICS);
        rc = probe->nics < 0 ? probe->nics : agent_probe_open_sockets(probe);
    }
    if (!rc) {
        int err = br_thread_start(&probe->thread, listen_thread, probe);
        rc = err ? br_error(err, "no thread to listen: %s", strerror(err)) : 0;
        probe->started = !rc;
    }
    if (rc) {
        br_agent_probe_close(probe);
        return rc;
    }
    agent->probe = probe;
    cJSON_AddBoolToObject(reply, "raw", probe->raw);
    cJSON *speakers = cJSON_AddArrayToObject(reply, "nics");
    for (int i = 0; i < probe->nics; i++)
        if (probe->speaks[i])
            cJSON_AddItemToArray(speakers, cJSON_CreateString(probe->nic[i].name));
    return 0;
}

static void send_probe(struct br_agent_probe *probe, int i)
{
    uint8_t frame[ETH_HLEN + sizeof(struct probe)];
    struct probe body = {.run = probe->run, .host = probe->host};
    const struct br_agent_nic *nic = &probe->nic[i];
    memcpy(body.magic, magic, sizeof magic);
    memcpy(body.mac, nic->mac, 6);
    memcpy(body.nic, nic->name, sizeof body.nic);
    /* What cannot be sent is not heard, and that is the answer. */
    if (probe->raw) {
        memset(frame, 0xff, 6);
        memcpy(frame + 6, nic->mac, 6);
        frame[12] = ETHERTYPE_PROBE >> 8;
        frame[13] = ETHERTYPE_PROBE & 0xff;
        memcpy(frame + ETH_HLEN, &body, sizeof body);
        (void)!send(probe->fd[i], frame, sizeof frame, MSG_DONTWAIT);
    } else {
        struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                                  .sin6_port = htons(PORT),
                                  .sin6_scope_id = (uint32_t)nic->index};
        inet_pton(AF_INET6, GROUP, &to.sin6_addr);
        (void)!sendto(probe->fd[0], &body, sizeof body, MSG_DONTWAIT, (struct sockaddr *)&to,
                      sizeof to);
    }
}

int br_agent_send_probes(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    int64_t times = br_json_number(request, "times", 5),
            gap = br_json_number(request, "gap_ms", 20);
    (void)reply;
    if (!agent->probe)
        return br_error(EINVAL, "send_probes comes after listen");
    struct timespec pause = {.tv_sec = gap / 1000, .tv_nsec = gap % 1000 * 1000000};
    for (int64_t t = 0; t < times; t++) {
        for (int i = 0; i < agent->probe->nics; i++)
            if (agent->probe->nic[i].up && agent->probe->speaks[i])
                send_probe(agent->probe, i);
        nanosleep(&pause, NULL);
    }
    return 0;
}

int br_agent_seen_probes(struct br_agent *agent, const cJSON *request, cJSON *reply)
{
    struct br_agent_probe *probe = agent->probe;
    (void)request;
    if (!probe)
        return br_error(EINVAL, "seen_probes comes after listen");
    cJSON *seen = cJSON_AddArrayToObject(reply, "seen");
    cJSON *lldp = cJSON_AddArrayToObject(reply, "lldp");
    pthread_mutex_lock(&probe->lock);
    for (int i = 0; i < probe->n_seen; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "on", probe->nic[probe->seen[i].on].name);
        cJSON_AddNumberToObject(object, "host", probe->seen[i].host);
        cJSON_AddStringToObject(object, "nic", probe->seen[i].nic);
        cJSON_AddNumberToObject(object, "count", probe->seen[i].count);
        cJSON_AddItemToArray(seen, object);
    }
    for (int i = 0; i < probe->n_lldp; i++) {
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "on", probe->nic[probe->lldp[i].on].name);
        cJSON_AddStringToObject(object, "system", probe->lldp[i].system);
        cJSON_AddStringToObject(object, "port", probe->lldp[i].port);
        cJSON_AddItemToArray(lldp, object);
    }
    pthread_mutex_unlock(&probe->lock);
    return 0;
}
