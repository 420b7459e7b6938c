/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stage 3: which cable is in the wrong hole.
 *
 * 1. NICs that hear each other form a segment: what a switch really joins. Planned, each switch is one segment. The
 *    disagreement is the number of pairs of ports that are together in one of the two only.
 * 2. The explanation is the shortest list of mishaps that brings it to zero: two cables of a host swapped, two cables of
 *    two hosts crossed, two hosts exchanged, a cable on a wrong switch, a port through which nothing passes, switches
 *    joined, a switch split. Greedily the mishap is taken that explains most for its price; prices prefer few people's
 *    mistakes to many. Exhaustive search was rejected: mishaps hardly interact, and a testbed has hundreds of ports.
 * 3. Segments have no names; the switch of which most ports are in a segment gives it one. With n = 2 that may be a tie: then a
 *    swap at one host and crossed cables of its two neighbours look alike, and the swap is named.
 * 4. Ports without a carrier and hosts that were not reached take no part: they are explained already.
 */
#include "tools/bcube/diagnose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NONE      UINT32_MAX
#define CROSSABLE 256 /* misplaced ports among which crossed pairs are looked for */
#define MISHAPS   256

enum mishap_kind { SWAP, HOSTS, CROSS, MOVE, SILENT, SWITCH, JOIN, SPLIT };

struct mishap {
    enum mishap_kind kind;
    uint32_t a, b; /* ports; JOIN: segment a; SPLIT and SWITCH: switch a; HOSTS: hosts */
    double worth;
};

struct cabling {
    const struct br_survey *survey;
    struct br_findings *findings;
    uint32_t ports, switches, segments, room; /* room: segments that there may be */
    uint32_t *segment;                        /* of a port; NONE: takes no part */
    uint32_t *size;                           /* of a segment, in taking-part ports */
    uint32_t *members;                        /* of a switch, taking part */
    uint32_t *count;                          /* [segment * switches + switch] */
    uint32_t *node_segment;                   /* of a node, as probed */
    bool *hears, *heard;                      /* of a port: any other NIC */
    bool *explained;                          /* of a port */
};

static uint32_t *cell(const struct cabling *cabling, uint32_t segment, uint32_t on)
{
    return &cabling->count[(size_t)segment * cabling->switches + on];
}

static uint32_t switch_of(const struct cabling *cabling, uint32_t port)
{
    return br_survey_switch_of(cabling->survey, port);
}

/* ---- segments from sounds --------------------------------------------------------------------------------- */

static uint32_t root(uint32_t *parent, uint32_t node)
{
    while (parent[node] != node)
        node = parent[node] = parent[parent[node]];
    return node;
}

static void find_segments(struct cabling *cabling)
{
    const struct br_survey *survey = cabling->survey;
    uint32_t nodes = (uint32_t)survey->n_hosts * BR_SURVEY_NICS, *parent = cabling->node_segment;
    for (uint32_t i = 0; i < nodes; i++)
        parent[i] = i;
    for (int i = 0; i < survey->n_sounds; i++) {
        const struct br_sound *sound = &survey->sounds[i];
        int from = br_survey_port_of_node(survey, sound->from),
            to = br_survey_port_of_node(survey, sound->to);
        parent[root(parent, sound->from)] = root(parent, sound->to);
        if (from >= 0)
            cabling->heard[from] = true;
        if (to >= 0)
            cabling->hears[to] = true;
    }
    for (uint32_t i = 0; i < nodes; i++)
        parent[i] = root(parent, i);
}

static uint32_t node_of(const struct br_survey *survey, uint32_t port)
{
    return br_survey_host_of(survey, port) * BR_SURVEY_NICS + (uint32_t)survey->ports[port].found;
}

static void number_segments(struct cabling *cabling)
{
    const struct br_survey *survey = cabling->survey;
    for (uint32_t p = 0; p < cabling->ports; p++) {
        cabling->segment[p] = NONE;
        if (!br_survey_alive(survey, p))
            continue;
        for (uint32_t q = 0; q < p && cabling->segment[p] == NONE; q++)
            if (cabling->segment[q] != NONE &&
                cabling->node_segment[node_of(survey, p)] == cabling->node_segment[node_of(survey, q)])
                cabling->segment[p] = cabling->segment[q];
        if (cabling->segment[p] == NONE)
            cabling->segment[p] = cabling->segments++;
        cabling->size[cabling->segment[p]]++;
        cabling->members[switch_of(cabling, p)]++;
        ++*cell(cabling, cabling->segment[p], switch_of(cabling, p));
    }
}

