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

#include "base/disjoint.h"
#include "base/error.h"

#define CROSSABLE 256 /* misplaced ports among which crossed pairs are looked for */
#define MISHAPS   256

uint32_t *br_tangle_cell(const struct br_tangle *tangle, uint32_t segment, uint32_t on)
{
    return &tangle->count[(size_t)segment * tangle->switches + on];
}

uint32_t br_tangle_switch_of(const struct br_tangle *tangle, uint32_t port)
{
    return br_survey_switch_of(tangle->survey, port);
}

/* ---- segments from sounds -------------------------------------------------------------------- */

uint32_t br_tangle_node_of(const struct br_survey *survey, uint32_t port)
{
    return br_survey_host_of(survey, port) * BR_SURVEY_NICS + (uint32_t)survey->ports[port].found;
}

/* Some switches drop frames of a type they do not know. What answers echoes over the planned link
 * is connected. */
static void trust_echoes(struct br_tangle *tangle)
{
    const struct br_survey *survey = tangle->survey;
    uint32_t *parent = tangle->node_segment;
    for (uint32_t l = 0; l < br_survey_links(survey); l++) {
        uint32_t from = l / (survey->cube.n - 1), to = br_survey_link_end(survey, l);
        if (!br_survey_link_is(survey, l))
            continue;
        bool quiet = !tangle->hears[from] && !tangle->heard[from] && !tangle->hears[to] &&
                     !tangle->heard[to];
        if (!survey->links[l].got || !quiet || !br_survey_alive(survey, from) ||
            !br_survey_alive(survey, to))
            continue;
        br_disjoint_join(parent, br_tangle_node_of(survey, from), br_tangle_node_of(survey, to));
    }
}

static void find_segments(struct br_tangle *tangle)
{
    const struct br_survey *survey = tangle->survey;
    uint32_t nodes = (uint32_t)survey->n_hosts * BR_SURVEY_NICS, *parent = tangle->node_segment;
    br_disjoint_init(parent, nodes);
    for (int i = 0; i < survey->n_sounds; i++) {
        const struct br_sound *sound = &survey->sounds[i];
        int from = br_survey_port_of_node(survey, sound->from),
            to = br_survey_port_of_node(survey, sound->to);
        br_disjoint_join(parent, sound->from, sound->to);
        if (from >= 0)
            tangle->heard[from] = true;
        if (to >= 0)
            tangle->hears[to] = true;
    }
    trust_echoes(tangle);
    for (uint32_t i = 0; i < nodes; i++)
        parent[i] = br_disjoint_root(parent, i);
}

static void number_segments(struct br_tangle *tangle)
{
    const struct br_survey *survey = tangle->survey;
    for (uint32_t p = 0; p < tangle->ports; p++) {
        tangle->segment[p] = BR_TANGLE_NONE;
        if (!br_survey_alive(survey, p) || !br_survey_nic(survey, p)->speaks)
            continue;
        for (uint32_t q = 0; q < p && tangle->segment[p] == BR_TANGLE_NONE; q++)
            if (tangle->segment[q] != BR_TANGLE_NONE &&
                tangle->node_segment[br_tangle_node_of(survey, p)] ==
                    tangle->node_segment[br_tangle_node_of(survey, q)])
                tangle->segment[p] = tangle->segment[q];
        if (tangle->segment[p] == BR_TANGLE_NONE)
            tangle->segment[p] = tangle->segments++;
        tangle->size[tangle->segment[p]]++;
        tangle->members[br_tangle_switch_of(tangle, p)]++;
        ++*br_tangle_cell(tangle, tangle->segment[p], br_tangle_switch_of(tangle, p));
    }
}

/* ---- moving ports in thought ----------------------------------------------------------------- */

/* Pairs with this port that are together in plan or fact only. */
static int64_t diagnose_cabling_disagreement(const struct br_tangle *tangle, uint32_t port)
{
    uint32_t segment = tangle->segment[port], on = br_tangle_switch_of(tangle, port);
    int64_t both = *br_tangle_cell(tangle, segment, on);
    return (int64_t)tangle->size[segment] - both + tangle->members[on] - both;
}

