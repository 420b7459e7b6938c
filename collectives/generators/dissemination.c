/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/generators/dissemination.h"

void br_generate_dissemination(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, rank = head->rank;
    const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};
    struct br_span heard = input;

    br_builder_cut(b, 1);
    for (uint64_t step = 1; step < n; step *= 2) {
        uint32_t to = (uint32_t)((rank + step) % n), from = (uint32_t)((rank + n - step) % n);
        bool last = step * 2 >= n;
        struct br_span got, both;

        br_builder_send(b, to, BR_LEVEL_ANY, heard);
        got = br_builder_recv_scratch(b, from, BR_LEVEL_ANY, input);
        both =
            last ? output : br_builder_scratch(b, 1); /* a fresh one: a SEND may still read what was heard */
        br_builder_reduce(b, both, (struct br_span[]){heard, got}, 2, last);
        heard = both;
    }
    if (n == 1)
        br_builder_copy(b, output, input);
}
