/* SPDX-License-Identifier: BSD-3-Clause */
/* Surveys made by hand: a healthy testbed, and wires that a test may plug elsewhere. */
#ifndef BR_TESTS_TOOLS_TESTBED_SYNTHETIC_H
#define BR_TESTS_TOOLS_TESTBED_SYNTHETIC_H

#include "tools/testbed/diagnose.h"

#define SYNTHETIC_RATE 100e6

/* Everything as planned, nothing heard yet; fails the test when out of memory. */
void synthetic_init(struct br_survey *survey, uint32_t n, uint32_t k);

/* Ends of the cables: wires[port] is the number of the switch it ends at; < 0: nothing passes. As
 * planned at first. */
void synthetic_wires(const struct br_survey *survey, int *wires);

/* All NICs that are up on one switch hear each other, and everything else does not; links follow:
 * who cannot hear the right partner cannot reach it. */
void synthetic_hear(struct br_survey *survey, const int *wires);

/* Diagnoses; fails the test unless there is exactly one finding that is no note, of this code,
 * whose title names all of `nouns`. */
void expect_one(const struct br_survey *survey, const char *code, const char *nouns);
/* Nothing at all. */
void expect_none(const struct br_survey *survey);

/* Diagnoses into `findings`, which the caller destroys. */
void synthetic_diagnose(const struct br_survey *survey, struct br_findings *findings);

struct br_nic *synthetic_nic(struct br_survey *survey, uint32_t host, uint32_t level);
/* The direction from a to b, which are neighbours. */
struct br_survey_link *synthetic_link(struct br_survey *survey, uint32_t a, uint32_t b);

#endif
