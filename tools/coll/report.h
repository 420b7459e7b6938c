/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What `braid allreduce` and its sisters print: nccl-tests' columns on stdout, and the same rows as
 * JSON. Rank 0 only; one thread.
 */
#ifndef BR_TOOLS_COLL_REPORT_H
#define BR_TOOLS_COLL_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <braid/braid.h>

struct br_report;

/* One of the two halves of a row. */
struct br_report_half {
    bool valid;       /* false: prints N/A (there is no in-place form) */
    double us;        /* one call */
    double algorithm; /* GB/s */
    double bus;       /* GB/s */
    long wrong;       /* elements on all ranks; -1: not checked */
};

struct br_report_row {
    size_t bytes, count;
    const char *type, *reduction; /* "none" where there is no reduction */
    int root;                     /* -1: none */
    const char *algorithm;        /* for the JSON; NULL: unknown */
    struct br_report_half out_of_place, in_place;
};

/* json: file to write at the end, or NULL; it is opened at once, so that a bad path shows before
 * the work. NULL with a message when it cannot be, or without memory. */
struct br_report *br_report_new(const char *collective, const char *json);
/* A fact of the run for the JSON: "ranks", "algorithm", ... */
void br_report_text(struct br_report *report, const char *name, const char *value);
void br_report_number(struct br_report *report, const char *name, double value);

void br_report_header(void);
void br_report_add(struct br_report *report, const struct br_report_row *row);
/* This rank's rails for the JSON. */
void br_report_rails(struct br_report *report, struct braid_comm *comm);

/* Prints the footer, writes the JSON. 0; -errno with a message when the file cannot be written. */
int br_report_finish(struct br_report *report);
/* Rows with wrong elements so far. */
int br_report_failures(const struct br_report *report);
void br_report_free(struct br_report *report); /* NULL allowed */

#endif
