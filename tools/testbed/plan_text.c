/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/plan_text.h"

#include <string.h>

struct widths {
    int host, digits, nic, name, port;
};

struct sums {
    uint32_t hosts, switches, cables;
};

bool br_plan_has_cable(const struct br_inventory *inventory, uint32_t host, uint32_t level)
{
    return host < inventory->n_hosts && !inventory->hosts[host].missing &&
           inventory->hosts[host].nics[level].name[0];
}

/* The first host on a switch; n_hosts: there is none. */
static uint32_t first_host(const struct br_inventory *inventory, uint32_t level, uint32_t index)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    for (uint32_t port = 0; port < cube->n; port++) {
        uint32_t host = br_bcube_switch_host(cube, level, index, port);
        if (br_plan_has_cable(inventory, host, level))
            return host;
    }
    return inventory->n_hosts;
}

bool br_plan_has_switch(const struct br_inventory *inventory, uint32_t level, uint32_t index)
{
    return first_host(inventory, level, index) < inventory->n_hosts;
}

char *br_plan_subnet(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                     char *out)
{
    uint32_t host = first_host(inventory, level, index);
    if (host == inventory->n_hosts)
        return br_address_text(br_cabling_subnet(&inventory->cabling, level, index),
                               inventory->cabling.subnet_bits, out);
    const struct br_inventory_nic *nic = &inventory->hosts[host].nics[level];
    return br_address_text(nic->address & br_address_mask(nic->bits), nic->bits, out);
}

static void plan_text_widen(int *width, const char *text)
{
    int length = (int)strlen(text);
    if (*width < length)
        *width = length;
}

static struct widths plan_text_measure(const struct br_inventory *inventory)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    struct widths widths = {4, 6, 3, 6, 4};
    char text[BR_HOST_NAME];
    for (uint32_t host = 0; host < inventory->n_hosts; host++) {
        plan_text_widen(&widths.host, inventory->hosts[host].name);
        plan_text_widen(&widths.digits, br_bcube_text(cube, host, text));
        for (uint32_t level = 0; level < cube->k; level++) {
            uint32_t index = br_bcube_switch(cube, host, level);
            plan_text_widen(&widths.nic, inventory->hosts[host].nics[level].name);
            plan_text_widen(&widths.name, br_inventory_switch_name(inventory, level, index, text));
            plan_text_widen(&widths.port,
                            br_inventory_port_name(inventory, level, index,
                                                   br_bcube_port(cube, host, level), text));
        }
    }
    return widths;
}

static struct sums plan_text_add_up(const struct br_inventory *inventory)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1);
    struct sums sums = {0, 0, 0};
    for (uint32_t host = 0; host < inventory->n_hosts; host++) {
        sums.hosts += !inventory->hosts[host].missing;
        for (uint32_t level = 0; level < cube->k; level++)
            sums.cables += br_plan_has_cable(inventory, host, level);
    }
    for (uint32_t i = 0; i < switches * cube->k; i++)
        sums.switches += br_plan_has_switch(inventory, i / switches, i % switches);
    return sums;
}

char *br_plan_sums(const struct br_inventory *inventory, char *out, size_t bytes)
{
    struct sums sums = plan_text_add_up(inventory);
    snprintf(out, bytes, "%u hosts of %u NICs, %u switches of %u ports, %u cables", sums.hosts,
             inventory->cabling.cube.k, sums.switches, inventory->cabling.cube.n, sums.cables);
    return out;
}

static void plan_text_print_levels(const struct br_inventory *inventory, FILE *out)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1);
    char first[BR_HOST_NAME], last[BR_HOST_NAME], range[2 * BR_HOST_NAME + 8];
    fputs("level  switches              subnets\n", out);
    for (uint32_t level = 0; level < cube->k; level++) {
        uint32_t end = switches - 1;
        while (end && !br_plan_has_switch(inventory, level, end))
            end--;
        snprintf(range, sizeof range, "%s .. %s",
                 br_inventory_switch_name(inventory, level, 0, first),
                 br_inventory_switch_name(inventory, level, end, last));
        fprintf(out, "%-5u  %-20s  ", level, end ? range : first);
        fprintf(out, end ? "%s .. %s\n" : "%s\n", br_plan_subnet(inventory, level, 0, first),
                br_plan_subnet(inventory, level, end, last));
    }
}

