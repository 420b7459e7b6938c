/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounce buffers: pinned memory of the device's own through which payload travels that lies in no
 * region.
 *
 * 1. The arena is made and pinned at the first need, once: a device whose memory is all registered
 *    pins nothing here.
 * 2. Where the limit of locked memory forbids the whole arena, it is made half as large until it
 *    can be pinned, down to 1 MiB; logged once. What is larger than the arena cannot travel:
 *    -ENOMEM with the message of that limit.
 * 3. Pieces are whole units of 16 KiB, first fit; few are in use at a time (frames in flight, slots
 *    that wait). Rejected: fixed buffers of the largest size (a slot may have 16 MiB).
 * 4. Sending and receiving have an arena each: receivers who hold everything while they wait for
 *    bytes must not keep their own sender from sending.
 *
 * Belongs to the worker, no locks. No allocation after the first need.
 */
#ifndef BR_TRANSPORT_VERBS_BOUNCE_H
#define BR_TRANSPORT_VERBS_BOUNCE_H

#include "transport/verbs/memory.h"

struct br_verbs_bounce {
    struct br_verbs_registrar *registrar;
    enum br_verbs_access access; /* LOCAL: sent from; REMOTE: received into */
    size_t wanted;               /* bytes of the arena */
    size_t bytes;                /* that it has; 0: not made yet */
    uint8_t *arena;
    struct ibv_mr *mr; /* its keys; NULL: not made yet */
    uint32_t units;
    uint32_t *lengths; /* by unit: units of the piece that begins there; 0: none does */
};

/* Makes nothing yet. */
void br_verbs_bounce_init(struct br_verbs_bounce *bounce, struct br_verbs_registrar *registrar,
                          enum br_verbs_access access, size_t bytes);
/* Safe on one that was never needed. All pieces die. */
void br_verbs_bounce_destroy(struct br_verbs_bounce *bounce);

/* *memory = room for `bytes` > 0 bytes. -EAGAIN without a message: not before another piece is put
 * back (never when none is out); other -errno with a message: never. */
int br_verbs_bounce_get(struct br_verbs_bounce *bounce, size_t bytes, void **memory);
void br_verbs_bounce_put(struct br_verbs_bounce *bounce, void *memory);

#endif
