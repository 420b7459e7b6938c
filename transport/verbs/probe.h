/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMA devices of this host, usable or not: ports, states, rates, GIDs, and the choice among
 * them. Everything here blocks in the file system and the kernel, and may be called from any
 * thread.
 */
#ifndef BR_TRANSPORT_VERBS_PROBE_H
#define BR_TRANSPORT_VERBS_PROBE_H

#include "transport/transport.h"
#include "transport/verbs/gid.h"
#include "transport/verbs/inventory.h"

#define BR_VERBS_DIAGNOSES 8

struct br_verbs_diagnosis {
    char what[200];   /* "": none */
    char remedy[200]; /* a command, or what to do; "": nothing known */
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
    /* what BRAID_DEVICES calls it: rxe0, or mlx5_0:2 of a device with several ports */
    char name[BR_DEVICE_NAME];
    char device[BR_VERBS_NAME]; /* mlx5_0 */
    char netdev[IF_NAMESIZE];   /* the interface it sits on; "": none, or unknown */
    char firmware[64];
    int port;        /* from 1; 0: the device could not be opened, of its ports nothing is known */
    int error;       /* errno of opening or asking it; ENODEV: libibverbs does not list it */
    bool infiniband; /* link layer; else Ethernet */
    bool software;   /* soft-RoCE: a processor does the work of a NIC */
    /* has reliable connections with RDMA WRITE WITH IMM: neither iWARP nor usNIC */
    bool reliable;
    enum br_verbs_state state;
    int mtu, max_mtu;         /* bytes */
    uint64_t bits_per_second; /* 0: unknown */
    int numa_node;            /* -1: unknown */
    struct br_gid *gids;      /* the valid entries of its table, in its order */
    int n_gids;
    struct br_gid_wish wish;             /* BRAID_GID_INDEX; else any */
    struct br_gid_choice choice;         /* by this wish */
    struct br_verbs_diagnosis diagnosis; /* empty: usable */
};

struct br_verbs_host {
    struct br_verbs_inventory inventory;
    bool built;        /* braid was built with libibverbs' headers */
    char library[200]; /* why libibverbs cannot be used; "": it was loaded */
    char cm[200];      /* the same of librdmacm */
    struct br_verbs_port *ports;
    int n_ports;
    int n_diagnoses;
    struct br_verbs_diagnosis diagnoses[BR_VERBS_DIAGNOSES]; /* of the host as a whole */
};

/* Looks at everything. That there is nothing is no error: host->troubles say why. -EINVAL with
 * words: BRAID_GID_INDEX; -ENOMEM. In any case to be destroyed. */
int br_verbs_host_read(struct br_verbs_host *host);
void br_verbs_host_destroy(struct br_verbs_host *host);

/*
 * The port that a name means: a device (rxe0; its first usable port), a port (mlx5_0:2), an
 * interface (eth0), an IP address, or NULL: the first usable port. choice: its GIDs, with what the
 * name says of interface and address; gid: 1 + the index that the inventory names, 0: none;
 * BRAID_GID_INDEX goes before it. -ENODEV, -ENETDOWN (not usable), -EADDRNOTAVAIL, -EINVAL, each
 * with a message.
 */
int br_verbs_port_find(const struct br_verbs_host *host, const char *name, uint32_t gid,
                       const struct br_verbs_port **out, struct br_gid_choice *choice);

/* The interface behind what a name means, as br_verbs_port_find() reads it; out "": none is known.
 * The same errors. */
int br_verbs_netdev(const char *name, char out[IF_NAMESIZE]);

/* br_transport_ops.probe: a device_info a port. */
int br_verbs_probe(struct br_device_info *out, int max);

const char *br_verbs_state_name(enum br_verbs_state state);

/* For probe.c, from query.c: asks libibverbs for all ports. -ENOMEM; -ENOENT, -ENOSYS with a
 * message: no library. */
int br_verbs_query(struct br_verbs_host *host);

#endif
