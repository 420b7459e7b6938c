/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/schedule/generators/host_tree.h"

#include "collectives/schedule/generators/doubling.h"

struct br_tree_node br_host_tree_node(uint32_t rank, uint32_t per_host)
{
    uint32_t first = rank / per_host * per_host;
    struct br_schedule host = {.collective = BR_ALLREDUCE, .n = per_host, .rank = rank - first};
    struct br_tree_node place = br_tree_node(&host, 0);

    place.parent += first;
    for (uint32_t i = 0; i < place.n_children; i++)
        place.children[i] += first;
    return place;
}

void br_generate_host_tree(struct br_builder *b, uint32_t per_host)
{
    const struct br_schedule *head = br_builder_schedule(b);
    struct br_tree_node place = br_host_tree_node(head->rank, per_host);
    struct br_span sum;

    br_builder_set_pieces(b, 1);
    sum = br_binary_up(b, &place, 0, false);
    if (place.is_root)
        br_doubling_among(
            b, sum, &(struct br_doubling){head->rank % per_host, per_host, head->n / per_host});
    br_binary_down(b, &place, 0);
}
