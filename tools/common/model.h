/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The learnable layers of a network, from a file of data/models/: comment lines start with #, then
 * a line of column names, then "number,name,kind,parameters,forward_multiply_adds" in the order of
 * the forward pass.
 */
#ifndef BR_TOOLS_COMMON_MODEL_H
#define BR_TOOLS_COMMON_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define BR_MODEL_LAYERS 1024

struct br_model_layer {
    char name[64];
    size_t parameters;
    uint64_t multiply_adds; /* of the forward pass, for one sample */
};

struct br_model {
    char title[96]; /* the first comment line with text; without one, the path */
    struct br_model_layer *layers;
    int count;
    size_t parameters; /* of all layers */
};

/* On success the caller frees with br_model_free(). -ENOENT ..., -EINVAL with a message naming file
 * and line, -ENOMEM. */
int br_model_load(const char *path, struct br_model *model);
void br_model_free(struct br_model *model);

#endif
