/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/testbed/site.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"

static int open_testbed(struct br_site *site, const char *name)
{
    struct br_testbed testbed;
    char path[BR_TESTBED_FOLDER + 32];
    int rc = br_testbed_open(&testbed, name, false);
    if (rc)
        return rc;
    rc = br_testbed_check_ready(&testbed);
    if (!rc)
        rc = br_inventory_load(&site->inventory,
                               br_testbed_path(&testbed, BR_TESTBED_INVENTORY, path));
    snprintf(site->testbed_name, sizeof site->testbed_name, "%s", testbed.name);
    snprintf(site->title, sizeof site->title, "%s (emulated)", testbed.name);
    site->testbed = site->testbed_name;
    br_testbed_close(&testbed);
    return rc;
}

int br_site_open(struct br_site *site, const struct br_site_options *options)
{
    int rc;
    *site = (struct br_site){0};
    if (options->inventory) {
        rc = br_inventory_load(&site->inventory, options->inventory);
        snprintf(site->title, sizeof site->title, "%s", options->inventory);
        if (options->name) { /* for the remedy commands */
            snprintf(site->testbed_name, sizeof site->testbed_name, "%s", options->name);
            site->testbed = site->testbed_name;
        }
    } else {
        rc = open_testbed(site, options->name);
    }
    if (!rc && site->inventory.access == BR_INVENTORY_HERE)
        rc = br_error(
            EINVAL,
            "the hosts of %s are addresses of this machine: there are no cables to check. As root, "
            "`braid bcube emulate N K` makes hosts with NICs",
            site->title);
    return rc;
}

void br_site_close(struct br_site *site)
{
    br_inventory_destroy(&site->inventory);
    *site = (struct br_site){0};
}

bool br_site_any_reached(const struct br_survey *survey)
{
    for (int h = 0; h < survey->n_hosts; h++)
        if (survey->hosts[h].reached)
            return true;
    return false;
}

void br_site_progress(const char *step)
{
    fprintf(stderr, "\r\033[K%s%s", step ? step : "", step ? " ..." : "");
    fflush(stderr);
}
