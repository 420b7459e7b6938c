/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what is between two ranks of a job: how long a message takes, and how fast messages
 * follow each other. One of the two leads; the other one follows what it is told. Blocking; errors
 * are braid's, with a message.
 *
 * 1. Receives are posted before the message that they are for can have been sent, so that no
 *    message waits for its READY.
 * 2. A stream is timed where it arrives, between the end of its lead-in and its last message. What
 *    a shaped link lets through after a pause, and what buffers swallow, is in the lead-in.
 */
#ifndef BR_TOOLS_CALIBRATE_LINK_H
#define BR_TOOLS_CALIBRATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <braid/braid.h>

#define BR_LINK_MAX_BYTES (4u << 20)

struct br_link_bench {
    struct braid_comm *comm;
    uint8_t *out, *in; /* BR_LINK_MAX_BYTES each */
};

int br_link_open(struct br_link_bench *bench, struct braid_comm *comm);
void br_link_close(struct br_link_bench *bench); /* safe on a zeroed one */

/* ---- the leader ------------------------------------------------------------------------------ */

/* Half of there and back, the median of about `ns` worth of trips (5 at least). */
int br_link_trip(struct br_link_bench *bench, int other, size_t bytes, uint64_t ns,
                 double *seconds);

/* Seconds a message of a stream of `count` messages to the other side, behind `lead` that do not
 * count. */
int br_link_stream(struct br_link_bench *bench, int other, size_t bytes, uint32_t lead,
                   uint32_t count, double *seconds);

/* The other side need not follow any more. */
int br_link_release(struct br_link_bench *bench, int other);

/* ---- the follower: until it is released ------------------------------------------------------ */
int br_link_follow(struct br_link_bench *bench, int leader);

#endif
