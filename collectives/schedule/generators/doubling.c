/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/doubling.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

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
        br_builder_send(b, br_doubling_rank(among, own - core), BR_LEVEL_ANY, have);
        br_builder_recv(b, br_doubling_rank(among, own - core), BR_LEVEL_ANY, output);
        return;
    }
    if (own + core < n)
        have = doubling_add(b, br_doubling_rank(among, own + core), have, false);
    for (uint32_t bit = 1; bit < core; bit *= 2) {
        br_builder_send(b, br_doubling_rank(among, own ^ bit), BR_LEVEL_ANY, have);
        have = doubling_add(b, br_doubling_rank(among, own ^ bit), have, bit == core / 2);
    }
    if (own + core < n)
        br_builder_send(b, br_doubling_rank(among, own + core), BR_LEVEL_ANY, output);
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
