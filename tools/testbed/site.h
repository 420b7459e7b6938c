/* SPDX-License-Identifier: BSD-3-Clause */
/* Which testbed check and matrix look at: an inventory file or an emulation. */
#ifndef BR_TOOLS_TESTBED_SITE_H
#define BR_TOOLS_TESTBED_SITE_H

#include "protocol/bootstrap/inventory.h"
#include "tools/testbed/survey.h"
#include "tools/testbed/testbed.h"

struct br_site_options {
    const char *inventory, *name; /* NULL: not given */
    const char *agent;            /* path of braid on the hosts, NULL: the usual */
};

/* The rows of a table of options (tools/common/options.h) that fill a struct br_site_options. */
#define BR_SITE_OPTIONS(site)                                                                      \
    {"inventory",                                                                                  \
     0,                                                                                            \
     BR_OPTION_TEXT,                                                                               \
     &(site)->inventory,                                                                           \
     0,                                                                                            \
     0,                                                                                            \
     "FILE the plan, and how to reach the hosts"},                                                 \
        {"name",                                                                                   \
         0,                                                                                        \
         BR_OPTION_TEXT,                                                                           \
         &(site)->name,                                                                            \
         0,                                                                                        \
         0,                                                                                        \
         "NAME an emulated testbed; without it the only one that there is"},                       \
    {                                                                                              \
        "agent", 0, BR_OPTION_TEXT, &(site)->agent, 0, 0,                                          \
            "PATH of braid on the hosts, where it is not in their PATH"                            \
    }

struct br_site {
    struct br_inventory inventory;
    char title[256];
    char testbed_name[BR_TESTBED_NAME];
    const char *testbed; /* points to testbed_name; NULL: it is no emulation, or not known which */
};

/* Loads. -EINVAL, -ENOENT and others with a message: no such testbed, a bad file, hosts without
 * network namespaces of their own. */
int br_site_open(struct br_site *site, const struct br_site_options *options);
void br_site_close(struct br_site *site); /* also of a zeroed one */

bool br_site_any_reached(const struct br_survey *survey);

/* What is done now, on the terminal's last line; NULL clears it. */
void br_site_progress(const char *step);

#endif
