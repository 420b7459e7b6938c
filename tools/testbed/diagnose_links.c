/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stage 6: what the measurements say.
 *
 * 1. Each trouble is first a flag on directions of links. Directions that touch a port which is
 *    broken already are counted at that finding and forgotten.
 * 2. Then the port that most flagged directions share is blamed, if most of what it has is flagged;
 *    its directions are forgotten, and so on. What is left is blamed on the cable pair. With n = 2
 *    a switch has one link, and the two ends cannot be told apart: both are named.
 * 3. "Slow" is by comparison: below 3/4 of what the inventory's rate gives, or of the median of the
 *    level where it says nothing or no link reaches it. Outliers by median and MAD are marked in
 *    tables; a finding needs a gap that a busy machine does not make.
 */
#include "tools/testbed/diagnose.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"

/* Of the wire's rate that TCP payload reaches at least, at an MTU of 1500 */
#define GOODPUT    0.94
#define SLOW       0.75
#define COLLAPSED  0.35 /* of the median, under load */
#define LATE_TIMES 3.0
#define LATE_US    300.0

/* A trouble of links, and how it is reported. */
struct trouble {
    const char *code;
    enum br_severity severity;
    const char *port_title;            /* with "%s": NIC */
    const char *from_title, *to_title; /* of one direction only; NULL: like port_title */
    const char *link_title;            /* with "%s": "A and B" */
    const char *remedy;                /* with "%s": place of the cable */
    void (*evidence)(const struct br_survey *survey, struct br_finding *finding, uint32_t link);
};

struct judge {
    const struct br_survey *survey;
    struct br_findings *findings;
    uint32_t links;
    bool *bad;       /* by link */
    bool *explained; /* by link: something that breaks, or an earlier trouble */
    double *scratch; /* room for a value of each link */
    /* medians */
    double alone[BR_BCUBE_LEVELS_MAX], together[BR_BCUBE_LEVELS_MAX], late[BR_BCUBE_LEVELS_MAX];
};

static uint32_t diagnose_links_from_port(const struct br_survey *survey, uint32_t link)
{
    return link / (survey->cube.n - 1);
}

static double value_alone(const struct br_survey_link *link)
{
    return link->alone;
}

static double value_together(const struct br_survey_link *link)
{
    return link->together;
}

static double value_late(const struct br_survey_link *link)
{
    return link->min_us;
}

static double median_of(struct judge *judge, uint32_t level,
                        double (*value)(const struct br_survey_link *))
{
    int count = 0;
    for (uint32_t l = 0; l < judge->links; l++)
        if (br_survey_level_of(judge->survey, diagnose_links_from_port(judge->survey, l)) ==
                level &&
            value(&judge->survey->links[l]) > 0)
            judge->scratch[count++] = value(&judge->survey->links[l]);
    return br_median(judge->scratch, (size_t)count);
}

/* The other direction of a link. */
static uint32_t diagnose_links_reverse(const struct br_survey *survey, uint32_t link)
{
    uint32_t from = diagnose_links_from_port(survey, link), to = br_survey_link_end(survey, link);
    uint32_t level = br_survey_level_of(survey, from);
    uint32_t back = br_bcube_digit(&survey->cube, br_survey_host_of(survey, from), level);
    uint32_t own = br_bcube_digit(&survey->cube, br_survey_host_of(survey, to), level);
    return to * (survey->cube.n - 1) + back - (back > own);
}

/* ---- whom to blame --------------------------------------------------------------------------- */

struct share {
    uint32_t out, in, bad_out, bad_in; /* directions of a port */
};

static struct share share_of(const struct judge *judge, uint32_t port)
{
    const struct br_survey *survey = judge->survey;
    struct share share = {0};
    for (uint32_t l = 0; l < judge->links; l++) {
        if (!survey->links[l].probed || judge->explained[l])
            continue;
        bool leaves = diagnose_links_from_port(survey, l) == port,
             enters = br_survey_link_end(survey, l) == port;
        share.out += leaves;
        share.in += enters;
        share.bad_out += leaves && judge->bad[l];
        share.bad_in += enters && judge->bad[l];
    }
    return share;
}

