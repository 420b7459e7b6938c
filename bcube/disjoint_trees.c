/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbered notes, about the choice of edges and rejected designs, are in doc/design/bcube.md.
 */
#include "bcube/disjoint_trees.h"

#include <errno.h>
#include <stdlib.h>

#include "base/digest.h"
#include "base/error.h"

#define NOBODY UINT32_MAX

struct growth {
    struct br_disjoint_trees *trees;
    const struct br_failures *failures;
    uint32_t tree;
    uint32_t *load;  /* [hosts * k] edges of all trees so far */
    uint32_t *depth; /* [hosts] in this tree; NOBODY: not in it */
};

struct edge {
    uint32_t from, to, level; /* from is in the tree */
    uint64_t cost;
};

static uint32_t *load_of(const struct growth *g, uint32_t host, uint32_t level)
{
    return &g->load[host * g->trees->cube.k + level];
}

static uint64_t fourth_power(uint64_t x)
{
    return x * x * x * x;
}

static uint64_t disjoint_trees_cost_of(const struct growth *g, uint32_t host, uint32_t level)
{
    uint32_t load = *load_of(g, host, level);

    return fourth_power(load + 1ull) - fourth_power(load);
}

/* The order of note 3. */
static uint32_t rotation_of(const struct growth *g, uint32_t host)
{
    return (host + g->trees->hosts - g->tree % g->trees->hosts) % g->trees->hosts;
}

static bool disjoint_trees_is_better(const struct growth *g, uint32_t level, uint32_t a, uint32_t b)
{
    uint32_t load_a, load_b;

    if (b == NOBODY)
        return true;
    load_a = *load_of(g, a, level);
    load_b = *load_of(g, b, level);
    if (load_a != load_b)
        return load_a < load_b;
    if (g->depth[a] != g->depth[b])
        return g->depth[a] < g->depth[b];
    return rotation_of(g, a) < rotation_of(g, b);
}

/* The cheapest edge of a switch, if it is better than the best so far. */
static void look_at_switch(const struct growth *g, uint32_t level, uint32_t index,
                           struct edge *best)
{
    const struct br_bcube *cube = &g->trees->cube;
    uint32_t inside = NOBODY, outside = NOBODY;
    uint64_t cost;

    for (uint32_t port = 0; port < cube->n; port++) {
        uint32_t host = br_bcube_switch_host(cube, level, index, port), *side;

        if (host >= g->trees->hosts || !br_nic_works(cube, g->failures, host, level))
            continue;
        side = g->depth[host] == NOBODY ? &outside : &inside;
        if (disjoint_trees_is_better(g, level, host, *side))
            *side = host;
    }
    if (inside == NOBODY || outside == NOBODY)
        return;
    cost = disjoint_trees_cost_of(g, inside, level) + disjoint_trees_cost_of(g, outside, level);
    if (best->from != NOBODY &&
        (cost > best->cost || (cost == best->cost && g->depth[inside] >= g->depth[best->from])))
        return;
    *best = (struct edge){inside, outside, level, cost};
}

static int disjoint_trees_grow(struct growth *g)
{
    struct br_disjoint_trees *f = g->trees;
    uint32_t root = g->tree % f->hosts, switches = br_bcube_power(&f->cube, f->cube.k - 1);
    uint16_t *parents = &f->parents[g->tree * f->hosts];

    for (uint32_t h = 0; h < f->hosts; h++)
        g->depth[h] = NOBODY;
    g->depth[root] = 0;
    parents[root] = (uint16_t)root;
    for (uint32_t n = 1; n < f->hosts; n++) {
        struct edge best = {.from = NOBODY};

        for (uint32_t s = 0; s < switches * f->cube.k; s++) /* another switch first in each tree */
            look_at_switch(g, (s + g->tree) % f->cube.k,
                           (s / f->cube.k + g->tree / f->cube.k) % switches, &best);
        if (best.from == NOBODY)
            return br_error(EHOSTUNREACH,
                            "the links that work join %u of %u hosts of BCube(%u,%u) only", n,
                            f->hosts, f->cube.n, f->cube.k);
        parents[best.to] = (uint16_t)best.from;
        g->depth[best.to] = g->depth[best.from] + 1;
        ++*load_of(g, best.from, best.level);
        ++*load_of(g, best.to, best.level);
    }
    return 0;
}

/* ---- the centre ------------------------------------------------------------------------------ */

/* Edges between two hosts of a tree, by way of where their ways to the root meet. */
static uint32_t disjoint_trees_distance(const struct growth *g, const uint16_t *parents, uint32_t a,
                                        uint32_t b)
{
    uint32_t n = 0;

    for (; a != b; n++)
        if (g->depth[a] > g->depth[b])
            a = parents[a];
        else
            b = parents[b];
    return n;
}

