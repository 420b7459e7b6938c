/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The formulas. For one fragment each algorithm has three times: `path`, from start to end; `port`,
 * how long its busiest port is occupied; `cpu`, how long its busiest rank computes. F fragments of
 * 1/F of the bytes follow each other at the pace of the scarcest: path + (F - 1) * max(port, cpu),
 * or port + cpu where one core does both. The first long messages wait for READY besides. A stage
 * lasts until its busiest port is done; over the whole schedule the ports are counted one by one
 * (`load`), because different stages, and different fragments in them, use different levels at the
 * same time.
 */
#include "collectives/tuning/cost.h"

#include <errno.h>
#include <math.h>

#include "base/error.h"
#include "collectives/tuning/cost_internal.h"

/* ---- rounds of messages ---------------------------------------------------------------------- */

uint32_t br_cost_peer_at_distance(const void *distance, uint32_t rank, uint32_t i)
{
    const uint32_t *d = distance; /* and the number of ranks */

    (void)i;
    return (rank + d[0]) % d[1];
}

static uint32_t peer_of_all(const void *n, uint32_t rank, uint32_t i)
{
    return (rank + 1 + i) % *(const uint32_t *)n;
}

static uint32_t peer_across(const void *bit, uint32_t rank, uint32_t i)
{
    (void)i;
    return rank ^ *(const uint32_t *)bit;
}

uint32_t br_cost_peer_in_stage(const void *stage, uint32_t rank, uint32_t i)
{
    const struct br_stage *s = stage;

    return br_stage_member(s, rank, (br_stage_digit(s, rank) + 1 + i) % s->size);
}

void br_cost_end_rounds(struct br_cost_problem *p, const struct br_port_load *round, double cpu)
{
    p->path += round->alpha + br_port_load_busiest(round, NULL) + cpu;
    p->ready = fmax(p->ready, round->ready);
    p->cpu += cpu;
    br_port_load_sum(&p->load, round);
}

/* One round, after which a rank adds up `sums` messages. */
static void add_round(struct br_cost_problem *p, const struct br_exchange *exchange, double sums)
{
    struct br_port_load round;

    br_port_load_init(&round, p->model, p->topology);
    br_port_load_add(&round, p->model, p->topology, exchange, 1);
    br_cost_end_rounds(p, &round, sums * exchange->bytes * p->model->gamma);
}

void br_cost_add_exchange(struct br_cost_problem *p,
                          uint32_t (*peer)(const void *, uint32_t, uint32_t), const void *context,
                          uint32_t ranks, bool one_way, double messages, double bytes, double sums)
{
    struct br_exchange exchange = {.peer = peer,
                                   .context = context,
                                   .peers = 1,
                                   .ranks = ranks,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .one_way = one_way,
                                   .ready = br_collective_by_blocks(p->request->collective),
                                   .messages = messages,
                                   .bytes = bytes};

    add_round(p, &exchange, sums);
}

void br_cost_add_rounds(struct br_cost_problem *p, double active, bool one_way, uint32_t distance,
                        double messages, double bytes, double sums)
{
    uint32_t context[2] = {distance, p->request->n};
    struct br_exchange exchange = {.peer = br_cost_peer_at_distance,
                                   .context = context,
                                   .peers = 1,
                                   .ranks = p->request->n,
                                   .sender = BR_PORT_LOAD_ALL,
                                   .level = BR_LEVEL_ANY,
                                   .messages = messages,
                                   .bytes = bytes,
                                   .active = active,
                                   .one_way = one_way,
                                   .ready = p->counts_ready,
                                   .reversed = p->to_root};

    add_round(p, &exchange, sums);
}

void br_cost_add_fold(struct br_cost_problem *p, uint32_t core, double messages, double bytes,
                      double sums)
{
    uint32_t context[2] = {core, p->request->n};

    br_cost_add_exchange(p, br_cost_peer_at_distance, context, p->request->n - core, true, messages,
                         bytes, sums);
}

void br_cost_add_all(struct br_cost_problem *p, uint32_t sender, uint32_t others, double bytes,
                     double sums)
{
    struct br_exchange exchange = {.peer = peer_of_all,
                                   .context = &p->request->n,
                                   .peers = others,
                                   .ranks = p->request->n,
                                   .sender = sender,
                                   .reversed = p->to_root,
                                   .level = BR_LEVEL_ANY,
                                   .messages = 1,
                                   .bytes = bytes,
                                   .together = sender == BR_PORT_LOAD_ALL ? others : 0};

    add_round(p, &exchange, sums);
}

