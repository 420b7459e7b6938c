/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of binary trees, over all ranks and in each host. */
#include <math.h>

#include "collectives/tuning/cost_internal.h"
#include "collectives/schedule/generators/binary_tree.h"

/* The messages of one tree, in one direction. */
struct edges {
    struct br_schedule head; /* collective, n and root count */
    uint32_t per_host;       /* there is a tree in each host; 0: one over all ranks */
    uint32_t tree, height;   /* height: of the upper end; 0: all */
    bool up;
};

static struct br_tree_node cost_node_of(const struct edges *edges, uint32_t rank)
{
    struct br_schedule head = edges->head;

    head.rank = rank;
    return edges->per_host ? br_host_tree_node(rank, edges->per_host)
                           : br_tree_node(&head, edges->tree);
}

static uint32_t peer_in_tree(const void *context, uint32_t rank, uint32_t i)
{
    const struct edges *edges = context;
    struct br_tree_node place = cost_node_of(edges, rank);
    uint32_t peer, height;

    if (edges->up ? place.is_root : i >= place.n_children)
        return rank;
    peer = edges->up ? place.parent : place.children[i];
    height = edges->up ? cost_node_of(edges, peer).height : place.height;
    return edges->height == 0 || height == edges->height ? peer : rank;
}

/* All trees at once, in one direction, from or to the ranks of one height. */
static void add_edges(struct br_cost_problem *p, struct br_port_load *load, uint32_t trees,
                      uint32_t height, bool up)
{
    struct edges edges = {.head = {.collective = p->request->collective,
                                   .n = p->request->n,
                                   .root = p->request->root},
                          .per_host = p->request->algorithm == BR_HOST_TREE
                                          ? p->request->shape.dimensions[0].size
                                          : 0,
                          .height = height,
                          .up = up};
    struct br_exchange exchange = {.peer = peer_in_tree,
                                   .context = &edges,
                                   .peers = up ? 1 : 2,
                                   .ranks = p->request->n,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .messages = 1,
                                   .bytes = p->bytes / trees};

    for (edges.tree = 0; edges.tree < trees; edges.tree++)
        br_port_load_add(load, p->model, p->topology, &exchange, 1);
}

/* The messages from or to the ranks of one height. */
static void add_height(struct br_cost_problem *p, uint32_t trees, uint32_t height, bool up)
{
    struct br_port_load round;

    br_port_load_init(&round, p->model, p->topology);
    add_edges(p, &round, trees, height, up);
    br_cost_end_rounds(p, &round, up ? 2 * p->bytes / trees * p->model->gamma : 0);
}

/* One height after the other; every port is counted. Then the pace, by what each port carries of
 * all heights. */
static void add_counted_tree(struct br_cost_problem *p, uint32_t trees, uint32_t depth, bool up,
                             bool down)
{
    double sums = 2 * p->bytes / trees * p->model->gamma;

    for (uint32_t way = !up; way < 1u + down; way++)
        for (uint32_t h = 1; h <= depth; h++)
            add_height(p, trees, h, way == 0);
    br_cost_reset_rate(p);
    for (uint32_t way = !up; way < 1u + down; way++)
        add_edges(p, &p->load, trees, 0, way == 0);
    p->cpu = up ? sums : 0;
}

/* A rank of a tree has two children; in two trees it is a leaf of one. `carried`: messages that a
 * fragment sends through the busiest port of a network in which all ranks are neighbours, one way
 * and both. */
void br_cost_add_binary_tree(struct br_cost_problem *p, uint32_t trees)
{
    static const double carried[2][2] = {{2, 3}, {2, 4}};
    uint32_t n = p->request->n, last = br_collective_rooted(p->request->collective) ? n - 1 : n;
    bool up = p->request->collective != BR_BROADCAST, down = p->request->collective != BR_REDUCE;
    /* no rank sends and receives at once: in two trees each is a leaf of one, if there are enough
     */
    bool apart = up != down && (trees == 1 || n < 4);
    uint32_t depth = last < n;
    double b = p->bytes / trees, messages = carried[trees - 1][up && down], path;

    while (last >>= 1)
        depth++;
    if ((p->topology->kind != BR_TOPOLOGY_FLAT || p->topology->cores) && n <= BR_PORT_LOAD_PORTS) {
        add_counted_tree(p, trees, depth, up, down);
        return;
    }
    for (uint32_t i = 0; i < depth; i++) {
        double parents = trees * fmax(n >> (i + 2), 1); /* of this height */

        if (up)
            br_cost_add_rounds(p, parents, trees == 1 || apart, 1u << i, 2, b, 2);
        if (down)
            br_cost_add_rounds(p, parents, trees == 1 || apart, 1u << i, 2, b, 0);
    }
    br_cost_reset_rate(p);
    path = p->path;
    br_cost_add_rounds(p, (up + down) * (n - 1.0) * trees / messages, apart, 1, messages, b,
                       up * 2);
    p->path = path;
}

