/* SPDX-License-Identifier: BSD-3-Clause */
#include "collectives/way.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

static const char letters[] = "drh"; /* by enum br_method */

static void add_dimension(struct br_way *way, uint32_t size, enum br_method method, uint8_t level)
{
    way->shape.dimensions[way->shape.n_dimensions++] = (struct br_dimension){size, method, level};
}

static void set_cube(struct br_way *way, const struct br_bcube *cube, uint32_t threads, enum br_method method)
{
    way->shape.threads = threads;
    for (uint32_t level = 0; level < cube->k; level++)
        add_dimension(way, cube->n, method, (uint8_t)level);
}

/* Says on which level each factor runs, where all its exchanges stay on one. */
static void set_levels(const struct br_topology *t, struct br_shape *shape)
{
    uint32_t stride = 1;

    for (uint32_t i = 0; i < shape->n_dimensions; i++) {
        struct br_dimension *d = &shape->dimensions[i];
        struct br_hop hops[BR_TOPOLOGY_HOPS];
        bool cube = t->kind == BR_TOPOLOGY_BCUBE && d->size == t->cube.n;
        bool host = t->kind == BR_TOPOLOGY_HOSTS && t->per_host &&
                    (stride % t->per_host == 0 || t->per_host % (stride * d->size) == 0);

        if (d->size > 1 && (cube || host) && br_topology_route(t, 0, stride, BR_LEVEL_ANY, hops) == 1)
            d->level = hops[0].level;
        stride *= d->size;
    }
}

/* ---- parsing -------------------------------------------------------------------------------- */

static int parse_bml(const struct br_topology *t, const char *arguments, struct br_way *way)
{
    struct br_bcube cube = t->cube;
    int rc = 0;

    if (arguments)
        rc = br_bcube_parse(&cube, arguments);
    else if (!br_topology_is_whole_cube(t))
        rc = br_error(EINVAL,
                      "bml needs a BCube with all its hosts: set BRAID_TOPOLOGY=bcube:N,K, or write bml:N,K");
    if (!rc && cube.hosts != t->n)
        rc = br_error(EINVAL, "bml:%s has %u ranks, this job %u", arguments, cube.hosts, t->n);
    if (!rc)
        set_cube(way, &cube, cube.k, BR_METHOD_DIRECT);
    return rc;
}

static int parse_factor(const char **at, struct br_way *way)
{
    char *end;
    unsigned long size = strtoul(*at, &end, 10);
    const char *letter = *end ? strchr(letters, *end) : NULL;
    enum br_method method = letter ? (enum br_method)(letter - letters) : BR_METHOD_DIRECT;

    if (end == *at || **at == '-' || size < 1 || size > INT32_MAX ||
        way->shape.n_dimensions == BR_DIMENSIONS_MAX)
        return -EINVAL;
    if (!letter)
        way->open |= 1u << way->shape.n_dimensions;
    add_dimension(way, (uint32_t)size, method, BR_LEVEL_ANY);
    end += letter != NULL;
    if (*end && ((*end != 'x' && *end != ',') || !end[1]))
        return -EINVAL;
    *at = *end ? end + 1 : end;
    return 0;
}

static int parse_factors(const struct br_topology *t, const char *arguments, struct br_way *way)
{
    uint64_t product = 1;
    const char *at = arguments;

    do {
        if (parse_factor(&at, way))
            return br_error(EINVAL,
                            "blueconnect:%s: write the factors of the number of ranks, as 4x2 or 16h,6r (d "
                            "direct, r ring, h halving)",
                            arguments);
        product *= way->shape.dimensions[way->shape.n_dimensions - 1].size;
    } while (*at && product <= INT32_MAX);
    if (product != t->n)
        return br_error(EINVAL, "blueconnect:%s: the product of the factors is %llu, but there are %u ranks",
                        arguments, (unsigned long long)product, t->n);
    return 0;
}

/* The largest divisor that is no larger than the other factor. */
static uint32_t divisor(uint32_t n)
{
    uint32_t best = 1;

    for (uint32_t d = 2; d <= n / d; d++)
        if (n % d == 0)
            best = d;
    return best;
}

static void set_factors(struct br_way *way, uint32_t first, uint32_t second)
{
    add_dimension(way, first, BR_METHOD_DIRECT, BR_LEVEL_ANY);
    if (second > 1)
        add_dimension(way, second, BR_METHOD_DIRECT, BR_LEVEL_ANY);
}

static int default_factors(const struct br_topology *t, struct br_way *way)
{
    if (br_topology_is_whole_cube(t))
        set_cube(way, &t->cube, 1, BR_METHOD_DIRECT);
    else if (t->kind != BR_TOPOLOGY_HOSTS)
        set_factors(way, t->n / divisor(t->n), divisor(t->n));
    else if (t->per_host)
        set_factors(way, t->per_host, t->hosts);
    else
        return br_error(EINVAL,
                        "blueconnect needs the same number of ranks on each host, one host after the other");
    way->open = (uint32_t)((1ull << way->shape.n_dimensions) - 1);
    return 0;
}

static int set_hosts(const struct br_topology *t, struct br_way *way)
{
    if (t->kind != BR_TOPOLOGY_HOSTS || !t->per_host)
        return br_error(
            EINVAL,
            "host_tree needs several hosts with the same number of ranks on each, one host after the other");
    set_factors(way, t->per_host, t->hosts);
    return 0;
}