static void add_copies(struct br_cost_problem *p, double bytes)
{
    p->path += bytes * p->model->copy;
    p->cpu += bytes * p->model->copy;
}

void br_cost_add_copies_in_turn(struct br_cost_problem *p, double bytes)
{
    uint32_t n = p->request->n, cores = p->topology->cores;

    add_copies(p, cores && n > cores ? bytes * n / cores : bytes);
}

bool br_cost_of_sums(const struct br_cost_problem *p)
{
    return !(p->model->in_memory && p->request->n == 2 && p->request->collective == BR_REDUCE);
}

/* ---- algorithms ------------------------------------------------------------------------------ */

/* Each round reaches twice as far. */
static void add_doubling_rounds(struct br_cost_problem *p, double bytes, double sums)
{
    for (uint32_t distance = 1; distance < p->request->n; distance *= 2)
        br_cost_add_rounds(p, p->request->n, false, distance, 1, bytes, sums);
}

void br_cost_reset_rate(struct br_cost_problem *p)
{
    br_port_load_init(&p->load, p->model, p->topology);
    p->cpu = 0;
}

/* Do all blocks of a tree that travel together make one message? */
static bool is_one_message(const struct br_cost_problem *p)
{
    return p->request->packed || !br_collective_by_blocks(p->request->collective);
}

/* Are blocks copied so that those of a subtree follow each other? At a root, of an alltoall on the
 * way down. */
static bool copies_packed(const struct br_cost_problem *p)
{
    return br_collective_rooted(p->request->collective) ||
           (p->request->collective == BR_ALLTOALL && !p->to_root);
}

/* Where ranks share cores, a rank between the root and the leaves can pass blocks on only when it
 * has its turn. Each other rank of its core but the one that it sends to, which meanwhile looks for
 * messages in vain, delays it by this part of the time that a core has for a message: by more
 * behind a barrier, by nothing in a stream of calls. Measured with 4 to 64 ranks on 2 cores,
 * scatters over TCP on loopback: doc/design/cost_model.md, section 3. */
#define TURN 0.1

/* Seconds until a rank has its turn on its core; 0 where it need not wait for one. */
static double turn_on_core(const struct br_cost_problem *p)
{
    const struct br_topology *t = p->topology;

    if (t->kind != BR_TOPOLOGY_FLAT || !t->cores || t->emulated || p->model->in_memory)
        return 0;
    /* the model's overhead is the time of a message over all cores */
    return TURN * fmax((double)t->n / t->cores - 2, 0) * t->cores *
           br_cost_message(p->model, BR_LEVEL_ANY).overhead;
}

/* The messages of a subtree double from round to round. */
static void add_packed_tree(struct br_cost_problem *p)
{
    uint32_t others = p->request->n - 1;

    for (uint32_t blocks = 1; blocks <= others; blocks *= 2) {
        double together = fmin(blocks, others + 1 - blocks);
        double messages = is_one_message(p) ? 1 : together;

        br_cost_add_rounds(p, 1 + (others - blocks) / (2 * blocks), true, blocks, messages,
                           together / messages * p->bytes, 0);
        if (blocks > 1 && br_collective_rooted(p->request->collective))
            p->path += turn_on_core(p);
    }
    if (copies_packed(p))
        add_copies(p, others * p->bytes);
}

static void add_bruck(struct br_cost_problem *p)
{
    uint32_t n = p->request->n, half = n / 2;

    for (uint32_t distance = 1; distance < n; distance *= 2) {
        br_cost_add_rounds(p, n, false, distance, 1, half * p->bytes, 0);
        br_cost_add_copies_in_turn(p, n * 0.5 * p->bytes);
    }
    br_cost_add_copies_in_turn(p, n * p->bytes);
}

static void add_doubling(struct br_cost_problem *p)
{
    uint32_t n = p->request->n, core = 1;

    while (core <= n / 2)
        core *= 2;
    if (core < n)
        br_cost_add_fold(p, core, 1, p->bytes, 1);
    for (uint32_t bit = 1; bit < core; bit *= 2)
        br_cost_add_exchange(p, peer_across, &bit, core, false, 1, p->bytes, 1);
    if (core < n)
        br_cost_add_fold(p, core, 1, p->bytes, 0);
}

/* The first ranks have all that they send at once, so their messages share the port in the first
 * round. */
static void add_scan_doubling(struct br_cost_problem *p, double sums)
{
    uint32_t n = p->request->n, rounds = 0;
    double path;

    for (uint32_t distance = 1; distance < n; distance *= 2)
        rounds++;
    br_cost_add_rounds(p, n, true, 1, rounds, p->bytes, sums);
    for (uint32_t distance = 2; distance < n; distance *= 2)
        br_cost_add_rounds(p, n, 2 * distance >= n, distance, 1, p->bytes, sums);
    path = p->path;
    br_cost_reset_rate(p);
    br_cost_add_rounds(p, n, true, 1, rounds, p->bytes, rounds * sums);
    p->path = path;
}

