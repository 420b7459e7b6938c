/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/collect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void plan_host(struct br_survey_host *host, const struct br_inventory *inventory,
                      uint32_t number, const char *testbed)
{
    const struct br_inventory_host *plan = &inventory->hosts[number];
    *host = (struct br_survey_host){.absent = plan->missing, .memlock = -1};
    snprintf(host->name, sizeof host->name, "%s", plan->name);
    if (inventory->access == BR_INVENTORY_SSH)
        snprintf(host->run, sizeof host->run, "ssh %.180s", plan->access);
    else if (testbed && strcmp(testbed, "bcube") != 0)
        snprintf(host->run, sizeof host->run, "braid bcube exec --name %.40s %.60s --", testbed,
                 plan->name);
    else if (testbed)
        snprintf(host->run, sizeof host->run, "braid bcube exec %.60s --", plan->name);
    else
        snprintf(host->run, sizeof host->run, "ip netns exec %.160s", plan->access);
}

static void plan_port(struct br_survey *survey, const struct br_inventory *inventory,
                      uint32_t number)
{
    static const uint8_t none[6] = {0};
    struct br_survey_port *port = &survey->ports[number];
    uint32_t h = br_survey_host_of(survey, number), level = br_survey_level_of(survey, number);
    const struct br_inventory_nic *plan = &inventory->hosts[h].nics[level];
    char label[BR_HOST_NAME];
    snprintf(port->nic, sizeof port->nic, "%s", plan->name);
    br_inventory_port_name(inventory, level, br_bcube_switch(&survey->cube, h, level),
                           br_bcube_port(&survey->cube, h, level), label);
    snprintf(port->label, sizeof port->label, "%.15s", label);
    port->absent = inventory->hosts[h].missing || !plan->name[0];
    port->address = (struct br_cidr){plan->address, (int)plan->bits};
    port->has_mac = memcmp(plan->mac, none, 6) != 0;
    memcpy(port->mac, plan->mac, 6);
    port->rate = (double)plan->rate;
    snprintf(port->pci, sizeof port->pci, "%s", plan->pci);
    port->numa = plan->numa;
}

int br_collect_plan(struct br_survey *survey, const struct br_inventory *inventory,
                    const char *testbed)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    int rc = br_survey_init(survey, cube, (int)inventory->n_hosts);
    if (rc)
        return rc;
    survey->mtu = (int)inventory->mtu;
    for (uint32_t h = 0; h < inventory->n_hosts; h++)
        plan_host(&survey->hosts[h], inventory, h, testbed);
    for (uint32_t p = 0; p < br_survey_ports(survey); p++)
        plan_port(survey, inventory, p);
    uint32_t per_level = br_bcube_power(cube, cube->k - 1);
    for (uint32_t s = 0; s < per_level * cube->k; s++) {
        char name[BR_HOST_NAME];
        snprintf(survey->switches[s], sizeof survey->switches[s], "%s",
                 br_inventory_switch_name(inventory, s / per_level, s % per_level, name));
    }
    return 0;
}
