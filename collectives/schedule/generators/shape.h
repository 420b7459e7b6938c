/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shape that the dimensional generator works in, and the arithmetic of its stages. Pure.
 *
 * In each thread the chunks of one share are numbered 0 .. core-1 by mixed radix, the digit of
 * stage 0 the most significant, and a number belongs to the rank with the same digits. After stage
 * w of the reduction a rank holds the numbers that agree with it in the digits 0 .. w, which follow
 * each other.
 */
#ifndef BR_COLLECTIVES_SCHEDULE_GENERATORS_SHAPE_H
#define BR_COLLECTIVES_SCHEDULE_GENERATORS_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/schedule/schedule.h"

#define BR_DIMENSIONS_MAX 32

enum br_method {
    BR_METHOD_DIRECT,  /* one exchange with every other member of the group */
    BR_METHOD_RING,    /* size - 1 exchanges with the neighbours in a ring */
    BR_METHOD_HALVING, /* lg(size) exchanges with one partner each; size must be a power of two */
    BR_METHOD_CYCLE,   /* all dimensions together are one ring whose neighbours differ in one digit;
                          see below */
    /* halving whose pairs go from the farthest to the nearest, so that blocks which travel together
     * follow each other in the user's buffer: br_algorithm_shape() says it for packed messages */
    BR_METHOD_FAR_HALVING,
};

struct br_dimension {
    uint32_t size; /* at least 1 */
    enum br_method method;
    uint8_t level; /* of the network, or BR_LEVEL_ANY */
};

/*
 * The ranks 0 .. core-1 are numbered by digits, dimension 0 the least significant; core = product
 * of the sizes. Each rank from core to n-1 hands its part to rank - core and gets its result from
 * there, so core <= n <= 2 core. Thread t works on its own share of the chunks, with dimension (w +
 * t + first) mod n_dimensions in its step w: with threads == n_dimensions, direct and equal sizes
 * this is BML.
 *
 * BR_METHOD_CYCLE is for all dimensions or none, of one size n and with levels that follow each
 * other or are all BR_LEVEL_ANY. Its ring visits the ranks in the order of the modular Gray code of
 * base n: each next one differs in one digit, by one, and so does the first from the last. In a
 * BCube all ring neighbours are thereby level neighbours. Thread t's digit t turns the fastest.
 */
struct br_shape {
    uint32_t n_dimensions;
    uint32_t threads; /* at least 1 */
    struct br_dimension dimensions[BR_DIMENSIONS_MAX];
    uint32_t first; /* dimension that thread 0 begins with: below n_dimensions, 0 with a cycle */
};

/* One step of a thread: an exchange among `size` ranks whose numbers differ by multiples of
 * `stride`. */
struct br_stage {
    uint32_t size, stride;
    /* pieces of the thread that each member owns after the stage, before the unfolding */
    uint32_t weight;
    uint8_t level; /* of all its messages; cycle: of most of them, br_stage_level() tells */
    bool ring;
    uint8_t lowest; /* cycle: level of digit 0 */
    /* cycle: base of the digits, and the one that turns the fastest; else 0 */
    uint32_t radix, fastest;
};

/* The stages of one thread, halving resolved into pairs, dimensions of one rank left out. */
struct br_stages {
    uint32_t n_stages, core;
    struct br_stage stages[BR_DIMENSIONS_MAX];
};

/* Thread 0 .. shape->threads - 1 of a valid shape. */
void br_shape_stages(const struct br_shape *shape, uint32_t thread, struct br_stages *stages);

/* Blocks (with threads: pieces of them) that a message holds at most where a reduce_scatter or an
 * allgather of n ranks packs what travels together; 1: there is nothing to pack, or the shape folds
 * ranks and has threads, too. A valid shape. */
uint32_t br_shape_packed(const struct br_shape *shape, uint32_t n);

/* 0, or -EINVAL with a message that says why this shape cannot serve this collective on n ranks. */
int br_shape_check(const struct br_shape *shape, enum br_collective collective, uint32_t n);

/* A rank's digit in a stage (cycle: its place in the ring), and the member of its group in that
 * stage with digit d. */
uint32_t br_stage_digit(const struct br_stage *stage, uint32_t rank);
uint32_t br_stage_member(const struct br_stage *stage, uint32_t rank, uint32_t d);

/* The level of a message between two members that exchange one. */
uint8_t br_stage_level(const struct br_stage *stage, uint32_t a, uint32_t b);

/* Is the number of each rank the rank itself? */
bool br_stages_in_order(const struct br_stages *stages);

/* The rank with the digits of a number. */
uint32_t br_stages_home(const struct br_stages *stages, uint32_t number);

/* The first number that agrees with a rank in the digits of the stages before `end`; the rest are
 * 0. */
uint32_t br_stages_base(const struct br_stages *stages, uint32_t rank, uint32_t end);

#endif
