/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens and closes one port of DPDK: one receive and one send queue. */

#include <errno.h>
#include <pthread.h>
#include <rte_errno.h>
#include <rte_mempool.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "transport/dpdk/module/module.h"

#define DESCRIPTORS 1024
#define MORE        512 /* buffers besides those of the queues */
#define CACHED      64  /* of them a thread keeps for itself, or half as many again */
#define ANY_SOCKET  ((unsigned)SOCKET_ID_ANY)
#define ETHERNET    18u /* header with a VLAN tag */
#define AGAIN_MS    20  /* between two attempts to reach the server of net_memif */
/* Half a minute: as long as the other one may take to start DPDK (PATIENCE of eal.c). */
#define ATTEMPTS 1500
#define PATIENCE 5 /* times AGAIN_MS for the server to answer a client */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* opening and closing */
static struct br_dpdk_port *ports;
static unsigned made; /* names of pools */

static const char *port_word(int rc)
{
    return rte_strerror(rc < 0 ? -rc : rc);
}

static int port_fail(char *text, int rc, const char *what)
{
    const char *said = br_dpdk_eal_last_log(), *hint = "";

    /* net_af_packet numbers its group by process ^ interface, and takes no number from us. */
    if (strstr(said, "PACKET_FANOUT"))
        hint = ". Another process here has a group of sockets with the same number: start again, "
               "or give each "
               "process a network namespace";
    return br_dpdk_message(text, rc < 0 ? -rc : EIO, "%s: %s%s%.200s%s", what, port_word(rc),
                           *said ? "; DPDK: " : "", said, hint);
}

/* Lets DPDK look at the device, if it has not done so when it started (PCI). */
static int port_attach(struct br_dpdk_port *port, const char *devargs, char *text)
{
    struct rte_eth_dev_info info;
    int rc = 0;

    if (rte_eth_dev_get_port_by_name(port->name, &port->id)) {
        rc = rte_dev_probe(devargs);
        if (!rc)
            rc = rte_eth_dev_get_port_by_name(port->name, &port->id);
        if (rc)
            return port_fail(text, rc, "no such port");
    }
    rc = rte_eth_dev_info_get(port->id, &info);
    if (rc)
        return port_fail(text, rc, "the port cannot be asked");
    port->device = info.device;
    return 0;
}

static bool is_memif(const struct rte_eth_dev_info *info)
{
    return !strcmp(info->driver_name, "net_memif");
}

/* Does the driver read all of a packet before its send function returns? Then any memory may be
 * sent from. The memif of later versions puts each part of a packet into a buffer of its own, and
 * leaves the mark "there is more" there for the next packet. */
static bool reads_at_once(const struct rte_eth_dev_info *info, const char *devargs)
{
    static const char *const drivers[] = {"net_af_packet", "net_tap"};

    if (!(info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) ||
        strstr(devargs, "zero-copy=yes"))
        return false;
    if (is_memif(info))
        return RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0);
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (!strcmp(info->driver_name, drivers[i]))
            return true;
    return false;
}

static void port_learn(struct br_dpdk_port *port, const char *devargs, uint16_t mtu,
                       const struct rte_eth_dev_info *info, struct br_dpdk_facts *facts)
{
    const uint64_t rx = RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
    const uint64_t tx = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    struct rte_ether_addr mac;
    uint16_t has = 0;

    memset(facts, 0, sizeof *facts);
    snprintf(facts->driver, sizeof facts->driver, "%s", info->driver_name);
    if (!rte_eth_macaddr_get(port->id, &mac))
        memcpy(facts->mac, mac.addr_bytes, sizeof facts->mac);
    facts->sums = (info->rx_offload_capa & rx) == rx && (info->tx_offload_capa & tx) == tx;
    facts->memory = is_memif(info);
    facts->direct = reads_at_once(info, devargs);
    facts->numa_node = rte_eth_dev_socket_id(port->id);
    facts->mtu = mtu ? mtu : rte_eth_dev_get_mtu(port->id, &has) ? 1500 : has;
}

/* net_af_packet wants buffers as long as the frames of its rings. */
static uint32_t frame_bytes(const char *devargs)
{
    const char *at = strstr(devargs, ",framesz=");
    unsigned bytes = 0;

    return at && sscanf(at, ",framesz=%u", &bytes) == 1 && bytes < UINT16_MAX ? bytes : 0;
}