/* ---- moving ports in thought ------------------------------------------------------------------------------ */

/* Pairs with this port that are together in plan or fact only. */
static int64_t disagreement(const struct cabling *cabling, uint32_t port)
{
    uint32_t segment = cabling->segment[port], on = switch_of(cabling, port);
    int64_t both = *cell(cabling, segment, on);
    return (int64_t)cabling->size[segment] - both + cabling->members[on] - both;
}

/* By how much the disagreement falls. */
static int64_t move(struct cabling *cabling, uint32_t port, uint32_t segment)
{
    uint32_t on = switch_of(cabling, port);
    int64_t before = disagreement(cabling, port);
    cabling->size[cabling->segment[port]]--;
    --*cell(cabling, cabling->segment[port], on);
    cabling->segment[port] = segment;
    cabling->size[segment]++;
    ++*cell(cabling, segment, on);
    return before - disagreement(cabling, port);
}

static int64_t exchange(struct cabling *cabling, uint32_t a, uint32_t b)
{
    uint32_t of_a = cabling->segment[a], of_b = cabling->segment[b];
    if (of_a == NONE || of_b == NONE || of_a == of_b)
        return 0;
    int64_t gain = move(cabling, a, of_b);
    return gain + move(cabling, b, of_a);
}

static int64_t exchange_hosts(struct cabling *cabling, uint32_t g, uint32_t h)
{
    int64_t gain = 0;
    for (uint32_t level = 0; level < cabling->survey->cube.k; level++)
        gain += exchange(cabling, br_survey_port_of(cabling->survey, g, level),
                         br_survey_port_of(cabling->survey, h, level));
    return gain;
}

/* The segment that most other ports of a port's switch are in, of equals the one with the fewest strangers. */
static uint32_t home(const struct cabling *cabling, uint32_t port)
{
    uint32_t best = NONE, on = switch_of(cabling, port), most = 0, strangers = 0;
    for (uint32_t s = 0; s < cabling->segments; s++) {
        uint32_t own = *cell(cabling, s, on) - (s == cabling->segment[port]);
        if (own > most || (own == most && own && cabling->size[s] - own < strangers)) {
            best = s;
            most = own;
            strangers = cabling->size[s] - own;
        }
    }
    return best;
}

static bool silent(const struct cabling *cabling, uint32_t port)
{
    return !cabling->hears[port] && !cabling->heard[port];
}

/* All ports of a switch that take part are alone: there are at least two, and they hear nobody. */
static bool switch_is_silent(const struct cabling *cabling, uint32_t on)
{
    for (uint32_t p = 0; p < cabling->ports; p++)
        if (cabling->segment[p] != NONE && switch_of(cabling, p) == on &&
            (!silent(cabling, p) || cabling->size[cabling->segment[p]] > 1))
            return false;
    return cabling->members[on] >= 2;
}

/* Most ports of the switch, and at least two, are in the segment. */
static bool holds(const struct cabling *cabling, uint32_t segment, uint32_t on)
{
    uint32_t count = *cell(cabling, segment, on);
    return count >= 2 && 2 * count > cabling->members[on];
}

/* ---- the mishaps and their prices ------------------------------------------------------------------------- */

static void propose(struct mishap *best, enum mishap_kind kind, uint32_t a, uint32_t b, int64_t gain)
{
    static const double price[] = {
        [SWAP] = 1.0,   [HOSTS] = 1.6,  [CROSS] = 1.3, [MOVE] = 1.2,
        [SILENT] = 1.0, [SWITCH] = 0.9, [JOIN] = 1.0,  [SPLIT] = 1.0,
    };
    double worth = (double)gain / price[kind];
    if (gain > 0 && worth > best->worth + 1e-9)
        *best = (struct mishap){kind, a, b, worth};
}

static void propose_at_port(struct cabling *cabling, uint32_t p, struct mishap *best)
{
    uint32_t was = cabling->segment[p], to = home(cabling, p);
    if (to == NONE || to == was)
        return;
    int64_t gain = move(cabling, p, to);
    move(cabling, p, was);
    propose(best, silent(cabling, p) ? SILENT : MOVE, p, to, gain);
}

