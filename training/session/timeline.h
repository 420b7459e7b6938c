/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time line of one iteration: backward pass, communication, next forward pass. Pure; not
 * thread-safe on one time line.
 *
 * Time 0 is the start of the backward pass, with nothing left to send. A layer's forward pass
 * starts when the one before has ended and the layer's gradient is reduced. All gradients have been
 * reduced before the last layer's forward pass, so the next backward pass starts as this one did,
 * and the end of the forward pass is the time of an iteration.
 *
 * Groups travel one at a time. In order: first come, first served. Urgent: the group that the
 * forward pass needs first goes first, and overtakes at the end of a slice.
 */
#ifndef BR_TRAINING_SESSION_TIMELINE_H
#define BR_TRAINING_SESSION_TIMELINE_H

#include "training/session/workload.h"

struct br_timeline_layer {
    double backward, backward_end; /* s */
    double forward, forward_end;
    uint32_t group;
};

/* One all-reduce. Groups are numbered in the order in which the backward pass completes them. */
struct br_timeline_group {
    uint32_t first, last; /* layers, both included */
    double bytes;
    double ready, start, end;
};

/* A span in which a group has the line; an overtaken group has several. */
struct br_timeline_span {
    uint32_t group;
    double start, end;
};

struct br_timeline {
    uint32_t n_layers, n_groups, n_spans;
    struct br_timeline_layer *layers;
    struct br_timeline_group *groups;
    struct br_timeline_span *spans;
    double iteration; /* s from backward pass to backward pass */
    double delay;     /* s between the end of the backward pass and the start of the forward pass */
    /* s of the iteration in which nothing is computed: communication that is not hidden */
    double exposed;
    double reduced; /* when the last group has ended */
    /* of br_timeline_run() alone */
    uint32_t *waiting, n_waiting; /* a stack of groups */
    double *sent_seconds;         /* s that each group has had */
};

/* Room for n layers; -ENOMEM with a message. Freed by br_timeline_close(). */
int br_timeline_open(struct br_timeline *line, uint32_t n);
void br_timeline_close(struct br_timeline *line);

/* Runs one iteration of a merge plan (merge.h). line has room for work->n layers. O(n). */
void br_timeline_run(struct br_timeline *line, const struct br_workload *work, const uint8_t *joins,
                     bool urgent);

#endif