/* By how much the disagreement falls. */
static int64_t diagnose_cabling_move(struct br_tangle *tangle, uint32_t port, uint32_t segment)
{
    uint32_t on = br_tangle_switch_of(tangle, port);
    int64_t before = diagnose_cabling_disagreement(tangle, port);
    tangle->size[tangle->segment[port]]--;
    --*br_tangle_cell(tangle, tangle->segment[port], on);
    tangle->segment[port] = segment;
    tangle->size[segment]++;
    ++*br_tangle_cell(tangle, segment, on);
    return before - diagnose_cabling_disagreement(tangle, port);
}

static int64_t diagnose_cabling_exchange(struct br_tangle *tangle, uint32_t a, uint32_t b)
{
    uint32_t of_a = tangle->segment[a], of_b = tangle->segment[b];
    if (of_a == BR_TANGLE_NONE || of_b == BR_TANGLE_NONE || of_a == of_b)
        return 0;
    int64_t gain = diagnose_cabling_move(tangle, a, of_b);
    return gain + diagnose_cabling_move(tangle, b, of_a);
}

static int64_t exchange_hosts(struct br_tangle *tangle, uint32_t g, uint32_t h)
{
    int64_t gain = 0;
    for (uint32_t level = 0; level < tangle->survey->cube.k; level++)
        gain += diagnose_cabling_exchange(tangle, br_survey_port_of(tangle->survey, g, level),
                                          br_survey_port_of(tangle->survey, h, level));
    return gain;
}

/* The segment that most other ports of a port's switch are in, of equals the one with the fewest
 * unauthenticated peers. */
static uint32_t diagnose_cabling_home(const struct br_tangle *tangle, uint32_t port)
{
    uint32_t best = BR_TANGLE_NONE, on = br_tangle_switch_of(tangle, port), most = 0, strangers = 0;
    for (uint32_t s = 0; s < tangle->segments; s++) {
        uint32_t own = *br_tangle_cell(tangle, s, on) - (s == tangle->segment[port]);
        if (own > most || (own == most && own && tangle->size[s] - own < strangers)) {
            best = s;
            most = own;
            strangers = tangle->size[s] - own;
        }
    }
    return best;
}

static bool diagnose_cabling_silent(const struct br_tangle *tangle, uint32_t port)
{
    return !tangle->hears[port] && !tangle->heard[port];
}

/* All ports of a switch that take part are alone: there are at least two, and they hear nobody. */
static bool switch_is_silent(const struct br_tangle *tangle, uint32_t on)
{
    for (uint32_t p = 0; p < tangle->ports; p++)
        if (tangle->segment[p] != BR_TANGLE_NONE && br_tangle_switch_of(tangle, p) == on &&
            (!diagnose_cabling_silent(tangle, p) || tangle->size[tangle->segment[p]] > 1))
            return false;
    return tangle->members[on] >= 2;
}

bool br_tangle_holds(const struct br_tangle *tangle, uint32_t segment, uint32_t on)
{
    uint32_t count = *br_tangle_cell(tangle, segment, on);
    return count >= 2 && 2 * count > tangle->members[on];
}

/* ---- the mishaps and their prices ------------------------------------------------------------ */

static void diagnose_cabling_propose(struct br_mishap *best, enum br_mishap_kind kind, uint32_t a,
                                     uint32_t b, int64_t gain)
{
    static const double price[] = {
        [BR_MISHAP_SWAP] = 1.0, [BR_MISHAP_HOSTS] = 1.6,  [BR_MISHAP_CROSS] = 1.3,
        [BR_MISHAP_MOVE] = 1.2, [BR_MISHAP_SILENT] = 1.0, [BR_MISHAP_SWITCH] = 0.9,
        [BR_MISHAP_JOIN] = 1.0, [BR_MISHAP_SPLIT] = 1.0,
    };
    double worth = (double)gain / price[kind];
    if (gain > 0 && worth > best->worth + 1e-9)
        *best = (struct br_mishap){kind, a, b, worth};
}

