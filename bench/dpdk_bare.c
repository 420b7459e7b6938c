/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a virtual device of DPDK carries without any protocol: bursts of packets as fast as the
 * driver takes them, and a reader, which says how much came. Both copy the payload out of and into
 * memory of their own, as a program that has data must; with --untouched neither does.
 *
 *   dpdk_bare [options] send DEVARGS       for a time
 *   dpdk_bare [options] receive DEVARGS    until nothing has come for 0.3 s; prints Gbit/s of
 *                                          payload, packets a second
 *   dpdk_bare [options] ping DEVARGS       prints the round trip, median and 99th of a hundred, us
 *   dpdk_bare [options] pong DEVARGS       answers until nothing has come for 0.3 s
 */
#include <errno.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "tools/common/options.h"

#define BURST       32
#define DESCRIPTORS 1024
#define HEADERS     42u       /* Ethernet, IPv4, UDP */
#define AREA        (4 << 20) /* memory that is gone round in, as in transport_pingpong */
#define QUIET       (300 * BR_MS)
#define PATIENCE    (20 * BR_SEC) /* for the first packet, and for the link */
#define ANSWER      (200 * BR_MS) /* for the link to come up */
#define KIND        0x88b5        /* EtherType for experiments */

static uint8_t area[AREA];
static size_t at; /* in it */
static bool touches = true;
static uint16_t port;
static struct rte_mempool *pool;

static void __attribute__((noreturn)) die(const char *what, int rc)
{
    fprintf(stderr, "dpdk_bare: %s: %s\n", what, rte_strerror(rc < 0 ? -rc : rte_errno));
    exit(1);
}

static void must(int rc, const char *what)
{
    if (rc < 0)
        die(what, rc);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static void start_dpdk(const char *devargs, const char *cpu)
{
    char lcores[32], prefix[32], device[256];
    char *arguments[] = {"dpdk_bare",   "--no-huge",      "-m",   "256",  "--no-pci",
                         "--no-shconf", "--no-telemetry", lcores, prefix, "--log-level=3",
                         "--vdev",      device,           NULL};

    snprintf(lcores, sizeof lcores, "--lcores=0@%s", cpu);
    snprintf(prefix, sizeof prefix, "--file-prefix=bare-%d", (int)getpid());
    snprintf(device, sizeof device, "%s", devargs);
    must(rte_eal_init((int)(sizeof arguments / sizeof *arguments) - 1, arguments),
         "DPDK does not start");
}

static bool wait_for_link(void)
{
    uint64_t until = br_clock_now() + ANSWER;
    struct rte_eth_link link = {0};

    while (!link.link_status && br_clock_now() < until) {
        usleep(1000);
        rte_eth_link_get_nowait(port, &link);
    }
    return link.link_status;
}

static void open_port(unsigned mtu)
{
    struct rte_eth_conf conf = {0};
    /* net_af_packet wants buffers as long as the frames of its rings. */
    uint16_t room = RTE_PKTMBUF_HEADROOM + (mtu > 1900 ? 12288 : 2048);
    uint64_t until = br_clock_now() + PATIENCE;
    int rc;

    if (!rte_eth_dev_count_avail())
        die("there is no such device", -ENODEV);
    pool = rte_pktmbuf_pool_create("bare", 3 * DESCRIPTORS - 1, 256, 0, room, SOCKET_ID_ANY);
    if (!pool)
        die("no memory", 0);
    must(rte_eth_dev_configure(port, 1, 1, &conf), "configure");
    must(rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL, pool),
         "receive queue");
    must(rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, (unsigned)SOCKET_ID_ANY, NULL), "send queue");
    /* The other end of net_memif may not listen yet, or listen and not have started: then it sends
     * us away. */
    while (((rc = rte_eth_dev_start(port)) || !wait_for_link()) && br_clock_now() < until) {
        if (rc)
            usleep(20000);
        else
            rte_eth_dev_stop(port);
    }
    must(rc, "start");
    if (!wait_for_link())
        die("no link", -ENETDOWN);
}

/* ---- packets --------------------------------------------------------------------------------- */

static uint8_t *next_place(uint32_t bytes)
{
    at = at + bytes > AREA ? 0 : at;
    at += bytes;
    return area + at - bytes;
}

static void fill(struct rte_mbuf *mbuf, uint32_t payload)
{
    uint8_t *to = rte_pktmbuf_mtod(mbuf, uint8_t *);
    static const uint8_t head[HEADERS] = {
        [0] = 2, [5] = 2, [6] = 2, [11] = 1, [12] = KIND >> 8, [13] = KIND & 0xff};

    memcpy(to, head, sizeof head);
    if (touches)
        memcpy(to + sizeof head, next_place(payload), payload);
    mbuf->data_len = (uint16_t)(HEADERS + payload);
    mbuf->pkt_len = HEADERS + payload;
}

/* Takes the payload in; returns its bytes, 0: not one of ours. */
static uint32_t take(const struct rte_mbuf *mbuf)
{
    const uint8_t *from = rte_pktmbuf_mtod(mbuf, const uint8_t *);

    if (mbuf->data_len <= HEADERS || from[12] != KIND >> 8 || from[13] != (KIND & 0xff))
        return 0;
    if (touches)
        memcpy(next_place(mbuf->data_len - HEADERS), from + HEADERS, mbuf->data_len - HEADERS);
    return mbuf->data_len - HEADERS;
}

static void send_all(struct rte_mbuf **mbufs, uint16_t n)
{
    for (uint16_t sent = 0; sent < n;)
        sent = (uint16_t)(sent + rte_eth_tx_burst(port, 0, mbufs + sent, n - sent));
}

