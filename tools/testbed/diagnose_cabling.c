/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stage 3: which cable is in the wrong hole.
 *
 * 1. NICs that hear each other form a segment: what a switch really joins. Planned, each switch is
 *    one segment. The disagreement is the number of pairs of ports that are together in one of the
 *    two only.
 * 2. The explanation is the shortest list of mishaps that brings it to zero: two cables of a host
 *    swapped, two cables of two hosts crossed, two hosts exchanged, a cable on a wrong switch, a
 *    port through which nothing passes, switches joined, a switch split. Greedily the mishap is
 *    taken that explains most for its price; prices prefer few people's mistakes to many.
 *    Exhaustive search was rejected: mishaps hardly interact, and a testbed has hundreds of ports.
 * 3. Segments have no names; the switch of which most ports are in a segment gives it one. With n =
 *    2 that may be a tie: then a swap at one host and crossed cables of its two neighbours look
 *    alike, and the swap is named.
 * 4. bcube/wiring.h looks at the same sounds when a job starts: it must find levels for NICs that
 *    have none, knows no more than the sounds, and says of each host where its NICs are. Here the
 *    levels are planned and carriers, echoes and hosts that were not reached are known, so several
 *    findings can be one mishap.
 * 5. Ports without a carrier and hosts that were not reached take no part: they are explained
 *    already. Nor do NICs that could not speak.
 */
#include "tools/testbed/diagnose_cabling.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/union_find.h"
#include "base/error.h"

#define CROSSABLE 256 /* misplaced ports among which crossed pairs are looked for */
#define MISHAPS   256

uint32_t *br_cabling_graph_cell(const struct br_cabling_graph *graph, uint32_t segment, uint32_t on)
{
    return &graph->count[(size_t)segment * graph->switches + on];
}

uint32_t br_cabling_graph_switch_of(const struct br_cabling_graph *graph, uint32_t port)
{
    return br_survey_switch_of(graph->survey, port);
}

/* ---- segments from sounds -------------------------------------------------------------------- */

uint32_t br_cabling_graph_node_of(const struct br_survey *survey, uint32_t port)
{
    return br_survey_host_of(survey, port) * BR_SURVEY_NICS + (uint32_t)survey->ports[port].found;
}

/* Some switches drop frames of a type they do not know. What answers echoes over the planned link
 * is connected. */
static void trust_echoes(struct br_cabling_graph *graph)
{
    const struct br_survey *survey = graph->survey;
    uint32_t *parent = graph->node_segment;
    for (uint32_t l = 0; l < br_survey_links(survey); l++) {
        uint32_t from = l / (survey->cube.n - 1), to = br_survey_link_end(survey, l);
        if (!br_survey_link_is(survey, l))
            continue;
        bool quiet =
            !graph->hears[from] && !graph->heard[from] && !graph->hears[to] && !graph->heard[to];
        if (!survey->links[l].got || !quiet || !br_survey_alive(survey, from) ||
            !br_survey_alive(survey, to))
            continue;
        br_union_find_join(parent, br_cabling_graph_node_of(survey, from),
                           br_cabling_graph_node_of(survey, to));
    }
}

static void find_segments(struct br_cabling_graph *graph)
{
    const struct br_survey *survey = graph->survey;
    uint32_t nodes = (uint32_t)survey->n_hosts * BR_SURVEY_NICS, *parent = graph->node_segment;
    br_union_find_init(parent, nodes);
    for (int i = 0; i < survey->n_sounds; i++) {
        const struct br_sound *sound = &survey->sounds[i];
        int from = br_survey_port_of_node(survey, sound->from),
            to = br_survey_port_of_node(survey, sound->to);
        br_union_find_join(parent, sound->from, sound->to);
        if (from >= 0)
            graph->heard[from] = true;
        if (to >= 0)
            graph->hears[to] = true;
    }
    trust_echoes(graph);
    for (uint32_t i = 0; i < nodes; i++)
        parent[i] = br_union_find_root(parent, i);
}

static void number_segments(struct br_cabling_graph *graph)
{
    const struct br_survey *survey = graph->survey;
    for (uint32_t p = 0; p < graph->ports; p++) {
        graph->segment[p] = BR_CABLING_GRAPH_NONE;
        if (!br_survey_alive(survey, p) || !br_survey_nic(survey, p)->speaks)
            continue;
        for (uint32_t q = 0; q < p && graph->segment[p] == BR_CABLING_GRAPH_NONE; q++)
            if (graph->segment[q] != BR_CABLING_GRAPH_NONE &&
                graph->node_segment[br_cabling_graph_node_of(survey, p)] ==
                    graph->node_segment[br_cabling_graph_node_of(survey, q)])
                graph->segment[p] = graph->segment[q];
        if (graph->segment[p] == BR_CABLING_GRAPH_NONE)
            graph->segment[p] = graph->segments++;
        graph->size[graph->segment[p]]++;
        graph->members[br_cabling_graph_switch_of(graph, p)]++;
        ++*br_cabling_graph_cell(graph, graph->segment[p], br_cabling_graph_switch_of(graph, p));
    }
}

