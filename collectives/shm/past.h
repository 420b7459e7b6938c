/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a rank copies into the segment what ranks on other cores have read last. Each such line has
 * to be fetched from their caches before it is written, unless it is written past all caches
 * (br_copy_uncached()): then the readers fetch it from memory. Which is cheaper depends on how far
 * the cores are from each other, and on whether the reader is on this rank's core. So a rank looks
 * at what its copies have cost. Of two ranks with a core each the other one tells what its part has
 * taken, which may be most of it; with more, a rank knows its own part alone, and compares that
 * with a trip through memory (doc/design/shared_collectives.md).
 */
#ifndef BR_COLLECTIVES_SHM_PAST_H
#define BR_COLLECTIVES_SHM_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smaller copies go into the caches, and nothing is measured. */
#define BR_SHM_PAST_LEAST_BITS 12
#define BR_SHM_PAST_LEAST      (1u << BR_SHM_PAST_LEAST_BITS)
#define BR_SHM_PAST_CLASSES    6u /* of lengths, by powers of two: 4 KiB to 128 KiB and more */

enum br_shm_past_way { BR_SHM_INTO_CACHES, BR_SHM_PAST_CACHES, BR_SHM_PAST_WAYS };

struct br_shm_past_class {
    double cost[BR_SHM_PAST_WAYS]; /* ns for a byte; 0: not known yet */
    enum br_shm_past_way way;      /* that is taken */
    enum br_shm_past_way looks;    /* that is measured next */
    uint32_t until, pause;         /* copies until then, and from one to the next */
};

struct br_shm_past {
    /* What both ways cost is measured, with the reader's part, which it tells. */
    bool told;
    /* Otherwise: ns for a byte, of a copy past the caches and one out of memory together; 0: none
     * goes past them. */
    double trip;
    /* Told only: a copy whose reader is asked, and has not answered yet. */
    struct {
        size_t bytes; /* 0: there is none */
        enum br_shm_past_way way;
        uint64_t ns; /* what this rank's part took */
    } asked;
    struct br_shm_past_class classes[BR_SHM_PAST_CLASSES];
};

/* How the next copy of so many bytes is made, and whether it is measured; then what it took. */
enum br_shm_past_way br_shm_past_next(struct br_shm_past *past, size_t bytes, bool *measured);
void br_shm_past_took(struct br_shm_past *past, size_t bytes, enum br_shm_past_way way,
                      uint64_t ns);

/* Measures the trip of copies of `bytes` bytes, in memory of this rank's that nobody else uses, of
 * twice as many. Takes 2 to 20 us: the fastest of a few times counts, so that other programs do not
 * matter. */
void br_shm_past_measure_trip(struct br_shm_past *past, uint8_t *memory, size_t bytes);

/* Copies as br_shm_past_next() says. If `asked` has bytes afterwards and had none before, the
 * reader is to be asked what its part takes; its answer is br_shm_past_hear()'s. */
void br_shm_past_copy(struct br_shm_past *past, void *to, const void *from, size_t bytes);
void br_shm_past_hear(struct br_shm_past *past, uint64_t ns);

#endif