static int parse_forest(const struct br_topology *t, struct br_way *way)
{
    way->forest = t->forest;
    return way->forest
               ? 0
               : br_error(EINVAL, "forest needs the communicator of all ranks of a BCube of at most %u hosts",
                          BR_FOREST_HOSTS);
}

int br_way_parse(const struct br_topology *t, const char *text, struct br_way *way)
{
    const char *colon = strchr(text, ':');
    char name[BR_WAY_TEXT];
    int rc;

    memset(way, 0, sizeof *way);
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    rc = br_algorithm_find(name, &way->algorithm);
    if (rc)
        return rc;
    if (way->algorithm == BR_DIMENSIONAL)
        return br_error(EINVAL,
                        "dimensional is what others are made of: name bml, blueconnect, ring or halving");
    if (colon && way->algorithm != BR_BML && way->algorithm != BR_BLUECONNECT)
        return br_error(EINVAL, "algorithm %s takes nothing behind a colon", name);
    way->shape.threads = 1;
    if (way->algorithm == BR_BML)
        rc = parse_bml(t, colon ? colon + 1 : NULL, way);
    else if (way->algorithm == BR_BLUECONNECT)
        rc = colon ? parse_factors(t, colon + 1, way) : default_factors(t, way);
    else if (way->algorithm == BR_RING && br_topology_is_whole_cube(t))
        set_cube(way, &t->cube, 1, BR_METHOD_CYCLE);
    else if (br_algorithm_digits(way->algorithm) && br_topology_is_whole_cube(t))
        set_cube(way, &t->cube, 1, BR_METHOD_DIRECT);
    if (way->algorithm == BR_BLUECONNECT && !rc)
        set_levels(t, &way->shape);
    if (way->algorithm == BR_FOREST)
        rc = parse_forest(t, way);
    if (way->algorithm == BR_HOST_TREE)
        rc = set_hosts(t, way);
    if (!way->shape.n_dimensions)
        memset(&way->shape, 0, sizeof way->shape);
    return rc;
}

/* ---- names ---------------------------------------------------------------------------------- */

const char *br_way_name(const struct br_way *way, char text[BR_WAY_TEXT])
{
    const struct br_shape *shape = &way->shape;
    size_t used = (size_t)snprintf(text, BR_WAY_TEXT, "%s", br_algorithm_name(way->algorithm));

    if (way->algorithm == BR_BML)
        snprintf(text, BR_WAY_TEXT, "bml:%u,%u", shape->dimensions[0].size, shape->n_dimensions);
    for (uint32_t i = 0; way->algorithm == BR_BLUECONNECT && i < shape->n_dimensions && used < BR_WAY_TEXT;
         i++)
        used += (size_t)snprintf(text + used, BR_WAY_TEXT - used, "%c%u%.1s", i ? ',' : ':',
                                 shape->dimensions[i].size,
                                 way->open & 1u << i ? "" : &letters[shape->dimensions[i].method]);
    return text;
}

bool br_way_equal(const struct br_way *a, const struct br_way *b)
{
    return a->algorithm == b->algorithm && a->open == b->open && br_way_digest(a) == br_way_digest(b);
}

uint64_t br_way_digest(const struct br_way *way)
{
    uint64_t words[2 + BR_DIMENSIONS_MAX] = {way->forest ? way->forest->digest : 0,
                                             (uint64_t)way->algorithm << 32 | way->shape.threads};
    size_t n = 2;

    for (uint32_t i = 0; i < way->shape.n_dimensions; i++)
        words[n++] = (uint64_t)way->shape.dimensions[i].size << 8 | way->shape.dimensions[i].method;
    return br_digest(words, n);
}

/* ---- the ways there are --------------------------------------------------------------------- */

static void add_factors(struct br_way *ways, uint32_t *n, const struct br_topology *t, uint32_t first)
{
    struct br_way *way = &ways[*n];

    if (*n == BR_WAYS_MAX || t->n % first != 0 || first == 1 || first == t->n)
        return;
    memset(way, 0, sizeof *way);
    way->algorithm = BR_BLUECONNECT;
    way->shape.threads = 1;
    way->open = 3;
    set_factors(way, first, t->n / first);
    set_levels(t, &way->shape);
    ++*n;
}

uint32_t br_ways_list(const struct br_topology *t, struct br_way ways[BR_WAYS_MAX])
{
    uint32_t n = 0;

    for (int a = 0; a < BR_ALGORITHMS; a++) {
        if (a == BR_DIMENSIONAL || a == BR_BML || a == BR_BLUECONNECT || a == BR_FOREST || a == BR_HOST_TREE)
            continue;
        br_way_parse(t, br_algorithm_name((enum br_algorithm)a), &ways[n++]);
    }
    if (br_topology_is_whole_cube(t)) {
        br_way_parse(t, "bml", &ways[n++]);
        br_way_parse(t, "blueconnect", &ways[n++]);
    } else if (t->kind == BR_TOPOLOGY_HOSTS) {
        if (t->per_host)
            br_way_parse(t, "host_tree", &ways[n++]);
        add_factors(ways, &n, t, t->per_host ? t->per_host : 1);
    } else {
        for (uint32_t first = t->n / 2; first >= 2 && t->n <= 64; first--)
            add_factors(ways, &n, t, first);
    }
    return n;
}
