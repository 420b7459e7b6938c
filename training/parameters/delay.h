/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long an iteration takes with delayed pulls, by the formula of the SSD-SGD paper, and how many
 * iterations from pull to pull are enough. All times in seconds.
 */
#ifndef BR_TRAINING_PARAMETERS_DELAY_H
#define BR_TRAINING_PARAMETERS_DELAY_H

#define BR_DELAY_MAX 4 /* the paper's accuracy falls at 5 */

struct br_delay_times {
    double forward, backward; /* of an iteration: T_f, T_b */
    double local;             /* update of the local weights: h_loc */
    double communication;     /* from the first push to the last pull of an iteration: T_c */
    double push;              /* all pushes of an iteration: sum(h_s) */
    double last_backward;     /* of the last layer, before which nothing can be pushed: h_bL */
};

/* Seconds of one iteration without delay: communication overlaps the backward pass, and the next
 * forward pass waits for it. */
double br_delay_ssgd(const struct br_delay_times *times);

/* Mean seconds of an iteration with a pull in every k-th; k >= 1. Never less than the computation
 * or the pushes take. */
double br_delay_iteration(const struct br_delay_times *times, int k);

/* The same, and never less than a link needs for the pushes of k iterations and the pulls of one,
 * as where every worker is a server too. This bound is ours and not the paper's. */
double br_delay_shared(const struct br_delay_times *times, int k);

/* The smallest k of 1..BR_DELAY_MAX after which one more saves less than 3 % by br_delay_shared().
 */
int br_delay_choose(const struct br_delay_times *times);

#endif
