/* SPDX-License-Identifier: BSD-3-Clause */
/* The data path of the module. */
#include <pthread.h>
#include <rte_ip.h>
#include <rte_lcore.h>
#include <rte_prefetch.h>
#include <stdatomic.h>
#include <string.h>

#include "transport/dpdk/module/module.h"

/* Threads that have one at a time: what lies in them idle stays below the MORE of port.c. */
#define CACHES 4
#define RIGHT  (RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD)

/* ---- threads --------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool have_key;
static atomic_int caches;

static void burst_leave(void *unused)
{
    (void)unused;
    rte_thread_unregister();
    atomic_fetch_sub(&caches, 1);
}

static void make_key(void)
{
    have_key = !pthread_key_create(&key, burst_leave);
}

/* A thread that EAL knows has a cache of buffers in front of each pool; without it each buffer
 * costs two locked instructions. Few threads have one: buffers that lie in the caches of threads
 * which do not drive any more are nobody's. */
static void burst_join(void)
{
    /* Space for variables of this kind is scarce in a module, but one byte there is, and it costs
     * no call. */
    static _Thread_local bool asked __attribute__((tls_model("initial-exec")));

    if (asked)
        return;
    asked = true;
    pthread_once(&once, make_key);
    if (!have_key || rte_lcore_id() != LCORE_ID_ANY)
        return;
    if (atomic_fetch_add(&caches, 1) < CACHES && !rte_thread_register()) {
        if (!pthread_setspecific(key, &key))
            return;
        rte_thread_unregister(); /* nobody would do so when the thread ends */
    }
    atomic_fetch_sub(&caches, 1);
}

/* ---- packets --------------------------------------------------------------------------------- */

static void look_at(const struct rte_mbuf *mbuf, struct br_dpdk_arrival *out)
{
    uint64_t ip = mbuf->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK,
             udp = mbuf->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK;

    *out = (struct br_dpdk_arrival){
        .bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *),
        /* buffers hold the MTU: a chain is too long for us */
        .n = mbuf->nb_segs == 1 ? mbuf->data_len : 0,
        .checked = (ip | udp) == RIGHT,
        .damaged = ip == RTE_MBUF_F_RX_IP_CKSUM_BAD || udp == RTE_MBUF_F_RX_L4_CKSUM_BAD,
    };
}

int br_dpdk_port_receive(struct br_dpdk_port *port, struct br_dpdk_arrival *out)
{
    burst_join();
    if (port->n_held)
        rte_pktmbuf_free_bulk(port->held, port->n_held);
    port->n_held = rte_eth_rx_burst(port->id, 0, port->held, BR_DPDK_BURST);
    for (unsigned i = 0; i < port->n_held; i++) {
        rte_prefetch0(rte_pktmbuf_mtod(port->held[i], void *));
        /* The second line has our own header. */
        rte_prefetch0(rte_pktmbuf_mtod_offset(port->held[i], void *, RTE_CACHE_LINE_SIZE));
    }
    for (unsigned i = 0; i < port->n_held; i++)
        look_at(port->held[i], &out[i]);
    return (int)port->n_held;
}

static void ask_for_sums(struct rte_mbuf *mbuf)
{
    mbuf->l2_len = sizeof(struct rte_ether_hdr);
    mbuf->l3_len = sizeof(struct rte_ipv4_hdr);
    mbuf->ol_flags |= RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_UDP_CKSUM;
}

/* Hangs the payload behind the head, where it lies. The driver is done with it when its send
 * function returns (facts.direct), so nobody else ever holds the tail: it needs no count of who
 * does, as DPDK's external buffers have, at two locked instructions a packet. */
static void burst_hang(struct rte_mbuf *mbuf, struct rte_mbuf *tail,
                       const struct br_dpdk_leaving *packet)
{
    tail->buf_addr = (void *)(uintptr_t)packet->payload;
    tail->buf_len = tail->data_len = (uint16_t)packet->payload_bytes;
    tail->data_off = 0;
    mbuf->next = tail;
    mbuf->nb_segs = 2;
    mbuf->pkt_len += packet->payload_bytes;
}

/* tail: NULL, or for the payload. */
static void burst_fill(struct br_dpdk_port *port, struct rte_mbuf *mbuf,
                       const struct br_dpdk_leaving *packet, struct rte_mbuf *tail)
{
    uint8_t *to = rte_pktmbuf_mtod(mbuf, uint8_t *);

    memcpy(to, packet->head, packet->head_bytes);
    mbuf->data_len = (uint16_t)packet->head_bytes;
    mbuf->pkt_len = packet->head_bytes;
    if (packet->sums)
        ask_for_sums(mbuf);
    if (!packet->payload_bytes)
        return;
    if (tail) {
        burst_hang(mbuf, tail, packet);
        return;
    }
    memcpy(to + packet->head_bytes, packet->payload, packet->payload_bytes);
    port->copied += packet->payload_bytes;
    mbuf->data_len = (uint16_t)(mbuf->data_len + packet->payload_bytes);
    mbuf->pkt_len = mbuf->data_len;
}

static bool burst_hangs(const struct br_dpdk_port *port, const struct br_dpdk_leaving *packet)
{
    return port->direct && packet->payload_bytes > BR_DPDK_COPIED;
}

static void fill_all(struct br_dpdk_port *port, struct rte_mbuf **mbufs,
                     const struct br_dpdk_leaving *packets, int n)
{
    struct rte_mbuf *tails[BR_DPDK_BURST];
    unsigned wanted = 0;

    for (int i = 0; i < n; i++)
        wanted += burst_hangs(port, &packets[i]);
    if (wanted && rte_pktmbuf_alloc_bulk(port->tails, tails, wanted))
        wanted = 0; /* payloads are copied */
    for (int i = 0; i < n; i++)
        burst_fill(port, mbufs[i], &packets[i],
                   wanted && burst_hangs(port, &packets[i]) ? tails[--wanted] : NULL);
}

int br_dpdk_port_send(struct br_dpdk_port *port, const struct br_dpdk_leaving *packets, int n)
{
    struct rte_mbuf *mbufs[BR_DPDK_BURST];
    unsigned sent;

    burst_join();
    if (n > BR_DPDK_BURST)
        n = BR_DPDK_BURST;
    while (n > 0 && rte_pktmbuf_alloc_bulk(port->pool, mbufs, (unsigned)n))
        n /= 2; /* as many as there are: what has been sent comes back only while more is */
    if (n <= 0)
        return 0;
    fill_all(port, mbufs, packets, n);
    sent = rte_eth_tx_burst(port->id, 0, mbufs, (uint16_t)n);
    if (sent < (unsigned)n)
        rte_pktmbuf_free_bulk(mbufs + sent, (unsigned)n - sent);
    return (int)sent;
}
