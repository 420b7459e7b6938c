/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of an emulated BCube. */
#include "base/error.h"
#include "base/file.h"
#include "protocol/bootstrap/inventory.h"
#include "tools/testbed/testbed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void testbed_inventory_fill_host(struct br_inventory *inventory,
                                        const struct br_testbed *testbed, uint32_t number)
{
    struct br_inventory_host *host = &inventory->hosts[number];
    char space[BR_NAMESPACE_NAME], name[BR_TESTBED_ADDRESS];

    if (!testbed->loopback)
        snprintf(host->access, sizeof host->access, "%s",
                 br_testbed_host_space(testbed, number, space));
    for (uint32_t level = 0; level < testbed->cube.k; level++) {
        struct br_inventory_nic *nic = &host->nics[level];

        nic->rate = testbed->rate;
        snprintf(nic->name, sizeof nic->name, "%.15s",
                 br_testbed_nic(testbed, number, level, name));
        if (!testbed->loopback)
            br_testbed_mac_bytes(number, level, nic->mac);
    }
}

int br_testbed_write_inventory(const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32];
    struct br_inventory inventory;
    int rc = br_inventory_default(&inventory, &testbed->cabling);
    struct br_file out;

    if (rc < 0)
        return rc;
    inventory.access = testbed->loopback ? BR_INVENTORY_HERE : BR_INVENTORY_EMULATION;
    inventory.mtu = testbed->mtu;
    inventory.rate = testbed->rate;
    for (uint32_t host = 0; host < testbed->hosts; host++)
        testbed_inventory_fill_host(&inventory, testbed, host);
    rc = br_file_open(&out, NULL, br_testbed_path(testbed, BR_TESTBED_INVENTORY, path), false);
    if (!rc) {
        fprintf(out.stream,
                "# The emulated testbed %s, by `braid bcube emulate`; it goes with it.\n",
                testbed->name);
        rc = br_file_close(&out, NULL, br_inventory_write(&inventory, out.stream));
    }
    br_inventory_destroy(&inventory);
    return rc;
}
