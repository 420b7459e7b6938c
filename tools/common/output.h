/* SPDX-License-Identifier: BSD-3-Clause */
/* A file that an option names: "-" is standard output. An older file of the name stays until all of
 * the new one is on the disk (base/file.h). One thread. */
#ifndef BR_TOOLS_COMMON_OUTPUT_H
#define BR_TOOLS_COMMON_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct cJSON;

/* Open for writing. NULL with a message in *rc, a negative errno: also when there is such a file
 * and it may not be replaced. */
FILE *br_output_open(const char *path, bool replace, int *rc);

/* Can it be written? To be asked before minutes of measuring; nothing is changed. Negative errno
 * with a message. */
int br_output_may_write(const char *path);

/* Closes. rc: of the writing; returned if it is an error, and then an older file stays. Else 0, or
 * a negative errno with a message: the disk is full. */
int br_output_close(FILE *out, const char *path, int rc);

/* Writes the tree and a line end. -ENOMEM with a message; that the disk is full, br_output_close()
 * says. */
int br_output_json(FILE *out, const struct cJSON *root);

#endif
