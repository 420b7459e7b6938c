/* SPDX-License-Identifier: BSD-3-Clause */
/* Stage 2: is each planned NIC there, the right one, at the right place, up, with a carrier and
 * with the planned MTU? */
#include "tools/testbed/diagnose.h"

#include <stdio.h>
#include <string.h>

static const char *mac_text(const uint8_t mac[6], char out[18])
{
    snprintf(out, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
             mac[5]);
    return out;
}

static struct br_finding *diagnose_nics_at_port(struct br_finding *finding, uint32_t port,
                                                bool breaks)
{
    br_finding_location(finding, BR_LOCATION_PORT, port);
    finding->breaks = breaks;
    return finding;
}

static void diagnose_nics_missing(const struct br_survey *survey, struct br_findings *findings,
                                  uint32_t port)
{
    const struct br_survey_host *host = &survey->hosts[br_survey_host_of(survey, port)];
    char names[200] = "", on[384];
    for (int i = 0; i < host->n_nics; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "",
                 host->nics[i].name);
    struct br_finding *finding = diagnose_nics_at_port(
        br_finding_add(findings, "BC010", BR_ERROR, "%s has no NIC %s (level %u)", host->name,
                       survey->ports[port].nic, br_survey_level_of(survey, port)),
        port, true);
    br_finding_evidence(finding, "its NICs are: %s", host->n_nics ? names : "none");
    br_finding_remedy(finding, "seat the card or load its driver, then: %s",
                      br_survey_command(survey, br_survey_host_of(survey, port), on,
                                        "ip link show %s", survey->ports[port].nic));
}

static void diagnose_nics_renamed(const struct br_survey *survey, struct br_findings *findings,
                                  uint32_t port, const struct br_nic *nic)
{
    const struct br_survey_port *plan = &survey->ports[port];
    const char *host = survey->hosts[br_survey_host_of(survey, port)].name;
    char mac[18], on[384];
    struct br_finding *finding = diagnose_nics_at_port(
        br_finding_add(findings, "BC011", BR_ERROR, "NIC %s of %s is called %s now", plan->nic,
                       host, nic->name),
        port, false);
    br_finding_evidence(finding, "there is no %s; %s (%s) has its MAC, its address or its cable",
                        plan->nic, nic->name, mac_text(nic->mac, mac));
    br_finding_remedy(
        finding, "%s # or write %s into the inventory",
        br_survey_command(survey, br_survey_host_of(survey, port), on,
                          "sh -c 'ip link set %s down; ip link set %s name %s; ip link set %s up'",
                          nic->name, nic->name, plan->nic, plan->nic),
        nic->name);
}

/* The NIC of another port, anywhere, that has this MAC; -1: none. */
static int port_with_mac(const struct br_survey *survey, const uint8_t mac[6], uint32_t but)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
        const struct br_nic *nic = br_survey_nic(survey, p);
        if (p != but && nic && !memcmp(nic->mac, mac, 6))
            return (int)p;
    }
    return -1;
}

static bool has_planned_mac(const struct br_survey *survey, uint32_t port)
{
    const struct br_nic *nic = br_survey_nic(survey, port);
    return nic && survey->ports[port].has_mac && !memcmp(survey->ports[port].mac, nic->mac, 6);
}

/* Said once for the two, and against the one that has another MAC than planned. */
static void report_twins(const struct br_survey *survey, struct br_findings *findings,
                         uint32_t port, uint32_t twin)
{
    uint32_t wrong = has_planned_mac(survey, port) ? twin : port;
    const struct br_nic *nic = br_survey_nic(survey, wrong);
    char text[160], other[160], mac[18], planned[18] = "ITS-OWN-MAC", on[384];
    if (twin < port)
        return;
    struct br_finding *finding =
        br_finding_add(findings, "BC018", BR_ERROR, "%s and %s have the same MAC %s",
                       br_survey_nic_text(survey, port, text),
                       br_survey_nic_text(survey, twin, other), mac_text(nic->mac, mac));
    diagnose_nics_at_port(finding, port, true);
    diagnose_nics_at_port(finding, twin, true);
    if (survey->ports[wrong].has_mac)
        mac_text(survey->ports[wrong].mac, planned);
    br_finding_remedy(finding, "%s",
                      br_survey_command(survey, br_survey_host_of(survey, wrong), on,
                                        "ip link set %s address %s", nic->name, planned));
}

