/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 4: does each NIC have its address, with its prefix, and nobody else? */
#include "tools/testbed/diagnose.h"

#include <stdio.h>
#include <string.h>

static const char *ip_text(uint32_t ip, char out[20])
{
    snprintf(out, 20, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
    return out;
}

static const char *cidr_text(const struct br_cidr *cidr, char out[24])
{
    char ip[20];
    snprintf(out, 24, "%s/%d", ip_text(cidr->ip, ip), cidr->prefix);
    return out;
}

static const struct br_cidr *diagnose_addresses_address_of(const struct br_nic *nic, uint32_t ip)
{
    for (int i = 0; nic && i < nic->n_addresses; i++)
        if (nic->addresses[i].ip == ip)
            return &nic->addresses[i];
    return NULL;
}

static int port_with_plan(const struct br_survey *survey, uint32_t ip)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        if (ip && survey->ports[p].address.ip == ip)
            return (int)p;
    return -1;
}

static bool same_subnet(const struct br_cidr *plan, uint32_t ip)
{
    uint32_t mask = plan->prefix ? ~0u << (32 - plan->prefix) : 0;
    return (plan->ip & mask) == (ip & mask);
}

static struct br_finding *diagnose_addresses_at_port(struct br_finding *finding, uint32_t port,
                                                     bool breaks)
{
    br_finding_location(finding, BR_LOCATION_PORT, port);
    finding->breaks = breaks;
    return finding;
}

/* The other port of the host that has this one's address while this one has its; -1: none. */
static int exchanged_with(const struct br_survey *survey, uint32_t port)
{
    uint32_t host = br_survey_host_of(survey, port);
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        uint32_t other = br_survey_port_of(survey, host, level);
        if (other != port && survey->ports[other].address.ip &&
            diagnose_addresses_address_of(br_survey_nic(survey, other),
                                          survey->ports[port].address.ip) &&
            diagnose_addresses_address_of(br_survey_nic(survey, port),
                                          survey->ports[other].address.ip))
            return (int)other;
    }
    return -1;
}

static void report_exchanged(const struct br_survey *survey, struct br_findings *findings,
                             uint32_t a, uint32_t b)
{
    uint32_t host = br_survey_host_of(survey, a);
    const char *name_a = br_survey_nic(survey, a)->name, *name_b = br_survey_nic(survey, b)->name;
    char text_a[24], text_b[24], on[384];
    if (a > b)
        return; /* once for both */
    cidr_text(&survey->ports[a].address, text_a);
    cidr_text(&survey->ports[b].address, text_b);
    struct br_finding *finding = br_finding_add(
        findings, "BC043", BR_ERROR, "the addresses of %s and %s of host %s are exchanged", name_a,
        name_b, survey->hosts[host].name);
    br_finding_evidence(finding, "%s has %s and %s has %s", name_a, text_b, name_b, text_a);
    br_finding_remedy(finding, "%s",
                      br_survey_command(survey, host, on,
                                        "sh -c 'ip addr flush dev %s; ip addr flush dev %s; "
                                        "ip addr add %s dev %s; ip addr add %s dev %s'",
                                        name_a, name_b, text_a, name_a, text_b, name_b));
    diagnose_addresses_at_port(finding, a, true);
    diagnose_addresses_at_port(finding, b, true);
}

/* Somebody else's address, as a port's own or beside it. */
static void report_duplicate(const struct br_survey *survey, struct br_findings *findings,
                             uint32_t host, const struct br_nic *nic, int port, uint32_t owner,
                             const struct br_cidr *address)
{
    char ip[20], text[24], other[160], on[384], right[24] = "";
    cidr_text(address, text);
    struct br_finding *finding =
        br_finding_add(findings, "BC042", BR_ERROR, "%s of %s has %s, the address of %s", nic->name,
                       survey->hosts[host].name, ip_text(address->ip, ip),
                       br_survey_nic_text(survey, owner, other));
    br_finding_evidence(finding,
                        diagnose_addresses_address_of(br_survey_nic(survey, owner), address->ip)
                            ? "both have it, so neither can be reached for sure"
                            : "%s does not have it",
                        other);
    if (port >= 0 && !diagnose_addresses_address_of(nic, survey->ports[port].address.ip) &&
        survey->ports[port].address.ip)
        cidr_text(&survey->ports[port].address, right);
    if (right[0])
        br_survey_command(survey, host, on, "sh -c 'ip addr del %s dev %s; ip addr add %s dev %s'",
                          text, nic->name, right, nic->name);
    else
        br_survey_command(survey, host, on, "ip addr del %s dev %s", text, nic->name);
    br_finding_remedy(finding, "%s", on);
    if (port >= 0)
        diagnose_addresses_at_port(finding, (uint32_t)port, true);
    diagnose_addresses_at_port(finding, owner, true);
}

/* Does a duplicate explain why this port lacks its address? */
static bool has_foreign(const struct br_survey *survey, uint32_t port)
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    for (int i = 0; i < nic->n_addresses; i++) {
        int owner = port_with_plan(survey, nic->addresses[i].ip);
        if (owner >= 0 && (uint32_t)owner != port)
            return true;
    }
    return false;
}

