/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounce buffers: pinned memory of the device, through which payload goes that lies in no region.
 *
 * 1. The arena is made and pinned by the first br_verbs_bounce_get(): a device whose memory is all
 *    registered pins nothing here.
 * 2. Where the limit of locked memory forbids the whole arena, it is made half as large until it
 *    can be pinned, down to 1 MiB; logged once. Payload that is larger than the arena is refused
 *    with -ENOMEM and the message of that limit.
 * 3. Pieces are whole units of 16 KiB, first fit; few are in use at a time (frames in flight, slots
 *    that wait). Rejected: fixed buffers of the largest size (a slot may have 16 MiB).
 * 4. Sending and receiving have an arena each: slots that hold everything while they wait for bytes
 *    must not keep this side from sending.
 *
 * All functions are called under the worker's lock. Only the first br_verbs_bounce_get() allocates
 * and makes system calls.
 */
#ifndef BR_TRANSPORT_VERBS_BOUNCE_H
#define BR_TRANSPORT_VERBS_BOUNCE_H

#include "transport/verbs/memory.h"

struct br_verbs_bounce {
    struct br_verbs_registrar *registrar;
    enum br_verbs_access access; /* LOCAL when it is sent from, REMOTE when it is received into. */
    size_t wanted;               /* Bytes that the arena should have. */
    size_t bytes;                /* Bytes that it has; 0 before it is made. */
    uint8_t *arena;              /* Owned; NULL before it is made. */
    struct ibv_mr *mr;           /* The keys of the arena; NULL before it is made. */
    uint32_t units;              /* Units of 16 KiB in the arena. */
    uint32_t *lengths; /* For each unit: the units of the piece that begins there, or 0. Owned. */
};

/* Prepares an arena of `bytes`, which is made when it is first used. The registrar is kept by the
 * caller until the arena is destroyed. */
void br_verbs_bounce_init(struct br_verbs_bounce *bounce, struct br_verbs_registrar *registrar,
                          enum br_verbs_access access, size_t bytes);
/* Frees the arena, and with it all pieces. Memory that cannot be unpinned is not freed. Allowed
 * when the arena was not made. */
void br_verbs_bounce_destroy(struct br_verbs_bounce *bounce);

/* Takes a piece of `bytes` > 0 bytes. Returns 0, and *memory is the caller's until
 * br_verbs_bounce_put(); -EAGAIN without a message when there is no room until a piece is put back;
 * or another negative errno with a message when there will be no room at all. */
int br_verbs_bounce_get(struct br_verbs_bounce *bounce, size_t bytes, void **memory);
/* Gives a piece back. */
void br_verbs_bounce_put(struct br_verbs_bounce *bounce, void *memory);

#endif
