/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/dissemination.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

static const struct br_span input = {BR_INPUT, 0, 1}, output = {BR_OUTPUT, 0, 1};

/* A fresh place: a SEND may still read what was heard. */
static struct br_span dissemination_place(struct br_builder *b, bool last)
{
    return last ? output : br_builder_scratch(b, 1);
}

static void dissemination_by_distance(struct br_builder *b, uint32_t n, uint32_t rank)
{
    struct br_span heard = input;

    for (uint64_t step = 1; step < n; step *= 2) {
        uint32_t to = (uint32_t)((rank + step) % n), from = (uint32_t)((rank + n - step) % n);
        bool last = step * 2 >= n;
        struct br_span got, both;

        br_builder_send(b, to, BR_LEVEL_ANY, heard);
        got = br_builder_recv_scratch(b, from, BR_LEVEL_ANY, input);
        both = dissemination_place(b, last);
        br_builder_reduce(b, both, (struct br_span[]){heard, got}, 2, last);
        heard = both;
    }
}

static int dissemination_by_digits(struct br_builder *b, uint32_t n, uint32_t rank,
                                   const struct br_shape *shape)
{
    struct br_span heard = input, *all = calloc(n, sizeof *all);
    struct br_stages stages;

    if (!all)
        return br_error(ENOMEM, "no memory for the schedule of rank %u", rank);
    br_shape_stages(shape, 0, &stages);
    for (uint32_t w = 0; w < stages.n_stages; w++) {
        const struct br_stage *stage = &stages.stages[w];
        uint32_t own = br_stage_digit(stage, rank);
        bool last = w + 1 == stages.n_stages;

        all[0] = heard;
        for (uint32_t i = 1; i < stage->size; i++) {
            br_builder_send(b, br_stage_member(stage, rank, (own + i) % stage->size), stage->level,
                            heard);
            all[i] = br_builder_recv_scratch(
                b, br_stage_member(stage, rank, (own + stage->size - i) % stage->size),
                stage->level, input);
        }
        heard = dissemination_place(b, last);
        br_builder_reduce(b, heard, all, stage->size, last);
    }
    free(all);
    return 0;
}

int br_generate_dissemination(struct br_builder *b, const struct br_shape *shape)
{
    const struct br_schedule *head = br_builder_schedule(b);
    int rc = 0;

    br_builder_set_pieces(b, 1);
    if (head->n == 1)
        br_builder_copy(b, output, input);
    else if (shape->n_dimensions > 0)
        rc = dissemination_by_digits(b, head->n, head->rank, shape);
    else
        dissemination_by_distance(b, head->n, head->rank);
    return rc;
}
