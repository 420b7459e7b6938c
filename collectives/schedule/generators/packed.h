/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reduce-scatter and allgather of the dimensional generator with one message for each run of blocks
 * instead of one for each block (section 9 of doc/design/schedule.md).
 *
 * Chunks are counted thread by thread, in a thread by their numbers, so a run of numbers is one
 * range. They lie in the user's buffer where that has the same order; else in scratch, into which a
 * reduce-scatter copies its input first, and from which an allgather copies its result last.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_PACKED_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_PACKED_H

#include "collectives/schedule/generators/dimensional_internal.h"

/* Writes the steps of the whole schedule, the pieces of which have been set. packed: of
 * br_shape_packed(). Returns 0, or -ENOMEM with a message. */
int br_packed_run(struct br_dimensional *p, uint32_t packed);

/* The chunks of `count` numbers from `number` on. */
struct br_chunk_range br_packed_range(const struct br_dimensional *p, uint32_t thread,
                                      uint32_t number, uint32_t count);

/* Receives `count` chunks into fresh scratch, and returns it. */
struct br_span br_packed_recv(struct br_dimensional *p, uint32_t peer, uint8_t level,
                              uint32_t count);

/* Adds up sources[0 .. n-1], each with the chunks of the range; one may be where the range lies,
 * and is then overwritten if it is scratch. */
void br_packed_reduce(struct br_dimensional *p, struct br_chunk_range range,
                      const struct br_span *sources, uint32_t n, bool final);

#endif