/* How much a port looks like the cause: 0, or the number of its flagged directions. */
static uint32_t diagnose_links_guilt(const struct share *share)
{
    uint32_t out = share->bad_out >= 2 && share->bad_out * 3 >= share->out * 2 ? share->bad_out : 0;
    uint32_t in = share->bad_in >= 2 && share->bad_in * 3 >= share->in * 2 ? share->bad_in : 0;
    return out + in;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wformat-nonliteral" /* titles come from the table of troubles below */

static void report_port(struct judge *judge, const struct trouble *trouble, uint32_t port,
                        const struct share *share)
{
    const struct br_survey *survey = judge->survey;
    const char *title = trouble->port_title;
    char port_text[160], place[320], text[256];
    bool out = share->bad_out * 3 >= share->out * 2, in = share->bad_in * 3 >= share->in * 2;
    if (out && !in && trouble->from_title)
        title = trouble->from_title;
    if (in && !out && trouble->to_title)
        title = trouble->to_title;
    br_survey_nic_text(survey, port, port_text);
    snprintf(text, sizeof text, title, port_text);
    struct br_finding *finding =
        br_finding_add(judge->findings, trouble->code, trouble->severity, "%s", text);
    br_finding_location(finding, BR_LOCATION_PORT, port);
    for (uint32_t l = 0; l < judge->links; l++) {
        if (!judge->bad[l] ||
            (diagnose_links_from_port(survey, l) != port && br_survey_link_end(survey, l) != port))
            continue;
        trouble->evidence(survey, finding, l);
        br_finding_location(finding, BR_LOCATION_LINK, l);
        judge->bad[l] = false;
    }
    snprintf(place, sizeof place, "%s to ", port_text);
    br_survey_switch_text(survey, port, place + strlen(place));
    br_finding_remedy(finding, trouble->remedy, place);
}

static void report_pair(struct judge *judge, const struct trouble *trouble, uint32_t link)
{
    const struct br_survey *survey = judge->survey;
    uint32_t a = diagnose_links_from_port(survey, link), b = br_survey_link_end(survey, link);
    char words_a[160], words_b[160], both[340], text[400];
    br_survey_nic_text(survey, a, words_a);
    br_survey_nic_text(survey, b, words_b);
    snprintf(both, sizeof both, "%s and %s", words_a, words_b);
    snprintf(text, sizeof text, trouble->link_title, both);
    struct br_finding *finding =
        br_finding_add(judge->findings, trouble->code, trouble->severity, "%s", text);
    br_finding_location(finding, BR_LOCATION_PORT, a);
    br_finding_location(finding, BR_LOCATION_PORT, b);
    for (uint32_t l = link; l < judge->links; l++) {
        uint32_t from = diagnose_links_from_port(survey, l), to = br_survey_link_end(survey, l);
        if (!judge->bad[l] || !((from == a && to == b) || (from == b && to == a)))
            continue;
        trouble->evidence(survey, finding, l);
        br_finding_location(finding, BR_LOCATION_LINK, l);
        judge->bad[l] = false;
    }
    br_finding_remedy(finding, trouble->remedy, both);
}

#pragma GCC diagnostic pop

static void diagnose_links_blame(struct judge *judge, const struct trouble *trouble)
{
    const struct br_survey *survey = judge->survey;
    bool *flagged = calloc(judge->links + 1, 1);
    for (uint32_t l = 0; l < judge->links; l++) {
        judge->bad[l] &= !judge->explained[l];
        if (flagged)
            flagged[l] = judge->bad[l];
    }
    for (;;) {
        uint32_t most = 0, port = 0;
        for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
            struct share share = share_of(judge, p);
            if (diagnose_links_guilt(&share) > most) {
                most = diagnose_links_guilt(&share);
                port = p;
            }
        }
        if (!most)
            break;
        struct share share = share_of(judge, port);
        report_port(judge, trouble, port, &share);
    }
    for (uint32_t l = 0; l < judge->links; l++)
        if (judge->bad[l])
            report_pair(judge, trouble, l);
    /* One trouble a link, the first is the graver; the other direction carries its
     * acknowledgements. */
    for (uint32_t l = 0; l < judge->links && flagged; l++)
        if (flagged[l])
            judge->explained[l] = judge->explained[diagnose_links_reverse(survey, l)] = true;
    free(flagged);
}

