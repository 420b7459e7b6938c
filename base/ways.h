/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * By which way payload that lies in no segment goes from one process to another: through memory
 * that both have mapped, written by way of the writer's caches or past them, or read from where it
 * lies. Who decides does so by what each way has cost so far: the writer of a link for each frame
 * (the words below are its), and for a stream of messages; the root of a gather for each call,
 * where chunks stand for the pipe (doc/design/shared_memory.md, ways.h).
 *
 * Frames are taken in bursts: those that are posted while others are under way, BR_WAYS_BURST at
 * most. All of a burst go the same way. Times are ns of one clock, which is the caller's.
 */
#ifndef BR_BASE_WAYS_H
#define BR_BASE_WAYS_H

#include <stdbool.h>
#include <stdint.h>

/* Of smaller frames nothing is measured. */
#define BR_WAYS_LEAST_BITS 10
#define BR_WAYS_LEAST      (1u << BR_WAYS_LEAST_BITS)
#define BR_WAYS_CLASSES    15 /* of lengths, by powers of two: 1 KiB to 16 MiB */
#define BR_WAYS_BURST      16u

enum br_way { BR_WAY_PIPE, BR_WAY_PIPE_PAST, BR_WAY_DIRECT, BR_WAYS };

/* What is known of frames of one class. */
struct br_ways_class {
    enum br_way way;            /* that is taken */
    enum br_way looked;         /* of the others: that was tried last */
    double cost[BR_WAYS];       /* ns for a byte; 0: nothing is known yet */
    uint32_t until_look, pause; /* bursts until another way is tried, and between tries */
};

/* What a frame under way keeps for br_ways_returned(). */
struct br_ways_frame {
    uint64_t burst; /* its number, from 1; 0: none */
    uint32_t class;
    enum br_way way;
    bool measured;
    uint64_t posted; /* the time; measured frames only */
    uint64_t
        worked; /* ns that the writer, and in the end the reader, were busy with it; the same */
};

/* The burst whose frames are coming back. */
struct br_ways_burst {
    uint64_t number;
    uint32_t class;
    enum br_way way;
    uint64_t bytes, start, end, worked; /* of those that have returned */
};

struct br_ways {
    bool closed[BR_WAYS];         /* ways that cannot be taken: the pipe always can */
    uint32_t under_way, posted;   /* frames: in all; of the burst that is posted */
    struct br_ways_frame posting; /* each frame of that burst */
    struct br_ways_burst returning;
    struct br_ways_class classes[BR_WAYS_CLASSES];
};

/* A frame of BR_WAYS_LEAST bytes or more is posted. Who posts it adds the times. */
struct br_ways_frame br_ways_post(struct br_ways *ways, uint32_t length);

/* The reader is done with a frame, which was seen now (0 where it is not measured). Frames return
 * in the order in which they were posted. length 0: it says nothing about the way that it went. */
void br_ways_returned(struct br_ways *ways, const struct br_ways_frame *frame, uint32_t length,
                      uint64_t now);

#endif
