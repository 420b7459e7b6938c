/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 1. The nodes of a tree stand at the positions 1 .. m; a position's height is the number of zeros
 *    at its end, the parent of one of height h is the nearest of height h + 1 (where that is beyond
 *    m, the nearest further up). So odd positions are leaves, and the nodes of a subtree follow
 *    each other: sums are in their order.
 * 2. The second tree is the first one mirrored where m is even, shifted by one where it is odd.
 *    Either way the positions of a node in the two trees are odd at least once.
 * 3. An allreduce has all ranks in the trees. A broadcast or reduce has all but the root, which
 *    stands above both trees: so it sends or gets the buffer once.
 *
 * Rejected: halves on two binomial trees (their inner ranks have up to lg n children).
 */
#include "collectives/schedule/generators/binary_tree.h"

#include "collectives/schedule/generators/doubling.h"

static uint32_t low_bit(uint32_t position)
{
    return position & (~position + 1);
}

static uint32_t root_position(uint32_t m)
{
    uint32_t top = 1;

    while (top <= m / 2)
        top *= 2;
    return top;
}

/* Of a position that is not the top. */
static uint32_t parent_position(uint32_t m, uint32_t position)
{
    do {
        uint32_t bit = low_bit(position);

        position = (position - bit) | bit << 1;
    } while (position > m);
    return position;
}

/* The position of node 0 .. m-1 in a tree, and back. */
static uint32_t position_of(uint32_t m, uint32_t tree, uint32_t node)
{
    if (tree == 0)
        return node + 1;
    return m % 2 == 0 ? m - node : (node + 1) % m + 1;
}

static uint32_t binary_tree_node_at(uint32_t m, uint32_t tree, uint32_t position)
{
    if (tree == 0)
        return position - 1;
    return m % 2 == 0 ? m - position : (position + m - 2) % m;
}

static uint32_t height_of(uint32_t position)
{
    uint32_t height = 0;

    for (uint32_t bit = low_bit(position); bit > 1; bit /= 2)
        height++;
    return height;
}

struct br_tree_node br_tree_node(const struct br_schedule *head, uint32_t tree)
{
    bool rooted = br_collective_rooted(head->collective);
    uint32_t n = head->n, m = rooted ? n - 1 : n, first = rooted ? head->root + 1 : 0;
    uint32_t position = position_of(m, tree, (head->rank + n - first % n) % n);
    struct br_tree_node place = {0};

    if (rooted && head->rank == head->root) {
        place.is_root = true;
        place.height = height_of(root_position(m)) + 1;
        place.children[place.n_children++] =
            (binary_tree_node_at(m, tree, root_position(m)) + first) % n;
        return place;
    }
    place.height = height_of(position);
    if (position != root_position(m))
        place.parent = (binary_tree_node_at(m, tree, parent_position(m, position)) + first) % n;
    else if (rooted)
        place.parent = head->root;
    else
        place.is_root = true;
    if (low_bit(position) > 1) {
        place.children[place.n_children++] =
            (binary_tree_node_at(m, tree, position - low_bit(position) / 2) + first) % n;
        place.before = 1;
    }
    for (uint32_t step = low_bit(position) / 2; step > 0; step /= 2) {
        if (step > m - position)
            continue;
        place.children[place.n_children++] =
            (binary_tree_node_at(m, tree, position + step) + first) % n;
        break;
    }
    return place;
}

struct br_span br_binary_up(struct br_builder *b, const struct br_tree_node *place, uint32_t tree,
                            bool last)
{
    const struct br_schedule *head = br_builder_schedule(b);
    const struct br_span own = {BR_INPUT, tree, 1};
    struct br_span sources[3], sum = own;
    uint32_t n = 0;

    for (uint32_t i = 0; i <= place->n_children; i++) {
        if (i == place->before)
            sources[n++] = own;
        if (i < place->n_children)
            sources[n++] = br_builder_recv_scratch(b, place->children[i], BR_LEVEL_ANY, own);
    }
    if (place->n_children > 0) {
        bool final = place->is_root && last,
             output = final || (head->collective == BR_ALLREDUCE && !place->is_root);

        sum = output ? (struct br_span){BR_OUTPUT, tree, 1} : br_builder_scratch(b, 1);
        br_builder_reduce(b, sum, sources, n, final);
    }
    if (!place->is_root)
        br_builder_send(b, place->parent, BR_LEVEL_ANY, sum);
    return sum;
}

void br_binary_down(struct br_builder *b, const struct br_tree_node *place, uint32_t tree)
{
    bool has = place->is_root && br_builder_schedule(b)->collective == BR_BROADCAST;
    struct br_span result = {has ? BR_INPUT : BR_OUTPUT, tree, 1};

    if (!place->is_root)
        br_builder_recv(b, place->parent, BR_LEVEL_ANY, result);
    for (uint32_t i = 0; i < place->n_children; i++)
        br_builder_send(b, place->children[i], BR_LEVEL_ANY, result);
}

void br_generate_binary_tree(struct br_builder *b, uint32_t trees)
{
    const struct br_schedule *head = br_builder_schedule(b);
    const struct br_span input = {BR_INPUT, 0, trees}, output = {BR_OUTPUT, 0, trees};
    bool root = head->rank == head->root;
    struct br_tree_node places[2];

    br_builder_set_pieces(b, trees);
    for (uint32_t tree = 0; tree < trees && head->n > 1; tree++)
        places[tree] = br_tree_node(head, tree);
    for (uint32_t tree = 0; tree < trees && head->n > 1 && head->collective != BR_BROADCAST; tree++)
        br_binary_up(b, &places[tree], tree, true);
    for (uint32_t tree = 0; tree < trees && head->n > 1 && head->collective != BR_REDUCE; tree++)
        br_binary_down(b, &places[tree], tree);
    if (head->n == 1 || (head->collective == BR_BROADCAST && root))
        br_builder_copy(b, output, input);
}

/* ---- host trees ------------------------------------------------------------------------------ */

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