/* ---- moving ports in thought ----------------------------------------------------------------- */

/* Pairs with this port that are together in plan or fact only. */
static int64_t diagnose_cabling_disagreement(const struct br_cabling_graph *graph, uint32_t port)
{
    uint32_t segment = graph->segment[port], on = br_cabling_graph_switch_of(graph, port);
    int64_t both = *br_cabling_graph_cell(graph, segment, on);
    return (int64_t)graph->size[segment] - both + graph->members[on] - both;
}

/* By how much the disagreement falls. */
static int64_t diagnose_cabling_move(struct br_cabling_graph *graph, uint32_t port,
                                     uint32_t segment)
{
    uint32_t on = br_cabling_graph_switch_of(graph, port);
    int64_t before = diagnose_cabling_disagreement(graph, port);
    graph->size[graph->segment[port]]--;
    --*br_cabling_graph_cell(graph, graph->segment[port], on);
    graph->segment[port] = segment;
    graph->size[segment]++;
    ++*br_cabling_graph_cell(graph, segment, on);
    return before - diagnose_cabling_disagreement(graph, port);
}

static int64_t diagnose_cabling_exchange(struct br_cabling_graph *graph, uint32_t a, uint32_t b)
{
    uint32_t of_a = graph->segment[a], of_b = graph->segment[b];
    if (of_a == BR_CABLING_GRAPH_NONE || of_b == BR_CABLING_GRAPH_NONE || of_a == of_b)
        return 0;
    int64_t gain = diagnose_cabling_move(graph, a, of_b);
    return gain + diagnose_cabling_move(graph, b, of_a);
}

static int64_t exchange_hosts(struct br_cabling_graph *graph, uint32_t g, uint32_t h)
{
    int64_t gain = 0;
    for (uint32_t level = 0; level < graph->survey->cube.k; level++)
        gain += diagnose_cabling_exchange(graph, br_survey_port_of(graph->survey, g, level),
                                          br_survey_port_of(graph->survey, h, level));
    return gain;
}

/* The segment with most of the other ports of a port's switch; of several such, the one with the
 * fewest ports of other switches. */
static uint32_t diagnose_cabling_home(const struct br_cabling_graph *graph, uint32_t port)
{
    uint32_t best = BR_CABLING_GRAPH_NONE, on = br_cabling_graph_switch_of(graph, port), most = 0,
             others = 0;
    for (uint32_t s = 0; s < graph->segments; s++) {
        uint32_t own = *br_cabling_graph_cell(graph, s, on) - (s == graph->segment[port]);
        if (own > most || (own == most && own && graph->size[s] - own < others)) {
            best = s;
            most = own;
            others = graph->size[s] - own;
        }
    }
    return best;
}

static bool diagnose_cabling_silent(const struct br_cabling_graph *graph, uint32_t port)
{
    return !graph->hears[port] && !graph->heard[port];
}

/* All ports of a switch that take part are alone: there are at least two, and they hear nobody. */
static bool switch_is_silent(const struct br_cabling_graph *graph, uint32_t on)
{
    for (uint32_t p = 0; p < graph->ports; p++)
        if (graph->segment[p] != BR_CABLING_GRAPH_NONE &&
            br_cabling_graph_switch_of(graph, p) == on &&
            (!diagnose_cabling_silent(graph, p) || graph->size[graph->segment[p]] > 1))
            return false;
    return graph->members[on] >= 2;
}

bool br_cabling_graph_holds(const struct br_cabling_graph *graph, uint32_t segment, uint32_t on)
{
    uint32_t count = *br_cabling_graph_cell(graph, segment, on);
    return count >= 2 && 2 * count > graph->members[on];
}

/* ---- the mishaps and their prices ------------------------------------------------------------ */

