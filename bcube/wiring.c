/* SPDX-License-Identifier: BSD-3-Clause */
/* Segments, and which switch each is. */
#include "bcube/wiring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/union_find.h"
#include "base/error.h"
#include "bcube/wiring_internal.h"

#define NONE UINT32_MAX

int br_wiring_init(struct br_wiring *w, const struct br_bcube *cube, uint32_t n_hosts)
{
    size_t n = (size_t)n_hosts * BR_WIRING_NICS;

    *w = (struct br_wiring){.cube = *cube, .n_hosts = n_hosts};
    w->hosts = calloc(n_hosts, sizeof *w->hosts);
    w->parent = malloc(n * sizeof *w->parent);
    w->ports = malloc(n * sizeof *w->ports);
    w->segment_of = malloc(n * sizeof *w->segment_of);
    w->segments = malloc(n * sizeof *w->segments);
    w->findings = malloc(BR_WIRING_FINDINGS * sizeof *w->findings);
    if (!w->hosts || !w->parent || !w->ports || !w->segment_of || !w->segments || !w->findings) {
        br_wiring_destroy(w);
        return br_error(ENOMEM, "no memory for the wiring of %u hosts", n_hosts);
    }
    br_union_find_init(w->parent, n);
    return 0;
}

void br_wiring_destroy(struct br_wiring *w)
{
    free(w->hosts);
    free(w->parent);
    free(w->ports);
    free(w->segment_of);
    free(w->segments);
    free(w->findings);
    *w = (struct br_wiring){0};
}

void br_wiring_add_neighbour(struct br_wiring *w, uint32_t host, uint32_t nic, uint32_t other,
                             uint32_t other_nic)
{
    if (host >= w->n_hosts || other >= w->n_hosts || nic >= w->hosts[host].n_nics ||
        other_nic >= w->hosts[other].n_nics || w->hosts[host].nics[nic].cannot_listen ||
        w->hosts[other].nics[other_nic].cannot_listen)
        return;
    br_union_find_join(w->parent, host * BR_WIRING_NICS + nic, other * BR_WIRING_NICS + other_nic);
}

uint32_t br_wiring_expected(const struct br_wiring *w, struct br_wiring_switch at)
{
    uint32_t n = 0;

    for (uint32_t port = 0; port < w->cube.n; port++)
        n += br_bcube_switch_host(&w->cube, at.level, at.index, port) < w->n_hosts;
    return n;
}

bool br_wiring_segment_is(const struct br_wiring_segment *segment, struct br_wiring_switch at)
{
    if (segment->n_is == BR_WIRING_JOINED)
        return true; /* so many that they are not even counted */
    for (uint32_t i = 0; i < segment->n_is; i++)
        if (segment->is[i].level == at.level && segment->is[i].index == at.index)
            return true;
    return false;
}

