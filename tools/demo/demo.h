/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `braid demo` in three parts: the command (demo.c), which makes the testbeds and starts the ranks
 * on them; one rank (rank.c); the table (report.c). The ranks' results travel in a file
 * of one line a run.
 */
#ifndef BR_TOOLS_DEMO_DEMO_H
#define BR_TOOLS_DEMO_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One algorithm on one network with one model, as rank 0 measured it. */
struct br_demo_result {
    char model[24];         /* "vgg19" */
    char algorithm[24];     /* "bml" */
    char network[24];       /* "BCube(3,2)" */
    uint32_t hosts, levels; /* of the network: N, k */
    double bytes;           /* of the gradients of a rank */
    double whole_bytes;     /* of the model; more than `bytes` when it was scaled down */
    /* from the first submission to the end on the slowest rank; mean of `rounds` */
    double seconds;
    /* the same, until the layer is ready that the next forward pass begins with */
    double first_seconds;
    double goodput;          /* bytes/s that one link carried alone, one way, in this run */
    uint64_t checked, wrong; /* values on all ranks */
    uint32_t rounds;
};

/* rank.c: this process is one rank. Returns the exit code. */
int br_demo_rank(int argc, char **argv);

/* report.c. One line of the file, and back: 1, 0 at the end, -EINVAL with a message. */
int br_demo_result_write(FILE *file, const struct br_demo_result *result);
int br_demo_result_read(FILE *file, struct br_demo_result *result);

/* The table for people, on stdout. shaped: the links had a rate; else memory and CPU are the limit,
 * and theory says nothing. */
void br_demo_print(const struct br_demo_result *results, int count, bool shaped);

/* For who reads no terminal: a line when something begins or has ended. words: "begins", or the
 * time that it took. */
void br_demo_say(const char *network, const char *algorithm, const char *model, const char *text);

/* A line that is redrawn while a rank works; only on a terminal. */
void br_demo_progress(const char *network, const char *algorithm, const char *model, double share,
                      const char *what);
void br_demo_progress_end(void);

#endif
