/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/diagnose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/tools/testbed/synthetic.h"

#define PORTS 256

static struct br_survey survey;
static int wires[PORTS];

static void make(uint32_t n, uint32_t k)
{
    synthetic_init(&survey, n, k);
    synthetic_wires(&survey, wires);
}

static void check(const char *code, const char *text)
{
    synthetic_hear(&survey, wires);
    expect_one(&survey, code, text);
    br_survey_destroy(&survey);
}

static void swap(uint32_t a, uint32_t b)
{
    int wire = wires[a];
    wires[a] = wires[b];
    wires[b] = wire;
}

static void cabling__healthy(void **state)
{
    static const uint32_t shapes[][2] = {{2, 1}, {2, 2}, {3, 2}, {2, 4}, {4, 3}, {8, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make(shapes[i][0], shapes[i][1]);
        synthetic_hear(&survey, wires);
        expect_none(&survey);
        br_survey_destroy(&survey);
    }
}

/* In every shape, at every host, every pair of its NICs. */
static void cabling__swapped_at_a_host(void **state)
{
    static const uint32_t shapes[][2] = {{2, 2}, {3, 2}, {2, 3}, {4, 3}};
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uint32_t k = shapes[i][1];
        make(shapes[i][0], k);
        uint32_t hosts = survey.cube.hosts;
        br_survey_destroy(&survey);
        for (uint32_t h = 0; h < hosts; h++) {
            for (uint32_t level = 1; level < k; level++) {
                char text[256];
                make(shapes[i][0], k);
                swap(br_survey_port_of(&survey, h, level - 1),
                     br_survey_port_of(&survey, h, level));
                snprintf(text, sizeof text, "eth%u|eth%u|host %s", level - 1, level,
                         survey.hosts[h].name);
                check("BC020", text);
            }
        }
    }
}

static void cabling__crossed_between_hosts(void **state)
{
    (void)state;
    make(3, 2);
    swap(br_survey_port_of(&survey, 5, 0), br_survey_port_of(&survey, 6, 0));
    check("BC021", "eth0 of h05|eth0 of h06");
    make(3, 2);
    swap(br_survey_port_of(&survey, 2, 0), br_survey_port_of(&survey, 7, 1));
    check("BC021", "eth0 of h02|eth1 of h07");
}

static void cabling__hosts_exchanged(void **state)
{
    (void)state;
    make(3, 2);
    swap(br_survey_port_of(&survey, 1, 0), br_survey_port_of(&survey, 8, 0));
    swap(br_survey_port_of(&survey, 1, 1), br_survey_port_of(&survey, 8, 1));
    check("BC023", "hosts h01 and h08 are exchanged");
}

static void cabling__wrong_switch(void **state)
{
    (void)state;
    make(3, 2);
    wires[br_survey_port_of(&survey, 4, 0)] = 2;
    check("BC022", "eth0 of h04|on switch s0-2|s0-1");
    make(2, 2); /* its only partner is left alone, and it is not to blame */
    wires[br_survey_port_of(&survey, 1, 0)] = 1;
    check("BC022", "eth0 of h01|on switch s0-1|s0-0");
    make(3, 2); /* of another level */
    wires[br_survey_port_of(&survey, 4, 0)] = 3;
    check("BC022", "eth0 of h04|on switch s1-0|s0-1");
}

