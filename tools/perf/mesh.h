/* SPDX-License-Identifier: BSD-3-Clause */
/* `braid perf mesh`: every pair of ranks of a job, or of a level of its BCube, one at a time and
 * all at once. */
#ifndef BR_TOOLS_PERF_MESH_H
#define BR_TOOLS_PERF_MESH_H

#include <stdint.h>
#include <stdio.h>

/* Row from, column to; n * n each; 0: no pair. */
struct br_mesh {
    uint32_t n;
    int64_t level; /* -1: all pairs */
    int64_t bytes; /* of a message of a stream */
    char title[160];
    double *alone;   /* s a byte of a stream */
    double *at_once; /* the same while all pairs stream */
    double *latency; /* s, half of there and back, 8 bytes, alone */
};

/* The command; argv[0] is "mesh". Returns the exit code. */
int br_perf_mesh(int argc, char **argv);

void br_mesh_text(const struct br_mesh *mesh, FILE *out);
void br_mesh_svg(const struct br_mesh *mesh, FILE *out);
int br_mesh_json(const struct br_mesh *mesh, FILE *out); /* -ENOMEM with a message */

#endif
