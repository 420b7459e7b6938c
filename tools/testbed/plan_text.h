/* SPDX-License-Identifier: BSD-3-Clause */
/* What `braid bcube plan` prints of an inventory that is sound. Errors of writing stay in the
 * stream. */
#ifndef BR_TOOLS_TESTBED_PLAN_TEXT_H
#define BR_TOOLS_TESTBED_PLAN_TEXT_H

#include <stdio.h>

#include "protocol/bootstrap/inventory.h"

/* The subnet of a switch, as its first NIC has it; "A.B.C.D/LEN" into out, which holds
 * BR_ADDRESS_TEXT bytes and is returned. */
char *br_plan_subnet(const struct br_inventory *inventory, uint32_t level, uint32_t index,
                     char *out);

/* Is there a cable: does the host exist, and has it a NIC of the level? */
bool br_plan_has_cable(const struct br_inventory *inventory, uint32_t host, uint32_t level);

/* Has the switch any cable? */
bool br_plan_has_switch(const struct br_inventory *inventory, uint32_t level, uint32_t index);

/* "9 hosts of 2 NICs, 6 switches of 3 ports, 18 cables": what is really there. Returns out. */
char *br_plan_sums(const struct br_inventory *inventory, char *out, size_t bytes);

/* Sums, subnets by level, one line for each cable. */
void br_plan_list(const struct br_inventory *inventory, FILE *out);

/* One line with a box for each cable, switch by switch, to be printed on paper. */
void br_plan_checklist(const struct br_inventory *inventory, FILE *out);

#endif