/* Between the hosts: the top of each tree exchanges with the one of a host at a distance. */
struct tops {
    uint32_t per_host, top; /* number of the tops within their hosts */
    uint32_t distance;
    bool across;    /* distance is the bit in which the hosts' numbers differ; else it is added */
    uint32_t hosts; /* the first so many */
};

static uint32_t peer_of_top(const void *context, uint32_t rank, uint32_t i)
{
    const struct tops *tops = context;
    uint32_t host = rank / tops->per_host;
    uint32_t peer = tops->across ? host ^ tops->distance : host + tops->distance;

    (void)i;
    return rank % tops->per_host == tops->top && peer < tops->hosts
               ? peer * tops->per_host + tops->top
               : rank;
}

static void add_tops(struct br_cost_problem *p, const struct tops *tops, double sums)
{
    br_cost_add_exchange(p, peer_of_top, tops, p->request->n, !tops->across, 1, p->bytes, sums);
}

void br_cost_add_host_tree(struct br_cost_problem *p)
{
    uint32_t per_host = p->request->shape.dimensions[0].size,
             hosts = p->request->shape.dimensions[1].size;
    uint32_t depth = 0, core = 1;
    struct tops tops = {.per_host = per_host};

    while (per_host >> (depth + 1))
        depth++;
    while (core <= hosts / 2)
        core *= 2;
    while (!br_host_tree_node(tops.top, per_host).is_root)
        tops.top++;
    for (uint32_t h = 1; h <= depth; h++)
        add_height(p, 1, h, true);
    if (core < hosts)
        add_tops(p, &(struct tops){per_host, tops.top, core, false, hosts}, 1);
    tops.across = true;
    tops.hosts = core;
    for (tops.distance = 1; tops.distance < core; tops.distance *= 2)
        add_tops(p, &tops, 1);
    if (core < hosts)
        add_tops(p, &(struct tops){per_host, tops.top, core, false, hosts}, 0);
    for (uint32_t h = depth; h > 0; h--)
        add_height(p, 1, h, false);
}

/* ---- core trees ------------------------------------------------------------------------------ */

/* What ranks of one core say to each other takes this part of other messages: the bytes stay in the
 * caches of the core, and nobody waits for another one. Measured with 4 and 8 ranks on 2 cores, TCP
 * on loopback: doc/design/cost_model.md, section 3. */
#define MESSAGE_WITHIN_CORE 0.5

/* `active` messages of so many blocks each, or where they are not packed of a block each. */
static void add_blocks(struct br_cost_problem *p, double active, bool one_way, double blocks,
                       double sums)
{
    bool whole = p->request->packed || !br_collective_by_blocks(p->request->collective);
    double messages = whole ? 1 : blocks;

    br_cost_add_rounds(p, active, one_way, 1, messages, blocks / messages * p->bytes,
                       sums * messages);
}

/* Among the leaders: whole sums by doubling, else all exchange with all. */
static void add_leaders(struct br_cost_problem *p, uint32_t cores, double blocks, double sums)
{
    uint32_t core = 1;

    if (br_collective_by_blocks(p->request->collective)) {
        add_blocks(p, (double)cores * (cores - 1), false, blocks, sums * (cores - 1));
        return;
    }
    while (core <= cores / 2)
        core *= 2;
    if (core < cores)
        add_blocks(p, cores - core, true, 1, 1);
    for (uint32_t bit = 1; bit < core; bit *= 2)
        add_blocks(p, core, false, 1, 1);
    if (core < cores)
        add_blocks(p, cores - core, true, 1, 0);
}

/* Ranks of a core have as many messages as those of another, so the machine is the bound, and not a
 * leader. */
void br_cost_add_core_tree(struct br_cost_problem *p)
{
    enum br_collective collective = p->request->collective;
    uint32_t n = p->request->n, size = p->request->shape.dimensions[0].size, cores = n / size;
    bool blocks = br_collective_by_blocks(collective), sums = collective != BR_ALLGATHER;
    double all = n, within = MESSAGE_WITHIN_CORE * (n - cores);

    p->counts_ready = blocks;
    add_blocks(p, within, true, collective == BR_REDUCE_SCATTER ? all : 1, sums ? size - 1.0 : 0);
    add_leaders(p, cores, blocks ? size : 1, sums);
    p->counts_ready = false; /* it has gone up with a message of each rank */
    add_blocks(p, within, true, collective == BR_ALLGATHER ? all : 1, 0);
}
