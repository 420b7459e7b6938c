/* SPDX-License-Identifier: BSD-3-Clause */
/* Why RDMA, or one port of it, cannot be used, and the command that mends it. Pure functions, for
 * any thread. */
#ifndef BR_TRANSPORT_VERBS_DIAGNOSIS_H
#define BR_TRANSPORT_VERBS_DIAGNOSIS_H

#include "transport/verbs/probe.h"

/* The first trouble of a port: port->trouble of what probe() found. All empty: it can be used. */
void br_verbs_port_diagnosis(const struct br_verbs_host *host, const struct br_verbs_port *port,
                             struct br_verbs_diagnosis *out);

/* Less memory may be locked than a rank needs. */
bool br_verbs_memlock_is_low(const struct br_verbs_host *host);

/* Those of the host as a whole. Returns how many, at most max. */
int br_verbs_host_diagnose(const struct br_verbs_host *host, struct br_verbs_diagnosis *out,
                           int max);

#endif
