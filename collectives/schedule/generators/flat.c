/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/flat.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

int br_generate_flat(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_schedule(b);
    uint32_t n = head->n, rank = head->rank;
    const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};
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