static void check_own(const struct br_survey *survey, struct br_findings *findings, uint32_t port,
                      const struct br_nic *nic)
{
    const struct br_survey_port *plan = &survey->ports[port];
    const struct br_cidr *has = diagnose_addresses_address_of(nic, plan->address.ip);
    uint32_t host = br_survey_host_of(survey, port);
    char text[160], planned[24], other[24], on[384];
    int partner = exchanged_with(survey, port);
    br_survey_nic_text(survey, port, text);
    cidr_text(&plan->address, planned);
    if (partner >= 0) {
        report_exchanged(survey, findings, port, (uint32_t)partner);
    } else if (has && has->prefix != plan->address.prefix) {
        struct br_finding *finding = diagnose_addresses_at_port(
            br_finding_add(findings, "BC044", BR_WARNING, "%s has the prefix /%d instead of /%d",
                           text, has->prefix, plan->address.prefix),
            port, false);
        br_finding_remedy(finding, "%s",
                          br_survey_command(survey, host, on,
                                            "sh -c 'ip addr del %s dev %s; ip addr add %s dev %s'",
                                            cidr_text(has, other), nic->name, planned, nic->name));
    } else if (!has && !nic->n_addresses) {
        struct br_finding *finding = diagnose_addresses_at_port(
            br_finding_add(findings, "BC040", BR_ERROR, "%s has no address", text), port, true);
        br_finding_evidence(finding, "the inventory says %s", planned);
        br_finding_remedy(
            finding, "%s",
            br_survey_command(survey, host, on, "ip addr add %s dev %s", planned, nic->name));
    } else if (!has && !has_foreign(survey, port)) {
        struct br_finding *finding = diagnose_addresses_at_port(
            br_finding_add(findings, "BC041", BR_ERROR, "%s has %s instead of %s%s", text,
                           cidr_text(&nic->addresses[0], other), planned,
                           same_subnet(&plan->address, nic->addresses[0].ip) ? ""
                                                                             : ": another subnet"),
            port, true);
        br_finding_remedy(finding, "%s",
                          br_survey_command(survey, host, on,
                                            "sh -c 'ip addr del %s dev %s; ip addr add %s dev %s'",
                                            other, nic->name, planned, nic->name));
    }
}

/* Addresses that an interface has besides its port's. */
static void check_others(const struct br_survey *survey, struct br_findings *findings,
                         uint32_t host, const struct br_nic *nic, int port)
{
    char text[24], nic_text[160], on[384];
    if (port >= 0 && exchanged_with(survey, (uint32_t)port) >= 0)
        return;
    for (int i = 0; i < nic->n_addresses; i++) {
        const struct br_cidr *address = &nic->addresses[i];
        int owner = port_with_plan(survey, address->ip);
        if (owner >= 0 && owner != port)
            report_duplicate(survey, findings, host, nic, port, (uint32_t)owner, address);
        for (uint32_t level = 0; level < survey->cube.k && owner < 0; level++) {
            uint32_t other = br_survey_port_of(survey, host, level);
            if ((int)other == port || !survey->ports[other].address.ip ||
                !same_subnet(&survey->ports[other].address, address->ip))
                continue;
            struct br_finding *finding = diagnose_addresses_at_port(
                br_finding_add(findings, "BC045", BR_WARNING,
                               "%s of %s has an address in the subnet of %s", nic->name,
                               survey->hosts[host].name, survey->ports[other].nic),
                other, false);
            br_finding_evidence(finding, "%s is in the subnet of %s: packets leave by either NIC",
                                cidr_text(address, text),
                                br_survey_nic_text(survey, other, nic_text));
            br_finding_remedy(
                finding, "%s",
                br_survey_command(survey, host, on, "ip addr del %s dev %s", text, nic->name));
        }
    }
}

static bool diagnose_addresses_is_ours(const struct br_survey *survey, const uint8_t mac[6])
{
    for (int h = 0; h < survey->n_hosts; h++)
        for (int i = 0; i < survey->hosts[h].n_nics; i++)
            if (!memcmp(survey->hosts[h].nics[i].mac, mac, 6))
                return true;
    return false;
}

/* Somebody who is no host of ours answers for a planned address. */
static void check_answers(const struct br_survey *survey, struct br_findings *findings)
{
    char text[160], ip[20];
    for (int i = 0; i < survey->n_answers; i++) {
        const struct br_arp_answer *answer = &survey->answers[i];
        int port = br_survey_port_of_node(survey, answer->on);
        if (port < 0 || survey->ports[port].address.ip != answer->ip ||
            diagnose_addresses_is_ours(survey, answer->mac))
            continue;
        const uint8_t *m = answer->mac;
        struct br_finding *finding = diagnose_addresses_at_port(
            br_finding_add(
                findings, "BC042", BR_ERROR, "a host outside the testbed has %s, the address of %s",
                ip_text(answer->ip, ip), br_survey_nic_text(survey, (uint32_t)port, text)),
            (uint32_t)port, true);
        br_finding_evidence(finding, "%02x:%02x:%02x:%02x:%02x:%02x answers for it on %s", m[0],
                            m[1], m[2], m[3], m[4], m[5], text);
        br_finding_remedy(finding,
                          "find that MAC in the switch's table and take the machine off: no "
                          "host of the inventory has it");
    }
}

void br_diagnose_addresses(const struct br_survey *survey, struct br_findings *findings)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
        const struct br_nic *nic = br_survey_nic(survey, p);
        if (nic && survey->ports[p].address.ip)
            check_own(survey, findings, p, nic);
    }
    for (uint32_t h = 0; h < (uint32_t)survey->n_hosts; h++)
        for (int i = 0; i < survey->hosts[h].n_nics; i++)
            check_others(survey, findings, h, &survey->hosts[h].nics[i],
                         br_survey_port_of_node(survey, h * BR_SURVEY_NICS + (uint32_t)i));
    check_answers(survey, findings);
}