static void propose_swaps(struct cabling *cabling, const uint32_t *misplaced, uint32_t count,
                          struct mishap *best)
{
    const struct br_survey *survey = cabling->survey;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            uint32_t a = misplaced[i], b = misplaced[j], g = br_survey_host_of(survey, a),
                     h = br_survey_host_of(survey, b);
            if (silent(cabling, a) || silent(cabling, b))
                continue;
            int64_t gain = exchange(cabling, a, b);
            exchange(cabling, a, b);
            propose(best, g == h ? SWAP : CROSS, a, b, gain);
            if (g == h || survey->cube.k < 2)
                continue;
            gain = exchange_hosts(cabling, g, h);
            exchange_hosts(cabling, g, h);
            propose(best, HOSTS, g, h, gain);
        }
    }
}

/* Moves the ports of all but the first switch that the segment holds into segments of their own. */
static int64_t separate(struct cabling *cabling, uint32_t segment)
{
    int64_t gain = 0;
    bool first = true;
    for (uint32_t on = 0; on < cabling->switches; on++) {
        if (!holds(cabling, segment, on))
            continue;
        if (!first && cabling->segments < cabling->room) {
            uint32_t fresh = cabling->segments++;
            for (uint32_t p = 0; p < cabling->ports; p++)
                if (cabling->segment[p] == segment && switch_of(cabling, p) == on)
                    gain += move(cabling, p, fresh);
        }
        first = false;
    }
    return gain;
}

static uint32_t held(const struct cabling *cabling, uint32_t segment)
{
    uint32_t count = 0;
    for (uint32_t on = 0; on < cabling->switches; on++)
        count += holds(cabling, segment, on);
    return count;
}

/* Joined switches are so plain that they need no price: several whole switches in one segment. */
static void propose_joins(struct cabling *cabling, struct mishap *best)
{
    for (uint32_t s = 0; s < cabling->segments; s++)
        if (cabling->size[s] > cabling->survey->cube.n && held(cabling, s) > 1)
            propose(best, JOIN, s, 0, (int64_t)cabling->size[s] * cabling->size[s]);
}

static void propose_switches(struct cabling *cabling, struct mishap *best)
{
    for (uint32_t on = 0; on < cabling->switches; on++) {
        uint32_t parts = 0, pure = 0;
        int64_t members = cabling->members[on];
        if (switch_is_silent(cabling, on))
            propose(best, SWITCH, on, 0, members * (members - 1) / 2);
        for (uint32_t s = 0; s < cabling->segments; s++) {
            uint32_t count = *cell(cabling, s, on);
            parts += count > 0;
            pure += count > 1 && count == cabling->size[s];
        }
        if (pure > 1 && pure == parts)
            propose(best, SPLIT, on, 0, members * (members - 1) / 2);
    }
}

static struct mishap find_mishap(struct cabling *cabling)
{
    struct mishap best = {.worth = 0};
    uint32_t misplaced[CROSSABLE], count = 0;
    for (uint32_t p = 0; p < cabling->ports; p++) {
        if (cabling->segment[p] == NONE || !disagreement(cabling, p))
            continue;
        if (count < CROSSABLE)
            misplaced[count++] = p;
        propose_at_port(cabling, p, &best);
    }
    if (!count)
        return best;
    propose_joins(cabling, &best);
    propose_switches(cabling, &best);
    propose_swaps(cabling, misplaced, count, &best);
    return best;
}

/* ---- their words ------------------------------------------------------------------------------------------ */

static void blame(struct cabling *cabling, struct br_finding *finding, uint32_t port)
{
    br_finding_place(finding, BR_PLACE_PORT, port);
    finding->breaks = true;
    cabling->explained[port] = true;
}

/* "eth1 of h03 hears eth0 of h04 and h05", up to four. */
static void hears_words(const struct cabling *cabling, struct br_finding *finding, uint32_t port)
{
    const struct br_survey *survey = cabling->survey;
    char words[160], list[200] = "";
    int named = 0, more = 0;
    for (int i = 0; i < survey->n_sounds; i++) {
        const struct br_sound *sound = &survey->sounds[i];
        const struct br_survey_host *host = &survey->hosts[sound->from / BR_SURVEY_NICS];
        if (sound->to != node_of(survey, port))
            continue;
        if (named++ < 4)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s of %s", named > 1 ? ", " : "",
                     host->nics[sound->from % BR_SURVEY_NICS].name, host->name);
        else
            more++;
    }
    br_survey_nic_words(survey, port, words);
    if (!named)
        br_finding_evidence(finding, "%s hears nobody", words);
    else if (more)
        br_finding_evidence(finding, "%s hears %s and %d more", words, list, more);
    else
        br_finding_evidence(finding, "%s hears %s", words, list);
    if (survey->ports[port].lldp[0])
        br_finding_evidence(finding, "LLDP on %s: %s", words, survey->ports[port].lldp);
}

