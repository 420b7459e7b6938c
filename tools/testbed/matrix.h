/* SPDX-License-Identifier: BSD-3-Clause */
/* alpha and beta of every link, and their heat maps: a row a host, for each level a column a digit
 * of the receiver. */
#ifndef BR_TOOLS_TESTBED_MATRIX_H
#define BR_TOOLS_TESTBED_MATRIX_H

#include <stdio.h>

#include "tools/testbed/collect.h"

struct br_matrix_cell {
    double alpha; /* us, one way, of a small message; 0: not measured */
    double beta;  /* s/byte of a large one; 0: not measured */
};

struct br_matrix {
    const struct br_survey *survey;
    struct br_matrix_cell *cells; /* by link */
    const char *title;
};

/* From the times of trips: alpha is half of the smallest message's, beta the slope over the
 * others. */
struct br_matrix_cell br_matrix_fit(const double sizes[BR_TRIP_SIZES],
                                    const double us[BR_TRIP_SIZES]);

double br_matrix_gbit(const struct br_matrix_cell *cell); /* Gb/s; 0: not measured */

/* Colours: 24-bit backgrounds, for a terminal. */
void br_matrix_text(const struct br_matrix *matrix, bool colour, FILE *out);
void br_matrix_svg(const struct br_matrix *matrix, FILE *out);
int br_matrix_json(const struct br_matrix *matrix, FILE *out); /* -ENOMEM with a message */

#endif
