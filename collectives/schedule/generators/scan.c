/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/scan.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

/* The sum of what comes from lower ranks and of what this rank has, in scratch or in OUTPUT. */
static struct br_span scan_add(struct br_builder *b, struct br_span lower, struct br_span have,
                               bool to_output, bool final)
{
    struct br_span sum = to_output ? output : br_builder_scratch(b, 1);

    br_builder_reduce(b, sum, (struct br_span[]){lower, have}, 2, final);
    return sum;
}

void br_generate_scan_chain(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_schedule(b);
    bool last = head->rank + 1 == head->n, inclusive = head->collective == BR_SCAN;
    struct br_span sum = input, lower;

    br_builder_set_pieces(b, 1);
    if (head->rank > 0 && (inclusive || !last)) {
        lower = br_builder_recv_scratch(b, head->rank - 1, BR_LEVEL_ANY, input);
        sum = scan_add(b, lower, input, inclusive, inclusive && last);
        if (!inclusive)
            br_builder_copy(b, output, lower);
    } else if (head->rank > 0) {
        br_builder_recv(b, head->rank - 1, BR_LEVEL_ANY, output);
    } else if (inclusive) {
        br_builder_copy(b, output, input);
    }
    if (!last)
        br_builder_send(b, head->rank + 1, BR_LEVEL_ANY, sum);
}

void br_generate_scan_doubling(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_schedule(b);
    uint32_t n = head->n, rank = head->rank;
    bool inclusive = head->collective == BR_SCAN;
    struct br_span sum = input,
                   before = input; /* with this rank's input; without, once there is any */

    br_builder_set_pieces(b, 1);
    for (uint64_t d = 1; d < n; d *= 2) {
        bool last = rank < 2 * d; /* nothing comes afterwards */
        struct br_span lower;

        if (rank + d < n)
            br_builder_send(b, (uint32_t)(rank + d), BR_LEVEL_ANY, sum);
        if (rank < d)
            continue;
        lower = br_builder_recv_scratch(b, (uint32_t)(rank - d), BR_LEVEL_ANY, input);
        if (inclusive || rank + 2 * d < n)
            sum = scan_add(b, lower, sum, inclusive && last, inclusive && last && rank + 1 == n);
        if (!inclusive && d > 1)
            before = scan_add(b, lower, before, last, false);
        else if (!inclusive && last)
            br_builder_copy(b, output, lower);
        else
            before = lower;
    }
    if (inclusive && rank == 0)
        br_builder_copy(b, output, input);
}
