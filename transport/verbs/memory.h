/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory regions of one protection domain: those of region_register(), and the back end's own
 * buffers. region->keys[index] is the struct ibv_mr of a region.
 *
 * All functions are called under the worker's lock.
 *
 * The numbered notes, about access, relaxed ordering, memory of GPUs and fork(), are in
 * doc/design/verbs.md.
 */
#ifndef BR_TRANSPORT_VERBS_MEMORY_H
#define BR_TRANSPORT_VERBS_MEMORY_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "transport/transport.h"

/* The functions of libibverbs, loaded at run time, or those of a test, for one device. A call is
 * made as the manual page of the function says. */
struct br_verbs_registrar {
    struct ibv_pd *pd;
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *address, size_t bytes, int access);
    /* NULL where the library is too old; then memory has no relaxed ordering. */
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
                                   unsigned int access);
    /* NULL where the library is too old. */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
                                    int fd, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    const char *name; /* The name of the device, for messages. */
    struct br_device_counters *counters;
};

/* Who may use memory. */
enum br_verbs_access {
    BR_VERBS_ACCESS_LOCAL,  /* Only the work requests of this device. */
    BR_VERBS_ACCESS_REMOTE, /* Also a peer with the remote key, if the queue pair allows writes. */
};

/* Pins [memory, memory + bytes) and gives it keys. Returns 0, and *out belongs to the caller until
 * br_verbs_unpin(); or a negative errno with a message: -ENOMEM, which says what to do about the
 * limit of locked memory, or -EFAULT when the memory is not mapped or not writable. May take
 * milliseconds, so not on the data path. */
int br_verbs_pin(struct br_verbs_registrar *registrar, void *memory, size_t bytes,
                 enum br_verbs_access access, struct ibv_mr **out);
/* Unpins memory. Returns true when the NIC does not use it any more, also for a NULL mr. Returns
 * false, and logs, when that has failed: the NIC may still write to the memory, so it must not be
 * freed. */
bool br_verbs_unpin(struct br_verbs_registrar *registrar, struct ibv_mr *mr);

/* region_register() and region_release() of br_transport_ops. index: br_device.index, by which
 * region->keys has the keys. */
int br_verbs_region_register(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region);
void br_verbs_region_release(struct br_verbs_registrar *registrar, int index,
                             struct br_region *region);

/* Returns the keys that a region has with device `index`, or NULL when it has none. region may be
 * NULL. */
static inline struct ibv_mr *br_verbs_region_mr(const struct br_region *region, int index)
{
    return region ? region->keys[index] : NULL;
}

#endif
