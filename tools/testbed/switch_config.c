/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/switch_config.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "tools/testbed/plan_text.h"

#define VLAN_FIRST 100
#define VLAN_LAST  4000 /* NX-OS keeps some above for itself */

struct place {
    const struct br_inventory *inventory;
    uint32_t level, index, vlan;
    FILE *out;
};

static const struct system {
    const char *name, *comment;
    const char *stem; /* of a port's name; the number behind it is first + digit * step */
    uint32_t first, step;
    void (*begin)(const struct place *place, const char *name);
    void (*port_lines)(const struct place *place, const char *port, const char *host,
                       const struct br_inventory_nic *nic);
} systems[BR_SWITCH_KINDS];

int br_switch_kind_parse(const char *text, enum br_switch_kind *kind)
{
    for (int i = 0; i < BR_SWITCH_KINDS; i++) {
        if (!strcmp(text, systems[i].name)) {
            *kind = (enum br_switch_kind)i;
            return 0;
        }
    }
    return br_error(EINVAL, "--switch-config %.40s: known are cisco, sonic and linux", text);
}

/* What a switch must carry for hosts with this MTU: VLAN tag and a margin. */
static uint32_t switch_mtu(const struct place *place)
{
    return place->inventory->mtu <= 1500 ? 1500 : 9216;
}

static void cisco_begin(const struct place *place, const char *name)
{
    fprintf(place->out, "hostname %s\nfeature lldp\nvlan %u\n  name bcube-l%u-s%u\n", name,
            place->vlan, place->level, place->index);
}

static void cisco_port(const struct place *place, const char *port, const char *host,
                       const struct br_inventory_nic *nic)
{
    fprintf(place->out,
            "interface %s\n  description %s %s\n  switchport\n  switchport mode access\n  "
            "switchport access "
            "vlan %u\n"
            "  mtu %u\n  spanning-tree port type edge\n  no shutdown\n",
            port, host, nic->name, place->vlan, switch_mtu(place));
}

static void sonic_begin(const struct place *place, const char *name)
{
    fprintf(place->out,
            "sudo config hostname %s\nsudo config feature state lldp enabled\nsudo config vlan add "
            "%u\n",
            name, place->vlan);
}

static void sonic_port(const struct place *place, const char *port, const char *host,
                       const struct br_inventory_nic *nic)
{
    fprintf(place->out,
            "# %s %s\nsudo config interface mtu %s %u\nsudo config vlan member add -u %u %s\n"
            "sudo config interface startup %s\n",
            host, nic->name, port, switch_mtu(place) == 1500 ? 1500u : 9100u, place->vlan, port,
            port);
}

static void linux_begin(const struct place *place, const char *name)
{
    fprintf(place->out,
            "hostname %s\nip link add name l%us%u type bridge stp_state 0 forward_delay 0 "
            "mcast_snooping 0\n"
            "ip link set dev l%us%u up\n",
            name, place->level, place->index, place->level, place->index);
}

static void linux_port(const struct place *place, const char *port, const char *host,
                       const struct br_inventory_nic *nic)
{
    fprintf(place->out,
            "ip link set dev %s alias '%s %s'\nip link set dev %s mtu %u master l%us%u up\n", port,
            host, nic->name, port, place->inventory->mtu, place->level, place->index);
}

static const struct system systems[BR_SWITCH_KINDS] = {
    [BR_SWITCH_CISCO] = {"cisco", "!", "Ethernet1/", 1, 1, cisco_begin, cisco_port},
    [BR_SWITCH_SONIC] = {"sonic", "#", "Ethernet", 0, 4, sonic_begin, sonic_port},
    [BR_SWITCH_LINUX] = {"linux", "#", "swp", 1, 1, linux_begin, linux_port},
};

static void port_name(const struct place *place, const struct system *system, uint32_t port,
                      char *out)
{
    const struct br_inventory_switch *own =
        br_inventory_switch(place->inventory, place->level, place->index);
    if (own && port < own->n_ports) {
        br_inventory_port_name(place->inventory, place->level, place->index, port, out);
        return;
    }
    snprintf(out, BR_HOST_NAME, "%s%u", system->stem, system->first + port * system->step);
}

static void switch_config_write_switch(const struct place *place, const struct system *system)
{
    const struct br_inventory *inventory = place->inventory;
    char name[BR_HOST_NAME], subnet[BR_ADDRESS_TEXT], port_text[BR_HOST_NAME];
    br_inventory_switch_name(inventory, place->level, place->index, name);
    fprintf(place->out, "\n%s %s: level %u, index %u, subnet %s\n", system->comment, name,
            place->level, place->index,
            br_plan_subnet(inventory, place->level, place->index, subnet));
    system->begin(place, name);
    for (uint32_t port = 0; port < inventory->cabling.cube.n; port++) {
        uint32_t host =
            br_bcube_switch_host(&inventory->cabling.cube, place->level, place->index, port);
        if (!br_plan_has_cable(inventory, host, place->level))
            continue;
        port_name(place, system, port, port_text);
        system->port_lines(place, port_text, inventory->hosts[host].name,
                           &inventory->hosts[host].nics[place->level]);
    }
}

int br_switch_config(const struct br_inventory *inventory, enum br_switch_kind kind, FILE *out)
{
    const struct br_bcube *cube = &inventory->cabling.cube;
    uint32_t switches = br_bcube_power(cube, cube->k - 1), all = switches * cube->k;
    const struct system *system = &systems[kind];
    if (kind != BR_SWITCH_LINUX && all > VLAN_LAST - VLAN_FIRST + 1)
        return br_error(EINVAL, "%u switches need more VLANs than the %d that a %s switch has free",
                        all, VLAN_LAST - VLAN_FIRST + 1, system->name);
    fprintf(out,
            "%s No switch routes, and none is connected to another. Digit 0 is port %s%u, 1 is "
            "%s%u, unless "
            "labelled.\n",
            system->comment, system->stem, system->first, system->stem,
            system->first + system->step);
    for (uint32_t i = 0; i < all; i++) {
        struct place place = {inventory, i / switches, i % switches, VLAN_FIRST + i, out};
        if (br_plan_has_switch(inventory, place.level, place.index))
            switch_config_write_switch(&place, system);
    }
    return 0;
}
