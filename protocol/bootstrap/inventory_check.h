/* SPDX-License-Identifier: BSD-3-Clause */
/* Contradictions within an inventory and between it and its shape. Pure. */
#ifndef BR_PROTOCOL_BOOTSTRAP_INVENTORY_CHECK_H
#define BR_PROTOCOL_BOOTSTRAP_INVENTORY_CHECK_H

#include "protocol/bootstrap/inventory.h"

/* One contradiction. line: where in the file, 0 when it is about something that is not there.
 * words: what is wrong and what to write; valid during the call. */
typedef void br_inventory_report(void *user, uint32_t line, const char *text);

/*
 * Calls report (may be NULL) for every contradiction: number of hosts, names, reach, management
 * addresses, missing NICs, addresses that two have, NICs outside the subnet of their switch, MACs
 * and PCI addresses that two have, switches and ports. Returns how many; 0: the inventory is sound;
 * -ENOMEM.
 */
int br_inventory_check(const struct br_inventory *inventory, br_inventory_report *report,
                       void *user);

/* The same as an error: 0, or -EINVAL with the message of the first contradiction, "FILE:LINE:
 * words", and how many more there are. */
int br_inventory_sound(const struct br_inventory *inventory);

#endif