const struct br_wiring_segment *br_wiring_segment_of(const struct br_wiring *w, uint32_t host,
                                                     uint32_t nic)
{
    uint32_t segment = w->segment_of[host * BR_WIRING_NICS + nic];

    return segment == NONE || w->segments[segment].out_of_band ? NULL : &w->segments[segment];
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Ports go to their segments in one pass: counted, placed, as in a bucket sort. */
static void wiring_gather(struct br_wiring *w)
{
    uint32_t n = w->n_hosts * BR_WIRING_NICS, at = 0;

    w->n_segments = 0;
    for (uint32_t p = 0; p < n; p++) {
        const struct br_wiring_host *host = &w->hosts[br_wiring_host_of(p)];
        uint32_t nic = p % BR_WIRING_NICS, root = br_union_find_root(w->parent, p);

        w->segment_of[p] = NONE;
        if (nic >= host->n_nics || host->nics[nic].cannot_listen)
            continue;
        if (root == p) { /* the smallest of its segment comes first */
            w->segments[w->n_segments] = (struct br_wiring_segment){0};
            w->segment_of[root] = w->n_segments++;
        }
        w->segment_of[p] = w->segment_of[root];
        w->segments[w->segment_of[p]].n++;
    }
    for (uint32_t s = 0; s < w->n_segments; s++) {
        w->segments[s].first = at;
        at += w->segments[s].n;
        w->segments[s].n = 0;
    }
    for (uint32_t p = 0; p < n; p++)
        if (w->segment_of[p] != NONE) {
            struct br_wiring_segment *segment = &w->segments[w->segment_of[p]];

            w->ports[segment->first + segment->n++] = p;
        }
}

static uint32_t distinct_hosts(const struct br_wiring *w, const struct br_wiring_segment *segment)
{
    uint32_t n = 0, last = NONE;

    for (uint32_t i = 0; i < segment->n; i++) { /* in the order of hosts */
        n += br_wiring_host_of(w->ports[segment->first + i]) != last;
        last = br_wiring_host_of(w->ports[segment->first + i]);
    }
    return n;
}

/* NICs of a host that may still be those of the cube. */
static uint32_t wiring_candidates(const struct br_wiring *w, uint32_t host)
{
    uint32_t n = 0;

    for (uint32_t nic = 0; nic < w->hosts[host].n_nics; nic++)
        n += br_wiring_segment_of(w, host, nic) != NULL;
    return n;
}

/* More hosts than a switch has ports, each with one NIC that it can spare: the network that they
 * are managed over. */
static bool is_out_of_band(const struct br_wiring *w, const struct br_wiring_segment *segment)
{
    if (distinct_hosts(w, segment) <= w->cube.n || distinct_hosts(w, segment) != segment->n)
        return false;
    for (uint32_t i = 0; i < segment->n; i++) {
        uint32_t port = w->ports[segment->first + i], host = br_wiring_host_of(port);

        if (w->hosts[host].nics[port % BR_WIRING_NICS].level >= 0 ||
            wiring_candidates(w, host) <= w->cube.k)
            return false;
    }
    return true;
}

/* The largest first: once it is out, a switch with one host too many looks like none any more. */
static void set_apart(struct br_wiring *w)
{
    struct br_wiring_segment *largest;

    do {
        largest = NULL;
        for (uint32_t s = 0; s < w->n_segments; s++)
            if (!w->segments[s].out_of_band && (!largest || w->segments[s].n > largest->n) &&
                is_out_of_band(w, &w->segments[s]))
                largest = &w->segments[s];
        if (largest)
            largest->out_of_band = true;
    } while (largest);
}

/* ---- which switch ---------------------------------------------------------------------------- */

/* How well a segment fits a switch: 2 for each host of it that is here, and 1 more when with the
 * NIC of that level. Without `but` those hosts count only whose NIC here has no place in the switch
 * `but`. */
static uint32_t wiring_fit(const struct br_wiring *w, const struct br_wiring_segment *segment,
                           struct br_wiring_switch at, const struct br_wiring_switch *but,
                           uint32_t *hosts)
{
    uint32_t score = 0;

    *hosts = 0;
    for (uint32_t i = 0; i < segment->n;) {
        uint32_t host = br_wiring_host_of(w->ports[segment->first + i]), nics = 0;
        bool says = false, silent = false;

        for (; i < segment->n && br_wiring_host_of(w->ports[segment->first + i]) == host;
             i++, nics++) {
            int level = w->hosts[host].nics[w->ports[segment->first + i] % BR_WIRING_NICS].level;

            says = says || level == (int)at.level;
            silent = silent || level < 0;
        }
        if (!br_wiring_belongs(w, host, at))
            continue;
        if (but && !says && !(silent && (nics > 1 || !br_wiring_belongs(w, host, *but))))
            continue;
        (*hosts)++;
        score += says ? 3 : 2;
    }
    return score;
}

/* The best switch of a segment; among equals one that no other segment is, so far. */
static void wiring_identify(const struct br_wiring *w, struct br_wiring_segment *segment,
                            const bool *claimed)
{
    uint32_t best = 0, hosts, k = w->cube.k, of_level = br_bcube_power(&w->cube, k - 1);
    bool best_free = false;

    segment->n_is = 0;
    for (uint32_t i = 0; i < segment->n && segment->n > 1; i++)
        for (uint32_t level = 0; level < k; level++) {
            uint32_t host = br_wiring_host_of(w->ports[segment->first + i]);
            struct br_wiring_switch at = {level, br_bcube_switch(&w->cube, host, level)};
            uint32_t score = wiring_fit(w, segment, at, NULL, &hosts);
            bool free_ = !claimed[level * of_level + at.index];

            if (score < best || (score == best && (best_free || !free_)))
                continue;
            best = score;
            best_free = free_;
            segment->is[0] = at;
            segment->n_is = 1;
        }
    segment->score = best;
}

/* Other switches of which most NICs are in this segment, too. */
static void find_joined(const struct br_wiring *w, struct br_wiring_segment *segment)
{
    struct br_wiring_switch first = segment->is[0];
    uint32_t hosts;

    for (uint32_t i = 0; i < segment->n; i++)
        for (uint32_t level = 0; level < w->cube.k; level++) {
            uint32_t host = br_wiring_host_of(w->ports[segment->first + i]);
            struct br_wiring_switch at = {level, br_bcube_switch(&w->cube, host, level)};

            if (segment->n_is == BR_WIRING_JOINED)
                return;
            if (br_wiring_segment_is(segment, at))
                continue;
            wiring_fit(w, segment, at, &first, &hosts);
            if (hosts >= 2 && 2 * hosts > br_wiring_expected(w, at))
                segment->is[segment->n_is++] = at;
        }
}

struct ranked {
    uint32_t segment, score;
};

static int wiring_better(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->segment < y->segment ? -1 : 1;
}

/* Those that fit best choose first. */
static int identify_all(struct br_wiring *w)
{
    uint32_t of_level = br_bcube_power(&w->cube, w->cube.k - 1);
    bool *claimed = calloc((size_t)of_level * w->cube.k, sizeof *claimed);
    struct ranked *order = malloc((w->n_segments + 1) * sizeof *order);

    if (claimed && order) {
        for (uint32_t s = 0; s < w->n_segments; s++) {
            wiring_identify(w, &w->segments[s], claimed);
            order[s] = (struct ranked){s, w->segments[s].score};
        }
        qsort(order, w->n_segments, sizeof *order, wiring_better);
        for (uint32_t i = 0; i < w->n_segments; i++) {
            struct br_wiring_segment *segment = &w->segments[order[i].segment];

            if (segment->out_of_band)
                continue;
            wiring_identify(w, segment, claimed);
            if (segment->n_is)
                find_joined(w, segment);
            for (uint32_t j = 0; j < segment->n_is; j++)
                claimed[segment->is[j].level * of_level + segment->is[j].index] = true;
        }
    }
    free(order);
    free(claimed);
    return claimed && order ? 0
                            : br_error(ENOMEM, "no memory for the wiring of %u hosts", w->n_hosts);
}

/* A host's NICs without levels get those of the switches that they are on. A level on which nobody
 * else is there gets one that hears nobody. */
static void name_levels(struct br_wiring *w, uint32_t host)
{
    struct br_wiring_host *h = &w->hosts[host];

    for (uint32_t level = 0; level < w->cube.k; level++) {
        struct br_wiring_switch at = {level, br_bcube_switch(&w->cube, host, level)};
        bool lonely = br_wiring_expected(w, at) == 1;

        for (uint32_t nic = 0; nic < h->n_nics && br_wiring_nic_on(w, host, level) < 0; nic++) {
            const struct br_wiring_segment *segment = br_wiring_segment_of(w, host, nic);

            if (h->nics[nic].level >= 0 || !segment ||
                !(br_wiring_segment_is(segment, at) || (lonely && segment->n == 1)))
                continue;
            h->nics[nic].level = (int)level;
            h->nics[nic].found = true;
        }
    }
}

static void forget_levels(struct br_wiring_host *h)
{
    for (uint32_t nic = 0; nic < h->n_nics; nic++)
        if (h->nics[nic].found) {
            h->nics[nic].level = -1;
            h->nics[nic].found = false;
        }
}

int br_wiring_analyse(struct br_wiring *w)
{
    int rc;

    w->n_findings = 0;
    for (uint32_t host = 0; host < w->n_hosts; host++)
        forget_levels(&w->hosts[host]);
    wiring_gather(w);
    set_apart(w);
    rc = identify_all(w);
    if (rc)
        return rc;
    for (uint32_t host = 0; host < w->n_hosts; host++)
        name_levels(w, host);
    br_wiring_find(w);
    return (int)w->n_findings;
}

int br_wiring_nic_on(const struct br_wiring *w, uint32_t host, uint32_t level)
{
    for (uint32_t nic = 0; nic < w->hosts[host].n_nics; nic++)
        if (w->hosts[host].nics[nic].level == (int)level)
            return (int)nic;
    return -1;
}
