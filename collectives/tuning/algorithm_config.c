/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which factorings are worth comparing. Where all ranks are equally far, each stage of s ranks
 * costs a latency and s - 1 messages, and all factorings carry the same bytes. So for each number
 * of factors the one with the least sum is the best by the model, whatever the latency, and one for
 * each number of factors is compared. Rejected: all factorings, of which 55,440 ranks have
 * thousands. Of two factors those near the square root are compared in both orders, and with every
 * method, as a ring or halving may be what is measured to be fastest. Of more factors all but that
 * of a host's memory are direct: halving is the same as more factors, a ring has more latency.
 */
#include "collectives/tuning/algorithm_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"

static const char letters[] = "drh"; /* by enum br_method */

/* Of a factoring that is compared: 65,536 ranks are best in 5, by the default figures. */
#define MOST_FACTORS  6
#define MOST_DIVISORS 128 /* numbers up to 65,536 have 120 at most */
/* Divisors on each side of the square root: all that numbers up to 64 have */
#define NEAR_ROOT 5

static void add_dimension(struct br_algorithm_config *config, uint32_t size, enum br_method method,
                          uint8_t level)
{
    config->shape.dimensions[config->shape.n_dimensions++] =
        (struct br_dimension){size, method, level};
}

static void set_cube(struct br_algorithm_config *config, const struct br_bcube *cube,
                     uint32_t threads, enum br_method method)
{
    config->shape.threads = threads;
    for (uint32_t level = 0; level < cube->k; level++)
        add_dimension(config, cube->n, method, (uint8_t)level);
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

        if (d->size > 1 && (cube || host) &&
            br_topology_route(t, 0, stride, BR_LEVEL_ANY, hops) == 1)
            d->level = hops[0].level;
        stride *= d->size;
    }
}

/* ---- parsing --------------------------------------------------------------------------------- */

static int parse_bml(const struct br_topology *t, const char *arguments,
                     struct br_algorithm_config *config)
{
    struct br_bcube cube = t->cube;
    int rc = 0;

    if (arguments)
        rc = br_bcube_parse(&cube, arguments);
    else if (!br_topology_is_whole_cube(t))
        rc = br_error(
            EINVAL,
            "bml needs a BCube with all its hosts: set BRAID_TOPOLOGY=bcube:N,K, or write bml:N,K");
    if (!rc && cube.hosts != t->n)
        rc = br_error(EINVAL, "bml:%s has %u ranks, this job %u", arguments, cube.hosts, t->n);
    if (!rc)
        set_cube(config, &cube, cube.k, BR_METHOD_DIRECT);
    return rc;
}

static int parse_factor(const char **at, struct br_algorithm_config *config)
{
    char *end;
    unsigned long size = strtoul(*at, &end, 10);
    const char *letter = *end ? strchr(letters, *end) : NULL;
    enum br_method method = letter ? (enum br_method)(letter - letters) : BR_METHOD_DIRECT;

    if (end == *at || **at == '-' || size < 1 || size > INT32_MAX ||
        config->shape.n_dimensions == BR_DIMENSIONS_MAX)
        return -EINVAL;
    if (!letter)
        config->undecided |= 1u << config->shape.n_dimensions;
    add_dimension(config, (uint32_t)size, method, BR_LEVEL_ANY);
    end += letter != NULL;
    if (*end && ((*end != 'x' && *end != ',' && *end != '/') || !end[1]))
        return -EINVAL;
    *at = *end && *end != '/' ? end + 1 : end;
    return 0;
}

/* "/2": the second factor is the first stage. */
static int parse_first(const char *at, struct br_algorithm_config *config)
{
    char *end;
    unsigned long first = strtoul(at + 1, &end, 10);

    if (end == at + 1 || *end || at[1] == '-' || first < 1 || first > config->shape.n_dimensions)
        return -EINVAL;
    config->shape.first = (uint32_t)first - 1;
    return 0;
}

static int refuse_factors(const char *name, const char *arguments)
{
    return br_error(EINVAL,
                    "%s:%s: write the factors of the number of ranks, as 4x2 or 16h,6r (d direct, "
                    "r ring, h halving), or 4x2/2 to begin with the second",
                    name, arguments);
}

