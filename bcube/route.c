/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The numbered notes, about disjoint routes, routes around failures and rejected designs, are in
 * doc/design/bcube.md.
 */
#include "bcube/route.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/list.h"
#include "base/table.h"

static int check_pair(const struct br_bcube *cube, uint32_t a, uint32_t b)
{
    if (a < cube->hosts && b < cube->hosts)
        return 0;
    return br_error(EINVAL, "BCube(%u,%u) has no host %u: they are 0 to %u", cube->n, cube->k,
                    a < cube->hosts ? b : a, cube->hosts - 1);
}

bool br_route_works(const struct br_bcube *cube, const struct br_failures *failures, uint32_t a,
                    const struct br_route *route)
{
    uint32_t from = a;
    for (uint32_t i = 0; i < route->hops; from = route->hosts[i++]) {
        int level = br_bcube_level(cube, from, route->hosts[i]);
        if (level < 0 || !br_link_works(cube, failures, from, route->hosts[i], (uint32_t)level))
            return false;
        if (route->hosts[i] == a)
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (route->hosts[i] == route->hosts[j])
                return false;
    }
    return true;
}

/* Corrects, from the end of the route on, level `first`, the ones below it and round again; `last`,
 * if >= 0, at the end. */
static void route_correct(const struct br_bcube *cube, uint32_t from, uint32_t to, uint32_t first,
                          int last, struct br_route *route)
{
    for (uint32_t i = 0; i <= cube->k; i++) {
        uint32_t level = i < cube->k ? (first + cube->k - i) % cube->k : (uint32_t)last;
        uint32_t digit;
        if (i < cube->k ? (int)level == last : last < 0)
            continue;
        digit = br_bcube_digit(cube, to, level);
        if (digit == br_bcube_digit(cube, from, level))
            continue;
        from = br_bcube_with_digit(cube, from, level, digit);
        route->hosts[route->hops++] = (uint16_t)from;
    }
}

/* Over `via`, the source's neighbour on a level, to b, ending on that level. */
static void route_alternate(const struct br_bcube *cube, uint32_t b, uint32_t level, uint32_t via,
                            struct br_route *route)
{
    route->hops = 0;
    route->hosts[route->hops++] = (uint16_t)via;
    route_correct(cube, via, b, (level + cube->k - 1) % cube->k, (int)level, route);
}

int br_route_disjoint(const struct br_bcube *cube, uint32_t a, uint32_t b, struct br_route routes[])
{
    int rc = check_pair(cube, a, b);
    if (rc)
        return rc;
    if (a == b)
        return br_error(EINVAL, "host %u needs no route to itself", a);
    for (uint32_t i = 0; i < cube->k; i++) {
        routes[i].hops = 0;
        if (br_bcube_digit(cube, a, i) != br_bcube_digit(cube, b, i))
            route_correct(cube, a, b, i, -1, &routes[i]);
        else
            route_alternate(cube, b, i, br_bcube_neighbour(cube, a, i, 0), &routes[i]);
    }
    return 0;
}

/* The rotations of the levels, each that begins with a level that differs. */
static bool try_direct(const struct br_bcube *cube, uint32_t a, uint32_t b,
                       const struct br_failures *failures, struct br_route *route)
{
    for (uint32_t i = cube->k; i--;) {
        if (br_bcube_digit(cube, a, i) == br_bcube_digit(cube, b, i))
            continue;
        route->hops = 0;
        route_correct(cube, a, b, i, -1, route);
        if (br_route_works(cube, failures, a, route))
            return true;
    }
    return false;
}

/* Over the neighbours on levels that differ (`differs`; one hop more), or on those that do not (two
 * hops more). */
static bool try_alternates(const struct br_bcube *cube, uint32_t a, uint32_t b,
                           const struct br_failures *failures, bool differs, struct br_route *route)
{
    for (uint32_t level = 0; level < cube->k; level++) {
        uint32_t last = br_bcube_with_digit(cube, b, level, br_bcube_digit(cube, a, level));
        if ((last != b) != differs)
            continue;
        for (uint32_t i = 0; i < cube->n - 1; i++) {
            uint32_t via = br_bcube_neighbour(cube, a, level, i);
            if (!br_link_works(cube, failures, a, via, level))
                continue;
            route_alternate(cube, b, level, via, route);
            if (br_route_works(cube, failures, a, route))
                return true;
        }
    }
    return false;
}

/* Has a host anybody on a level to talk to? */
static bool level_works(const struct br_bcube *cube, uint32_t host, uint32_t level,
                        const struct br_failures *failures)
{
    if (!br_nic_works(cube, failures, host, level))
        return false;
    for (uint32_t i = 0; i < cube->n - 1; i++)
        if (br_nic_works(cube, failures, br_bcube_neighbour(cube, host, level, i), level))
            return true;
    return false;
}

/* Cheap reasons for which no search will find anything. */
static int route_check_end(const struct br_bcube *cube, uint32_t host,
                           const struct br_failures *failures)
{
    char text[BR_BCUBE_TEXT];
    br_bcube_text(cube, host, text);
    if (!br_host_works(failures, host))
        return br_error(EHOSTUNREACH, "host %u %s does not work", host, text);
    for (uint32_t level = 0; level < cube->k; level++)
        if (level_works(cube, host, level, failures))
            return 0;
    return br_error(EHOSTUNREACH, "host %u %s has no level that works", host, text);
}

/* ---- the last resort: a search by A* --------------------------------------------------------- */