/* The switch whose ports are most of a segment; NONE: only strangers. */
static uint32_t name_of_segment(const struct cabling *cabling, uint32_t segment, uint32_t but)
{
    uint32_t best = NONE, most = 0;
    for (uint32_t on = 0; on < cabling->switches; on++) {
        uint32_t count = *cell(cabling, segment, on);
        if (on != but && count > most) {
            best = on;
            most = count;
        }
    }
    return best;
}

static void report_swap(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    const struct br_nic *a = br_survey_nic(survey, mishap->a), *b = br_survey_nic(survey, mishap->b);
    char place_a[160], place_b[160];
    const char *host = survey->hosts[br_survey_host_of(survey, mishap->a)].name;
    struct br_finding *finding =
        br_finding_add(cabling->findings, "BC020", BR_ERROR, "the cables of %s and %s of host %s are swapped",
                       a->name, b->name, host);
    hears_words(cabling, finding, mishap->a);
    hears_words(cabling, finding, mishap->b);
    br_finding_mend(finding, "at %s exchange the two plugs: %s goes to %s, %s to %s", host, a->name,
                    br_survey_switch_words(survey, mishap->a, place_a), b->name,
                    br_survey_switch_words(survey, mishap->b, place_b));
    blame(cabling, finding, mishap->a);
    blame(cabling, finding, mishap->b);
}

static void report_cross(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    char a[160], b[160], place_a[160], place_b[160];
    br_survey_nic_words(survey, mishap->a, a);
    br_survey_nic_words(survey, mishap->b, b);
    struct br_finding *finding =
        br_finding_add(cabling->findings, "BC021", BR_ERROR, "the cables of %s and of %s are crossed", a, b);
    hears_words(cabling, finding, mishap->a);
    hears_words(cabling, finding, mishap->b);
    br_finding_mend(finding, "exchange the two plugs at the switches: %s goes to %s, %s to %s", a,
                    br_survey_switch_words(survey, mishap->a, place_a), b,
                    br_survey_switch_words(survey, mishap->b, place_b));
    blame(cabling, finding, mishap->a);
    blame(cabling, finding, mishap->b);
}

static void report_hosts(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    const char *a = survey->hosts[mishap->a].name, *b = survey->hosts[mishap->b].name;
    struct br_finding *finding =
        br_finding_add(cabling->findings, "BC023", BR_ERROR,
                       "hosts %s and %s are exchanged: each has all cables of the other", a, b);
    for (uint32_t level = 0; level < survey->cube.k; level++)
        hears_words(cabling, finding, br_survey_port_of(survey, mishap->a, level));
    br_finding_mend(finding,
                    "exchange `reach` and `management` of %s and %s in the inventory, or all their cables", a,
                    b);
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        blame(cabling, finding, br_survey_port_of(survey, mishap->a, level));
        blame(cabling, finding, br_survey_port_of(survey, mishap->b, level));
    }
}

/* A NIC of the port's segment that is not planned; NULL: none. */
static const struct br_nic *stranger(const struct cabling *cabling, uint32_t port, uint32_t *host)
{
    const struct br_survey *survey = cabling->survey;
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
        for (int i = 0; i < survey->hosts[h].n_nics; i++) {
            uint32_t node = h * BR_SURVEY_NICS + (uint32_t)i;
            if (br_survey_port_of_node(survey, node) >= 0 ||
                cabling->node_segment[node] != cabling->node_segment[node_of(survey, port)])
                continue;
            *host = h;
            return &survey->hosts[h].nics[i];
        }
    return NULL;
}

static void report_move(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    char words[160], place[160], where[200];
    uint32_t real = name_of_segment(cabling, cabling->segment[mishap->a], switch_of(cabling, mishap->a)),
             host;
    const struct br_nic *foreign = stranger(cabling, mishap->a, &host);
    if (real != NONE)
        snprintf(where, sizeof where, "switch %s", survey->switches[real]);
    else if (foreign)
        snprintf(where, sizeof where, "the network of %s of %s, which is not in the plan", foreign->name,
                 survey->hosts[host].name);
    else
        snprintf(where, sizeof where, "a part of the switch that is cut off");
    br_survey_nic_words(survey, mishap->a, words);
    br_survey_switch_words(survey, mishap->a, place);
    struct br_finding *finding =
        br_finding_add(cabling->findings, "BC022", BR_ERROR, "the cable of %s is on %s instead of %s", words,
                       where, survey->switches[switch_of(cabling, mishap->a)]);
    hears_words(cabling, finding, mishap->a);
    br_finding_mend(finding, "plug the cable of %s into %s; if it is there, the port is in a wrong VLAN",
                    words, place);
    blame(cabling, finding, mishap->a);
}

