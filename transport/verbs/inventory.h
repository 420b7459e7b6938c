/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host has around its RDMA devices: modules, device nodes, interfaces and their addresses,
 * limits. Read from files and getifaddrs(), without libibverbs: it is what tells why that finds
 * nothing. Blocks in the file system; for any thread.
 */
#ifndef BR_TRANSPORT_VERBS_INVENTORY_H
#define BR_TRANSPORT_VERBS_INVENTORY_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/verbs/gid.h"

#define BR_VERBS_INTERFACES 64
#define BR_VERBS_ADDRESSES  256
#define BR_VERBS_DEVICES    64 /* of the kernel, that we look at */
#define BR_VERBS_NAME       64 /* of a device in the kernel, the final zero included */

struct br_verbs_interface {
    char name[IF_NAMESIZE];
    char driver[32]; /* "": none, or not said */
    bool up, carrier, loopback;
};

struct br_verbs_address {
    uint8_t raw[BR_GID_BYTES]; /* as a GID */
    char netdev[IF_NAMESIZE];
};

struct br_verbs_inventory {
    char kernel[66]; /* its release */
    bool core;       /* the kernel has RDMA: /sys/class/infiniband */
    bool soft_roce;  /* rdma_rxe is loaded, built in, or a module of this kernel */
    bool nodes;      /* there are /dev/infiniband/uverbs* */
    /* bytes that may be locked; UINT64_MAX: no limit, or it does not hold for this process */
    uint64_t memlock;
    int n_devices; /* those of /sys/class/infiniband, in the order of their names */
    char devices[BR_VERBS_DEVICES][BR_VERBS_NAME];
    int n_interfaces; /* those of this network namespace */
    struct br_verbs_interface interfaces[BR_VERBS_INTERFACES];
    int n_addresses;
    struct br_verbs_address addresses[BR_VERBS_ADDRESSES];
};

/* root: "" or a folder that stands for the root of the file system, for tests. What cannot be read
 * counts as not there. */
void br_verbs_inventory_read(struct br_verbs_inventory *out, const char *root);

/* First line of the file root + path, without its end; "" when there is none. Returns out. */
const char *br_verbs_read_line(char *out, size_t bytes, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* NULL: there is none of this name. */
const struct br_verbs_interface *br_verbs_interface(const struct br_verbs_inventory *s,
                                                    const char *name);
/* The interface that has this address; NULL: none. */
const char *br_verbs_netdev_of(const struct br_verbs_inventory *s, const uint8_t raw[BR_GID_BYTES]);

/* What sysfs says of a port beyond what libibverbs does. */
uint64_t br_verbs_rate(const char *root, const char *device, int port); /* bit/s; 0: unknown */
int br_verbs_numa_node(const char *root, const char *device);           /* -1: unknown */
/* Soft-RoCE: it has no device below it, and names the interface that it was put on. */
bool br_verbs_is_software(const char *root, const char *device);
/* The interface that a port sits on; "": none, or not said. */
void br_verbs_main_netdev(const char *root, const char *device, int port, char out[IF_NAMESIZE]);

#endif
