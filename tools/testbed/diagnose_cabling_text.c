/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of mishaps, and what else the probes show. */
#include "tools/testbed/diagnose_cabling.h"

#include <stdio.h>
#include <string.h>

static void cabling_text_blame(struct br_cabling_graph *graph, struct br_finding *finding,
                               uint32_t port)
{
    br_finding_location(finding, BR_LOCATION_PORT, port);
    finding->breaks = true;
    graph->explained[port] = true;
}

/* "eth1 of h03 hears eth0 of h04 and h05", up to four. */
static void cabling_text_seen(const struct br_cabling_graph *graph, struct br_finding *finding,
                              uint32_t port)
{
    const struct br_survey *survey = graph->survey;
    char text[160], list[200] = "";
    int named = 0, more = 0;
    for (int i = 0; i < survey->n_sounds; i++) {
        const struct br_sound *sound = &survey->sounds[i];
        const struct br_survey_host *host = &survey->hosts[sound->from / BR_SURVEY_NICS];
        if (sound->to != br_cabling_graph_node_of(survey, port))
            continue;
        if (named++ < 4)
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s of %s",
                     named > 1 ? ", " : "", host->nics[sound->from % BR_SURVEY_NICS].name,
                     host->name);
        else
            more++;
    }
    br_survey_nic_text(survey, port, text);
    if (!named)
        br_finding_evidence(finding, "%s hears nobody", text);
    else if (more)
        br_finding_evidence(finding, "%s hears %s and %d more", text, list, more);
    else
        br_finding_evidence(finding, "%s hears %s", text, list);
    if (survey->ports[port].lldp[0])
        br_finding_evidence(finding, "LLDP on %s: %s", text, survey->ports[port].lldp);
}

/* The switch whose ports are most of a segment; BR_CABLING_GRAPH_NONE: only unauthenticated peers.
 */
static uint32_t name_of_segment(const struct br_cabling_graph *graph, uint32_t segment,
                                uint32_t but)
{
    uint32_t best = BR_CABLING_GRAPH_NONE, most = 0;
    for (uint32_t on = 0; on < graph->switches; on++) {
        uint32_t count = *br_cabling_graph_cell(graph, segment, on);
        if (on != but && count > most) {
            best = on;
            most = count;
        }
    }
    return best;
}

static void report_swap(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    const struct br_nic *a = br_survey_nic(survey, fault->a), *b = br_survey_nic(survey, fault->b);
    char place_a[160], place_b[160];
    const char *host = survey->hosts[br_survey_host_of(survey, fault->a)].name;
    struct br_finding *finding =
        br_finding_add(graph->findings, "BC020", BR_ERROR,
                       "the cables of %s and %s of host %s are swapped", a->name, b->name, host);
    cabling_text_seen(graph, finding, fault->a);
    cabling_text_seen(graph, finding, fault->b);
    br_finding_remedy(finding, "at %s exchange the two plugs: %s goes to %s, %s to %s", host,
                      a->name, br_survey_switch_text(survey, fault->a, place_a), b->name,
                      br_survey_switch_text(survey, fault->b, place_b));
    cabling_text_blame(graph, finding, fault->a);
    cabling_text_blame(graph, finding, fault->b);
}

static void report_cross(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    char a[160], b[160], place_a[160], place_b[160];
    br_survey_nic_text(survey, fault->a, a);
    br_survey_nic_text(survey, fault->b, b);
    struct br_finding *finding = br_finding_add(graph->findings, "BC021", BR_ERROR,
                                                "the cables of %s and of %s are crossed", a, b);
    cabling_text_seen(graph, finding, fault->a);
    cabling_text_seen(graph, finding, fault->b);
    br_finding_remedy(finding, "exchange the two plugs at the switches: %s goes to %s, %s to %s", a,
                      br_survey_switch_text(survey, fault->a, place_a), b,
                      br_survey_switch_text(survey, fault->b, place_b));
    cabling_text_blame(graph, finding, fault->a);
    cabling_text_blame(graph, finding, fault->b);
}

static void report_hosts(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    const char *a = survey->hosts[fault->a].name, *b = survey->hosts[fault->b].name;
    struct br_finding *finding =
        br_finding_add(graph->findings, "BC023", BR_ERROR,
                       "hosts %s and %s are exchanged: each has all cables of the other", a, b);
    for (uint32_t level = 0; level < survey->cube.k; level++)
        cabling_text_seen(graph, finding, br_survey_port_of(survey, fault->a, level));
    br_finding_remedy(
        finding,
        "exchange `reach` and `management` of %s and %s in the inventory, or all their cables", a,
        b);
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        cabling_text_blame(graph, finding, br_survey_port_of(survey, fault->a, level));
        cabling_text_blame(graph, finding, br_survey_port_of(survey, fault->b, level));
    }
}

