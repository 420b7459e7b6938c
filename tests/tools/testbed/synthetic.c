/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/says.h"
#include "tests/tools/testbed/synthetic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void make_nic(struct br_survey *survey, uint32_t port)
{
    uint32_t h = br_survey_host_of(survey, port), level = br_survey_level_of(survey, port);
    struct br_survey_host *host = &survey->hosts[h];
    struct br_survey_port *plan = &survey->ports[port];
    struct br_nic *nic = &host->nics[host->n_nics++];
    plan->address =
        (struct br_cidr){0x0a000000u | level << 16 | br_bcube_switch(&survey->cube, h, level) << 8 |
                             (br_bcube_digit(&survey->cube, h, level) + 1),
                         24};
    plan->has_mac = true;
    plan->mac[0] = 2;
    plan->mac[4] = (uint8_t)h;
    plan->mac[5] = (uint8_t)level;
    plan->rate = SYNTHETIC_RATE;
    *nic = (struct br_nic){.up = true,
                           .carrier = true,
                           .speaks = true,
                           .mtu = 1500,
                           .numa = -1,
                           .speed = 10000,
                           .arp_ignore = 1,
                           .arp_announce = 2,
                           .n_addresses = 1,
                           .addresses = {plan->address},
                           .driver = "veth"};
    snprintf(nic->name, sizeof nic->name, "%s", plan->nic);
    memcpy(nic->mac, plan->mac, 6);
}

void synthetic_init(struct br_survey *survey, uint32_t n, uint32_t k)
{
    struct br_bcube cube;
    assert_int_equal(br_bcube_init(&cube, n, k), 0);
    assert_int_equal(br_survey_init(survey, &cube, (int)cube.hosts), 0);
    survey->probed = survey->arped = survey->loaded = true;
    for (uint32_t h = 0; h < cube.hosts; h++) {
        survey->hosts[h].reached = survey->hosts[h].root = true;
        survey->hosts[h].memlock = -1;
    }
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        make_nic(survey, p);
    br_survey_match(survey);
    for (uint32_t l = 0; l < br_survey_links(survey); l++)
        survey->links[l] = (struct br_survey_link){.probed = true,
                                                   .sent = 60,
                                                   .got = 60,
                                                   .path_mtu = 1500,
                                                   .min_us = 20,
                                                   .median_us = 30,
                                                   .alone = 95e6,
                                                   .together = 94e6};
}

void synthetic_wires(const struct br_survey *survey, int *wires)
{
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        wires[p] = (int)br_survey_switch_of(survey, p);
}

static uint32_t node_of(const struct br_survey *survey, uint32_t port)
{
    return br_survey_host_of(survey, port) * BR_SURVEY_NICS + (uint32_t)survey->ports[port].found;
}

void synthetic_hear(struct br_survey *survey, const int *wires)
{
    uint32_t ports = br_survey_ports(survey);
    for (uint32_t p = 0; p < ports; p++)
        for (uint32_t q = 0; q < ports; q++)
            if (p != q && wires[p] >= 0 && wires[p] == wires[q] && br_survey_alive(survey, p) &&
                br_survey_alive(survey, q))
                assert_int_equal(
                    br_survey_add_sound(survey, node_of(survey, p), node_of(survey, q), 6), 0);
    for (uint32_t l = 0; l < br_survey_links(survey); l++) {
        uint32_t from = l / (survey->cube.n - 1), to = br_survey_link_end(survey, l);
        if (wires[from] >= 0 && wires[from] == wires[to])
            continue;
        survey->links[l] = (struct br_survey_link){
            .probed = br_survey_alive(survey, from) && br_survey_alive(survey, to), .sent = 3};
    }
}

void synthetic_diagnose(const struct br_survey *survey, struct br_findings *findings)
{
    *findings = (struct br_findings){0};
    assert_int_equal(br_diagnose(survey, findings), 0);
}

void expect_one(const struct br_survey *survey, const char *code, const char *nouns)
{
    struct br_findings findings;
    synthetic_diagnose(survey, &findings);
    int grave = br_findings_count(&findings, BR_ERROR) + br_findings_count(&findings, BR_WARNING);
    if (grave != 1 || strcmp(findings.list[0].code, code) != 0 ||
        !says_all(findings.list[0].title, nouns)) {
        for (int i = 0; i < findings.count; i++)
            print_error("%s %s\n", findings.list[i].code, findings.list[i].title);
        fail_msg("expected one %s that names '%s'", code, nouns);
    }
    assert_true(findings.list[0].remedy[0] != 0);
    br_findings_destroy(&findings);
}

void expect_none(const struct br_survey *survey)
{
    struct br_findings findings;
    synthetic_diagnose(survey, &findings);
    for (int i = 0; i < findings.count; i++)
        print_error("%s %s\n", findings.list[i].code, findings.list[i].title);
    assert_int_equal(findings.count, 0);
    br_findings_destroy(&findings);
}

struct br_nic *synthetic_nic(struct br_survey *survey, uint32_t host, uint32_t level)
{
    return &survey->hosts[host].nics[survey->ports[br_survey_port_of(survey, host, level)].found];
}

struct br_survey_link *synthetic_link(struct br_survey *survey, uint32_t a, uint32_t b)
{
    for (uint32_t l = 0; l < br_survey_links(survey); l++)
        if (br_survey_host_of(survey, l / (survey->cube.n - 1)) == a &&
            br_survey_host_of(survey, br_survey_link_end(survey, l)) == b)
            return &survey->links[l];
    fail_msg("%u and %u are no neighbours", a, b);
    return NULL;
}
