/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ports of DPDK that exist in this process only, with a cable between them, in place of the
 * module. What is sent stands at the other port at once; a burst of packets counts as one. */
#ifndef BR_TESTS_TRANSPORT_DPDK_CABLE_H
#define BR_TESTS_TRANSPORT_DPDK_CABLE_H

#include "transport/transport.h"

/* The ports are called net_cable0 and net_cable1, and have addresses 10.0.0.1 and 10.0.0.2. */
void cable_install(void);
void cable_remove(void);

/* Since cable_install(): calls of send(), packets in them; of receive(). */
struct cable_counts {
    unsigned bursts, packets, looks;
};
struct cable_counts cable_counts(int port);
/* A port that is full takes no packets. */
void cable_fill(int port, bool full);
/* Of the latest packet that has left a port. */
uint8_t cable_last_byte(int port);

/* Two devices of the dpdk back end at the ends of the cable, and a trusted link between them. */
struct cable_end {
    struct br_slot_table slots;
    struct br_device_config config;
    struct br_device *device;
    struct br_link *link;
    uint8_t place[1 << 16];
    struct br_slot *slot; /* over place */
};
void cable_connect(struct cable_end ends[2], uint64_t *now);
void cable_disconnect(struct cable_end ends[2]);
/* Posts `bytes` of our place, a multiple of 1024 (or all), to the same offset of the other
 * end's. */
void cable_write(struct cable_end *from, struct cable_end *to, uint32_t bytes);

#endif
