/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. The sequence number of cell i starts at i. A producer that took position p owns cell p & mask
 *    when the cell's number is p. It writes the item and stores p + 1, which makes the cell
 *    readable. The consumer takes the item and stores p + capacity, which makes the cell writable
 *    for the producer that comes one round later.
 * 2. There are at least two cells: with one, "readable" (p + 1) and "writable in the next round"
 *    (p + capacity) would be the same number.
 * 3. A producer that the kernel stops between taking a position and publishing it hides later items
 *    until it continues. The consumer then finds the ring empty and comes back later; nothing is
 *    lost. br_ring_idle() tells this case from a ring that is empty.
 */
#include "base/ring.h"

#include "base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int br_ring_init(struct br_ring *ring, uint32_t capacity)
{
    uint64_t n = 2;

    memset(ring, 0, sizeof *ring);
    while (n < capacity)
        n *= 2;
    ring->cells = calloc(n, sizeof *ring->cells);
    if (!ring->cells)
        return br_error(ENOMEM, "no memory for a ring of %u entries", capacity);
    ring->mask = n - 1;
    for (uint64_t i = 0; i < n; i++)
        atomic_init(&ring->cells[i].sequence, i);
    return 0;
}

void br_ring_destroy(struct br_ring *ring)
{
    free(ring->cells);
    memset(ring, 0, sizeof *ring);
}

bool br_ring_push(struct br_ring *ring, void *item)
{
    uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    for (;;) {
        struct br_ring_cell *cell = &ring->cells[at & ring->mask];
        int64_t ahead = (int64_t)(atomic_load_explicit(&cell->sequence, memory_order_acquire) - at);

        if (ahead < 0)
            return false; /* the consumer has not yet read this cell's item of one round ago */
        if (ahead > 0) {
            /* another producer took it */
            at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(&ring->tail, &at, at + 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            cell->item = item;
            atomic_store_explicit(&cell->sequence, at + 1, memory_order_release);
            return true;
        }
    }
}

void *br_ring_pop(struct br_ring *ring)
{
    struct br_ring_cell *cell = &ring->cells[ring->head & ring->mask];
    void *item;

    if (br_ring_empty(ring))
        return NULL;
    item = cell->item;
    atomic_store_explicit(&cell->sequence, ring->head + ring->mask + 1, memory_order_release);
    ring->head++;
    return item;
}
