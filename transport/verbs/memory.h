/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions of one protection domain: what region_register() makes of a region, and the back
 * end's own buffers. region->keys[index] is its struct ibv_mr.
 *
 * The numbered notes, about access, relaxed ordering, memory of GPUs and fork(), are in
 * doc/design/verbs.md.
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