/* A NIC of the port's segment that is not planned; NULL: none. */
static const struct br_nic *cabling_text_unplanned(const struct br_cabling_graph *graph,
                                                   uint32_t port, uint32_t *host)
{
    const struct br_survey *survey = graph->survey;
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
        for (int i = 0; i < survey->hosts[h].n_nics; i++) {
            uint32_t node = h * BR_SURVEY_NICS + (uint32_t)i;
            if (br_survey_port_of_node(survey, node) >= 0 ||
                graph->node_segment[node] !=
                    graph->node_segment[br_cabling_graph_node_of(survey, port)])
                continue;
            *host = h;
            return &survey->hosts[h].nics[i];
        }
    return NULL;
}

static void report_move(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    char text[160], place[160], where[200];
    uint32_t real = name_of_segment(graph, graph->segment[fault->a],
                                    br_cabling_graph_switch_of(graph, fault->a)),
             host;
    const struct br_nic *foreign = cabling_text_unplanned(graph, fault->a, &host);
    if (real != BR_CABLING_GRAPH_NONE)
        snprintf(where, sizeof where, "switch %s", survey->switches[real]);
    else if (foreign)
        snprintf(where, sizeof where, "the network of %s of %s, which is not in the plan",
                 foreign->name, survey->hosts[host].name);
    else
        snprintf(where, sizeof where, "a part of the switch that is cut off");
    br_survey_nic_text(survey, fault->a, text);
    br_survey_switch_text(survey, fault->a, place);
    struct br_finding *finding =
        br_finding_add(graph->findings, "BC022", BR_ERROR, "the cable of %s is on %s instead of %s",
                       text, where, survey->switches[br_cabling_graph_switch_of(graph, fault->a)]);
    cabling_text_seen(graph, finding, fault->a);
    br_finding_remedy(finding,
                      "plug the cable of %s into %s; if it is there, the port is in a wrong VLAN",
                      text, place);
    cabling_text_blame(graph, finding, fault->a);
}

static void report_silent(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    char text[160], place[160];
    br_survey_nic_text(survey, fault->a, text);
    br_survey_switch_text(survey, fault->a, place);
    struct br_finding *finding = br_finding_add(graph->findings, "BC026", BR_ERROR,
                                                "nothing passes between %s and %s", text, place);
    br_finding_evidence(finding, "the link is up, but %s hears nobody and nobody hears it", text);
    br_finding_remedy(
        finding,
        "see whether %s is enabled and in the right VLAN; try another port, then another cable",
        place);
    cabling_text_blame(graph, finding, fault->a);
}

static void cabling_text_report_switch(struct br_cabling_graph *graph,
                                       const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    bool down = fault->kind == BR_CABLING_FAULT_SWITCH;
    struct br_finding *finding =
        down ? br_finding_add(graph->findings, "BC028", BR_ERROR, "switch %s passes nothing",
                              survey->switches[fault->a])
             : br_finding_add(graph->findings, "BC029", BR_ERROR,
                              "switch %s is split in parts that do not hear each other",
                              survey->switches[fault->a]);
    for (uint32_t p = 0; p < graph->ports; p++)
        if (graph->segment[p] != BR_CABLING_GRAPH_NONE &&
            br_cabling_graph_switch_of(graph, p) == fault->a) {
            cabling_text_seen(graph, finding, p);
            graph->explained[p] = true;
        }
    br_finding_remedy(
        finding,
        down ? "see whether the ports of switch %s forward (spanning tree, VLANs, port isolation)"
             : "join the parts of switch %s again: stacking cable, trunk, or one VLAN on all ports",
        survey->switches[fault->a]);
    br_finding_location(finding, BR_LOCATION_SWITCH, fault->a);
    finding->breaks = true;
}

