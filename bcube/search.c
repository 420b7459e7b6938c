/* SPDX-License-Identifier: BSD-3-Clause */
#include "bcube/search.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/list.h"
#include "base/table.h"

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

int br_route_search(const struct br_bcube *cube, uint32_t a, uint32_t b,
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
