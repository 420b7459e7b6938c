/* SPDX-License-Identifier: BSD-3-Clause */
/* Why RDMA, or one port of it, cannot be used, and the command that mends it. The functions may be
 * called from any thread and do not block. */
#ifndef BR_TRANSPORT_VERBS_DIAGNOSIS_H
#define BR_TRANSPORT_VERBS_DIAGNOSIS_H

#include "transport/verbs/probe.h"

/* Writes the first reason why a port cannot be used to *out; it is empty when the port can be used.
 * For br_verbs_port.diagnosis. */
void br_verbs_port_diagnosis(const struct br_verbs_host *host, const struct br_verbs_port *port,
                             struct br_verbs_diagnosis *out);

/* Returns whether the process may lock less memory than a rank needs. */
bool br_verbs_memlock_is_low(const struct br_verbs_host *host);

/* Writes what is wrong with the host as a whole to out[0..max). Returns how many entries it has
 * written. */
int br_verbs_host_diagnose(const struct br_verbs_host *host, struct br_verbs_diagnosis *out,
                           int max);

#endif