/* Of bruck and core_tree: all is direct, and core_tree has the ranks of a core and the cores. */
static int check_direct(const char *name, const char *arguments, struct br_algorithm_config *config)
{
    const struct br_shape *shape = &config->shape;
    const struct br_dimension *d = shape->dimensions;

    for (uint32_t i = 0; i < shape->n_dimensions; i++)
        if (d[i].method != BR_METHOD_DIRECT)
            return br_error(EINVAL,
                            "%s:%s: %s has no rings or halving: write factors alone, as 4x2", name,
                            arguments, name);
    if (config->algorithm == BR_CORE_TREE &&
        (shape->n_dimensions != 2 || shape->first || d[0].size < 2 || d[1].size < 2))
        return br_error(EINVAL,
                        "%s:%s: write how many ranks share a core and how many cores there are, "
                        "both two or more, as 4x2",
                        name, arguments);
    config->undecided = 0;
    return 0;
}

static int parse_factors(const struct br_topology *t, const char *arguments,
                         struct br_algorithm_config *config)
{
    const char *name = br_algorithm_name(config->algorithm), *at = arguments;
    uint64_t product = 1;

    do {
        if (parse_factor(&at, config))
            return refuse_factors(name, arguments);
        product *= config->shape.dimensions[config->shape.n_dimensions - 1].size;
    } while (*at && *at != '/' && product <= INT32_MAX);
    if (*at == '/' && parse_first(at, config))
        return refuse_factors(name, arguments);
    if (product != t->n)
        return br_error(EINVAL, "%s:%s: the product of the factors is %llu, but there are %u ranks",
                        name, arguments, (unsigned long long)product, t->n);
    return config->algorithm == BR_BRUCK || config->algorithm == BR_CORE_TREE
               ? check_direct(name, arguments, config)
               : 0;
}

/* The largest divisor that is no larger than the other factor. */
static uint32_t algorithm_config_divisor(uint32_t n)
{
    uint32_t best = 1;

    for (uint32_t d = 2; d <= n / d; d++)
        if (n % d == 0)
            best = d;
    return best;
}

static void set_factors(struct br_algorithm_config *config, uint32_t first, uint32_t second)
{
    add_dimension(config, first, BR_METHOD_DIRECT, BR_LEVEL_ANY);
    if (second > 1)
        add_dimension(config, second, BR_METHOD_DIRECT, BR_LEVEL_ANY);
}

static void default_factors(const struct br_topology *t, struct br_algorithm_config *config)
{
    if (br_topology_is_whole_cube(t))
        set_cube(config, &t->cube, 1, BR_METHOD_DIRECT);
    else if (t->kind == BR_TOPOLOGY_HOSTS && t->per_host)
        set_factors(config, t->per_host, t->hosts);
    else if (t->kind == BR_TOPOLOGY_HOSTS && t->cyclic) {
        set_factors(config, t->hosts, t->n / t->hosts);
        config->shape.first = 1;
    } else
        set_factors(config, t->n / algorithm_config_divisor(t->n), algorithm_config_divisor(t->n));
    config->undecided = (uint32_t)((1ull << config->shape.n_dimensions) - 1);
}

static int set_hosts(const struct br_topology *t, struct br_algorithm_config *config)
{
    if (t->kind != BR_TOPOLOGY_HOSTS || !t->per_host)
        return br_error(EINVAL, "host_tree needs several hosts with the same number of ranks on "
                                "each, one host after the other");
    set_factors(config, t->per_host, t->hosts);
    return 0;
}

/* Between emulated hosts messages do not stay on a core: they go over links. */
static bool shares_cores(const struct br_topology *t)
{
    return t->kind == BR_TOPOLOGY_FLAT && !t->emulated && t->cores > 1 && t->n > t->cores &&
           t->n % t->cores == 0;
}

