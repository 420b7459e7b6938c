/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The builder: takes the steps of one rank in a legal order from a generator and derives everything
 * else: edges, matches, sizes, which receives may be mapped. The first error sticks: later calls do
 * nothing and br_builder_finish reports it, so generators need no checks. Not thread-safe; never
 * blocks.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_BUILDER_H
#define BR_COLLECTIVES_SCHEDULE_BUILDER_H

#include "collectives/schedule/schedule.h"

struct br_builder;

/* Blocks of one message, at most: an element of each fits in a transfer. */
#define BR_BUILDER_PACKED_MAX 65536u

/* Makes a builder, which br_builder_finish() frees. The generator has to call
 * br_builder_set_pieces() before its first step. Returns 0 or -ENOMEM. */
int br_builder_new(struct br_builder **builder, enum br_collective collective, uint32_t n,
                   uint32_t rank, uint32_t root, bool in_place);

/* The head of the schedule so far: collective, n, rank, root, pieces. */
const struct br_schedule *br_builder_schedule(const struct br_builder *builder);

/* Cuts each block into `pieces` pieces. Once, before the first step. */
void br_builder_set_pieces(struct br_builder *builder, uint32_t pieces);

/* Allows messages of up to `blocks` blocks, on all ranks alike. Once, after a cut into 1 piece. */
void br_builder_set_packed(struct br_builder *builder, uint32_t blocks);

/* The same for a schedule that is uncut (br_schedule.uncut), whatever its pieces. */
void br_builder_set_uncut(struct br_builder *builder, uint32_t blocks);

/* Fragments go one behind the other (br_schedule.follows). */
void br_builder_set_ordered(struct br_builder *builder);

/* Returns `count` fresh chunks of scratch. */
struct br_span br_builder_scratch(struct br_builder *builder, uint32_t count);

/* Sends a span to a peer. */
void br_builder_send(struct br_builder *builder, uint32_t peer, uint8_t level, struct br_span span);

/* Receives into a user buffer, or into scratch that is there already where that has no gaps
 * (br_schedule_even()). */
void br_builder_recv(struct br_builder *builder, uint32_t peer, uint8_t level, struct br_span span);

/* Receives into fresh scratch a message with the pieces of `like`, a span of a user buffer. Returns
 * the scratch. */
struct br_span br_builder_recv_scratch(struct br_builder *builder, uint32_t peer, uint8_t level,
                                       struct br_span like);

/* span = sources[0] op sources[1] op ... One source may be span itself. final: the value is then
 * complete. */
void br_builder_reduce(struct br_builder *builder, struct br_span span,
                       const struct br_span *sources, uint32_t n_sources, bool final);

/* span = source; no step where they are the same in place. */
void br_builder_copy(struct br_builder *builder, struct br_span span, struct br_span source);

/* Frees the builder and returns its schedule, which the caller frees. Returns 0; -EINVAL with a
 * message that names rank and step: the generator broke a rule; or -ENOMEM. */
int br_builder_finish(struct br_builder *builder, struct br_schedule **schedule);

#endif
