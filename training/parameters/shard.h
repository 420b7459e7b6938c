/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which server has which part of which layer. A layer is cut into slices of about equal size. A
 * server gets at most n / servers slices, rounded up; the slices are given out from the largest on,
 * each to the server that has the fewest elements so far of those that may get more. The result is
 * the same on every rank.
 */
#ifndef BR_TRAINING_PARAMETERS_SHARD_H
#define BR_TRAINING_PARAMETERS_SHARD_H

#include <stddef.h>
#include <stdint.h>

struct br_shard {
    uint32_t layer;
    uint32_t server; /* 0..servers-1 */
    size_t offset;   /* elements from the layer's beginning */
    size_t count;    /* elements, at least 1 */
};

struct br_shards {
    struct br_shard *list; /* by layer, then offset */
    uint32_t n;
    uint32_t *first; /* [layers + 1] where each layer's shards begin in the list */
};

/*
 * counts: elements of each layer, at least 1. most: elements of a slice; where that makes more than
 * `limit` slices, the slices become larger. shards->n is at most max(limit, layers). The caller
 * calls br_shards_close(). -ENOMEM with a message.
 */
int br_shards_open(struct br_shards *shards, const size_t *counts, uint32_t layers,
                   uint32_t servers, size_t most, uint32_t limit);
void br_shards_close(struct br_shards *shards);

#endif