struct node {
    struct br_list link; /* in open[hops + left], until it is taken */
    const struct node *before;
    uint32_t host;
    uint8_t hops, left; /* from a; at least so many to b */
    bool taken;
};

struct search {
    const struct br_bcube *cube;
    const struct br_failures *failures;
    uint32_t to;
    struct br_list
        /* by the least hops of a route over it; what came last is taken first */
        open[BR_ROUTE_HOPS + 1];
    struct br_table found; /* host -> node */
    struct node *nodes;
    uint32_t count, capacity, links;
    bool gave_up;  /* a bound was met */
    bool too_long; /* something was farther than BR_ROUTE_HOPS */
};

/* A way to the host over `before` (NULL: it is the source). */
static void search_reach(struct search *search, const struct node *before, uint32_t host)
{
    uint32_t hops = before ? before->hops + 1u : 0,
             left = br_bcube_distance(search->cube, host, search->to);
    struct node *node = br_table_find(&search->found, host, 0);
    if (hops + left > BR_ROUTE_HOPS) {
        search->too_long = true;
        return;
    }
    if (node) {
        if (node->taken || node->hops <= hops)
            return;
        br_list_remove(&node->link);
    } else {
        if (search->count == search->capacity) {
            search->gave_up = true;
            return;
        }
        node = &search->nodes[search->count++];
        br_table_insert(&search->found, host, 0, node);
    }
    node->before = before;
    node->host = host;
    node->hops = (uint8_t)hops;
    node->left = (uint8_t)left;
    br_list_push_front(&search->open[hops + left], &node->link);
}

static struct node *search_take(struct search *search)
{
    for (int i = 0; i <= BR_ROUTE_HOPS; i++) {
        if (br_list_empty(&search->open[i]))
            continue;
        struct node *node = br_container_of(search->open[i].next, struct node, link);
        br_list_remove(&node->link);
        node->taken = true;
        return node;
    }
    return NULL;
}

static void search_expand(struct search *search, const struct node *node)
{
    const struct br_bcube *cube = search->cube;
    for (uint32_t level = 0; level < cube->k; level++) {
        if (!br_nic_works(cube, search->failures, node->host, level))
            continue;
        for (uint32_t i = 0; i < cube->n - 1; i++) {
            uint32_t other = br_bcube_neighbour(cube, node->host, level, i);
            if (search->links++ >= BR_ROUTE_SEARCH_LINKS) {
                search->gave_up = true;
                return;
            }
            if (br_nic_works(cube, search->failures, other, level))
                search_reach(search, node, other);
        }
    }
}

static int search_nowhere(const struct search *search, uint32_t a)
{
    const struct br_bcube *cube = search->cube;
    char from[BR_BCUBE_TEXT], to[BR_BCUBE_TEXT];
    br_bcube_text(cube, a, from);
    br_bcube_text(cube, search->to, to);
    if (search->gave_up)
        return br_error(EHOSTUNREACH,
                        "the search for a route from host %u %s to host %u %s gave up after %u "
                        "hosts and %u links",
                        a, from, search->to, to, search->count, search->links);
    if (search->too_long)
        return br_error(
            EHOSTUNREACH,
            "host %u %s has no route to host %u %s of at most %d hops: too much has failed", a,
            from, search->to, to, BR_ROUTE_HOPS);
    return br_error(EHOSTUNREACH,
                    "host %u %s has no route to host %u %s: what has failed divides the cube", a,
                    from, search->to, to);
}

static int search_run(struct search *search, uint32_t a, struct br_route *route)
{
    const struct node *node;
    search_reach(search, NULL, a);
    while ((node = search_take(search)) != NULL && node->host != search->to &&
           search->links < BR_ROUTE_SEARCH_LINKS)
        search_expand(search, node);
    if (!node || node->host != search->to)
        return search_nowhere(search, a);
    route->hops = node->hops;
    for (; node->before; node = node->before)
        route->hosts[node->hops - 1] = (uint16_t)node->host;
    return 0;
}

static int search_route(const struct br_bcube *cube, uint32_t a, uint32_t b,
                        const struct br_failures *failures, struct br_route *route)
{
    struct search search = {
        .cube = cube, .failures = failures, .to = b, .capacity = BR_ROUTE_SEARCH_HOSTS};
    int rc = -ENOMEM;
    if (search.capacity > cube->hosts)
        search.capacity = cube->hosts;
    for (int i = 0; i <= BR_ROUTE_HOPS; i++)
        br_list_init(&search.open[i]);
    search.nodes = calloc(search.capacity, sizeof *search.nodes);
    if (!search.nodes || br_table_init(&search.found, search.capacity))
        br_error(ENOMEM, "no memory to search a route over %u hosts", search.capacity);
    else
        rc = search_run(&search, a, route);
    br_table_destroy(&search.found);
    free(search.nodes);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

int br_route_around(const struct br_bcube *cube, uint32_t a, uint32_t b,
                    const struct br_failures *failures, struct br_route *route)
{
    int rc = check_pair(cube, a, b);
    route->hops = 0;
    if (rc || a == b)
        return rc;
    rc = route_check_end(cube, a, failures);
    if (!rc)
        rc = route_check_end(cube, b, failures);
    if (rc)
        return rc;
    if (try_direct(cube, a, b, failures, route) ||
        try_alternates(cube, a, b, failures, true, route) ||
        try_alternates(cube, a, b, failures, false, route))
        return 0;
    return search_route(cube, a, b, failures, route);
}