/* Neighbouring ranks share a core (base/cpu_affinity.h). */
static int set_cores(const struct br_topology *t, struct br_algorithm_config *config)
{
    if (!shares_cores(t))
        return br_error(EINVAL, "core_tree needs ranks of one host that share its cores evenly, "
                                "which a calibration hides: else name them, as in "
                                "core_tree:RANKSxCORES");
    set_factors(config, t->n / t->cores, t->cores);
    return 0;
}

static int parse_disjoint_trees(const struct br_topology *t, struct br_algorithm_config *config)
{
    config->disjoint_trees = t->disjoint_trees;
    return config->disjoint_trees ? 0
                                  : br_error(EINVAL,
                                             "disjoint_trees needs the communicator of all ranks "
                                             "of a BCube of at most %u hosts",
                                             BR_DISJOINT_TREES_HOSTS);
}

int br_algorithm_config_parse(const struct br_topology *t, const char *text,
                              struct br_algorithm_config *config)
{
    const char *colon = strchr(text, ':');
    char name[BR_ALGORITHM_TEXT];
    int rc;

    memset(config, 0, sizeof *config);
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - text) : (int)strlen(text), text);
    rc = br_algorithm_find(name, &config->algorithm);
    if (rc)
        return rc;
    if (config->algorithm == BR_DIMENSIONAL)
        return br_error(
            EINVAL,
            "dimensional is what others are made of: name bml, blueconnect, ring or halving");
    if (colon && config->algorithm != BR_BML && config->algorithm != BR_BLUECONNECT &&
        config->algorithm != BR_BRUCK && config->algorithm != BR_CORE_TREE)
        return br_error(EINVAL, "algorithm %s takes nothing behind a colon", name);
    config->shape.threads = 1;
    if (config->algorithm == BR_BML)
        rc = parse_bml(t, colon ? colon + 1 : NULL, config);
    else if (colon)
        rc = parse_factors(t, colon + 1, config);
    else if (config->algorithm == BR_BLUECONNECT)
        default_factors(t, config);
    else if (config->algorithm == BR_RING && br_topology_is_whole_cube(t))
        set_cube(config, &t->cube, 1, BR_METHOD_CYCLE);
    else if (br_algorithm_digits(config->algorithm) && br_topology_is_whole_cube(t))
        set_cube(config, &t->cube, 1, BR_METHOD_DIRECT);
    if (config->algorithm == BR_BLUECONNECT && !rc)
        set_levels(t, &config->shape);
    if (config->algorithm == BR_DISJOINT_TREES)
        rc = parse_disjoint_trees(t, config);
    if (config->algorithm == BR_HOST_TREE)
        rc = set_hosts(t, config);
    if (config->algorithm == BR_CORE_TREE && !colon)
        rc = set_cores(t, config);
    if (!config->shape.n_dimensions)
        memset(&config->shape, 0, sizeof config->shape);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Not those of bruck in a cube, which are the cube's levels. */
static bool names_factors(const struct br_algorithm_config *config)
{
    return config->algorithm == BR_BLUECONNECT || config->algorithm == BR_CORE_TREE ||
           (config->algorithm == BR_BRUCK && config->shape.dimensions[0].level == BR_LEVEL_ANY);
}

const char *br_algorithm_config_name(const struct br_algorithm_config *config,
                                     char text[BR_ALGORITHM_TEXT])
{
    const struct br_shape *shape = &config->shape;
    size_t used =
        (size_t)snprintf(text, BR_ALGORITHM_TEXT, "%s", br_algorithm_name(config->algorithm));

    if (config->algorithm == BR_BML)
        snprintf(text, BR_ALGORITHM_TEXT, "bml:%u,%u", shape->dimensions[0].size,
                 shape->n_dimensions);
    for (uint32_t i = 0;
         names_factors(config) && i < shape->n_dimensions && used < BR_ALGORITHM_TEXT; i++)
        used += (size_t)snprintf(
            text + used, BR_ALGORITHM_TEXT - used, "%c%u%.1s", i ? ',' : ':',
            shape->dimensions[i].size,
            config->undecided & 1u << i ? "" : &letters[shape->dimensions[i].method]);
    if (shape->first && used < BR_ALGORITHM_TEXT)
        snprintf(text + used, BR_ALGORITHM_TEXT - used, "/%u", shape->first + 1);
    return text;
}