/* Digit by digit, as much as the busiest rank has: in a tree the root. packed: blocks of a subtree
 * travel together. */
static void add_digits(struct br_cost_problem *p, double sum, bool packed)
{
    bool bruck = p->request->algorithm == BR_BRUCK, tree = p->request->algorithm == BR_TREE;
    uint32_t n = p->request->n;
    struct br_stages stages;

    br_shape_stages(&p->request->shape, 0, &stages);
    for (uint32_t w = 0; w < stages.n_stages; w++) {
        const struct br_stage *stage = &stages.stages[w];
        double together = bruck ? n / stage->size : packed ? stage->stride : 1;
        double messages = !tree || is_one_message(p) ? 1 : packed ? together : n;
        double bytes = together / messages * p->bytes;
        double active = tree ? n / (stage->stride * stage->size) : n;
        struct br_exchange exchange = {.peer = br_cost_peer_in_stage,
                                       .context = stage,
                                       .peers = stage->size - 1,
                                       .ranks = n,
                                       .sender = BR_PORT_LOAD_ALL,
                                       .level = stage->level,
                                       .messages = messages,
                                       .bytes = bytes,
                                       .active = active,
                                       .one_way = tree};

        add_round(p, &exchange, sum * messages * (stage->size - 1));
        if (bruck)
            br_cost_add_copies_in_turn(p, (stage->size - 1) * bytes);
    }
    if (bruck)
        br_cost_add_copies_in_turn(p, n * p->bytes);
    else if (packed && copies_packed(p))
        add_copies(p, n * p->bytes);
}

/* Everybody with everybody, or the root with all. */
static void add_flat(struct br_cost_problem *p, double sum)
{
    uint32_t others = p->request->n - 1;
    enum br_collective collective = p->request->collective;
    uint32_t sender = br_collective_rooted(collective) || collective == BR_BARRIER
                          ? p->request->root
                          : BR_PORT_LOAD_ALL;

    br_cost_add_all(p, sender, others, p->bytes, sum * others);
}

/* A rank serves all its children at once: the largest subtree's share of the port grows as the
 * others end. A core serves one after the other, the largest subtree first, and so does each rank
 * where only the overheads of small messages count. */
static void add_tree(struct br_cost_problem *p, double sum)
{
    uint32_t n = p->request->n, depth = 0;
    double path, messages = is_one_message(p) ? 1 : n, bytes = p->bytes / messages;

    for (uint32_t distance = 1; distance < n; distance *= 2, depth++) {
        double edges = fmin(distance, n - distance);
        double share = p->to_root || p->topology->cores ? 1 : depth + 1;

        br_cost_add_rounds(p, edges / share, true, distance, messages, share * bytes,
                           sum * messages / share);
    }
    path = p->path;
    br_cost_reset_rate(p);
    p->ready = 0; /* the rounds above have put the bytes of several messages into one */
    br_cost_add_rounds(p, (n - 1.0) / depth, true, 1, depth * messages, bytes, sum * messages);
    p->path = path;
}

/* One link after the other; with many fragments all of them at once. */
static void add_chain(struct br_cost_problem *p, double sum)
{
    double links = p->request->n - 1, path;

    br_cost_add_rounds(p, 1, true, 1, 1, p->bytes, sum);
    path = p->path * links;
    br_cost_reset_rate(p);
    br_cost_add_rounds(p, links, links < 2, 1, 1, p->bytes, sum);
    p->path = path;
}

/* Every tree at once: the busiest NIC carries a piece for each of its edges, and the last piece
 * goes up and down the deepest tree. */
static void add_forest(struct br_cost_problem *p)
{
    const struct br_disjoint_trees *trees = p->request->disjoint_trees;
    double piece = p->bytes / trees->trees, busy = 0, alpha = 0;

    for (uint32_t l = 0; l < p->model->n_levels; l++) {
        const struct br_cost_level *level = &p->model->levels[l];

        busy = fmax(busy, level->overhead + piece * level->beta);
        alpha = fmax(alpha, level->alpha);
    }
    p->load.out[0][0] += trees->busiest * busy;
    p->load.machine += 2.0 * trees->trees * (p->request->n - 1) *
                       (p->model->machine.overhead + piece * p->model->machine.beta);
    p->cpu += p->bytes * p->model->gamma;
    p->path += fmax(trees->busiest * busy, p->load.machine) + 2 * trees->depth * (alpha + busy) +
               piece * p->model->gamma;
}

