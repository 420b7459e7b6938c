/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a host has around its RDMA devices: modules, device nodes, interfaces and their addresses,
 * limits. Read from files and getifaddrs(), without libibverbs, to say why libibverbs finds
 * nothing. The functions that take `root` block in the file system: they read under that folder, ""
 * for the root of the file system, or a folder of a test. All may be called from any thread.
 */
#ifndef BR_TRANSPORT_VERBS_INVENTORY_H
#define BR_TRANSPORT_VERBS_INVENTORY_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/verbs/gid.h"

#define BR_VERBS_INTERFACES 64  /* The most interfaces that are read. */
#define BR_VERBS_ADDRESSES  256 /* The most addresses that are read. */
#define BR_VERBS_DEVICES    64  /* The most RDMA devices that are read. */
#define BR_VERBS_NAME       64  /* Bytes of a device's name, the final zero included. */

/* A network interface. */
struct br_verbs_interface {
    char name[IF_NAMESIZE];
    char driver[32]; /* Empty when there is none or it is unknown. */
    bool up, carrier, loopback;
};

/* An address of a network interface. */
struct br_verbs_address {
    uint8_t raw[BR_GID_BYTES]; /* The address as a GID. */
    char netdev[IF_NAMESIZE];  /* The interface that has it. */
};

struct br_verbs_inventory {
    char kernel[66]; /* The release of the kernel. */
    bool core;       /* The kernel has RDMA: there is /sys/class/infiniband. */
    bool soft_roce;  /* rdma_rxe is loaded, built in, or a module of this kernel. */
    bool nodes;      /* There are /dev/infiniband/uverbs*. */
    /* Bytes of memory that the process may lock; UINT64_MAX when no limit applies to it. */
    uint64_t memlock;
    int n_devices;
    /* The names in /sys/class/infiniband, sorted. */
    char devices[BR_VERBS_DEVICES][BR_VERBS_NAME];
    int n_interfaces;
    struct br_verbs_interface interfaces[BR_VERBS_INTERFACES]; /* Of this network namespace. */
    int n_addresses;
    struct br_verbs_address addresses[BR_VERBS_ADDRESSES]; /* Of these interfaces. */
};

/* Reads the inventory into *out. What cannot be read counts as not there. */
void br_verbs_inventory_read(struct br_verbs_inventory *out, const char *root);

/* Writes the first line of a file, without its end, to out[0..bytes); "" when it cannot be read.
 * format: the path below root. Returns out. */
const char *br_verbs_read_line(char *out, size_t bytes, const char *root, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Returns the interface of this name, in *s, or NULL for none. Does not block. */
const struct br_verbs_interface *br_verbs_interface(const struct br_verbs_inventory *s,
                                                    const char *name);
/* Returns the name, in *s, of the interface that has this address, or NULL for none. Does not
 * block. */
const char *br_verbs_netdev_of(const struct br_verbs_inventory *s, const uint8_t raw[BR_GID_BYTES]);

/* What sysfs says of a device or port beyond what libibverbs does. */

/* Returns the rate of a port in bit/s, or 0 when it is unknown. */
uint64_t br_verbs_rate(const char *root, const char *device, int port);
/* Returns the NUMA node of a device, or -1 when it is unknown. */
int br_verbs_numa_node(const char *root, const char *device);
/* Returns whether a device is soft-RoCE: it has no hardware below it, and names the interface that
 * it was made on. */
bool br_verbs_is_software(const char *root, const char *device);
/* Writes the name of the interface of a port to out; "" when there is none or it is unknown. */
void br_verbs_main_netdev(const char *root, const char *device, int port, char out[IF_NAMESIZE]);

#endif