static void diagnose_cabling_propose(struct br_cabling_fault *best, enum br_cabling_fault_kind kind,
                                     uint32_t a, uint32_t b, int64_t gain)
{
    static const double price[] = {
        [BR_CABLING_FAULT_SWAP] = 1.0,   [BR_CABLING_FAULT_HOSTS] = 1.6,
        [BR_CABLING_FAULT_CROSS] = 1.3,  [BR_CABLING_FAULT_MOVE] = 1.2,
        [BR_CABLING_FAULT_SILENT] = 1.0, [BR_CABLING_FAULT_SWITCH] = 0.9,
        [BR_CABLING_FAULT_JOIN] = 1.0,   [BR_CABLING_FAULT_SPLIT] = 1.0,
    };
    double worth = (double)gain / price[kind];
    if (gain > 0 && worth > best->score + 1e-9)
        *best = (struct br_cabling_fault){kind, a, b, worth};
}

static void propose_at_port(struct br_cabling_graph *graph, uint32_t p,
                            struct br_cabling_fault *best)
{
    uint32_t was = graph->segment[p], to = diagnose_cabling_home(graph, p);
    if (to == BR_CABLING_GRAPH_NONE || to == was)
        return;
    int64_t gain = diagnose_cabling_move(graph, p, to);
    diagnose_cabling_move(graph, p, was);
    diagnose_cabling_propose(
        best, diagnose_cabling_silent(graph, p) ? BR_CABLING_FAULT_SILENT : BR_CABLING_FAULT_MOVE,
        p, to, gain);
}

static void propose_swaps(struct br_cabling_graph *graph, const uint32_t *misplaced, uint32_t count,
                          struct br_cabling_fault *best)
{
    const struct br_survey *survey = graph->survey;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            uint32_t a = misplaced[i], b = misplaced[j], g = br_survey_host_of(survey, a),
                     h = br_survey_host_of(survey, b);
            if (diagnose_cabling_silent(graph, a) || diagnose_cabling_silent(graph, b))
                continue;
            int64_t gain = diagnose_cabling_exchange(graph, a, b);
            diagnose_cabling_exchange(graph, a, b);
            diagnose_cabling_propose(best, g == h ? BR_CABLING_FAULT_SWAP : BR_CABLING_FAULT_CROSS,
                                     a, b, gain);
            if (g == h || survey->cube.k < 2)
                continue;
            gain = exchange_hosts(graph, g, h);
            exchange_hosts(graph, g, h);
            diagnose_cabling_propose(best, BR_CABLING_FAULT_HOSTS, g, h, gain);
        }
    }
}

/* Moves the ports of all but the first switch that the segment holds into segments of their own. */
static int64_t diagnose_cabling_separate(struct br_cabling_graph *graph, uint32_t segment)
{
    int64_t gain = 0;
    bool first = true;
    for (uint32_t on = 0; on < graph->switches; on++) {
        if (!br_cabling_graph_holds(graph, segment, on))
            continue;
        if (!first && graph->segments < graph->max_segments) {
            uint32_t fresh = graph->segments++;
            for (uint32_t p = 0; p < graph->ports; p++)
                if (graph->segment[p] == segment && br_cabling_graph_switch_of(graph, p) == on)
                    gain += diagnose_cabling_move(graph, p, fresh);
        }
        first = false;
    }
    return gain;
}

static uint32_t diagnose_cabling_held(const struct br_cabling_graph *graph, uint32_t segment)
{
    uint32_t count = 0;
    for (uint32_t on = 0; on < graph->switches; on++)
        count += br_cabling_graph_holds(graph, segment, on);
    return count;
}

/* Joined switches are so plain that they need no price: several whole switches in one segment. */
static void propose_joins(struct br_cabling_graph *graph, struct br_cabling_fault *best)
{
    for (uint32_t s = 0; s < graph->segments; s++)
        if (graph->size[s] > graph->survey->cube.n && diagnose_cabling_held(graph, s) > 1)
            diagnose_cabling_propose(best, BR_CABLING_FAULT_JOIN, s, 0,
                                     (int64_t)graph->size[s] * graph->size[s]);
}

static void propose_switches(struct br_cabling_graph *graph, struct br_cabling_fault *best)
{
    for (uint32_t on = 0; on < graph->switches; on++) {
        uint32_t parts = 0, pure = 0;
        int64_t members = graph->members[on];
        if (switch_is_silent(graph, on))
            diagnose_cabling_propose(best, BR_CABLING_FAULT_SWITCH, on, 0,
                                     members * (members - 1) / 2);
        for (uint32_t s = 0; s < graph->segments; s++) {
            uint32_t count = *br_cabling_graph_cell(graph, s, on);
            parts += count > 0;
            pure += count > 1 && count == graph->size[s];
        }
        if (pure > 1 && pure == parts)
            diagnose_cabling_propose(best, BR_CABLING_FAULT_SPLIT, on, 0,
                                     members * (members - 1) / 2);
    }
}

