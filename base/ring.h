/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bounded ring of pointers with any number of producers and one consumer: the submission ring of
 * a worker. Lock-free, after D. Vyukov's bounded queue: each cell has a sequence number that says
 * whether it may be written or read next (ring.c).
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
    _Alignas(64) _Atomic uint64_t tail; /* next position to write, shared by the producers */
    _Alignas(64) uint64_t head;         /* next position to read, the consumer's own */
};

/* Allocates at least `capacity` cells, rounded up to a power of two. Returns 0, or -ENOMEM with a
 * message. */
int br_ring_init(struct br_ring *ring, uint32_t capacity);

/* Frees the ring, not the items. An all-zero ring is allowed. No other thread uses the ring. */
void br_ring_destroy(struct br_ring *ring);

/* Adds an item; from any thread. Returns false when the ring is full. */
bool br_ring_push(struct br_ring *ring, void *item);

/* Removes and returns the oldest item, or NULL when none is readable. Only for the consumer. */
void *br_ring_pop(struct br_ring *ring);

/* Returns whether br_ring_pop() would return NULL. Only for the consumer. */
static inline bool br_ring_empty(const struct br_ring *ring)
{
    const struct br_ring_cell *cell = &ring->cells[ring->head & ring->mask];

    return atomic_load_explicit(&cell->sequence, memory_order_acquire) != ring->head + 1;
}

/* Returns whether the ring is empty and no producer is about to publish an item (note 3 of ring.c).
 * Only for the consumer. */
static inline bool br_ring_idle(const struct br_ring *ring)
{
    return atomic_load_explicit(&ring->tail, memory_order_acquire) == ring->head;
}

#endif
