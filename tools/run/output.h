/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processes of a job print, line by line, each with a label in front. */
#ifndef BR_TOOLS_RUN_OUTPUT_H
#define BR_TOOLS_RUN_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#define BR_RUN_LINE 16384 /* a longer line is cut in two */

/* One stream of one process. */
struct br_run_output {
    int from;        /* read end of the pipe, non-blocking; -1: closed */
    int to;          /* our own 1 or 2 */
    char prefix[56]; /* with colour where `to` is a terminal */
    size_t used;     /* bytes of the line that has not ended yet */
    char line[BR_RUN_LINE];
};

/*
 * Makes a pipe: *child is the end that the process gets. Where `to` is a terminal the label is
 * coloured by `colour`, any number from
 * 0. Negative errno with a message.
 */
int br_run_output_open(struct br_run_output *output, const char *label, int colour, int to,
                       int *child);

/* Copies what there is, whole lines only, until the pipe is empty; at its end closes it. Blocks
 * while `to` does. -EPIPE and others: our output is no longer read. */
int br_run_output_copy(struct br_run_output *output);

/* The last line, although it has no end, then closes. */
int br_run_output_close(struct br_run_output *output);

#endif