static void report_silent(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    char words[160], place[160];
    br_survey_nic_words(survey, mishap->a, words);
    br_survey_switch_words(survey, mishap->a, place);
    struct br_finding *finding = br_finding_add(cabling->findings, "BC026", BR_ERROR,
                                                "nothing passes between %s and %s", words, place);
    br_finding_evidence(finding, "the link is up, but %s hears nobody and nobody hears it", words);
    br_finding_mend(finding,
                    "see whether %s is enabled and in the right VLAN; try another port, then another cable",
                    place);
    blame(cabling, finding, mishap->a);
}

static void report_switch(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    bool down = mishap->kind == SWITCH;
    struct br_finding *finding =
        down ? br_finding_add(cabling->findings, "BC028", BR_ERROR, "switch %s passes nothing",
                              survey->switches[mishap->a])
             : br_finding_add(cabling->findings, "BC029", BR_ERROR,
                              "switch %s is split in parts that do not hear each other",
                              survey->switches[mishap->a]);
    for (uint32_t p = 0; p < cabling->ports; p++)
        if (cabling->segment[p] != NONE && switch_of(cabling, p) == mishap->a) {
            hears_words(cabling, finding, p);
            cabling->explained[p] = true;
        }
    br_finding_mend(
        finding,
        down ? "see whether the ports of switch %s forward (spanning tree, VLANs, port isolation)"
             : "join the parts of switch %s again: stacking cable, trunk, or one VLAN on all ports",
        survey->switches[mishap->a]);
    br_finding_place(finding, BR_PLACE_SWITCH, mishap->a);
    finding->breaks = true;
}

static void report_join(struct cabling *cabling, const struct mishap *mishap)
{
    const struct br_survey *survey = cabling->survey;
    uint32_t per_level = cabling->switches / survey->cube.k, level = NONE;
    char names[160] = "";
    bool levels = false;
    struct br_finding *finding = br_finding_add(cabling->findings, "BC024", BR_ERROR, "switches are joined");
    for (uint32_t on = 0; on < cabling->switches; on++) {
        if (!holds(cabling, mishap->a, on))
            continue;
        levels |= level != NONE && level != on / per_level;
        level = on / per_level;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", names[0] ? " and " : "",
                 survey->switches[on]);
        br_finding_place(finding, BR_PLACE_SWITCH, on);
        for (uint32_t p = 0; p < cabling->ports; p++)
            if (cabling->segment[p] == mishap->a && switch_of(cabling, p) == on &&
                finding->n_evidence < 2 * finding->n_places)
                hears_words(cabling, finding, p);
    }
    if (levels)
        finding->code = "BC025";
    snprintf(finding->title, sizeof finding->title, "switches %s are joined%s", names,
             levels ? ": levels of the cube leak into each other" : "");
    br_finding_mend(finding, "pull the cable between %s, or put them into VLANs of their own", names);
}

static void apply(struct cabling *cabling, const struct mishap *mishap)
{
    uint32_t first = NONE;
    switch (mishap->kind) {
    case SWAP:
    case CROSS:
        exchange(cabling, mishap->a, mishap->b);
        break;
    case HOSTS:
        exchange_hosts(cabling, mishap->a, mishap->b);
        break;
    case MOVE:
    case SILENT:
        move(cabling, mishap->a, mishap->b);
        break;
    case JOIN:
        separate(cabling, mishap->a);
        break;
    case SWITCH:
    case SPLIT:
        for (uint32_t p = 0; p < cabling->ports; p++) {
            if (cabling->segment[p] == NONE || switch_of(cabling, p) != mishap->a)
                continue;
            if (first == NONE)
                first = cabling->segment[p];
            else if (cabling->segment[p] != first)
                move(cabling, p, first);
        }
        break;
    }
}

