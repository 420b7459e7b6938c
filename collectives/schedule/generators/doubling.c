/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/doubling.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

/* The i-th of those that exchange. */
static uint32_t rank_of(const struct br_doubling *among, uint32_t i)
{
    return among->first + i * among->stride;
}

/* Adds what `peer` has to what this rank has, in the order of the ranks, so that all get the same
 * bits. */
static struct br_span doubling_add(struct br_builder *b, uint32_t peer, struct br_span have,
                                   bool last)
{
    struct br_span got = br_builder_recv_scratch(b, peer, BR_LEVEL_ANY, input), sum = output;
    bool lower = peer < br_builder_schedule(b)->rank;

    if (!last) /* a fresh one: a SEND may still read what was there */
        sum = br_builder_scratch(b, 1);
    br_builder_reduce(b, sum, (struct br_span[]){lower ? got : have, lower ? have : got}, 2, last);
    return sum;
}

void br_doubling_among(struct br_builder *b, struct br_span have, const struct br_doubling *among)
{
    uint32_t n = among->n, own = (br_builder_schedule(b)->rank - among->first) / among->stride,
             core = 1;

    while (core <= n / 2)
        core *= 2;
    if (own >= core) {
        br_builder_send(b, rank_of(among, own - core), BR_LEVEL_ANY, have);
        br_builder_recv(b, rank_of(among, own - core), BR_LEVEL_ANY, output);
        return;
    }
    if (own + core < n)
        have = doubling_add(b, rank_of(among, own + core), have, false);
    for (uint32_t bit = 1; bit < core; bit *= 2) {
        br_builder_send(b, rank_of(among, own ^ bit), BR_LEVEL_ANY, have);
        have = doubling_add(b, rank_of(among, own ^ bit), have, bit == core / 2);
    }
    if (own + core < n)
        br_builder_send(b, rank_of(among, own + core), BR_LEVEL_ANY, output);
}

void br_generate_doubling(struct br_builder *b)
{
    uint32_t n = br_builder_schedule(b)->n;

    br_builder_set_pieces(b, 1);
    if (n > 1)
        br_doubling_among(b, input, &(struct br_doubling){0, 1, n});
    else
        br_builder_copy(b, output, input);
}

int br_generate_flat(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_schedule(b);
    uint32_t n = head->n, rank = head->rank;
    struct br_span *sources = calloc(n, sizeof *sources);

    if (!sources)
        return br_error(ENOMEM, "no memory for the schedule of rank %u", rank);
    br_builder_set_pieces(b, 1);
    for (uint32_t i = 1; i < n; i++)
        br_builder_send(b, (rank + i) % n, BR_LEVEL_ANY, input);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t from = (rank + n - i) % n;

        sources[from] = br_builder_recv_scratch(b, from, BR_LEVEL_ANY, input);
    }
    sources[rank] = input;
    if (n > 1)
        br_builder_reduce(b, output, sources, n, true);
    else
        br_builder_copy(b, output, input);
    free(sources);
    return 0;
}
