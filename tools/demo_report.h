/* SPDX-License-Identifier: BSD-3-Clause */
/* What a person sees of `braid demo`: the opening, progress while it works, the table at the end. Rank 0 prints; one thread. */
#ifndef BR_TOOLS_DEMO_REPORT_H
#define BR_TOOLS_DEMO_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <braid/braid.h>

#include "tools/model.h"

#define BR_DEMO_RANKS 64

enum br_demo_phase {
    BR_DEMO_ALONE,      /* each layer by itself */
    BR_DEMO_PRIORITIES, /* all at once, the first layer most urgent */
    BR_DEMO_EQUAL,      /* all at once, in the order of submission */
    BR_DEMO_PHASES,
};

struct br_demo_report {
    const struct br_model *model;
    int ranks, iterations;
    bool live;                      /* a terminal: one line is redrawn */
    double *last_us;                /* layers + 1: what the current iteration measured; the last: the whole */
    double *sum_us[BR_DEMO_PHASES]; /* the same, summed over iterations */
    int rounds[BR_DEMO_PHASES];     /* iterations in the sums */
    uint64_t wrong, checked;        /* values on all ranks */
    enum br_demo_phase phase;
    int iteration;
    uint64_t started, drawn; /* ns; 0: not yet */
};

int br_demo_report_open(struct br_demo_report *report, const struct br_model *model, int ranks,
                        int iterations, bool live);
void br_demo_report_close(struct br_demo_report *report);

void br_demo_opening(const struct br_demo_report *report, struct braid_comm *comm);
void br_demo_phase_begin(struct br_demo_report *report, enum br_demo_phase phase, int iteration);
/* what: a step or the layer that has just ended; NULL: as before. bytes: gradients reduced so far in this phase. */
void br_demo_progress(struct br_demo_report *report, const char *what, uint64_t bytes, uint64_t now);
void br_demo_phase_end(struct br_demo_report *report, enum br_demo_phase phase, uint64_t wrong);
void br_demo_report(const struct br_demo_report *report, struct braid_comm *comm);

#endif