static void check_mac(const struct br_survey *survey, struct br_findings *findings, uint32_t port,
                      const struct br_nic *nic)
{
    const struct br_survey_port *plan = &survey->ports[port];
    char text[160], other[160], planned[18], mac[18];
    int twin = port_with_mac(survey, nic->mac, port);
    if (twin >= 0)
        report_twins(survey, findings, port, (uint32_t)twin);
    if (twin >= 0 || !plan->has_mac || has_planned_mac(survey, port))
        return;
    int holder = port_with_mac(survey, plan->mac, port);
    struct br_finding *finding = diagnose_nics_at_port(
        br_finding_add(findings, "BC012", BR_WARNING, "%s has another MAC than the inventory says",
                       br_survey_nic_text(survey, port, text)),
        port, false);
    br_finding_evidence(finding, "the inventory says %s, it has %s", mac_text(plan->mac, planned),
                        mac_text(nic->mac, mac));
    if (holder >= 0) {
        br_finding_evidence(finding, "%s has the planned one: names were exchanged, or hosts",
                            br_survey_nic_text(survey, (uint32_t)holder, other));
        br_finding_remedy(
            finding,
            "tie names to MACs (a .link file of systemd.link(5)), or correct the inventory");
    } else {
        br_finding_remedy(finding,
                          "if the card was replaced, write `mac: %s` for %s into the inventory",
                          mac, text);
    }
}

static void check_location(const struct br_survey *survey, struct br_findings *findings,
                           uint32_t port, const struct br_nic *nic)
{
    const struct br_survey_port *plan = &survey->ports[port];
    char text[160];
    br_survey_nic_text(survey, port, text);
    if (plan->pci[0] && strcmp(plan->pci, nic->pci) != 0) {
        struct br_finding *finding = diagnose_nics_at_port(
            br_finding_add(findings, "BC013", BR_WARNING, "%s sits in another PCI slot", text),
            port, false);
        br_finding_evidence(finding, "the inventory says %s, it is at %s", plan->pci,
                            nic->pci[0] ? nic->pci : "no PCI address");
        br_finding_remedy(finding,
                          "move the card to the planned slot, or correct `pci` in the inventory");
    }
    if (plan->numa >= 0 && plan->numa != nic->numa) {
        struct br_finding *finding = diagnose_nics_at_port(
            br_finding_add(findings, "BC014", BR_WARNING, "%s is at another NUMA node", text), port,
            false);
        br_finding_evidence(finding, "the inventory says node %d, it is at %d", plan->numa,
                            nic->numa);
        br_finding_remedy(finding,
                          "move the card to a slot of node %d, or correct `numa` in the inventory",
                          plan->numa);
    }
}

static void check_state(const struct br_survey *survey, struct br_findings *findings, uint32_t port,
                        const struct br_nic *nic)
{
    char text[160], place[160], on[384];
    br_survey_nic_text(survey, port, text);
    br_survey_switch_text(survey, port, place);
    if (!nic->up) {
        struct br_finding *finding = diagnose_nics_at_port(
            br_finding_add(findings, "BC015", BR_ERROR, "%s is down", text), port, true);
        br_finding_evidence(finding, "it is switched off on the host, the cable is not to blame");
        br_finding_remedy(finding, "%s",
                          br_survey_command(survey, br_survey_host_of(survey, port), on,
                                            "ip link set %s up", nic->name));
    } else if (!nic->carrier) {
        struct br_finding *finding = diagnose_nics_at_port(
            br_finding_add(findings, "BC016", BR_ERROR, "no carrier on the cable from %s to %s",
                           text, place),
            port, true);
        br_finding_evidence(finding, "%s is up but sees no light or signal", text);
        br_finding_remedy(
            finding, "plug the cable in at both ends, enable %s, then try another cable", place);
    }
}

static void check_speed(const struct br_survey *survey, struct br_findings *findings, uint32_t port,
                        const struct br_nic *nic)
{
    const struct br_survey_port *plan = &survey->ports[port];
    char text[160];
    if (!nic->speed || plan->rate <= (double)nic->speed * 1e6 * 1.001)
        return;
    struct br_finding *finding = diagnose_nics_at_port(
        br_finding_add(findings, "BC017", BR_ERROR, "%s runs at %.3g Gb/s instead of %.3g",
                       br_survey_nic_text(survey, port, text), (double)nic->speed / 1e3,
                       plan->rate / 1e9),
        port, false);
    br_finding_evidence(finding, "the link came up at a lower speed than the inventory's `rate`");
    br_finding_remedy(finding,
                      "clean or replace cable and module; see the advertised speeds: ethtool %s",
                      nic->name);
}

