/* SPDX-License-Identifier: BSD-3-Clause */
#include "training/parameters/shard.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

static uint32_t shard_slices_of(size_t count, size_t most)
{
    return (uint32_t)((count + most - 1) / most);
}

/* Saturates: with tiny slices there could be more than fit. */
static uint32_t shard_slices(const size_t *counts, uint32_t layers, size_t most)
{
    size_t n = 0;

    for (uint32_t l = 0; l < layers; l++)
        n += (counts[l] + most - 1) / most;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static size_t shard_fitting(const size_t *counts, uint32_t layers, size_t most, uint32_t limit)
{
    if (limit < layers)
        limit = layers;
    while (shard_slices(counts, layers, most) > limit)
        most += most / 8 + 1;
    return most;
}

/* As even as can be: the first count % n slices have one element more. */
static void shard_cut(struct br_shards *shards, const size_t *counts, uint32_t layers, size_t most)
{
    uint32_t at = 0;

    for (uint32_t l = 0; l < layers; l++) {
        uint32_t n = shard_slices_of(counts[l], most);
        size_t offset = 0;

        shards->first[l] = at;
        for (uint32_t i = 0; i < n; i++, at++) {
            size_t count = counts[l] / n + (i < counts[l] % n);

            shards->list[at] = (struct br_shard){.layer = l, .offset = offset, .count = count};
            offset += count;
        }
    }
    shards->first[layers] = at;
}

/* Larger ones first; those of one size in their order. */
static int shard_compare(const void *a, const void *b)
{
    const struct br_shard *x = *(struct br_shard *const *)a, *y = *(struct br_shard *const *)b;

    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x < y ? -1 : x > y;
}

struct load {
    size_t elements;
    uint32_t slices;
};

static void shard_assign(struct br_shard **order, uint32_t n, struct load *loads, uint32_t servers)
{
    /* slices, too: each is as many operations as any other */
    uint32_t most = (n + servers - 1) / servers;

    for (uint32_t i = 0; i < n; i++) {
        struct load *least = NULL;

        for (struct load *l = loads; l < loads + servers; l++)
            if (l->slices < most && (!least || l->elements < least->elements))
                least = l;
        order[i]->server = (uint32_t)(least - loads);
        least->elements += order[i]->count;
        least->slices++;
    }
}

int br_shards_open(struct br_shards *shards, const size_t *counts, uint32_t layers,
                   uint32_t servers, size_t most, uint32_t limit)
{
    struct br_shard **order;
    struct load *loads;
    bool fine;

    most = shard_fitting(counts, layers, most, limit);
    *shards = (struct br_shards){.n = shard_slices(counts, layers, most)};
    shards->list = calloc(shards->n, sizeof *shards->list);
    shards->first = calloc(layers + 1, sizeof *shards->first);
    order = calloc(shards->n, sizeof(struct br_shard *));
    loads = calloc(servers, sizeof *loads);
    fine = shards->list && shards->first && order && loads;
    if (fine) {
        shard_cut(shards, counts, layers, most);
        for (uint32_t i = 0; i < shards->n; i++)
            order[i] = &shards->list[i];
        qsort(order, shards->n, sizeof *order, shard_compare);
        shard_assign(order, shards->n, loads, servers);
    } else {
        br_shards_close(shards);
    }
    free(order);
    free(loads);
    return fine ? 0 : br_error(ENOMEM, "no memory for the slices of %u layers", layers);
}

void br_shards_close(struct br_shards *shards)
{
    free(shards->list);
    free(shards->first);
    *shards = (struct br_shards){0};
}
