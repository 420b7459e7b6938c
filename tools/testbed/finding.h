/* SPDX-License-Identifier: BSD-3-Clause */
/* What diagnose found: codes, texts, what to colour. doc/check.md lists the codes. */
#ifndef BR_TOOLS_TESTBED_FINDING_H
#define BR_TOOLS_TESTBED_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/testbed/survey.h"

#define BR_FINDING_EVIDENCE  8
#define BR_FINDING_LOCATIONS 64

enum br_severity {
    BR_NOTE,    /* good to know; the testbed counts as healthy */
    BR_WARNING, /* it works, but worse than it should, or not for long */
    BR_ERROR,   /* something does not work */
};

enum br_location_kind { BR_LOCATION_HOST, BR_LOCATION_PORT, BR_LOCATION_SWITCH, BR_LOCATION_LINK };

/* Numbers as in survey.h. */
struct br_location {
    enum br_location_kind kind;
    uint32_t number;
};

struct br_finding {
    const char *code;
    enum br_severity severity;
    bool breaks; /* its ports cannot be expected to work: what fails there is a consequence */
    char title[256];
    int n_evidence;
    char evidence[BR_FINDING_EVIDENCE][256];
    char remedy[384];
    int n_locations;
    struct br_location locations[BR_FINDING_LOCATIONS];
    int consequences; /* directions of links that fail because of it */
};

struct br_findings {
    struct br_finding *list;
    int count, capacity;
    bool no_memory; /* findings are missing */
};

const char *br_severity_name(enum br_severity severity);

/* A new finding with its title; valid until the next one. Never NULL: without memory it is one that
 * is dropped. */
struct br_finding *br_finding_add(struct br_findings *findings, const char *code,
                                  enum br_severity severity, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* What does not fit is left out: evidence is a sample. */
void br_finding_evidence(struct br_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void br_finding_remedy(struct br_finding *finding, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void br_finding_location(struct br_finding *finding, enum br_location_kind kind, uint32_t number);

/* The worst severity of findings at this place, not counting links' ends; -1: none. */
int br_findings_at(const struct br_findings *findings, enum br_location_kind kind, uint32_t number);
int br_findings_count(const struct br_findings *findings, enum br_severity severity);
/* Returns the index of the finding that explains why a port does not work; -1: none yet. */
int br_findings_cause(const struct br_findings *findings, const struct br_survey *survey,
                      uint32_t port);
/* Worst first, then by code; order of equal ones stays. */
void br_findings_sort(struct br_findings *findings);
void br_findings_destroy(struct br_findings *findings);

#endif