static void report_join(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    const struct br_survey *survey = graph->survey;
    uint32_t per_level = graph->switches / survey->cube.k, level = BR_CABLING_GRAPH_NONE;
    char names[160] = "";
    bool levels = false;
    struct br_finding *finding =
        br_finding_add(graph->findings, "BC024", BR_ERROR, "switches are joined");
    for (uint32_t on = 0; on < graph->switches; on++) {
        if (!br_cabling_graph_holds(graph, fault->a, on))
            continue;
        levels |= level != BR_CABLING_GRAPH_NONE && level != on / per_level;
        level = on / per_level;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                 names[0] ? " and " : "", survey->switches[on]);
        br_finding_location(finding, BR_LOCATION_SWITCH, on);
        for (uint32_t p = 0; p < graph->ports; p++)
            if (graph->segment[p] == fault->a && br_cabling_graph_switch_of(graph, p) == on &&
                finding->n_evidence < 2 * finding->n_locations)
                cabling_text_seen(graph, finding, p);
    }
    if (levels)
        finding->code = "BC025";
    snprintf(finding->title, sizeof finding->title, "switches %s are joined%s", names,
             levels ? ": levels of the cube leak into each other" : "");
    br_finding_remedy(finding, "pull the cable between %s, or put them into VLANs of their own",
                      names);
}

void br_cabling_fault_report(struct br_cabling_graph *graph, const struct br_cabling_fault *fault)
{
    static void (*const reports[])(struct br_cabling_graph *, const struct br_cabling_fault *) = {
        [BR_CABLING_FAULT_SWAP] = report_swap,
        [BR_CABLING_FAULT_HOSTS] = report_hosts,
        [BR_CABLING_FAULT_CROSS] = report_cross,
        [BR_CABLING_FAULT_MOVE] = report_move,
        [BR_CABLING_FAULT_SILENT] = report_silent,
        [BR_CABLING_FAULT_SWITCH] = cabling_text_report_switch,
        [BR_CABLING_FAULT_JOIN] = report_join,
        [BR_CABLING_FAULT_SPLIT] = cabling_text_report_switch,
    };
    reports[fault->kind](graph, fault);
}

/* ---- what segments do not show --------------------------------------------------------------- */

/* An echo and its answer have passed: both directions work, whatever a busy host has heard of the
 * probes in their short time. */
static bool has_answered(const struct br_survey *survey, uint32_t port)
{
    for (uint32_t l = 0; l < br_survey_links(survey); l++)
        if (survey->links[l].got && br_survey_link_is(survey, l) &&
            (l / (survey->cube.n - 1) == port || br_survey_link_end(survey, l) == port))
            return true;
    return false;
}

void br_cabling_graph_report_one_way(struct br_cabling_graph *graph)
{
    const struct br_survey *survey = graph->survey;
    char text[160], place[160];
    for (uint32_t p = 0; p < graph->ports; p++) {
        if (graph->segment[p] == BR_CABLING_GRAPH_NONE || graph->explained[p] ||
            graph->hears[p] == graph->heard[p] || has_answered(survey, p))
            continue;
        br_survey_nic_text(survey, p, text);
        br_survey_switch_text(survey, p, place);
        struct br_finding *finding =
            br_finding_add(graph->findings, "BC027", BR_ERROR,
                           "only one direction works between %s and %s", text, place);
        br_finding_evidence(finding,
                            graph->heard[p] ? "others hear %s, it hears nobody"
                                            : "%s hears others, nobody hears it",
                            text);
        br_finding_remedy(finding, "replace the cable or the module between %s and %s", text,
                          place);
        cabling_text_blame(graph, finding, p);
    }
}

void br_cabling_graph_report_unknown(struct br_cabling_graph *graph)
{
    const struct br_survey *survey = graph->survey;
    for (uint32_t p = 0; p < graph->ports; p++) {
        uint32_t host = 0, on = br_cabling_graph_switch_of(graph, p);
        bool first = true;
        for (uint32_t q = 0; q < p; q++)
            first &= br_cabling_graph_switch_of(graph, q) != on;
        const struct br_nic *nic =
            first && graph->segment[p] != BR_CABLING_GRAPH_NONE && !graph->explained[p]
                ? cabling_text_unplanned(graph, p, &host)
                : NULL;
        if (!nic)
            continue;
        struct br_finding *finding = br_finding_add(
            graph->findings, "BC030", BR_WARNING, "%s of %s is on switch %s, but not in the plan",
            nic->name, survey->hosts[host].name, survey->switches[on]);
        br_finding_remedy(finding,
                          "pull its cable; a management network must not be joined with a level");
        br_finding_location(finding, BR_LOCATION_SWITCH, on);
    }
}