static void propose_at_port(struct br_tangle *tangle, uint32_t p, struct br_mishap *best)
{
    uint32_t was = tangle->segment[p], to = diagnose_cabling_home(tangle, p);
    if (to == BR_TANGLE_NONE || to == was)
        return;
    int64_t gain = diagnose_cabling_move(tangle, p, to);
    diagnose_cabling_move(tangle, p, was);
    diagnose_cabling_propose(
        best, diagnose_cabling_silent(tangle, p) ? BR_MISHAP_SILENT : BR_MISHAP_MOVE, p, to, gain);
}

static void propose_swaps(struct br_tangle *tangle, const uint32_t *misplaced, uint32_t count,
                          struct br_mishap *best)
{
    const struct br_survey *survey = tangle->survey;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            uint32_t a = misplaced[i], b = misplaced[j], g = br_survey_host_of(survey, a),
                     h = br_survey_host_of(survey, b);
            if (diagnose_cabling_silent(tangle, a) || diagnose_cabling_silent(tangle, b))
                continue;
            int64_t gain = diagnose_cabling_exchange(tangle, a, b);
            diagnose_cabling_exchange(tangle, a, b);
            diagnose_cabling_propose(best, g == h ? BR_MISHAP_SWAP : BR_MISHAP_CROSS, a, b, gain);
            if (g == h || survey->cube.k < 2)
                continue;
            gain = exchange_hosts(tangle, g, h);
            exchange_hosts(tangle, g, h);
            diagnose_cabling_propose(best, BR_MISHAP_HOSTS, g, h, gain);
        }
    }
}

/* Moves the ports of all but the first switch that the segment holds into segments of their own. */
static int64_t diagnose_cabling_separate(struct br_tangle *tangle, uint32_t segment)
{
    int64_t gain = 0;
    bool first = true;
    for (uint32_t on = 0; on < tangle->switches; on++) {
        if (!br_tangle_holds(tangle, segment, on))
            continue;
        if (!first && tangle->segments < tangle->room) {
            uint32_t fresh = tangle->segments++;
            for (uint32_t p = 0; p < tangle->ports; p++)
                if (tangle->segment[p] == segment && br_tangle_switch_of(tangle, p) == on)
                    gain += diagnose_cabling_move(tangle, p, fresh);
        }
        first = false;
    }
    return gain;
}

static uint32_t diagnose_cabling_held(const struct br_tangle *tangle, uint32_t segment)
{
    uint32_t count = 0;
    for (uint32_t on = 0; on < tangle->switches; on++)
        count += br_tangle_holds(tangle, segment, on);
    return count;
}

/* Joined switches are so plain that they need no price: several whole switches in one segment. */
static void propose_joins(struct br_tangle *tangle, struct br_mishap *best)
{
    for (uint32_t s = 0; s < tangle->segments; s++)
        if (tangle->size[s] > tangle->survey->cube.n && diagnose_cabling_held(tangle, s) > 1)
            diagnose_cabling_propose(best, BR_MISHAP_JOIN, s, 0,
                                     (int64_t)tangle->size[s] * tangle->size[s]);
}

static void propose_switches(struct br_tangle *tangle, struct br_mishap *best)
{
    for (uint32_t on = 0; on < tangle->switches; on++) {
        uint32_t parts = 0, pure = 0;
        int64_t members = tangle->members[on];
        if (switch_is_silent(tangle, on))
            diagnose_cabling_propose(best, BR_MISHAP_SWITCH, on, 0, members * (members - 1) / 2);
        for (uint32_t s = 0; s < tangle->segments; s++) {
            uint32_t count = *br_tangle_cell(tangle, s, on);
            parts += count > 0;
            pure += count > 1 && count == tangle->size[s];
        }
        if (pure > 1 && pure == parts)
            diagnose_cabling_propose(best, BR_MISHAP_SPLIT, on, 0, members * (members - 1) / 2);
    }
}