/* ---- the troubles ---------------------------------------------------------------------------- */

static void link_text(const struct br_survey *survey, uint32_t link, char out[360])
{
    char a[160], b[160];
    snprintf(out, 360, "%s -> %s",
             br_survey_nic_text(survey, diagnose_links_from_port(survey, link), a),
             br_survey_nic_text(survey, br_survey_link_end(survey, link), b));
}

static void echo_evidence(const struct br_survey *survey, struct br_finding *finding, uint32_t link)
{
    char text[360];
    link_text(survey, link, text);
    br_finding_evidence(finding, "%s: %d of %d echoes came back%s%s", text, survey->links[link].got,
                        survey->links[link].sent, survey->links[link].message[0] ? ": " : "",
                        survey->links[link].message);
}

static void mtu_evidence(const struct br_survey *survey, struct br_finding *finding, uint32_t link)
{
    char text[360];
    link_text(survey, link, text);
    br_finding_evidence(finding, "%s: packets of %d bytes pass, larger ones do not", text,
                        survey->links[link].path_mtu);
}

static void alone_evidence(const struct br_survey *survey, struct br_finding *finding,
                           uint32_t link)
{
    char text[360];
    link_text(survey, link, text);
    br_finding_evidence(finding, "%s: %.4g Mb/s alone", text, survey->links[link].alone / 1e6);
}

static void together_evidence(const struct br_survey *survey, struct br_finding *finding,
                              uint32_t link)
{
    char text[360];
    link_text(survey, link, text);
    br_finding_evidence(finding, "%s: %.4g Mb/s alone, %.4g Mb/s when all send", text,
                        survey->links[link].alone / 1e6, survey->links[link].together / 1e6);
}

static void late_evidence(const struct br_survey *survey, struct br_finding *finding, uint32_t link)
{
    char text[360];
    link_text(survey, link, text);
    br_finding_evidence(finding, "%s: %.0f us at best", text, survey->links[link].min_us);
}

static const struct trouble unreachable = {
    "BC080",
    BR_ERROR,
    "%s is not reached by its neighbours",
    "nothing that %s sends is answered",
    "nothing that is sent to %s is answered",
    "%s do not reach each other",
    "see a firewall (nft list ruleset) and routes at the ends of %s",
    echo_evidence};
static const struct trouble narrow = {
    "BC051",
    BR_ERROR,
    "full packets do not pass the switch port of %s",
    NULL,
    NULL,
    "full packets do not pass between %s",
    "raise the switch port's MTU (and what lies between) on the cable from "
    "%s to the planned one plus headers",
    mtu_evidence};
static const struct trouble lossy = {
    "BC081",
    BR_ERROR,
    "%s loses packets",
    NULL,
    NULL,
    "packets are lost between %s",
    "clean or replace cables and modules (%s); see the switch port's error counters",
    echo_evidence};
static const struct trouble slow = {
    "BC082",
    BR_WARNING,
    "the link of %s is slow",
    "%s sends slowly",
    "%s receives slowly",
    "the link between %s is slow",
    "see the negotiated speed, shapers (tc qdisc) and flow control: %s",
    alone_evidence};
static const struct trouble late = {
    "BC084",
    BR_WARNING,
    "the latency of %s is high",
    NULL,
    NULL,
    "the latency between %s is high",
    "see interrupt coalescing (ethtool -c) and power saving at the ends of %s",
    late_evidence};
