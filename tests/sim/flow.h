/* SPDX-License-Identifier: BSD-3-Clause */
/* The storm of test_flow.c: its streams, and the operations of a stream (flow.c). */
#ifndef BR_TESTS_SIM_FLOW_H
#define BR_TESTS_SIM_FLOW_H

#include "base/clock.h"
#include "base/random.h"
#include "tests/collectives/job.h"

#define RANKS   4
#define COMMS   3
#define STREAMS (COMMS + 3)
#define LIMIT   (60 * BR_SEC) /* virtual */
#define REGION  4096u

enum { UNDER_WAY = 1, OVER }; /* br_operation.state */
enum kind { COLLECTIVES, MESSAGES, ANY, ACCESSES };

struct stream {
    enum kind kind;
    uint32_t group; /* number of its communicator */
    int n;          /* operations of a rank; of messages those to each other rank */
};

/* A rank's part in a stream, or one end of its messages with another rank. */
struct actor {
    const struct stream *stream;
    const struct actor *after; /* begins when this one has ended; NULL: at once */
    int rank, peer;
    bool sends;
    int n, window, first, next; /* first: the first that has not ended */
    int *order;                 /* messages: which one comes when */
    struct br_operation *ops;
    struct braid_received *received;
    uint8_t **memory;
};

struct flow {
    uint64_t seed;
    struct br_random random;
    struct job job;
    int n, rails;
    uint32_t eager;
    struct stream streams[STREAMS];
    struct br_group groups[STREAMS][RANKS];
    uint64_t next_order[RANKS], next_sequence[STREAMS][RANKS];
    struct actor actors[2 * STREAMS * RANKS * RANKS];
    int n_actors;
    uint64_t stopped_until[RANKS], pause;
    uint8_t *regions[RANKS];
    uint64_t held; /* the most messages that have waited on a link */
    uint64_t operations;
};

/* Submits the actor's next operation, or fails the test. */
void flow_submit(struct flow *f, struct actor *a);
/* Is the result of an operation right that has ended well? */
bool flow_right(const struct flow *f, const struct actor *a, int i);

void flow_fill(uint8_t *memory, uint32_t bytes, uint64_t seed);

static inline uint64_t flow_mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x =
        (a ^ b * 0x9e3779b97f4a7c15ull ^ c * 0xc2b2ae3d27d4eb4full) * 0xbf58476d1ce4e5b9ull;

    return (x ^ x >> 29) * 0x94d049bb133111ebull >> 8;
}

#endif