static void report(struct cabling *cabling, const struct mishap *mishap)
{
    static void (*const reports[])(struct cabling *, const struct mishap *) = {
        [SWAP] = report_swap,     [HOSTS] = report_hosts,   [CROSS] = report_cross, [MOVE] = report_move,
        [SILENT] = report_silent, [SWITCH] = report_switch, [JOIN] = report_join,   [SPLIT] = report_switch,
    };
    reports[mishap->kind](cabling, mishap);
}

/* ---- what segments do not show ---------------------------------------------------------------------------- */

/* Heard by others but deaf, or the other way round. */
static void report_one_way(struct cabling *cabling)
{
    const struct br_survey *survey = cabling->survey;
    char words[160], place[160];
    for (uint32_t p = 0; p < cabling->ports; p++) {
        if (cabling->segment[p] == NONE || cabling->explained[p] || cabling->hears[p] == cabling->heard[p])
            continue;
        br_survey_nic_words(survey, p, words);
        br_survey_switch_words(survey, p, place);
        struct br_finding *finding = br_finding_add(
            cabling->findings, "BC027", BR_ERROR, "only one direction works between %s and %s", words, place);
        br_finding_evidence(finding,
                            cabling->heard[p] ? "others hear %s, it hears nobody"
                                              : "%s hears others, nobody hears it",
                            words);
        br_finding_mend(finding, "replace the cable or the module between %s and %s", words, place);
        blame(cabling, finding, p);
    }
}

/* A NIC that is not planned hears planned ones, though all planned ones are where they belong. */
static void report_strangers(struct cabling *cabling)
{
    const struct br_survey *survey = cabling->survey;
    for (uint32_t p = 0; p < cabling->ports; p++) {
        uint32_t host = 0, on = switch_of(cabling, p);
        bool first = true;
        for (uint32_t q = 0; q < p; q++)
            first &= switch_of(cabling, q) != on;
        const struct br_nic *nic = first && cabling->segment[p] != NONE && !cabling->explained[p]
                                       ? stranger(cabling, p, &host)
                                       : NULL;
        if (!nic)
            continue;
        struct br_finding *finding = br_finding_add(
            cabling->findings, "BC030", BR_WARNING, "%s of %s is on switch %s, but not in the plan",
            nic->name, survey->hosts[host].name, survey->switches[on]);
        br_finding_mend(finding, "pull its cable; a management network must not be joined with a level");
        br_finding_place(finding, BR_PLACE_SWITCH, on);
    }
}

static int allocate(struct cabling *cabling)
{
    size_t nodes = (size_t)cabling->survey->n_hosts * BR_SURVEY_NICS;
    cabling->segment = calloc(cabling->ports, sizeof *cabling->segment);
    cabling->size = calloc(cabling->room, sizeof *cabling->size);
    cabling->members = calloc(cabling->switches, sizeof *cabling->members);
    cabling->count = calloc((size_t)cabling->room * cabling->switches, sizeof *cabling->count);
    cabling->node_segment = calloc(nodes, sizeof *cabling->node_segment);
    cabling->hears = calloc(cabling->ports, 1);
    cabling->heard = calloc(cabling->ports, 1);
    cabling->explained = calloc(cabling->ports, 1);
    if (cabling->segment && cabling->size && cabling->members && cabling->count && cabling->node_segment &&
        cabling->hears && cabling->heard && cabling->explained)
        return 0;
    return br_error(ENOMEM, "no memory to compare the cables of %u ports with the plan", cabling->ports);
}

static void release(struct cabling *cabling)
{
    free(cabling->segment);
    free(cabling->size);
    free(cabling->members);
    free(cabling->count);
    free(cabling->node_segment);
    free(cabling->hears);
    free(cabling->heard);
    free(cabling->explained);
}

int br_diagnose_cabling(const struct br_survey *survey, struct br_findings *findings)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t switches = cube->k * br_bcube_power(cube, cube->k - 1), ports = br_survey_ports(survey);
    struct cabling cabling = {.survey = survey,
                              .findings = findings,
                              .ports = ports,
                              .switches = switches,
                              .room = ports + switches};
    if (!survey->probed)
        return 0;
    int rc = allocate(&cabling);
    if (!rc) {
        find_segments(&cabling);
        number_segments(&cabling);
        for (int i = 0; i < MISHAPS; i++) {
            struct mishap mishap = find_mishap(&cabling);
            if (!(mishap.worth > 0))
                break;
            report(&cabling, &mishap);
            apply(&cabling, &mishap);
        }
        report_one_way(&cabling);
        report_strangers(&cabling);
    }
    release(&cabling);
    return rc;
}
