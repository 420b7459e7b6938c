/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank copies into the segment what ranks on other cores have read last. Each such line has
 * to be fetched from their caches before it is written, unless it is written past all caches
 * (br_copy_uncached()): then the readers fetch it from memory. Which is cheaper depends on how far
 * the cores are from each other, and on whether the reader is on this rank's core. So a rank looks
 * at what its copies have cost, for itself alone: the readers notice nothing but the time
 * (doc/design/shared_collectives.md).
 */
#ifndef BR_COLLECTIVES_SHM_PAST_H
#define BR_COLLECTIVES_SHM_PAST_H

#include <stddef.h>
#include <stdint.h>

/* Smaller copies go into the caches, and nothing is measured. */
#define BR_SHM_PAST_LEAST_BITS 12
#define BR_SHM_PAST_CLASSES    6u /* of lengths, by powers of two: 4 KiB to 128 KiB */

struct br_shm_past_class {
    double cost;           /* ns for a byte that is copied into the caches; 0: not known yet */
    uint32_t until, pause; /* copies until the next one is measured, and between such */
};

struct br_shm_past {
    /* ns for a byte: what a copy past the caches costs, and one out of memory, together; 0: none
     * goes past them */
    double trip;
    struct br_shm_past_class classes[BR_SHM_PAST_CLASSES];
};

enum br_shm_past_way { BR_SHM_PAST_CACHES, BR_SHM_INTO_CACHES, BR_SHM_INTO_CACHES_MEASURED };

/* How the next copy of so many bytes is made, and what one that was measured took. */
enum br_shm_past_way br_shm_past_next(struct br_shm_past *past, size_t bytes);
void br_shm_past_took(struct br_shm_past *past, size_t bytes, uint64_t ns);

/* Measures the trip of copies of `bytes` bytes, in memory of this rank's that nobody else uses, of
 * twice as many. Takes 2 to 20 us: the fastest of a few times counts, so that other programs do not
 * matter. The shorter the copies, the more of the trip is waiting for memory, once for each copy:
 * 0.13 ns for a byte of 4 KiB, 0.085 of 32 KiB. */
void br_shm_past_measure_trip(struct br_shm_past *past, uint8_t *memory, size_t bytes);

/* Copies as br_shm_past_next() says. */
void br_shm_past_copy(struct br_shm_past *past, void *to, const void *from, size_t bytes);

#endif