/* Buffers that were freed last are handed out first, from a stack: they are in the caches. Without
 * librte-mempool-stack: round and round a ring. In front of it stands a cache for each thread that
 * EAL knows (burst.c). */
static struct rte_mempool *make_pool(const char *name, unsigned n, uint16_t room)
{
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create_by_ops(name, n, CACHED, 0, room, SOCKET_ID_ANY, "stack");

    return pool ? pool : rte_pktmbuf_pool_create(name, n, CACHED, 0, room, SOCKET_ID_ANY);
}

static int make_pools(struct br_dpdk_port *port, const char *devargs,
                      const struct br_dpdk_facts *facts, unsigned descriptors, char *text)
{
    unsigned n = descriptors + MORE, number = ++made;
    uint32_t packet = ETHERNET + facts->mtu, frame = frame_bytes(devargs);
    uint32_t room = RTE_PKTMBUF_HEADROOM + (packet > frame ? packet : frame);
    char name[32];

    room = RTE_ALIGN_CEIL(room < RTE_MBUF_DEFAULT_BUF_SIZE ? RTE_MBUF_DEFAULT_BUF_SIZE : room, 64);
    if (room > UINT16_MAX)
        return br_dpdk_message(text, EINVAL, "an MTU of %u is more than DPDK's buffers hold",
                               facts->mtu);
    snprintf(name, sizeof name, "braid-%u", number);
    port->pool = make_pool(name, n, (uint16_t)room);
    snprintf(name, sizeof name, "braid-tails-%u", number);
    if (port->pool && facts->direct)
        port->tails = make_pool(name, n, 0);
    if (!port->pool || (facts->direct && !port->tails))
        return br_dpdk_message(
            text, ENOMEM,
            "no memory for %u packets of %u bytes: raise BRAID_DPDK_MEMORY (MiB), or reserve "
            "huge pages",
            n, room);
    return 0;
}

static int set_up_queues(struct br_dpdk_port *port, const char *devargs,
                         const struct br_dpdk_facts *facts, char *text)
{
    struct rte_eth_conf conf = {.rxmode = {.mq_mode = RTE_ETH_MQ_RX_NONE}};
    uint16_t rx = DESCRIPTORS, tx = DESCRIPTORS;
    int rc;

    if (facts->sums) {
        conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM;
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;
    }
    if (facts->direct)
        conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
    rc = rte_eth_dev_configure(port->id, 1, 1, &conf);
    if (rc)
        return port_fail(text, rc, "the port takes no configuration");
    port->configured = true;
    rc = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &rx, &tx);
    if (rc)
        return port_fail(text, rc, "the port has no queues");
    rc = make_pools(port, devargs, facts, (unsigned)rx + tx, text);
    if (rc)
        return rc;
    if ((rc = rte_eth_rx_queue_setup(port->id, 0, rx, ANY_SOCKET, NULL, port->pool)) ||
        (rc = rte_eth_tx_queue_setup(port->id, 0, tx, ANY_SOCKET, NULL)))
        return port_fail(text, rc, "the port's queues cannot be set up");
    return 0;
}

/* Lets go of the lock meanwhile: the server of a client of memif may be of this process. */
static void pause_unlocked(void)
{
    static const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000L};

    pthread_mutex_unlock(&lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&lock);
}

/* A client of memif starts only if its server listens, which may be a rank that was started at the
 * same time. A server that listens but has not started yet sends it away, and it does not ask again
 * by itself: so no link soon after means to start anew. */
static int start_client(struct br_dpdk_port *port)
{
    int rc = -ENETDOWN, waited = 0;

    for (int i = 0; i < ATTEMPTS; i++, waited++) {
        if (rc) {
            rc = rte_eth_dev_start(port->id);
            waited = 0;
        }
        if (!rc && br_dpdk_port_is_up(port))
            return 0;
        if (!rc && waited == PATIENCE) {
            rte_eth_dev_stop(port->id);
            rc = -ENETDOWN;
        }
        pause_unlocked();
    }
    return rc ? rc : -ENETDOWN;
}

