/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions of one protection domain: what region_register() makes of a region, and the back
 * end's own buffers. region->keys[index] is its struct ibv_mr.
 *
 * 1. All payload memory of the user's gets the same access: local write, remote write and read.
 *    Which side a buffer will be on is not known when it is registered, and registering twice would
 *    pin twice. Buffers of braid's own into which no peer writes are closed to them.
 * 2. Relaxed ordering is asked for everywhere. It lets the NIC's writes pass each other on PCIe, so
 *    nobody may look for a message in memory before its completion: braid never does, it takes the
 *    completion's word. It is an optional flag: a kernel or a device that does not know it leaves
 *    it away (ibv_reg_mr_iova2; the plain ibv_reg_mr symbol does not, so it is not given the flag).
 * 3. GPU memory goes in by its dma-buf. Without one (-1), or where kernel, provider or device
 *    cannot import it (EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS), by its address, which works when a
 *    peer-memory module (nvidia_peermem) answers for it; the log names that way once. Failing both,
 *    the message names both. The copies of braid's own stay out of this: the CPU cannot read such
 *    memory.
 * 4. fork(): ibv_fork_init() is not called. From Linux 5.12 on (ibv_is_fork_initialized() =
 *    IBV_FORK_UNNEEDED) the kernel copies pinned pages for the child, and the parent keeps those
 *    that the NIC knows. On older kernels a child that lives on without exec() can take them away;
 *    RDMAV_FORK_SAFE=1 in the environment is libibverbs' remedy (madvise(MADV_DONTFORK)). Rejected:
 *    to set it ourselves. It takes pages from the child that it may need, and it needs a list of
 *    every registration in libibverbs, which asks for the memory in one munmap() after
 *    deregistering: not what a cache does.
 * 5. What was registered is deregistered outside of all locks of the monitor (monitor.h, note 3).
 */
#ifndef BR_TRANSPORT_VERBS_MEMORY_H
#define BR_TRANSPORT_VERBS_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "transport/transport.h"

/* libibverbs' functions, loaded at run time (or a test's), for one device. Belongs to the worker,
 * no locks. */
struct br_verbs_registrar {
    struct ibv_pd *pd;
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t bytes, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
                                   /* NULL: too old a library; no relaxed ordering */
                                   unsigned int access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access); /* NULL: too old a library */
    int (*dereg_mr)(struct ibv_mr *mr);
    const char *name; /* of the device, for words */
    struct br_device_counters *counters;
    bool quiet;       /* says and counts nothing of note 3 */
    bool peer_memory; /* it has come to pass, and was said */
};

enum br_verbs_access {
    BR_VERBS_ACCESS_LOCAL,  /* only what this device posts itself */
    BR_VERBS_ACCESS_REMOTE, /* also who has the remote key, through a queue pair that lets him */
};

/* Pins [memory, +bytes) and gives it keys: 0, or -errno with a message: -ENOMEM with what to do
 * about the limit of locked memory, -EFAULT: not mapped or not writable. May take milliseconds:
 * never on the data path. */
int br_verbs_pin(struct br_verbs_registrar *registrar, void *memory, size_t bytes,
                 enum br_verbs_access access, struct ibv_mr **out);
/* true: the NIC knows the memory no more (NULL: never did). false, logged: it may still write
 * there, so it must not be freed. */
bool br_verbs_unpin(struct br_verbs_registrar *registrar, struct ibv_mr *mr);

/* The operations of the same names, for the device in whose keys[index] they lie. */
int br_verbs_region_register(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region);
void br_verbs_region_release(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region);

/* The keys of a frame's or slot's region; NULL: it has none with this device (region may be
 * NULL). */
static inline struct ibv_mr *br_verbs_region_mr(const struct br_region *region, int index)
{
    return region ? region->keys[index] : NULL;
}

#endif