static void cabling__switches_joined(void **state)
{
    (void)state;
    make(3, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 1 ? 0 : wires[p];
    check("BC024", "switches s0-0 and s0-1 are joined");
    make(2, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 1 ? 0 : wires[p];
    check("BC024", "switches s0-0 and s0-1 are joined");
}

static void cabling__levels_joined(void **state)
{
    (void)state;
    make(3, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 5 ? 0 : wires[p];
    check("BC025", "switches s0-0 and s1-2 are joined");
}

static void cabling__nothing_passes(void **state)
{
    (void)state;
    make(3, 2);
    wires[br_survey_port_of(&survey, 4, 1)] = -1;
    check("BC026", "eth1 of h04|port 1 of switch s1-1");
}

static void cabling__switch_passes_nothing(void **state)
{
    (void)state;
    make(3, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 4 ? -1 : wires[p];
    check("BC028", "switch s1-1 passes nothing");
    make(2, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 0 ? -1 : wires[p];
    check("BC028", "switch s0-0 passes nothing");
}

static void cabling__switch_split(void **state)
{
    (void)state;
    make(4, 2);
    wires[br_survey_port_of(&survey, 0, 0)] = wires[br_survey_port_of(&survey, 1, 0)] = 100;
    check("BC029", "switch s0-0 is split");
}

/* A BCube(3,2) in which eth0 of host 4 has heard nobody. */
static void make_deaf(void)
{
    uint32_t deaf = 4 * BR_SURVEY_NICS;
    int kept = 0;
    make(3, 2);
    synthetic_hear(&survey, wires);
    for (int i = 0; i < survey.n_sounds; i++)
        if (survey.sounds[i].to != deaf)
            survey.sounds[kept++] = survey.sounds[i];
    survey.n_sounds = kept;
}

/* Echoes say that it has been busy. */
static void cabling__deaf_for_a_moment(void **state)
{
    (void)state;
    make_deaf();
    expect_none(&survey);
    br_survey_destroy(&survey);
}

static void cabling__one_way(void **state)
{
    (void)state;
    make_deaf();
    uint32_t port = (uint32_t)br_survey_port_of_node(&survey, 4 * BR_SURVEY_NICS);
    for (uint32_t l = 0; l < br_survey_links(&survey); l++)
        if (l / (survey.cube.n - 1) == port || br_survey_link_end(&survey, l) == port)
            survey.links[l].got = 0;
    expect_one(&survey, "BC027", "direction|eth0 of h04");
    br_survey_destroy(&survey);
}

/* A NIC that no plan knows, on a level's switch; and a planned one on the management network. */
static void cabling__strangers(void **state)
{
    (void)state;
    make(3, 2);
    for (uint32_t h = 0; h < 9; h++) {
        struct br_nic *nic = &survey.hosts[h].nics[survey.hosts[h].n_nics++];
        *nic = (struct br_nic){.name = "mgmt0",
                               .up = true,
                               .carrier = true,
                               .mtu = 1500,
                               .numa = -1,
                               .driver = "veth"};
    }
    synthetic_hear(&survey, wires);
    for (uint32_t h = 1; h < 9; h++)
        assert_int_equal(br_survey_add_sound(&survey, 2, h * BR_SURVEY_NICS + 2, 1), 0);
    expect_none(&survey);
    assert_int_equal(br_survey_add_sound(&survey, 0, 5 * BR_SURVEY_NICS + 2, 1), 0);
    expect_one(&survey, "BC030", "mgmt0 of h00|switch s0-0");
    br_survey_destroy(&survey);

    make(3, 2);
    wires[br_survey_port_of(&survey, 4, 0)] = -1;
    for (uint32_t h = 0; h < 9; h++)
        survey.hosts[h].nics[survey.hosts[h].n_nics++] = (struct br_nic){.name = "mgmt0",
                                                                         .up = true,
                                                                         .carrier = true,
                                                                         .mtu = 1500,
                                                                         .numa = -1,
                                                                         .driver = "veth"};
    synthetic_hear(&survey, wires);
    for (uint32_t h = 1; h < 9; h++)
        assert_int_equal(br_survey_add_sound(&survey, 2, h * BR_SURVEY_NICS + 2, 1), 0);
    assert_int_equal(br_survey_add_sound(&survey, 2, 4 * BR_SURVEY_NICS, 1), 0);
    expect_one(&survey, "BC022", "eth0 of h04|mgmt0 of h00");
    br_survey_destroy(&survey);
}

/* A switch that drops the probes but carries the traffic is no broken one. */
static void cabling__probes_dropped(void **state)
{
    (void)state;
    make(3, 2);
    for (uint32_t p = 0; p < br_survey_ports(&survey); p++)
        wires[p] = wires[p] == 4 ? -1 : wires[p];
    synthetic_hear(&survey, wires);
    for (uint32_t l = 0; l < br_survey_links(&survey); l++)
        survey.links[l] = survey.links[0];
    expect_none(&survey);
    br_survey_destroy(&survey);
}

/* Two independent mishaps are two findings. */
static void cabling__two_at_once(void **state)
{
    struct br_findings findings;
    (void)state;
    make(4, 2);
    swap(br_survey_port_of(&survey, 1, 0), br_survey_port_of(&survey, 1, 1));
    wires[br_survey_port_of(&survey, 15, 1)] = -1;
    synthetic_hear(&survey, wires);
    synthetic_diagnose(&survey, &findings);
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.list[0].code, "BC020");
    assert_string_equal(findings.list[1].code, "BC026");
    assert_int_equal(findings.list[0].consequences, 12);
    assert_int_equal(findings.list[1].consequences, 6);
    br_findings_destroy(&findings);
    br_survey_destroy(&survey);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cabling__healthy),
        cmocka_unit_test(cabling__swapped_at_a_host),
        cmocka_unit_test(cabling__crossed_between_hosts),
        cmocka_unit_test(cabling__hosts_exchanged),
        cmocka_unit_test(cabling__wrong_switch),
        cmocka_unit_test(cabling__switches_joined),
        cmocka_unit_test(cabling__levels_joined),
        cmocka_unit_test(cabling__nothing_passes),
        cmocka_unit_test(cabling__switch_passes_nothing),
        cmocka_unit_test(cabling__switch_split),
        cmocka_unit_test(cabling__deaf_for_a_moment),
        cmocka_unit_test(cabling__one_way),
        cmocka_unit_test(cabling__strangers),
        cmocka_unit_test(cabling__probes_dropped),
        cmocka_unit_test(cabling__two_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
