/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules as drawings for people. */
#ifndef BR_TOOLS_PLAN_SHOW_H
#define BR_TOOLS_PLAN_SHOW_H

#include <stdio.h>

#include "collectives/schedule/schedule.h"

/*
 * The schedules of all ranks as one Graphviz drawing, for `dot`: a column a rank, a row a round of
 * messages, arrows in the colours of their levels, the thicker the more pieces. n =
 * schedules[0]->n; readable up to about 16. 0; -EIO, or -EINVAL where br_matching_init says so,
 * with a message; -ENOMEM.
 */
int br_show_dot(const struct br_schedule *const *schedules, FILE *stream);

#endif
