/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounded ring of pointers: any number of producers, one consumer (the submission ring of a
 * worker). Lock-free, after D. Vyukov's bounded queue: each cell carries the turn at which it may
 * be written or read next.
 */
#ifndef BR_BASE_RING_H
#define BR_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct br_ring_cell {
    _Atomic uint64_t sequence;
    void *item;
};

struct br_ring {
    struct br_ring_cell *cells;
    uint64_t mask;
    _Alignas(64) _Atomic uint64_t tail; /* next to write, shared by producers */
    _Alignas(64) uint64_t head;         /* next to read, the consumer's own */
};

/* rounded up to a power of two; -ENOMEM */
int br_ring_init(struct br_ring *ring, uint32_t capacity);
/* safe on a zeroed ring; items stay their owner's */
void br_ring_destroy(struct br_ring *ring);
bool br_ring_push(struct br_ring *ring, void *item); /* any thread; false: full */
void *br_ring_pop(struct br_ring *ring);             /* the consumer; NULL: empty */
bool br_ring_empty(struct br_ring *ring);            /* the consumer */
bool br_ring_idle(
    /* the consumer: empty, and no producer is about to publish an item (note 3) */
    struct br_ring *ring);

#endif