static void print_cables(const struct br_inventory *inventory, FILE *out)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    struct widths w = plan_text_measure(inventory);
    char digits[BR_BCUBE_TEXT], name[BR_HOST_NAME], port[BR_HOST_NAME], address[BR_ADDRESS_TEXT];
    fprintf(out, "%-*s  number  %-*s  %-*s  level  %-*s  %-*s  %-18s  management\n", w.host, "host",
            w.digits, "digits", w.nic, "NIC", w.name, "switch", w.port, "port", "address");
    for (uint32_t host = 0; host < inventory->n_hosts; host++) {
        const struct br_inventory_host *at = &inventory->hosts[host];
        for (uint32_t level = 0; level < cube->k; level++) {
            uint32_t index = br_bcube_switch(cube, host, level);
            if (!br_plan_has_cable(inventory, host, level))
                continue;
            fprintf(out, "%-*s  %6u  %-*s  %-*s  %5u  %-*s  %-*s  %-18s  ", w.host, at->name, host,
                    w.digits, br_bcube_text(cube, host, digits), w.nic, at->nics[level].name, level,
                    w.name, br_inventory_switch_name(inventory, level, index, name), w.port,
                    br_inventory_port_name(inventory, level, index,
                                           br_bcube_port(cube, host, level), port),
                    br_address_text(at->nics[level].address, at->nics[level].bits, address));
            fprintf(out, "%s\n", br_address_text(at->management, 33, address));
        }
    }
}

void br_plan_list(const struct br_inventory *inventory, FILE *out)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    char sums[128];
    fprintf(out, "BCube(%u,%u)%s: %s\n\n", cube->n, cube->k,
            plan_text_add_up(inventory).hosts < cube->hosts ? ", partial" : "",
            br_plan_sums(inventory, sums, sizeof sums));
    plan_text_print_levels(inventory, out);
    fputs("\nPorts are digits, from 0, where the inventory has no labels for them. Management is a "
          "network "
          "of its own.\n\n",
          out);
    print_cables(inventory, out);
}

static void plan_text_check_switch(const struct br_inventory *inventory, const struct widths *w,
                                   uint32_t level, uint32_t index, FILE *out)
{
    char name[BR_HOST_NAME], subnet[BR_ADDRESS_TEXT], address[BR_ADDRESS_TEXT];
    fprintf(out, "\nSwitch %s (level %u, %s)\n\n",
            br_inventory_switch_name(inventory, level, index, name), level,
            br_plan_subnet(inventory, level, index, subnet));
    for (uint32_t port = 0; port < inventory->cabling.cube.n; port++) {
        uint32_t host = br_bcube_switch_host(&inventory->cabling.cube, level, index, port);
        if (!br_plan_has_cable(inventory, host, level))
            continue;
        const struct br_inventory_nic *nic = &inventory->hosts[host].nics[level];
        fprintf(out, "  [ ] port %-*s  to  %-*s  %-*s  %s\n", w->port,
                br_inventory_port_name(inventory, level, index, port, name), w->host,
                inventory->hosts[host].name, w->nic, nic->name,
                br_address_text(nic->address, nic->bits, address));
    }
}

void br_plan_checklist(const struct br_inventory *inventory, FILE *out)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1);
    struct widths widths = plan_text_measure(inventory);
    struct sums sums = plan_text_add_up(inventory);
    fprintf(out, "Checklist of BCube(%u,%u): %u hosts, %u switches, %u cables\n\n", cube->n,
            cube->k, sums.hosts, sums.switches, sums.cables);
    fputs(
        "Tick a cable when it is plugged in at both ends, labelled there, and both lights are on.\n"
        "No switch is connected to another one.\n",
        out);
    for (uint32_t i = 0; i < switches * cube->k; i++)
        if (br_plan_has_switch(inventory, i / switches, i % switches))
            plan_text_check_switch(inventory, &widths, i / switches, i % switches, out);
    fputs("\nIn the end\n\n"
          "  [ ] no switch has a cable that is not on this list\n"
          "  [ ] `braid bcube check` has found nothing\n"
          "\n  done by ____________________   on ____________________\n",
          out);
}
