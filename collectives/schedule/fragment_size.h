/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fragments: a collective is cut into ranges of elements, the same range of every block, each run
 * by its own run of the schedule. Several runs at once pipeline the steps: one fragment is reduced
 * while the next one travels.
 *
 * All ranks must cut alike, so the cut depends only on what they agree about. Pure.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_FRAGMENT_SIZE_H
#define BR_COLLECTIVES_SCHEDULE_FRAGMENT_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smaller pieces cost more in messages than pipelining gains. */
#define BR_CHUNK_MIN_BYTES (64u << 10)

/*
 * How many fragments: elements of one block, bytes of one element (of all the blocks that a message
 * holds), pieces of the schedule, target size of a piece of a fragment; `serial`: no fragment
 * travels while another is added up, so none is made for that (2 ranks, 1 MiB in one fragment
 * instead of four: over loopback 275 instead of 300 us, in shared memory 197 instead of 220). A
 * message is at most one such block of one fragment, thus at most BR_MAX_TRANSFER. 0: the block is
 * larger than 65,536 fragments can carry.
 */
uint32_t br_fragment_count(size_t elements, size_t element_bytes, uint32_t pieces,
                           size_t chunk_bytes, bool serial);

#endif
