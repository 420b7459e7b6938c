/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far NICs are from a PCI device, a GPU, as hwloc knows the machine. For `braid info`; no
 * choice of braid's depends on it: rails use every NIC that they are given (BRAID_DEVICES), and
 * bytes of a GPU cross the host's memory.
 *
 * Which NICs there are is asked of hwloc alone: those on the PCI bus, by their interfaces and RDMA
 * devices, or, where a driver like DPDK's has them, by their address. HWLOC_XMLFILE puts the
 * description of another machine in place of this one.
 */
#ifndef BR_TOOLS_INFO_NIC_AFFINITY_H
#define BR_TOOLS_INFO_NIC_AFFINITY_H

/* The further, the greater. */
enum br_distance {
    BR_DISTANCE_SWITCH, /* behind one PCIe switch: bytes between them need not pass the processor */
    BR_DISTANCE_HOST_BRIDGE, /* through the root complex that both hang on */
    BR_DISTANCE_NODE,        /* through two of one NUMA node */
    BR_DISTANCE_SYSTEM,      /* over the link between processors */
    BR_DISTANCE_UNKNOWN,     /* the machine does not say which NUMA node one of them is next to */
};

struct br_nic_affinity_nic {
    char name[64]; /* "mlx5_0 eth2", or its address */
    enum br_distance distance;
};

struct br_nic_affinity;

/* Reads the machine: tens of ms. -EOPNOTSUPP with a message: this build has no hwloc; -EIO: hwloc
 * fails. */
int br_nic_affinity_open(struct br_nic_affinity **out);
void br_nic_affinity_close(struct br_nic_affinity *affinity); /* NULL allowed */

/* The NICs by their distance from the device at a PCI address ("0000:3b:00.0"), the nearest first.
 * Returns how many there are, at most `max`; -ENODEV with a message: hwloc sees no such device. */
int br_nic_affinity_nics(struct br_nic_affinity *affinity, const char *pci,
                         struct br_nic_affinity_nic *out, int max);

/* "same PCIe switch" */
const char *br_distance_text(enum br_distance distance);

#endif
