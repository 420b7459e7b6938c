/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules as text and as drawings for people. */
#ifndef BR_COLLECTIVES_SHOW_H
#define BR_COLLECTIVES_SHOW_H

#include <stdio.h>

#include "collectives/schedule.h"

/* One line a step: number, what it does, what waits for it. Blocks as the stream does. 0; -EIO (words). */
int br_show_text(const struct br_schedule *schedule, FILE *stream);

/* The schedules of all ranks as one Graphviz digraph: a cluster a rank, solid edges for dependencies, dashed
 * ones for messages. n = schedules[0]->n. 0; -EIO, or -EINVAL where br_matching_init says so, with words;
 * -ENOMEM. */
int br_show_dot(const struct br_schedule *const *schedules, FILE *stream);

#endif
