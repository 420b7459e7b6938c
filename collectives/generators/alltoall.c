/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/generators/alltoall.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"

/* In place a block cannot arrive where the one to be sent still stands: each end would wait for the other. */
void br_generate_exchange(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, rank = head->rank;
    struct br_span aside = {0};

    br_builder_cut(b, 1);
    if (head->in_place && n > 1)
        aside = br_builder_scratch(b, n - 1);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t to = (rank + i) % n, from = (rank + n - i) % n;
        struct br_span scratch = {BR_SCRATCH, aside.first + i - 1, 1}, output = {BR_OUTPUT, from, 1};

        br_builder_send(b, to, BR_LEVEL_ANY, (struct br_span){BR_INPUT, to, 1});
        br_builder_recv(b, from, BR_LEVEL_ANY, head->in_place ? scratch : output);
    }
    for (uint32_t i = 1; i < n && head->in_place; i++)
        br_builder_copy(b, (struct br_span){BR_OUTPUT, (rank + n - i) % n, 1},
                        (struct br_span){BR_SCRATCH, aside.first + i - 1, 1});
    br_builder_copy(b, (struct br_span){BR_OUTPUT, rank, 1}, (struct br_span){BR_INPUT, rank, 1});
}

/* The blocks at the distances with this bit go that far; those that come take their places. */
static void bruck_round(struct br_builder *b, uint32_t bit, struct br_span *places)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, count = 0;
    struct br_span pack, got;

    for (uint32_t i = bit; i < n; i++)
        count += (i & bit) != 0;
    pack = count > 1 ? br_builder_scratch(b, count) : places[bit];
    got = br_builder_scratch(b, count);
    count = 0;
    for (uint32_t i = bit; i < n; i++) {
        if (!(i & bit))
            continue;
        if (pack.count > 1)
            br_builder_copy(b, (struct br_span){BR_SCRATCH, pack.first + count, 1}, places[i]);
        places[i] = (struct br_span){BR_SCRATCH, got.first + count++, 1};
    }
    br_builder_send(b, (head->rank + bit) % n, BR_LEVEL_ANY, pack);
    br_builder_recv(b, (head->rank + n - bit) % n, BR_LEVEL_ANY, got);
}

uint32_t br_bruck_packed(uint32_t n)
{
    return n > 1 ? n / 2 : 1;
}

/* places[i]: where the block is that is i ranks away from its aim, later that came from i ranks before. */
int br_generate_bruck(struct br_builder *b)
{
    const struct br_schedule *head = br_builder_head(b);
    uint32_t n = head->n, rank = head->rank;
    struct br_span *places = calloc(n, sizeof *places);

    if (!places)
        return br_error(ENOMEM, "no memory for the schedule of rank %u", rank);
    br_builder_cut(b, 1);
    br_builder_pack(b, br_bruck_packed(n));
    for (uint32_t i = 0; i < n; i++)
        places[i] = (struct br_span){BR_INPUT, (rank + i) % n, 1};
    for (uint64_t bit = 1; bit < n; bit *= 2)
        bruck_round(b, (uint32_t)bit, places);
    for (uint32_t i = 0; i < n; i++)
        br_builder_copy(b, (struct br_span){BR_OUTPUT, (rank + n - i) % n, 1}, places[i]);
    free(places);
    return 0;
}
