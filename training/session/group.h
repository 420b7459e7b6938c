/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups: a merge plan laid over the gradients' memory. Gradients that lie side by side travel from
 * where they are; others are put side by side in a buffer, because an all-reduce is of one span of
 * memory. Pure; one thread.
 */
#ifndef BR_TRAINING_SESSION_GROUP_H
#define BR_TRAINING_SESSION_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/titles.h"

/* Memory of a layer's gradient. */
struct br_gradient {
    void *memory;
    size_t count; /* elements */
    uint32_t group;
    void *packed; /* in the buffer; NULL: it travels from where it is */
};

struct br_layer_group {
    uint32_t first, last; /* layers, both included */
    uint32_t missing;     /* that are not ready in this iteration; the session's */
    void *memory;         /* what travels */
    size_t count;
    bool copied;                /* memory is in the buffer */
    int32_t priority;           /* on top of the session's */
    char title[BR_TITLE_BYTES]; /* in the timeline; the session's */
};

/* Bytes of the buffer that a plan (merge.h) needs. */
size_t br_groups_buffer(const struct br_gradient *gradients, uint32_t n, size_t element,
                        const uint8_t *joins);

/*
 * Lays the plan out: fills `groups`, numbered from layer 0 on, and `group` and `packed` of the
 * gradients. buffer: as large as br_groups_buffer() says, the caller's, and in use as long as the
 * plan. urgent: the earlier the layers, the higher the priority; else all have 0. Returns how many
 * groups there are.
 */
uint32_t br_groups_lay_out(struct br_gradient *gradients, uint32_t n, size_t element,
                           const uint8_t *joins, bool urgent, void *buffer,
                           struct br_layer_group *groups);

#endif