static int port_start(struct br_dpdk_port *port, const char *devargs, uint16_t mtu,
                      struct br_dpdk_facts *facts, char *text)
{
    struct rte_eth_dev_info info;
    struct rte_eth_link link;
    int rc = rte_eth_dev_info_get(port->id, &info);

    if (rc)
        return port_fail(text, rc, "the port cannot be asked");
    port_learn(port, devargs, mtu, &info, facts);
    port->direct = facts->direct;
    rc = set_up_queues(port, devargs, facts, text);
    if (rc)
        return rc;
    /* A virtual device carries what lies under it, whatever it answers. */
    rc = mtu ? rte_eth_dev_set_mtu(port->id, mtu) : 0;
    if (rc && strncmp(info.driver_name, "net_", 4) != 0)
        return port_fail(text, rc, "the port does not take this mtu");
    br_dpdk_eal_forget();
    rc = is_memif(&info) && !strstr(devargs, "role=server") ? start_client(port)
                                                            : rte_eth_dev_start(port->id);
    if (rc)
        return port_fail(text, rc, "the port does not start");
    if (!rte_eth_link_get_nowait(port->id, &link) && link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN)
        facts->bits_per_second = (uint64_t)link.link_speed * 1000000;
    return 0;
}

static void port_undo(struct br_dpdk_port *port)
{
    if (port->configured)
        rte_eth_dev_stop(port->id);
    rte_pktmbuf_free_bulk(port->held, port->n_held);
    if (port->device) {
        rte_eth_dev_close(port->id);
        rte_dev_remove(port->device);
    }
    rte_mempool_free(port->tails);
    rte_mempool_free(port->pool);
    free(port);
}

static struct br_dpdk_port *port_find(const char *name)
{
    struct br_dpdk_port *port = ports;

    while (port && strcmp(port->name, name) != 0)
        port = port->next;
    return port;
}

static void port_forget(const struct br_dpdk_port *port)
{
    for (struct br_dpdk_port **at = &ports; *at; at = &(*at)->next)
        if (*at == port) {
            *at = port->next;
            return;
        }
}

static int open_locked(struct br_dpdk_port *port, const char *devargs, uint16_t mtu,
                       struct br_dpdk_facts *facts, char *text)
{
    int rc;

    if (port_find(port->name))
        return br_dpdk_message(text, EBUSY,
                               "another device of this process has this port: give each its own");
    port->next = ports;
    ports = port;
    br_dpdk_eal_forget();
    rc = port_attach(port, devargs, text);
    if (!rc)
        rc = port_start(port, devargs, mtu, facts, text);
    return rc;
}

int br_dpdk_port_open(const char *devargs, uint16_t mtu, bool all, struct br_dpdk_port **out,
                      struct br_dpdk_facts *facts, char *text)
{
    struct br_dpdk_port *port = calloc(1, sizeof *port);
    int rc;

    if (!port)
        return br_dpdk_message(text, ENOMEM, "no memory");
    snprintf(port->name, sizeof port->name, "%.*s", (int)strcspn(devargs, ","), devargs);
    pthread_mutex_lock(&lock);
    rc = open_locked(port, devargs, mtu, facts, text);
    if (!rc && all && (rc = rte_eth_promiscuous_enable(port->id)))
        port_fail(text, rc, "the port does not take in packets for another MAC address");
    if (rc) {
        port_forget(port);
        port_undo(port);
    } else {
        *out = port;
    }
    pthread_mutex_unlock(&lock);
    return rc;
}

void br_dpdk_port_close(struct br_dpdk_port *port)
{
    pthread_mutex_lock(&lock);
    port_forget(port);
    port_undo(port);
    pthread_mutex_unlock(&lock);
}

bool br_dpdk_port_is_up(struct br_dpdk_port *port)
{
    struct rte_eth_link link;

    return !rte_eth_link_get_nowait(port->id, &link) && link.link_status;
}

uint64_t br_dpdk_port_dropped(struct br_dpdk_port *port)
{
    struct rte_eth_stats stats;

    return rte_eth_stats_get(port->id, &stats) ? 0 : stats.imissed + stats.rx_nombuf;
}

uint64_t br_dpdk_port_copied(struct br_dpdk_port *port)
{
    return port->copied;
}