static const struct trouble collapsed = {
    "BC085",
    BR_WARNING,
    "%s is slow when all links are busy",
    NULL,
    NULL,
    "the link between %s is slow when all are busy",
    "see drops at the switch, and the PCIe slot and CPU placement of %s",
    together_evidence};

/* What TCP should reach between two ports. */
static double diagnose_links_expected(const struct judge *judge, uint32_t link)
{
    const struct br_survey *survey = judge->survey;
    uint32_t a = diagnose_links_from_port(survey, link), b = br_survey_link_end(survey, link),
             level = br_survey_level_of(survey, a);
    double rate = survey->ports[a].rate;
    if (survey->ports[b].rate > 0 && (rate <= 0 || survey->ports[b].rate < rate))
        rate = survey->ports[b].rate;
    rate *= GOODPUT;
    return rate > 0 && judge->alone[level] >= SLOW * rate ? rate : judge->alone[level];
}

/* What carries enough while all links are busy can do so alone: then something else was in the way
 * for a moment, as on a busy machine that emulates all hosts. */
static void flag_slow(struct judge *judge, uint32_t l)
{
    const struct br_survey_link *link = &judge->survey->links[l];
    /* else there may be no such link */
    double least = link->alone > 0 ? SLOW * diagnose_links_expected(judge, l) : 0;
    judge->bad[l] = link->alone < least && link->together < least;
}

static void judge_links(struct judge *judge)
{
    const struct br_survey *survey = judge->survey;
    struct br_survey_link *links = survey->links;
    for (uint32_t l = 0; l < judge->links; l++)
        judge->bad[l] = links[l].probed && links[l].got == 0;
    diagnose_links_blame(judge, &unreachable);
    for (uint32_t l = 0; l < judge->links; l++)
        judge->bad[l] = links[l].got && links[l].sent - links[l].got >= 2 &&
                        (links[l].sent - links[l].got) * 100 >= links[l].sent;
    diagnose_links_blame(judge, &lossy);
    for (uint32_t l = 0; l < judge->links; l++)
        judge->bad[l] = links[l].got && links[l].path_mtu && links[l].path_mtu < survey->mtu - 8;
    diagnose_links_blame(judge, &narrow);
    for (uint32_t l = 0; l < judge->links; l++)
        flag_slow(judge, l);
    diagnose_links_blame(judge, &slow);
    for (uint32_t l = 0; l < judge->links; l++) {
        double usual = judge->late[br_survey_level_of(survey, diagnose_links_from_port(survey, l))];
        judge->bad[l] = links[l].min_us > LATE_TIMES * usual + LATE_US;
    }
    diagnose_links_blame(judge, &late);
    for (uint32_t l = 0; l < judge->links; l++) {
        double usual =
            judge->together[br_survey_level_of(survey, diagnose_links_from_port(survey, l))];
        judge->bad[l] = links[l].together > 0 && links[l].together < COLLAPSED * usual &&
                        links[l].together < COLLAPSED * links[l].alone;
    }
    diagnose_links_blame(judge, &collapsed);
}

static bool reaches_nominal(const struct judge *judge, uint32_t level)
{
    double rate = judge->survey->ports[level].rate * GOODPUT;
    return rate > 0 && judge->alone[level] >= SLOW * rate;
}

/* The whole level is below its nominal rate: no cable is to blame. If no other level does better,
 * the hosts are. */
static void check_level(const struct judge *judge, uint32_t level)
{
    const struct br_survey *survey = judge->survey;
    bool others = false;
    if (!(survey->ports[level].rate > 0) || !(judge->alone[level] > 0) ||
        reaches_nominal(judge, level))
        return;
    for (uint32_t other = 0; other < survey->cube.k; other++)
        others |= reaches_nominal(judge, other);
    struct br_finding *finding =
        br_finding_add(judge->findings, "BC086", others ? BR_WARNING : BR_NOTE,
                       "level %u reaches %.3g of %.3g Gb/s on all links", level,
                       judge->alone[level] / 1e9, survey->ports[level].rate / 1e9);
    if (others) {
        br_finding_evidence(finding, "other levels reach their rate");
        br_finding_remedy(
            finding,
            "see the speed of the ports and the shapers of its switches; or correct `rate`");
    } else {
        br_finding_evidence(finding, "one TCP stream a link was measured: at such rates a core may "
                                     "be the limit, not the link");
        br_finding_remedy(finding,
                          "if the links are meant to be faster, see CPU frequency and NUMA "
                          "placement; or correct `rate`");
    }
}