static void tuning_cost_add_messages(struct br_cost_problem *p)
{
    const struct br_schedule_request *request = p->request;
    bool scan = request->collective == BR_SCAN || request->collective == BR_EXSCAN;
    /* of a tree: do the messages of this direction hold the blocks of a subtree each? */
    bool packed =
        request->collective == BR_ALLTOALL ||
        (p->to_root
             ? request->collective == BR_GATHER || request->collective == BR_ALLGATHER
             : request->collective == BR_SCATTER || request->collective == BR_REDUCE_SCATTER);
    double sum = scan || request->collective == BR_ALLREDUCE ||
                 (request->collective == BR_REDUCE && br_cost_of_sums(p)) ||
                 (request->collective == BR_REDUCE_SCATTER && p->to_root);
    struct br_shape shape;

    if (request->n == 1) {
        p->path = p->cpu = p->bytes * p->model->copy;
    } else if (br_algorithm_shape(request, &shape)) {
        br_cost_add_shape(p, &shape);
    } else if (request->shape.n_dimensions > 0 && br_algorithm_digits(request->algorithm)) {
        add_digits(p, sum, packed);
    } else if (request->algorithm == BR_BINARY_TREE || request->algorithm == BR_DOUBLE_TREE) {
        br_cost_add_binary_tree(p, request->algorithm == BR_BINARY_TREE ? 1 : 2);
    } else if (request->algorithm == BR_HOST_TREE) {
        br_cost_add_host_tree(p);
    } else if (request->algorithm == BR_CORE_TREE) {
        br_cost_add_core_tree(p);
    } else if (request->algorithm == BR_DISJOINT_TREES) {
        add_forest(p);
    } else if (request->algorithm == BR_DOUBLING && scan) {
        add_scan_doubling(p, request->collective == BR_SCAN ? 1 : 2);
    } else if (request->algorithm == BR_DOUBLING) {
        add_doubling(p);
    } else if (request->algorithm == BR_BRUCK) {
        add_bruck(p);
    } else if (request->algorithm == BR_TREE && packed) {
        add_packed_tree(p);
    } else if (request->algorithm == BR_FLAT || request->algorithm == BR_DIRECT) {
        add_flat(p, sum);
    } else if (request->algorithm == BR_CHAIN) {
        add_chain(p, sum);
    } else if (request->algorithm == BR_TREE) {
        add_tree(p, sum);
    } else {
        add_doubling_rounds(p, 0, 0);
    }
}

/* Where ranks share cores, a tree of sums sends on what it has just added up, in the caches of its
 * core; in an exchange of all ranks the others have their turns in between. So of a reduce-scatter
 * that goes up and down a tree a byte costs this part. Measured with 8 to 32 ranks on 2 cores, TCP
 * on loopback: doc/design/cost_model.md, section 3. */
#define PASSED_ON 0.91

/* Up a tree to rank 0 and down again: a barrier, and with blocks of all ranks an allgather, which
 * brings all of them down, a reduce-scatter, which brings all of them up, and an alltoall, which
 * brings as many from each rank and to each. */
static void add_up_and_down(struct br_cost_problem *p)
{
    double n = p->request->n, bytes = p->bytes, block = bytes, cpu;
    enum br_collective collective = p->request->collective;
    struct br_port_load up;

    if (collective == BR_REDUCE_SCATTER && p->topology->cores && !p->model->in_memory &&
        p->topology->kind == BR_TOPOLOGY_FLAT)
        p->bytes = block = PASSED_ON * bytes;
    p->to_root = true;
    p->counts_ready = collective != BR_BARRIER && collective != BR_ALLTOALL;
    if (collective == BR_REDUCE_SCATTER || collective == BR_ALLTOALL)
        p->bytes = n * block;
    tuning_cost_add_messages(p);
    up = p->load;
    cpu = p->cpu;
    br_cost_reset_rate(p);
    p->to_root = false;
    p->counts_ready = false; /* it has gone up with a message of each rank */
    p->bytes = collective == BR_ALLGATHER || collective == BR_ALLTOALL ? n * block : block;
    tuning_cost_add_messages(p);
    p->bytes = bytes;
    br_port_load_sum(&p->load, &up);
    p->cpu += cpu;
}

