/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 5: kernel settings and RDMA. What is wrong on many hosts alike is one finding that names
 * them. */
#include "tools/testbed/diagnose.h"

#include <stdio.h>
#include <string.h>

#define MEMLOCK      (8 << 20)  /* what io_uring's registered buffers of a job need */
#define MEMLOCK_RDMA (64 << 20) /* registered memory of an RDMA device */

/* Ports or hosts with the same trouble. */
struct group {
    const struct br_survey *survey;
    bool hosts; /* of hosts, else of ports */
    uint32_t count, first;
    uint32_t members[BR_FINDING_LOCATIONS];
    char names[200];
};

static void group_add(struct group *group, uint32_t number)
{
    char text[160];
    if (group->count < BR_FINDING_LOCATIONS)
        group->members[group->count] = number;
    if (!group->count++)
        group->first = number;
    if (group->hosts)
        snprintf(text, sizeof text, "%s", group->survey->hosts[number].name);
    else
        br_survey_nic_text(group->survey, number, text);
    if (group->count <= 4)
        snprintf(group->names + strlen(group->names), sizeof group->names - strlen(group->names),
                 "%s%s", group->count > 1 ? ", " : "", text);
}

/* NULL: nobody has the trouble. */
static struct br_finding *group_report(const struct group *group, struct br_findings *findings,
                                       const char *code, enum br_severity severity,
                                       const char *trouble)
{
    char more[32] = "";
    if (!group->count)
        return NULL;
    if (group->count > 4)
        snprintf(more, sizeof more, " and %u more", group->count - 4);
    struct br_finding *finding =
        br_finding_add(findings, code, severity, "%s on %s%s", trouble, group->names, more);
    for (uint32_t i = 0; i < group->count && i < BR_FINDING_LOCATIONS; i++)
        br_finding_location(finding, group->hosts ? BR_LOCATION_HOST : BR_LOCATION_PORT,
                            group->members[i]);
    return finding;
}

static const char *diagnose_settings_likewise(const struct group *group)
{
    return group->count > 1 ? "; the same for the others" : "";
}

static void check_rp_filter(const struct br_survey *survey, struct br_findings *findings)
{
    struct group strict = {.survey = survey};
    char on[384], own[160] = "";
    bool elsewhere = false;
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        if (br_survey_nic(survey, p) && br_survey_nic(survey, p)->rp_filter == 1)
            group_add(&strict, p);
    struct br_finding *finding =
        group_report(&strict, findings, "BC060", BR_WARNING, "rp_filter is strict");
    if (!finding)
        return;
    uint32_t host = br_survey_host_of(survey, strict.first);
    for (uint32_t p = strict.first; p < br_survey_ports(survey); p++) {
        const struct br_nic *nic = br_survey_nic(survey, p);
        if (!nic || nic->rp_filter != 1)
            continue;
        if (br_survey_host_of(survey, p) == host)
            snprintf(own + strlen(own), sizeof own - strlen(own), " net.ipv4.conf.%s.rp_filter=2",
                     nic->name);
        else
            elsewhere = true;
    }
    br_finding_evidence(finding,
                        "packets whose return route uses another NIC are dropped silently");
    br_survey_command(survey, host, on, "sysctl -w net.ipv4.conf.all.rp_filter=0%s", own);
    br_finding_remedy(finding, "%s%s", on, elsewhere ? "; the same for the others" : "");
}

/* The port of a planned address; -1: none. */
static int port_of_address(const struct br_survey *survey, uint32_t ip)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        if (ip && survey->ports[p].address.ip == ip)
            return (int)p;
    return -1;
}

static bool answers_with(const struct br_survey *survey, uint32_t host, const uint8_t mac[6])
{
    for (int i = 0; i < survey->hosts[host].n_nics; i++)
        if (!memcmp(survey->hosts[host].nics[i].mac, mac, 6))
            return true;
    return false;
}

/* A host answered on one level for its address of another one; the switches themselves are not
 * joined. */
static bool flux_seen(const struct br_survey *survey, uint32_t host)
{
    for (int i = 0; i < survey->n_answers; i++) {
        const struct br_arp_answer *answer = &survey->answers[i];
        int owner = port_of_address(survey, answer->ip),
            asker = br_survey_port_of_node(survey, answer->on);
        if (owner < 0 || asker < 0 || br_survey_host_of(survey, (uint32_t)owner) != host ||
            br_survey_level_of(survey, (uint32_t)owner) ==
                br_survey_level_of(survey, (uint32_t)asker))
            continue;
        if (answers_with(survey, host, answer->mac))
            return true;
    }
    return false;
}

