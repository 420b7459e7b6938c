/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static bool diagnose_unanswered(const struct br_survey_host *host)
{
    return !host->reached && !host->absent;
}

/* Hosts that fail with the same message are one finding. */
static void report_unanswered(const struct br_survey *survey, struct br_findings *findings,
                              int first)
{
    const struct br_survey_host *host = &survey->hosts[first];
    char names[160] = "", on[384];
    int count = 0;
    for (int h = 0; h < first; h++)
        if (diagnose_unanswered(&survey->hosts[h]) &&
            !strcmp(survey->hosts[h].message, host->message))
            return;
    struct br_finding *finding = br_finding_add(findings, "BC001", BR_ERROR, "host");
    for (int h = first; h < survey->n_hosts; h++) {
        size_t used = strlen(names);
        if (!diagnose_unanswered(&survey->hosts[h]) ||
            strcmp(survey->hosts[h].message, host->message) != 0)
            continue;
        if (++count <= 4)
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "",
                     survey->hosts[h].name);
        br_finding_location(finding, BR_LOCATION_HOST, (uint32_t)h);
    }
    if (count > 4)
        snprintf(finding->title, sizeof finding->title, "hosts %s and %d more cannot be asked",
                 names, count - 4);
    else
        snprintf(finding->title, sizeof finding->title, "host%s %s cannot be asked",
                 count > 1 ? "s" : "", names);
    finding->breaks = true;
    br_finding_evidence(finding, "%s", host->message);
    br_survey_command(survey, (uint32_t)first, on, "braid version");
    if (strstr(host->message, "not found"))
        br_finding_remedy(
            finding,
            "install braid there, or say where it is with --agent PATH; then this must work: %s",
            on);
    else
        br_finding_remedy(finding, "this must work: %s", on);
}

/* A NIC that is up could not take part in the probes. */
static bool is_deaf(const struct br_survey *survey, uint32_t host)
{
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        uint32_t port = br_survey_port_of(survey, host, level);
        if (br_survey_alive(survey, port) && !br_survey_nic(survey, port)->speaks)
            return true;
    }
    return false;
}

/* What the agents could not do is a note: the testbed is not to blame. */
static void report_limits(const struct br_survey *survey, struct br_findings *findings)
{
    int unprivileged = 0, deaf = 0;
    const struct br_survey_host *user = NULL, *listener = NULL;
    for (int h = survey->n_hosts - 1; h >= 0; h--) {
        const struct br_survey_host *host = &survey->hosts[h];
        if (host->reached && !host->root) {
            unprivileged++;
            user = host;
        }
        if (host->reached && is_deaf(survey, (uint32_t)h)) {
            deaf++;
            listener = host;
        }
    }
    if (user) {
        struct br_finding *finding =
            br_finding_add(findings, "BC002", BR_NOTE, "the agent is not root on %d of %d hosts",
                           unprivileged, survey->n_hosts);
        br_finding_evidence(finding, "no ARP questions and no raw frames there, e.g. on %s",
                            user->name);
        br_finding_remedy(finding, "reach the hosts as root: `reach: root@%s` in the inventory",
                          user->name);
    }
    if (listener) {
        struct br_finding *finding = br_finding_add(
            findings, "BC003", BR_NOTE, "the cables of %d of %d hosts were not looked at", deaf,
            survey->n_hosts);
        br_finding_evidence(finding, "%s: %s", listener->name,
                            listener->message[0] ? listener->message
                                                 : "no IPv6 link-local address on a NIC");
        br_finding_remedy(
            finding, "reach the hosts as root, or allow IPv6 link-local addresses on the NICs");
    }
}

static void diagnose_hosts(const struct br_survey *survey, struct br_findings *findings)
{
    for (int h = 0; h < survey->n_hosts; h++)
        if (diagnose_unanswered(&survey->hosts[h]))
            report_unanswered(survey, findings, h);
    report_limits(survey, findings);
}

int br_diagnose(const struct br_survey *survey, struct br_findings *findings)
{
    diagnose_hosts(survey, findings);
    br_diagnose_nics(survey, findings);
    int rc = br_diagnose_cabling(survey, findings);
    br_diagnose_addresses(survey, findings);
    br_diagnose_settings(survey, findings);
    br_diagnose_rdma(survey, findings);
    if (!rc)
        rc = br_diagnose_links(survey, findings);
    br_findings_sort(findings);
    if (!rc && findings->no_memory)
        rc = br_error(ENOMEM, "no memory for all findings");
    return rc;
}
