/* SPDX-License-Identifier: BSD-3-Clause */
/* Which network devices a rank uses, as far as it can say alone. */
#ifndef BR_COLLECTIVES_COMM_DEVICES_H
#define BR_COLLECTIVES_COMM_DEVICES_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "bcube/wiring.h"
#include "transport/transport.h"

struct br_environment;
struct br_context;
struct br_settings;

struct br_devices {
    int n;        /* devices to open; in a BCube its levels */
    bool ordered; /* the names say which device is which level */
    /* none of them is loopback, and no NIC serves twice */
    bool real;
    /* as br_device_config takes them; "": there is none */
    char names[BR_WIRING_NICS][BR_DEVICE_NAME];
    char nics[BR_WIRING_NICS][IF_NAMESIZE]; /* the interfaces behind them; BCube only */
};

/* Are all ranks on one host, as far as the launcher has said? */
bool br_devices_one_host(const struct br_environment *environment);

/* Lists the devices that the user or an inventory names; n == 0: none is named. Returns 0, -E2BIG
 * or -EINVAL with a message. */
int br_devices_named(const struct br_settings *settings, struct br_devices *devices);

/* Lists the devices that are named, or else those of this host for settings.network. Blocks
 * briefly. Returns 0; -ENETDOWN (no interface is up, but one may come up yet), -EINVAL, -ENODEV or
 * another negative errno with a message. */
int br_devices_list(const struct br_context *context, struct br_devices *devices);

/* Checks that in a BCube there is a device for each level. Returns 0, or -EINVAL with a message. */
int br_devices_check_count(const struct br_context *context, const struct br_devices *devices);

/* Are the interfaces up that the devices are named after? Blocks briefly. Returns 0, or -ENETDOWN
 * with a message; what else is wrong with a name is left to whoever opens the device. */
int br_devices_check_up(const struct br_context *context, const struct br_devices *devices);

#endif
