/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the module share. They know nothing of braid but transport/dpdk/module.h. */
#ifndef BR_TRANSPORT_DPDK_MODULE_MODULE_H
#define BR_TRANSPORT_DPDK_MODULE_MODULE_H

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "transport/dpdk/module.h"

struct br_dpdk_port {
    struct br_dpdk_port *next; /* of the open ones */
    char name[RTE_ETH_NAME_MAX_LEN];
    uint16_t id;
    struct rte_device *device;
    bool configured, direct;
    struct rte_mempool *pool; /* buffers of whole packets */
    /* without memory of their own: payload that is sent from where it lies */
    struct rte_mempool *tails;
    struct rte_mbuf *held[BR_DPDK_BURST]; /* given out by the latest receive() */
    unsigned n_held;
    uint64_t copied; /* bytes of payload, into buffers */
};

/* -err, with a message[BR_DPDK_MESSAGE]. */
int br_dpdk_message(char *text, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* eal.c */
int br_dpdk_eal_start(const struct br_dpdk_start *start, char *text);
/* The first line of an error that EAL or a driver has printed since br_dpdk_eal_forget(); "": none.
 * For the thread that holds the lock of ports. */
void br_dpdk_eal_forget(void);
const char *br_dpdk_eal_last_log(void);

/* port.c, burst.c: see struct br_dpdk_module. */
int br_dpdk_port_open(const char *devargs, uint16_t mtu, bool all, struct br_dpdk_port **out,
                      struct br_dpdk_facts *facts, char *text);
void br_dpdk_port_close(struct br_dpdk_port *port);
bool br_dpdk_port_is_up(struct br_dpdk_port *port);
uint64_t br_dpdk_port_dropped(struct br_dpdk_port *port);
uint64_t br_dpdk_port_copied(struct br_dpdk_port *port);
int br_dpdk_port_receive(struct br_dpdk_port *port, struct br_dpdk_arrival *out);
int br_dpdk_port_send(struct br_dpdk_port *port, const struct br_dpdk_leaving *packets, int n);

#endif
