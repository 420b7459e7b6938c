/* SPDX-License-Identifier: BSD-3-Clause */
/* A survey and its findings as text, JSON and HTML. */
#ifndef BR_TOOLS_TESTBED_CHECK_REPORT_H
#define BR_TOOLS_TESTBED_CHECK_REPORT_H

#include <stdio.h>

#include "bcube/cabling.h"
#include "tools/testbed/finding.h"
#include "tools/testbed/statistics.h"
#include "tools/testbed/survey.h"

struct br_check_report {
    const struct br_survey *survey;
    const struct br_findings *findings;
    const struct br_cabling *cabling; /* of the inventory, to draw */
    const char *title;                /* of the testbed: its name or its inventory's */
    double seconds;                   /* that the check took */
};

enum br_link_value { BR_LINK_ALONE, BR_LINK_TOGETHER, BR_LINK_LATENCY };

/* Of a link: Mb/s or us; 0: not measured. */
double br_link_value(const struct br_survey_link *link, enum br_link_value value);
/* Of a level's links. Without memory: of none. */
struct br_spread br_link_spread(const struct br_survey *survey, uint32_t level,
                                enum br_link_value value);

/* Is it to be marked? By median and MAD; what a busy machine does to loaded links and latencies is
 * not. */
bool br_link_outlier(const struct br_spread *spread, const struct br_survey_link *link,
                     enum br_link_value value);

int br_check_unhealthy(const struct br_check_report *report); /* errors and warnings */
void br_check_text(const struct br_check_report *report, bool colour, FILE *out);
int br_check_json(const struct br_check_report *report, FILE *out); /* -ENOMEM with a message */
int br_check_html(const struct br_check_report *report, FILE *out); /* -EIO with a message */

#endif
