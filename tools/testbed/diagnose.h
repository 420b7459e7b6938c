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

#endif