static void send_for(uint32_t payload, double seconds)
{
    uint64_t end = br_clock_now() + (uint64_t)(seconds * 1e9);
    struct rte_mbuf *mbufs[BURST];

    while (br_clock_now() < end) {
        if (rte_pktmbuf_alloc_bulk(pool, mbufs, BURST))
            continue; /* all are on their way */
        for (int i = 0; i < BURST; i++)
            fill(mbufs[i], payload);
        send_all(mbufs, BURST);
    }
    usleep(100000); /* what is in the device's queue leaves */
}

static void receive(void)
{
    uint64_t begun = br_clock_now(), first = 0, last = begun, packets = 0, bytes = 0;
    struct rte_mbuf *mbufs[BURST];

    while (br_clock_now() - last < (first ? QUIET : PATIENCE)) {
        uint16_t n = rte_eth_rx_burst(port, 0, mbufs, BURST);
        uint64_t before = packets;

        for (uint16_t i = 0; i < n; i++) {
            uint32_t payload = take(mbufs[i]);

            packets += payload > 0;
            bytes += payload;
        }
        rte_pktmbuf_free_bulk(mbufs, n);
        if (packets == before)
            continue;
        last = br_clock_now();
        first = first ? first : last;
    }
    printf("%.2f %.0f\n", (double)bytes * 8 / (double)(last - first),
           (double)packets * 1e9 / (double)(last - first));
}

/* ---- round trips ----------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void send_one(uint32_t payload)
{
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);

    if (!mbuf)
        die("no buffer", -ENOMEM);
    fill(mbuf, payload);
    send_all(&mbuf, 1);
}

/* The payload of one packet of ours; 0: none has come in time. */
static uint32_t await(uint64_t patience)
{
    uint64_t until = br_clock_now() + patience;
    struct rte_mbuf *mbuf;
    uint32_t payload = 0;

    while (!payload && br_clock_now() < until) {
        if (!rte_eth_rx_burst(port, 0, &mbuf, 1))
            continue;
        payload = take(mbuf);
        rte_pktmbuf_free(mbuf);
    }
    return payload;
}

static void ping(uint32_t payload, int count)
{
    uint64_t *took = calloc((size_t)count, sizeof *took);

    if (!took)
        die("no memory", -ENOMEM);
    for (int i = -count / 10; i < count; i++) {
        uint64_t start = br_clock_now();

        send_one(payload);
        if (!await(i == -count / 10 ? PATIENCE : QUIET))
            die("no answer", -ETIMEDOUT);
        if (i >= 0)
            took[i] = br_clock_now() - start;
    }
    qsort(took, (size_t)count, sizeof *took, by_value);
    printf("%.2f %.2f\n", (double)took[count / 2] / 1e3,
           (double)took[(size_t)count * 99 / 100] / 1e3);
    free(took);
}

static void pong(void)
{
    uint32_t payload;

    for (uint64_t patience = PATIENCE; (payload = await(patience)); patience = QUIET)
        send_one(payload);
}

int main(int argc, char **argv)
{
    const char *cpu = "0", *mode, *usage = "dpdk_bare [options] send|receive|ping|pong DEVARGS";
    int64_t mtu = 1500, payload = 32, count = 1000;
    double seconds = 1;
    bool untouched = false;
    const struct br_option options[] = {
        {"cpu", 'c', BR_OPTION_TEXT, &cpu, 0, 0, "N processor; default 0"},
        {"mtu", 'm', BR_OPTION_NUMBER, &mtu, 68, 65535, "BYTES default 1500"},
        {"size", 's', BR_OPTION_BYTES, &payload, 1, 65507,
         "SIZE send, ping: payload of a packet; default 32"},
        {"duration", 'D', BR_OPTION_DECIMAL, &seconds, 0, 3600, "SECONDS send; default 1"},
        {"iters", 'n', BR_OPTION_NUMBER, &count, 1, 100000000, "N ping: round trips; default 1000"},
        {"untouched", 'z', BR_OPTION_FLAG, &untouched, 0, 0, " the payload is not copied"},
        {0},
    };
    struct br_arguments arguments;
    int rc = br_arguments_parse(&arguments, options, usage, argc, argv);

    if (!rc && (arguments.count != 2 || arguments.command))
        rc = br_error(EINVAL, "write it as: %s", usage);
    if (!rc && payload > mtu - 28)
        rc = br_error(EINVAL, "--size %d: a packet of --mtu %d has at most %d", (int)payload,
                      (int)mtu, (int)mtu - 28);
    mode = arguments.operands[0];
    if (!rc && strcmp(mode, "send") != 0 && strcmp(mode, "receive") != 0 &&
        strcmp(mode, "ping") != 0 && strcmp(mode, "pong") != 0)
        rc = br_error(EINVAL, "'%s': %s", mode, usage);
    if (rc < 0)
        fprintf(stderr, "dpdk_bare: %s\n", br_error_message());
    if (rc)
        return rc < 0 ? 2 : 0;
    touches = !untouched;
    memset(area, 1, sizeof area);
    start_dpdk(arguments.operands[1], cpu);
    open_port((unsigned)mtu);
    if (!strcmp(mode, "send"))
        send_for((uint32_t)payload, seconds);
    else if (!strcmp(mode, "ping"))
        ping((uint32_t)payload, (int)count);
    else if (!strcmp(mode, "receive"))
        receive();
    else
        pong();
    rte_eth_dev_stop(port);
    rte_eth_dev_close(port);
    return 0;
}