static void check_flux(const struct br_survey *survey, struct br_findings *findings)
{
    struct group flux = {.survey = survey, .hosts = true};
    char on[384];
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        bool open = false;
        for (uint32_t level = 0; level < survey->cube.k && survey->hosts[h].reached; level++) {
            const struct br_nic *nic = br_survey_nic(survey, br_survey_port_of(survey, h, level));
            open |= nic && nic->arp_ignore == 0;
        }
        /* Where nobody could ask, the setting alone is the evidence. */
        if (open && survey->cube.k > 1 && (survey->arped ? flux_seen(survey, h) : true))
            group_add(&flux, h);
    }
    struct br_finding *finding =
        group_report(&flux, findings, "BC061", survey->arped ? BR_WARNING : BR_NOTE, "ARP flux");
    if (!finding)
        return;
    br_finding_evidence(finding,
                        survey->arped
                            ? "%s answers on one level for its address of another (arp_ignore=0)"
                            : "arp_ignore=0 on %s; whether it answers could not be asked",
                        survey->hosts[flux.first].name);
    br_survey_command(survey, flux.first, on,
                      "sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2");
    br_finding_remedy(finding, "%s%s", on, diagnose_settings_likewise(&flux));
}

static void check_memlock(const struct br_survey *survey, struct br_findings *findings)
{
    struct group low = {.survey = survey, .hosts = true};
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        const struct br_survey_host *host = &survey->hosts[h];
        if (host->reached && host->memlock >= 0 &&
            host->memlock < (host->n_rdma ? MEMLOCK_RDMA : MEMLOCK))
            group_add(&low, h);
    }
    struct br_finding *finding =
        group_report(&low, findings, "BC062", BR_WARNING, "the limit of locked memory is low");
    if (!finding)
        return;
    br_finding_evidence(finding, "%s allows %lld KiB; registered buffers need %d MiB",
                        survey->hosts[low.first].name,
                        (long long)(survey->hosts[low.first].memlock >> 10),
                        (survey->hosts[low.first].n_rdma ? MEMLOCK_RDMA : MEMLOCK) >> 20);
    br_finding_remedy(
        finding,
        "`* - memlock unlimited` in /etc/security/limits.conf and a new login; for services "
        "LimitMEMLOCK=infinity%s",
        diagnose_settings_likewise(&low));
}

/* Versions that differ between hosts on a level: harmless mostly, the first thing to know when one
 * host misbehaves. */
static void check_versions(const struct br_survey *survey, struct br_findings *findings)
{
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        struct group odd = {.survey = survey};
        const struct br_nic *first = NULL;
        for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
            uint32_t port = br_survey_port_of(survey, h, level);
            const struct br_nic *nic = br_survey_nic(survey, port);
            if (!first)
                first = nic;
            if (nic && (strcmp(nic->driver, first->driver) != 0 ||
                        strcmp(nic->driver_version, first->driver_version) != 0 ||
                        strcmp(nic->firmware, first->firmware) != 0))
                group_add(&odd, port);
        }
        struct br_finding *finding =
            group_report(&odd, findings, "BC019", BR_NOTE, "another driver or firmware");
        if (!finding)
            continue;
        const struct br_nic *nic = br_survey_nic(survey, odd.first);
        br_finding_evidence(finding, "%s %s, firmware %s; on %s: %s %s, firmware %s", nic->driver,
                            nic->driver_version, nic->firmware, survey->hosts[0].name,
                            first->driver, first->driver_version, first->firmware);
        br_finding_remedy(finding, "install the same versions everywhere");
    }
}

void br_diagnose_settings(const struct br_survey *survey, struct br_findings *findings)
{
    check_rp_filter(survey, findings);
    check_flux(survey, findings);
    check_memlock(survey, findings);
    check_versions(survey, findings);
}

/* ---- RDMA ------------------------------------------------------------------------------------ */

static const struct br_rdma *rdma_of(const struct br_survey *survey, uint32_t port)
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    const struct br_survey_host *host = &survey->hosts[br_survey_host_of(survey, port)];
    for (int i = 0; nic && i < host->n_rdma; i++)
        if (!strcmp(host->rdma[i].netdev, nic->name))
            return &host->rdma[i];
    return NULL;
}

static void check_quality(const struct br_survey *survey, struct br_findings *findings,
                          uint32_t level)
{
    struct group odd = {.survey = survey};
    const struct br_rdma *first = NULL;
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        const struct br_rdma *rdma = rdma_of(survey, br_survey_port_of(survey, h, level));
        if (!first)
            first = rdma;
        if (rdma && strcmp(rdma->quality, first->quality) != 0)
            group_add(&odd, br_survey_port_of(survey, h, level));
    }
    struct br_finding *finding = group_report(&odd, findings, "BC072", BR_WARNING,
                                              "PFC, ECN or DSCP differ from the other hosts'");
    if (!finding)
        return;
    br_finding_evidence(finding, "there: %s", rdma_of(survey, odd.first)->quality);
    br_finding_evidence(finding, "else: %s", first->quality);
    br_finding_remedy(finding,
                      "set the same everywhere: mlnx_qos -i %s --trust dscp --pfc 0,0,0,1,0,0,0,0",
                      rdma_of(survey, odd.first)->netdev);
}

