/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA devices of this host, usable or not: ports, states, rates, GIDs, and the choice among
 * them. Unless said otherwise, the functions block in the file system and the kernel. They may be
 * called from any thread.
 */
#ifndef BR_TRANSPORT_VERBS_PROBE_H
#define BR_TRANSPORT_VERBS_PROBE_H

#include "transport/transport.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/inventory.h"

#define BR_VERBS_DIAGNOSES 8 /* The most diagnoses of a host. */

struct br_verbs_diagnosis {
    char what[200];   /* What is wrong; empty when nothing is. */
    char remedy[200]; /* A command, or what to do; empty when that is unknown. */
};

/* The numbers are those of enum ibv_port_state. */
enum br_verbs_state {
    BR_VERBS_UNKNOWN,
    BR_VERBS_DOWN,
    BR_VERBS_INIT,
    BR_VERBS_ARMED,
    BR_VERBS_ACTIVE,
    BR_VERBS_DEFERRED
};

struct br_verbs_port {
    /* The name in BRAID_DEVICES: rxe0, or mlx5_0:2 for a port of a device with several. */
    char name[BR_DEVICE_NAME];
    char device[BR_VERBS_NAME]; /* The name of the device, such as mlx5_0. */
    char netdev[IF_NAMESIZE];   /* The port's interface; empty when there is none or unknown. */
    char firmware[64];          /* The version of the firmware. */
    int port; /* Counted from 1; 0 when the device could not be opened and its ports are unknown. */
    int error;       /* Positive errno of opening or querying it; ENODEV: not in libibverbs. */
    bool infiniband; /* The link layer is InfiniBand; else it is Ethernet. */
    bool software;   /* Soft-RoCE: a processor does the work of a NIC. */
    /* It has reliable connections with RDMA WRITE WITH IMM; iWARP and usNIC do not. */
    bool reliable;
    enum br_verbs_state state;
    int mtu, max_mtu;         /* Bytes. */
    uint64_t bits_per_second; /* The rate; 0 when it is unknown. */
    int numa_node;            /* -1 when it is unknown. */
    struct br_gid *gids;      /* The valid entries of its GID table, in order; owned by the host. */
    int n_gids;
    struct br_gid_wish wish;             /* What BRAID_GID_INDEX says, or any GID. */
    struct br_gid_choice choice;         /* The choice by this wish. */
    struct br_verbs_diagnosis diagnosis; /* Empty when the port can be used. */
};

struct br_verbs_host {
    struct br_verbs_inventory inventory;
    bool built;                  /* braid was built with the headers of libibverbs. */
    char library[200];           /* Why libibverbs cannot be used; empty when it was loaded. */
    char cm[200];                /* The same for librdmacm. */
    struct br_verbs_port *ports; /* n_ports of them, owned by the host. */
    int n_ports;
    int n_diagnoses;
    struct br_verbs_diagnosis diagnoses[BR_VERBS_DIAGNOSES]; /* Of the host as a whole. */
};

/* Reads everything about this host into *host. A host without RDMA is no error: host->diagnoses say
 * why. Returns 0, or with a message -EINVAL for a bad BRAID_GID_INDEX, or -ENOMEM. The caller calls
 * br_verbs_host_destroy() in any case. */
int br_verbs_host_read(struct br_verbs_host *host);
/* Frees what the host owns. Does not block. */
void br_verbs_host_destroy(struct br_verbs_host *host);

/*
 * Finds a port.
 *
 * name: a device (rxe0), of which the first usable port is taken, a port (mlx5_0:2), an interface
 *       (eth0), an IP address, or NULL for the first usable port.
 * gid: 1 + the GID index that the inventory names, 0 for none; BRAID_GID_INDEX goes before it.
 * choice: the port's GIDs, restricted to the interface or address that the name gives.
 *
 * Returns 0, and *out is in *host; or with a message -ENODEV when there is no such port, -ENETDOWN
 * when it cannot be used, or those of br_gid_choose().
 */
int br_verbs_port_find(const struct br_verbs_host *host, const char *name, uint32_t gid,
                       const struct br_verbs_port **out, struct br_gid_choice *choice);

/* Writes the interface of the port that br_verbs_port_find() finds by this name to out; "" when it
 * is unknown. Returns 0, or the errors of br_verbs_host_read() and br_verbs_port_find(). */
int br_verbs_netdev(const char *name, char out[IF_NAMESIZE]);

/* probe() of br_transport_ops, with one br_device_info for each port. */
int br_verbs_probe(struct br_device_info *out, int max);

/* Returns the name of a state, a static string; in diagnosis.c. Does not block. */
const char *br_verbs_state_name(enum br_verbs_state state);

/* For probe.c, from query.c: reads all ports through libibverbs into *host. Returns 0, or -ENOMEM,
 * or with a message -ENOENT or -ENOSYS when the library cannot be used. */
int br_verbs_query(struct br_verbs_host *host);

#endif
