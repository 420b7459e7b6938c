/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this host and what stands between their memory and the NICs, for `braid info`.
 * Blocks: initialises the driver. */
#ifndef BR_GPU_INVENTORY_H
#define BR_GPU_INVENTORY_H

#include <stdbool.h>

#include "gpu/driver.h"

/* One GPU. */
struct br_gpu_info {
    char name[96];
    char pci[32];   /* 0000:18:00.0, lower case, as in sysfs */
    int capability; /* 90: sm_90 */
    int numa_node;  /* -1: unknown */
    unsigned long long bytes;
    bool dmabuf; /* the driver exports its memory */
    /* "": the driver gives a handle by which other processes map its memory; else why not */
    char sharing[256];
    /* "": a write and a read-back over the copy engines are well; else what failed */
    char copies[256];
};

/* How many; out has room for BR_GPUS. 0 and negative errno with a message that names the mend:
 * none, as br_cuda_driver() says. */
int br_gpu_inventory(struct br_gpu_info *out);

/* Why NICs of this host may not reach GPU memory, as far as sysfs under `root` ("" for /) tells, in
 * words with the mend; "": nothing is seen. Returns out. */
/* the second way: the peer-memory module */
const char *br_gpu_peer_memory(const char *root, char out[256]);
/* translation between NIC and GPU */
const char *br_gpu_iommu(const char *root, char out[256]);

#endif
