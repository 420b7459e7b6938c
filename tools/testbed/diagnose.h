/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From a survey to findings. Pure: no I/O, no clock.
 *
 * The order is from the cause to the effect: hosts, NICs, cables, addresses, kernel settings, MTU,
 * echoes, rates. Each stage leaves alone what an earlier one has explained, and counts it there as
 * a consequence, so that one swapped pair of cables is one finding and not forty hosts that do not
 * answer.
 */
#ifndef BR_TOOLS_TESTBED_DIAGNOSE_H
#define BR_TOOLS_TESTBED_DIAGNOSE_H

#include "tools/testbed/finding.h"
#include "tools/testbed/survey.h"

/* Everything, sorted. 0; -ENOMEM with a message (what was found is there nevertheless). */
int br_diagnose(const struct br_survey *survey, struct br_findings *findings);

/* The stages, for diagnose.c. */
void br_diagnose_nics(const struct br_survey *survey, struct br_findings *findings);
int br_diagnose_cabling(const struct br_survey *survey,
                        struct br_findings *findings); /* -ENOMEM with a message */
void br_diagnose_addresses(const struct br_survey *survey, struct br_findings *findings);
void br_diagnose_settings(const struct br_survey *survey, struct br_findings *findings);
void br_diagnose_rdma(const struct br_survey *survey, struct br_findings *findings);
/* -ENOMEM with a message */
int br_diagnose_links(const struct br_survey *survey, struct br_findings *findings);

/* The finding that explains why a port does not work: its index, -1: none yet. */
int br_diagnose_cause(const struct br_survey *survey, const struct br_findings *findings,
                      uint32_t port);

/* The command that runs CMD on a host, for a remedy: "ssh root@10.0.0.1 CMD". out: 384
 * bytes. */
char *br_diagnose_on(const struct br_survey *survey, uint32_t host, char out[384],
                     const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
