/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BR_TRANSPORT_DPDK_MODULE_PORT_H
#define BR_TRANSPORT_DPDK_MODULE_PORT_H

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

#endif
