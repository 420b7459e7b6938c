/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The border between braid and DPDK: what braid_dpdk.so, which is loaded when a process first needs
 * it, does for the rest. Neither side knows the other's headers; batches of packets in plain memory
 * cross.
 *
 * The numbered notes are in doc/design/dpdk.md.
 */
#ifndef BR_TRANSPORT_DPDK_MODULE_H
#define BR_TRANSPORT_DPDK_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BR_DPDK_MODULE  "braid_dpdk.so"
#define BR_DPDK_SYMBOL  "br_dpdk_module"
#define BR_DPDK_VERSION 3u  /* of this header */
#define BR_DPDK_BURST   32  /* packets of one call, at most */
#define BR_DPDK_MESSAGE 400 /* bytes of an error in words */
#define BR_DPDK_ALLOWED 16  /* PCI devices */
/* Bytes of payload up to which a copy costs less than a second buffer. */
#define BR_DPDK_COPIED 1024

struct br_dpdk_start {
    const char *pci[BR_DPDK_ALLOWED]; /* addresses of the PCI devices that may be touched */
    int n_pci;
    uint32_t megabytes; /* of memory, where there are no huge pages */
    bool huge;          /* use huge pages */
    /* Takes a line that EAL or a driver has printed: as syslog has it, 3 is an error, 7 is
     * debugging. From any thread. */
    void (*log)(int level, const char *line);
};

struct br_dpdk_facts {
    char driver[32];
    uint8_t mac[6];
    uint16_t mtu; /* bytes of a packet behind its Ethernet header */
    bool sums;    /* fills in and checks checksums of IPv4 and UDP */
    bool memory;  /* packets stay in this host's memory: nothing can damage them */
    /* sends from any memory of the process, and is done with it when send() returns */
    bool direct;
    int numa_node;
    uint64_t bits_per_second; /* 0: unknown */
};

struct br_dpdk_arrival {
    const uint8_t *bytes;
    uint32_t n;
    bool checked; /* the port has found IPv4's and UDP's checksums right */
    bool damaged; /* ... wrong */
};

struct br_dpdk_leaving {
    const uint8_t *head; /* with the Ethernet header */
    uint32_t head_bytes;
    const uint8_t *payload; /* NULL: none */
    uint32_t payload_bytes;
    bool sums; /* the port is to fill in the checksums (facts.sums) */
};

struct br_dpdk_port;

/* Functions that return int: 0 or more, or -errno with a message[BR_DPDK_MESSAGE]. */
struct br_dpdk_module {
    uint32_t version; /* BR_DPDK_VERSION */
    /* Starts EAL; the second call and later ones do nothing. May block for a second. */
    int (*start)(const struct br_dpdk_start *start, char *text);
    /* Opens a port as DPDK's devargs name it: "net_memif0,role=client", "0000:03:00.0". mtu:
     * wanted; 0: the port's. all: it takes in packets for any MAC address. Blocks. -EBUSY: it is
     * open already. The calls below are for one thread at a time a port. */
    int (*open)(const char *devargs, uint16_t mtu, bool all, struct br_dpdk_port **out,
                struct br_dpdk_facts *facts, char *text);
    void (*close)(struct br_dpdk_port *port); /* blocks */
    bool (*is_up)(struct br_dpdk_port *port); /* has a link */
    /* Up to BR_DPDK_BURST packets, which stay readable until the next call. */
    int (*receive)(struct br_dpdk_port *port, struct br_dpdk_arrival *out);
    /* Takes packets in this order; returns how many (fewer than n: no room now). */
    int (*send)(struct br_dpdk_port *port, const struct br_dpdk_leaving *packets, int n);
    /* packets that arrived and found no buffer, so far */
    uint64_t (*dropped)(struct br_dpdk_port *port);
    /* bytes of payload that send() has copied, so far */
    uint64_t (*copied)(struct br_dpdk_port *port);
};

#endif