bool br_algorithm_config_equal(const struct br_algorithm_config *a,
                               const struct br_algorithm_config *b)
{
    return a->algorithm == b->algorithm && a->undecided == b->undecided &&
           br_algorithm_config_digest(a) == br_algorithm_config_digest(b);
}

uint64_t br_algorithm_config_digest(const struct br_algorithm_config *config)
{
    uint64_t words[2 + BR_DIMENSIONS_MAX] = {
        config->disjoint_trees ? config->disjoint_trees->digest : 0,
        (uint64_t)config->algorithm << 32 | (uint64_t)config->shape.first << 16 |
            config->shape.threads};
    size_t n = 2;

    for (uint32_t i = 0; i < config->shape.n_dimensions; i++) {
        const struct br_dimension *dimension = &config->shape.dimensions[i];

        words[n++] =
            (uint64_t)dimension->size << 16 | (uint64_t)dimension->method << 8 | dimension->level;
    }
    return br_digest(words, n);
}

/* ---- the ways there are ---------------------------------------------------------------------- */

/* Of BlueConnect, with these sizes, beginning with dimension `first`; bit i of `open`: the method
 * of dimension i is left to the cost model, else it is direct. */
static void algorithm_config_add_shape(struct br_algorithm_config *configs, uint32_t *n,
                                       const struct br_topology *t, const uint32_t *sizes,
                                       uint32_t n_sizes, uint32_t first, uint32_t open)
{
    struct br_algorithm_config *config = &configs[*n];

    if (*n == BR_ALGORITHM_CONFIGS)
        return;
    memset(config, 0, sizeof *config);
    config->algorithm = BR_BLUECONNECT;
    config->shape.threads = 1;
    config->shape.first = first;
    config->undecided = open;
    for (uint32_t i = 0; i < n_sizes; i++)
        add_dimension(config, sizes[i], BR_METHOD_DIRECT, BR_LEVEL_ANY);
    set_levels(t, &config->shape);
    ++*n;
}

/* Its divisors but 1 and itself, ascending. */
static uint32_t list_divisors(uint32_t n, uint32_t divisors[MOST_DIVISORS])
{
    uint32_t count = 0;

    for (uint32_t d = 2; d <= n / 2 && count < MOST_DIVISORS; d++)
        if (n % d == 0)
            divisors[count++] = d;
    return count;
}

/* A search for the factors with the least sum. */
struct factoring {
    uint32_t divisors[MOST_DIVISORS], n_divisors;
    uint32_t trial[MOST_FACTORS], best[MOST_FACTORS];
    uint32_t least; /* sum of best[]; UINT32_MAX: none was found */
};

/* Can so many factors of at most `most` make n? */
static bool may_reach(uint32_t n, uint32_t count, uint32_t most)
{
    uint64_t product = 1;

    for (uint32_t i = 0; i < count && product < n; i++)
        product *= most;
    return product >= n;
}

/* The factors from `at` on, none larger than the one before; those nearest to equal first, so that
 * most others end early. */
static void algorithm_config_search(struct factoring *f, uint32_t n, uint32_t at, uint32_t count,
                                    uint32_t most, uint32_t sum)
{
    if (at + 1 == count) {
        if (n < 2 || n > most || sum + n >= f->least)
            return;
        f->trial[at] = n;
        f->least = sum + n;
        memcpy(f->best, f->trial, count * sizeof *f->best);
        return;
    }
    for (uint32_t i = 0; i < f->n_divisors && f->divisors[i] <= most; i++) {
        uint32_t d = f->divisors[i];

        if (sum + d + 2 * (count - at - 1) >= f->least)
            return;
        if (n % d != 0 || !may_reach(n, count - at, d))
            continue;
        f->trial[at] = d;
        algorithm_config_search(f, n / d, at + 1, count, d, sum + d);
    }
}

/* A shape for each number of factors of `n` from `least` on: those with the least sum, the largest
 * first. Before them stands a factor `before`, or behind them `behind`, which is the first stage
 * all the same; 0: there is none. */
