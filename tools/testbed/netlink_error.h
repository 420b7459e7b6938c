/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of netlink share. */
#ifndef BR_TOOLS_TESTBED_NETLINK_ERROR_H
#define BR_TOOLS_TESTBED_NETLINK_ERROR_H

#include "tools/testbed/netlink.h"

/* rc: a negative number of libnl. "bcube-h00: cannot <what> <link>: why"; the errno that fits best,
 * negative. */
int br_net_error(const struct br_net *net, int rc, const char *what, const char *link);

/* The number of a link, or a negative errno with a message. */
int br_net_index(struct br_net *net, const char *link);

#endif