static void check_mtu(const struct br_survey *survey, struct br_findings *findings, uint32_t port,
                      const struct br_nic *nic)
{
    char text[160], on[384];
    if (nic->mtu == survey->mtu)
        return;
    bool low = nic->mtu < survey->mtu;
    struct br_finding *finding = diagnose_nics_at_port(
        br_finding_add(findings, "BC050", low ? BR_ERROR : BR_WARNING,
                       "%s has an MTU of %d instead of %d", br_survey_nic_text(survey, port, text),
                       nic->mtu, survey->mtu),
        port, false);
    br_finding_evidence(finding, low ? "full packets of its neighbours are lost at it"
                                     : "its full packets may be lost at its neighbours");
    br_finding_remedy(finding, "%s",
                      br_survey_command(survey, br_survey_host_of(survey, port), on,
                                        "ip link set %s mtu %d", nic->name, survey->mtu));
}

/* A switch of which no port has a carrier is down itself: one finding instead of n. */
static bool switch_is_down(const struct br_survey *survey, uint32_t port)
{
    const struct br_bcube *cube = &survey->cube;
    uint32_t level = br_survey_level_of(survey, port), host = br_survey_host_of(survey, port),
             dark = 0;
    for (uint32_t digit = 0; digit < cube->n; digit++) {
        uint32_t other = br_bcube_with_digit(cube, host, level, digit);
        const struct br_nic *nic =
            other < (uint32_t)survey->n_hosts
                ? br_survey_nic(survey, br_survey_port_of(survey, other, level))
                : NULL;
        if (nic && nic->up && nic->carrier)
            return false;
        dark += nic && nic->up;
    }
    return dark >= 2;
}

/* All cables of a host are out: one finding instead of k. */
static bool host_is_dark(const struct br_survey *survey, uint32_t host)
{
    uint32_t dark = 0;
    for (uint32_t level = 0; level < survey->cube.k; level++) {
        const struct br_nic *nic = br_survey_nic(survey, br_survey_port_of(survey, host, level));
        if (nic && nic->up && nic->carrier)
            return false;
        dark += nic && nic->up;
    }
    return dark >= 2;
}

static void report_dark(const struct br_survey *survey, struct br_findings *findings, uint32_t port)
{
    uint32_t host = br_survey_host_of(survey, port);
    for (int i = 0; i < findings->count; i++)
        if (findings->list[i].locations[0].kind == BR_LOCATION_HOST &&
            findings->list[i].locations[0].number == host)
            return;
    struct br_finding *finding =
        br_finding_add(findings, "BC016", BR_ERROR, "no carrier on any cable of host %s",
                       survey->hosts[host].name);
    br_finding_evidence(finding, "its NICs are up but see no light or signal");
    br_finding_remedy(finding, "plug its cables in at both ends");
    br_finding_location(finding, BR_LOCATION_HOST, host);
    finding->breaks = true;
}

static void diagnose_nics_report_switch(const struct br_survey *survey,
                                        struct br_findings *findings, uint32_t port)
{
    uint32_t number = br_survey_switch_of(survey, port);
    for (int i = 0; i < findings->count; i++)
        if (findings->list[i].n_locations &&
            findings->list[i].locations[0].kind == BR_LOCATION_SWITCH &&
            findings->list[i].locations[0].number == number)
            return;
    struct br_finding *finding =
        br_finding_add(findings, "BC028", BR_ERROR, "switch %s is down", survey->switches[number]);
    br_finding_evidence(finding, "all its NICs that are up have no carrier");
    br_finding_remedy(finding, "see to its power and its configuration");
    br_finding_location(finding, BR_LOCATION_SWITCH, number);
    finding->breaks = true;
}

void br_diagnose_nics(const struct br_survey *survey, struct br_findings *findings)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++) {
        const struct br_nic *nic = br_survey_nic(survey, p);
        if (!survey->hosts[br_survey_host_of(survey, p)].reached || survey->ports[p].absent)
            continue;
        if (!nic) {
            diagnose_nics_missing(survey, findings, p);
            continue;
        }
        if (strcmp(nic->name, survey->ports[p].nic) != 0)
            diagnose_nics_renamed(survey, findings, p, nic);
        check_mac(survey, findings, p, nic);
        check_location(survey, findings, p, nic);
        if (nic->up && !nic->carrier && switch_is_down(survey, p))
            diagnose_nics_report_switch(survey, findings, p);
        else if (nic->up && !nic->carrier && host_is_dark(survey, br_survey_host_of(survey, p)))
            report_dark(survey, findings, p);
        else
            check_state(survey, findings, p, nic);
        if (nic->up && nic->carrier)
            check_speed(survey, findings, p, nic);
        check_mtu(survey, findings, p, nic);
    }
}
