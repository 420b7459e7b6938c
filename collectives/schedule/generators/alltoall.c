/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/alltoall.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

/* In place a block cannot arrive where the one to be sent still stands: each end would wait for the
 * other. */
void br_generate_exchange(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_schedule(b);
    uint32_t n = head->n, rank = head->rank;

    br_builder_set_pieces(b, 1);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t to = (rank + i) % n, from = (rank + n - i) % n;
        struct br_span output = {BR_OUTPUT, from, 1};

        br_builder_send(b, to, BR_LEVEL_ANY, (struct br_span){BR_INPUT, to, 1});
        if (head->in_place) /* scratch i - 1 */
            br_builder_recv_scratch(b, from, BR_LEVEL_ANY, output);
        else
            br_builder_recv(b, from, BR_LEVEL_ANY, output);
    }
    for (uint32_t i = 1; i < n && head->in_place; i++)
        br_builder_copy(b, (struct br_span){BR_OUTPUT, (rank + n - i) % n, 1},
                        (struct br_span){BR_SCRATCH, i - 1, 1});
    br_builder_copy(b, (struct br_span){BR_OUTPUT, rank, 1}, (struct br_span){BR_INPUT, rank, 1});
}

/* The places whose numbers have this digit: their blocks go to one rank, those that come from
 * another take the places. */
struct group {
    uint32_t stride, size, digit; /* number / stride % size == digit */
};

static bool in_group(const struct group *group, uint32_t number)
{
    return number / group->stride % group->size == group->digit;
}

static void alltoall_swap(struct br_builder *b, uint32_t to, uint32_t from, uint8_t level,
                          const struct group *group, struct br_span *places)
{
    uint32_t n = br_builder_schedule(b)->n, count = 0, first = group->stride * group->digit;
    struct br_span pack, got;

    for (uint32_t i = 0; i < n; i++)
        count += in_group(group, i);
    pack = count > 1 ? br_builder_scratch(b, count) : places[first];
    got = br_builder_scratch(b, count);
    count = 0;
    for (uint32_t i = first; i < n; i++) {
        if (!in_group(group, i))
            continue;
        if (pack.count > 1)
            br_builder_copy(b, (struct br_span){BR_SCRATCH, pack.first + count, 1}, places[i]);
        places[i] = (struct br_span){BR_SCRATCH, got.first + count++, 1};
    }
    br_builder_send(b, to, level, pack);
    br_builder_recv(b, from, level, got);
}

/* Place i has the block that is i ranks away from its aim, later the one that came from i ranks
 * before. */
static void alltoall_by_distance(struct br_builder *b, struct br_span *places)
{
    const struct br_schedule *head = br_builder_schedule(b);
    uint32_t n = head->n, rank = head->rank;

    for (uint32_t i = 0; i < n; i++)
        places[i] = (struct br_span){BR_INPUT, (rank + i) % n, 1};
    for (uint64_t bit = 1; bit < n; bit *= 2)
        alltoall_swap(b, (uint32_t)((rank + bit) % n), (uint32_t)((rank + n - bit) % n),
                      BR_LEVEL_ANY, &(struct group){(uint32_t)bit, 2, 1}, places);
    for (uint32_t i = 0; i < n; i++)
        br_builder_copy(b, (struct br_span){BR_OUTPUT, (rank + n - i) % n, 1}, places[i]);
}

/* The digits of a place are those of the block's aim, and of its origin where they have had their
 * stage. */
static void alltoall_by_digits(struct br_builder *b, const struct br_shape *shape,
                               struct br_span *places)
{
    const struct br_schedule *head = br_builder_schedule(b);
    struct br_stages stages;

    br_shape_stages(shape, 0, &stages);
    for (uint32_t i = 0; i < head->n; i++)
        places[i] = (struct br_span){BR_INPUT, i, 1};
    for (uint32_t w = 0; w < stages.n_stages; w++) {
        const struct br_stage *stage = &stages.stages[w];

        for (uint32_t i = 1; i < stage->size; i++) {
            uint32_t digit = (br_stage_digit(stage, head->rank) + i) % stage->size;
            uint32_t peer = br_stage_member(stage, head->rank, digit);

            alltoall_swap(b, peer, peer, stage->level,
                          &(struct group){stage->stride, stage->size, digit}, places);
        }
    }
    for (uint32_t i = 0; i < head->n; i++)
        br_builder_copy(b, (struct br_span){BR_OUTPUT, i, 1}, places[i]);
}

uint32_t br_bruck_packed(const struct br_shape *shape, uint32_t n)
{
    uint32_t packed = shape->n_dimensions == 0 ? n / 2 : 1;

    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        if (shape->dimensions[i].size > 1 && n / shape->dimensions[i].size > packed)
            packed = n / shape->dimensions[i].size;
    }
    return packed > 0 ? packed : 1;
}

int br_generate_bruck(struct br_builder *b, const struct br_shape *shape)
{
    const struct br_schedule *head = br_builder_schedule(b);
    struct br_span *places = calloc(head->n, sizeof *places);

    if (!places)
        return br_error(ENOMEM, "no memory for the schedule of rank %u", head->rank);
    br_builder_set_pieces(b, 1);
    br_builder_set_packed(b, br_bruck_packed(shape, head->n));
    if (shape->n_dimensions > 0)
        alltoall_by_digits(b, shape, places);
    else
        alltoall_by_distance(b, places);
    free(places);
    return 0;
}