static struct br_cabling_fault find_cabling_fault(struct br_cabling_graph *graph)
{
    struct br_cabling_fault best = {.score = 0};
    uint32_t misplaced[CROSSABLE], count = 0;
    for (uint32_t p = 0; p < graph->ports; p++) {
        if (graph->segment[p] == BR_CABLING_GRAPH_NONE || !diagnose_cabling_disagreement(graph, p))
            continue;
        if (count < CROSSABLE)
            misplaced[count++] = p;
        propose_at_port(graph, p, &best);
    }
    if (!count)
        return best;
    propose_joins(graph, &best);
    propose_switches(graph, &best);
    propose_swaps(graph, misplaced, count, &best);
    return best;
}

static void diagnose_cabling_apply(struct br_cabling_graph *graph,
                                   const struct br_cabling_fault *fault)
{
    uint32_t first = BR_CABLING_GRAPH_NONE;
    switch (fault->kind) {
    case BR_CABLING_FAULT_SWAP:
    case BR_CABLING_FAULT_CROSS:
        diagnose_cabling_exchange(graph, fault->a, fault->b);
        break;
    case BR_CABLING_FAULT_HOSTS:
        exchange_hosts(graph, fault->a, fault->b);
        break;
    case BR_CABLING_FAULT_MOVE:
    case BR_CABLING_FAULT_SILENT:
        diagnose_cabling_move(graph, fault->a, fault->b);
        break;
    case BR_CABLING_FAULT_JOIN:
        diagnose_cabling_separate(graph, fault->a);
        break;
    case BR_CABLING_FAULT_SWITCH:
    case BR_CABLING_FAULT_SPLIT:
        for (uint32_t p = 0; p < graph->ports; p++) {
            if (graph->segment[p] == BR_CABLING_GRAPH_NONE ||
                br_cabling_graph_switch_of(graph, p) != fault->a)
                continue;
            if (first == BR_CABLING_GRAPH_NONE)
                first = graph->segment[p];
            else if (graph->segment[p] != first)
                diagnose_cabling_move(graph, p, first);
        }
        break;
    }
}

static int diagnose_cabling_allocate(struct br_cabling_graph *graph)
{
    size_t nodes = (size_t)graph->survey->n_hosts * BR_SURVEY_NICS;
    graph->segment = calloc(graph->ports, sizeof *graph->segment);
    graph->size = calloc(graph->max_segments, sizeof *graph->size);
    graph->members = calloc(graph->switches, sizeof *graph->members);
    graph->count = calloc((size_t)graph->max_segments * graph->switches, sizeof *graph->count);
    graph->node_segment = calloc(nodes, sizeof *graph->node_segment);
    graph->hears = calloc(graph->ports, 1);
    graph->heard = calloc(graph->ports, 1);
    graph->explained = calloc(graph->ports, 1);
    if (graph->segment && graph->size && graph->members && graph->count && graph->node_segment &&
        graph->hears && graph->heard && graph->explained)
        return 0;
    return br_error(ENOMEM, "no memory to compare the cables of %u ports with the plan",
                    graph->ports);
}

static void diagnose_cabling_release(struct br_cabling_graph *graph)
{
    free(graph->segment);
    free(graph->size);
    free(graph->members);
    free(graph->count);
    free(graph->node_segment);
    free(graph->hears);
    free(graph->heard);
    free(graph->explained);
}

int br_diagnose_cabling(const struct br_survey *survey, struct br_findings *findings)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t switches = cube->k * br_bcube_power(cube, cube->k - 1),
             ports = br_survey_ports(survey);
    struct br_cabling_graph graph = {.survey = survey,
                                     .findings = findings,
                                     .ports = ports,
                                     .switches = switches,
                                     .max_segments = ports + switches};
    if (!survey->probed)
        return 0;
    int rc = diagnose_cabling_allocate(&graph);
    if (!rc) {
        find_segments(&graph);
        number_segments(&graph);
        for (int i = 0; i < MISHAPS; i++) {
            struct br_cabling_fault fault = find_cabling_fault(&graph);
            if (!(fault.score > 0))
                break;
            br_cabling_fault_report(&graph, &fault);
            diagnose_cabling_apply(&graph, &fault);
        }
        br_cabling_graph_report_one_way(&graph);
        br_cabling_graph_report_unknown(&graph);
    }
    diagnose_cabling_release(&graph);
    return rc;
}