/* A NIC without an RDMA device where others of its level have one. */
static void check_lacking(const struct br_survey *survey, struct br_findings *findings,
                          uint32_t level)
{
    struct group lacking = {.survey = survey};
    uint32_t having = 0, one = 0;
    char on[384];
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        uint32_t port = br_survey_port_of(survey, h, level);
        if (rdma_of(survey, port)) {
            one = port;
            having++;
        } else if (br_survey_alive(survey, port)) {
            group_add(&lacking, port);
        }
    }
    if (!having)
        return;
    struct br_finding *finding =
        group_report(&lacking, findings, "BC073", BR_WARNING, "no RDMA device");
    if (!finding)
        return;
    br_finding_evidence(
        finding, "%u others of level %u have one, as %s on %s; `braid info` says what is missing",
        having, level, rdma_of(survey, one)->device,
        survey->hosts[br_survey_host_of(survey, one)].name);
    br_survey_command(survey, br_survey_host_of(survey, lacking.first), on, "braid info");
    br_finding_remedy(finding, "%s%s", on, diagnose_settings_likewise(&lacking));
}

/* The smaller one counts on each link. */
static void check_rdma_mtu(const struct br_survey *survey, struct br_findings *findings,
                           uint32_t level)
{
    struct group low = {.survey = survey};
    int most = 0;
    char on[384];
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        const struct br_rdma *rdma = rdma_of(survey, br_survey_port_of(survey, h, level));
        most = rdma && rdma->mtu > most ? rdma->mtu : most;
    }
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++) {
        const struct br_rdma *rdma = rdma_of(survey, br_survey_port_of(survey, h, level));
        /* Of an interface with another MTU than planned there is a finding already. */
        const struct br_nic *nic = br_survey_nic(survey, br_survey_port_of(survey, h, level));
        if (rdma && rdma->mtu && rdma->mtu < most && nic->mtu == survey->mtu)
            group_add(&low, br_survey_port_of(survey, h, level));
    }
    struct br_finding *finding = group_report(&low, findings, "BC074", BR_WARNING,
                                              "RDMA packets are smaller than the other hosts'");
    if (!finding)
        return;
    br_finding_evidence(finding, "%d bytes, else %d", rdma_of(survey, low.first)->mtu, most);
    br_survey_command(survey, br_survey_host_of(survey, low.first), on,
                      "ip link set %s down && ip link set %s up",
                      rdma_of(survey, low.first)->netdev, rdma_of(survey, low.first)->netdev);
    br_finding_remedy(finding, "the device took its MTU before the interface had its own: %s%s", on,
                      diagnose_settings_likewise(&low));
}

/* What the NIC itself explains (down, no carrier, no address) has its finding already. */
void br_diagnose_rdma(const struct br_survey *survey, struct br_findings *findings)
{
    struct group unusable = {.survey = survey}, no_gid = {.survey = survey};
    for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
        const struct br_rdma *rdma = rdma_of(survey, p);
        if (!rdma || !br_survey_alive(survey, p))
            continue;
        if (strcmp(rdma->state, "active") != 0)
            group_add(&unusable, p);
        else if (rdma->gid_index < 0 && br_survey_nic(survey, p)->n_addresses)
            group_add(&no_gid, p);
    }
    struct br_finding *finding =
        group_report(&unusable, findings, "BC070", BR_ERROR, "the RDMA port cannot be used");
    if (finding) {
        const struct br_rdma *rdma = rdma_of(survey, unusable.first);
        br_finding_evidence(finding, "%s: %s", rdma->device, rdma->what);
        br_finding_remedy(finding, "the host says: %s%s", rdma->remedy,
                          diagnose_settings_likewise(&unusable));
    }
    finding = group_report(&no_gid, findings, "BC071", BR_ERROR, "no GID that a router takes");
    if (finding) {
        const struct br_rdma *rdma = rdma_of(survey, no_gid.first);
        br_finding_evidence(finding, "%s: %s", rdma->device, rdma->what);
        br_finding_remedy(finding, "the host says: %s%s", rdma->remedy,
                          diagnose_settings_likewise(&no_gid));
    }
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        check_lacking(survey, findings, level);
        check_rdma_mtu(survey, findings, level);
        check_quality(survey, findings, level);
    }
}
