/* SPDX-License-Identifier: BSD-3-Clause */
/* Configuration snippets for the switches of a BCube. */
#ifndef BR_TOOLS_TESTBED_SWITCH_CONFIG_H
#define BR_TOOLS_TESTBED_SWITCH_CONFIG_H

#include <stdio.h>

#include "protocol/bootstrap/inventory.h"

enum br_switch_kind {
    BR_SWITCH_CISCO, /* NX-OS */
    BR_SWITCH_SONIC, /* SONiC's `config` */
    BR_SWITCH_LINUX, /* iproute2, switchdev included */
    BR_SWITCH_KINDS,
};

/* "cisco", ... -EINVAL with a message. */
int br_switch_kind_parse(const char *text, enum br_switch_kind *kind);

/*
 * One block for each switch that has cables: its ports in one VLAN (or bridge) of their own, MTU,
 * LLDP, no spanning tree delay. A VLAN number for each switch, so that several of them may be parts
 * of one device. Ports have the inventory's labels, else those that the system gives to the first
 * ports. -EINVAL with a message: more switches than there are VLANs, and the kind needs them.
 * Errors of writing stay in the stream.
 */
int br_switch_config(const struct br_inventory *inventory, enum br_switch_kind kind, FILE *out);

#endif