static void add_balanced(struct br_algorithm_config *configs, uint32_t *n_ways,
                         const struct br_topology *t, uint32_t n, uint32_t least, uint32_t before,
                         uint32_t behind)
{
    struct factoring f;

    f.n_divisors = list_divisors(n, f.divisors);
    for (uint32_t count = least; count <= MOST_FACTORS; count++) {
        uint32_t sizes[MOST_FACTORS + 1], used = 0, host;

        f.least = UINT32_MAX;
        algorithm_config_search(&f, n, 0, count, n, 0);
        if (f.least == UINT32_MAX)
            break;
        if (before > 1)
            sizes[used++] = before;
        for (uint32_t i = 0; i < count; i++)
            sizes[used++] = f.best[i];
        if (behind > 1)
            sizes[used++] = behind;
        host = behind > 1 ? used - 1 : 0;
        algorithm_config_add_shape(configs, n_ways, t, sizes, used, host,
                                   count == 1         ? 3
                                   : before || behind ? 1u << host
                                                      : 0);
    }
}

/* Two factors, those nearest to the square root, in both orders. */
static void add_pairs(struct br_algorithm_config *configs, uint32_t *n_ways,
                      const struct br_topology *t)
{
    uint32_t divisors[MOST_DIVISORS], n = list_divisors(t->n, divisors), middle = 0;

    while (middle < n && divisors[middle] < t->n / divisors[middle])
        middle++;
    for (uint32_t i = n; i-- > 0;)
        if (i + NEAR_ROOT >= middle && i < middle + NEAR_ROOT)
            algorithm_config_add_shape(configs, n_ways, t,
                                       (uint32_t[]){divisors[i], t->n / divisors[i]}, 2, 0, 3);
}

/* An alltoall of two stages: 10 messages with 32 ranks, where `bruck` has 5, each with half of all
 * blocks, and `direct` 31. */
static void add_two_stages(struct br_algorithm_config *configs, uint32_t *n_ways,
                           const struct br_topology *t)
{
    uint32_t divisor = algorithm_config_divisor(t->n);
    struct br_algorithm_config *config = &configs[*n_ways];

    if (divisor < 2 || *n_ways == BR_ALGORITHM_CONFIGS)
        return;
    *config = (struct br_algorithm_config){.algorithm = BR_BRUCK, .shape = {.threads = 1}};
    set_factors(config, t->n / divisor, divisor);
    ++*n_ways;
}

uint32_t br_algorithm_config_list(const struct br_topology *t,
                                  struct br_algorithm_config configs[BR_ALGORITHM_CONFIGS])
{
    uint32_t n = 0;

    for (int a = 0; a < BR_ALGORITHMS; a++) {
        if (a == BR_DIMENSIONAL || a == BR_BML || a == BR_BLUECONNECT || a == BR_DISJOINT_TREES ||
            a == BR_HOST_TREE || a == BR_CORE_TREE)
            continue;
        br_algorithm_config_parse(t, br_algorithm_name((enum br_algorithm)a), &configs[n++]);
    }
    if (shares_cores(t))
        br_algorithm_config_parse(t, "core_tree", &configs[n++]);
    if (br_topology_is_whole_cube(t)) {
        br_algorithm_config_parse(t, "bml", &configs[n++]);
        br_algorithm_config_parse(t, "blueconnect", &configs[n++]);
    } else if (t->kind == BR_TOPOLOGY_HOSTS && t->per_host) {
        br_algorithm_config_parse(t, "host_tree", &configs[n++]);
        add_balanced(configs, &n, t, t->hosts, 1, t->per_host, 0);
    } else if (t->kind == BR_TOPOLOGY_HOSTS && t->cyclic) {
        add_balanced(configs, &n, t, t->hosts, 1, 0, t->n / t->hosts);
    } else {
        add_pairs(configs, &n, t);
        add_balanced(configs, &n, t, t->n, 3, 0, 0);
        add_two_stages(configs, &n, t);
    }
    return n;
}