/* Error counters that rose while the links were loaded. */
static void check_counters(const struct judge *judge)
{
    const struct br_survey *survey = judge->survey;
    char text[160], place[160];
    for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
        const struct br_nic *nic = br_survey_nic(survey, p);
        struct br_finding *finding = NULL;
        for (int c = 0; nic && br_survey_counters[c]; c++) {
            if (nic->after[c] <= nic->before[c])
                continue;
            if (!finding) {
                finding = br_finding_add(judge->findings, "BC087", BR_WARNING,
                                         "error counters of %s rise under load",
                                         br_survey_nic_text(survey, p, text));
                br_finding_location(finding, BR_LOCATION_PORT, p);
                br_finding_remedy(finding, "clean or replace cable and modules from %s to %s", text,
                                  br_survey_switch_text(survey, p, place));
            }
            br_finding_evidence(finding, "%s: %llu before, %llu after", br_survey_counters[c],
                                (unsigned long long)nic->before[c],
                                (unsigned long long)nic->after[c]);
        }
    }
}

/* Directions that fail because of an earlier finding: counted there. A NIC's low MTU (BC050)
 * explains what does not pass. */
static void diagnose_links_fold(struct judge *judge)
{
    const struct br_survey *survey = judge->survey;
    for (uint32_t l = 0; l < judge->links; l++) {
        const struct br_survey_link *link = &survey->links[l];
        uint32_t ends[2] = {diagnose_links_from_port(survey, l), br_survey_link_end(survey, l)};
        if (!br_survey_link_is(survey, l))
            continue;
        int cause = br_findings_cause(judge->findings, survey, ends[0]);
        if (cause < 0)
            cause = br_findings_cause(judge->findings, survey, ends[1]);
        for (int e = 0; e < 2 && cause < 0; e++) {
            const struct br_nic *nic = br_survey_nic(survey, ends[e]);
            for (int i = 0; i < judge->findings->count && nic && nic->mtu < survey->mtu; i++)
                if (!strcmp(judge->findings->list[i].code, "BC050") &&
                    judge->findings->list[i].locations[0].number == ends[e])
                    cause = i;
        }
        if (cause < 0)
            continue;
        judge->explained[l] = true;
        judge->findings->list[cause].consequences +=
            !link->probed || !link->got || (link->path_mtu && link->path_mtu < survey->mtu - 8);
    }
}

static void judge_all(struct judge *judge)
{
    const struct br_survey *survey = judge->survey;
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        judge->alone[level] = median_of(judge, level, value_alone);
        judge->together[level] = median_of(judge, level, value_together);
        judge->late[level] = median_of(judge, level, value_late);
    }
    for (uint32_t level = 0; level < survey->cube.k; level++)
        check_level(judge, level);
    diagnose_links_fold(judge);
    judge_links(judge);
    check_counters(judge);
}

int br_diagnose_links(const struct br_survey *survey, struct br_findings *findings)
{
    struct judge judge = {.survey = survey, .findings = findings, .links = br_survey_links(survey)};
    int rc = 0;
    judge.bad = calloc(judge.links + 1, 1);
    judge.explained = calloc(judge.links + 1, 1);
    judge.scratch = calloc(judge.links + 1, sizeof *judge.scratch);
    if (judge.bad && judge.explained && judge.scratch)
        judge_all(&judge);
    else
        rc = br_error(ENOMEM, "no memory to judge %u links", judge.links);
    free(judge.bad);
    free(judge.explained);
    free(judge.scratch);
    return rc;
}
