/* SPDX-License-Identifier: BSD-3-Clause */
/* The inventory of an emulated BCube. */
#include "base/error.h"
#include "tools/bcube/rate.h"
#include "tools/bcube/testbed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOPBACK_RATE 10000000000ull /* bit/s; nothing is shaped there, and an inventory says some rate */

static void write_host(FILE *out, const struct br_testbed *testbed, uint32_t host)
{
    char name[BR_TESTBED_HOST], space[BR_NAMESPACE_NAME], address[BR_TESTBED_ADDRESS],
        nic[BR_TESTBED_ADDRESS], mac[18];

    br_testbed_management(testbed, host, address);
    fprintf(out, "  - name: %s\n    reach: %s\n    management: %.*s\n    nics:\n",
            br_testbed_host_name(testbed, host, name),
            testbed->loopback ? "here" : br_testbed_host_space(testbed, host, space),
            (int)strcspn(address, "/"), address);
    for (uint32_t level = 0; level < testbed->cube.k; level++) {
        fprintf(out, "      - {name: %s, address: %s", br_testbed_nic(testbed, host, level, nic),
                br_testbed_address(testbed, host, level, address));
        if (!testbed->loopback)
            fprintf(out, ", mac: \"%s\"", br_testbed_mac(host, level, mac));
        fputs("}\n", out);
    }
}

int br_testbed_write_inventory(const struct br_testbed *testbed)
{
    char path[BR_TESTBED_FOLDER + 32], rate[BR_RATE_TEXT];
    FILE *out = fopen(br_testbed_path(testbed, BR_TESTBED_INVENTORY, path), "we");
    bool good;

    if (!out)
        return br_error(errno, "cannot write %s: %s", path, strerror(errno));
    fprintf(out, "# The emulated testbed %s, by `braid bcube emulate`; it goes with it.\n", testbed->name);
    fprintf(out, "shape: {n: %u, k: %u}\nreach: %s\nrate: %s\nmtu: %u\nhosts:\n", testbed->cube.n,
            testbed->cube.k, "emulation", br_rate_print(testbed->rate ? testbed->rate : LOOPBACK_RATE, rate),
            testbed->mtu);
    for (uint32_t host = 0; host < testbed->hosts; host++)
        write_host(out, testbed, host);
    good = !ferror(out);
    return fclose(out) == 0 && good ? 0 : br_error(EIO, "cannot write %s", path);
}