static struct br_mishap find_mishap(struct br_tangle *tangle)
{
    struct br_mishap best = {.worth = 0};
    uint32_t misplaced[CROSSABLE], count = 0;
    for (uint32_t p = 0; p < tangle->ports; p++) {
        if (tangle->segment[p] == BR_TANGLE_NONE || !diagnose_cabling_disagreement(tangle, p))
            continue;
        if (count < CROSSABLE)
            misplaced[count++] = p;
        propose_at_port(tangle, p, &best);
    }
    if (!count)
        return best;
    propose_joins(tangle, &best);
    propose_switches(tangle, &best);
    propose_swaps(tangle, misplaced, count, &best);
    return best;
}

static void diagnose_cabling_apply(struct br_tangle *tangle, const struct br_mishap *mishap)
{
    uint32_t first = BR_TANGLE_NONE;
    switch (mishap->kind) {
    case BR_MISHAP_SWAP:
    case BR_MISHAP_CROSS:
        diagnose_cabling_exchange(tangle, mishap->a, mishap->b);
        break;
    case BR_MISHAP_HOSTS:
        exchange_hosts(tangle, mishap->a, mishap->b);
        break;
    case BR_MISHAP_MOVE:
    case BR_MISHAP_SILENT:
        diagnose_cabling_move(tangle, mishap->a, mishap->b);
        break;
    case BR_MISHAP_JOIN:
        diagnose_cabling_separate(tangle, mishap->a);
        break;
    case BR_MISHAP_SWITCH:
    case BR_MISHAP_SPLIT:
        for (uint32_t p = 0; p < tangle->ports; p++) {
            if (tangle->segment[p] == BR_TANGLE_NONE || br_tangle_switch_of(tangle, p) != mishap->a)
                continue;
            if (first == BR_TANGLE_NONE)
                first = tangle->segment[p];
            else if (tangle->segment[p] != first)
                diagnose_cabling_move(tangle, p, first);
        }
        break;
    }
}

static int diagnose_cabling_allocate(struct br_tangle *tangle)
{
    size_t nodes = (size_t)tangle->survey->n_hosts * BR_SURVEY_NICS;
    tangle->segment = calloc(tangle->ports, sizeof *tangle->segment);
    tangle->size = calloc(tangle->room, sizeof *tangle->size);
    tangle->members = calloc(tangle->switches, sizeof *tangle->members);
    tangle->count = calloc((size_t)tangle->room * tangle->switches, sizeof *tangle->count);
    tangle->node_segment = calloc(nodes, sizeof *tangle->node_segment);
    tangle->hears = calloc(tangle->ports, 1);
    tangle->heard = calloc(tangle->ports, 1);
    tangle->explained = calloc(tangle->ports, 1);
    if (tangle->segment && tangle->size && tangle->members && tangle->count &&
        tangle->node_segment && tangle->hears && tangle->heard && tangle->explained)
        return 0;
    return br_error(ENOMEM, "no memory to compare the cables of %u ports with the plan",
                    tangle->ports);
}

static void diagnose_cabling_release(struct br_tangle *tangle)
{
    free(tangle->segment);
    free(tangle->size);
    free(tangle->members);
    free(tangle->count);
    free(tangle->node_segment);
    free(tangle->hears);
    free(tangle->heard);
    free(tangle->explained);
}

int br_diagnose_cabling(const struct br_survey *survey, struct br_findings *findings)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t switches = cube->k * br_bcube_power(cube, cube->k - 1),
             ports = br_survey_ports(survey);
    struct br_tangle tangle = {.survey = survey,
                               .findings = findings,
                               .ports = ports,
                               .switches = switches,
                               .room = ports + switches};
    if (!survey->probed)
        return 0;
    int rc = diagnose_cabling_allocate(&tangle);
    if (!rc) {
        find_segments(&tangle);
        number_segments(&tangle);
        for (int i = 0; i < MISHAPS; i++) {
            struct br_mishap mishap = find_mishap(&tangle);
            if (!(mishap.worth > 0))
                break;
            br_mishap_report(&tangle, &mishap);
            diagnose_cabling_apply(&tangle, &mishap);
        }
        br_tangle_report_one_way(&tangle);
        br_tangle_report_strangers(&tangle);
    }
    diagnose_cabling_release(&tangle);
    return rc;
}