static void add_algorithm(struct br_cost_problem *p)
{
    enum br_collective collective = p->request->collective;

    p->to_root = collective == BR_REDUCE || collective == BR_GATHER;
    if ((collective == BR_BARRIER && p->request->algorithm != BR_DISSEMINATION &&
         p->request->algorithm != BR_CORE_TREE) ||
        (p->request->algorithm == BR_TREE &&
         (br_collective_by_blocks(collective) || collective == BR_ALLTOALL)))
        add_up_and_down(p);
    else
        tuning_cost_add_messages(p);
}

static void tuning_cost_estimate(struct br_cost_problem *p, double bytes, uint32_t fragments,
                                 struct br_cost_parts *parts)
{
    p->bytes = p->request->collective == BR_BARRIER ? 0 : bytes / fragments;
    p->path = p->cpu = p->ready = 0;
    br_port_load_init(&p->load, p->model, p->topology);
    add_algorithm(p);
    parts->port = br_port_load_busiest(&p->load, &parts->level);
    parts->cpu = p->cpu;
    parts->total = p->path + p->ready +
                   (fragments - 1) * (p->model->shared ? parts->port + parts->cpu
                                                       : fmax(parts->port, parts->cpu));
    parts->port *= fragments;
    parts->cpu *= fragments;
}

/* The problem with links as they were measured, and nothing else that bounds them. */
static void tuning_cost_set_links(struct br_cost_problem *p, struct br_cost_model *links,
                                  struct br_topology *topology)
{
    struct br_cost_model memory;

    *links = *p->model;
    *topology = *p->topology;
    topology->cores = 0;
    for (uint32_t l = 0; l < links->n_levels; l++) {
        links->levels[l] = links->link;
        links->levels[l].beta *= topology->kind == BR_TOPOLOGY_FLAT ? links->n_levels : 1;
    }
    if (topology->kind == BR_TOPOLOGY_HOSTS) {
        br_cost_model_default(&memory, BR_COST_HOST, 1);
        links->levels[0] = memory.levels[0];
    }
    links->topology = topology;
    p->model = links;
    p->topology = topology;
}

/* The estimate, or that by the links alone if it is longer. Not of rooted collectives, whose calls
 * follow each other down a tree without waiting for the links' latency (doc/design/cost_model.md,
 * section 4). */
static void tuning_cost_estimate_bounded(struct br_cost_problem *p, double bytes,
                                         uint32_t fragments, struct br_cost_parts *parts)
{
    struct br_cost_problem bound = *p;
    struct br_cost_parts by_links = {.level = 0};
    struct br_cost_model links;
    struct br_topology topology;

    fragments = fragments < 1 ? 1 : fragments;
    tuning_cost_estimate(p, bytes, fragments, parts);
    if (!(p->model->link.beta > 0) || br_collective_rooted(p->request->collective))
        return;
    tuning_cost_set_links(&bound, &links, &topology);
    tuning_cost_estimate(&bound, bytes, fragments, &by_links);
    if (by_links.total > parts->total)
        *parts = by_links;
}

/* Everything but the numbers. */
static int tuning_cost_prepare(struct br_cost_problem *p, struct br_topology *flat)
{
    int rc = br_algorithm_check(p->request);

    if (rc == 0)
        rc = br_cost_model_check(p->model);
    p->topology = p->model->topology;
    if (rc == 0 && p->topology && p->topology->n != p->request->n)
        rc = br_error(EINVAL, "the topology has %u ranks, the schedule %u", p->topology->n,
                      p->request->n);
    if (!p->topology) {
        br_topology_flat(flat, p->request->n);
        p->topology = flat;
    }
    return rc;
}

int br_cost_explain(const struct br_cost_model *model, const struct br_schedule_request *request,
                    double bytes, uint32_t fragments, struct br_cost_parts *parts)
{
    struct br_cost_problem problem = {.model = model, .request = request};
    struct br_cost_parts empty = {.level = 0};
    struct br_topology flat;
    int rc = tuning_cost_prepare(&problem, &flat);

    if (rc != 0)
        return rc;
    *parts = empty;
    tuning_cost_estimate_bounded(&problem, 0, fragments, &empty);
    tuning_cost_estimate_bounded(&problem, bytes, fragments, parts);
    parts->latency = empty.total;
    return 0;
}

int br_cost_estimate(const struct br_cost_model *model, const struct br_schedule_request *request,
                     double bytes, uint32_t fragments, double *seconds)
{
    struct br_cost_problem problem = {.model = model, .request = request};
    struct br_cost_parts parts = {.level = 0};
    struct br_topology flat;
    int rc = tuning_cost_prepare(&problem, &flat);

    if (rc != 0)
        return rc;
    tuning_cost_estimate_bounded(&problem, bytes, fragments, &parts);
    *seconds = parts.total;
    return 0;
}