/* Note 4: the host whose farthest one is the nearest. */
static uint32_t disjoint_trees_centre(const struct growth *g, const uint16_t *parents)
{
    uint32_t best = 0, least = NOBODY;

    for (uint32_t h = 0; h < g->trees->hosts; h++) {
        uint32_t farthest = 0;

        for (uint32_t other = 0; other < g->trees->hosts && farthest < least; other++) {
            uint32_t d = disjoint_trees_distance(g, parents, h, other);

            farthest = d > farthest ? d : farthest;
        }
        if (farthest < least) {
            least = farthest;
            best = h;
        }
    }
    return best;
}

static void hang_up(uint16_t *parents, uint32_t root)
{
    uint32_t child = root, host = parents[root];

    parents[root] = (uint16_t)root;
    while (host != child) {
        uint32_t above = parents[host];

        parents[host] = (uint16_t)child;
        child = host;
        if (above == host)
            break;
        host = above;
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static uint64_t digest_of(const struct br_bcube *cube, const struct br_failures *failures,
                          uint32_t hosts)
{
    bool any = failures && failures->count > 0;
    uint64_t words[] = {
        hosts, cube->n, cube->k,
        any ? br_digest_bytes(failures->keys, failures->count * sizeof *failures->keys) : 0};

    return br_digest(words, sizeof words / sizeof *words);
}

static int grow_all(struct growth *g)
{
    struct br_disjoint_trees *f = g->trees;
    int rc = 0;

    for (; g->tree < f->trees && !rc; g->tree++) {
        uint16_t *parents = &f->parents[g->tree * f->hosts];

        rc = disjoint_trees_grow(g);
        if (!rc)
            hang_up(parents, disjoint_trees_centre(g, parents));
        for (uint32_t h = 0; h < f->hosts && !rc; h++) {
            uint32_t depth = br_disjoint_trees_depth(f, g->tree, h);

            f->depth = depth > f->depth ? depth : f->depth;
        }
    }
    for (uint32_t i = 0; i < f->hosts * f->cube.k; i++)
        f->busiest = g->load[i] > f->busiest ? g->load[i] : f->busiest;
    return rc;
}

int br_disjoint_trees_new(const struct br_bcube *cube, const struct br_failures *failures,
                          struct br_disjoint_trees **out)
{
    uint32_t hosts = failures && failures->missing_from ? failures->missing_from : cube->hosts;
    uint32_t trees =
        cube->k * hosts < BR_DISJOINT_TREES_MAX ? cube->k * hosts : BR_DISJOINT_TREES_MAX;
    struct br_disjoint_trees *f;
    struct growth g;
    int rc;

    if (hosts > BR_DISJOINT_TREES_HOSTS)
        return br_error(EINVAL, "spanning trees are made for up to %u hosts, BCube(%u,%u) has %u",
                        BR_DISJOINT_TREES_HOSTS, cube->n, cube->k, hosts);
    f = calloc(1, sizeof *f + (size_t)trees * hosts * sizeof *f->parents);
    g = (struct growth){.trees = f,
                        .failures = failures,
                        .load = calloc((size_t)hosts * cube->k, sizeof *g.load),
                        .depth = calloc(hosts, sizeof *g.depth)};
    if (!f || !g.load || !g.depth) {
        rc = br_error(ENOMEM, "no memory for the spanning trees of %u hosts", hosts);
    } else {
        f->cube = *cube;
        f->hosts = hosts;
        f->trees = trees;
        f->broken = failures && failures->count > 0;
        f->digest = digest_of(cube, failures, hosts);
        rc = grow_all(&g);
    }
    free(g.load);
    free(g.depth);
    if (rc)
        br_disjoint_trees_free(f);
    else
        *out = f;
    return rc;
}

void br_disjoint_trees_free(struct br_disjoint_trees *trees)
{
    free(trees);
}

uint32_t br_disjoint_trees_depth(const struct br_disjoint_trees *f, uint32_t tree, uint32_t host)
{
    uint32_t depth = 0;

    for (uint32_t parent; (parent = br_disjoint_trees_parent(f, tree, host)) != host; depth++)
        host = parent;
    return depth;
}

uint32_t br_disjoint_trees_height(const struct br_disjoint_trees *f, uint32_t tree, uint32_t host)
{
    uint32_t height = 0;

    for (uint32_t other = 0; other < f->hosts; other++) {
        uint32_t steps = 0, at = other;

        while (at != host && br_disjoint_trees_parent(f, tree, at) != at) {
            at = br_disjoint_trees_parent(f, tree, at);
            steps++;
        }
        if (at == host && steps > height)
            height = steps;
    }
    return height;
}
